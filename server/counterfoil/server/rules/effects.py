"""Tells which tools have an effect outside: by the operator's rule, else by annotation, else by name.

A tool that nobody says anything about counts as one with an effect, which is the protocol's own default.
The exception are names that plainly read, since answering `get_weather` from the journal would be wrong in
another way: one begins with a reading verb, as does each part behind an `and` or `or`, and holds no acting
one. A server's annotations are its own claims: `readOnlyHint` is believed, because a server that lies there
could do harm in any call; `idempotentHint` is not, unless a rule says so.
"""

from collections.abc import Mapping
from typing import Any

from counterfoil.server.rules.tool_rule import ToolRule
from counterfoil.server.rules.verbs import (
    ACTING,
    JOINING,
    READING,
    is_checking_out,
    leading_words,
    name_words,
)

__all__ = ["has_effect", "reads_by_name"]


def has_effect(rule: ToolRule, tool: str, annotations: Mapping[str, Any] | None) -> bool:
    """Tell whether a call of `tool` has, or may have, an effect outside the conversation."""
    if rule.effect is not None:
        return rule.effect
    told = annotations or {}
    if told.get("readOnlyHint") is True:
        return False
    if told.get("readOnlyHint") is False or told.get("destructiveHint") is True:
        return True
    return not reads_by_name(tool)


def reads_by_name(tool: str) -> bool:
    """Tell whether a tool's name plainly says that it only reads.

    `get_user`, `listIssues`, `find_and_count`; not `get_or_create`, `view_and_settle`, `check_out`.
    """
    words = name_words(tool)
    if not words or not ACTING.isdisjoint(words) or is_checking_out(words):
        return False
    return words[-1] not in JOINING and READING.issuperset(leading_words(words))
