"""Compares two journals after a copy: the runs, operations and references of the one are to be in the other.

Both sides are read anew, in stretches, so that nothing that the copy itself believed is taken for granted,
and memory does not grow with the journals.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from counterfoil.store.copying import Progress, is_one_log
from counterfoil.store.domain.instants import Instant
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.viewing import Viewer, runs_by_name

__all__ = ["Checked", "Difference", "compare"]

_ROWS_AT_ONCE = 1_000
_MOST_DIFFERENCES = 1_000


class Difference(Struct, frozen=True, kw_only=True):
    """What one journal has and the other has not, or has otherwise.

    `operation` is the key of an operation, or its id where a reference is meant; None is the run itself.
    """

    run: str
    operation: str | None
    what: str
    source: str
    target: str


class Checked(Struct, kw_only=True):
    """What was compared; `differences_in_all` counts those that are not listed as well."""

    runs: int = 0
    same_logs: int = 0
    operations: int = 0
    references: int = 0
    differences: list[Difference] = field(default_factory=list)
    differences_in_all: int = 0

    def differ(self, difference: Difference) -> None:
        """Note a difference."""
        self.differences_in_all += 1
        if len(self.differences) < _MOST_DIFFERENCES:
            self.differences.append(difference)


async def compare(source: Viewer, target: Viewer, *, tell: Callable[[Progress], None]) -> Checked:
    """Compare a namespace of two journals, run by run, as it stands at one moment of the first one's clock.

    Where the logs are one, everything has to be the same. Where the other journal's log goes on, each
    operation and each reference of the first has to be there; where they have parted, what stands in the
    first, and the states are compared as well.
    """
    checked, now = Checked(), await source.moment()

    async def count(connection: Connection) -> int:
        counts = await connection.fetch_one("count_runs", {"namespace": source.namespace, "run": None})
        return 0 if counts is None else int(counts["operations"])

    in_all = await source.database.read(count)
    async for page in runs_by_name(source):
        for run in page:
            await _RunComparison(source, target, checked, run, now).compare()
            tell(Progress(step="check", done=checked.operations, in_all=max(in_all, checked.operations)))
    return checked


class _RunComparison:
    def __init__(self, source: Viewer, target: Viewer, checked: Checked, run: Row, now: Instant) -> None:
        self._source = source
        self._target = target
        self._checked = checked
        self._run = run
        self._now = now
        self._is_same_log = self._is_ahead = False

    async def compare(self) -> None:
        place, checked = {"namespace": self._run["namespace"], "run": self._run["run"]}, self._checked
        checked.runs += 1

        async def work(connection: Connection) -> Row | None:
            return await connection.fetch_one("read_run", place)

        # Read again: what was written since the run was listed is a difference as well.
        theirs = await self._source.database.read(work)
        ours = await self._target.database.read(work)
        if ours is None or theirs is None:
            self._differ(None, "run", "there", "missing" if ours is None else "there")
            return
        self._is_same_log = (ours["last_seq"], ours["head"]) == (theirs["last_seq"], theirs["head"])
        checked.same_logs += self._is_same_log
        if self._is_same_log and ours["operations"] != theirs["operations"]:
            self._differ(None, "operations", theirs["operations"], ours["operations"])
        self._is_ahead = (
            not self._is_same_log
            and ours["last_seq"] > theirs["last_seq"]
            and await is_one_log(self._source, self._target, theirs, ours)
        )
        await self._operations()
        await self._references()

    def _differ(self, operation: str | None, what: str, source: Any, target: Any) -> None:
        self._checked.differ(
            Difference(
                run=self._run["run"], operation=operation, what=what, source=str(source), target=str(target)
            )
        )

    async def _operations(self) -> None:
        # Where TO's log goes on, the states may have changed since, and it is shown by what.
        compared = [] if self._is_ahead else ["state_now"]
        if self._is_same_log:
            compared += ["id", "fingerprint", "attempts", "receipts", "findings"]
        theirs = self._stretches(self._source, "operations_compared", {"after": ""})
        ours = self._stretches(self._target, "operations_compared", {"after": ""})
        async for their, our in _side_by_side(theirs, ours, lambda row: row["key"]):
            if their is None:
                if our is not None and self._is_same_log:
                    self._differ(our["key"], "operation", "missing", "there")
                continue
            self._checked.operations += 1
            if our is None:
                self._differ(their["key"], "operation", "there", "missing")
                continue
            for name in compared:
                if their[name] != our[name]:
                    self._differ(their["key"], name.removesuffix("_now"), their[name], our[name])

    async def _references(self) -> None:
        start = {"operation": "", "number": 0}
        theirs = self._stretches(self._source, "references_compared", start)
        ours = self._stretches(self._target, "references_compared", start)
        by_operation = _side_by_side(_grouped(theirs), _grouped(ours), lambda rows: rows[0]["operation"])
        async for their, our in by_operation:
            for row in their or ():
                self._checked.references += 1
                is_parted = not (self._is_same_log or self._is_ahead)
                if is_parted and (row["is_foreign"] or row["is_set_aside"]):
                    continue
                found = [each for each in our or () if _reference(each) == _reference(row)]
                if not found:
                    self._differ(row["operation"], "reference", row["external_id"], "missing")
                elif row["is_known"] and not any(each["is_known"] for each in found):
                    self._differ(
                        row["operation"], "reference", row["external_id"], "not found from other runs"
                    )
            if self._is_same_log and len(their or ()) != len(our or ()):
                operation = (their or our or [{}])[0].get("operation")
                self._differ(operation, "references", len(their or ()), len(our or ()))

    async def _stretches(self, view: Viewer, statement: str, after: Mapping[str, Any]) -> AsyncIterator[Row]:
        place = {"namespace": self._run["namespace"], "run": self._run["run"], "most": _ROWS_AT_ONCE}
        extra = {"now": self._now} if "after" in after else {}
        while True:
            parameters = {**place, **extra, **after}

            async def work(
                connection: Connection, parameters: Mapping[str, Any] = parameters
            ) -> Sequence[Row]:
                return await connection.fetch_all(statement, parameters)

            rows = await view.database.read(work)
            for row in rows:
                yield row
            if len(rows) < _ROWS_AT_ONCE:
                return
            last = rows[-1]
            after = {name: last["key" if name == "after" else name] for name in after}


def _reference(row: Row) -> tuple[Any, ...]:
    return row["kind"], row["system"], row["external_id"]


async def _grouped(rows: AsyncIterator[Row]) -> AsyncIterator[list[Row]]:
    """Put the rows of one operation, which follow each other, into one list."""
    group: list[Row] = []
    async for row in rows:
        if group and group[-1]["operation"] != row["operation"]:
            yield group
            group = []
        group.append(row)
    if group:
        yield group


async def _side_by_side(
    theirs: AsyncIterator[Any], ours: AsyncIterator[Any], name_of: Callable[[Any], str]
) -> AsyncIterator[tuple[Any, Any]]:
    """Walk two sequences in the order of one name, and give what has the same name together."""
    their, our = await anext(theirs, None), await anext(ours, None)
    while their is not None or our is not None:
        if our is None or (their is not None and _order(name_of(their)) < _order(name_of(our))):
            yield their, None
            their = await anext(theirs, None)
        elif their is None or _order(name_of(our)) < _order(name_of(their)):
            yield None, our
            our = await anext(ours, None)
        else:
            yield their, our
            their, our = await anext(theirs, None), await anext(ours, None)


def _order(name: str) -> bytes:
    """Give what both databases sort names by: their bytes."""
    return name.encode()
