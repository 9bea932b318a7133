"""What only people look at: finding operations, watching the log, and proving that it holds."""

from functools import partial
from typing import Any

from msgspec import Struct

from counterfoil.store.domain.commands import FindOperations
from counterfoil.store.domain.instants import Instant, is_instant, rfc3339
from counterfoil.store.errors import JournalUnavailable
from counterfoil.store.finding import FROM_THE_START, search_terms
from counterfoil.store.namespace_log import verify_namespace
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.proving import Fault, ProvedRun, fault_of_unfit, prove_contexts, prove_run
from counterfoil.store.rows import load_operations
from counterfoil.store.shared_rows import unfit_rows
from counterfoil.store.viewing import Viewer, history_entry

__all__ = ["Auditor", "Verification"]

_NAMELESS = "there are rows whose namespace or run is no text"


class Verification(Struct, frozen=True, kw_only=True):
    """What replaying the whole log showed. `events` are those of runs, which are what `copy` counts.

    `namespace_events` are the rest: what was granted, asked, restored or told of a namespace as a whole.
    """

    runs: int
    events: int
    operations: int
    namespace_events: int
    faults: tuple[str, ...]
    is_mendable: bool
    """Whether there are faults, and `verify --repair` can mend each of them."""


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
                shown = await self._view.step_shown(connection, step, now)
                found.append({"run": operation.run, "changed_at": rfc3339(operation.updated_at), **shown})
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
            rows = sorted(rows, key=_place_in_time)[-limit:]
            return [{"run": row["run"], "operation": row["operation"], **history_entry(row)} for row in rows]

        return await self._view.database.read(work)

    async def verify(self) -> Verification:
        """Replay every run's log: the chain holds, and the rows are what the events make of them."""

        database, proved = self._view.database, ProvedRun()
        every = []
        for row in await database.read(lambda connection: connection.fetch_all("runs_on_file")):
            if isinstance(row["namespace"], str) and isinstance(row["run"], str):
                every.append(row)
            else:
                proved.faults.append(Fault(text=f"{_NAMELESS}; restore a backup"))
        whole: set[tuple[str, str]] = set()
        contexts: dict[str, dict[str, str]] = {row["namespace"]: {} for row in every}
        for row in every:
            place = {"namespace": row["namespace"], "run": row["run"]}
            try:
                run = await database.read(partial(prove_run, place=place))
            except JournalUnavailable as fault:
                run = ProvedRun(faults=[Fault(text=f"{row['run']}: {fault.message}")])
            if run.is_whole:
                whole.add((row["namespace"], row["run"]))
            contexts[row["namespace"]] |= dict.fromkeys(run.contexts, str(row["run"]))
            proved.events += run.events
            proved.operations += run.operations
            proved.faults += run.faults
        # Later than the runs: what a server writes meanwhile refers to no context that was not there before.
        for namespace, wanted in contexts.items():
            try:
                proved.faults += await database.read(
                    partial(prove_contexts, namespace=namespace, wanted=wanted)
                )
            except JournalUnavailable as fault:
                proved.faults.append(Fault(text=f"namespace {namespace}: {fault.message}"))
        for unfit in await database.read(unfit_rows):
            proved.faults.append(fault_of_unfit(unfit, is_whole=(unfit.namespace, unfit.run) in whole))
        namespace_events = 0
        for row in await database.read(lambda connection: connection.fetch_all("all_namespaces")):
            if not isinstance(row["namespace"], str):
                proved.faults.append(Fault(text=f"{_NAMELESS}; restore a backup"))
                continue
            seen, found = await database.read(partial(verify_namespace, row=row))
            namespace_events += seen
            proved.faults += [Fault(text=text) for text in found]
        return Verification(
            runs=len(every),
            events=proved.events,
            operations=proved.operations,
            namespace_events=namespace_events,
            faults=tuple(fault.text for fault in proved.faults),
            is_mendable=bool(proved.faults) and all(fault.is_mendable for fault in proved.faults),
        )


def _place_in_time(row: Row) -> tuple[Instant, str, int]:
    """Give what events are shown in the order of; one that cannot be read comes first."""
    at, seq = row["at"], row["seq"]
    return (at if is_instant(at) else 0), str(row["run"]), (seq if isinstance(seq, int) else 0)
