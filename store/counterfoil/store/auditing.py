"""What only people look at: finding operations, watching the log, and proving that it holds."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from counterfoil.store.chain import first_fault
from counterfoil.store.domain.commands import FindOperations
from counterfoil.store.domain.events import Event, EventKind, evolve_all, evolve_run
from counterfoil.store.domain.grants import held_grants
from counterfoil.store.domain.model import Run
from counterfoil.store.domain.states import state_of
from counterfoil.store.errors import JournalUnavailable
from counterfoil.store.finding import FROM_THE_START, search_terms
from counterfoil.store.namespace_log import verify_namespace
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.replaying import events_by_operation, read_log
from counterfoil.store.rows import load_operation, load_operations, run_from_row
from counterfoil.store.viewing import Viewer, history_entry

__all__ = ["Auditor", "Verification"]

_REPLAYED_OF_A_RUN = (
    "finished_as",
    "finished_at",
    "finish_reason",
    "goal",
    "spec_uri",
    "spec_digest",
    "parent",
    "schedule_name",
    "schedule_occurrence",
    "context",
    "offered",
    "criteria",
    "begun_at",
    "holder",
    "holder_name",
    "held_until",
    "progress_message",
    "progress_fraction",
    "checkpoint",
)
"""What a run's own events say of it; its workflow may also be named by begin_operation."""


_MEND = "; its log is whole: `counterfoil verify --repair` makes its rows anew"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What replaying the whole log showed."""

    runs: int
    events: int
    operations: int
    faults: tuple[str, ...]


class Auditor:
    """Looks through a whole journal; changes nothing."""

    def __init__(self, view: Viewer) -> None:
        self._view = view

    async def find(
        self,
        *,
        run: str | None = None,
        action: str | None = None,
        state: str | None = None,
        text: str | None = None,
        workflow: str | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int = 50,
    ) -> list[dict[str, Any]]:
        """List operations by what is known of them, most recently changed first; the state is today's."""
        command = FindOperations(
            run=run, action=action, state=state, text=text, workflow=workflow, since=since, until=until
        )
        wanted = search_terms(command, self._view.prepare)

        async def work(connection: Connection) -> list[dict[str, Any]]:
            now = self._view.now(connection).at
            place = {**FROM_THE_START, "namespace": self._view.namespace, "now": now}
            rows = await connection.fetch_all("search_operations", {**place, **wanted, "most": limit})
            found = []
            for operation in await load_operations(connection, rows):
                step = await self._view.step_of(connection, operation, now)
                found.append({"run": operation.run, **await self._view.step_shown(connection, step, now)})
            return found

        return await self._view.database.read(work)

    async def tail(self, *, run: str | None = None, limit: int = 20) -> list[dict[str, Any]]:
        """Give the newest events, oldest of them first."""

        async def work(connection: Connection) -> list[dict[str, Any]]:
            namespace = self._view.namespace
            names = [None if run is None else self._view.prepare.name(run, name="run")]
            if run is None:
                # An event moves its run to the front: what is newest lies in the runs touched last.
                recent = await connection.fetch_all("near_runs", {"namespace": namespace, "most": limit})
                names = [row["run"] for row in recent]
            rows = [
                row
                for name in names
                for row in await connection.fetch_all(
                    "latest_events", {"namespace": namespace, "run": name, "most": limit}
                )
            ]
            rows = sorted(rows, key=lambda row: (row["at"], row["run"], row["seq"]))[-limit:]
            return [{"run": row["run"], "operation": row["operation"], **history_entry(row)} for row in rows]

        return await self._view.database.read(work)

    async def verify(self) -> Verification:
        """Replay every run's log: the chain holds, and the rows are what the events make of them."""

        async def runs(connection: Connection) -> Sequence[Row]:
            return await connection.fetch_all("all_runs")

        faults: list[str] = []
        events = operations = 0
        every = await self._view.database.read(runs)
        for run in every:

            async def work(connection: Connection, run: Row = run) -> tuple[int, int, list[str]]:
                return await _verify_run(connection, run)

            try:
                seen, replayed, found = await self._view.database.read(work)
            except JournalUnavailable as fault:
                seen, replayed, found = 0, 0, [f"{run['run']}: {fault.message}"]
            events, operations, faults = events + seen, operations + replayed, faults + found
        for namespace in await self._view.database.read(_namespaces):

            async def own(connection: Connection, row: Row = namespace) -> tuple[int, list[str]]:
                return await verify_namespace(connection, row)

            seen, found = await self._view.database.read(own)
            events, faults = events + seen, faults + found
        return Verification(runs=len(every), events=events, operations=operations, faults=tuple(faults))


