"""A run's log read whole, and parted by operation: what verifying and repairing replay."""

import json
from collections.abc import Mapping, Sequence

from counterfoil.store.domain.events import Event, EventKind
from counterfoil.store.protocol import Connection, Row

__all__ = ["events_by_operation", "read_log"]


async def read_log(connection: Connection, place: Mapping[str, str]) -> list[Row]:
    """Read every event of a run, up to the first that is missing."""
    rows: list[Row] = []
    while page := await connection.fetch_all("audit_events", {**place, "after": len(rows), "most": 1_000}):
        rows += page
        if page[-1]["seq"] != len(rows):
            break
    return rows


def events_by_operation(rows: Sequence[Row]) -> tuple[dict[str, list[Event]], list[int]]:
    """Part a log by operation, the run's own under the empty name; and number what cannot be read."""
    by_operation: dict[str, list[Event]] = {}
    unreadable: list[int] = []
    for event in rows:
        try:
            read = Event(
                kind=EventKind(event["kind"]),
                operation=event["operation"],
                at=event["at"],
                data=json.loads(event["data"]),
            )
        except (ValueError, RecursionError):
            unreadable.append(event["seq"])
        else:
            by_operation.setdefault(event["operation"], []).append(read)
    return by_operation, unreadable
