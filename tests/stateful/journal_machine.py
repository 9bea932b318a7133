"""Random calls of several callers on a few operations, with time, crashes and repeats, against a small model.

Longer, with the same code: `COUNTERFOIL_LONG=1 uv run pytest tests/stateful`.
"""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from counterfoil.store.domain.commands import Caller, Lookup
from counterfoil.store.domain.instants import parse_rfc3339
from counterfoil.store.domain.model import Operation
from counterfoil.store.protocol import Connection
from counterfoil.store.rows import load_operation
from crash.sessions import LONG
from journals import PERSON, Desk, FakeClock, as_caller, open_desk
from stateful.model import MOVES, SECOND, TOLERANCE, Grant, Known

LEASE_SECONDS, SETTLE_SECONDS, TTL_SECONDS = 100, 60, 1_000

CALLERS = {
    name: Caller(connection=f"connection of {name}", conversation=f"conversation of {name}")
    for name in ("one", "two", "three")
} | {"a person": PERSON}

callers = st.sampled_from(["one", "two", "three"])
parties = st.sampled_from(["the holder", "the holder", "one", "two", "three"])
anybody = st.sampled_from(["the holder", "one", "two", "three", "a person"])
places = st.integers(0, 2)
references = st.sampled_from(["m-1", "m-2", "m-3"])
waits = st.sampled_from([1, 30, 61, 99, 100, 101, 161, 400, 1_000])


