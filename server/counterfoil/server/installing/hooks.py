"""The hooks that a client is told to run: the command for each event, for which calls, and for how long."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from counterfoil.server.clients import Connection

__all__ = ["AS_GEMINI_SAYS", "hook_entries"]

_SECONDS = 30
"""A hook gives up by itself before; most take a few milliseconds."""

_CALLS = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
_DENIALS = ("PermissionDenied",)
_SESSIONS = ("SessionStart", "PreCompact", "Stop")

AS_GEMINI_SAYS: Mapping[str, str] = {
    "PreToolUse": "BeforeTool",
    "PostToolUse": "AfterTool",
    "SessionStart": "SessionStart",
    "Stop": "AfterAgent",
}
"""What Gemini CLI calls the events; a call that failed is an AfterTool too."""


def hook_entries(
    command: Connection,
    options: Sequence[str],
    *,
    calls: str = "Bash|mcp__.*",
    milliseconds: bool = False,
    names: Mapping[str, str] | None = None,
    denials: bool = False,
) -> Mapping[str, Mapping[str, Any]]:
    """Give the entry for each event, under the name that the client has for it.

    `command` is `counterfoil hook`, `options` follow the event. `calls` matches the tools that may have an
    effect, so that others start no process. `names` are the client's own, those of Claude Code unless given.
    `denials`: the client tells of a call that it denied by itself after a hook let it through.
    """
    timeout = _SECONDS * 1_000 if milliseconds else _SECONDS
    entries: dict[str, Mapping[str, Any]] = {}
    of_calls = (*_CALLS, *_DENIALS) if denials else _CALLS
    for event in (*of_calls, *_SESSIONS):
        name = event if names is None else names.get(event)
        if name is None:
            continue
        line = shlex.join([command.command, *command.args, event, *options])
        matcher = {"matcher": calls} if event in of_calls else {}
        entries[name] = {**matcher, "hooks": [{"type": "command", "command": line, "timeout": timeout}]}
    return entries
