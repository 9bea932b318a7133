"""One tool call with its effects: the one operation that it is in the journal."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.server.hooks.effect import Effect
from counterfoil.server.hooks.effects import TooMuch, effects_of
from counterfoil.server.hooks.event import HookEvent
from counterfoil.server.hooks.rules.rule import EffectRules
from counterfoil.server.hooks.rules.tools import effect_of_tool, name_words
from counterfoil.server.hooks.shell.script import Script
from counterfoil.server.hooks.shell.walking import read_script, read_words

__all__ = [
    "LONGEST_TARGET",
    "SEVERAL",
    "Call",
    "again_after",
    "call_of",
    "described",
    "script_of",
]

SEVERAL = "shell.several"
"""The action of a call whose effects have several."""

LONGEST_TARGET = 1_000

_MOST_CHARACTERS = 256 * 1024
"""Twice what Linux passes to a shell as one word."""

_SHORT_TEXT = 200
_MOST_NAMES = 100

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
            told = described(effect)
            found.setdefault(repr(told), Call(effects=(effect,), args={"effects": [told]}))
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
    return replace(call, effects=effects, args={"effects": [described(one) for one in effects]})


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
            args={"effects": [described(effect) for effect in effects]},
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


def described(effect: Effect) -> dict[str, Any]:
    """Give what is told of an effect in the args of its operation."""
    told = {"action": effect.action, "target": effect.target, "sent": effect.sent, "state": effect.state}
    return {name: value for name, value in told.items() if value is not None}


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