async def _namespaces(connection: Connection) -> Sequence[Row]:
    return await connection.fetch_all("all_namespaces")


async def _verify_run(connection: Connection, run: Row) -> tuple[int, int, list[str]]:
    place = {"namespace": run["namespace"], "run": run["run"]}
    row = await connection.fetch_one("read_run", place)
    if row is None:
        return 0, 0, [f"{run['run']}: the run's row is gone"]
    rows = await read_log(connection, place)
    faults = []
    broken = first_fault(
        rows, namespace=run["namespace"], run=run["run"], last_seq=row["last_seq"], head=row["head"]
    )
    if broken is not None:
        faults.append(f"{run['run']}: {broken.problem}")
    by_operation, unreadable = events_by_operation(rows)
    faults += [f"{run['run']}: event {seq} cannot be read" for seq in unreadable]
    is_whole = not faults
    uses: dict[str, dict[str, bool]] = {}
    for use in await connection.fetch_all("read_grant_uses", place):
        uses.setdefault(use["operation"], {})[use["grant_id"]] = bool(use["is_held"])
    stored = await connection.fetch_all("read_operations", place)
    for operation_row in stored:
        own_events = by_operation.pop(operation_row["id"], [])
        problem = await _replay_problem(connection, operation_row, own_events)
        problem = problem or _use_problem(own_events, uses.pop(operation_row["id"], {}))
        if problem is not None:
            mend = _MEND if is_whole and own_events else ""
            faults.append(f"{run['run']}: operation {operation_row['id']} {problem}{mend}")
    if by_operation.pop("", None) is not None and not _is_replayed(row, rows):
        faults.append(f"{run['run']}: the run's row says what its events do not lead to")
    mend = _MEND if is_whole else ""
    faults += [f"{run['run']}: operation {name} is in the log and has no row{mend}" for name in by_operation]
    return len(rows), len(stored), faults


def _is_replayed(row: Row, events: Sequence[Row]) -> bool:
    """Tell whether a run's row is what its own events make of it, its place in the log apart."""
    stored = run_from_row(row)
    replayed: Run | None = None
    try:
        for event in events:
            if event["operation"] == "":
                replayed = evolve_run(
                    replayed,
                    Event(
                        kind=EventKind(event["kind"]),
                        operation="",
                        at=event["at"],
                        data=json.loads(event["data"]),
                    ),
                    namespace=stored.namespace,
                    name=stored.run,
                )
    except (ValueError, TypeError, LookupError, AttributeError):
        return False
    return replayed is not None and all(
        getattr(replayed, name) == getattr(stored, name) for name in _REPLAYED_OF_A_RUN
    )


def _use_problem(events: list[Event], uses: dict[str, bool]) -> str | None:
    replayed = evolve_all(None, events)
    if replayed is not None and held_grants(replayed) != uses:
        return "has uses of grants that its events do not lead to"
    return None


async def _replay_problem(connection: Connection, row: Row, events: list[Event]) -> str | None:
    try:
        loaded = await load_operation(connection, row)
        replayed = evolve_all(None, events)
    except (ValueError, TypeError, LookupError, AttributeError):
        return "cannot be replayed"
    if replayed is None or loaded is None:
        return "has a row and is not in the log"
    if loaded.is_damaged:
        return "has rows that cannot be read"
    if loaded != replayed:
        return "has rows that its events do not lead to"
    if row["state"] != state_of(replayed, replayed.updated_at).value:
        return "has a state that its events do not lead to"
    return None
