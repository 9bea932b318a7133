"""What a plan is made of: the operations to list, what lies around them, and what stands in their way."""

from collections.abc import Sequence

from counterfoil.store.contexts import PreparedContext, prepare_context
from counterfoil.store.damaged_rows import misled
from counterfoil.store.domain.commands import ResumePlan
from counterfoil.store.domain.context import UNKNOWN, Drift, compare_contexts
from counterfoil.store.domain.grants import Authority
from counterfoil.store.domain.instants import Instant, is_instant
from counterfoil.store.domain.model import Operation, Run, State
from counterfoil.store.domain.outlook import Barriers, is_misled
from counterfoil.store.preparing import Bodies
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.resolving import of_key
from counterfoil.store.rows import load_operations
from counterfoil.store.run_showing import STATES
from counterfoil.store.viewing import Viewer
from counterfoil.store.weighing import Bench, barriers_of, context_of, today_of

__all__ = ["PlanReading"]


class PlanReading:
    """Reads for a plan; every method is part of its transaction."""

    def __init__(self, view: Viewer) -> None:
        self._view = view

    async def operations(
        self,
        connection: Connection,
        place: dict[str, str],
        command: ResumePlan,
        now: Instant,
        *,
        is_whole: bool,
    ) -> tuple[tuple[Operation, ...], tuple[Operation, ...], list[str]]:
        """Read the operations that are listed, those that they wait for, and how damaged ones were counted.

        What is read does not grow with settled operations, unless all are asked for, or a state is none.
        """
        is_whole = is_whole or command.include == "all"
        statement = "read_operations" if is_whole else "read_unsettled_operations"
        rows = await connection.fetch_all(statement, place)
        operations = await load_operations(connection, rows)
        known = {operation.key for operation in operations}
        around: list[Operation] = []
        missing = {key for operation in operations for key in operation.depends_on} - known
        while missing:
            key = missing.pop()
            found = await of_key(connection, place["namespace"], place["run"], key)
            known.add(key)
            if found is not None:
                around.append(found)
                missing |= {*found.depends_on} - known
        by_key = {operation.key: operation for operation in (*around, *operations)}
        operations = tuple(misled(one) if is_misled(one, by_key) else one for one in operations)
        misread = [
            _counted_state(row, now)
            for row, operation in zip(rows, operations, strict=True)
            if operation.is_damaged
        ]
        return operations, tuple(around), misread

    async def drifts(self, connection: Connection, run: Run, command: ResumePlan) -> tuple[Drift, ...]:
        """Compare today's context, as far as anybody said it, with the run's."""
        given = self._today(command)
        recorded = await context_of(connection, run.namespace, run.context)
        today = await today_of(
            connection,
            run.namespace,
            run,
            None,
            None if given is None else given.value,
            recorded=recorded,
        )
        drifts = () if today is None else compare_contexts(recorded, today, self._view.policy.drift)
        # Who asks without a context is shown what differs, not everything that was not said.
        return drifts if given is not None else tuple(d for d in drifts if d.given != UNKNOWN)

    def _today(self, command: ResumePlan) -> PreparedContext | None:
        if command.context is None:
            return None
        return prepare_context(
            dict(command.context), workflow_version=None, prepare=self._view.prepare, bodies=Bodies()
        )

    async def barriers(
        self,
        connection: Connection,
        operations: Sequence[Operation],
        run: Run,
        command: ResumePlan,
        now: Instant,
        principal: str,
    ) -> tuple[dict[str, Barriers], dict[str, Authority]]:
        """Tell what stands in the way of each operation from outside it."""
        today = self._today(command)
        benches: dict[tuple[str | None, ...], Bench] = {}
        barriers, authorities = {}, {}
        for operation in operations:
            barriers[operation.id], authorities[operation.id] = await barriers_of(
                connection,
                operation,
                run=run,
                policy=self._view.policy,
                principal=principal,
                today=None if today is None else today.value,
                now=now,
                benches=benches,
            )
        return barriers, authorities


def _counted_state(row: Row, now: Instant) -> str:
    """Tell as what `count_states` counts a row."""
    state, deadline, lease = row["state"], row["deadline_at"], row["lease_until"]
    if state not in STATES:
        return State.IN_DOUBT.value
    if state in ("in_progress", "in_doubt", "failed") and is_instant(deadline) and deadline <= now:
        return State.TIMED_OUT.value
    if state == "in_progress" and is_instant(lease) and lease <= now:
        return State.IN_DOUBT.value
    return str(state)
