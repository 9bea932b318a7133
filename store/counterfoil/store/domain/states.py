"""What follows from the facts at a moment: the state, what is live, what is settled, which key is alive.

The state is derived in the order that STATES.md gives; no other place decides it.
"""

from collections.abc import Mapping
from typing import TypeVar

from msgspec import Struct, field

from counterfoil.store.domain.gaps import is_of_lost_history
from counterfoil.store.domain.instants import Instant, Reading, micros
from counterfoil.store.domain.model import (
    Assurance,
    Attempt,
    ConfiguredGrant,
    Decision,
    Description,
    Operation,
    Outcome,
    Repeat,
    State,
)
from counterfoil.store.domain.names import fold_spelling
from counterfoil.store.domain.patterns import matches_glob

__all__ = [
    "BY_DEADLINE",
    "CLOCK_TOLERANCE",
    "FINDS",
    "UNRESOLVED_AFTER",
    "Policy",
    "clock_jump",
    "current_generation",
    "deadline_at",
    "decision_at",
    "is_key_alive",
    "is_live",
    "is_repeatable",
    "is_unresolved",
    "live_attempt",
    "next_generation",
    "repeat_until",
    "settle",
    "settle_until",
    "since",
    "state_of",
    "unknown_attempts",
]

Value = TypeVar("Value")

BY_DEADLINE = "deadline"
"""Who decided where nobody did: the declared deadline passed."""

CLOCK_TOLERANCE = micros(60)
"""How far the performing system's clock may differ from ours (assumption A13)."""

UNRESOLVED_AFTER = 3
"""Findings that settled nothing before a person is asked (rule 10)."""

FINDS = ("performed", "compensated")
"""Findings of something that was there; no declared lookup is needed for them."""

_JUMP_TOLERANCE = micros(2)
_JUMP_TOLERANCE_PER = 1000
"""Clocks are slewed by up to half a thousandth: what two readings may differ by grows with their distance."""


class Policy(Struct, frozen=True, kw_only=True):
    """What the configuration says; durations in seconds.

    `assurance` and `duplicates` are (pattern, value) pairs, the first match of an action counts. `drift`
    classes the components of a context. `authority` are (action, target) globs of what needs a
    grant; `grants` are the operator's own. `history_lost_at` is no configuration: it is when the journal was
    put back from a backup, if it was.
    """

    lease_seconds: float = 300
    longest_lease_seconds: float = 86_400
    settle_seconds: float = 300
    least_settle_seconds: float = 0
    assurance: tuple[tuple[str, Assurance], ...] = ()
    duplicates: tuple[tuple[str, str], ...] = ()
    drift: Mapping[str, str] = field(default_factory=dict)
    authority: tuple[tuple[str, str], ...] = ()
    grants: tuple[ConfiguredGrant, ...] = ()
    history_lost_at: Instant | None = None

    def required_assurance(self, action: str) -> Assurance:
        """The assurance that `succeeded` needs for an action; never below `reported`."""
        return max(Assurance.REPORTED, _first_match(self.assurance, action, Assurance.REPORTED))

    def compare(self, action: str) -> str:
        """How look-alikes of an action are recognised: target, fingerprint or off."""
        return _first_match(self.duplicates, action, "target")

    def requires_grant(self, described: Description) -> bool:
        """Tell whether an effect may be attempted under a grant only; no spelling evades a rule."""
        targets = (described.target or "", described.target_folded)
        return any(
            _matches(action, described.action) and any(_matches(target, text) for text in targets)
            for action, target in self.authority
        )


def _matches(pattern: str, text: str) -> bool:
    return matches_glob(text, pattern) or matches_glob(fold_spelling(text), pattern.casefold())


def _first_match(rules: tuple[tuple[str, Value], ...], action: str, default: Value) -> Value:
    return next((value for pattern, value in rules if _matches(pattern, action)), default)


def is_live(operation: Operation, attempt: Attempt, now: Instant) -> bool:
    """Tell whether an attempt holds a live lease; only the newest can."""
    newest = operation.newest
    return newest is not None and attempt.number == newest.number and _has_live_lease(attempt, now)


