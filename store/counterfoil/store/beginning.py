"""begin_operation: what is asked is checked, read about, decided, written down and answered."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from counterfoil.store.attending import Attendance, Attending, Mark
from counterfoil.store.begin_answering import BeginAnswering
from counterfoil.store.begin_reading import BeginReading
from counterfoil.store.contexts import PreparedContext, prepare_context, save_context
from counterfoil.store.domain.answers import Verdict
from counterfoil.store.domain.begin import BeginGiven, decide_begin
from counterfoil.store.domain.commands import BeginOperation, Caller
from counterfoil.store.domain.drafting import Situation
from counterfoil.store.domain.events import Event, EventKind, evolve_run
from counterfoil.store.domain.model import Run
from counterfoil.store.errors import InvalidArgument
from counterfoil.store.preparing import Bodies
from counterfoil.store.preparing_begins import prepare_begin
from counterfoil.store.protocol import Connection, Work
from counterfoil.store.viewing import CONTEXT_DAMAGED, Viewer, party_of
from counterfoil.store.writing import Change, RunPlace, caller_text, carry_out

__all__ = ["Beginning"]


class Beginning:
    """Begins operations: each method checks what is asked and gives what does it in a transaction."""

    def __init__(self, view: Viewer, attending: Attending) -> None:
        self._view = view
        self._attending = attending
        self._reading = BeginReading(view)
        self._answering = BeginAnswering(view)

    def begin(self, command: BeginOperation, caller: Caller) -> Work[dict[str, Any]]:
        """Begin an operation.

        Raises:
            InvalidArgument, TooLarge: the call cannot be taken as made.
        """
        view, prepare, bodies = self._view, self._view.prepare, Bodies()
        given = prepare_begin(command, prepare=prepare, bodies=bodies)
        caller = prepare.caller(caller)
        if caller.call_id is not None and caller.call_id in (given.key, given.run):
            raise InvalidArgument(
                "call_id", "is the key or the run", accepted="an id of this one call, 16 characters or more"
            )
        workflow = prepare.text(command.workflow, name="workflow")
        context = prepare_context(
            None if command.context is None else dict(command.context),
            workflow_version=given.workflow_version,
            prepare=prepare,
            bodies=Bodies(),
        )
        given = replace(given, context=None if context is None else context.digest)

        async def work(connection: Connection) -> dict[str, Any]:
            situation = view.situation(connection, caller)
            facts, drifts, today, unread = await self._reading.facts(
                connection,
                given,
                context,
                situation.now.at,
                bodies=bodies,
                party=situation.party,
                named=command.grant,
            )
            if facts.operation is not None and facts.operation.is_damaged:
                return self._answering.damaged(facts.operation, situation.now.at)
            verdict = decide_begin(given, facts, situation)
            if unread is not None and not _is_settled_by_itself(verdict):
                raise unread
            if verdict.after is not None and verdict.events:
                for kept in (context, today):
                    if kept is not None:
                        await save_context(connection, view.namespace, kept, situation.now.at)
                run_events, run_after = _note_context(facts.run, given, context, situation)
                await carry_out(
                    connection,
                    place=RunPlace(namespace=verdict.after.namespace, run=verdict.after.run),
                    run=facts.run,
                    changes=(Change(before=facts.operation, after=verdict.after, events=verdict.events),),
                    bodies=bodies,
                    caller=caller_text(
                        caller, context=given.context, workflow_version=given.workflow_version
                    ),
                    now=situation.now.at,
                    run_events=run_events,
                    run_after=run_after,
                    workflow=workflow,
                    workflow_version=given.workflow_version,
                )
            if view.policy.grants:
                from counterfoil.store.authorizing import note_configured

                await note_configured(connection, view.namespace, verdict, caller, situation)
            answer = await self._answering.answer(
                connection, given, facts, verdict, situation, bodies, drifts
            )
            if unread is not None:
                answer.setdefault("warnings", []).append(CONTEXT_DAMAGED)
            return answer

        return work

    def begin_unattended(
        self,
        begin: Callable[[str | None], BeginOperation],
        caller: Caller,
        *,
        mark: Mark,
        run: str | None,
        apart_from: str,
    ) -> Work[dict[str, Any] | Attendance]:
        """Begin an operation unless the caller itself may have begun it. See `Journal.begin_unattended`.

        Raises:
            InvalidArgument, TooLarge: the call cannot be taken as made.
        """
        party = party_of(self._view.prepare.caller(caller))
        prepared = None if run is None else self.begin(begin(run), caller)

        async def work(connection: Connection) -> dict[str, Any] | Attendance:
            attendance = await self._attending.facts(connection, party, mark=mark, run=run)
            if attendance.marked is not None or any(
                not attempt.connection.startswith(apart_from) for attempt in attendance.live
            ):
                return attendance
            return await (prepared or self.begin(begin(attendance.run), caller))(connection)

        return work


def _note_context(
    run: Run | None, given: BeginGiven, context: PreparedContext | None, situation: Situation
) -> tuple[tuple[Event, ...], Run | None]:
    """Let the first context that a run sees be the one that later steps are compared with."""
    if context is None or (run is not None and run.context is not None):
        return (), None
    event = Event(
        kind=EventKind.CONTEXT_NOTED,
        operation="",
        at=situation.now.at,
        data={"context": context.digest},
    )
    return (event,), evolve_run(run, event, namespace=given.namespace, name=given.run)


def _is_settled_by_itself(verdict: Verdict) -> bool:
    """Tell whether a begin was answered before it came to what an attempt is weighed upon."""
    return verdict.next in ("skip", "reconcile", "stop") or verdict.reason.startswith("lease_held")
