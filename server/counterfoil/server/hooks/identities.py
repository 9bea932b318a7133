"""By what a call is known: its key, the digests that mark it, and what of it the journal can keep.

Secrets are taken out first. Whatever a call holds, it has a key and marks that the journal takes.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from counterfoil.server.hooks.call import Call, described
from counterfoil.server.hooks.effect import Effect
from counterfoil.store.domain.canonical import canonical_json, check_value
from counterfoil.store.domain.names import normalize_name
from counterfoil.store.domain.patterns import lazy_pattern
from counterfoil.store.errors import InvalidArgument

__all__ = ["former_identities_of", "identity_of", "likeness_marks", "once_marks", "payload_of", "wide_mark"]

_LONGEST_TEXT = 2_000
_MOST_SENT = 40_000
_UNREADABLE = lazy_pattern(r"[^A-Za-z0-9._/@:+-]+")
_PLACEHOLDER = lazy_pattern(r"\[redacted:")


def identity_of(
    call: Call, *, redact: Callable[[Any], Any], call_id: str | None = None
) -> tuple[str, str, Mapping[str, Any]]:
    """Give the key that any later session would derive, the digest in it, and the args as they are sent.

    Secrets are taken out first: one that was renewed makes no other effect, and no digest can tell it. Where
    what is sent cannot be found, the client's own id is all that tells one call from the next. The key is one
    that the journal takes whatever the call holds: what is no name, or may be a secret, stands as a digest.
    """
    args = _sendable(dict(call.args), redact)
    if not call.is_readable and call_id is not None:
        args = {**args, "call": call_id}
    digest = _digest([call.action, args])
    readable = _UNREADABLE.sub("-", str(redact(call.target or "")))[:80].strip("-")
    action = _UNREADABLE.sub("-", call.action)[:60]
    own_key = None if call.own_key is None else str(redact(call.own_key))
    wanted = (
        (f"{action}:{readable}:{digest[:20]}", f"{action}:{digest[:20]}")
        if own_key is None
        else (own_key, f"key:{_digest(own_key)[:40]}")
    )
    key = next((name for name in wanted if _is_name(name, redact)), f"effect:{digest}")
    return key, _digest([own_key, digest]), args


def former_identities_of(
    call: Call, *, redact: Callable[[Any], Any], call_id: str | None = None
) -> tuple[tuple[str, str], ...]:
    """Give the keys and digests by which a command was known earlier; what a journal has under them is it.

    By its target in the case in which it is written; by its words as they were written as well, before they
    had one spelling; and by these with its loose words as its target, before rules told that. None where
    nothing was known otherwise.
    """
    cased = tuple(map(_in_its_case, call.effects))
    as_written = tuple(
        one if one.former_sent is None else replace(one, sent=one.former_sent) for one in cased
    )
    loose = tuple(
        replace(one, target=one.former_target) if one.has_former_target else one for one in as_written
    )
    found: list[tuple[str, str]] = []
    known = [call.effects]
    for effects in (cased, as_written, loose):
        if effects not in known:
            known.append(effects)
            former = replace(call, effects=effects, args={"effects": [described(one) for one in effects]})
            found.append(identity_of(former, redact=redact, call_id=call_id)[:2])
    return tuple(found)


def _in_its_case(effect: Effect) -> Effect:
    """Give an effect as it was told before what a forge compares without case stood in one."""
    if effect.written_target is None:
        return effect
    once = None if effect.once is None else effect.written_target
    sent = effect.sent if effect.written_sent is None else effect.written_sent
    return replace(effect, target=effect.written_target, once=once, sent=sent)


def likeness_marks(call: Call, *, redact: Callable[[Any], Any]) -> tuple[str, ...]:
    """Give the marks by which an effect is known as alike, whatever the state that goes with it.

    One for its own words (a tool has none) and one for its action. Both are met by who is not sure to be
    another effect: only those that nobody can read wholly are marked by them, and no tool is.
    """
    effect = call.effects[0]
    own = None if effect.own is None else _sendable({"own": effect.own}, redact)
    return _digest(["words", effect.action, own]), _digest(["action", effect.action])


def once_marks(call: Call, *, redact: Callable[[Any], Any], is_former: bool = False) -> tuple[str, ...]:
    """Give the marks by which an effect is known whose target can be acted on once, whatever its other words.

    The first holds whatever the state that goes with it, while it is not settled; the others, where that is
    known, for good: the second with it, the third, of a version of a package, whatever it is. `is_former`: as
    they were made before targets stood in one case, none where that is the same.
    """
    effect = call.effects[0]
    if is_former:
        if effect.written_target is None:
            return ()
        effect = _in_its_case(effect)
    if effect.once is None:
        return ()
    target = redact(effect.once)
    told = [_digest(["target", effect.action, target])]
    if call.is_known and call.is_readable:
        told.append(_digest(["target", effect.action, target, _sendable({"state": effect.state}, redact)]))
        if effect.is_version:
            told.append(_digest(["version", effect.action, target]))
    return tuple(told)


def wide_mark(call: Call, *, redact: Callable[[Any], Any]) -> str | None:
    """Give the mark by which an effect meets those that reach more of its target than can be told, if any."""
    pushed = call.effects[0].pushed
    return None if pushed is None else _digest(["wide", call.action, redact(pushed.remote)])


def _is_name(text: str, redact: Callable[[Any], Any]) -> bool:
    """Tell whether the journal takes a text as the name of an operation: it refuses what may be a secret."""
    try:
        name = normalize_name(text, field="key")
    except InvalidArgument:
        return False
    return bool(redact(name) == name) and not _PLACEHOLDER.search(name)


def payload_of(call: Call, *, redact: Callable[[Any], Any]) -> Mapping[str, Any] | None:
    """Give what of a tool's arguments is not what the effect is, as the journal can keep it."""
    return None if call.payload is None else _sendable(dict(call.payload), redact)


def _sendable(value: dict[str, Any], redact: Callable[[Any], Any]) -> dict[str, Any]:
    """Give a value as the journal can keep it: what no body holds is known by its digest."""
    try:
        bounded: dict[str, Any] = _bounded(redact(value))
        check_value(bounded, field="args")
        if len(canonical_json(bounded)) <= _MOST_SENT:
            return bounded
        return {"digest": _digest(bounded)}
    except InvalidArgument:
        # Nested deeper, or holding numbers, that are no JSON of the journal's.
        text = json.dumps(value, sort_keys=True, default=str)
        return {"digest": hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()}


def _digest(value: Any) -> str:
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def _bounded(value: Any) -> Any:
    """Let the digest of a long text stand for it."""
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return (
            f"sha256:{hashlib.sha256(value.encode('utf-8', 'replace')).hexdigest()} ({len(value)} characters)"
        )
    if isinstance(value, Mapping):
        return {name: _bounded(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_bounded(part) for part in value]
    return value
