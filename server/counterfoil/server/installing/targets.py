"""Where each client keeps what is installed into it, and what that is: the server, the hooks, the skill."""

import json
import os
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from msgspec import Struct

from counterfoil.server.clients import CLIENTS, NAME, Connection
from counterfoil.server.installing.hooks import AS_GEMINI_SAYS, hook_entries
from counterfoil.server.installing.json_text import Path, Where
from counterfoil.server.installing.placing import Placement
from counterfoil.server.places import home

__all__ = ["TARGETS", "Target", "Wanted", "skill_text"]


class Wanted(Struct, frozen=True, kw_only=True):
    """What is to be installed, for which agents, in whose home.

    `hook` is the command that handles an event, `options` those that follow the event; None for no hooks.
    """

    connection: Connection
    hook: Connection | None
    options: tuple[str, ...] = ()
    environ: Mapping[str, str]
    agents: tuple[str, ...] = ()

    def folder(self, variable: str | None, default: str) -> str:
        """Give a client's folder, which a variable of its own may name."""
        named = self.environ.get(variable) if variable else None
        return named or os.path.join(home(self.environ), default)


class Target(Struct, frozen=True, kw_only=True):
    """One client that can be installed into. `placements` gives what goes into which file."""

    placements: Callable[[Wanted], Mapping[str, list[Placement]]]
    notes: tuple[str, ...] = ()
    needs_agent: bool = False


@cache
def skill_text() -> str:
    """Give the skill that teaches a model when to name a run, and how to reconcile."""
    return (files("counterfoil.server.installing") / "skill" / "SKILL.md").read_text(encoding="utf-8")


def _skill(folder: str) -> dict[str, list[Placement]]:
    return {os.path.join(folder, "skills", NAME, "SKILL.md"): [Placement(kind="text", value=skill_text())]}


def _hooks(wanted: Wanted, **options: Any) -> list[Placement]:
    if wanted.hook is None:
        return []
    entries = hook_entries(wanted.hook, wanted.options, **options)
    return [Placement(kind="item", path=("hooks", event), value=entry) for event, entry in entries.items()]


def _server(client: str, wanted: Wanted) -> Any:
    """Give the server's own entry, out of the configuration that `counterfoil config` prints."""
    written = CLIENTS[client].write(wanted.connection)
    if client == "codex":
        return tomllib.loads(written)["mcp_servers"][NAME]
    if client == "letta-code":
        return json.loads(written)["agents"][0]["mcpServers"][0]
    return json.loads(written)["mcpServers"][NAME]


def _claude_code(wanted: Wanted) -> Mapping[str, list[Placement]]:
    named = wanted.environ.get("CLAUDE_CONFIG_DIR")
    folder = wanted.folder("CLAUDE_CONFIG_DIR", ".claude")
    servers = os.path.join(named or home(wanted.environ), ".claude.json")
    server = Placement(kind="member", path=("mcpServers", NAME), value=_server("claude-code", wanted))
    return {
        servers: [server],
        os.path.join(folder, "settings.json"): _hooks(wanted, denials=True),
        **_skill(folder),
    }


def _codex(wanted: Wanted) -> Mapping[str, list[Placement]]:
    folder = wanted.folder("CODEX_HOME", ".codex")
    server = Placement(kind="table", path=("mcp_servers", NAME), value=_server("codex", wanted))
    return {
        os.path.join(folder, "config.toml"): [server],
        os.path.join(folder, "hooks.json"): _hooks(wanted),
        **_skill(folder),
    }


def _gemini(wanted: Wanted) -> Mapping[str, list[Placement]]:
    folder = wanted.folder(None, ".gemini")
    server = Placement(kind="member", path=("mcpServers", NAME), value=_server("gemini", wanted))
    hooks = _hooks(wanted, calls="run_shell_command|mcp_.*", milliseconds=True, names=AS_GEMINI_SAYS)
    return {os.path.join(folder, "settings.json"): [server, *hooks], **_skill(folder)}


def _letta_code(wanted: Wanted) -> Mapping[str, list[Placement]]:
    folder = wanted.folder("LETTA_HOME", ".letta")
    hooks = _hooks(wanted, calls="Bash", milliseconds=True)
    entry = _server("letta-code", wanted)
    servers = [Placement(kind="item", path=_servers_of(agent), value=entry) for agent in wanted.agents]
    return {os.path.join(folder, "settings.json"): [*hooks, *servers], **_skill(folder)}


def _servers_of(agent: str) -> Path:
    return ("agents", Where("agentId", agent), "mcpServers")


TARGETS: Mapping[str, Target] = {
    "claude-code": Target(placements=_claude_code),
    "codex": Target(
        placements=_codex,
        notes=("Codex asks at its next start whether it may run these hooks; until then they do not run.",),
    ),
    "gemini": Target(placements=_gemini),
    "letta-code": Target(
        placements=_letta_code,
        notes=(
            "Letta keeps servers for each agent: name each with --agent ID. Its models call "
            "`letta mcp call` from their shell, as the skill's page tells.",
        ),
        needs_agent=True,
    ),
}
