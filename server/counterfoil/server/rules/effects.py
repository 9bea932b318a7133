"""Tells which tools have an effect outside: by the operator's rule, else by annotation, else by name.

A tool that nobody says anything about counts as one with an effect, which is the protocol's own default. The
exception are names that begin with a reading verb and hold no other verb, since answering `get_weather` from
the journal would be wrong in another way. A server's annotations are its own claims: `readOnlyHint` is
believed, because a server that lies there could do harm in any call; `idempotentHint` is not, unless a rule
says so.
"""

import re
from collections.abc import Mapping
from typing import Any

from counterfoil.server.rules.tool_rule import ToolRule

__all__ = ["has_effect", "reads_by_name"]

# fmt: off
_READING = frozenset(
    (
        "get", "list", "read", "search", "find", "describe", "show", "count", "lookup", "view", "browse",
        "fetch", "check", "status", "help", "inspect",
    )
)
_ACTING = frozenset(
    (
        "add", "apply", "archive", "assign", "book", "buy", "cancel", "charge", "close", "commit",
        "complete", "create", "delete", "deploy", "disable", "enable", "execute", "install", "insert",
        "invite", "merge", "move", "open", "patch", "pay", "post", "publish", "purge", "push", "put",
        "remove", "rename", "replace", "reset", "restart", "revoke", "run", "save", "schedule", "send",
        "set", "start", "stop", "submit", "transfer", "trigger", "update", "upload", "upsert", "write",
        "mark", "claim", "acquire", "lock", "pop", "consume", "ack",
    )
)
# fmt: on
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


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
    """Tell whether a tool's name says that it only reads: `get_user`, `listIssues`; not `get_or_create`."""
    words = [word.lower() for word in _WORD.findall(tool)]
    return bool(words) and words[0] in _READING and _ACTING.isdisjoint(words)
