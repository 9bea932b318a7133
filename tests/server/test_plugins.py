"""The plugins that stand as examples say what `install` writes: same server, same hooks, same skill."""

import json
from pathlib import Path
from typing import Any

import pytest

from counterfoil.server.clients import CLIENTS, Connection
from counterfoil.server.installing.hooks import AS_GEMINI_SAYS, hook_entries
from counterfoil.server.installing.targets import skill_text
from counterfoil.server.version import version

PLUGINS = Path(__file__).parents[2] / "examples" / "plugins"
HOOK = Connection(command="counterfoil", args=("hook",))
SERVE = Connection(command="counterfoil", args=("serve",))


def read(name: str) -> Any:
    return json.loads((PLUGINS / name).read_text())


def hooks(**options: Any) -> dict[str, Any]:
    return {event: [entry] for event, entry in hook_entries(HOOK, (), **options).items()}


@pytest.mark.parametrize("client", ["claude-code", "codex", "gemini-cli", "letta-code"])
def test_a_plugin_has_the_skill_that_is_installed(client: str) -> None:
    assert (PLUGINS / client / "skills/counterfoil/SKILL.md").read_text() == skill_text()


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_a_plugin_has_the_server_and_the_hooks_that_are_installed(client: str) -> None:
    assert read(f"{client}/.mcp.json") == json.loads(CLIENTS["claude-code"].write(SERVE))
    assert read(f"{client}/hooks/hooks.json") == {"hooks": hooks(denials=client == "claude-code")}
    assert read(f"{client}/.{client.removesuffix('-code')}-plugin/plugin.json")["version"] == version()


def test_the_settings_for_gemini_are_those_that_are_installed() -> None:
    calls = {"calls": "run_shell_command|mcp_.*", "milliseconds": True, "names": AS_GEMINI_SAYS}
    servers = json.loads(CLIENTS["gemini"].write(SERVE))
    assert read("gemini-cli/settings.json") == {**servers, "hooks": hooks(**calls)}


def test_the_hooks_for_letta_are_those_that_are_installed() -> None:
    assert read("letta-code/settings.json") == {"hooks": hooks(calls="Bash", milliseconds=True)}
