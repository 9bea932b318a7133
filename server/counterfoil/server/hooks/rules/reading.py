"""Reads the rules of `[effects]`: every key is known, every value has its type, every fault is named."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from counterfoil.server.hooks.rules.rule import STATES, TARGETS, CommandRule, EffectRules, ToolRule

__all__ = ["RuleProblem", "read_rules"]

_Rule = TypeVar("_Rule", CommandRule, ToolRule)

_TEXTS = frozenset(("action", "external_id", "url", "lookup", "program", "tool", "target", "known_as"))
_LISTS = frozenset(
    (
        "also",
        "found",
        "refused",
        "words",
        "unless",
        "needs",
        "files",
        "state",
        "several",
        "takes",
        "flags",
        "implied",
        "texts",
        "at",
        "shown",
        "identity",
        "payload",
    )
)
_SWITCHES = frozenset(("effect", "fail_closed", "once", "remote"))
_OPTIONS = frozenset(("takes", "flags", "texts", "implied", "at", "shown"))
_PATTERNS = frozenset(("found", "refused"))
_PATHS = frozenset(("external_id", "url", "target"))
_KINDS = (
    "message",
    "transaction",
    "commit",
    "deployment",
    "release",
    "test_result",
    "file",
    "http_response",
    "record",
    "approval",
    "other",
)
_WORDS: Mapping[str, tuple[str, ...]] = {
    "kind": _KINDS,
    "repeat": ("safe", "unsafe"),
    "form": ("git-push", "http", "graphql"),
}
_MOST_SETTLE_SECONDS = 86_400


class RuleProblem(Exception):
    """A rule that cannot be used as written: the name of the key, and what is wrong."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name, self.problem = name, problem


def read_rules(values: Any) -> EffectRules:
    """Read the table `[effects]` of a configuration file.

    Raises:
        RuleProblem: a key is unknown, missing or wrong; it is named, with what would be right.
    """
    if not isinstance(values, dict):
        raise RuleProblem("effects", "it is a table: [effects]")
    _known("effects", values, ("commands", "tools", "fail_closed"))
    return EffectRules(
        commands=_rules(CommandRule, "commands", values, needed="program"),
        tools=_rules(ToolRule, "tools", values, needed="tool"),
        fail_closed=_switch("effects.fail_closed", values.get("fail_closed", False)),
    )


def _rules(kind: type[_Rule], name: str, values: Mapping[str, Any], *, needed: str) -> tuple[_Rule, ...]:
    tables = values.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise RuleProblem(f"effects.{name}", f"it is a list of tables: [[effects.{name}]]")
    return tuple(
        _rule(kind, f"effects.{name}[{index}]", table, needed=needed) for index, table in enumerate(tables)
    )


def _rule(kind: type[_Rule], where: str, table: Mapping[str, Any], *, needed: str) -> _Rule:
    _known(where, table, kind.__struct_fields__)
    if needed not in table:
        raise RuleProblem(f"{where}.{needed}", "it is missing")
    told = {key: _value(f"{where}.{key}", key, value) for key, value in table.items() if key != "target"}
    if "target" in table:
        read = _path if kind is ToolRule else _parts
        told["target"] = read(f"{where}.target", table["target"])
    return kind(**told)


def _path(where: str, value: Any) -> Any:
    return _value(where, "target", value)


def _parts(where: str, value: Any) -> tuple[str, ...]:
    """Read what a command's target is made of."""
    if not isinstance(value, list):
        raise RuleProblem(where, 'it is a list of texts, such as ["--site", "1"]')
    parts = tuple(_text(f"{where}[{index}]", "part", item) for index, item in enumerate(value))
    for index, part in enumerate(parts):
        for one in part.split("|"):
            if one.startswith("-") or one == "*" or (one.isdigit() and int(one) > 0):
                continue
            if not (one.startswith("{") and one.endswith("}") and one[1:-1] in TARGETS):
                raise RuleProblem(
                    f"{where}[{index}]",
                    f"it is an option, the number of an operand, *, or one of "
                    f"{', '.join(f'{{{name}}}' for name in TARGETS)}",
                )
    return parts


def _value(where: str, key: str, value: Any) -> Any:
    if key in _SWITCHES:
        return _switch(where, value)
    if key in _WORDS:
        if value not in _WORDS[key]:
            raise RuleProblem(where, f"it is one of {', '.join(_WORDS[key])}")
        return value
    if key in _LISTS:
        if not isinstance(value, list):
            raise RuleProblem(where, "it is a list of texts")
        return tuple(_text(f"{where}[{index}]", key, item) for index, item in enumerate(value))
    if key in _TEXTS:
        return _text(where, key, value)
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value <= _MOST_SETTLE_SECONDS
    ):
        raise RuleProblem(where, f"it is a number of seconds up to {_MOST_SETTLE_SECONDS}")
    return float(value)


def _text(where: str, key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise RuleProblem(where, "it is a text")
    if key in _OPTIONS and not value.startswith("-"):
        raise RuleProblem(where, "it is an option: --name, -n or --name|-n")
    if key == "state" and value not in STATES:
        raise RuleProblem(where, f"it is one of {', '.join(STATES)}")
    if key in _PATTERNS:
        _check_pattern(where, value, needs_id=key == "found")
    if key in _PATHS:
        _check_path(where, value)
    return value


def _check_pattern(where: str, text: str, *, needs_id: bool) -> None:
    try:
        pattern = re.compile(text, re.MULTILINE)
    except re.error as error:
        raise RuleProblem(where, f"it is no regular expression: {error}") from None
    if needs_id and "id" not in pattern.groupindex:
        raise RuleProblem(where, "it has a group for the reference: (?P<id>…)")


def _check_path(where: str, text: str) -> None:
    from counterfoil.server.probes.json_path import BadPath, JsonPath

    try:
        JsonPath.read(text)
    except BadPath as error:
        raise RuleProblem(where, str(error)) from None


def _switch(where: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise RuleProblem(where, "it is true or false")
    return value


def _known(where: str, table: Mapping[str, Any], names: Any) -> None:
    accepted = list(names)
    for name in table:
        if name not in accepted:
            from difflib import get_close_matches

            near = get_close_matches(name, accepted, n=1, cutoff=0.51)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(accepted)}"
            raise RuleProblem(f"{where}.{name}", f"it is not known{hint}")
