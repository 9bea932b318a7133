"""What a client tells a hook: its JSON, of which nothing is taken for granted."""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

__all__ = ["EVENTS", "SHELLS", "HookEvent", "NotAnEvent", "read_event"]

EVENTS = (
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PermissionDenied",
    "SessionStart",
    "PreCompact",
    "Stop",
)

SHELLS = frozenset(
    ("Bash", "shell", "local_shell", "exec_command", "shell_command", "unified_exec", "container.exec")
)
"""What clients call the tool that runs commands."""

_LONGEST = 200
_HALVES = (b"\\ud", b"\\uD", b"\xed")
"""One of these stands in whatever holds half a character, escaped or not."""


class NotAnEvent(Exception):
    """What came is not what a client sends."""


class HookEvent(Struct, frozen=True, kw_only=True):
    """One event. Texts that are too long or do not print count as not given."""

    name: str
    session: str | None = None
    folder: str | None = None
    model: str | None = None
    source: str | None = None
    tool: str = ""
    call_id: str | None = None
    input: Any = None
    response: Any = None
    has_response: bool = False
    error: str | None = None
    reason: str | None = None
    is_interrupt: bool = False
    is_reminding: bool = False

    @property
    def is_shell(self) -> bool:
        """True where the tool runs a command of the shell."""
        return self.tool in SHELLS

    @property
    def command(self) -> str | tuple[str, ...] | None:
        """The command that is run: a text for the shell, or words; None where there is none."""
        given = self.input if isinstance(self.input, Mapping) else {}
        value = next((given[name] for name in ("command", "cmd", "script") if name in given), None)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            return tuple(value)
        return None


def read_event(name: str, raw: bytes) -> HookEvent:
    """Read what came on stdin for the event `name`.

    Raises:
        NotAnEvent: it is no JSON object, or has no form that an event has.
    """
    try:
        told = json.loads(raw)
        if any(mark in raw for mark in _HALVES):
            # The journal takes no text that holds one.
            told = _whole(told)
    except (ValueError, RecursionError) as error:
        raise NotAnEvent(type(error).__name__) from None
    if not isinstance(told, dict):
        raise NotAnEvent("no object")
    tool, failure = told.get("tool_name"), told.get("error")
    return HookEvent(
        name=name,
        session=_text(told.get("session_id")),
        folder=_path(told.get("cwd")),
        model=_text(told.get("model")),
        source=_text(told.get("source") or told.get("trigger")),
        tool=tool if isinstance(tool, str) and len(tool) <= 2 * _LONGEST else "",
        call_id=_text(told.get("tool_use_id")),
        input=told.get("tool_input"),
        response=told.get("tool_response"),
        has_response="tool_response" in told,
        error=failure if isinstance(failure, str) else None,
        reason=denied if isinstance(denied := told.get("reason"), str) else None,
        is_interrupt=told.get("is_interrupt") is True,
        is_reminding=told.get("stop_hook_active") is True,
    )


def _whole(told: Any) -> Any:
    """Give what was told with the mark for an unreadable character where half of one stands.

    Clients that cut a long output in units of UTF-16 cut characters, too.
    """
    if isinstance(told, str):
        return told if told.isascii() else told.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(told, dict):
        return {_whole(name): _whole(value) for name, value in told.items()}
    return [_whole(part) for part in told] if isinstance(told, list) else told


def _text(value: Any) -> str | None:
    if isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable():
        return value
    return None


def _path(value: Any) -> str | None:
    return value if isinstance(value, str) and value.startswith("/") and "\0" not in value else None
