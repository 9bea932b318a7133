"""Looks at the remote after a push whose end tells nothing: what stands there is the truth."""

import os
import re
import subprocess
from collections.abc import Mapping
from typing import Any, Literal

from counterfoil.server.hooks.call import Call, script_of
from counterfoil.server.hooks.event import HookEvent
from counterfoil.server.hooks.git_push import read_push
from counterfoil.server.hooks.outcome import Outcome

__all__ = ["look_at_remote"]

_LOOK_SECONDS = 10

_BROKEN_OFF = re.compile(
    r"hung up|timed? ?out|broken pipe|RPC failed|early EOF|[Cc]onnection "
    r"(?:reset|closed)|disconnect|Terminated|Killed"
)
"""After these the remote may still be at it: an empty look would come too early."""


def look_at_remote(
    event: HookEvent, call: Call, outcome: Outcome, args: Any
) -> Literal["done", "absent"] | None:
    """Look whether the one commit of the one push of a call stands at the remote; None: it tells nothing.

    Only after the command has ended by itself. `args` are those on record: a call that should have made the
    commit first, and made none, has pushed nothing.
    """
    if event.is_interrupt or outcome.came != "unknown" or _BROKEN_OFF.search(outcome.text):
        return None
    effect = call.effects[0]
    if (
        len(call.effects) != 1
        or getattr(effect.rule, "form", None) != "git-push"
        or outcome.exit_status is None
    ):
        return None
    script = script_of(event)
    pushes = [] if script is None else [part for part in script.invocations if part.program == "git"]
    pushed = next((found for part in pushes if "push" in _texts(part) and (found := read_push(part))), None)
    if pushed is None or pushed.commit is None or event.folder is None:
        return None
    there = _at_remote(event.folder, pushed.remote, pushed.refs[0][0])
    if there is None:
        return None
    was = _recorded_commit(args)
    if not effect.is_known and pushed.commit == was:
        return "absent"
    return "done" if there == pushed.commit else "absent"


def _texts(part: Any) -> list[str]:
    return [word.text for word in part.words]


def _recorded_commit(args: Any) -> str | None:
    effects = args.get("effects") if isinstance(args, Mapping) else None
    state = effects[0].get("state") if isinstance(effects, list) and effects else None
    return state[0].get("commit") if isinstance(state, list) and state else None


def _at_remote(folder: str, remote: str, ref: str) -> str | None:
    """Give the commit of a ref at the remote, empty where there is none; None where it cannot be asked."""
    try:
        answered = subprocess.run(
            ["git", "ls-remote", "--", remote, ref],
            cwd=folder,
            env={"GIT_SSH_COMMAND": "ssh -o BatchMode=yes", **os.environ, "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LOOK_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    lines = answered.stdout.decode("utf-8", "replace").split()
    return lines[0] if lines else ""
