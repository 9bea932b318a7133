"""Finds the attempt that an agent began itself for the call that it now makes: both are one operation.

The agent chose its own key and its own words. An attempt fits a call where its action may mean the tool, all
that it says of the effect is found in the call, and it says something; of several the one that fits best
counts, if it is one. A receipt at the wrong operation is worse than none, so in doubt nothing fits.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from counterfoil.server.rules.call import DescribedCall
from counterfoil.server.rules.verbs import ACTING, name_words
from counterfoil.store.attending import LiveAttempt
from counterfoil.store.domain.canonical import canonical_json
from counterfoil.store.domain.json_numbers import Json
from counterfoil.store.domain.names import fold_target
from counterfoil.store.errors import InvalidArgument

__all__ = ["matching_attempt"]

_MEMBER, _TARGET, _ALL = 1, 2, 3
"""How much a likeness says, the least first; an action alone says nothing of which effect is meant."""
_READ_OF_TARGET = 2_000
_LEAST_PART = 4


def matching_attempt(
    live: Sequence[LiveAttempt], call: DescribedCall, *, tool: str, arguments: Mapping[str, Any]
) -> LiveAttempt | None:
    """Give the one live attempt that a call carries out, or None. `arguments` have their secrets replaced."""
    fits = [(fit, attempt) for attempt in live if (fit := _fit(attempt, call, tool, arguments)) > 0]
    best = max((fit for fit, _ in fits), default=0)
    found = [attempt for fit, attempt in fits if fit == best]
    return found[0] if len(found) == 1 else None


def _fit(attempt: LiveAttempt, call: DescribedCall, tool: str, arguments: Mapping[str, Any]) -> int:
    if not _may_be_one(attempt.action, call.action, tool):
        return 0
    said = attempt.args if isinstance(attempt.args, Mapping) else {}
    if not all(_is_found(name, value, arguments) for name, value in said.items()):
        return 0
    is_all = bool(said) and (_is_same(dict(said), call.args) or _is_same(dict(said), dict(arguments)))
    if attempt.target is not None:
        target = fold_target(attempt.target)
        if call.target is not None and fold_target(call.target) != target:
            return 0
        texts = [value for value in arguments.values() if isinstance(value, str)]
        if any(fold_target(value[:_READ_OF_TARGET]) == target for value in texts):
            return _ALL if is_all else _TARGET
        if not is_all:
            return 0
    return _ALL if is_all else _MEMBER if said else 0


def _is_found(name: str, value: Json, arguments: Mapping[str, Any]) -> bool:
    """Tell whether a call has what the agent said: under the same name, or under the tool's name for it."""
    if name in arguments:
        return _is_same(value, arguments[name])
    return any(_is_same(value, given) for given in arguments.values())


def _may_be_one(begun: str, action: str, tool: str) -> bool:
    """Tell whether an agent's word for an effect and a tool's name may mean one: no other verb or thing."""
    if begun in (action, tool):
        return True
    own, theirs = set(name_words(begun)), {*name_words(action), *name_words(tool)}
    if own & ACTING and not own & ACTING & theirs:
        return False
    things, other_things = own - ACTING, theirs - ACTING
    if not things:
        return bool(own & theirs)
    return any(_is_like(one, other) for one in things for other in other_things)


def _is_like(one: str, other: str) -> bool:
    """Compare words: `mail` is like `email` and `mails`."""
    return one == other or (min(len(one), len(other)) >= _LEAST_PART and (one in other or other in one))


def _is_same(one: Json, other: Json) -> bool:
    """Compare as the journal compares; what no body can hold is like nothing."""
    try:
        return canonical_json(one) == canonical_json(other)
    except InvalidArgument:
        return False
