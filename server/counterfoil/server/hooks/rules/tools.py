"""Tells which tools of MCP servers are effects: by a rule, else by their names.

A client tells a hook nothing of a tool's annotations: whoever wants them heeded puts the server behind the
gateway, or says it in a rule.
"""

from typing import TYPE_CHECKING

from counterfoil.server.hooks.rules.rule import EffectRules, ToolRule
from counterfoil.server.hooks.shell.options import one_of
from counterfoil.server.rules.verbs import OUTWARD, is_checking_out, leading_words, name_words
from counterfoil.store.domain.patterns import matches_glob

if TYPE_CHECKING:
    from counterfoil.server.rules.tool_rule import ToolRule as SharedToolRule

__all__ = ["OWN_TOOLS", "effect_of_tool", "is_effect_by_name", "name_words"]

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


def is_effect_by_name(tool: str, *, server: str = "") -> bool:
    """Tell whether a tool's own name, without its server's in front, says that it acts on the outside."""
    words, of_server = name_words(tool), name_words(server)
    while len(words) > 1 and words[0] in of_server:
        words = words[1:]
    if not words:
        return False
    if words[0] in _READING:
        return is_checking_out(words) or not OUTWARD.isdisjoint(leading_words(words))
    if words[0] in OUTWARD or words[-1] in OUTWARD:
        return True
    return bool(_MAKING & set(words) and _MADE & set(words))


def effect_of_tool(name: str, rules: EffectRules) -> ToolRule | None:
    """Give the rule by which the tool `mcp__SERVER__TOOL` is an effect; None where it is left alone."""
    if not name.startswith("mcp__"):
        return None
    server, _, tool = name.removeprefix("mcp__").partition("__")
    if not tool or tool in OWN_TOOLS:
        return None
    for rule in rules.tools:
        if matches_glob(name, rule.tool):
            return rule if rule.effect else None
    if rules.shared:
        shared = _shared_rule(rules, server, tool)
        if shared is not None:
            is_effect = shared.effect if shared.effect is not None else is_effect_by_name(tool, server=server)
            return _as_tool_rule(shared, name, action=f"{server}.{tool}") if is_effect else None
    for rule in rules.default_tools:
        if matches_glob(name, rule.tool):
            return rule if rule.effect else None
    if not is_effect_by_name(tool, server=server):
        return None
    return ToolRule(tool=name, action=f"{server}.{tool}")


def _shared_rule(rules: EffectRules, server: str, tool: str) -> "SharedToolRule | None":
    # Loaded where there are some: they bring what reads JSON answers with them.
    from counterfoil.server.rules.tool_rule import NO_RULE, rule_for

    found = rule_for(rules.shared, server=server, tool=tool)
    return None if found is NO_RULE else found


def _as_tool_rule(rule: "SharedToolRule", name: str, *, action: str) -> ToolRule:
    """Give what a hook can heed of a rule that a gateway heeds whole."""
    receipt, lookup = rule.receipt, rule.lookup
    return ToolRule(
        tool=name,
        action=rule.action or action,
        kind=receipt.kind,
        external_id=None if receipt.external_id is None else receipt.external_id.source,
        url=None if receipt.url is None else receipt.url.source,
        refused=tuple(pattern.pattern for pattern in rule.refused),
        lookup=None if lookup is None else lookup.instructions or f"{lookup.tool} of the same server",
        settle_seconds=None if lookup is None else lookup.settle_seconds,
        repeat="safe" if rule.repeat == "safe" else None,
        identity=rule.identity,
        payload=rule.payload,
    )
