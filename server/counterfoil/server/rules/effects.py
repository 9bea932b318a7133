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
from counterfoil.server.rules.verbs import ACTING, READING, name_words

__all__ = ["has_effect", "reads_by_name"]

_JOINING = frozenset(("and", "or", "then"))
_NO_LOOKING = frozenset(("out", "in", "off"))
"""What makes another verb of a reading one: to check out, in or off is no look."""


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
    if not ACTING.isdisjoint(words) or (len(words) > 1 and words[0] == "check" and words[1] in _NO_LOOKING):
        return False
    begins = [word for at, word in enumerate(words) if at == 0 or words[at - 1] in _JOINING]
    return bool(words) and words[-1] not in _JOINING and READING.issuperset(begins)
