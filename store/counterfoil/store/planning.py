"""resume_plan: what is done, in doubt and allowed in a run, or which runs are open."""

from collections.abc import Mapping, Sequence
from typing import Any

from counterfoil.store.arrivals import arrived_in
from counterfoil.store.contexts import PreparedContext, drift_shown, prepare_context
from counterfoil.store.cursors import (
    RunsCursor,
    read_cursor,
    read_runs_cursor,
    write_cursor,
    write_runs_cursor,
)
from counterfoil.store.damaged_rows import misled
from counterfoil.store.domain.answers import guidance_for
from counterfoil.store.domain.commands import Caller, ResumePlan
from counterfoil.store.domain.context import UNKNOWN, Drift, compare_contexts
from counterfoil.store.domain.criteria import CriterionState, judge
from counterfoil.store.domain.grants import Authority
from counterfoil.store.domain.instants import Instant, is_instant, rfc3339
from counterfoil.store.domain.model import Operation, Party, Run, State
from counterfoil.store.domain.outlook import Barriers, is_misled
from counterfoil.store.domain.plan import Step, make_steps
from counterfoil.store.domain.states import state_of
from counterfoil.store.domain.untrusted import escape_untrusted
from counterfoil.store.errors import BodyDamaged, InvalidArgument, RunDamaged
from counterfoil.store.journal_identity import JournalIdentity
from counterfoil.store.preparing import Bodies
from counterfoil.store.presenting import answer_head, without_none
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.resolving import criteria_of, no_such_run, satisfying_in
from counterfoil.store.rows import load_operations, run_from_row
from counterfoil.store.viewing import ANSWER_ROOM, CONTEXT_DAMAGED, Viewer, party_of, safe, size_of
from counterfoil.store.weighing import Bench, barriers_of, context_of, today_of

__all__ = ["Planner"]

_STATES = frozenset(State)
_MOST_STEPS = 50
_MOST_RUNS = 20
_MOST_CRITERIA = 8
_MOST_CHILDREN = 5
_CRITERIA_DAMAGED = (
    "the criteria on record are not those that were recorded: where they stand cannot be told, and the run "
    "cannot be finished as completed, until a person has run `counterfoil verify` and restored a backup"
)
_FROM_THE_NEWEST = {"before_touched": 2**62, "after_run": ""}
_NEW_FOR = 3_600 * 1_000_000
"""How long a journal counts as just created, in microseconds: absence in it is no evidence."""


