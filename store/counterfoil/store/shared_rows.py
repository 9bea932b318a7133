"""The small tables that are compared across runs: which rows lack, and which are too many.

They follow from the rows of operations and receipts, which are proved against the log by themselves. Each
table is read through once; only verification and repair do that.
"""

from collections.abc import Mapping

from msgspec import Struct

from counterfoil.store.domain.events import evolve
from counterfoil.store.domain.model import Operation
from counterfoil.store.errors import JournalUnavailable
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.replaying import events_by_operation

__all__ = ["UnfitRow", "remove_unfit", "unfit_rows"]

_REMOVE: Mapping[str, str] = {
    "unfit_fingerprints": "remove_fingerprint",
    "unfit_compensations": "remove_compensation",
    "unfit_external_ids": "remove_external_id",
}
"""What finds the unfit rows of a table, and what removes one of them."""


class UnfitRow(Struct, frozen=True, kw_only=True):
    """A row that is there and should not, or the other way round; `run` is the run whose log decides."""

    found_by: str
    namespace: str
    run: str
    operation: str
    row: Row

    @property
    def is_lacking(self) -> bool:
        """Whether the row is missing."""
        return bool(self.row["is_lacking"])

    @property
    def problem(self) -> str:
        """What is wrong with the operation."""
        table = self.found_by.removeprefix("unfit_")
        if self.is_lacking:
            return f"lacks a row of {table} that its events lead to"
        return f"has a row of {table} that its events do not lead to"


async def unfit_rows(connection: Connection) -> list[UnfitRow]:
    """Find every such row of every namespace."""
    found: list[UnfitRow] = []
    for statement in _REMOVE:
        for row in await connection.fetch_all(statement):
            if not row["is_lacking"] and "fingerprint" in row and await _was_fingerprint(connection, row):
                continue
            named = {"namespace": row["namespace"], "id": row["operation"]}
            owner = await connection.fetch_one("read_operation_by_id", named)
            found.append(
                UnfitRow(
                    found_by=statement,
                    namespace=row["namespace"],
                    run=row["run"] if owner is None else owner["run"],
                    operation=row["operation"],
                    row=row,
                )
            )
    return found


async def remove_unfit(connection: Connection, unfit: UnfitRow) -> None:
    """Remove a row that no operation stands behind."""
    given = {name: value for name, value in unfit.row.items() if name not in ("run", "is_lacking")}
    await connection.execute(_REMOVE[unfit.found_by], given)


async def _was_fingerprint(connection: Connection, row: Row) -> bool:
    """Tell whether the operation was that effect before its first begin said more of it."""
    place = {name: row[name] for name in ("namespace", "run", "operation")}
    operation: Operation | None = None
    try:
        events, _ = events_by_operation(await connection.fetch_all("read_operation_events", place))
        for event in events.get(row["operation"], ()):
            operation = evolve(operation, event)
            if operation.description.fingerprint == row["fingerprint"]:
                return True
    except (JournalUnavailable, ValueError, TypeError, LookupError, AttributeError):
        return False
    return False
