"""The calls about operations: by several callers, with time, crashes and repeats, held against the model."""

import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from counterfoil.store.domain.commands import Caller, Lookup, VerifyOperation
from counterfoil.store.domain.instants import micros, parse_rfc3339
from counterfoil.store.domain.model import Assurance, Operation
from counterfoil.store.domain.states import Policy
from counterfoil.store.probing import ProbeFinding, ProbeSubject
from counterfoil.store.protocol import Connection
from counterfoil.store.rows import load_operation
from journals import PERSON, Desk, FakeClock, Place, after, as_caller, kept_at, open_desk
from stateful.model import (
    DEADLINE,
    MOVES,
    SECOND,
    SETTLED,
    TOLERANCE,
    Grant,
    Known,
    KnownRun,
    Permission,
)

__all__ = ["CALLERS", "POLICY", "JournalMachine", "anybody", "callers", "places", "policies"]

LEASE_SECONDS, SETTLE_SECONDS, TTL_SECONDS, DEADLINE_SECONDS = 100, 60, 1_000, 500
POLICY = Policy(
    authority=(("pay.*", "*"),),
    assurance=(("git.push", Assurance.VERIFIED),),
    drift={"policy": "block"},
)

CALLERS = {
    name: Caller(connection=f"connection of {name}", conversation=f"conversation of {name}")
    for name in ("one", "two", "three")
} | {"a person": PERSON}

REPEATS = ("unsafe", "safe", "keyed")

callers = st.sampled_from(["one", "two", "three"])
parties = st.sampled_from(["the holder", "the holder", "one", "two", "three"])
anybody = st.sampled_from(["the holder", "one", "two", "three", "a person"])
places = st.integers(0, 2)
references = st.sampled_from(["m-1", "m-2", "m-3"])
waits = st.sampled_from([1, 30, 61, 99, 100, 101, 161, 400, 1_000])
policies = st.sampled_from([None, None, "p-1", "p-1", "p-1", "p-2"])
"""What a call says of the part of the context that blocks."""


CLAIMS = ("unproving receipt", "weak receipt", "weak performed", "performed", "verify")
"""Kinds of call after which an effect that nobody announced may have happened."""


class Stub:
    """A probe that sees what it is told to see."""

    def __init__(self) -> None:
        self.sees = ProbeFinding(probe="stub", found=None)

    async def look(self, subject: ProbeSubject) -> ProbeFinding:
        """Look."""
        return self.sees


