"""Asks the rules, once for each (facts, command, moment), and holds every decision against what must be."""

from typing import Any, NamedTuple

from msgspec.structs import replace

from counterfoil.store.domain.instants import Instant, Reading
from counterfoil.store.domain.model import (
    Assurance,
    Description,
    LookupTerms,
    Operation,
    Outcome,
    Party,
    Repeat,
    State,
    Terms,
)
from domain.search.forgetting import essence
from domain.search.rules import Rules
from domain.search.worlds import World
from stateful.model import MOVES

__all__ = ["NOTHING", "RULES", "SECONDS", "TICK", "Command", "Decided", "Deciding", "Violation"]

SECONDS = 100
"""One tick; longer than the clocks' tolerance of 60 seconds, so that a tick is never within it."""

TICK = SECONDS * 1_000_000
NOTHING = -1
"""The number that stands for an operation that is not there yet."""

_ACTION = "mail.send"
_STEPS = 40
"""Answers within which whoever follows `next` arrives; the longest honest way takes half of them."""


RULES = (
    "no effect happens twice",
    "succeeded is true",
    "no receipt is lost",
    "no receipt is without consequence",
    "no state flips silently",
    "no word outweighs a receipt",
    "an answer is about the effect that was asked for",
    "what is sent under a key stays as it was recorded",
    "an undoing has something to undo",
    "compensated is true",
    "no lease outgrows its length",
    "a call grants once",
    "a call sent twice changes nothing more",
    "facts are a replay of the log",
    "a decision leads where the table says",
    "whoever follows next arrives",
    "a person has a way out",
)
"""What is held against every decision and every situation."""


class Violation(AssertionError):
    """Something that must never be."""

    def __init__(self, rule: str, what: str) -> None:
        assert rule in RULES
        super().__init__(f"{rule}: {what}")
        self.rule, self.what = rule, what

    def by(self, move: str) -> "Violation":
        """Give the same, naming the move that does it."""
        return Violation(self.rule, f"{move}: {self.what}")


class Command(NamedTuple):
    """What is asked of the journal. `who` is a session's number, 0 a person; `about` an operation's index."""

    kind: str
    who: int
    about: int = 0
    attempt: int | None = None
    reference: str | None = None
    as_of: int | None = None
    words: str = ""


class Decided(NamedTuple):
    """What was answered: the facts afterwards, the verb, its reason, and what was granted."""

    after: int
    next: str
    reason: str
    attempt: int | None
    generation: int


