"""Finds the attempt that an agent began itself for the call that it now makes: both are one operation.

The agent chose its own key and its own words. An attempt fits a call where nothing that both say differs and
something that both say is the same; of several the one that fits best counts, if it is one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from counterfoil.server.rules.call import DescribedCall
from counterfoil.store.attending import LiveAttempt
from counterfoil.store.domain.canonical import canonical_json
from counterfoil.store.domain.commands import Json
from counterfoil.store.domain.names import fold_target
from counterfoil.store.errors import InvalidArgument

__all__ = ["matching_attempt"]

_ACTION, _MEMBER, _TARGET, _ALL = 1, 2, 3, 4
"""How much a likeness says, the least first."""


def matching_attempt(
    live: Sequence[LiveAttempt], call: DescribedCall, *, tool: str, arguments: Mapping[str, Any]
) -> LiveAttempt | None:
    """Give the one live attempt that a call carries out, or None. `arguments` have their secrets replaced."""
    fits = [(fit, attempt) for attempt in live if (fit := _fit(attempt, call, tool, arguments)) > 0]
    best = max((fit for fit, _ in fits), default=0)
    found = [attempt for fit, attempt in fits if fit == best]
    return found[0] if len(found) == 1 else None


def _fit(attempt: LiveAttempt, call: DescribedCall, tool: str, arguments: Mapping[str, Any]) -> int:
    said = attempt.args if isinstance(attempt.args, Mapping) else {}
    fit = _ACTION if attempt.action in (call.action, tool) else 0
    if said and (_is_same(dict(said), call.args) or _is_same(dict(said), dict(arguments))):
        fit = _ALL
    common = [name for name in said if name in arguments]
    if not all(_is_same(said[name], arguments[name]) for name in common):
        return 0
    if common:
        fit = max(fit, _MEMBER)
    if attempt.target is None:
        return fit
    target = fold_target(attempt.target)
    if call.target is not None and fold_target(call.target) != target:
        return 0
    if any(isinstance(value, str) and fold_target(value[:2_000]) == target for value in arguments.values()):
        return max(fit, _TARGET)
    return fit


def _is_same(one: Json, other: Json) -> bool:
    """Compare as the journal compares; what no body can hold is like nothing."""
    try:
        return canonical_json(one) == canonical_json(other)
    except InvalidArgument:
        return False
