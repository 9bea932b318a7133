"""resume_plan: what is done, in doubt and allowed in a run, or which runs are open."""

from collections.abc import Mapping, Sequence
from typing import Any

from counterfoil.store.arrivals import arrived_in
from counterfoil.store.contexts import drift_shown, review_warning
from counterfoil.store.cursors import read_cursor, write_cursor
from counterfoil.store.domain.answers import NOTHING_OPEN, RUN_OVER, guidance_for
from counterfoil.store.domain.commands import Caller, ResumePlan
from counterfoil.store.domain.context import Drift
from counterfoil.store.domain.instants import Instant, rfc3339
from counterfoil.store.domain.model import Operation, Party, Run, State
from counterfoil.store.domain.outlook import Barriers
from counterfoil.store.domain.plan import Step, make_steps
from counterfoil.store.domain.states import state_of
from counterfoil.store.errors import BodyDamaged, InvalidArgument
from counterfoil.store.journal_identity import JournalIdentity
from counterfoil.store.listing_runs import RunListing
from counterfoil.store.plan_reading import PlanReading
from counterfoil.store.presenting import answer_head, without_none
from counterfoil.store.protocol import Connection
from counterfoil.store.resolving import no_such_run
from counterfoil.store.rows import run_from_row
from counterfoil.store.run_showing import RunShowing
from counterfoil.store.viewing import ANSWER_ROOM, CONTEXT_DAMAGED, Viewer, party_of, size_of

__all__ = ["Planner"]


_MOST_STEPS = 50


_CRITERIA_DAMAGED = (
    "the criteria on record are not those that were recorded: where they stand cannot be told, and the run "
    "cannot be finished as completed, until a person has run `counterfoil verify` and restored a backup"
)

_NEW_FOR = 3_600 * 1_000_000
"""How long a journal counts as just created, in microseconds: absence in it is no evidence."""


class Planner:
    """Makes plans; changes nothing."""

    def __init__(self, view: Viewer, *, identity: JournalIdentity) -> None:
        self._view = view
        self._identity = identity
        self._reading = PlanReading(view)
        self._showing = RunShowing(view)
        self._listing = RunListing(view, self._showing)

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
        if plan["complete"]:
            answer = {**answer, "guidance": f"{answer['reason'].capitalize()}. {NOTHING_OPEN}"}
        warnings = dict.fromkeys((*answer.get("warnings", ()), *plan.get("warnings", ())))
        return {
            **plan,
            **answer,
            "run": plan["run"],
            **({"warnings": list(warnings)} if warnings else {}),
        }

    async def _runs(self, connection: Connection, command: ResumePlan) -> dict[str, Any]:
        now = self._view.now(connection).at
        journal = await self._journal_shown(connection, now)
        return await self._listing.page(connection, command, now=now, journal=journal)

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
        counts, is_damaged, gone = await self._showing.counts(connection, run, now)
        is_all = command.include == "all"
        operations, around, misread = await self._reading.operations(
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
            drifts = await self._reading.drifts(connection, run, command)
        except BodyDamaged:
            warnings.append(CONTEXT_DAMAGED)
        warnings += review_warning(drifts)
        criteria = None
        try:
            criteria = await self._showing.criteria(connection, run, place)
        except BodyDamaged:
            warnings.append(_CRITERIA_DAMAGED)
        barriers, authorities = await self._reading.barriers(
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
        is_complete = not gone and all(step.outlook.next == "skip" for step in steps)
        head = answer_head("continue", "listed", now)
        if is_complete:
            head["guidance"] = NOTHING_OPEN if run.finished_as is None else RUN_OVER
        return without_none(
            {
                **head,
                "journal": journal,
                "run": await self._showing.whole(connection, run, now),
                "drift": drift_shown(drifts),
                "criteria": criteria,
                "counts": counts,
                "steps": shown,
                "guidances": {
                    entry["reason"]: guidance_for(entry["next"], entry["reason"]) for entry in shown
                },
                "complete": is_complete,
                "damaged": damaged or None,
                "cut": is_cut,
                "next_cursor": write_cursor(pending[len(shown) - 1].place, seq, as_of, name, command.include)
                if is_cut
                else None,
                "changed_meanwhile": True if has_moved and not is_cut else None,
                "warnings": warnings or None,
            }
        )

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


def _ranks(steps: Sequence[Step]) -> dict[str, int]:
    return {step.operation.id: step.rank for step in steps}
