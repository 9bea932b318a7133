"""What a call that was sent came to: performed, refused before any effect, waiting for input, or unknown.

An error's code or text alone proves nothing: a server may have done half of it, or hand on the error of
something that it called itself, whose words may be of validation as well. A refusal is believed where no
server would have run the tool with such arguments and this one says so, as a JSON-RPC error or in the words
of an SDK that has not run it yet; where the server does not list such a tool and says that there is none; and
where the operator says so. Everything else that is no success leaves the effect unknown.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal

import mcp_types as types
from mcp import MCPError
from msgspec import Struct, field

from counterfoil.server.gateway.servers import Unreachable
from counterfoil.server.gateway.upstream import BadAnswer
from counterfoil.server.rules.call import result_document
from counterfoil.server.rules.failures import tells_of_failure
from counterfoil.server.rules.tool_rule import ToolRule

__all__ = ["Expected", "Outcome", "outcome_of_error", "outcome_of_result"]

_REFUSALS = (types.INVALID_PARAMS, types.METHOD_NOT_FOUND)
_NOT_RUN = (
    r"(?:MCP error -32602: )?Input validation error: ",
    r"(?:MCP error -32602: )?Invalid arguments for tool {tool}: ",
    r"Error executing tool {tool}: \d+ validation errors? for \w+Arguments\n",
    r"(?:Error calling tool '?{tool}'?: )?\d+ validation errors? for call\[{tool}\]\n",
)
"""How the SDKs of TypeScript and Python, and FastMCP, begin a refusal that they write before a tool runs."""
_NO_SUCH_TOOL = (
    r"(?:MCP error -3260[12]: )?"
    r"(?:Unknown tool:? ['\"]?{tool}['\"]?|Tool ['\"]?{tool}['\"]? not found)\.?\s*\Z"
)

_READ = 8_000
"""Characters of an error that are judged, and handed on to be cut once their secrets are replaced."""


class Outcome(Struct, frozen=True, kw_only=True):
    """How a call ended, in our own words where it ended badly; `evidence` is what was received.

    "lapsed": its permission ended while it waited for input.
    """

    kind: Literal["performed", "refused", "unknown", "waiting", "lapsed"]
    error: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)


class Expected(Struct, frozen=True, kw_only=True):
    """What is known beforehand of a call: its rule, and why its server has to refuse it, if it has.

    `tool` is the server's own name for it.
    """

    rule: ToolRule
    tool: str = ""
    is_listed: bool = True
    misfit: str | None = None


def outcome_of_result(result: Mapping[str, Any], expected: Expected) -> Outcome:
    """Judge a result."""
    if result.get("resultType") == "input_required":
        return Outcome(kind="waiting")
    text, is_error = text_of(result)[:_READ], result.get("isError") is True
    if not is_error and not tells_of_failure(result, result_document(result), text):
        return Outcome(kind="performed")
    told = {"tool_error": text}
    # Who does not mark an error as one does not keep to an SDK's words either.
    was_not_run = is_error and any(_says(form, text, expected.tool) for form in _NOT_RUN)
    error = "the tool answered with an error" if is_error else "the tool's answer tells of a failure"
    return _refused(text, told, expected, was_not_run=was_not_run) or Outcome(
        kind="unknown", error=error, evidence=told
    )


def outcome_of_error(error: Exception | None, expected: Expected) -> Outcome:
    """Judge what came instead of a result."""
    if isinstance(error, Unreachable):
        return Outcome(kind="refused", error="the call was never sent", evidence={"never_sent": error.why})
    if isinstance(error, BadAnswer):
        return Outcome(kind="unknown", error="the server's answer does not fit the protocol")
    if not isinstance(error, MCPError):
        return Outcome(kind="unknown", error=f"the call failed ({type(error).__name__})")
    code, message = error.error.code, error.error.message[:_READ]
    told = {"jsonrpc_error": {"code": code, "message": message}}
    if code == types.REQUEST_TIMEOUT:
        return Outcome(kind="unknown", error="the call was not answered in time", evidence=told)
    if code == types.CONNECTION_CLOSED:
        return Outcome(kind="unknown", error="the server ended during the call", evidence=told)
    return _refused(message, told, expected, was_not_run=code in _REFUSALS) or Outcome(
        kind="unknown", error="the server answered with an error", evidence=told
    )


def _says(form: str, text: str, tool: str) -> bool:
    """Tell whether a text begins as a form does; a form of `{tool}` only with the name of this one."""
    return re.match(form.replace("{tool}", re.escape(tool)), text) is not None


def _refused(text: str, told: Mapping[str, Any], expected: Expected, *, was_not_run: bool) -> Outcome | None:
    misfit = expected.misfit
    if not expected.is_listed:
        was_not_run, misfit = (
            _says(_NO_SUCH_TOOL, text, expected.tool),
            "the server does not list such a tool",
        )
    if misfit is not None and was_not_run:
        evidence = {**told, "misfit": misfit}
        return Outcome(kind="refused", error="the call does not fit the tool", evidence=evidence)
    for pattern in expected.rule.refused:
        if pattern.search(text):
            evidence = {**told, "refusal_by_rule": pattern.pattern[:200]}
            return Outcome(kind="refused", error="the tool refused the call", evidence=evidence)
    return None


def text_of(result: Mapping[str, Any]) -> str:
    """Give the texts of a result."""
    parts = result.get("content")
    texts = [
        part["text"]
        for part in (parts if isinstance(parts, list) else ())
        if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
    ]
    return "\n".join(texts)
