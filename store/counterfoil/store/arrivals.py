"""Reads what an import, a copy or a receipt may have brought beside operations that are planned or failed.

It stops their begins (`domain/lookalikes.find_arrived`), so that plans and checks have to know of it. What
was begun or planned in this journal was told apart then and is left out before it is loaded.
"""

import json
from collections.abc import Iterable, Sequence

from counterfoil.store.domain.model import Operation, State
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.resolving import look_alike_terms
from counterfoil.store.rows import load_operations

__all__ = ["arrived_beside", "arrived_in"]

_WITHOUT_EFFECT = (State.PLANNED.value, State.CANCELLED.value)
_SETTLED = (State.SUCCEEDED.value, State.TIMED_OUT.value, State.COMPENSATED.value)


async def arrived_in(
    connection: Connection, place: dict[str, str], waiting: Sequence[Operation], *, has_settled: bool
) -> tuple[Operation, ...]:
    """Read what those of a plan that are `waiting` may be taken for, as far as the plan does not list it.

    One statement, and a few more for each operation that others undo as well. `has_settled`: the plan lists
    the settled ones of its run.
    """
    if not waiting:
        return ()
    rows = [] if has_settled else await connection.fetch_all("settled_twins", place)
    found = [*rows, *await _undoings(connection, place["namespace"], waiting)]
    return await _loaded(connection, found, waiting)


async def arrived_beside(connection: Connection, operation: Operation) -> tuple[Operation, ...]:
    """Read what one operation that is planned or has failed may be taken for; mostly nothing."""
    rows = await connection.fetch_all("look_alikes", look_alike_terms(operation))
    found = [*rows, *await _undoings(connection, operation.namespace, (operation,))]
    return await _loaded(connection, found, (operation,))


async def _undoings(connection: Connection, namespace: str, waiting: Iterable[Operation]) -> list[Row]:
    """Read what else is to undo, or has undone, what the `waiting` operations undo, in whatever run."""
    found: list[Row] = []
    for original in sorted({one.compensates for one in waiting if one.compensates is not None}):
        place = {"namespace": namespace, "original": original}
        for owner in await connection.fetch_all("compensators", place):
            named = {"namespace": namespace, "id": owner["operation"]}
            row = await connection.fetch_one("read_operation_by_id", named)
            found += [] if row is None else [row]
    return found


async def _loaded(
    connection: Connection, rows: Iterable[Row], waiting: Sequence[Operation]
) -> tuple[Operation, ...]:
    """Load the rows that may stop one of the `waiting`: of many alike, each told apart, none is loaded."""
    by_mark: dict[str | None, list[Operation]] = {}
    for operation in waiting:
        marks = {
            operation.description.fingerprint,
            operation.compensates,
            operation.description.target_folded,
        }
        for mark in marks - {None, ""}:
            by_mark.setdefault(mark, []).append(operation)
    kept = {}
    for row in rows:
        own = (row["fingerprint"], row["compensates"], row["target_folded"])
        likely = [operation for mark in own for operation in by_mark.get(mark, ())]
        if any(_may_stop(row, operation) for operation in (waiting if len(waiting) == 1 else likely)):
            kept[row["id"]] = row
    return await load_operations(connection, kept.values())


def _may_stop(row: Row, operation: Operation) -> bool:
    """Tell whether a row may be of what arrived beside an operation; the domain decides when it is loaded."""
    is_same = (
        row["fingerprint"] == operation.description.fingerprint
        or (operation.compensates is not None and row["compensates"] == operation.compensates)
        or row["began"] is None
    )
    # One that has failed may be timed out by now: its deadline is not held against the clock here.
    is_without_effect = row["state"] in _WITHOUT_EFFECT or (
        row["state"] == State.FAILED.value and row["deadline_at"] is None
    )
    return (
        row["id"] != operation.id
        and row["created_at"] != operation.created_at
        and not is_without_effect
        and (is_same or row["state"] not in _SETTLED)
        and row["id"] not in operation.distinct_from
        and operation.id not in _told_apart(row["links"])
    )


def _told_apart(links: object) -> tuple[str, ...]:
    """Give what an operation's row says that it is distinct from; nothing where it cannot be read."""
    try:
        return tuple(json.loads(str(links)).get("distinct_from", ()))
    except (ValueError, AttributeError, TypeError, RecursionError):
        return ()
