"""finish_run: a run ends as completed only where nothing stands against it."""

from typing import Any

from counterfoil.store.damaged_rows import rows_are_gone
from counterfoil.store.domain.criteria import CriterionState, judge
from counterfoil.store.domain.drafting import Situation
from counterfoil.store.domain.events import EventKind
from counterfoil.store.domain.model import State
from counterfoil.store.domain.run_changes import decide_finish_run
from counterfoil.store.domain.states import state_of
from counterfoil.store.preparing import Bodies
from counterfoil.store.protocol import Connection
from counterfoil.store.resolving import criteria_of, satisfying_in
from counterfoil.store.rows import load_operations
from counterfoil.store.running import MOST_SHOWN, RunKeeping
from counterfoil.store.viewing import Viewer, safe

__all__ = ["RunFinishing"]


class RunFinishing:
    """Finishes runs and tells of their criteria; every method is part of a transaction."""

    def __init__(self, view: Viewer, runs: RunKeeping) -> None:
        self._view = view
        self._runs = runs

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
        run, operations = await self._runs.existing(connection, name)
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
            is_redelivered=await self._runs.was_called(connection, name, EventKind.RUN_FINISHED, situation),
        )
        await self._runs.write(connection, run, verdict, Bodies(), caller, situation)
        answer = self._runs.answer(verdict, situation.now.at, operations)
        if verdict.reason == "unmet" and missing:
            answer["unmet_criteria"] = [safe(name) for name in missing[:MOST_SHOWN]]
            answer["unmet_criteria_in_all"] = len(missing)
        if verdict.unmet:
            answer["unmet"] = [
                {
                    "operation": operation.id,
                    "key": operation.key,
                    "state": state_of(operation, situation.now.at).value,
                }
                for operation in verdict.unmet[:MOST_SHOWN]
            ]
            answer["unmet_in_all"] = len(verdict.unmet)
        return answer

    async def criteria(self, connection: Connection, name: str) -> list[dict[str, Any]]:
        """Tell where each criterion of a run stands, in the order of its specification."""
        run, _ = await self._runs.existing(connection, name)
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
