"""Lets clients that speak of the same events in other words use the hooks: Gemini CLI and Letta Code.

What they send is put into the words that the hooks read, which are Claude Code's and Codex's; what is said
is put into theirs. Nothing here decides anything.
"""

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["Dialect", "GeminiDialect", "LettaDialect", "dialect_of"]


class Dialect:
    """One client's words."""

    def read(self, told: dict[str, Any]) -> dict[str, Any]:
        """Give what a client told of an event in the words that the hooks read."""
        raise NotImplementedError

    def say(self, said: str) -> tuple[str, str, int]:
        """Give what a hook says as this client hears it: stdout, stderr and the exit code."""
        raise NotImplementedError


def dialect_of(event: str, raw: bytes) -> tuple[Dialect | None, bytes]:
    """Tell which other words an event came in, None for those that the hooks read, and give it in these."""
    if b'"event_type"' not in raw and b'"%s"' % event.encode() in raw:
        return None, raw
    try:
        told = json.loads(raw)
        if not isinstance(told, dict):
            return None, raw
        if told.get("hook_event_name") in _GEMINI_EVENTS:
            dialect: Dialect = GeminiDialect()
        elif told.get("event_type") == event and "hook_event_name" not in told:
            dialect = LettaDialect()
        else:
            return None, raw
        return dialect, json.dumps(dialect.read(told)).encode()
    except (ValueError, TypeError, RecursionError):
        # A client is never broken by what it sends; whoever reads it next says that it is no event, in the
        # form of the client that it seems to come from.
        if any(b'"%s"' % name.encode() in raw for name in _GEMINI_EVENTS):
            return GeminiDialect(), raw
        is_letta = b'"event_type"' in raw and b'"hook_event_name"' not in raw
        return (LettaDialect() if is_letta else None), raw


_GEMINI_EVENTS = ("BeforeTool", "AfterTool", "AfterAgent", "PreCompress")


class GeminiDialect(Dialect):
    """Gemini CLI: BeforeTool and AfterTool, a shell of its own name, and a decision that stands outside."""

    def read(self, told: dict[str, Any]) -> dict[str, Any]:
        words = {name: value for name, value in told.items() if name != "tool_response"}
        server = told.get("mcp_context")
        if told.get("tool_name") == "run_shell_command":
            words["tool_name"] = "Bash"
        elif isinstance(server, Mapping):
            words["tool_name"] = f"mcp__{server.get('server_name')}__{server.get('tool_name')}"
        response = told.get("tool_response")
        if isinstance(response, Mapping):
            # The text that the model is shown; an exit status stands in it, if at all.
            words["tool_response"] = _text_of(response.get("llmContent"))
        return words

    def say(self, said: str) -> tuple[str, str, int]:
        reason = _denied(said)
        return (said if reason is None else json.dumps({"decision": "deny", "reason": reason})), "", 0


class LettaDialect(Dialect):
    """Letta Code: an agent in place of a session, and a call that is blocked by the exit code alone."""

    def read(self, told: dict[str, Any]) -> dict[str, Any]:
        result = told.get("tool_result")
        words = {
            "session_id": told.get("conversation_id") or told.get("agent_id"),
            "cwd": told.get("working_directory"),
            "hook_event_name": told.get("event_type"),
            "tool_name": told.get("tool_name"),
            "tool_input": told.get("tool_input"),
            "tool_use_id": told.get("tool_call_id"),
            "error": told.get("error_message"),
        }
        if result is not None:
            words["tool_response"] = _text_of(result.get("output") if isinstance(result, Mapping) else result)
        return words

    def say(self, said: str) -> tuple[str, str, int]:
        reason = _denied(said)
        if reason is not None:
            return "", reason, _BLOCKS
        told = _document(said)
        specific = told.get("hookSpecificOutput")
        if told.get("decision") == "block":
            return "", str(told.get("reason")), _BLOCKS
        if isinstance(specific, Mapping) and specific.get("hookEventName") == "SessionStart":
            # What is printed there is shown as it is.
            return str(specific.get("additionalContext")), "", 0
        return said, "", 0


_BLOCKS = 2


def _denied(said: str) -> str | None:
    specific = _document(said).get("hookSpecificOutput")
    if isinstance(specific, Mapping) and specific.get("permissionDecision") == "deny":
        return str(specific.get("permissionDecisionReason"))
    return None


def _document(said: str) -> Mapping[str, Any]:
    try:
        told = json.loads(said)
    except ValueError:
        return {}
    return told if isinstance(told, Mapping) else {}


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    return "\n".join(
        str(part.get("text", "")) if isinstance(part, Mapping) else str(part)
        for part in parts
        if part is not None
    )
