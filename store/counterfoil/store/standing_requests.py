"""What a person was asked for an operation and has not permitted, for sessions that come after."""

from typing import Any

from counterfoil.store.domain.answers import REQUESTED
from counterfoil.store.domain.grants import GRANTABLE
from counterfoil.store.domain.instants import rfc3339
from counterfoil.store.domain.model import Operation
from counterfoil.store.errors import RowDamaged
from counterfoil.store.namespace_log import request_from_row
from counterfoil.store.presenting import without_none
from counterfoil.store.protocol import Connection

__all__ = ["request_standing"]


async def request_standing(
    connection: Connection, operation: Operation, *, next_: str, reason: str
) -> dict[str, Any]:
    """Show the request that waits, or was declined, for what an `ask` of this reason needs; {} where none is.

    It is the newest for this very effect: a session that remembers nothing must neither ask a person again
    who said no, nor believe that nobody was asked.
    """
    if next_ != "ask" or reason not in GRANTABLE:
        return {}
    row = await connection.fetch_one(
        "newest_request", {"namespace": operation.namespace, "operation": operation.id}
    )
    if row is None:
        return {}
    try:
        request = request_from_row(row)
    except RowDamaged:
        return {}
    described = operation.description
    is_for_this = (request.reason, request.fingerprint, request.payload_digest) == (
        reason,
        described.fingerprint,
        described.payload_digest,
    )
    if not is_for_this or request.state not in REQUESTED:
        return {}
    return without_none(
        {
            "request": request.id,
            "request_state": request.state,
            "answered_at": None if request.answered_at is None else rfc3339(request.answered_at),
            "how": f"counterfoil grant {request.id}",
        }
    )
