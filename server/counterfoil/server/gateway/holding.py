"""Asks whether the permission of a call still stands, before what lets a waiting call act is sent.

A server that asks for input may wait for an hour. Meanwhile the attempt may have run out and been settled by
somebody, and another one been granted: then the input would do the effect a second time.
"""

from collections.abc import Awaitable, Callable

from counterfoil.server.gateway.calls import GatewayJournal, Grant
from counterfoil.store.domain.commands import Caller, OperationRef, RecordProgress

__all__ = ["Holds", "Lapsed", "still_holds"]

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
