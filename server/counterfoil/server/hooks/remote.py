"""Looks at the remote after a push whose end tells nothing: what stands there is the truth."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from counterfoil.server.hooks.call import Call, script_of
from counterfoil.server.hooks.effect import Effect
from counterfoil.server.hooks.event import HookEvent
from counterfoil.server.hooks.evidence import is_one_effect
from counterfoil.server.hooks.git_push import Pushed
from counterfoil.server.hooks.outcome import Outcome
from counterfoil.server.hooks.shell.script import Invocation, Script
from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["is_lost", "is_there", "look_at_remote", "standing_at_remote"]

_LOOK_SECONDS = 10

_BROKEN_OFF = lazy_pattern(
    r"hung up|timed? ?out|broken pipe|RPC failed|early EOF|[Cc]onnection "
    r"(?:reset|closed)|disconnect|Terminated|Killed"
)
"""After these the remote may still be at it: an empty look would come too early."""

_BRANCH = "refs/heads/"
_KEEPS_COMMIT = frozenset(("add", "commit", "push", "status", "diff", "log"))


def look_at_remote(
    event: HookEvent, call: Call, outcome: Outcome, args: Any
) -> Literal["done", "absent"] | None:
    """Look whether what the one push of a call sends stands at the remote; None: it tells nothing.

    Only after the command has ended by itself. "done": every ref holds its commit there. "absent": the one
    branch stands there as it was known here before, or `args`, those on record, show that the commit on which
    the push waited was never made. Another commit at the remote tells nothing: somebody may have added to it.
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
    script, push = script_of(event), effect.invocation
    pushed = effect.pushed
    if script is None or push is None or pushed is None or push.folder is None:
        return None
    is_here = push.words[1].text == "push" and not any(name.startswith("GIT_") for name, _ in push.env)
    if not effect.is_known and pushed.commit is not None and pushed.commit == _recorded_commit(args):
        return "absent" if is_here and _waits_for_commit(script, push) else None
    wanted = {ref: commit for ref, commit in pushed.refs if commit is not None and ":" not in commit}
    if len(wanted) != len(pushed.refs):
        return None
    there = _at_remote(push.folder, pushed.remote, list(wanted))
    if there is None:
        return None
    if all(_holds(push.folder, there.get(ref), commit) for ref, commit in wanted.items()):
        return "done"
    if not is_here or len(wanted) > 1 or not is_one_effect(effect):
        return None
    ((ref, _),) = wanted.items()
    return "absent" if _is_as_before(push.folder, pushed, ref, there.get(ref)) else None


def standing_at_remote(effect: Effect) -> Mapping[str, str] | None:
    """Give the commits of a push's refs at its remote; None where it cannot be asked."""
    push, pushed = effect.invocation, effect.pushed
    if push is None or push.folder is None or pushed is None or not pushed.refs:
        return None
    return _at_remote(push.folder, pushed.remote, [ref for ref, _ in pushed.refs if "*" not in ref])


def is_lost(effect: Effect, there: Mapping[str, str]) -> bool:
    """Tell whether what a push sent, and what is on record as pushed, does not stand at the remote any more.

    Only where a ref is gone `there`, or stands at a commit that is known here and does not hold the pushed
    one: an unknown commit may have grown from it.
    """
    pushed, push = effect.pushed, effect.invocation
    if pushed is None or push is None or push.folder is None or pushed.is_wide:
        return False
    for ref, commit in pushed.refs:
        tip = there.get(ref)
        if commit is None:
            if tip is not None:
                return True
        elif tip is None:
            return True
        elif not _holds(push.folder, tip, commit):
            is_known = _git(push.folder, "cat-file", "-e", f"{tip}^{{commit}}") is not None
            if is_known:
                return True
    return False


def is_there(effect: Effect, there: Mapping[str, str]) -> bool:
    """Tell whether all that a push sends stands `there` exactly so: git then leaves it alone."""
    pushed = effect.pushed
    if pushed is None or pushed.is_wide:
        return False
    return all(there.get(ref) == commit for ref, commit in pushed.refs)


def _recorded_commit(args: Any) -> str | None:
    effects = args.get("effects") if isinstance(args, Mapping) else None
    state = effects[0].get("state") if isinstance(effects, list) and effects else None
    return state[0].get("commit") if isinstance(state, list) and state else None


def _waits_for_commit(script: Script, push: Invocation) -> bool:
    """Tell whether the push runs only after a commit that succeeded: none was made, so it has not run."""
    has_commit = False
    for part in script.invocations:
        if part.words == push.words:
            return has_commit and part.decides
        words = [word.text for word in part.words[1:2]]
        if part.program == "git":
            if not words or words[0] not in _KEEPS_COMMIT:
                return False
            has_commit |= words == ["commit"] and part.decides and part.folder == push.folder
    return False


def _at_remote(folder: str, remote: str, refs: Sequence[str]) -> dict[str, str] | None:
    """Give the commit of each ref that the remote has; None where it cannot be asked."""
    lines = _git(folder, "ls-remote", "--", remote, *refs)
    if lines is None:
        return None
    return {ref: commit for commit, _, ref in (line.partition("\t") for line in lines)}


def _holds(folder: str, tip: str | None, commit: str) -> bool:
    """Tell whether a tip at the remote is a commit or has grown from it, as far as that is known here."""
    if tip is None:
        return False
    return tip == commit or _git(folder, "merge-base", "--is-ancestor", commit, tip) is not None


def _is_as_before(folder: str, pushed: Pushed, ref: str, tip: str | None) -> bool:
    """Tell whether a branch stands at the remote as this repository knew it: a push would have moved both."""
    name = pushed.names[0] if pushed.names else ""
    if not ref.startswith(_BRANCH) or not name:
        return False
    followed = _git(folder, "config", "--get-all", f"remote.{name}.fetch") or []
    if f"+refs/heads/*:refs/remotes/{name}/*" not in followed:
        return False
    known = _git(folder, "rev-parse", "--verify", "--quiet", f"refs/remotes/{name}/{ref[len(_BRANCH) :]}")
    return (known[0] if known else None) == tip


def _git(folder: str, *words: str) -> list[str] | None:
    """Give the lines that git prints; None where it fails."""
    try:
        answered = subprocess.run(
            ["git", *words],
            cwd=folder,
            env={"GIT_SSH_COMMAND": "ssh -o BatchMode=yes", **os.environ, "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LOOK_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answered.stdout.decode("utf-8", "replace").splitlines()