def live_attempt(operation: Operation, now: Instant) -> Attempt | None:
    """The attempt whose lease lives, if one does."""
    newest = operation.newest
    return newest if newest is not None and _has_live_lease(newest, now) else None


def _has_live_lease(attempt: Attempt, now: Instant) -> bool:
    return attempt.outcome is Outcome.OPEN and attempt.ended_at is None and now < attempt.lease_until


def unknown_attempts(operation: Operation, now: Instant) -> tuple[Attempt, ...]:
    """The attempts that may have had their effect and whose lease is over."""
    return tuple(
        attempt
        for attempt in operation.attempts
        if not attempt.outcome.is_without_effect and not is_live(operation, attempt, now)
    )


def deadline_at(operation: Operation) -> Instant | None:
    """When waiting ends: the first grant plus the declared deadline."""
    declared = operation.terms.deadline_seconds
    if declared is None or not operation.granted:
        return None
    return operation.granted[0].granted_at + micros(declared)


def state_of(operation: Operation, now: Instant) -> State:
    """Derive the state from the facts, in the order of STATES.md."""
    if operation.dispute is not None:
        return State.DISPUTED
    if operation.decision is not None:
        return operation.decision.outcome
    if operation.receipts and operation.standing:
        return State.SUCCEEDED
    if not operation.attempts:
        return State.PLANNED
    deadline = deadline_at(operation)
    if deadline is not None and now >= deadline:
        return State.TIMED_OUT
    if live_attempt(operation, now) is not None:
        return State.IN_PROGRESS
    if unknown_attempts(operation, now):
        return State.IN_DOUBT
    return State.FAILED


def decision_at(operation: Operation, now: Instant) -> Decision | None:
    """The decision that stands: the one on record, or the deadline's, which the next write puts on record."""
    deadline = deadline_at(operation)
    if operation.decision is not None or deadline is None or state_of(operation, now) is not State.TIMED_OUT:
        return operation.decision
    return Decision(
        outcome=State.TIMED_OUT,
        at=deadline,
        by=BY_DEADLINE,
        reason="the declared deadline passed without a receipt",
    )


def since(operation: Operation) -> Instant:
    """The earliest time that the effect can bear; older finds are another effect's.

    It counts from the first grant, or from the creation of the run where the effect came before any.
    """
    granted = operation.granted
    is_unannounced = not granted or any(
        attempt.number == 0 and attempt.granted_at <= granted[0].granted_at for attempt in operation.attempts
    )
    return (operation.since_floor if is_unannounced else granted[0].granted_at) - CLOCK_TOLERANCE


def settle(operation: Operation, policy: Policy) -> int:
    """The declared settle time in microseconds: how long an effect may take to show (A1 to A3)."""
    declared = operation.terms.settle_seconds
    return micros(max(policy.settle_seconds if declared is None else declared, policy.least_settle_seconds))


def settle_until(operation: Operation, now: Instant, policy: Policy) -> Instant | None:
    """From when an empty look counts; None while nothing is unknown.

    The latest of every unknown attempt's end, the newest acknowledgement and the last jump of the clock,
    plus the settle time, which a lookup declared conclusive replaces by zero. A clock that was set back may
    show an attempt's end before its grant; no look before the grant counts then either.
    """
    ends = [max(attempt.granted_at, attempt.end) for attempt in unknown_attempts(operation, now)]
    if not ends:
        return None
    for moment in (operation.acknowledged_at, operation.settle_restart_at):
        if moment is not None:
            ends.append(moment)
    lookup = operation.terms.lookup
    wait = 0 if lookup is not None and lookup.conclusive else settle(operation, policy)
    return max(ends) + wait


def current_generation(operation: Operation) -> int:
    """The generation of the key under which the newest attempt was granted; 0 before any."""
    return max((attempt.generation for attempt in operation.granted), default=0)


