"""A run's log read whole, and parted by operation: what verifying and repairing replay."""

import json
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from counterfoil.store.domain.events import Event, EventKind, evolve_all
from counterfoil.store.domain.instants import is_instant
from counterfoil.store.domain.model import Operation
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.rows import load_operation
from counterfoil.store.saving_rows import plain_columns

__all__ = ["events_by_operation", "grant_uses", "read_log", "replay", "rows_problem"]


async def read_log(connection: Connection, place: Mapping[str, str]) -> list[Row]:
    """Read every event of a run, up to the first that is missing."""
    rows: list[Row] = []
    while page := await connection.fetch_all("audit_events", {**place, "after": len(rows), "most": 1_000}):
        rows += page
        if page[-1]["seq"] != len(rows):
            break
    return rows


async def grant_uses(connection: Connection, place: Mapping[str, str]) -> dict[str, dict[str, bool]]:
    """Read which grants the operations of a run use on file, by operation."""
    uses: dict[str, dict[str, bool]] = {}
    for use in await connection.fetch_all("read_grant_uses", place):
        # As it is: what is neither 0 nor 1 is neither held nor given back.
        uses.setdefault(use["operation"], {})[use["grant_id"]] = use["is_held"]
    return uses


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
            if not (isinstance(read.data, dict) and is_instant(read.at) and isinstance(read.operation, str)):
                raise ValueError("an event that no command can have made")
        except (ValueError, TypeError, RecursionError):
            unreadable.append(event["seq"])
        else:
            by_operation.setdefault(event["operation"], []).append(read)
    return by_operation, unreadable


def replay(events: Sequence[Event]) -> Operation | None:
    """Give the facts that an operation's events lead to, None where they cannot follow each other."""
    try:
        return evolve_all(None, events)
    except (ValueError, TypeError, LookupError, AttributeError):
        return None


async def rows_problem(connection: Connection, row: Row, replayed: Operation) -> str | None:
    """Say what is wrong with an operation's own rows; None where they are what its events make of them."""
    loaded = await load_operation(connection, row)
    if loaded is None or loaded.is_damaged:
        return "has rows that cannot be read"
    # That bodies were pruned stands in the row alone: no event tells of it.
    if replace(loaded, pruned_at=None) != replayed:
        return "has rows that its events do not lead to"
    for name, value in plain_columns(replayed).items():
        if row[name] != value:
            return f"has a {name} that its events do not lead to"
    return None
