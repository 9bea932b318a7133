"""One tool call with its effects: the one operation that it is in the journal."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.server.hooks.effects import Effect, TooMuch, effects_of
from counterfoil.server.hooks.event import HookEvent
from counterfoil.server.hooks.rules.rule import EffectRules
from counterfoil.server.hooks.rules.tools import effect_of_tool, name_words
from counterfoil.server.hooks.shell.walking import Script, read_script, read_words
from counterfoil.store.domain.canonical import canonical_json, check_value
from counterfoil.store.domain.names import normalize_name
from counterfoil.store.domain.patterns import lazy_pattern
from counterfoil.store.errors import InvalidArgument

__all__ = [
    "LONGEST_TARGET",
    "SEVERAL",
    "Call",
    "again_after",
    "call_of",
    "former_identities_of",
    "identity_of",
    "likeness_marks",
    "once_marks",
    "payload_of",
    "script_of",
    "wide_mark",
]

SEVERAL = "shell.several"
"""The action of a call whose effects have several."""

LONGEST_TARGET = 1_000
_LONGEST_TEXT = 2_000
_MOST_CHARACTERS = 256 * 1024
"""Twice what Linux passes to a shell as one word."""
_MOST_SENT = 40_000
_SHORT_TEXT = 200
_MOST_NAMES = 100
_UNREADABLE = lazy_pattern(r"[^A-Za-z0-9._/@:+-]+")
_PLACEHOLDER = lazy_pattern(r"\[redacted:")

_SHELL_SECONDS = 150
"""A shell command that names no time-out of its own is over by then in every client; so is its lease."""


class Call(Struct, frozen=True, kw_only=True):
    """A call with at least one effect. Several effects in one call are one operation, by all of them.

    `own_key` is the key that the command names itself, in COUNTERFOIL_KEY. `payload` is what of a tool's
    arguments is not what the effect is.
    """

    effects: tuple[Effect, ...]
    args: Mapping[str, Any]
    payload: Mapping[str, Any] | None = None
    own_key: str | None = None
    lease_seconds: float | None = None

    @property
    def action(self) -> str:
        """The action of its effects, or `SEVERAL` where they differ."""
        actions = {effect.action for effect in self.effects}
        return actions.pop() if len(actions) == 1 else SEVERAL

    @property
    def target(self) -> str | None:
        """What the effects act on."""
        return "; ".join(effect.target for effect in self.effects if effect.target)[:LONGEST_TARGET] or None

    @property
    def lookup(self) -> str | None:
        """How to find out whether it happened, in the rules' words."""
        return " · ".join(effect.lookup for effect in self.effects if effect.lookup)[:2_000] or None

    @property
    def settle_seconds(self) -> float | None:
        """How long a look has to wait; None where a rule does not say."""
        given = [effect.rule.settle_seconds for effect in self.effects]
        return None if None in given else max(seconds for seconds in given if seconds is not None)

    @property
    def repeat(self) -> str | None:
        """`safe` where every effect is."""
        return "safe" if all(effect.rule.repeat == "safe" for effect in self.effects) else None

    @property
    def fails_closed(self) -> bool:
        """Tell whether the call is not to go on where the journal cannot be asked."""
        return any(effect.rule.fail_closed for effect in self.effects)

    @property
    def parts(self) -> tuple["Call", ...]:
        """Each effect as the call that it would be if it stood alone, a push by its refs; each once."""
        alone = [piece for effect in self.effects for piece in effect.pieces or (effect,)]
        if len(alone) == 1:
            return (Call(effects=self.effects, args=self.args),)
        found: dict[str, Call] = {}
        for effect in alone:
            described = _described(effect)
            found.setdefault(repr(described), Call(effects=(effect,), args={"effects": [described]}))
        return tuple(found.values())

    @property
    def is_wide(self) -> bool:
        """Tell whether an effect reaches more of its target than can be told one by one."""
        return any(effect.is_wide for effect in self.effects)

    @property
    def is_readable(self) -> bool:
        """Tell whether what is sent could be found at all: otherwise equal words may mean another effect."""
        return all(effect.is_readable for effect in self.effects)

    @property
    def is_known(self) -> bool:
        """Tell whether what is sent was known before the call."""
        return all(effect.is_known for effect in self.effects)

    @property
    def may_be_another(self) -> bool:
        """Tell whether one that is unsettled may be it, under whatever words: it then waits for that."""
        return self.own_key is None and not (self.is_known and self.is_readable and not self.is_wide)


def again_after(call: Call, effect: Effect, *, operation: str) -> Call:
    """Give a call in which one effect, or a piece of one, is another than `operation`, which is lost."""

    def anew(one: Effect) -> Effect:
        if one is not effect and all(piece is not effect for piece in one.pieces):
            return one
        again = [*_listed(one.state), {"again_after": operation}]
        return replace(one, state=again, pieces=tuple(anew(piece) for piece in one.pieces))

    effects = tuple(anew(one) for one in call.effects)
    return replace(call, effects=effects, args={"effects": [_described(one) for one in effects]})


