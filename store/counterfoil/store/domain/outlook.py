"""What a begin would answer now, whoever asks: the one order of checks behind begins, plans and checks."""

from collections.abc import Mapping

from msgspec import Struct

from counterfoil.store.domain.answers import damage_warning, skip_reason
from counterfoil.store.domain.instants import Instant
from counterfoil.store.domain.model import Operation, Party, Repeat, Run, State
from counterfoil.store.domain.states import Policy, is_repeatable, is_unresolved, live_attempt, state_of

__all__ = [
    "NO_BARRIERS",
    "Barriers",
    "Outlook",
    "attempts_used_up",
    "gate",
    "is_misled",
    "nothing_to_undo",
    "outlook",
]

_CANNOT_SUCCEED = frozenset((State.TIMED_OUT, State.CANCELLED, State.COMPENSATED))


class Outlook(Struct, frozen=True, kw_only=True):
    """A verb, its reason, and when to ask again where that is known.

    `waits_for` are the keys of the steps that have to succeed first, or no longer can, where that is why.
    """

    next: str
    reason: str
    retry_at: Instant | None = None
    waits_for: tuple[str, ...] = ()


class Barriers(Struct, frozen=True, kw_only=True):
    """What stands in the way from outside the operation itself, until a person lifts it.

    `authority` is the reason of the `ask`; `more_attempts` is how many a person permitted beyond the limit
    that no attempt was made under yet. `is_unreadable`: what the rest is weighed upon is damaged.
    `nothing_to_undo` says why an undoing has nothing to undo, or not yet.
    """

    has_history_gap: bool = False
    is_blocked_by_drift: bool = False
    authority: str | None = None
    more_attempts: int = 0
    is_unreadable: bool = False
    nothing_to_undo: tuple[str, ...] = ()


NO_BARRIERS = Barriers()


def outlook(
    operation: Operation,
    *,
    now: Instant,
    policy: Policy,
    run: Run | None,
    dependencies: Mapping[str, Operation],
    can_reproduce: bool,
    barriers: Barriers = NO_BARRIERS,
    party: Party | None = None,
    is_possible_duplicate: bool = False,
) -> Outlook:
    """Tell what a begin would answer, with `begin` in place of `perform`.

    `dependencies` holds the operations that this one waits for, and theirs, by key. `can_reproduce` says
    whether a caller would have the body that a repeat has to send; `party` who asks, where that is known;
    `is_possible_duplicate` whether it looks like an effect that was never told apart from it.
    """
    state = state_of(operation, now)
    if state.is_settled:
        return Outlook(next="skip", reason=skip_reason(state))
    if is_possible_duplicate and state in (State.PLANNED, State.FAILED):
        return Outlook(next="stop", reason="possible_duplicate")
    if operation.dispute is not None:
        return Outlook(next="ask" if operation.dispute.kind.needs_person else "reconcile", reason="disputed")
    live = live_attempt(operation, now)
    if live is not None:
        is_own = party is not None and live.holder is not None and live.holder.is_holder(party)
        return Outlook(
            next="wait",
            reason="lease_held_by_you" if is_own else "lease_held",
            retry_at=live.lease_until,
        )
    if state is State.IN_DOUBT and not (
        is_repeatable(operation, now, policy) and can_reproduce and not attempts_used_up(operation, barriers)
    ):
        if is_unresolved(operation):
            return Outlook(next="ask", reason="unresolved")
        return Outlook(next="reconcile", reason="in_doubt")
    barred = gate(operation, now=now, run=run, dependencies=dependencies, barriers=barriers)
    if barred is None and barriers.is_unreadable:
        # A begin would be refused, and nobody can tell what it would have been weighed upon.
        return Outlook(next="reconcile", reason="in_doubt")
    return barred or Outlook(next="begin", reason=_reason_to_begin(operation, state))