class JournalMachine(RuleBasedStateMachine):
    """A journal of its own, on an event loop of its own, and three operations.

    `traits` says what is special about each: see `TRAITS`; the first is always plain.
    """

    traits: tuple[str, str, str] = ("plain", "plain", "plain")

    lending: Callable[[], AbstractContextManager[Place]] | None = None
    """Lends a place where journals lie; in files of a folder where there is none."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="counterfoil-machine-"))
        self.clock = FakeClock()
        self.set_back = 0
        self.stack = ExitStack()
        if self.lending is not None:
            self.stack.enter_context(kept_at(self.stack.enter_context(self.lending())))
        self.portal = self.stack.enter_context(start_blocking_portal())
        self.probe = Stub()
        self.known: list[Known] = []
        self.run = KnownRun()
        self.permissions: list[Permission] = []
        self.states: dict[str, str] = {}
        self.calls: list[Callable[[], tuple[Known, str, dict[str, Any]]]] = []
        self.as_of: list[str] = []

    def teardown(self) -> None:
        self.stack.close()
        shutil.rmtree(self.folder)

    @initialize(
        kinds=st.tuples(*[st.tuples(st.sampled_from(REPEATS), st.booleans()) for _ in range(3)]),
    )
    def open(self, kinds: tuple[tuple[str, bool], ...]) -> None:
        """Open the journal and decide what the operations are; the first is what others wait for or undo."""
        for number, ((repeat, has_lookup), trait) in enumerate(zip(kinds, self.traits, strict=True)):
            self.known.append(
                Known(
                    name=f"key-{number}",
                    repeat=repeat,
                    has_lookup=has_lookup,
                    settle=SETTLE_SECONDS * SECOND,
                    key_ttl=TTL_SECONDS * SECOND if repeat == "keyed" else None,
                    trait=trait,
                    deadline=DEADLINE_SECONDS * SECOND if trait == "ending" else None,
                    most_attempts=1 if trait == "limited" else None,
                )
            )
        self.open_journal()

    def open_journal(self) -> None:
        """Open the journal's file."""
        self.opened = self.stack.enter_context(ExitStack())
        context = open_desk(self.folder, clock=self.clock, policy=POLICY, prober=self.probe)
        self.desk: Desk = self.opened.enter_context(self.portal.wrap_async_context_manager(context))

    # What is done

    @rule(place=places, caller=callers)
    def begin_without_a_word(self, place: int, caller: str) -> None:
        """Begin as most sessions do: nothing is said of the context. Its own rule: it comes often."""
        self.begin(place, caller, None)

    @rule(place=places, caller=callers, policy=policies)
    def begin(self, place: int, caller: str, policy: str | None) -> None:
        if self.known[place].trait in ("waiting", "undoing") and self.known[0].id is None:
            place = 0
        self.do(place, "begin", lambda known, who: self.begin_now(known, who, policy), caller)

    def begin_now(self, known: Known, caller: Caller, policy: str | None) -> dict[str, Any]:
        """Begin `known`, and hold every grant against the model."""
        lookup = Lookup(
            instructions="look into the list" if known.has_lookup else None, settle_seconds=SETTLE_SECONDS
        )
        answer = self.call(
            self.desk.at(known.name).begin,
            caller=caller,
            action=known.action,
            repeat=known.repeat,
            key_ttl_seconds=TTL_SECONDS if known.repeat == "keyed" else None,
            lookup=lookup,
            lease_seconds=LEASE_SECONDS,
            depends_on=("key-0",) if known.trait == "waiting" else (),
            compensates=self.known[0].id if known.trait == "undoing" else None,
            max_attempts=known.most_attempts,
            deadline_seconds=DEADLINE_SECONDS if known.trait == "ending" else None,
            context=None if policy is None else {"policy": policy},
        )
        if answer["next"] == "perform":
            self.granted(known, answer, caller, policy)
        if answer["reason"] in ("authority_required", "authority_expired", "drift") and policy is not None:
            known.asked_policy = policy
        if policy is not None and self.run.policy is None:
            self.run.policy = self.portal.call(self.noted_policy)
        return answer

    async def noted_policy(self) -> str | None:
        """Read what the first context that the run has seen says."""

        async def work(connection: Connection) -> str | None:
            place = {"namespace": "default"}
            run = await connection.fetch_one("read_run", {**place, "run": self.desk.run})
            if run is None or run["context"] is None:
                return None
            context = await connection.fetch_one("read_context", {**place, "digest": run["context"]})
            return None if context is None else str(json.loads(context["body"])["policy"])

        return await self.desk.journal.database.read(work)

    def granted(self, known: Known, answer: dict[str, Any], caller: Caller, policy: str | None) -> None:
        """Hold a grant against the model, and note it."""
        number, key = answer["attempt"], answer["idempotency_key"]
        lease_until = parse_rfc3339(answer["send_before"], field="send_before")
        if answer["replayed"]:
            newest = known.grants[-1]
            assert (number, key, lease_until) == (newest.number, newest.key, newest.lease_until)
            assert newest.caller.conversation == caller.conversation
            return
        assert self.states.get(known.name, "planned") in ("planned", "failed", "in_doubt")
        now = self.clock.at
        known.check_grant(number, key, now=now, lease_until=lease_until, set_back=self.set_back)
        known.check_permission(answer.get("grant"), self.permissions, now=now)
        self.check_surroundings(known, policy)
        known.grants.append(
            Grant(
                number=number,
                caller=caller,
                key=key,
                granted_at=now,
                lease_until=lease_until,
                set_back=self.set_back,
            )
        )
        known.check_lease(lease_until=lease_until)
        known.asked_policy = None

    def check_surroundings(self, known: Known, policy: str | None) -> None:
        """Hold what must be true around an operation where an attempt is granted."""
        assert self.run.finished_as is None, "an attempt in a finished run"
        if known.trait in ("waiting", "undoing"):
            assert self.states["key-0"] == "succeeded", "what it waits for, or undoes, has not succeeded"
        assert known.ends_at is None or self.clock.at < known.ends_at, "an attempt after the deadline"
        told = policy or known.asked_policy
        if told is not None and self.run.policy not in (None, told):
            assert any(
                permission.operation == known.name and permission.holds(self.clock.at)
                for permission in self.permissions
            ), "an attempt under a context that blocks"

    @rule(
        place=places,
        caller=anybody,
        reference=references,
        attempt=st.sampled_from([None, 1, 2]),
        performed_at=st.sampled_from([None, None, None, after(-7_200)]),
    )
    @precondition(lambda self: any(known.id for known in self.known))
    def receipt(
        self, place: int, caller: str, reference: str, attempt: int | None, performed_at: str | None
    ) -> None:
        """Hand in a reference of the system, sometimes of long before: that one proves nothing."""
        named = attempt if attempt is not None and attempt <= self.attempts_there(place) else None

        def call(known: Known, who: Caller) -> dict[str, Any]:
            known.handed_in.add(f"{known.name}-{reference}")
            before = self.states.get(known.name)
            answer = self.call(
                self.desk.at(known.name).receipt,
                caller=who,
                external_id=f"{known.name}-{reference}",
                attempt=named,
                performed_at=performed_at,
            )
            self.shown(known, before, answer)
            return answer

        self.do(place, "receipt", call, caller)

    @rule(place=places, caller=parties, is_final=st.booleans(), note=st.sampled_from(["a", "b"]))
    def unproving_receipt(self, place: int, caller: str, is_final: bool, note: str) -> None:
        def call(known: Known, who: Caller) -> dict[str, Any]:
            answer = self.call(
                self.desk.at(known.name).receipt,
                caller=who,
                external_id=None,
                final=is_final,
                evidence={"note": note},
                action=known.action,
                target=f"{known.name}@example.org",
            )
            if not is_final and answer["reason"] == "recorded":
                known.quiet_since = self.clock.at
            return answer

        self.do(place, "unproving receipt", call, caller)

    @rule(
        place=places,
        caller=parties,
        effect=st.sampled_from(["none", "unknown"]),
        evidence=st.sampled_from([None, {"status": 400}, {"status": 503}]),
        attempt=st.integers(1, 3),
    )
    def failure(self, place: int, caller: str, effect: str, evidence: Any, attempt: int) -> None:
        number = min(attempt, self.attempts_there(place))

        def call(known: Known, who: Caller) -> dict[str, Any]:
            if number == 0:
                return self.check(known)
            answer = self.call(
                self.desk.at(known.name).failure, effect, caller=who, attempt=number, evidence=evidence
            )
            newest = known.grants[-1]
            is_holders = number == newest.number and who.conversation == newest.caller.conversation
            is_moving = self.states[known.name] in ("in_progress", "in_doubt", "disputed")
            if is_holders and is_moving and not newest.is_without_effect:
                if effect == "none" and evidence == {"status": 400}:
                    newest.is_without_effect = newest.was_answered = True
                if newest.ended_at is None:
                    newest.ended_at = min(self.clock.at, newest.lease_until)
            return answer

        self.do(place, "failure", call, caller)

    @rule(place=places, caller=parties, attempt=st.sampled_from([None, None, 1, 2]))
    def progress(self, place: int, caller: str, attempt: int | None) -> None:
        there = self.attempts_there(place)
        named = None if attempt is None else min(attempt, there)

        def call(known: Known, who: Caller) -> dict[str, Any]:
            if not there:
                return self.check(known)
            answer = self.call(self.desk.at(known.name).progress, caller=who, attempt=named)
            newest = known.grants[-1]
            if answer["next"] == "continue":
                assert who.conversation == newest.caller.conversation
                assert newest.ended_at is None, "a lease that was ended lives again"
                assert not newest.is_without_effect
                newest.lease_until = parse_rfc3339(answer["lease_expires_at"], field="lease_expires_at")
                known.check_lease(lease_until=newest.lease_until)
            return answer

        self.do(place, "progress", call, caller)

    @rule(
        place=places, caller=callers, found=st.sampled_from([True, False, False, None]), reference=references
    )
    def verify(self, place: int, caller: str, found: bool | None, reference: str) -> None:
        """Let the probe look; what it sees is fixed by the call, also where it is repeated."""

        def call(known: Known, who: Caller) -> dict[str, Any]:
            seen = f"{known.name}-{reference}" if found else None
            self.probe.sees = ProbeFinding(
                probe="stub", found=found, external_id=seen, kind="message", system="smtp"
            )
            before = self.states[known.name]
            command = VerifyOperation(ref=self.desk.at(known.name).ref)
            answer = self.call(self.desk.journal.verify_operation, command, who)
            if found and answer["reason"] != "duplicate":
                known.handed_in.add(f"{known.name}-{reference}")
            self.looked(known, who, before, answer, as_of=self.clock.at)
            self.shown(known, before, answer)
            return answer

        self.do(place, "verify", call, caller)

    @rule(place=places, caller=anybody, reference=references)
    def performed(self, place: int, caller: str, reference: str) -> None:
        def call(known: Known, who: Caller) -> dict[str, Any]:
            if who.is_person:
                known.vouched_for.add(f"{known.name}-{reference}")
            known.handed_in.add(f"{known.name}-{reference}")
            before = self.states.get(known.name)
            answer = self.call(
                self.desk.at(known.name).reconcile,
                "performed",
                caller=who,
                kind="message",
                system="smtp",
                external_id=f"{known.name}-{reference}",
            )
            newest = known.grants[-1] if known.grants else None
            is_holders = newest is not None and who.conversation == newest.caller.conversation
            self.shown(known, before, answer)
            if newest is not None and is_holders and answer["reason"] == "disputed":
                # Whoever holds the attempt and reports what a look found has stopped acting.
                newest.ended_at = newest.ended_at or min(self.clock.at, newest.lease_until)
            return answer

        self.do(place, "performed", call, caller)

    @rule(
        place=places,
        caller=anybody,
        finding=st.sampled_from(["not_performed", "not_performed", "not_performed", "inconclusive"]),
        is_fresh=st.booleans(),
        earlier=st.integers(0, 5),
        ends_lease=st.booleans(),
    )
    def denied(
        self, place: int, caller: str, finding: str, is_fresh: bool, earlier: int, ends_lease: bool
    ) -> None:
        as_of = self.clock.text if is_fresh or not self.as_of else self.as_of[-1 - earlier % len(self.as_of)]
        is_persons = caller == "a person" and finding == "not_performed"
        ends_lease = ends_lease and caller == "a person"

        def call(known: Known, who: Caller) -> dict[str, Any]:
            moment = parse_rfc3339(as_of, field="as_of")
            if moment > self.clock.at:  # refused: the clock was set back
                return self.check(known)
            before = self.states[known.name]
            answer = self.call(
                self.desk.at(known.name).reconcile, finding, caller=who, as_of=as_of, end_lease=ends_lease
            )
            is_over = ends_lease and answer["state"] != before
            if is_over and before in ("in_progress", "disputed") and known.grants:
                known.grants[-1].ended_at = self.clock.at
            self.looked(
                known, who, before, answer, as_of=moment, is_persons=is_persons, ends_lease=ends_lease
            )
            return answer

        kind = "a person's not_performed" if is_persons else finding
        self.do(place, "a person ends the lease" if ends_lease else kind, call, caller)

    def shown(self, known: Known, before: str | None, answer: dict[str, Any]) -> None:
        """Note what is shown to have happened as over: a person may say at once what became of it."""
        if before != answer["state"] == "succeeded" and known.grants:
            newest = known.grants[-1]
            newest.ended_at = newest.ended_at or min(self.clock.at, newest.lease_until)

    def looked(
        self,
        known: Known,
        who: Caller,
        before: str,
        answer: dict[str, Any],
        *,
        as_of: int,
        is_persons: bool = False,
        ends_lease: bool = False,
    ) -> None:
        """Hold what a look, or a person's word, may have established, and note it."""
        after = answer.get("state", before)
        if before == "in_progress" and after == "in_doubt" and not ends_lease:
            assert known.grants[-1].caller.conversation == who.conversation
            known.grants[-1].ended_at = self.clock.at
        if before == "in_doubt" and after == "failed" and not is_persons:
            known.check_silence(as_of=as_of, now=self.clock.at)
        if before != after and (is_persons or after == "failed") and after != "disputed":
            for grant in known.may_have_happened():
                # A decision that stood may have been taken while the lease was live.
                is_over = before in SETTLED or not grant.is_live(self.clock.at)
                assert is_over, "a live attempt was written off"
                grant.is_without_effect = True
            known.has_unannounced = False
        if is_persons and before == "timed_out" and after in ("failed", "planned"):
            known.deadline = None

    @rule(place=places, caller=anybody, outcome=st.sampled_from(["timed_out", "cancelled"]))
    def close(self, place: int, caller: str, outcome: str) -> None:
        def call(known: Known, who: Caller) -> dict[str, Any]:
            return self.call(self.desk.at(known.name).close, outcome, caller=who)

        self.do(place, f"a person's {outcome}" if caller == "a person" else outcome, call, caller)

    @rule(place=places, caller=callers)
    def compensated(self, place: int, caller: str) -> None:
        def call(known: Known, who: Caller) -> dict[str, Any]:
            known.handed_in.add(f"{known.name}-undone")
            return self.call(
                self.desk.at(known.name).reconcile,
                "compensated",
                caller=who,
                kind="message",
                system="smtp",
                external_id=f"{known.name}-undone",
            )

        self.do(place, "compensated", call, caller)

    @rule(earlier=st.integers(0, 8))
    @precondition(lambda self: self.calls)
    def repeat(self, earlier: int) -> None:
        """Deliver an earlier call once more: no new attempt, no new receipt, and no state but by time."""
        again = self.calls[-1 - earlier % len(self.calls)]
        before = {known.name: self.facts(known) for known in self.known}
        known, _kind, answer = again()
        assert answer["next"] != "perform" or answer["reason"] == "replayed"
        after = self.facts(known)
        earlier_facts = before[known.name]
        assert after is not None
        assert earlier_facts is not None
        assert after.receipts == earlier_facts.receipts
        assert len(after.attempts) == len(earlier_facts.attempts)
        self.changed(known, "nothing")

    @rule(seconds=waits)
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)
        for known in self.known:
            self.changed(known, "nothing")

    @rule(seconds=st.sampled_from([-3_600, -90, 90, 3_600]))
    def jump(self, seconds: int) -> None:
        """Set the wall clock; whoever writes next notices, so that every operation is written to at once.

        A lease that the clock had passed, even if wrongly, stays over when it is set back.
        """
        self.clock.jump(seconds)
        self.set_back += max(0, -seconds) * SECOND
        for known in self.known:
            if known.id is not None and known.grants:
                known.quiet_since = self.clock.at
                self.call(self.desk.at(known.name).failure, caller=as_caller(CALLERS["one"]), attempt=1)
                newest = known.grants[-1]
                newest.has_run_out |= newest.lease_until <= self.clock.at
                if newest.number == 1 and newest.caller.conversation == CALLERS["one"].conversation:
                    is_moving = self.states[known.name] in ("in_progress", "in_doubt", "disputed")
                    if is_moving and newest.ended_at is None and not newest.is_without_effect:
                        newest.ended_at = min(self.clock.at, newest.lease_until)
            self.changed(known, "a clock set back" if seconds < 0 else "nothing")

    @rule()
    def reopen(self) -> None:
        """End the server and start another one."""
        self.opened.close()
        self.open_journal()
        for known in self.known:
            self.changed(known, "nothing")

    @rule()
    def look_at_the_plan(self) -> None:
        plan = self.call(self.desk.plan)
        self.as_of.append(plan["as_of"])
        for step in plan["steps"]:
            assert step["state"] == self.states[step["key"]]

    def there(self, place: int) -> int:
        """Give the place of an operation that exists, the nearest to `place`: the others know no call yet."""
        return next((at for at in (place, 0, 1, 2) if self.known[at].id is not None), place)

    def attempts_there(self, place: int) -> int:
        """Give how many attempts there are now, for what a call names, also where it is repeated later."""
        return len(self.known[self.there(place)].grants)

    # What must hold

    @invariant()
    def the_log_leads_to_the_rows(self) -> None:
        if self.known:
            assert self.portal.call(self.desk.journal.reader.verify).faults == ()

    @invariant()
    def receipts_are_never_lost_nor_changed(self) -> None:
        for known in self.known:
            facts = self.facts(known)
            if facts is None:
                continue
            stored = [
                (receipt.number, receipt.kind, receipt.system, receipt.external_id, receipt.attempt)
                for receipt in facts.receipts
            ]
            assert stored[: len(known.receipts)] == known.receipts
            known.receipts = list(stored)

    @invariant()
    def what_counts_is_of_the_assurance_that_is_required(self) -> None:
        """Or a person has said that it is the receipt that counts."""
        for known in self.known:
            facts = self.facts(known) if known.trait == "strict" else None
            for receipt in () if facts is None else facts.receipts:
                is_strong = receipt.assurance >= Assurance.VERIFIED
                assert (
                    is_strong
                    or not receipt.is_accepted
                    or receipt.is_undo
                    or receipt.external_id in known.vouched_for
                )

    @invariant()
    def every_reference_that_was_handed_in_is_on_file(self) -> None:
        for known in self.known:
            facts = self.facts(known)
            on_file = set() if facts is None else {receipt.external_id for receipt in facts.receipts}
            assert known.handed_in <= on_file

    @invariant()
    def the_state_shown_is_the_one_that_the_facts_give(self) -> None:
        for known in self.known:
            facts = self.facts(known)
            if facts is not None:
                assert self.check(known)["state"] == derived(facts, self.clock.at)

    # How it is done

    def call(self, method: Callable[..., Any], *given: Any, **named: Any) -> dict[str, Any]:
        """Run one of the journal's methods on its loop."""

        async def run() -> dict[str, Any]:
            return dict(await method(*given, **named))

        return self.portal.call(run)

    def do(self, place: int, kind: str, call: Callable[[Known, Caller], dict[str, Any]], caller: str) -> None:
        """Make a call with an id of its own, hold its change of state, and keep it for repeats."""
        is_made_by_it = kind == "begin" or (
            kind == "unproving receipt" and self.known[place].trait == "plain"
        )
        known = self.known[place if is_made_by_it else self.there(place)]
        if known.id is None and not is_made_by_it:
            return
        if known.trait == "strict" and (kind == "receipt" or (kind == "performed" and caller != "a person")):
            kind = f"weak {kind}"
        who = as_caller(known.grants[-1].caller if known.grants else CALLERS["one"])
        if caller in CALLERS:
            who = as_caller(CALLERS[caller])
        answer = call(known, who)
        self.as_of.append(answer["as_of"])
        if "operation" not in answer:
            assert known.id is None, "nothing was created, and it is there"
            return
        if known.id is None:
            known.id = answer["operation"]
        assert answer["operation"] == known.id, "one identity, two ids"
        before = self.states.get(known.name, "planned")
        self.changed(known, kind)
        if kind in CLAIMS and before in ("planned", "failed") and self.states[known.name] == "in_doubt":
            known.has_unannounced = True
        if known.trait == "undoing" and self.states[known.name] == "succeeded":
            self.changed(self.known[0], "undone")
        # What counted for nothing may count when it comes again: a begin after somebody looked or permitted.
        counted_for_nothing = ("wait", "stop", "ask", "reconcile") if kind == "begin" else ("wait", "stop")
        if answer["next"] not in counted_for_nothing:
            self.calls.append(lambda: (known, kind, call(known, who)))

    def changed(self, known: Known, kind: str) -> None:
        """Hold that the state moved only as a call of this kind may move it."""
        if known.id is None:
            return
        before, after = self.states.get(known.name, "planned"), str(self.check(known)["state"])
        moves = set(MOVES[kind])
        if known.ends_at is not None and kind in ("nothing", "a clock set back"):
            is_over = self.clock.at >= known.ends_at
            moves |= DEADLINE if is_over else {(target, source) for source, target in DEADLINE}
        assert before == after or (before, after) in moves, f"{kind}: {before} became {after}"
        self.states[known.name] = after

    def check(self, known: Known) -> dict[str, Any]:
        return self.call(self.desk.at(known.name).check)

    def facts(self, known: Known) -> Operation | None:
        """Read what is stored."""

        async def work(connection: Connection) -> Operation | None:
            row = await connection.fetch_one(
                "read_operation", {"namespace": "default", "run": self.desk.run, "key": known.name}
            )
            return await load_operation(connection, row)

        return self.portal.call(self.desk.journal.database.read, work)


def derived(facts: Operation, now: int) -> str:
    """The order of STATES.md, written a second time."""
    if facts.dispute is not None:
        return "disputed"
    if facts.decision is not None:
        return str(facts.decision.outcome.value)
    if any(
        receipt.is_accepted and not (receipt.is_foreign or receipt.is_undo or receipt.is_set_aside)
        for receipt in facts.receipts
    ):
        return "succeeded"
    granted = [attempt for attempt in facts.attempts if attempt.number > 0]
    deadline = facts.terms.deadline_seconds
    if deadline is not None and granted and now >= granted[0].granted_at + micros(deadline):
        return "timed_out"
    if not facts.attempts:
        return "planned"
    newest = max(facts.attempts, key=lambda attempt: attempt.number)
    if newest.outcome.value == "open" and newest.ended_at is None and now < newest.lease_until:
        return "in_progress"
    if any(attempt.outcome.value in ("open", "unknown") for attempt in facts.attempts):
        return "in_doubt"
    return "failed"


assert TOLERANCE == 60 * SECOND