class JournalMachine(RuleBasedStateMachine):
    """The journal in a file of its own, on an event loop of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="counterfoil-machine-"))
        self.clock = FakeClock()
        self.set_back = 0
        self.stack = ExitStack()
        self.portal = self.stack.enter_context(start_blocking_portal())
        self.known: list[Known] = []
        self.states: dict[str, str] = {}
        self.calls: list[Callable[[], tuple[Known, str, dict[str, Any]]]] = []
        self.as_of: list[str] = []

    def teardown(self) -> None:
        self.stack.close()
        shutil.rmtree(self.folder)

    @initialize(
        kinds=st.lists(
            st.tuples(st.sampled_from(["unsafe", "safe", "keyed"]), st.booleans()), min_size=1, max_size=3
        )
    )
    def open(self, kinds: list[tuple[str, bool]]) -> None:
        """Open the journal and decide what the operations are."""
        for number, (repeat, has_lookup) in enumerate(kinds):
            self.known.append(
                Known(
                    name=f"key-{number}",
                    repeat=repeat,
                    has_lookup=has_lookup,
                    settle=SETTLE_SECONDS * SECOND,
                    key_ttl=TTL_SECONDS * SECOND if repeat == "keyed" else None,
                )
            )
        self.open_journal()

    def open_journal(self) -> None:
        """Open the journal's file."""
        self.opened = self.stack.enter_context(ExitStack())
        context = open_desk(self.folder, clock=self.clock)
        self.desk: Desk = self.opened.enter_context(self.portal.wrap_async_context_manager(context))

    # What is done

    @rule(place=places, caller=callers)
    def begin(self, place: int, caller: str) -> None:
        self.do(place, "begin", lambda known, who: self.begin_now(known, who), caller)

    def begin_now(self, known: Known, caller: Caller) -> dict[str, Any]:
        """Begin `known`, and hold every grant against the model."""
        lookup = Lookup(
            instructions="look into the list" if known.has_lookup else None, settle_seconds=SETTLE_SECONDS
        )
        answer = self.call(
            self.desk.at(known.name).begin,
            caller=caller,
            repeat=known.repeat,
            key_ttl_seconds=TTL_SECONDS if known.repeat == "keyed" else None,
            lookup=lookup,
            lease_seconds=LEASE_SECONDS,
        )
        if answer["next"] == "perform":
            self.granted(known, answer, caller)
        return answer

    def granted(self, known: Known, answer: dict[str, Any], caller: Caller) -> None:
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

    @rule(place=places, caller=anybody, reference=references, attempt=st.sampled_from([None, 1, 2]))
    @precondition(lambda self: any(known.id for known in self.known))
    def receipt(self, place: int, caller: str, reference: str, attempt: int | None) -> None:
        def call(known: Known, who: Caller) -> dict[str, Any]:
            named = attempt if attempt is not None and attempt <= len(known.grants) else None
            known.handed_in.add(f"{known.name}-{reference}")
            return self.call(
                self.desk.at(known.name).receipt,
                caller=who,
                external_id=f"{known.name}-{reference}",
                attempt=named,
            )

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
                action="email.send",
                target=f"{known.name}@example.org",
            )
            before = self.states.get(known.name, "planned")
            if before in ("planned", "failed") and answer["state"] == "in_doubt":
                known.has_unannounced = True
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
        def call(known: Known, who: Caller) -> dict[str, Any]:
            if not known.grants:
                return self.check(known)
            number = min(attempt, len(known.grants))
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

    @rule(place=places, caller=anybody, reference=references)
    def performed(self, place: int, caller: str, reference: str) -> None:
        def call(known: Known, who: Caller) -> dict[str, Any]:
            known.handed_in.add(f"{known.name}-{reference}")
            return self.call(
                self.desk.at(known.name).reconcile,
                "performed",
                caller=who,
                kind="message",
                system="smtp",
                external_id=f"{known.name}-{reference}",
            )

        self.do(place, "performed", call, caller)

    @rule(
        place=places,
        caller=anybody,
        finding=st.sampled_from(["not_performed", "not_performed", "not_performed", "inconclusive"]),
        is_fresh=st.booleans(),
        earlier=st.integers(0, 5),
    )
    def denied(self, place: int, caller: str, finding: str, is_fresh: bool, earlier: int) -> None:
        as_of = self.clock.text if is_fresh or not self.as_of else self.as_of[-1 - earlier % len(self.as_of)]
        is_persons = caller == "a person" and finding == "not_performed"

        def call(known: Known, who: Caller) -> dict[str, Any]:
            if parse_rfc3339(as_of, field="as_of") > self.clock.at:  # refused: the clock was set back
                return self.check(known)
            before = self.states[known.name]
            answer = self.call(self.desk.at(known.name).reconcile, finding, caller=who, as_of=as_of)
            after = answer["state"]
            if before == "in_progress" and after == "in_doubt":
                assert known.grants[-1].caller.conversation == who.conversation
                known.grants[-1].ended_at = self.clock.at
            if before == "in_doubt" and after == "failed" and not is_persons:
                known.check_silence(as_of=parse_rfc3339(as_of, field="as_of"), now=self.clock.at)
            if before != after and (is_persons or after == "failed") and after != "disputed":
                for grant in known.may_have_happened():
                    assert not grant.is_live(self.clock.at), "a live attempt was written off"
                    grant.is_without_effect = True
                known.has_unannounced = False
            return answer

        self.do(place, "a person's not_performed" if is_persons else finding, call, caller)

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
        assert answer.get("reason") not in ("first_attempt", "retry_after_failure", "repeat_safe")
        assert answer.get("reason") != "repeat_keyed"
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
        """Set the wall clock; whoever writes next notices, so that every operation is written to at once."""
        self.clock.jump(seconds)
        self.set_back += max(0, -seconds) * SECOND
        for known in self.known:
            if known.id is not None and known.grants:
                known.quiet_since = self.clock.at
                self.call(self.desk.at(known.name).failure, caller=as_caller(CALLERS["one"]), attempt=1)
                newest = known.grants[-1]
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
        known = self.known[place % len(self.known)]
        if known.id is None and kind not in ("begin", "unproving receipt"):
            return
        who = as_caller(known.grants[-1].caller if known.grants else CALLERS["one"])
        if caller in CALLERS:
            who = as_caller(CALLERS[caller])
        answer = call(known, who)
        if known.id is None:
            known.id = answer["operation"]
        assert answer["operation"] == known.id, "one identity, two ids"
        self.as_of.append(answer["as_of"])
        self.changed(known, kind)
        # A call that was told to wait may count when it comes again.
        if answer["next"] not in ("wait", "stop"):
            self.calls.append(lambda: (known, kind, call(known, who)))

    def changed(self, known: Known, kind: str) -> None:
        """Hold that the state moved only as a call of this kind may move it."""
        if known.id is None:
            return
        before, after = self.states.get(known.name, "planned"), str(self.check(known)["state"])
        assert before == after or (before, after) in MOVES[kind], f"{kind}: {before} became {after}"
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
    if not facts.attempts:
        return "planned"
    newest = max(facts.attempts, key=lambda attempt: attempt.number)
    if newest.outcome.value == "open" and newest.ended_at is None and now < newest.lease_until:
        return "in_progress"
    if any(attempt.outcome.value in ("open", "unknown") for attempt in facts.attempts):
        return "in_doubt"
    return "failed"


assert TOLERANCE == 60 * SECOND

TestJournalMachine = JournalMachine.TestCase
TestJournalMachine.settings = settings(
    max_examples=400 if LONG else 40,
    stateful_step_count=50 if LONG else 30,
    deadline=None,
    derandomize=not LONG,
    suppress_health_check=list(HealthCheck),
)
