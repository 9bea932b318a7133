"""Finds the attempt that an agent began itself for the call that it now makes: both are one operation.

The agent chose its own key and its own words, so that nothing but likeness can tell. Where two attempts fit
equally well, neither is taken.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from counterfoil.server.hooks.call import Call
from counterfoil.server.hooks.rules.tools import name_words
from counterfoil.store.attending import LiveAttempt
from counterfoil.store.attending_calls import HeldAttempt
from counterfoil.store.domain.canonical import canonical_json
from counterfoil.store.domain.names import fold_target

__all__ = ["fitting_attempt"]

_ACTION, _TARGET, _ACTION_AND_TARGET, _SAME_ARGS = 1, 2, 3, 4
"""How much a likeness says, the least first."""

_SHORTEST_PART = 4
"""A name that is part of a longer one says something only if it is not a mere syllable."""


def fitting_attempt(
    call: Call, live: Sequence[LiveAttempt], free: Sequence[HeldAttempt], *, args: Mapping[str, Any]
) -> HeldAttempt | None:
    """Give the one of the `free` attempts that a call carries out, or None. `args` are without secrets."""
    known = {attempt.operation: attempt for attempt in live}
    fits = [
        (fit, held)
        for held in free
        if held.operation in known and (fit := _fit(call, known[held.operation], args)) > 0
    ]
    best = max((fit for fit, _ in fits), default=0)
    found = [held for fit, held in fits if fit == best]
    return found[0] if len(found) == 1 else None


def _fit(call: Call, attempt: LiveAttempt, args: Mapping[str, Any]) -> int:
    sent = args.get("input")
    if attempt.args and sent and canonical_json(attempt.args) == canonical_json(sent):
        return _SAME_ARGS
    is_action = any(_is_same_action(attempt.action, effect) for effect in call.effects)
    if attempt.target is None or not attempt.target.strip():
        return _ACTION if is_action else 0
    is_target = _names_target(attempt.target, [name for effect in call.effects for name in effect.names])
    if not is_target:
        return 0
    return _ACTION_AND_TARGET if is_action else _TARGET


def _is_same_action(action: str, effect: Any) -> bool:
    """Tell whether an agent's word for an action means what an effect does: `push` is `git.push`."""
    mine = set(name_words(action))
    if not mine:
        return False
    if any(mine == set(name_words(other)) for other in (effect.action, *effect.rule.also)):
        return True
    theirs = {*name_words(effect.action), *(word for text in effect.words for word in name_words(text))}
    return mine <= theirs


def _names_target(target: str, names: Sequence[str]) -> bool:
    wanted = fold_target(target)
    for name in names:
        folded = fold_target(name)
        if not folded:
            continue
        if folded == wanted:
            return True
        shorter, longer = sorted((folded, wanted), key=len)
        if len(shorter) >= _SHORTEST_PART and shorter in longer:
            return True
    return False