def _listed(state: Any) -> list[Any]:
    return list(state) if isinstance(state, list | tuple) else [] if state is None else [state]


def script_of(event: HookEvent) -> Script | None:
    """Read the command that an event is about; None where it is about none."""
    command = event.command
    if command is None:
        return None
    if isinstance(command, str):
        return read_script(command, folder=event.folder)
    return read_words(command, folder=event.folder)


def call_of(event: HookEvent, rules: EffectRules) -> Call | None:
    """Give the call that an event is about; None where it has no effect.

    Raises:
        TooMuch: its command is longer, or does more, than is read before it runs.
    """
    if event.is_shell:
        command = event.command or ""
        if sum(map(len, (command,) if isinstance(command, str) else command)) > _MOST_CHARACTERS:
            raise TooMuch(f"a command of more than {_MOST_CHARACTERS} characters")
        script = script_of(event)
        effects = () if script is None else effects_of(script, rules)
        if script is None or not effects:
            return None
        keys = [
            value.text
            for invocation in script.invocations
            for name, value in invocation.env
            if name == "COUNTERFOIL_KEY" and value.is_static and value.text.strip()
        ]
        return Call(
            effects=effects,
            args={"effects": [_described(effect) for effect in effects]},
            own_key=keys[0] if keys else None,
            lease_seconds=_seconds_of(event.input),
        )
    rule = effect_of_tool(event.tool, rules)
    if rule is None:
        return None
    from counterfoil.server.hooks.long_input import bounded_input

    given = dict(event.input) if isinstance(event.input, Mapping) else {"input": event.input}
    target = None if rule.target is None else _at(rule.target, given)
    payload = bounded_input({name: given[name] for name in rule.payload if name in given})
    names = [name for name in given if name not in rule.payload] if rule.identity is None else rule.identity
    sent = bounded_input({name: given[name] for name in names if name in given})
    action = rule.action or event.tool.removeprefix("mcp__").replace("__", ".")
    effect = Effect(
        rule=rule,
        action=action,
        target=target,
        sent=sent,
        names=(texts := tuple(islice(_texts(given), _MOST_NAMES))),
        is_named=target is not None or bool(texts),
        lookup=rule.lookup,
        words=name_words(event.tool.removeprefix("mcp__")),
    )
    return Call(effects=(effect,), args={"tool": event.tool, "input": sent}, payload=payload or None)


def _described(effect: Effect) -> dict[str, Any]:
    told = {"action": effect.action, "target": effect.target, "sent": effect.sent, "state": effect.state}
    return {name: value for name, value in told.items() if value is not None}


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

    By its words as they were written, before they had one spelling; and by these with its loose words as its
    target, before rules told that. None where nothing was known otherwise.
    """
    as_written = tuple(
        one if one.former_sent is None else replace(one, sent=one.former_sent) for one in call.effects
    )
    loose = tuple(
        replace(one, target=one.former_target) if one.has_former_target else one for one in as_written
    )
    found: list[tuple[str, str]] = []
    known = [call.effects]
    for effects in (as_written, loose):
        if effects not in known:
            known.append(effects)
            former = replace(call, effects=effects, args={"effects": [_described(one) for one in effects]})
            found.append(identity_of(former, redact=redact, call_id=call_id)[:2])
    return tuple(found)


def likeness_marks(call: Call, *, redact: Callable[[Any], Any]) -> tuple[str, ...]:
    """Give the marks by which an effect is known as alike, whatever the state that goes with it.

    One for its own words (a tool has none) and one for its action. Both are met by who is not sure to be
    another effect: only those that nobody can read wholly are marked by them, and no tool is.
    """
    effect = call.effects[0]
    own = None if effect.own is None else _sendable({"own": effect.own}, redact)
    return _digest(["words", effect.action, own]), _digest(["action", effect.action])


def once_marks(call: Call, *, redact: Callable[[Any], Any]) -> tuple[str, ...]:
    """Give the marks by which an effect is known whose target can be acted on once, whatever its other words.

    The first holds whatever the state that goes with it, while it is not settled; the others, where that is
    known, for good: the second with it, the third, of a version of a package, whatever it is.
    """
    effect = call.effects[0]
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


def _seconds_of(given: Any) -> float | None:
    """Give how long a command may run, by its own time-out in milliseconds, with a minute for its prompt."""
    value = given.get("timeout") if isinstance(given, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 86_400_000:
        return None
    return max(_SHELL_SECONDS, value / 1_000) + 60


def _texts(value: Any) -> Iterator[str]:
    """Give all short texts in a tool's arguments: any of them may be what an agent calls the target."""
    if isinstance(value, str):
        if 0 < len(value) <= _SHORT_TEXT:
            yield value
    elif isinstance(value, Mapping | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(part)


def _at(path: str, given: Any) -> str | None:
    from counterfoil.server.probes.json_path import JsonPath, NoSuchMember

    try:
        value = JsonPath.read(path).of(given)
    except NoSuchMember:
        return None
    return str(value)[:1_000] if isinstance(value, str | int) and not isinstance(value, bool) else None
