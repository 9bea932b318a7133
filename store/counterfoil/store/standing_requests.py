"""What a person was asked for an operation and has not permitted, for sessions that come after."""

from typing import Any

from counterfoil.store.domain.answers import REQUESTED
from counterfoil.store.domain.grants import GRANTABLE
from counterfoil.store.domain.instants import Instant, rfc3339
from counterfoil.store.domain.model import Operation, Run
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import RowDamaged
from counterfoil.store.namespace_log import request_from_row
from counterfoil.store.presenting import without_none
from counterfoil.store.protocol import Connection
from counterfoil.store.rows import run_from_row

__all__ = ["changed_at", "request_standing"]


def changed_at(reason: str, operation: Operation | None, run: Run | None, policy: Policy) -> Instant:
    """Tell when something last happened after which a person who said no may be asked anew."""
    changed = [0 if operation is None else operation.updated_at]
    if reason == "drift" and run is not None:
        changed.append(run.touched_at)
    if reason == "history_gap":
        changed.append(policy.history_lost_at or 0)
    return max(changed)


async def request_standing(
    connection: Connection, operation: Operation, *, next_: str, reason: str, policy: Policy
) -> dict[str, Any]:
    """Show the request that waits, or was declined, for what an `ask` of this reason needs; {} where none is.

    It is the newest for this very effect, and a no counts while it stands: a session that remembers nothing
    must not believe that nobody was asked.
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
    if request.answered_at is not None:
        place = {"namespace": operation.namespace, "run": operation.run}
        row = await connection.fetch_one("read_run", place) if reason == "drift" else None
        run = None if row is None else run_from_row(row)
        if request.answered_at < changed_at(reason, operation, run, policy):
            return {}
    return without_none(
        {
            "request": request.id,
            "request_state": request.state,
            "answered_at": None if request.answered_at is None else rfc3339(request.answered_at),
            "how": f"counterfoil grant {request.id}",
        }
    )
