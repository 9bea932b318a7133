"""The calls about the run that all operations are in, about permissions, and about the journal as a whole."""

from collections.abc import Callable
from io import BytesIO
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from counterfoil.store.domain.commands import (
    BeginRun,
    Caller,
    FindOperations,
    FinishRun,
    GrantAuthority,
    OperationRef,
    PlanStep,
    RecordProgress,
    RequestAuthority,
    RevokeGrant,
)
from counterfoil.store.protocol import Connection
from counterfoil.store.spool import read_spool
from journals import PERSON, Desk, as_caller, open_test_journal
from stateful.journal_machine import CALLERS, POLICY, JournalMachine, anybody, callers, places, policies
from stateful.model import SECOND, Grant, Permission

__all__ = ["WholeMachine"]

HOLD_SECONDS = 100
DONE = ("succeeded", "compensated", "timed_out", "cancelled")
RunCall = Callable[[], tuple[str, dict[str, Any]]]


class WholeMachine(JournalMachine):
    """The journal with its run, its permissions, its search, and a second journal that takes it in."""

    def __init__(self) -> None:
        super().__init__()
        self.run_calls: list[RunCall] = []
        self.copies = 0

    # The run

    @rule(
        caller=callers,
        policy=policies,
        accepts=st.booleans(),
        is_person=st.sampled_from([False, False, False, True]),
        has_plan=st.booleans(),
    )
    def begin_run(
        self, caller: str, policy: str | None, accepts: bool, is_person: bool, has_plan: bool
    ) -> None:
        """Begin the run or come back to it; a person may do so too, and is the one who lifts a block."""
        who = as_caller(PERSON if is_person else CALLERS[caller])
        # What undoes something is begun, never planned: a plan does not say what it undoes.
        steps = [known for known in self.known if known.trait != "undoing"] if has_plan else []

        def call() -> tuple[str, dict[str, Any]]:
            command = BeginRun(
                run=self.desk.run,
                context=None if policy is None else {"policy": policy},
                accept_reason="it was looked at" if accepts and policy is not None else None,
                lease_seconds=HOLD_SECONDS,
                plan=tuple(
                    PlanStep(
                        key=known.name,
                        action=known.action,
                        target=f"{known.name}@example.org",
                        depends_on=("key-0",) if known.trait == "waiting" else (),
                    )
                    for known in steps
                ),
            )
            return "begin_run", self.call(self.desk.journal.begin_run, command, who)

        is_held = self.run.is_held_by_another(who, self.attempts(), self.clock.at)
        _kind, answer = self.do_run(call)
        finished_as = self.run.finished_as
        if finished_as in ("completed", "cancelled"):
            assert answer["next"] == "skip"
            return
        assert (answer["reason"] == "run_held") == is_held
        if is_held:
            return
        assert answer["reason"] in ("started", "resumed")
        assert answer.get("duplicates", []) == answer.get("conflict", []) == []
        self.run.finished_as = None
        self.run.holder, self.run.held_until = who, self.clock.at + HOLD_SECONDS * SECOND
        if policy is not None and (self.run.policy is None or (accepts and is_person)):
            self.run.policy = policy
        if policy is not None and accepts:
            for known in self.known:
                known.asked_policy = None
        for known in steps:
            if known.id is None:
                known.id = self.check(known)["operation"]
                self.changed(known, "nothing")

    @rule(caller=callers)
    @precondition(lambda self: self.is_there)
    def progress_of_the_run(self, caller: str) -> None:
        who = as_caller(CALLERS[caller])

        def call() -> tuple[str, dict[str, Any]]:
            command = RecordProgress(ref=OperationRef(run=self.desk.run), message="still at it")
            return "progress", self.call(self.desk.journal.record_progress, command, who)

        is_held = self.run.is_held_by_another(who, self.attempts(), self.clock.at)
        is_own = self.run.holder is not None and self.run.holder.conversation == who.conversation
        _kind, answer = self.do_run(call)
        if self.run.finished_as is not None:
            assert answer["reason"] == "run_finished"
        elif is_held:
            assert answer["reason"] == "run_held"
        else:
            assert answer["reason"] == "recorded"
            assert ("held_until" in answer) == is_own
            if is_own:
                until = self.clock.at + round(POLICY.lease_seconds) * SECOND
                self.run.held_until = max(until, self.run.held_until)
                self.run.holder = who

    @rule(
        caller=callers, outcome=st.sampled_from(["failed", "failed", "completed", "completed", "cancelled"])
    )
    @precondition(lambda self: self.is_there and len(self.as_of) > 8)
    def finish_run(self, caller: str, outcome: str) -> None:
        """Finish the run, but not at once, and see that nothing is granted in it then."""
        who = as_caller(CALLERS[caller])

        def call() -> tuple[str, dict[str, Any]]:
            return "finish_run", self.call(
                self.desk.journal.finish_run, FinishRun(run=self.desk.run, outcome=outcome), who
            )

        _kind, answer = self.do_run(call)
        is_done = all(self.states[known.name] in DONE for known in self.known if known.id is not None)
        if self.run.finished_as is not None:
            expected = "duplicate" if self.run.finished_as == outcome else "run_finished"
            assert answer["reason"] == expected
        elif outcome == "completed" and not is_done:
            assert answer["reason"] == "unmet"
        else:
            assert answer["reason"] == "finished"
            self.run.finished_as, self.run.holder, self.run.held_until = outcome, None, 0
            for place, known in enumerate(self.known):
                if known.id is not None:
                    self.begin(place, caller, None)

    @rule(earlier=st.integers(0, 8))
    @precondition(lambda self: self.run_calls)
    def repeat_of_a_call_about_the_run(self, earlier: int) -> None:
        """Deliver an earlier call about the run once more: nothing at all is different afterwards."""
        before = self.stored_run(), [self.facts(known) for known in self.known]
        self.run_calls[-1 - earlier % len(self.run_calls)]()
        assert (self.stored_run(), [self.facts(known) for known in self.known]) == before

    # Permissions

    @rule(place=places, caller=callers)
    def ask_a_person(self, place: int, caller: str) -> None:
        def call(known: Any, who: Caller) -> dict[str, Any]:
            command = RequestAuthority(ref=self.desk.at(known.name).ref, why="the work needs it")
            answer = self.call(self.desk.journal.request_authority, command, who)
            assert answer["next"] != "perform"
            return answer

        self.do(place, "nothing", call, caller)

    @rule(place=places, caller=anybody, lasts_seconds=st.sampled_from([None, None, 150]))
    def permit(self, place: int, caller: str, lasts_seconds: float | None) -> None:
        """Permit one operation; the word of whoever is no person permits nothing."""
        known = self.known[self.there(place)]
        if known.id is None:
            return
        who = CALLERS.get(caller, CALLERS["one"])
        command = GrantAuthority(ref=self.desk.at(known.name).ref, lasts_seconds=lasts_seconds)
        answer = self.call(self.desk.journal.grant, command, as_caller(who))
        self.permitted(answer, who, known.name, lasts_seconds)
        self.changed(known, "nothing")

    @rule(caller=anybody, lasts_seconds=st.sampled_from([None, 150]))
    def permit_all_payments(self, caller: str, lasts_seconds: float | None) -> None:
        who = CALLERS.get(caller, CALLERS["one"])
        command = GrantAuthority(action="pay.*", lasts_seconds=lasts_seconds)
        answer = self.call(self.desk.journal.grant, command, as_caller(who))
        self.permitted(answer, who, None, lasts_seconds)

    def permitted(
        self, answer: dict[str, Any], who: Caller, operation: str | None, lasts_seconds: float | None
    ) -> None:
        """Note a grant that was given; only a person gives one."""
        if "grant" not in answer or not who.is_person:
            assert not who.is_person or answer["next"] == "skip"
            return
        expires_at = None if lasts_seconds is None else self.clock.at + round(lasts_seconds) * SECOND
        self.permissions.append(
            Permission(id=answer["grant"]["grant"], operation=operation, expires_at=expires_at)
        )

    @rule(which=st.integers(0, 8))
    @precondition(lambda self: self.permissions)
    def take_a_permission_back(self, which: int) -> None:
        permission = self.permissions[which % len(self.permissions)]
        self.call(self.desk.journal.revoke, RevokeGrant(grant=permission.id), as_caller(PERSON))
        permission.is_revoked = True

    # The journal as a whole

    @rule(
        state=st.sampled_from(
            [None, "planned", "in_progress", "in_doubt", "failed", "succeeded", "timed_out"]
        )
    )
    def search(self, state: str | None) -> None:
        """Find exactly the operations that are in a state now."""
        command = FindOperations(run=self.desk.run, state=state)
        answer = self.call(self.desk.journal.find_operations, command, CALLERS["one"])
        found = {entry["key"]: entry["state"] for entry in answer["operations"]}
        assert found == {key: now for key, now in self.states.items() if state in (None, now)}

    @rule()
    @precondition(lambda self: self.is_there and self.copies < 2)
    def take_it_in_elsewhere(self) -> None:
        """Export all and take it into a new journal, twice: every state and receipt is the same there."""
        self.copies += 1
        self.portal.call(self.round_trip, f"copy-{self.copies}.db")

    async def round_trip(self, name: str) -> None:
        """Export the journal, take it in under another name, and compare."""
        file = "".join([line async for line in self.desk.journal.keeper.export()]).encode()
        async with open_test_journal(self.folder, clock=self.clock, policy=POLICY, name=name) as copy:
            taken = await copy.keeper.take_in(read_spool(BytesIO(file)), CALLERS["one"])
            assert (taken.runs_new, taken.conflicts) == (1, [])
            assert (await copy.reader.verify()).faults == ()
            other = Desk(copy, self.clock)
            for known in self.known:
                if known.id is not None:
                    here, there = await self.desk.at(known.name).check(), await other.at(known.name).check()
                    for part in ("operation", "state", "attempts", "receipts", "findings", "decision"):
                        assert here.get(part) == there.get(part), part
            again = await copy.keeper.take_in(read_spool(BytesIO(file)), CALLERS["one"])
            assert (again.changed, again.conflicts) == (False, [])

    # How it is done

    @property
    def is_there(self) -> bool:
        """Whether the run exists."""
        return self.run.holder is not None or self.run.finished_as is not None or bool(self.states)

    def attempts(self) -> list[Grant]:
        """The newest attempt of each operation that is not settled: what holds a run beside its lease."""
        return [
            known.grants[-1] for known in self.known if known.grants and self.states[known.name] not in DONE
        ]

    def do_run(self, call: RunCall) -> tuple[str, dict[str, Any]]:
        """Make a call about the run, and keep it for repeats where it left a trace to know it again by.

        A run that was finished already is left as it is: that call, like a refused one, is not on file.
        """
        kind, answer = call()
        self.as_of.append(answer["as_of"])
        if answer["next"] == "continue" and answer["reason"] != "duplicate":
            self.run_calls.append(call)
        for known in self.known:
            self.changed(known, "nothing")
        return kind, answer

    def stored_run(self) -> dict[str, Any] | None:
        """Read the run's row, all of it."""

        async def work(connection: Connection) -> dict[str, Any] | None:
            row = await connection.fetch_one("read_run", {"namespace": "default", "run": self.desk.run})
            return None if row is None else dict(row)

        return self.portal.call(self.desk.journal.database.read, work)
