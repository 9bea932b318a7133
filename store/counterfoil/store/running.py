"""The commands about whole runs: begun, held, finished; called by the journal inside its transaction."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from counterfoil.store.contexts import PreparedContext, context_from, drift_shown, save_context
from counterfoil.store.damaged_rows import refuse_lost, rows_are_gone
from counterfoil.store.domain.answers import HOLD_ENDED, NOT_HELD
from counterfoil.store.domain.begin import BeginGiven
from counterfoil.store.domain.commands import ReleaseRun
from counterfoil.store.domain.context import accepted_context, compare_contexts
from counterfoil.store.domain.criteria import CriterionState, judge
from counterfoil.store.domain.drafting import Situation
from counterfoil.store.domain.events import EventKind, to_data
from counterfoil.store.domain.holds import attempts_of_holder, holder_seen, is_held
from counterfoil.store.domain.holds import held_until as end_of_hold
from counterfoil.store.domain.instants import Instant, rfc3339
from counterfoil.store.domain.model import Operation, Party, Run, State
from counterfoil.store.domain.progress import ProgressFacts
from counterfoil.store.domain.runs import (
    RunFacts,
    RunGiven,
    RunVerdict,
    SpecGiven,
    decide_begin_run,
    decide_finish_run,
    decide_release_run,
    decide_run_progress,
    decide_set_spec,
    differing_parts,
)
from counterfoil.store.domain.states import state_of
from counterfoil.store.errors import BodyDamaged, Forbidden
from counterfoil.store.preparing import Bodies
from counterfoil.store.presenting import answer_head
from counterfoil.store.protocol import Connection
from counterfoil.store.resolving import (
    criteria_of,
    last_compaction,
    look_alike_terms,
    no_such_run,
    satisfying_in,
    was_called,
)
from counterfoil.store.rows import load_operations, run_from_row
from counterfoil.store.viewing import CONTEXT_DAMAGED, Viewer, safe
from counterfoil.store.weighing import context_of, today_of
from counterfoil.store.writing import Change, RunPlace, carry_out

__all__ = ["RunKeeping"]

_MOST_SHOWN = 10
_NAMELESS = "a session without a name"


class RunKeeping:
    """Keeps the runs of one namespace; every method is part of a transaction."""

    def __init__(self, view: Viewer) -> None:
        self._view = view

    async def facts(
        self,
        connection: Connection,
        name: str,
        *,
        steps: Sequence[BeginGiven] = (),
        party: Party | None = None,
    ) -> RunFacts:
        """Read a run with its unsettled operations, and with the settled ones that `steps` may be about.

        `party` is who adds the steps. A run may have any number of settled operations; what is read does not
        grow with them.
        """
        place = {"namespace": self._view.namespace, "run": name}
        row = await connection.fetch_one("read_run", place)
        if row is None:
            await refuse_lost(connection, **place)
            return RunFacts(run=None)
        rows = list(await connection.fetch_all("read_unsettled_operations", place))
        for key in dict.fromkeys(key for step in steps for key in (step.key, *step.depends_on)):
            rows += await connection.fetch_all("read_operation", {**place, "key": key})
        for step in steps:
            rows += await connection.fetch_all("look_alikes", look_alike_terms(step))
        operations = await load_operations(connection, {each["id"]: each for each in rows}.values())
        compacted_at = None
        if steps and party is not None:
            compacted_at = await last_compaction(connection, self._view.namespace, operations, party)
        return RunFacts(
            run=run_from_row(row),
            operations=tuple(sorted(operations, key=lambda operation: operation.position)),
            compacted_at=compacted_at,
        )

    async def existing(self, connection: Connection, name: str) -> tuple[Run, tuple[Operation, ...]]:
        """Read a run that has to be there.

        Raises:
            NotFound: it is not, with the nearest names.
        """
        facts = await self.facts(connection, name)
        if facts.run is None:
            raise await no_such_run(connection, self._view.namespace, name)
        return facts.run, facts.operations

    async def begin(
        self,
        connection: Connection,
        given: RunGiven,
        context: PreparedContext | None,
        situation: Situation,
        bodies: Bodies,
        caller: str,
    ) -> dict[str, Any]:
        """Begin a run or come back to it; the answer lacks only the first page of the plan."""
        facts = await self.facts(connection, given.run, steps=given.steps, party=situation.party)
        given_today = None if context is None else context.value
        is_unreadable = False
        try:
            recorded = await context_of(
                connection, self._view.namespace, None if facts.run is None else facts.run.context
            )
            today = await today_of(
                connection, self._view.namespace, facts.run, None, given_today, recorded=recorded
            )
        except BodyDamaged:
            if given.accept_reason is not None:
                # Nobody can see what it is that would be accepted.
                raise
            recorded, today, is_unreadable = None, given_today, True
        drifts = compare_contexts(recorded, today, self._view.policy.drift)
        offered = context
        given = replace(
            given,
            context=None if context is None else context.digest,
            offered=None if offered is None else offered.digest,
            is_redelivered=await self._was_called(connection, given.run, EventKind.RUN_BEGUN, situation),
        )
        is_blocked = any(drift.drift_class == "block" for drift in drifts) and not situation.is_person
        # Without a context of its own an acceptance is of what begin_run last told of, which plans show.
        if given.accept_reason is not None and today is not None:
            said = today if context is None else context.value
            context = context_from(accepted_context(recorded, said, drifts, is_person=situation.is_person))
            given = replace(given, context=context.digest)
        verdict = decide_begin_run(given, facts, situation)
        if verdict.next == "continue":
            for kept in (context, offered):
                if kept is not None:
                    await save_context(connection, self._view.namespace, kept, situation.now.at)
            await self._write(connection, facts.run, verdict, bodies, caller, situation)
        is_accepted = verdict.next == "continue" and given.accept_reason is not None
        answer = self._answer(verdict, situation.now.at, facts.operations)
        if is_unreadable:
            answer.setdefault("warnings", []).append(CONTEXT_DAMAGED)
        answer["drift"] = drift_shown(
            [drift for drift in drifts if not is_accepted or (is_blocked and drift.drift_class == "block")]
        )
        if is_accepted and is_blocked:
            answer.setdefault("warnings", []).append(
                "what is classed block was not accepted: only a person lifts it (counterfoil grant)"
            )
        if is_accepted and context is None:
            answer.setdefault("warnings", []).append(
                "accept_drift accepted nothing: no difference is known; give today's context beside it"
            )
        twin = await self._twin(connection, given)
        if twin is not None:
            answer.setdefault("warnings", []).append(
                f"another run declares the same slot of this schedule: {safe(twin)}"
            )
        if verdict.duplicates:
            answer["duplicates"] = [
                {"step": key, **shown}
                for key, alike in list(verdict.duplicates.items())[:_MOST_SHOWN]
                for shown in self._view.present.duplicates(alike[:2], situation.now.at)
            ]
            answer["duplicates_in_all"] = len(verdict.duplicates)
        if verdict.conflicts:
            answer["conflict"] = [
                {
                    "step": step.key,
                    "operation": existing.id,
                    "state": state_of(existing, situation.now.at).value,
                    "differs": differing_parts(step, existing),
                }
                for step, existing in verdict.conflicts[:_MOST_SHOWN]
            ]
            answer["conflict_in_all"] = len(verdict.conflicts)
        if verdict.steps:
            answer["steps_added"] = len(verdict.steps)
        return {name: value for name, value in answer.items() if value is not None}

    async def _twin(self, connection: Connection, given: RunGiven) -> str | None:
        """Name another run of the same slot: only the name of a run identifies it, and names can differ."""
        if given.schedule_name is None:
            return None
        row = await connection.fetch_one(
            "same_occurrence",
            {
                "namespace": self._view.namespace,
                "run": given.run,
                "schedule_name": given.schedule_name,
                "schedule_occurrence": given.schedule_occurrence,
            },
        )
        return None if row is None else str(row["run"])

    async def finish(
        self,
        connection: Connection,
        name: str,
        outcome: str,
        reason: str | None,
        situation: Situation,
        caller: str,
    ) -> dict[str, Any]:
        """Finish a run, or say what stands against it."""
        run, operations = await self.existing(connection, name)
        place = {"namespace": self._view.namespace, "run": name}
        counted = await connection.fetch_all("count_states", {**place, "now": situation.now.at})
        if sum(row["operations"] for row in counted) < run.operations:
            raise rows_are_gone("an operation of this run")
        timed_out = {**place, "state": State.TIMED_OUT.value}
        operations += await load_operations(
            connection, await connection.fetch_all("read_operations_in_state", timed_out)
        )
        criteria = await criteria_of(connection, run)
        judged = judge(criteria, await satisfying_in(connection, place) if criteria else ())
        missing = [
            one.criterion.id
            for one in judged
            if one.criterion.required and one.state is not CriterionState.MET
        ]
        verdict = decide_finish_run(
            run,
            operations,
            outcome,
            reason,
            situation,
            unmet_criteria=missing,
            is_redelivered=await self._was_called(connection, name, EventKind.RUN_FINISHED, situation),
        )
        await self._write(connection, run, verdict, Bodies(), caller, situation)
        answer = self._answer(verdict, situation.now.at, operations)
        if verdict.reason == "unmet" and missing:
            answer["unmet_criteria"] = [safe(name) for name in missing[:_MOST_SHOWN]]
            answer["unmet_criteria_in_all"] = len(missing)
        if verdict.unmet:
            answer["unmet"] = [
                {
                    "operation": operation.id,
                    "key": operation.key,
                    "state": state_of(operation, situation.now.at).value,
                }
                for operation in verdict.unmet[:_MOST_SHOWN]
            ]
            answer["unmet_in_all"] = len(verdict.unmet)
        return answer

    async def release(
        self,
        connection: Connection,
        name: str,
        command: ReleaseRun,
        situation: Situation,
        caller: str,
    ) -> dict[str, Any]:
        """End the hold on a run.

        Raises:
            NotFound: there is no such run.
            Forbidden: by somebody who is not shown to be a person.
        """
        run, operations = await self.existing(connection, name)
        if not situation.is_person:
            raise Forbidden(
                "only a person ends a session's hold on a run; nothing was changed",
                fix="answer at a terminal, or bring the operator's secret; an agent waits until retry_at",
            )
        verdict = decide_release_run(
            run,
            operations,
            command.reason,
            situation,
            seen=command.seen,
            is_redelivered=await self._was_called(connection, name, EventKind.RUN_RELEASED, situation),
        )
        await self._write(connection, run, verdict, Bodies(), caller, situation)
        answer = self._answer(verdict, situation.now.at)
        if verdict.next != "continue":
            return answer
        if not verdict.events:
            return {**answer, "guidance": NOT_HELD}
        return {
            **answer,
            "guidance": HOLD_ENDED,
            **self._hold(run, operations, situation.now.at),
        }

    async def hold(self, connection: Connection, name: str, now: Instant) -> dict[str, Any]:
        """Show who holds a run, for the person who is about to end it; `seen` is what was shown."""
        run, operations = await self.existing(connection, name)
        shown: dict[str, Any] = {"as_of": rfc3339(now), "run": run.run}
        if is_held(run, operations, now):
            shown |= {**self._hold(run, operations, now), "seen": holder_seen(run)}
        return shown

    def _hold(self, run: Run, operations: Sequence[Operation], now: Instant) -> dict[str, Any]:
        """Tell who holds a run and until when, and which live attempts outlive the hold."""
        shown: dict[str, Any] = {
            "held_by": safe(run.holder_name) or _NAMELESS,
            "held_until": rfc3339(end_of_hold(run, operations, now)),
        }
        if run.holder is not None:
            shown["session"] = {name: safe(text) for name, text in to_data(run.holder).items()}
        live = attempts_of_holder(run, operations, now)
        if live:
            shown["live_attempts"] = [
                {
                    "operation": operation.id,
                    "key": operation.key,
                    "attempt": attempt.number,
                    "lease_expires_at": rfc3339(attempt.lease_until),
                }
                for operation, attempt in live[:_MOST_SHOWN]
            ]
            shown["live_attempts_in_all"] = len(live)
        return shown

    async def criteria(self, connection: Connection, name: str) -> list[dict[str, Any]]:
        """Tell where each criterion of a run stands, in the order of its specification."""
        run, _ = await self.existing(connection, name)
        operations = await satisfying_in(connection, {"namespace": self._view.namespace, "run": name})
        return [
            {
                "id": one.criterion.id,
                "text": safe(one.criterion.text),
                "required": one.criterion.required,
                "state": one.state.value,
                "by": list(one.by),
            }
            for one in judge(await criteria_of(connection, run), operations)
        ]

    async def set_spec(
        self,
        connection: Connection,
        name: str,
        given: SpecGiven,
        situation: Situation,
        bodies: Bodies,
        caller: str,
    ) -> dict[str, Any]:
        """Hold a run against a specification."""
        run, _ = await self.existing(connection, name)
        verdict = decide_set_spec(run, given, situation)
        await self._write(connection, run, verdict, bodies, caller, situation)
        return self._answer(verdict, situation.now.at)

    async def progress(
        self,
        connection: Connection,
        name: str,
        given: ProgressFacts,
        situation: Situation,
        bodies: Bodies,
        caller: str,
    ) -> dict[str, Any]:
        """Note progress of a run; its holder prolongs the hold by it."""
        run, operations = await self.existing(connection, name)
        verdict = decide_run_progress(
            run,
            operations,
            situation,
            message=given.message,
            fraction=given.fraction,
            checkpoint=given.checkpoint,
            is_redelivered=await self._was_called(connection, name, EventKind.RUN_PROGRESSED, situation),
        )
        await self._write(connection, run, verdict, bodies, caller, situation)
        answer = self._answer(verdict, situation.now.at, operations)
        held = verdict.run
        if verdict.next != "continue" or held is None or held.holder is None or held.held_until is None:
            return answer
        if held.holder.is_holder(situation.party):
            answer["held_until"] = rfc3339(held.held_until)
        return answer

    async def _was_called(
        self, connection: Connection, name: str, kind: EventKind, situation: Situation
    ) -> bool:
        return await was_called(
            connection,
            namespace=self._view.namespace,
            run=name,
            operation="",
            kind=kind,
            call_id=situation.call_id,
        )

    async def _write(
        self,
        connection: Connection,
        run: Run | None,
        verdict: RunVerdict,
        bodies: Bodies,
        caller: str,
        situation: Situation,
    ) -> None:
        if verdict.run is None:
            return
        await carry_out(
            connection,
            place=RunPlace(namespace=verdict.run.namespace, run=verdict.run.run),
            run=run,
            changes=[Change(before=None, after=step.operation, events=step.events) for step in verdict.steps],
            bodies=bodies,
            caller=caller,
            now=situation.now.at,
            run_events=verdict.events,
            run_after=verdict.run,
            workflow=verdict.run.workflow,
            workflow_version=verdict.run.workflow_version,
        )

    def _answer(
        self, verdict: RunVerdict, now: Instant, operations: Sequence[Operation] = ()
    ) -> dict[str, Any]:
        run = verdict.run
        answer = answer_head(verdict.next, verdict.reason, now)
        if run is not None:
            answer["run"] = run.run
            if verdict.reason == "run_held":
                answer["held_by"] = safe(run.holder_name) or _NAMELESS
                answer["retry_at"] = rfc3339(end_of_hold(run, operations, now))
            if verdict.reason == "run_finished" and run.finished_as is not None:
                answer["finished_as"] = run.finished_as
        if verdict.warnings:
            answer["warnings"] = list(verdict.warnings[:_MOST_SHOWN])
            if len(verdict.warnings) > _MOST_SHOWN:
                answer["warnings"].append(f"and {len(verdict.warnings) - _MOST_SHOWN} more")
        return answer
