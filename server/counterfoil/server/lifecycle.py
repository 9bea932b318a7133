"""Runs the server from start to end, and sees to it that the process is gone within two seconds of its end.

What ends it: the end of stdin, SIGTERM, SIGINT, SIGHUP (each as often as it comes), a client that no longer
reads. Calls under way may still answer, the journal is closed, and the exit code is 0. Whatever then still
holds the process (a thread, a lock, a stuck reader) is cut off; nothing can be half-written by that, since a
commit is durable as a whole or not at all.
"""

import os
import secrets
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counterfoil.server.journals import JournalOpener
    from counterfoil.server.settings import Settings

__all__ = ["GATEWAY_PATIENCE_SECONDS", "Ending", "serve"]

PATIENCE_SECONDS = 1.5
"""From the first sign of the end to the last resort; the promise is two seconds."""

GATEWAY_PATIENCE_SECONDS = 6.0
"""A gateway gives the servers behind it two seconds to end by themselves, and two more at SIGTERM."""

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Ending:
    """How this process ends: at a signal, and for sure.

    `stop` is what a signal asks for while the server runs; before and after that a signal simply ends the
    process with code 0, since nothing is open.
    """

    def __init__(self, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.stop: Callable[[], object] | None = None
        self._patience_seconds = patience_seconds
        self._is_armed = False

    def heed_signals(self) -> None:
        """Take over the ending signals for the rest of the process's life."""
        for number in ENDING_SIGNALS:
            signal.signal(number, self._on_signal)

    def arm(self) -> None:
        """Start the last resort: so many seconds from the first call on, the process is gone."""
        if not self._is_armed:
            self._is_armed = True
            threading.Thread(target=self._end_later, name="last-resort", daemon=True).start()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.stop is None:
            os._exit(0)
        self.arm()
        self.stop()

    def _end_later(self) -> None:
        time.sleep(self._patience_seconds)
        os._exit(0)


def serve(
    settings: "Settings", open_journal: "JournalOpener", *, version: str = "", ending: Ending | None = None
) -> int:
    """Serve MCP over stdin and stdout until either ends or a signal comes; give the exit code.

    To be called once, by a process that ends right after it: the last resort is armed when this returns.
    Whoever loads much before calling this makes the `Ending` and lets it heed signals first.
    """
    if ending is None:
        ending = Ending()
        ending.heed_signals()
    from counterfoil.server.logs import configure_logs, logger

    configure_logs(settings.log_level)
    try:
        import anyio

        anyio.run(_serve, settings, open_journal, version, ending)
    except Exception:
        logger.exception("the server failed")
        return 1
    finally:
        ending.stop = None
        ending.arm()
    return 0


async def _serve(settings: "Settings", open_journal: "JournalOpener", version: str, ending: Ending) -> None:
    import asyncio

    import anyio

    from counterfoil.server.app import build_server
    from counterfoil.server.callers import ClientInfo
    from counterfoil.server.journals import Journals
    from counterfoil.server.stdio import claim_standard_streams, serve_streams
    from counterfoil.store.redact import Redactor
    from counterfoil.tools.catalogue import TOOL_SETS

    stopping = anyio.Event()
    loop = asyncio.get_running_loop()
    ending.stop = lambda: loop.call_soon_threadsafe(stopping.set)
    stdin, stdout = claim_standard_streams()
    client = ClientInfo(
        connection=f"stdio-{secrets.token_hex(8)}",
        conversation=settings.conversation,
        traceparent=settings.traceparent,
    )

    telemetry, flush = None, _nothing
    if settings.has_traces:
        from counterfoil.server.tracing import set_up_tracing

        telemetry, flush = set_up_tracing(settings, version=version)

    def open_journal_early() -> None:
        tasks.start_soon(journals.open_early)

    async with anyio.create_task_group() as tasks, Journals.holding(open_journal) as journals:
        server = build_server(
            journals.get,
            client=client,
            limits=settings.limits,
            version=version,
            tools=TOOL_SETS[settings.tools],
            telemetry=telemetry,
            redactor=Redactor(
                secrets.token_bytes(32),
                extra_names=settings.redact_names,
                patterns=settings.redact_patterns,
            ),
        )
        await serve_streams(
            server,
            stdin,
            stdout,
            stopping=stopping,
            on_end=ending.arm,
            on_first_answer=open_journal_early,
        )
        tasks.cancel_scope.cancel()
    flush()


def _nothing() -> None:
    pass