class Deciding:
    """Facts as small numbers, and the shipped decisions about them."""

    def __init__(self, rules: Rules, world: World) -> None:
        self.rules, self.world = rules, world
        self._with_calls = world.redelivery or "A9" not in world.holds
        self.policy = rules.states.Policy(
            lease_seconds=world.lease * SECONDS,
            settle_seconds=SECONDS,
            assurance=((_ACTION, Assurance[world.required.upper()]),),
        )
        self._facts: list[Operation] = []
        self._numbers: dict[Operation, int] = {}
        self._decided: dict[tuple[Any, ...], Decided] = {}
        self._states: dict[tuple[int, int], State] = {}
        self._arrived: set[tuple[int, int, str]] = set()

    @property
    def different_facts(self) -> int:
        """How many different facts of an operation were met."""
        return len(self._facts)

    def number(self, operation: Operation) -> int:
        """Give the number of these facts, without what no rule looks at."""
        number = self._numbers.get(operation)
        if number is None:
            facts = essence(operation, with_calls=self._with_calls, with_names=self.world.keys > 1)
            number = self._numbers.get(facts)
            if number is None:
                number = self._numbers[facts] = len(self._facts)
                self._facts.append(facts)
            self._numbers[operation] = number
        return number

    def facts(self, number: int) -> Operation:
        """Give the facts of a number."""
        return self._facts[number]

    def state(self, number: int, clock: int) -> State:
        """Derive the state, by the rules."""
        if number == NOTHING:
            return State.PLANNED
        state = self._states.get((number, clock))
        if state is None:
            # A member of the same enumeration, also where the rules were loaded anew.
            state = State(self.rules.states.state_of(self._facts[number], clock * TICK))
            self._states[number, clock] = state
        return state

    def settle_ends(self, number: int, attempt: int) -> int:
        """The tick from which an attempt can do nothing more, as A1 to A3 promise; settling takes a tick.

        An acknowledgement that was recorded says that a request is under way: the time starts anew.
        """
        operation = self._facts[number]
        ends = next(known.end for known in operation.attempts if known.number == attempt)
        if operation.acknowledged_at is not None:
            ends = max(ends, operation.acknowledged_at)
        return int(ends // TICK) + 1

    def decide(self, command: Command, number: int, clock: int, others: tuple[int, ...] = ()) -> Decided:
        """Let the rules decide.

        Raises:
            Violation: the decision breaks a rule that holds for every single one.
        """
        asked = (command, number, clock, others)
        decided = self._decided.get(asked)
        if decided is None:
            decided = self._decided[asked] = self._decide(command, number, clock, others)
        return decided

    def _decide(self, command: Command, number: int, clock: int, others: tuple[int, ...]) -> Decided:
        before = None if number == NOTHING else self._facts[number]
        verdict = self._ask(command, before, clock * TICK, others)
        after = before if verdict.after is None else verdict.after
        if after is None:
            return Decided(NOTHING, verdict.next, verdict.reason, None, 0)
        self._check(command, before, after, verdict, clock)
        known = self.number(after)
        if verdict.events:
            again = self._ask(command, after, clock * TICK, others, is_again=True).after
            if again is not None and replace(again, updated_at=0) != replace(after, updated_at=0):
                raise Violation("a call sent twice changes nothing more", f"{command.kind} did")
        granted = verdict.fields.get("attempt") if verdict.next == "perform" else None
        self._check_way_out(known, clock)
        return Decided(
            known,
            verdict.next,
            verdict.reason,
            None if granted is None else granted.number,
            0 if granted is None else granted.generation,
        )

    def undo(self, number: int, command: Command, clock: int) -> int:
        """Let the success of its undoing reach an operation, as the journal does."""
        before = self._facts[number]
        situation = self._situation(command, clock * TICK)
        events = self.rules.closing.compensate(before, situation, by="op_1")
        after = self.rules.events.evolve_all(before, events)
        was, becomes = self.state(number, clock), self.state(self.number(after), clock)
        if becomes not in (was, State.COMPENSATED) or after.receipts != before.receipts:
            raise Violation("no state flips silently", f"{was} became {becomes} by its undoing")
        return self.number(after)

    def _ask(
        self,
        command: Command,
        before: Operation | None,
        now: Instant,
        others: tuple[int, ...],
        *,
        is_again: bool = False,
    ) -> Any:
        """Ask; `is_again` where the log holds this very call, which the journal looks up for the rules."""
        asking = {
            "begin": lambda: self._begin(command, before, now, others),
            "receipt": lambda: self._receipt(command, before, now),
            "failure": lambda: self._failure(command, before, now),
            "finding": lambda: self._finding(command, before, now),
            "close": lambda: self._close(command, before, now, is_again=is_again),
            "progress": lambda: self._progress(command, before, now, is_again=is_again),
        }
        try:
            return asking[command.kind]()
        except LookupError as error:
            raise Violation("a decision leads where the table says", str(error)) from error

    # What is asked, in the words of the rules.

    def _situation(self, command: Command, now: Instant) -> Any:
        is_person = command.who == 0
        # A person who says the same again later says it anew; an agent's call repeated is the same call.
        said = f"{command}@{now}" if is_person else f"{command}"
        return self.rules.drafting.Situation(
            now=Reading(at=now),
            policy=self.policy,
            party=Party(
                principal="local",
                conversation=None if is_person else f"conversation-{command.who}",
                connection=f"connection-{command.who}",
            ),
            call_id=(command.reference if command.kind == "begin" else said),
            is_person=is_person,
        )

    def _creation(self, about: int) -> Any:
        return self.rules.drafting.Creation(
            id=f"op_{about}",
            namespace="default",
            run="run",
            key=f"key-{about}",
            position=about + 1,
            run_created_at=0,
            description=None,
        )

    def _begin(
        self, command: Command, before: Operation | None, now: Instant, others: tuple[int, ...]
    ) -> Any:
        world, begin = self.world, self.rules.begin
        undoes = "op_0" if world.is_undo and command.about == 1 else None
        target = "other" if command.words == "another target" else "alice"
        args = "args-2" if command.words == "another effect" else "args-1"
        lookup = LookupTerms(tool="search_sent", conclusive=world.is_conclusive or None)
        repeat = world.looser if command.words == "looser" else world.repeat
        given = begin.BeginGiven(
            id=f"op_{command.about}",
            namespace="default",
            run="run",
            key=f"key-{command.about}",
            description=Description(
                action=_ACTION if undoes is None else "mail.recall",
                target=target,
                target_folded=target,
                args_digest=args,
                args_keyed=args,
                payload_digest=f"payload-{command.who}",
                payload_keyed=f"payload-{command.who}",
                fingerprint=f"{target} {args}" + ("" if undoes is None else " undone"),
            ),
            compensates=undoes,
            terms=Terms(
                repeat=None if repeat is None else Repeat(repeat),
                key_ttl_seconds=None if world.key_ttl is None else world.key_ttl * SECONDS,
                lookup=lookup if world.has_lookup else None,
                deadline_seconds=None if world.deadline is None else world.deadline * SECONDS,
            ),
        )
        facts = begin.BeginFacts(
            operation=before,
            run=None,
            next_position=command.about + 1,
            run_created_at=0,
            others=tuple(self._facts[other] for other in others),
            original=None if undoes is None or not others else self._facts[others[0]],
        )
        return begin.decide_begin(given, facts, self._situation(command, now))

    def _receipt_facts(self, command: Command, *, final: bool = True, performed_at: int | None = None) -> Any:
        return self.rules.receipts.ReceiptFacts(
            kind="message",
            system="smtp",
            external_id=command.reference,
            performed_at=performed_at,
            url=None,
            evidence_digest=None,
            final=final,
            source="response",
            assurance=Assurance.CLAIMED if command.reference is None else Assurance.REPORTED,
            attempt=command.attempt,
        )

    def _receipt(self, command: Command, before: Operation | None, now: Instant) -> Any:
        performed_at = None if command.as_of is None else command.as_of * TICK
        return self.rules.receipts.decide_receipt(
            before,
            self._receipt_facts(command, final=command.words != "acknowledgement", performed_at=performed_at),
            self._situation(command, now),
            creation=self._creation(command.about),
        )

    def _failure(self, command: Command, before: Operation | None, now: Instant) -> Any:
        evidence = {
            "refused": {"status": 422},
            "never sent": {"sent": "no"},
            "broken": {"status": 503},
        }.get(command.words)
        given = self.rules.failures.FailureFacts(
            attempt=command.attempt,
            effect="unknown" if evidence is None else "none",
            error=command.words,
            evidence=evidence,
            evidence_digest=None if evidence is None else command.words,
            retryable=True,
            retry_after_seconds=None,
        )
        return self.rules.failures.decide_failure(before, given, self._situation(command, now))

    def _finding(self, command: Command, before: Operation | None, now: Instant) -> Any:
        word, _sep, more = command.words.partition(", ")
        given = self.rules.findings.ReconcileFacts(
            finding=word,
            checked_with="search_sent",
            by="human" if command.who == 0 else "lookup",
            as_of=None if command.as_of is None else command.as_of * TICK,
            receipt=self._receipt_facts(command),
            end_lease=more == "end lease",
        )
        return self.rules.reconciling.decide_reconcile(
            before, given, self._situation(command, now), creation=self._creation(command.about)
        )

    def _close(self, command: Command, before: Operation | None, now: Instant, *, is_again: bool) -> Any:
        given = self.rules.closing.CloseFacts(
            outcome=State(command.words), reason="decided", is_redelivered=is_again
        )
        return self.rules.closing.decide_close(before, given, self._situation(command, now))

    def _progress(self, command: Command, before: Operation | None, now: Instant, *, is_again: bool) -> Any:
        given = self.rules.progress.ProgressFacts(
            attempt=command.attempt, message="still at it", is_redelivered=is_again
        )
        return self.rules.progress.decide_progress(before, given, self._situation(command, now))

    # What must be true of every single decision.

    def _check(
        self, command: Command, before: Operation | None, after: Operation, verdict: Any, clock: int
    ) -> None:
        if verdict.events and self.rules.events.evolve_all(before, verdict.events) != after:
            raise Violation("facts are a replay of the log", f"not after {command.kind}")
        if command.words == "another effect" and verdict.next in ("perform", "skip", "continue"):
            raise Violation(
                "an answer is about the effect that was asked for",
                f"{verdict.next} for another effect than the one on record",
            )
        number = NOTHING if before is None else self.number(before)
        becomes = self.state(self.number(after), clock)
        self._check_move(command, self.state(number, clock), becomes)
        self._check_receipts(command, before, after, becomes)
        if before is None:
            return
        if before.granted and after.description != before.description:
            raise Violation("what is sent under a key stays as it was recorded", "the description changed")
        if command.kind == "progress":
            self._check_lease(before, after, clock)
        if command.kind == "begin" and command.reference is not None:
            _check_call(command.reference, before, after, verdict)
        if command.kind == "finding" and command.who != 0 and command.reference is None:
            _check_word(before, after, "at once")

    def _check_move(self, command: Command, was: State, becomes: State) -> None:
        if was is becomes:
            return
        kind = command.words if command.kind in ("finding", "close") else command.kind
        kind = kind.partition(", ")[0]
        if command.who == 0 and kind in ("not_performed", "timed_out", "cancelled"):
            kind = f"a person's {kind}"
        moves = MOVES[kind]
        if command.kind == "receipt":
            moves = moves | MOVES["unproving receipt"]
        if (was.value, becomes.value) not in moves:
            raise Violation("no state flips silently", f"{was} became {becomes} by {kind}")

    def _check_lease(self, before: Operation, after: Operation, clock: int) -> None:
        """Progress extends a lease to its length from now; said twice it extends it once."""
        was, becomes = before.newest, after.newest
        assert was is not None
        assert becomes is not None
        if becomes.lease_until > max(was.lease_until, (clock + self.world.lease) * TICK):
            raise Violation("no lease outgrows its length", "progress extended it by more")

    def _check_receipts(
        self, command: Command, before: Operation | None, after: Operation, state: State
    ) -> None:
        kept = () if before is None else before.receipts
        still = after.receipts[: len(kept)]
        if len(still) < len(kept) or any(
            replace(
                new, is_accepted=old.is_accepted, is_set_aside=old.is_set_aside, is_foreign=old.is_foreign
            )
            != old
            for old, new in zip(kept, still, strict=True)
        ):
            raise Violation("no receipt is lost", "one on file is gone or was changed")
        if command.kind not in ("receipt", "finding") or command.reference is None:
            return
        if all(receipt.external_id != command.reference for receipt in after.receipts):
            raise Violation("no receipt is lost", f"{command.reference} was handed in and is not on file")
        is_proof = command.words != "acknowledgement" and self.world.required == "reported"
        shows = (State.SUCCEEDED, State.DISPUTED, State.COMPENSATED)
        was_set_aside = any(receipt.is_set_aside for receipt in after.receipts)
        is_new = all(receipt.external_id != command.reference for receipt in kept)
        if is_proof and is_new and state not in shows and not was_set_aside:
            raise Violation("no receipt is without consequence", f"{command.reference} left it {state}")

    def _check_way_out(self, number: int, clock: int) -> None:
        """Nobody is left in a loop: whoever follows `next` arrives, and a person always can end it."""
        for sight in ("performed", "not_performed", "inconclusive"):
            self._follow(number, clock, sight)

    def _follow(self, number: int, clock: int, sight: str) -> None:
        """Follow `next` as a new session that sees the same whenever it looks."""
        who, about = 9, int(self._facts[number].id.removeprefix("op_"))
        if self._facts[number].compensates is not None:
            return  # Whether it may go on hangs on another operation.
        target = self._facts[number].description.target
        begin = Command("begin", who, about, words="another target" if target == "other" else "")
        been: list[tuple[int, int, str]] = []
        said: list[str] = []
        while (number, clock, sight) not in self._arrived:
            been.append((number, clock, sight))
            before = self._facts[number]
            verdict = self._ask(begin, before, clock * TICK, ())
            after = verdict.after or before
            if verdict.next in ("reconcile", "perform"):
                said.append(f"{verdict.next} {verdict.reason}")
                before = after
                command = Command("finding", who, about, None, None, clock, sight)
                if verdict.next == "perform":
                    command = Command("receipt", who, about, verdict.fields["attempt"].number, "m-new")
                elif sight == "performed":
                    command = command._replace(reference="m-found")
                verdict = self._ask(command, before, clock * TICK, ())
                after = verdict.after or before
                if command.kind == "finding" and command.reference is None:
                    _check_word(before, after, "; ".join(said))
            said.append(f"{verdict.next} {verdict.reason}")
            if verdict.next == "skip":
                break
            if verdict.next == "ask":
                self._let_a_person_end(after, clock * TICK)
                break
            if verdict.next == "stop" or len(said) > _STEPS:
                raise Violation("whoever follows next arrives", "; ".join(said))
            number, clock = self.number(after), self._next_time(verdict, after, clock)
        self._arrived.update(been)

    @staticmethod
    def _next_time(verdict: Any, operation: Operation, clock: int) -> int:
        """When to ask again: when the answer says so, else a tick later."""
        if verdict.next != "wait":
            return clock + 1
        newest = operation.newest
        assert newest is not None
        at: int = verdict.fields.get("retry_at", newest.lease_until)
        return max(clock, -(-at // TICK))

    def _let_a_person_end(self, operation: Operation, now: Instant) -> None:
        about = int(operation.id.removeprefix("op_"))
        ends = Command("finding", 0, about, None, None, None, "inconclusive, end lease")
        operation = self._ask(ends, operation, now, ()).after or operation
        operation = self._ask(Command("close", 0, about, words="timed_out"), operation, now, ()).after
        if not State(self.rules.states.state_of(operation, now)).is_settled:
            raise Violation("a person has a way out", "timed_out did not settle it")


def _check_call(call: str, before: Operation, after: Operation, verdict: Any) -> None:
    earlier = next((attempt for attempt in before.granted if attempt.call_id == call), None)
    if earlier is None:
        return
    if len(after.granted) > len(before.granted):
        raise Violation("a call grants once", f"{call} was granted a second attempt")
    if verdict.next == "perform" and (earlier.is_touched or earlier.outcome is not Outcome.OPEN):
        raise Violation("a call grants once", f"{call} was granted again though its attempt has a history")


def _check_word(before: Operation, after: Operation, way: str) -> None:
    """An agent's finding without a reference never counts against a reference on file."""
    has_reference = any(
        receipt.is_in_test_for_duplicates and not receipt.is_set_aside for receipt in before.receipts
    )
    silenced = sum(attempt.outcome is Outcome.SILENT for attempt in after.attempts) > sum(
        attempt.outcome is Outcome.SILENT for attempt in before.attempts
    )
    if has_reference and silenced:
        what = f"an empty look counted against a reference on file ({way})"
        raise Violation("no word outweighs a receipt", what)
