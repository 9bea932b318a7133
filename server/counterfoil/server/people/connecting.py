"""Connects clients and shows the promise: `serve`, `config CLIENT`, `demo`."""

import json
import os
import sys

import click

from counterfoil.server.clients import CLIENTS, server_command
from counterfoil.server.people.output import tell, write, write_json
from counterfoil.server.people.request import Request
from counterfoil.server.people.teaching import teaching_command
from counterfoil.server.serving import serve_stdio

__all__ = ["config", "demo", "passed_on", "serve"]

_PASSED_ON = ("journal", "namespace", "config")
"""The settings that a client's configuration repeats: clients do not hand their environment on."""


@teaching_command(
    short="MCP over stdio, as a client starts it, or over HTTP",
    examples=[
        "counterfoil",
        "counterfoil serve --tools core",
        "counterfoil serve --journal /srv/journal.db",
        "counterfoil serve --http 127.0.0.1:8080",
    ],
)
@click.option(
    "--tools",
    type=click.Choice(["core", "all"]),
    help="Which tools are offered: the six core ones, or all (the default).",
)
@click.option("--http", metavar="HOST:PORT", help="Serve Streamable HTTP there, at /mcp, for many clients.")
def serve(request: Request, *, tools: str | None, http: str | None) -> int:
    """Serve MCP over stdin and stdout; a client starts this itself.

    It ends with its client: when stdin closes, or at SIGTERM, SIGINT or SIGHUP.

    With --http it serves MCP at http://HOST:PORT/mcp until a signal comes, and answers the calls under way
    first. On loopback that needs no authentication; any other address needs [http] in the configuration.
    """
    if http is not None:
        from counterfoil.server.http.serving import serve_http
        from counterfoil.server.version import version

        request.flags["tools"] = tools
        return serve_http(request.settings, http, version=version())
    return serve_stdio({**request.flags, "tools": tools})


def passed_on(request: Request) -> list[str]:
    """Give the options by which a client's configuration repeats what is set here."""
    settings = request.settings
    arguments: list[str] = []
    for name in _PASSED_ON:
        if request.flags.get(name) or os.environ.get(f"COUNTERFOIL_{name.upper()}"):
            value = {
                # Of a database's URL only what may be shown: a password stands in ~/.pgpass or PGPASSWORD.
                "journal": str(settings.journal_path or settings.journal),
                "namespace": settings.namespace,
                "config": str(settings.config_path and settings.config_path.absolute()),
            }[name]
            arguments += [f"--{name}", value]
    return arguments


@teaching_command(
    short="print a client's configuration",
    examples=[
        "counterfoil config claude-code",
        "counterfoil config codex >> ~/.codex/config.toml",
        "counterfoil config cursor --uvx --journal /srv/journal.db",
    ],
)
@click.argument("client", type=click.Choice(sorted(CLIENTS)), metavar="CLIENT")
@click.option("--uvx", "with_uvx", is_flag=True, help="Let uvx start it, from where this one was installed.")
@click.option("--tools", type=click.Choice(["core", "all"]), help="Which tools this client is offered.")
def config(request: Request, client: str, *, with_uvx: bool, tools: str | None) -> int:
    """Print the configuration by which CLIENT starts this server.

    CLIENT is claude-code, claude-desktop, codex, cursor, gemini, letta-code or vscode. The configuration
    goes to stdout, and the name of the file that it belongs into to stderr; nothing is changed. A journal,
    namespace or configuration file that is set here, by option or environment, is written into it.
    """
    arguments = [*([] if tools is None else ["--tools", tools]), *passed_on(request)]
    connection = server_command(with_uvx=with_uvx, arguments=arguments, argv0=sys.argv[0])
    chosen = CLIENTS[client]
    text = chosen.write(connection)
    if request.as_json:
        write_json(
            {
                "client": client,
                "file": chosen.file,
                "command": connection.command,
                "args": list(connection.args),
                "add": None if chosen.add is None else chosen.add(connection),
                "configuration": text if client == "codex" else json.loads(text),
            }
        )
        return 0
    tell(f"{chosen.title}: this goes into {chosen.file}.")
    if chosen.add is not None:
        tell(f"Or let it add the server itself:  {chosen.add(connection)}")
    if chosen.note is not None:
        tell(chosen.note)
    write(text)
    return 0


@teaching_command(
    short="kill an agent, and watch the next one not repeat it",
    examples=["counterfoil demo", "counterfoil demo --json"],
)
def demo(request: Request) -> int:
    """Kill an agent between effect and receipt, and watch the next one not do it twice.

    Nothing is set up and nothing is faked: a real server, real clients, a real kill, a real outside system
    in a temporary folder. It takes half a minute.
    """
    from counterfoil.server.demo import run_demo

    return run_demo(as_json=request.as_json)
