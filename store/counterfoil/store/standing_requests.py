"""What a person was asked for an operation and has not permitted, for sessions that come after."""

from typing import Any

from counterfoil.store.domain.answers import REQUESTED
from counterfoil.store.domain.events import EventKind
from counterfoil.store.domain.grants import GRANTABLE
from counterfoil.store.domain.instants import Instant, rfc3339
from counterfoil.store.domain.model import Operation
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import RowDamaged
from counterfoil.store.namespace_log import request_from_row
from counterfoil.store.presenting import without_none
from counterfoil.store.protocol import Connection
from counterfoil.store.replaying import events_by_operation

__all__ = ["changed_at", "request_standing"]

_CONTEXTS = ("context", "offered")
"""What a run's steps are compared with, and what it was told of last: digests."""


async def changed_at(
    connection: Connection,
    reason: str,
    operation: Operation | None,
    *,
    namespace: str,
    run: str,
    policy: Policy,
) -> Instant:
    """Tell when something last happened after which a person who said no may be asked anew.

    What else goes on in the run, a hold or another step, is nothing of the kind.
    """
    changed = [0 if operation is None else operation.updated_at]
    if reason == "drift":
        changed.append(await _context_changed_at(connection, namespace, run))
    if reason == "history_gap":
        changed.append(policy.history_lost_at or 0)
    return max(changed)


async def _context_changed_at(connection: Connection, namespace: str, run: str) -> Instant:
    """Tell when a run was last told of another context, or compared with another; 0 where it never was."""
    rows = await connection.fetch_all("context_events", {"namespace": namespace, "run": run})
    events, _ = events_by_operation(rows)
    known: tuple[object, object] = (None, None)
    changed: Instant = 0
    for event in events.get("", ()):
        context, offered = (event.data.get(name) or last for name, last in zip(_CONTEXTS, known, strict=True))
        if event.kind is EventKind.RUN_BEGUN and known[0] is not None:
            context = known[0]
        if (context, offered) != known:
            known, changed = (context, offered), event.at
    return changed


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
        if request.answered_at < await changed_at(connection, reason, operation, **place, policy=policy):
            return {}
    return without_none(
        {
            "request": request.id,
            "request_state": request.state,
            "answered_at": None if request.answered_at is None else rfc3339(request.answered_at),
            "how": f"counterfoil grant {request.id}",
        }
    )
