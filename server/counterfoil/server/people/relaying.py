"""Stands before other MCP servers and records what their tools do: `gateway`."""

import os
import sys
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import click

from counterfoil.server.people.output import tell
from counterfoil.server.people.request import Request
from counterfoil.server.people.teaching import teaching_command

if TYPE_CHECKING:
    from counterfoil.server.gateway.programs import Program

__all__ = ["gateway"]

_NO_SERVER = (
    "There is no server to stand before. Give its command after --, as in `counterfoil gateway -- npx -y "
    "some-mail-server`, or name servers in the configuration, under [gateway.servers.NAME]."
)


@teaching_command(
    short="stand before other MCP servers and record their effects",
    examples=[
        "counterfoil gateway -- npx -y some-mail-server",
        "counterfoil gateway --config ~/gateway.toml",
        "counterfoil gateway --run weekly-report/2026-W48 --name mail -- mail-server --stdio",
    ],
)
@click.option("--run", "named_run", metavar="RUN", help="The run that all calls belong to.")
@click.option("--name", metavar="NAME", help="What the server is called in the journal.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND ARGS]")
def gateway(request: Request, command: tuple[str, ...], *, named_run: str | None, name: str | None) -> int:
    """Serve MCP over stdin and stdout, and pass everything on to the server that COMMAND starts, or to those
    that the configuration names under [gateway].

    Calls of tools that act are recorded before they are passed on, and their results after; the same call
    again is answered from the journal. A client starts this in the place of the server itself.
    """
    from counterfoil.server.gateway.programs import Program, start_programs
    from counterfoil.server.gateway.servers import Unreachable, run_name, server_of_command
    from counterfoil.server.lifecycle import GATEWAY_PATIENCE_SECONDS, Ending
    from counterfoil.server.opener import journal_opener
    from counterfoil.server.probes.table import ProbeProblem
    from counterfoil.server.version import version

    ending = Ending(GATEWAY_PATIENCE_SECONDS)
    ending.heed_signals()
    settings = request.settings
    configured = settings.gateway
    specs = () if configured is None else configured.servers
    if not (command or specs):
        raise click.UsageError(_NO_SERVER)
    try:
        run = run_name("--run", named_run) or settings.run or (None if configured is None else configured.run)
        if command:
            specs = (server_of_command(command, name=name),)
    except ProbeProblem as problem:
        raise click.UsageError(f"{problem.name}: {problem.problem}") from None
    if sys.stdin is not None and sys.stdin.isatty():
        tell("counterfoil: waiting for an MCP client on stdin; a client starts this in place of the server")
    # The servers load while we do. What was typed is there, or it is a mistake; a configured server may come.
    try:
        started = {specs[0].name: Program(specs[0])} if command else start_programs(specs)
    except Unreachable as problem:
        raise click.UsageError(problem.why) from None
    ending.stop = partial(_end_at_once, started.values())
    from counterfoil.server.gateway.serving import serve_gateway

    return serve_gateway(
        settings,
        specs,
        journal_opener(settings),
        run=run,
        ending=ending,
        version=version(),
        started=started,
    )


def _end_at_once(programs: "Iterable[Program]") -> NoReturn:
    """End before anything is served: nothing is open but the servers' programs."""
    for program in programs:
        program.terminate()
    os._exit(0)
