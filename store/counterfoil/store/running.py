"""A run as the commands about it share it: read, written and answered for; and its spec and progress."""

from collections.abc import Sequence
from typing import Any

from counterfoil.store.damaged_rows import refuse_lost
from counterfoil.store.domain.begin import BeginGiven
from counterfoil.store.domain.drafting import Situation
from counterfoil.store.domain.events import EventKind
from counterfoil.store.domain.holds import held_until as end_of_hold
from counterfoil.store.domain.instants import Instant, rfc3339
from counterfoil.store.domain.model import Operation, Party, Run
from counterfoil.store.domain.progress import ProgressFacts
from counterfoil.store.domain.run_changes import SpecGiven, decide_run_progress, decide_set_spec
from counterfoil.store.domain.runs import RunFacts, RunVerdict
from counterfoil.store.preparing import Bodies
from counterfoil.store.presenting import answer_head
from counterfoil.store.protocol import Connection
from counterfoil.store.resolving import (
    last_compaction,
    look_alike_terms,
    lost_of_key,
    no_such_run,
    was_called,
)
from counterfoil.store.rows import load_operations, run_from_row
from counterfoil.store.viewing import Viewer, safe
from counterfoil.store.writing import Change, RunPlace, carry_out

__all__ = ["MOST_SHOWN", "NAMELESS", "RunKeeping"]

MOST_SHOWN = 10
"""Entries of one list in an answer; beside it stands how many there are in all."""

NAMELESS = "a session without a name"


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
        lost: list[Operation] = []
        for key in dict.fromkeys(key for step in steps for key in (step.key, *step.depends_on)):
            found = await connection.fetch_one("read_operation", {**place, "key": key})
            if found is not None:
                rows.append(found)
            elif (gone := await lost_of_key(connection, self._view.namespace, name, key)) is not None:
                # Its log goes on: it is on record, and never begun as if it were new.
                lost.append(gone)
        for step in steps:
            rows += await connection.fetch_all("look_alikes", look_alike_terms(step))
        operations = await load_operations(connection, {each["id"]: each for each in rows}.values())
        operations = (*operations, *lost)
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
        await self.write(connection, run, verdict, bodies, caller, situation)
        return self.answer(verdict, situation.now.at)

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
            is_redelivered=await self.was_called(connection, name, EventKind.RUN_PROGRESSED, situation),
        )
        await self.write(connection, run, verdict, bodies, caller, situation)
        answer = self.answer(verdict, situation.now.at, operations)
        held = verdict.run
        if verdict.next != "continue" or held is None or held.holder is None or held.held_until is None:
            return answer
        if held.holder.is_holder(situation.party):
            answer["held_until"] = rfc3339(held.held_until)
        return answer

    async def was_called(
        self, connection: Connection, name: str, kind: EventKind, situation: Situation
    ) -> bool:
        """Tell whether the very same call was taken before."""
        return await was_called(
            connection,
            namespace=self._view.namespace,
            run=name,
            operation="",
            kind=kind,
            call_id=situation.call_id,
        )

    async def write(
        self,
        connection: Connection,
        run: Run | None,
        verdict: RunVerdict,
        bodies: Bodies,
        caller: str,
        situation: Situation,
    ) -> None:
        """Write what was decided, if it is about a run."""
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

    def answer(
        self, verdict: RunVerdict, now: Instant, operations: Sequence[Operation] = ()
    ) -> dict[str, Any]:
        """Answer as every command about a run does; `operations` tell until when a hold lasts."""
        run = verdict.run
        answer = answer_head(verdict.next, verdict.reason, now)
        if run is not None:
            answer["run"] = run.run
            if verdict.reason == "run_held":
                answer["held_by"] = safe(run.holder_name) or NAMELESS
                answer["retry_at"] = rfc3339(end_of_hold(run, operations, now))
            if verdict.reason == "run_finished" and run.finished_as is not None:
                answer["finished_as"] = run.finished_as
        if verdict.warnings:
            answer["warnings"] = list(verdict.warnings[:MOST_SHOWN])
            if len(verdict.warnings) > MOST_SHOWN:
                answer["warnings"].append(f"and {len(verdict.warnings) - MOST_SHOWN} more")
        return answer
