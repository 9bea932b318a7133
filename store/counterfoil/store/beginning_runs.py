"""begin_run: a run is begun, or come back to, under today's context."""

from typing import Any

from msgspec.structs import replace

from counterfoil.store.contexts import (
    PreparedContext,
    context_from,
    drift_shown,
    review_warning,
    save_context,
)
from counterfoil.store.domain.context import accepted_context, compare_contexts
from counterfoil.store.domain.drafting import Situation
from counterfoil.store.domain.events import EventKind
from counterfoil.store.domain.run_plans import differing_parts
from counterfoil.store.domain.runs import RunGiven, decide_begin_run
from counterfoil.store.domain.states import state_of
from counterfoil.store.errors import BodyDamaged
from counterfoil.store.preparing import Bodies
from counterfoil.store.protocol import Connection
from counterfoil.store.resolving import misnamed_in, runs_named_alike
from counterfoil.store.running import MOST_SHOWN, RunKeeping
from counterfoil.store.viewing import CONTEXT_DAMAGED, Viewer, safe
from counterfoil.store.weighing import context_of, today_of

__all__ = ["RunBeginning"]


class RunBeginning:
    """Begins runs; every method is part of a transaction."""

    def __init__(self, view: Viewer, runs: RunKeeping) -> None:
        self._view = view
        self._runs = runs

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
        facts = await self._runs.facts(connection, given.run, steps=given.steps, party=situation.party)
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
        # What was told of before and is not said again is not taken back.
        offered = None if context is None or today is None else context_from(today)
        given = replace(
            given,
            context=None if context is None else context.digest,
            offered=None if offered is None else offered.digest,
            is_redelivered=await self._runs.was_called(connection, given.run, EventKind.RUN_BEGUN, situation),
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
            await self._runs.write(connection, facts.run, verdict, bodies, caller, situation)
        is_accepted = verdict.next == "continue" and given.accept_reason is not None
        answer = self._runs.answer(verdict, situation.now.at, facts.operations)
        if is_unreadable:
            answer.setdefault("warnings", []).append(CONTEXT_DAMAGED)
        if is_accepted and context is not None:
            left = compare_contexts(context.value, today, self._view.policy.drift)
            drifts = tuple(drift for drift in left if drift.drift_class in ("review", "block"))
        answer["drift"] = drift_shown(drifts)
        if verdict.next == "continue" and review_warning(drifts):
            answer.setdefault("warnings", []).extend(review_warning(drifts))
        if is_accepted and is_blocked:
            answer.setdefault("warnings", []).append(
                "what is classed block was not accepted: only a person lifts it (counterfoil grant)"
            )
        if is_accepted and context is None:
            answer.setdefault("warnings", []).append(
                "accept_drift accepted nothing: no difference is known; give today's context beside it"
            )
        # The slots of a schedule, and what one run starts, are named alike on purpose.
        is_new = facts.run is None and given.parent is None and given.schedule_name is None
        near = await runs_named_alike(connection, given.namespace, given.run) if is_new else []
        if near:
            answer["near_runs"] = near
            answer.setdefault("warnings", []).append(
                "this run is new, and runs with names like it are open (near_runs): if one of them is this "
                "work, go on with it under its name instead"
            )
        twin = await self._twin(connection, given)
        if twin is not None:
            answer.setdefault("warnings", []).append(
                f"another run declares the same slot of this schedule: {safe(twin)}; work on that one, "
                "unless this is really other work"
            )
        if verdict.next == "continue":
            named = [name for step in given.steps for name in step.satisfies]
            strange = await misnamed_in(connection, verdict.run, named)
            if strange:
                answer.setdefault("warnings", []).extend(strange)
        if verdict.duplicates:
            answer["duplicates"] = [
                {"step": key, **shown}
                for key, alike in list(verdict.duplicates.items())[:MOST_SHOWN]
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
                for step, existing in verdict.conflicts[:MOST_SHOWN]
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
