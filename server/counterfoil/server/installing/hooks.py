"""The hooks that a client is told to run: the command for each event, for which calls, and for how long."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from counterfoil.server.clients import Connection

__all__ = ["hook_entries"]

_SECONDS = 30
"""A hook gives up by itself before; most take a few milliseconds."""

_CALLS = ("PreToolUse", "PostToolUse", "PostToolUseFailure")


def hook_entries(
    command: Connection,
    options: Sequence[str],
    *,
    calls: str = "Bash|mcp__.*",
    milliseconds: bool = False,
) -> Mapping[str, Mapping[str, Any]]:
    """Give the entry for each event, in the form that Claude Code, Codex and Letta Code share.

    `command` is `counterfoil hook`, `options` follow the event. `calls` matches the tools that may have an
    effect, so that others start no process.
    """
    timeout = _SECONDS * 1_000 if milliseconds else _SECONDS

    def entry(event: str, **more: str) -> Mapping[str, Any]:
        line = shlex.join([command.command, *command.args, event, *options])
        return {**more, "hooks": [{"type": "command", "command": line, "timeout": timeout}]}

    return {
        **{event: entry(event, matcher=calls) for event in _CALLS},
        "SessionStart": entry("SessionStart", matcher="startup|resume|clear|compact"),
        "PreCompact": entry("PreCompact"),
        "Stop": entry("Stop"),
    }