def repeat_until(operation: Operation, policy: Policy) -> Instant | None:
    """Until when the provider surely still absorbs a repeat under the current key; None where unknown.

    The declared settle time is taken off even where the lookup is conclusive: it stands here for a request
    still under way. What the wall clock was set back since the first grant is taken off too. A key of before
    a restore is over: attempts under another one may be missing. What another journal granted before may have
    gone out under the same key, which counts from then.
    """
    if operation.terms.key_ttl_seconds is None:
        return None
    generation = current_generation(operation)
    under_it = [attempt for attempt in operation.granted if attempt.generation == generation]
    if not under_it:
        return None
    first = under_it[0]
    lost = operation.set_back - first.set_back
    since_when = first.granted_at
    elsewhere = operation.attempts[0]
    if elsewhere.is_of_another_journal and first.granted_at <= elsewhere.lease_until:
        since_when = min(since_when, elsewhere.granted_at)
    until = since_when + micros(operation.terms.key_ttl_seconds) - settle(operation, policy) - lost
    if is_of_lost_history(first, policy.history_lost_at):
        return min(until, first.granted_at)
    return until


def is_key_alive(operation: Operation, now: Instant, policy: Policy) -> bool:
    """Tell whether a repeat under the current key is absorbed by the provider."""
    if operation.terms.repeat is not Repeat.KEYED:
        return False
    generation = current_generation(operation)
    if any(
        attempt.generation == generation and is_of_lost_history(attempt, policy.history_lost_at)
        for attempt in operation.granted
    ):
        return False
    until = repeat_until(operation, policy)
    return until is not None and now < until


def is_repeatable(operation: Operation, now: Instant, policy: Policy) -> bool:
    """Tell whether the effect may be performed again while an attempt is unknown.

    Under a live key only if every unknown attempt was made under that same key: the provider absorbs no
    other one.
    """
    if operation.terms.repeat is Repeat.SAFE:
        return True
    if not is_key_alive(operation, now, policy):
        return False
    generation = current_generation(operation)
    return all(attempt.generation == generation for attempt in unknown_attempts(operation, now))


def next_generation(operation: Operation, now: Instant, policy: Policy) -> int:
    """The generation of the key for the next attempt.

    It rises only when every attempt under the current one was answered without effect or never sent.
    Silence raises it only once the key is over.
    """
    generation = current_generation(operation)
    under_it = [attempt for attempt in operation.granted if attempt.generation == generation]
    if not under_it or all(attempt.outcome is Outcome.REFUSED for attempt in under_it):
        return generation + 1
    until = repeat_until(operation, policy)
    is_over = until is not None and now >= until
    without_effect = all(attempt.outcome.is_without_effect for attempt in under_it)
    return generation + 1 if is_over and without_effect else generation


def is_unresolved(operation: Operation) -> bool:
    """Tell whether looking has led nowhere: three findings that settled nothing, one without a lookup."""
    newest = operation.newest
    number = 0 if newest is None else newest.number
    unsettling = [
        finding for finding in operation.findings if finding.is_unsettling and finding.attempt == number
    ]
    lookup = operation.terms.lookup
    is_blind = lookup is None or not lookup.is_on_record
    if is_blind and any(finding.finding not in FINDS for finding in unsettling):
        return True
    return len({finding.as_of for finding in unsettling}) >= UNRESOLVED_AFTER


def clock_jump(operation: Operation, now: Reading) -> int:
    """How far the wall clock moved against the monotonic clock since the last reading on record.

    Microseconds, positive where the wall clock ran ahead; 0 within tolerance or where it cannot be told
    (another boot, no monotonic clock).
    """
    if (
        operation.clock_offset is None
        or operation.clock_at is None
        or now.monotonic is None
        or operation.clock_boot is None
        or operation.clock_boot != now.boot
    ):
        return 0
    jump = (now.at - now.monotonic) - operation.clock_offset
    tolerance = _JUMP_TOLERANCE + abs(now.monotonic - (operation.clock_at - operation.clock_offset)) // (
        _JUMP_TOLERANCE_PER
    )
    return jump if abs(jump) > tolerance else 0
