"""Proves a run: its chain holds, its rows follow from its events, its bodies are there and unchanged."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from counterfoil.store.chain import first_fault
from counterfoil.store.domain.canonical import digest
from counterfoil.store.domain.events import Event, EventKind, evolve_run
from counterfoil.store.domain.grants import held_grants
from counterfoil.store.domain.instants import is_instant
from counterfoil.store.domain.model import Operation, Run
from counterfoil.store.errors import RunDamaged
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.pruning import bodies_of
from counterfoil.store.replaying import events_by_operation, grant_uses, read_log, replay, rows_problem
from counterfoil.store.rows import run_from_row
from counterfoil.store.saving_rows import RUN_FACTS
from counterfoil.store.shared_rows import UnfitRow

__all__ = ["Fault", "ProvedRun", "fault_of_unfit", "prove_contexts", "prove_run"]

_MEND = "; its log is whole: `counterfoil verify --repair` makes its rows anew"
_RESTORE = "; restore a backup"
_AT_ONCE = 100
"""So many bodies are read at a time: each may be long."""


class Fault(Struct, frozen=True, kw_only=True):
    """What does not hold, and whether `verify --repair` can make it anew from the log."""

    text: str
    is_mendable: bool = False


class ProvedRun(Struct, kw_only=True):
    """What was seen of a run. `contexts` are the digests that its events refer to."""

    events: int = 0
    operations: int = 0
    faults: list[Fault] = field(default_factory=list)
    is_whole: bool = False
    contexts: set[str] = field(default_factory=set)


async def prove_run(connection: Connection, place: Mapping[str, str]) -> ProvedRun:
    """Replay the log of one run and compare all that follows from it, what is compared across runs apart."""
    name = place["run"]
    row, rows = await connection.fetch_one("read_run", place), await read_log(connection, place)
    proved = ProvedRun(events=len(rows))
    if row is None:
        proved.faults.append(Fault(text=f"{name}: the run's row is gone{_RESTORE}"))
        return proved
    broken = first_fault(
        rows, namespace=place["namespace"], run=place["run"], last_seq=row["last_seq"], head=row["head"]
    )
    if broken is not None:
        proved.faults.append(Fault(text=f"{name}: {broken.problem}"))
    by_operation, unreadable = events_by_operation(rows)
    proved.faults += [Fault(text=f"{name}: event {seq} cannot be read") for seq in unreadable]
    proved.is_whole = not proved.faults
    proved.contexts = _contexts(event for events in by_operation.values() for event in events)
    uses = await grant_uses(connection, place)
    own = by_operation.pop("", [])
    wanted: dict[str, str] = {}
    stored = await connection.fetch_all("read_operations", place)
    proved.operations = len(stored)
    for operation_row in stored:
        identity = operation_row["id"]
        events, used = by_operation.pop(identity, []), uses.pop(identity, {})
        replayed = replay(events)
        if replayed is None:
            problem: str | None = "cannot be replayed" if events else "has a row and is not in the log"
        else:
            problem = await rows_problem(connection, operation_row, replayed)
            if problem is None and held_grants(replayed) != used:
                problem = "has uses of grants that its events do not lead to"
            if operation_row["pruned_at"] is None:
                wanted |= dict.fromkeys(_kept_bodies(replayed), f"operation {identity}")
        if problem is not None:
            proved.faults.append(
                _of_operation(name, identity, problem, is_mendable=proved.is_whole and replayed is not None)
            )
    for identity, events in by_operation.items():
        mendable = proved.is_whole and replay(events) is not None
        proved.faults.append(
            _of_operation(name, identity, "is in the log and has no row", is_mendable=mendable)
        )
    for identity in uses.keys() - by_operation.keys():
        proved.faults.append(
            _of_operation(name, identity, "has uses of grants and is not in the log", is_mendable=False)
        )
    run = _replayed_run(own, place)
    differing = ["its events cannot be replayed"] if run is None else _differing(row, rows, run)
    if differing:
        proved.faults.append(
            Fault(
                text=f"{name}: the run's row says what its events do not lead to "
                f"({', '.join(differing)}){_RESTORE}"
            )
        )
    if run is not None:
        wanted |= {part: "the run" for part in (run.criteria, run.checkpoint) if part is not None}
    proved.faults += [
        Fault(text=f"{name}: {problem}{_RESTORE}") for problem in await _of_bodies(connection, place, wanted)
    ]
    return proved


async def prove_contexts(connection: Connection, namespace: str, wanted: Mapping[str, str]) -> list[Fault]:
    """Prove the contexts of a namespace; `wanted` gives a run that refers to each."""
    there, changed = await _digests(connection, "audit_contexts", {"namespace": namespace})
    faults = [f"namespace {namespace}: the context {name} {problem}" for name, problem in changed]
    faults += [f"{run}: the context {name} is gone" for name, run in wanted.items() if name not in there]
    return [Fault(text=f"{text}{_RESTORE}") for text in faults]


def fault_of_unfit(unfit: UnfitRow, *, is_whole: bool) -> Fault:
    """Tell of a row of a table that is compared across runs; `is_whole` is the log of its run."""
    return _of_operation(unfit.run, unfit.operation, unfit.problem, is_mendable=is_whole)


def _of_operation(run: str, operation: str, problem: str, *, is_mendable: bool) -> Fault:
    end = _MEND if is_mendable else ""
    return Fault(text=f"{run}: operation {operation} {problem}{end}", is_mendable=is_mendable)


def _contexts(events: Iterable[Event]) -> set[str]:
    named = (event.data.get("context") for event in events)
    return {context for context in named if isinstance(context, str)}


def _kept_bodies(operation: Operation) -> set[str]:
    """Give the bodies that an operation which was not pruned must have.

    What an import brought may have been pruned where it comes from; of findings nobody can tell.
    """
    imported = {
        digest
        for receipt in operation.receipts
        if receipt.source == "import"
        for digest in (receipt.evidence_digest, receipt.result_digest)
    }
    found = {finding.evidence_digest for finding in operation.findings}
    return set(bodies_of(operation)) - imported - found


async def _of_bodies(
    connection: Connection, place: Mapping[str, str], wanted: Mapping[str, str]
) -> list[str]:
    there, changed = await _digests(connection, "audit_bodies", place)
    problems = [f"the body {name} {problem}" for name, problem in changed]
    problems += [
        f"{owner} refers to the body {name}, which is gone without a mark of pruning"
        for name, owner in wanted.items()
        if name not in there
    ]
    return problems


async def _digests(
    connection: Connection, statement: str, place: Mapping[str, str]
) -> tuple[Collection[str], list[tuple[str, str]]]:
    """Give the digests of all texts of a table, and with what is wrong those which are not as they were.

    When a text was stored stands in its row alone: only the form of that can be held against anything.
    """
    there, changed, after = set(), [], ""
    while page := await connection.fetch_all(statement, {**place, "after": after, "most": _AT_ONCE}):
        for row in page:
            there.add(row["digest"])
            if not isinstance(row["body"], str | bytes) or digest(row["body"]) != row["digest"]:
                changed.append((row["digest"], "was changed: its digest does not fit"))
            if not is_instant(row["stored_at"]):
                changed.append((row["digest"], "was stored at what is no time"))
        after = page[-1]["digest"]
    return there, changed


def _replayed_run(events: Sequence[Event], place: Mapping[str, str]) -> Run | None:
    namespace, name = place["namespace"], place["run"]
    run = Run(namespace=namespace, run=name, created_at=0, touched_at=0, last_seq=0, head="")
    try:
        for event in events:
            run = evolve_run(run, event, namespace=namespace, name=name)
    except (ValueError, TypeError, LookupError, AttributeError):
        return None
    return run


def _differing(row: Row, rows: Sequence[Row], replayed: Run) -> list[str]:
    """Name the columns of a run's row that are not what its log makes of them, its place in the log apart."""
    try:
        stored = run_from_row(row)
    except RunDamaged:
        return ["it cannot be read"]
    differing = [name for name in RUN_FACTS if getattr(replayed, name) != getattr(stored, name)]
    created = sum(event["kind"] == EventKind.OPERATION_CREATED.value for event in rows)
    times = [event["at"] for event in rows]
    # A log that an import went on with may have its latest time before its last event.
    is_touched = not times or (stored.touched_at in times and stored.touched_at >= times[-1])
    holds: dict[str, bool] = {
        "operations": stored.operations == created,
        "created_at": not times or stored.created_at == times[0],
        "touched_at": is_touched,
        "workflow": replayed.workflow in (None, stored.workflow),
        "workflow_version": stored.workflow_version in _versions(rows, replayed),
    }
    return differing + [name for name, does_hold in holds.items() if not does_hold]


def _versions(rows: Iterable[Row], replayed: Run) -> set[str | None]:
    """Give the workflow versions that calls named: the run has one of them, none where it said none."""
    versions: set[str | None] = {replayed.workflow_version}
    for event in rows:
        try:
            told: Any = json.loads(event["caller"])
            if "workflow_version" not in told.get("inherited", ()):
                versions.add(told.get("workflow_version", replayed.workflow_version))
        except (ValueError, TypeError, AttributeError, RecursionError):
            continue
    return versions
