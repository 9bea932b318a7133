"""Tells which tools of MCP servers are effects: by a rule, else by their annotations, else by their names."""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from counterfoil.server.hooks.rules.rule import EffectRules, ToolRule
from counterfoil.server.hooks.shell.options import one_of

__all__ = ["OWN_TOOLS", "effect_of_tool", "is_effect_by_annotations", "is_effect_by_name", "name_words"]

OWN_TOOLS = frozenset(
    (
        "begin_operation",
        "record_receipt",
        "record_failure",
        "reconcile_operation",
        "check_operation",
        "resume_plan",
        "begin_run",
        "record_progress",
        "close_operation",
        "finish_run",
        "request_authority",
        "find_operations",
        "verify_operation",
    )
)
"""Counterfoil's own tools: the journal is not journaled."""

VERBS = one_of(
    "send post publish deploy release merge pay charge refund transfer invite reply forward comment",
    "tweet submit",
    "purchase order book checkout announce broadcast notify schedule trigger dispatch",
)
"""What a tool does to the world when its name begins or ends with one of these."""

_MAKING = one_of("create add open new make")
_MADE = one_of(
    "issue issues pr pull ticket message mail email release comment review invoice payment charge order",
    "event",
    "deployment booking subscription customer repository webhook post tweet",
)
"""What is made outside: a file, a note or an entity of a memory is made here, and is no effect."""

_READING = one_of(
    "get list read search find fetch query show describe view check lookup count preview validate dry draft"
)

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def name_words(name: str) -> tuple[str, ...]:
    """Split a name into its words: `sendEmail`, `send-email` and `send_email` are two."""
    return tuple(word.lower() for word in _WORD.findall(name))


def is_effect_by_annotations(annotations: Mapping[str, Any] | None) -> bool | None:
    """Tell what a tool's annotations say of it; None where they say nothing.

    A tool that only reads, or that acts in a closed world, has no effect outside.
    """
    given = {} if annotations is None else annotations
    if given.get("readOnlyHint") is True or given.get("openWorldHint") is False:
        return False
    if any(given.get(name) is not None for name in ("readOnlyHint", "destructiveHint", "openWorldHint")):
        return True
    return None


def is_effect_by_name(tool: str, *, server: str = "") -> bool:
    """Tell whether a tool's own name, without its server's in front, says that it acts on the outside."""
    words, of_server = name_words(tool), name_words(server)
    while len(words) > 1 and words[0] in of_server:
        words = words[1:]
    if not words or words[0] in _READING:
        return False
    if words[0] in VERBS or words[-1] in VERBS:
        return True
    return bool(_MAKING & set(words) and _MADE & set(words))


def effect_of_tool(
    name: str, rules: EffectRules, *, annotations: Mapping[str, Any] | None = None
) -> ToolRule | None:
    """Give the rule by which the tool `mcp__SERVER__TOOL` is an effect; None where it is left alone."""
    if not name.startswith("mcp__"):
        return None
    server, _, tool = name.removeprefix("mcp__").partition("__")
    if not tool or tool in OWN_TOOLS:
        return None
    for rule in rules.tools:
        if fnmatchcase(name, rule.tool):
            return rule if rule.effect else None
    told = is_effect_by_annotations(annotations)
    if told is False or (told is None and not is_effect_by_name(tool, server=server)):
        return None
    return ToolRule(tool=name, action=f"{server}.{tool}")
