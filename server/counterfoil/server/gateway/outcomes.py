"""What a call that was sent came to: performed, refused before any effect, waiting for input, or unknown.

Only what the protocol, or the operator, defines as a refusal before any effect counts as one. Everything
else that is no success leaves the effect unknown: an error text proves nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import mcp_types as types
from mcp import MCPError

from counterfoil.server.gateway.transports import Unreachable
from counterfoil.server.gateway.upstream import BadAnswer
from counterfoil.server.rules.tool_rule import ToolRule

__all__ = ["Outcome", "outcome_of_error", "outcome_of_result"]

_REFUSALS = frozenset(
    (
        types.PARSE_ERROR,
        types.INVALID_REQUEST,
        types.METHOD_NOT_FOUND,
        types.INVALID_PARAMS,
        types.HEADER_MISMATCH,
        types.UNSUPPORTED_PROTOCOL_VERSION,
        types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        types.URL_ELICITATION_REQUIRED,
    )
)
"""Error codes that by their definition say: the request was not carried out as it stands."""

_SHOWN = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a call ended, in our own words where it ended badly; `evidence` is what was received."""

    kind: Literal["performed", "refused", "unknown", "waiting"]
    error: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)


def outcome_of_result(result: Mapping[str, Any], rule: ToolRule) -> Outcome:
    """Judge a result."""
    if result.get("resultType") == "input_required":
        return Outcome(kind="waiting")
    if result.get("isError") is not True:
        return Outcome(kind="performed")
    text = error_text(result)
    for pattern in rule.refused:
        if pattern.search(text):
            evidence = {"tool_error": text[:_SHOWN], "refusal_by_rule": pattern.pattern[:200]}
            return Outcome(kind="refused", error="the tool refused the call", evidence=evidence)
    return Outcome(
        kind="unknown", error="the tool answered with an error", evidence={"tool_error": text[:_SHOWN]}
    )


def outcome_of_error(error: Exception) -> Outcome:
    """Judge what came instead of a result."""
    if isinstance(error, Unreachable):
        return Outcome(
            kind="refused", error="the call was never sent", evidence={"never_sent": error.why[:_SHOWN]}
        )
    if isinstance(error, BadAnswer):
        return Outcome(kind="unknown", error="the server's answer does not fit the protocol")
    if isinstance(error, MCPError):
        code = error.error.code
        told = {"jsonrpc_error": {"code": code, "message": error.error.message[:_SHOWN]}}
        if code == types.REQUEST_TIMEOUT:
            return Outcome(kind="unknown", error="the call was not answered in time", evidence=told)
        if code == types.CONNECTION_CLOSED:
            return Outcome(kind="unknown", error="the server ended during the call", evidence=told)
        if code in _REFUSALS:
            return Outcome(kind="refused", error="the server refused the request", evidence=told)
        return Outcome(kind="unknown", error="the server answered with an error", evidence=told)
    return Outcome(kind="unknown", error=f"the call failed ({type(error).__name__})")


def error_text(result: Mapping[str, Any]) -> str:
    """Give the texts of a result."""
    parts = result.get("content")
    texts = [
        part["text"]
        for part in (parts if isinstance(parts, list) else ())
        if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
    ]
    return "\n".join(texts)