def gate(
    operation: Operation,
    *,
    now: Instant,
    run: Run | None,
    dependencies: Mapping[str, Operation],
    barriers: Barriers = NO_BARRIERS,
) -> Outlook | None:
    """Tell what stands between an operation that may be attempted and its attempt, if anything does."""
    if run is not None and run.finished_as is not None:
        return Outlook(next="stop", reason="run_finished")
    if barriers.nothing_to_undo:
        return Outlook(next="stop", reason="unmet")
    if barriers.has_history_gap:
        return Outlook(next="ask", reason="history_gap")
    lost = tuple(key for key in operation.depends_on if _cannot_succeed(key, now, dependencies, frozenset()))
    if lost:
        return Outlook(next="ask", reason="dependency_unmet", waits_for=lost)
    missing = tuple(key for key in operation.depends_on if not _has_succeeded(dependencies.get(key), now))
    if missing:
        return Outlook(next="wait", reason="dependency", waits_for=missing)
    if barriers.is_blocked_by_drift:
        return Outlook(next="ask", reason="drift")
    if barriers.authority is not None:
        return Outlook(next="ask", reason=barriers.authority)
    newest = operation.newest
    is_final = newest is not None and not newest.retryable and not barriers.more_attempts
    if attempts_used_up(operation, barriers) or is_final:
        return Outlook(next="ask", reason="attempts_exhausted")
    if newest is not None and newest.retry_at is not None and now < newest.retry_at:
        return Outlook(next="wait", reason="backoff", retry_at=newest.retry_at)
    return None


def _cannot_succeed(
    key: str, now: Instant, dependencies: Mapping[str, Operation], seen: frozenset[str]
) -> bool:
    """Tell whether an operation is over without success, or waits for one that is."""
    operation = dependencies.get(key)
    if operation is None:
        return False
    state = state_of(operation, now)
    if state in _CANNOT_SUCCEED:
        return True
    if state is not State.PLANNED or key in seen:
        return False
    return any(_cannot_succeed(other, now, dependencies, seen | {key}) for other in operation.depends_on)


def is_misled(operation: Operation, by_key: Mapping[str, Operation]) -> bool:
    """Tell whether an operation waits for what is not there, or for itself: no begin can have recorded that.

    `by_key` holds all that it waits for, directly or not, as far as that is there.
    """
    if not operation.depends_on:
        return False
    if not all(key in by_key for key in operation.depends_on):
        return True
    seen: set[str] = set()
    waiting = list(operation.depends_on)
    while waiting:
        key = waiting.pop()
        if key == operation.key:
            return True
        if key not in seen and key in by_key:
            seen.add(key)
            waiting += by_key[key].depends_on
    return False


def _has_succeeded(operation: Operation | None, now: Instant) -> bool:
    """Tell whether a step that is waited for is done; one whose rows are damaged (None) is not."""
    return operation is not None and state_of(operation, now) is State.SUCCEEDED


def nothing_to_undo(original: Operation | None, now: Instant) -> tuple[str, ...]:
    """Say why an undoing has nothing to undo, or not yet; nothing where it has."""
    if original is None:
        return ("what compensates names is not on record",)
    if original.is_damaged:
        return (damage_warning(original),)
    state = state_of(original, now)
    if state is State.SUCCEEDED:
        return ()
    why = f"only what succeeded is undone, and {original.id} is {state.value}"
    return (f"{why}: close this one as cancelled" if state is State.COMPENSATED else why,)


def attempts_used_up(operation: Operation, barriers: Barriers = NO_BARRIERS) -> bool:
    """Tell whether every attempt that the terms, and a person since, allow was granted."""
    limit = operation.terms.max_attempts
    return limit is not None and len(operation.granted) >= limit and not barriers.more_attempts


def _reason_to_begin(operation: Operation, state: State) -> str:
    if state is State.IN_DOUBT:
        return "repeat_safe" if operation.terms.repeat is Repeat.SAFE else "repeat_keyed"
    return "retry_after_failure" if state is State.FAILED else "first_attempt"
