"""Reads whether a gap in the history stands between operations of a run and their attempts."""

from collections.abc import Callable

from counterfoil.store.domain.gaps import lacks_history
from counterfoil.store.domain.instants import Instant
from counterfoil.store.domain.model import Operation
from counterfoil.store.protocol import Connection

__all__ = ["gap_in"]


async def gap_in(
    connection: Connection, namespace: str, run: str, lost_at: Instant | None
) -> Callable[[Operation | None], bool]:
    """Give what tells whether an operation of the run has a gap that nobody has accepted.

    `lost_at` is the moment of the newest restore; a journal that was never restored costs no statement.
    """
    if lost_at is not None:
        accepted = await connection.fetch_one(
            "accepted_gap", {"namespace": namespace, "run": run, "restored_at": lost_at}
        )
        lost_at = None if accepted is not None else lost_at
    return lambda operation: lacks_history(operation, lost_at)
