"""Finds the attempt that an agent began itself for the call that it now makes: both are one operation.

The agent chose its own key and its own words, so that nothing but likeness can tell; a captured receipt at
the wrong operation is worse than two operations for one call. An attempt is taken where action and target
both say so and the arguments do not speak against it. Where two fit equally well, neither is taken.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl

from counterfoil.server.hooks.call import Call
from counterfoil.server.hooks.rules.tools import name_words
from counterfoil.store.attending import LiveAttempt
from counterfoil.store.attending_calls import HeldAttempt
from counterfoil.store.domain.canonical import canonical_json
from counterfoil.store.domain.names import fold_target
from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["fitting_attempt"]

_FITS, _SAME_ARGS = 1, 2
"""How much a likeness says, the least first."""

_BETWEEN_WORDS = lazy_pattern(r"[\s,;()]+")


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
    if not all(_is_same_action(attempt.action, effect) for effect in call.effects):
        return 0
    told = attempt.args if isinstance(attempt.args, Mapping) else {}
    sent = args.get("input")
    if told and sent and canonical_json(told) == canonical_json(sent):
        return _SAME_ARGS
    if _is_contradicted(told, args):
        return 0
    if not (attempt.target or "").strip() and told and isinstance(sent, Mapping):
        return _FITS if set(told) <= set(sent) else 0
    return _FITS if _is_target(attempt.target, call) else 0


def _is_same_action(action: str, effect: Any) -> bool:
    """Tell whether an agent's word for an action means what an effect does: `push` is `git.push`."""
    mine = set(name_words(action))
    if not mine:
        return False
    if any(mine == set(name_words(other)) for other in (effect.action, *effect.rule.also)):
        return True
    theirs = {*name_words(effect.action), *(word for text in effect.words for word in name_words(text))}
    return mine <= theirs


def _is_target(target: str | None, call: Call) -> bool:
    """Tell whether an agent's target is the call's: one of its names, or its own target among other words."""
    wanted = fold_target(target or "")
    if not wanted:
        return not any(effect.is_named for effect in call.effects)
    for effect in call.effects:
        if wanted in {fold_target(name) for name in effect.names}:
            continue
        if not effect.target or not _stands_in(fold_target(effect.target), wanted):
            return False
    return True


def _stands_in(part: str, whole: str) -> bool:
    parts, words = _words(part), _words(whole)
    places = range(len(words) - len(parts) + 1)
    return bool(parts) and any(words[at : at + len(parts)] == parts for at in places)


def _words(text: str) -> list[str]:
    return [fold_target(word) for word in _BETWEEN_WORDS.split(text) if word]


def _is_contradicted(told: Mapping[str, Any], args: Mapping[str, Any]) -> bool:
    """Tell whether the arguments that an agent gave are others than those that the call sends.

    What a body or a tool's input consists of has to share a name with them at least.
    """
    if not told:
        return False
    given = args.get("input")
    bodies = [given] if isinstance(given, Mapping) else [*_bodies(args)]
    options = [] if isinstance(given, Mapping) else [*_options(args)]
    if any(
        not _is_equal(told[name], sent[name]) for sent in (*bodies, *options) for name in told if name in sent
    ):
        return True
    return bool(bodies) and not any(name in sent for sent in bodies for name in told)


def _is_equal(one: Any, other: Any) -> bool:
    """A shell has texts only: `5` is 5 there."""
    if isinstance(one, str) or isinstance(other, str):
        return str(one).strip() == str(other).strip()
    return canonical_json(one) == canonical_json(other)


def _sent(args: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    effects = args.get("effects")
    for effect in effects if isinstance(effects, list) else ():
        sent = effect.get("sent") if isinstance(effect, Mapping) else None
        if isinstance(sent, Mapping):
            inner = sent.get("of", sent)
            if isinstance(inner, Mapping):
                yield inner


def _bodies(args: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Give the fields of the bodies that requests send, where they are a form or a JSON object."""
    for sent in _sent(args):
        data = sent.get("data")
        for part in data if isinstance(data, list) else ():
            text = part[1] if isinstance(part, list) and len(part) == 2 else part
            if not isinstance(text, str):
                continue
            try:
                body = json.loads(text)
            except (ValueError, RecursionError):
                body = dict(parse_qsl(text, keep_blank_values=True))
            if isinstance(body, Mapping) and body:
                yield body


def _options(args: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Give the `--name value` pairs of commands."""
    for sent in _sent(args):
        words = sent.get("words")
        for name, value in pairwise(words if isinstance(words, list) else ()):
            if isinstance(name, str) and isinstance(value, str) and name.startswith("--"):
                yield {name.removeprefix("--"): value}
        for option in sent.get("options", ()):
            if len(option) == 2 and all(isinstance(part, str) for part in option):
                yield {option[0].lstrip("-"): option[1]}
