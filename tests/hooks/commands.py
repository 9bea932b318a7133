"""Commands as a hook reads them in this process, under the default rules, and the folders where they run."""

from collections.abc import Mapping
from pathlib import Path

from counterfoil.server.hooks.call import Call, call_of
from counterfoil.server.hooks.event import HookEvent
from counterfoil.server.hooks.rules.defaults import merged
from counterfoil.server.hooks.rules.rule import NO_RULES

__all__ = ["RULES", "call", "lay"]

RULES = merged(NO_RULES)


def call(command: str, folder: Path | str, *, rules=RULES) -> Call:
    """Read a command that runs in a folder, and has an effect by the rules."""
    told = {"command": command}
    found = call_of(HookEvent(name="PreToolUse", folder=str(folder), tool="Bash", input=told), rules)
    assert found is not None, command
    return found


def lay(folder: Path, texts: Mapping[str, str]) -> Path:
    """Write files below a folder, by their paths there, and give the folder."""
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder
