"""Terms: fixed by whichever call gives them first, tightened by later ones, never loosened."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from counterfoil.store.domain.instants import micros, seconds
from counterfoil.store.domain.model import NO_TERMS, LookupTerms, Operation, Repeat, Terms
from counterfoil.store.domain.states import Policy

__all__ = ["at_attempt", "at_grant", "merge_terms"]

_WAS_OVER = "deadline_seconds: not taken, a person reopened this after such a deadline was over"


def at_attempt(terms: Terms, policy: Policy) -> Terms:
    """Fix the settle time of what may have had its effect: declared or by default, and never below the least.

    Several processes with configurations of their own serve one journal. From here on they all answer alike,
    save that one whose least settle time is longer still counts its own (`settle`).
    """
    declared = terms.settle_seconds
    counts = max(policy.settle_seconds if declared is None else declared, policy.least_settle_seconds)
    return terms if counts == declared else replace(terms, settle_seconds=counts)


def at_grant(terms: Terms, policy: Policy) -> Terms:
    """Fix what nobody gave: from the first grant on the defaults are terms too."""
    terms = at_attempt(terms, policy)
    return terms if terms.repeat is not None else replace(terms, repeat=Repeat.UNSAFE)


def merge_terms(operation: Operation, given: Terms, policy: Policy) -> tuple[Terms, tuple[str, ...]]:
    """Take from `given` what is new or stricter; say what stands against it.

    Before the first grant a term that nobody gave is taken as given. After it, only what is stricter counts,
    a deadline never before the end of a lease that was granted, and none that was over when a person reopened
    what a deadline had closed: it counts from the first grant, and would close that again at once. A settle
    time below the least is given as the least.
    """
    if given == NO_TERMS:
        return operation.terms, ()
    recorded, is_fixed = operation.terms, bool(operation.granted)
    if given.settle_seconds is not None and given.settle_seconds < policy.least_settle_seconds:
        given = replace(given, settle_seconds=policy.least_settle_seconds)
    kept: list[str] = []
    is_over = _is_over(recorded.deadline_over_seconds, given.deadline_seconds)
    if is_over:
        given = replace(given, deadline_seconds=None)

    def take(name: str, is_stricter: Callable[[Any, Any], bool], *, absent_is_loosest: bool) -> Any:
        old, new = getattr(recorded, name), getattr(given, name)
        if new is None or new == old:
            return old
        if old is None and (absent_is_loosest or not is_fixed):
            return new
        if old is not None and is_stricter(new, old):
            return new
        kept.append(name)
        return old

    repeat = take("repeat", lambda new, old: new.strictness > old.strictness, absent_is_loosest=False)
    becomes_keyed = repeat is Repeat.KEYED and recorded.repeat is not Repeat.KEYED
    merged = Terms(
        repeat=repeat,
        key_ttl_seconds=take("key_ttl_seconds", _smaller, absent_is_loosest=becomes_keyed),
        lookup=_merge_lookup(recorded.lookup, given.lookup, is_fixed=is_fixed, kept=kept),
        settle_seconds=take(
            "settle_seconds",
            lambda new, old: new > old,
            absent_is_loosest=(given.settle_seconds or 0) > policy.settle_seconds,
        ),
        undo=recorded.undo or given.undo,
        deadline_seconds=take("deadline_seconds", _smaller, absent_is_loosest=True),
        max_attempts=take("max_attempts", _smaller, absent_is_loosest=True),
        deadline_over_seconds=recorded.deadline_over_seconds,
    )
    if is_fixed and merged.deadline_seconds != recorded.deadline_seconds:
        merged = replace(merged, deadline_seconds=_not_before_a_lease(operation, merged.deadline_seconds))
    warnings = tuple(f"{name}: the recorded value stands, the given one is looser" for name in kept)
    return merged, (*warnings, _WAS_OVER) if is_over else warnings


def _smaller(new: float, old: float) -> bool:
    return new < old


def _is_over(over_seconds: float | None, deadline_seconds: float | None) -> bool:
    return over_seconds is not None and deadline_seconds is not None and deadline_seconds <= over_seconds


def _not_before_a_lease(operation: Operation, deadline_seconds: float | None) -> float | None:
    if deadline_seconds is None:
        return None
    longest = max(attempt.lease_until for attempt in operation.granted) - operation.granted[0].granted_at
    return max(deadline_seconds, seconds(longest)) if micros(deadline_seconds) < longest else deadline_seconds


def _merge_lookup(
    old: LookupTerms | None, new: LookupTerms | None, *, is_fixed: bool, kept: list[str]
) -> LookupTerms | None:
    """A lookup may be added, without `conclusive`; a recorded one stands, but `conclusive` may go off.

    Not mentioning `conclusive` turns nothing off.
    """
    if new is None:
        return old
    if old is None or not old.is_on_record:
        if not is_fixed:
            return new
        if new.conclusive:
            kept.append("lookup.conclusive")
        return replace(new, conclusive=False)
    if replace(new, conclusive=old.conclusive) != old or (new.conclusive and not old.conclusive):
        kept.append("lookup")
    return replace(old, conclusive=False) if old.conclusive and new.conclusive is False else old
