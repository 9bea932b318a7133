"""Tells a load balancer whether this worker lives, and whether it should be sent requests.

Neither needs a token, and neither tells more than a cause in the server's own words.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from counterfoil.server.faults import internal_fault
from counterfoil.server.http.answers import fault_answer
from counterfoil.server.http.draining import Drain
from counterfoil.server.logs import logger
from counterfoil.store.errors import Fault, JournalUnavailable
from counterfoil.store.protocol import Connection

if TYPE_CHECKING:
    from counterfoil.store.journal import Journal

__all__ = ["LONGEST_LOOK_SECONDS", "Health"]

LONGEST_LOOK_SECONDS = 8
"""Longer than a writer waits for a lock (5 s), shorter than a load balancer waits for an answer (10 s)."""


class Health:
    """Looks at the journal: alive is who can read it, ready who can write it and is not about to end."""

    def __init__(self, journal: "Callable[[], Awaitable[Journal]]", drain: Drain) -> None:
        self._journal = journal
        self._drain = drain

    async def alive(self, request: Request) -> Response:
        """Answer `/healthz`: 503 with the cause where the journal cannot be read."""
        return await self._answer(self._read)

    async def ready(self, request: Request) -> Response:
        """Answer `/readyz`: 503 with the cause where no journal can be written, or the worker is ending."""
        if self._drain.is_announced:
            return fault_answer(503, JournalUnavailable("this worker is ending", fix="ask another one"))
        return await self._answer(self._write)

    async def _answer(self, look: Callable[[], Awaitable[None]]) -> Response:
        try:
            with anyio.fail_after(LONGEST_LOOK_SECONDS):
                await look()
        except TimeoutError:
            return fault_answer(
                503,
                JournalUnavailable(
                    f"the journal did not answer within {LONGEST_LOOK_SECONDS} s",
                    fix="see what its disk or database is doing; `counterfoil doctor` looks closer",
                ),
            )
        except Fault as fault:
            return fault_answer(503, fault)
        except Exception:
            logger.exception("looking at the journal failed")
            return fault_answer(503, internal_fault())
        return PlainTextResponse("ok\n")

    async def _read(self) -> None:
        async def look(connection: Connection) -> None:
            await connection.fetch_one("read_journal")

        await (await self._journal()).database.read(look)

    async def _write(self) -> None:
        async def nothing(connection: Connection) -> None:
            """Take the writer's lock and write nothing: a read-only or locked file shows here."""
            await connection.fetch_one("read_journal")

        await (await self._journal()).database.write(nothing)
