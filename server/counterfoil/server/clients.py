"""How each MCP client is told to start this server: the text of its configuration, and where it goes."""

import json
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from counterfoil.server.version import source

__all__ = ["CLIENTS", "NAME", "Client", "Connection", "own_command", "server_command"]

NAME = "counterfoil"

_FIRST_START_SECONDS = 60
"""For clients whose wait for a server is short: uvx may have to download everything first."""


class Connection(Struct, frozen=True, kw_only=True):
    """The command that a client is to start, with its arguments."""

    command: str
    args: tuple[str, ...]

    @property
    def line(self) -> str:
        """The command as a shell takes it."""
        return shlex.join([self.command, *self.args])


class Client(Struct, frozen=True, kw_only=True):
    """One client: the format of its configuration, the file that it stands in, and its own way to add it."""

    title: str
    file: str
    write: Callable[[Connection], str]
    add: Callable[[Connection], str] | None = None
    note: str | None = None


def server_command(*, with_uvx: bool, arguments: Sequence[str], argv0: str) -> Connection:
    """Give the command that serves MCP out of this very installation, or out of the one that uvx makes."""
    return own_command(("serve", *arguments), with_uvx=with_uvx, argv0=argv0)


def own_command(rest: Sequence[str], *, with_uvx: bool, argv0: str) -> Connection:
    """Give the command that starts this very installation, or the one that uvx makes, with these words.

    A program that runs out of a cache that may be emptied is started by uvx; one that was started as a
    module, by its interpreter. To uvx it is said where this one was installed from: a bare name is looked
    up in an index, which may not have it, or give somebody else's.
    """
    program = Path(argv0)
    if program.name != NAME:
        found = Path(sys.executable).parent / NAME
        program = found if found.is_file() else Path(shutil.which(NAME) or argv0)
    if program.name == NAME and program.exists():
        program = program.absolute()
    if with_uvx or "archive-v0" in program.parts or "archive-v0" in Path(sys.prefix).parts:
        origin = source()
        return Connection(command="uvx", args=(*(() if origin is None else ("--from", origin)), NAME, *rest))
    if program.name != NAME:
        return Connection(command=sys.executable, args=("-m", "counterfoil.server", *rest))
    return Connection(command=str(program), args=tuple(rest))


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _mcp_servers(connection: Connection) -> str:
    return _json({"mcpServers": {NAME: {"command": connection.command, "args": list(connection.args)}}})


def _typed_mcp_servers(connection: Connection) -> str:
    server = {"type": "stdio", "command": connection.command, "args": list(connection.args)}
    return _json({"mcpServers": {NAME: server}})


def _vscode(connection: Connection) -> str:
    server = {"type": "stdio", "command": connection.command, "args": list(connection.args)}
    return _json({"servers": {NAME: server}})


def _codex(connection: Connection) -> str:
    # A JSON string of printable characters is a TOML basic string.
    args = ", ".join(json.dumps(argument) for argument in connection.args)
    return (
        f"[mcp_servers.{NAME}]\n"
        f"command = {json.dumps(connection.command)}\n"
        f"args = [{args}]\n"
        f"startup_timeout_sec = {_FIRST_START_SECONDS}\n"
        # Without it the model's first request goes out before the server has told its tools.
        "required = true"
    )


def _letta_code(connection: Connection) -> str:
    server = {
        "name": NAME,
        "transport": "stdio",
        "command": connection.command,
        "args": list(connection.args),
    }
    return _json({"agents": [{"agentId": "YOUR-AGENT-ID", "mcpServers": [server]}]})


def _vscode_add(connection: Connection) -> str:
    server = {"name": NAME, "command": connection.command, "args": list(connection.args)}
    return f"code --add-mcp {shlex.quote(json.dumps(server))}"


CLIENTS = {
    "claude-code": Client(
        title="Claude Code",
        file=".mcp.json in the project (or, by the command below, for all your projects)",
        write=_typed_mcp_servers,
        add=lambda connection: f"claude mcp add --scope user {NAME} -- {connection.line}",
    ),
    "claude-desktop": Client(
        title="Claude Desktop",
        file="claude_desktop_config.json (Settings, Developer, Edit Config), under mcpServers",
        write=_mcp_servers,
        note="Start Claude Desktop anew afterwards.",
    ),
    "codex": Client(
        title="Codex",
        file="~/.codex/config.toml",
        write=_codex,
        add=lambda connection: f"codex mcp add {NAME} -- {connection.line}",
    ),
    "gemini": Client(
        title="Gemini CLI",
        file="~/.gemini/settings.json, under mcpServers",
        write=_mcp_servers,
    ),
    "cursor": Client(
        title="Cursor",
        file="~/.cursor/mcp.json (or .cursor/mcp.json in the project), under mcpServers",
        write=_typed_mcp_servers,
    ),
    "vscode": Client(
        title="VS Code",
        file=".vscode/mcp.json in the workspace, or the file that MCP: Open User Configuration opens",
        write=_vscode,
        add=_vscode_add,
    ),
    "letta-code": Client(
        title="Letta Code",
        file="~/.letta/settings.json, at the agent's own entry in agents",
        write=_letta_code,
        add=lambda connection: f"/mcp add --transport stdio {NAME} {connection.line}",
        note="Letta keeps servers for each agent: take the command inside a session of that agent, "
        "or put its id in the place of YOUR-AGENT-ID. Each `letta mcp call` is a connection of its own: have "
        'the agent send trace {"conversation": "$LETTA_CONVERSATION_ID"} with every call.',
    ),
}
