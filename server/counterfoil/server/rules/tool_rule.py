"""What an operator says of a tool: whether it acts, what its effect is, and what proves that it happened."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from counterfoil.server.probes.json_path import JsonPath
from counterfoil.server.probes.json_reading import JsonReading
from counterfoil.store.domain.patterns import matches_glob

__all__ = ["KEY_PLACE", "NO_RULE", "LookupRule", "ReceiptRule", "ToolRule", "rule_for"]

KEY_PLACE = re.compile(r"\{([^{}]+)\}")
"""Where an argument stands in a rule's key."""


class ReceiptRule(Struct, frozen=True, kw_only=True):
    """Where the performing system's reference stands in a result: in its structured content or JSON text."""

    external_id: JsonPath | None = None
    performed_at: JsonPath | None = None
    url: JsonPath | None = None
    kind: str = "other"
    system: str | None = None


class LookupRule(Struct, frozen=True, kw_only=True):
    """Which read-only tool of the same server tells whether the effect happened, and how to read it.

    `args` holds templates. `settle_seconds` None: the journal's own.
    """

    tool: str
    args: Mapping[str, Any]
    reading: JsonReading
    conclusive: bool = False
    settle_seconds: float | None = None
    instructions: str | None = None


class ToolRule(Struct, frozen=True, kw_only=True):
    """One `[[tools]]` table. `server` and `tool` are globs; durations are in seconds.

    `effect` None: annotations and the name decide. `identity` None: all arguments but `payload` are what the
    effect is. `refused` are patterns in a tool's error text which the operator takes as evidence that the
    call was refused before any effect. `fail_open`: without a journal the call is passed on unrecorded.
    """

    server: str = "*"
    tool: str = "*"
    effect: bool | None = None
    action: str | None = None
    key: str | None = None
    target: str | None = None
    identity: tuple[str, ...] | None = None
    payload: tuple[str, ...] = ()
    repeat: str | None = None
    key_ttl_seconds: float | None = None
    idempotency_argument: str | None = None
    trust_idempotent_hint: bool = False
    lease_seconds: float | None = None
    timeout_seconds: float | None = None
    deadline_seconds: float | None = None
    max_attempts: int | None = None
    refused: tuple[re.Pattern[str], ...] = ()
    fail_open: bool = False
    receipt: ReceiptRule = field(default_factory=ReceiptRule)
    lookup: LookupRule | None = None


NO_RULE = ToolRule()


def rule_for(rules: Sequence[ToolRule], *, server: str, tool: str) -> ToolRule:
    """Give the first rule that fits a tool of a server, or the one that says nothing."""
    for rule in rules:
        if matches_glob(server, rule.server) and matches_glob(tool, rule.tool):
            return rule
    return NO_RULE
