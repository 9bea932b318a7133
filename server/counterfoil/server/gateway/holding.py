"""Keeps the permissions of calls under way, and asks whether one stands before what lets a call act is sent.

A server that asks for input may wait for an hour. Meanwhile the attempt may have run out and been settled by
somebody, and another one been granted: then the input would do the effect a second time.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import anyio

from counterfoil.server.gateway.calls import GatewayJournal, Grant
from counterfoil.server.logs import logger
from counterfoil.store.domain.commands import Caller, OperationRef, RecordProgress
from counterfoil.store.errors import Fault

__all__ = ["Holds", "Lapsed", "Leases", "still_holds"]

_LEASE_PARTS = 3
"""The lease is prolonged after a third of it, so that a late turn does not lose it."""
_SHORTEST_BEAT_SECONDS = 1.0

Holds = Callable[[], Awaitable[bool]]
"""Tells whether the permission that a call is passed on under still stands."""


class Lapsed(Exception):
    """The permission of a call ended while its server waited for input; the input was not sent."""


async def still_holds(journal: GatewayJournal, grant: Grant, caller: Caller) -> bool:
    """Prolong the lease of a permission; False where that is not possible, and nothing may be sent.

    Raises:
        Fault: the journal cannot tell.
    """
    ref = OperationRef(operation=grant.operation)
    answer = await journal.record_progress(RecordProgress(ref=ref, attempt=grant.attempt), caller)
    return bool(answer["next"] == "continue")


class _Held:
    """One permission, and when its lease is to be prolonged next, on the event loop's clock."""

    def __init__(self, journal: GatewayJournal, grant: Grant, caller: Caller) -> None:
        self._journal = journal
        self._grant = grant
        self._caller = caller
        self._pause = max(_SHORTEST_BEAT_SECONDS, grant.lease_seconds / _LEASE_PARTS)
        self.due_at = anyio.current_time() + self._pause

    async def beat(self) -> None:
        """Prolong the lease; a beat that fails is made up for by the next."""
        self.due_at = anyio.current_time() + self._pause
        try:
            await still_holds(self._journal, self._grant, self._caller)
        except Fault as fault:
            logger.warning("a lease was not prolonged: %s", fault.code)
        except Exception:
            logger.exception("a lease was not prolonged")


class Leases:
    """The leases of the calls under way, prolonged by one task: most calls end before one is due."""

    def __init__(self) -> None:
        self._held: set[_Held] = set()
        self._has_come = anyio.Event()

    @contextmanager
    def held(self, journal: GatewayJournal, grant: Grant, caller: Caller) -> Iterator[None]:
        """Keep a permission alive for as long as the block lasts."""
        one = _Held(journal, grant, caller)
        self._held.add(one)
        self._has_come.set()
        try:
            yield
        finally:
            self._held.discard(one)

    async def keep(self) -> None:
        """Prolong what is due; ends when it is cancelled."""
        while True:
            await self._has_come.wait()
            while self._held:
                # What comes while this sleeps is due no sooner than the shortest beat from now.
                earliest = min(one.due_at for one in self._held) - anyio.current_time()
                await anyio.sleep(max(0.0, min(_SHORTEST_BEAT_SECONDS, earliest)))
                now = anyio.current_time()
                async with anyio.create_task_group() as beats:
                    for one in self._held:
                        if one.due_at <= now:
                            beats.start_soon(one.beat)
            self._has_come = anyio.Event()