class Planner:
    """Makes plans; changes nothing."""

    def __init__(self, view: Viewer, *, identity: JournalIdentity) -> None:
        self._view = view
        self._identity = identity

    async def plan(self, command: ResumePlan, caller: Caller) -> dict[str, Any]:
        """Tell what is done, in doubt and allowed in a run, or which runs are open where none is named.

        Raises:
            InvalidArgument: a cursor, limit or include that is not ours.
            JournalUnavailable: nothing can be told; absence is not proven.
        """
        if command.include not in ("open", "all"):
            raise InvalidArgument("include", "is unknown", accepted='"open" or "all"')
        if command.limit is not None and not 1 <= command.limit <= 1_000:
            raise InvalidArgument("limit", "is out of range", accepted="1 to 1000")
        if command.run is None:
            return await self._view.database.read(lambda connection: self._runs(connection, command))
        name = self._view.prepare.name(command.run, name="run")
        return await self._view.database.read(
            lambda connection: self._run_plan(
                connection, command, name, self._view.now(connection).at, party_of(caller)
            )
        )

    async def with_first_page(
        self, connection: Connection, answer: dict[str, Any], name: str, now: Instant, party: Party
    ) -> dict[str, Any]:
        """Put the first page of a run's plan under an answer about the run, which keeps its own verb."""
        if answer["next"] != "continue":
            return answer
        plan = await self._run_plan(connection, ResumePlan(run=name), name, now, party)
        warnings = dict.fromkeys((*answer.get("warnings", ()), *plan.get("warnings", ())))
        return {
            **plan,
            **answer,
            "run": plan["run"],
            **({"warnings": list(warnings)} if warnings else {}),
        }

    async def _journal_shown(self, connection: Connection, now: Instant) -> dict[str, Any]:
        identity = self._identity
        is_new = now - identity.created_at < _NEW_FOR
        if not is_new:
            rows = await connection.fetch_all("near_runs", {"namespace": self._view.namespace, "most": 1})
            is_new = not rows
        shown = {"id": identity.id, "created_at": rfc3339(identity.created_at), "is_new": is_new}
        if identity.restored_at is not None:
            # What came after the backup is missing, so that absence here is no evidence either.
            shown["restored_at"] = rfc3339(identity.restored_at)
        return shown

    async def _run_plan(
        self, connection: Connection, command: ResumePlan, name: str, now: Instant, party: Party
    ) -> dict[str, Any]:
        journal = await self._journal_shown(connection, now)
        place = {"namespace": self._view.namespace, "run": name}
        row = await connection.fetch_one("read_run", place)
        if row is None:
            near = await no_such_run(connection, self._view.namespace, name)
            return {
                **answer_head("continue", "no_history", now),
                "journal": journal,
                "run": {"run": name},
                "counts": {},
                "steps": [],
                "complete": False,
                "cut": False,
                "near_runs": list(near.candidates) if near.listed == "near" else [],
            }
        run = run_from_row(row)
        counts, is_damaged, gone = await self._counts_of(connection, run, now)
        is_all = command.include == "all"
        operations, around, misread = await self._operations(
            connection, place, command, now, is_whole=is_damaged
        )
        for state in misread:
            counts[state] = counts.get(state, 0) - 1
            counts[State.IN_DOUBT.value] = counts.get(State.IN_DOUBT.value, 0) + 1
        counts = {state: number for state, number in counts.items() if number > 0}
        damaged = gone + sum(operation.is_damaged for operation in operations)
        warnings: list[str] = []
        drifts: tuple[Drift, ...] = ()
        try:
            drifts = await self._drifts(connection, run, command)
        except BodyDamaged:
            warnings.append(CONTEXT_DAMAGED)
        criteria = None
        try:
            criteria = await self._criteria(connection, run, place)
        except BodyDamaged:
            warnings.append(_CRITERIA_DAMAGED)
        barriers, authorities = await self._barriers(
            connection, operations, run, command, now, party.principal
        )
        waiting = [one for one in operations if state_of(one, now) in (State.PLANNED, State.FAILED)]
        suspects = await arrived_in(connection, place, waiting, has_settled=is_damaged or is_all)
        steps = make_steps(
            operations,
            run=run,
            now=now,
            policy=self._view.policy,
            around=around,
            barriers=lambda operation: barriers[operation.id],
            party=party,
            authorities=authorities,
            suspects=suspects,
        )
        after = read_cursor(command.cursor, name, command.include)
        listed = [step for step in steps if command.include == "all" or step.outlook.next != "skip"]
        pending = [step for step in listed if after is None or step.place > after.place]
        shown: list[dict[str, Any]] = []
        used = 0
        for step in pending[: min(command.limit or _MOST_STEPS, _MOST_STEPS)]:
            entry = await self._view.step_shown(connection, step, now)
            used += size_of(entry)
            if used > ANSWER_ROOM and shown:
                break
            shown.append(entry)
        is_cut = len(shown) < len(pending)
        # A rank may change by time alone, so the ranks of then are compared as well as the log's length.
        has_moved = after is not None and (
            after.seq != run.last_seq
            or self._ranks_at(operations, around, run, after.as_of, barriers, suspects) != _ranks(steps)
        )
        seq, as_of = (run.last_seq, now) if after is None else (after.seq, after.as_of)
        return without_none(
            {
                **answer_head("continue", "listed", now),
                "journal": journal,
                "run": await self._run_whole(connection, run, now),
                "drift": drift_shown(drifts),
                "criteria": criteria,
                "counts": counts,
                "steps": shown,
                "guidances": {
                    entry["reason"]: guidance_for(entry["next"], entry["reason"]) for entry in shown
                },
                "complete": not gone and all(step.outlook.next == "skip" for step in steps),
                "damaged": damaged or None,
                "cut": is_cut,
                "next_cursor": write_cursor(pending[len(shown) - 1].place, seq, as_of, name, command.include)
                if is_cut
                else None,
                "changed_meanwhile": True if has_moved and not is_cut else None,
                "warnings": warnings or None,
            }
        )

    async def _operations(
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
            row = await connection.fetch_one("read_operation", {**place, "key": key})
            found = await load_operations(connection, () if row is None else (row,))
            around += found
            known.add(key)
            missing |= {other for operation in found for other in operation.depends_on} - known
        by_key = {operation.key: operation for operation in (*around, *operations)}
        operations = tuple(misled(one) if is_misled(one, by_key) else one for one in operations)
        misread = [
            _counted_state(row, now)
            for row, operation in zip(rows, operations, strict=True)
            if operation.is_damaged
        ]
        return operations, tuple(around), misread

    async def _drifts(self, connection: Connection, run: Run, command: ResumePlan) -> tuple[Drift, ...]:
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

    async def _criteria(
        self, connection: Connection, run: Run, place: dict[str, str]
    ) -> dict[str, Any] | None:
        """Count where the criteria stand, and name the ones that are not met."""
        criteria = await criteria_of(connection, run)
        if not criteria:
            return None
        judged = judge(criteria, await satisfying_in(connection, place))
        open_ones = [one for one in judged if one.state is not CriterionState.MET]
        shown: list[dict[str, Any]] = [
            without_none(
                {
                    "id": safe(one.criterion.id),
                    "text": escape_untrusted(one.criterion.text, limit=120) or None,
                    "state": one.state.value,
                    "required": one.criterion.required,
                    "by": list(one.by[:3]) or None,
                }
            )
            for one in open_ones[:_MOST_CRITERIA]
        ]
        counts = {state.value: sum(one.state is state for one in judged) for state in CriterionState}
        return {**counts, "open": shown, "cut": len(open_ones) > len(shown)}

    async def _children(self, connection: Connection, run: Run) -> list[dict[str, Any]] | None:
        """Name the runs that this one started, the newest of them where there are many."""
        rows = await connection.fetch_all(
            "child_runs", {"namespace": run.namespace, "run": run.run, "most": _MOST_CHILDREN + 1}
        )
        shown: list[dict[str, Any]] = [
            without_none({"run": row["run"], "finished_as": row["finished_as"]})
            for row in rows[:_MOST_CHILDREN]
        ]
        if len(rows) > _MOST_CHILDREN:
            shown.append({"cut": True, "whole": "find_operations or `counterfoil runs`"})
        return shown or None

    async def _run_whole(self, connection: Connection, run: Run, now: Instant) -> dict[str, Any]:
        """Show a run with what it is for, who is at it, and the last checkpoint."""
        is_held = run.held_until is not None and now < run.held_until
        shown = {
            **_run_shown(run),
            "goal": safe(run.goal),
            "spec": without_none({"uri": safe(run.spec_uri), "digest": safe(run.spec_digest)}) or None,
            "parent": run.parent,
            "children": await self._children(connection, run),
            "held_by": (safe(run.holder_name) or "a session without a name") if is_held else None,
            "held_until": rfc3339(run.held_until) if is_held and run.held_until is not None else None,
            "progress": without_none(
                {"message": safe(run.progress_message), "fraction": run.progress_fraction}
            )
            or None,
            "finish_reason": safe(run.finish_reason),
        }
        if run.checkpoint is not None:
            shown["checkpoint"] = await self._view.body(connection, run, run.checkpoint, detail="checkpoint")
        return without_none(shown)

    async def _runs(self, connection: Connection, command: ResumePlan) -> dict[str, Any]:
        """List the runs, the last one touched first.

        A cursor skips no run that was not touched; the last page says whether one was since the first one.
        """
        now = self._view.now(connection).at
        after = read_runs_cursor(command.cursor, command.include)
        most = min(command.limit or _MOST_RUNS, _MOST_RUNS)
        place = {"namespace": self._view.namespace, **_FROM_THE_NEWEST}
        page = {} if after is None else {"before_touched": after.touched_at, "after_run": after.run}
        is_whole = int(command.include == "all")
        rows = await connection.fetch_all(
            "list_runs", {**place, **page, "everything": is_whole, "most": most + 1}
        )
        shown: list[dict[str, Any]] = []
        used = 0
        for row in rows[:most]:
            try:
                run = run_from_row(row)
            except RunDamaged as fault:
                # Whatever it is, it is not over: the list stays incomplete, and the other runs are served.
                entry = {
                    "run": safe(str(row["run"])),
                    "touched_at": rfc3339(now),
                    "counts": {State.IN_DOUBT.value: 1},
                    "operations": 1,
                    "warnings": [fault.message],
                }
            else:
                counts, _is_damaged, gone = await self._counts_of(connection, run, now)
                entry = {
                    **_run_shown(run),
                    "age_seconds": max(0, now - run.created_at) // 1_000_000,
                    "counts": counts,
                    **({"missing": gone} if gone else {}),
                }
            used += size_of(entry)
            if used > ANSWER_ROOM and shown:
                break
            shown.append(entry)
        is_cut = len(shown) < len(rows)
        is_empty = not rows and command.cursor is None
        last = rows[len(shown) - 1] if shown else None
        as_of = now if after is None else after.as_of
        has_moved = False
        if after is not None and not is_cut:
            # A run that was finished since has left this list: of all runs the one touched last is looked at.
            newest = await connection.fetch_one("list_runs", {**place, "everything": 1, "most": 1})
            has_moved = newest is not None and newest["touched_at"] >= as_of
        return without_none(
            {
                **answer_head("continue", "no_history" if is_empty else "listed", now),
                "journal": await self._journal_shown(connection, now),
                "runs": shown,
                "complete": not is_cut
                and not has_moved
                and all(_nothing_is_open(entry["counts"]) for entry in shown),
                "cut": is_cut,
                "next_cursor": write_runs_cursor(
                    RunsCursor(touched_at=last["touched_at"], run=last["run"], as_of=as_of), command.include
                )
                if is_cut and last is not None
                else None,
                "changed_meanwhile": True if has_moved else None,
            }
        )

    async def _counts_of(
        self, connection: Connection, run: Run, now: Instant
    ) -> tuple[dict[str, int], bool, int]:
        """Count the states of a run, and tell whether one is none, and how many rows are gone.

        Whatever these were, they are in doubt.
        """
        rows = await connection.fetch_all(
            "count_states", {"namespace": run.namespace, "run": run.run, "now": now}
        )
        counts: dict[str, int] = {}
        for row in rows:
            state = row["state_now"] if row["state_now"] in _STATES else State.IN_DOUBT.value
            counts[state] = counts.get(state, 0) + row["operations"]
        gone = max(0, run.operations - sum(counts.values()))
        if gone:
            counts[State.IN_DOUBT.value] = counts.get(State.IN_DOUBT.value, 0) + gone
        return counts, any(row["state_now"] not in _STATES for row in rows), gone

    def _ranks_at(
        self,
        operations: Sequence[Operation],
        around: Sequence[Operation],
        run: Run,
        at: Instant,
        barriers: Mapping[str, Barriers],
        suspects: Sequence[Operation],
    ) -> dict[str, int]:
        steps = make_steps(
            operations,
            run=run,
            now=at,
            policy=self._view.policy,
            around=around,
            barriers=lambda operation: barriers[operation.id],
            suspects=suspects,
        )
        return _ranks(steps)

    async def _barriers(
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
    if state not in _STATES:
        return State.IN_DOUBT.value
    if state in ("in_progress", "in_doubt", "failed") and is_instant(deadline) and deadline <= now:
        return State.TIMED_OUT.value
    if state == "in_progress" and is_instant(lease) and lease <= now:
        return State.IN_DOUBT.value
    return str(state)


def _run_shown(run: Run) -> dict[str, Any]:
    return without_none(
        {
            "run": run.run,
            "workflow": safe(run.workflow),
            "workflow_version": safe(run.workflow_version),
            "created_at": rfc3339(run.created_at),
            "touched_at": rfc3339(run.touched_at),
            "operations": run.operations,
            "schedule": None
            if run.schedule_name is None
            else {"name": safe(run.schedule_name), "occurrence": safe(run.schedule_occurrence)},
            "finished_as": run.finished_as,
        }
    )


def _nothing_is_open(counts: dict[str, int]) -> bool:
    return all(State(state).is_settled for state in counts)


def _ranks(steps: Sequence[Step]) -> dict[str, int]:
    return {step.operation.id: step.rank for step in steps}
