"""Rows that are damaged or gone: what is refused then, and what stands for an operation that cannot be read.

Absence of a row is no evidence that an effect did not happen, and a row that no event can have written is not
guessed at. What stands for such an operation is in doubt for whoever reads it.
"""

from typing import Any

from counterfoil.store.domain.instants import is_instant
from counterfoil.store.domain.model import Attempt, Description, Operation, Outcome
from counterfoil.store.errors import JournalUnavailable
from counterfoil.store.protocol import Connection, Row

__all__ = ["misled", "refuse_damaged", "refuse_lost", "rows_are_gone", "stand_in", "stand_in_for_lost"]

_KEPT_OF_OPERATION = ("key", "position", "created_at", "updated_at", "since_floor", "compensates")
_KEPT_OF_DESCRIPTION = ("action", "target_folded", "args_digest", "fingerprint")
_KEPT = (*_KEPT_OF_OPERATION, *_KEPT_OF_DESCRIPTION, "attempts")
"""What a stand-in keeps of an operation's row, beside its place."""


async def refuse_lost(
    connection: Connection, *, namespace: str, run: str, operation: str | None = None
) -> None:
    """Make sure that a run, or an operation, without a row is in no log: absence of a row is no evidence.

    Raises:
        JournalUnavailable: its events are there.
    """
    place = {"namespace": namespace, "run": run}
    statement, what = "first_event_of_run", "this run"
    if operation is not None:
        place, statement, what = {**place, "operation": operation}, "first_event", f"operation {operation}"
    if await connection.fetch_one(statement, place) is not None:
        raise rows_are_gone(what, is_mendable=operation is not None)


def rows_are_gone(what: str, *, is_mendable: bool = True) -> JournalUnavailable:
    """Give the fault of rows that the log, or another table, knows and that are not there."""
    return JournalUnavailable(
        f"{what} is in the log and its row is gone: the journal is corrupt; nothing was recorded, do not "
        "perform the effect",
        fix="keep what you have (receipt, finding); a person "
        + (
            "runs `counterfoil verify`, whose `--repair` makes the row anew where the log is whole, or "
            "restores a backup"
            if is_mendable
            else "restores a backup"
        ),
        recorded=False,
    )


def refuse_damaged(operation: Operation | None) -> None:
    """Make sure that an operation may be written: what its rows hold is still evidence, and nothing is lost.

    Raises:
        JournalUnavailable: its rows cannot be read.
    """
    if operation is not None and operation.is_damaged:
        raise JournalUnavailable(
            f"operation {operation.id} cannot be read: its rows are damaged; NOT stored, do not perform its "
            "effect",
            fix="keep what you have (receipt, finding) and send it again after a person has run `counterfoil "
            "verify`, which tells whether the log is whole and `--repair` can make the rows anew; the other "
            "operations of this journal can still be used",
            recorded=False,
        )


def misled(operation: Operation) -> Operation:
    """Give what stands for an operation that refers to what was never there: its links are damaged."""
    place = {"namespace": operation.namespace, "run": operation.run, "id": operation.id}
    return stand_in({**_kept_of(operation), **place})


def stand_in_for_lost(*, namespace: str, run: str, operation: str, replayed: Operation | None) -> Operation:
    """Give what stands for an operation whose row is gone, with what its log tells of it, if it is read."""
    told = dict.fromkeys(_KEPT) if replayed is None else _kept_of(replayed)
    return stand_in({**told, "namespace": namespace, "run": run, "id": operation})


def _kept_of(operation: Operation) -> dict[str, Any]:
    """Give the columns that a stand-in keeps, as the facts of the operation have them."""
    return {
        **{name: getattr(operation, name) for name in _KEPT_OF_OPERATION},
        **{name: getattr(operation.description, name) for name in _KEPT_OF_DESCRIPTION},
        "attempts": len(operation.attempts),
    }


def stand_in(row: Row) -> Operation:
    """Give what stands for an operation whose rows are damaged: an effect that may have happened.

    What it is, as far as its columns tell, is kept, so that the same effect is not granted under another key.
    """

    def text(name: str) -> str:
        value = row[name]
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")

    def number(name: str) -> int:
        return row[name] if is_instant(row[name]) else 0

    at = number("updated_at")
    attempt = Attempt(
        number=max(1, number("attempts")),
        generation=1,
        reason="damaged",
        granted_at=at,
        lease_until=at,
        ended_at=at,
        outcome=Outcome.UNKNOWN,
    )
    return Operation(
        namespace=text("namespace"),
        run=text("run"),
        key=text("key"),
        id=text("id"),
        position=number("position"),
        created_at=number("created_at"),
        updated_at=at,
        since_floor=number("since_floor"),
        description=Description(
            action=text("action"),
            target_folded=text("target_folded"),
            args_digest=text("args_digest") or None,
            fingerprint=text("fingerprint"),
        ),
        compensates=text("compensates") or None,
        attempts=(attempt,),
        is_damaged=True,
    )
