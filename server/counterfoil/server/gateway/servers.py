"""Which servers a gateway stands before: the `[gateway]` table, or one command on the command line."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from counterfoil.server.probes.table import ProbeProblem, ProbeTable
from counterfoil.store.domain.names import normalize_name
from counterfoil.store.errors import InvalidArgument

__all__ = ["GatewaySettings", "ServerSpec", "Unreachable", "read_gateway", "run_name", "server_of_command"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
_START_SECONDS = 30
"""A first start may download the server (npx, uvx); clients wait about so long for theirs."""


class Unreachable(Exception):
    """A server that cannot be reached now. `why` is in our own words."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class ServerSpec(Struct, frozen=True, kw_only=True):
    """One server behind the gateway: a program over stdio, or a URL over Streamable HTTP.

    `environment` and `headers` hold `{env.NAME}` for the gateway's own variables. A program inherits the
    gateway's whole environment, as if the client had started it. `is_prefixed` None: where there are several.
    """

    name: str
    command: tuple[str, ...] = ()
    url: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    folder: str | None = None
    is_prefixed: bool | None = None
    start_seconds: float = _START_SECONDS

    def __repr__(self) -> str:
        """Show which server it is; its environment and headers hold secrets."""
        return f"ServerSpec(name={self.name!r})"


class GatewaySettings(Struct, frozen=True, kw_only=True):
    """What `[gateway]` says. `run` is the run of every call, where the environment names none."""

    run: str | None = None
    servers: tuple[ServerSpec, ...] = ()


def read_gateway(values: Any) -> GatewaySettings:
    """Read the table.

    Raises:
        ProbeProblem: a key is unknown, missing or wrong; it is named, with what would be right.
    """
    if not isinstance(values, dict):
        raise ProbeProblem("gateway", "it is a table: [gateway]")
    table = ProbeTable("gateway", values)
    run, servers = run_name("gateway.run", table.text("run")), table.take("servers") or {}
    table.close()
    if not isinstance(servers, dict):
        raise ProbeProblem("gateway.servers", "it is a table of servers: [gateway.servers.NAME]")
    return GatewaySettings(run=run, servers=tuple(_server(name, part) for name, part in servers.items()))


def run_name(where: str, text: str | None) -> str | None:
    """Give the name of a run in normal form.

    Raises:
        ProbeProblem: it is none.
    """
    try:
        return None if text is None else normalize_name(text, field="run")
    except InvalidArgument as fault:
        raise ProbeProblem(where, fault.fix.partition(": ")[2]) from None


def _server(name: str, values: Any) -> ServerSpec:
    where = f"gateway.servers.{name}"
    if not isinstance(values, dict):
        raise ProbeProblem(where, "it is a table")
    if not _NAME.fullmatch(name):
        raise ProbeProblem(
            where, "its name has 1 to 40 letters, digits or _.- and begins with one of the former"
        )
    table = ProbeTable(where, values)
    command, url = table.texts("command"), table.text("url")
    if (command is None) == (url is None):
        raise table.problem("command", 'it has one of command = ["PROGRAM", …] and url = "https://…"')
    if url is not None and not url.startswith(("http://", "https://")):
        raise table.problem("url", "it begins with https:// or http://")
    prefix = table.take("prefix")
    if prefix is not None and not isinstance(prefix, bool):
        raise table.problem("prefix", "it is true or false")
    spec = ServerSpec(
        name=name,
        command=command or (),
        url=url,
        environment=table.variables("environment"),
        headers=table.variables("headers"),
        folder=table.folder("cwd"),
        is_prefixed=prefix,
        start_seconds=table.seconds("start_seconds", default=_START_SECONDS, most=600),
    )
    table.close()
    return spec


def server_of_command(words: Sequence[str], *, name: str | None = None) -> ServerSpec:
    """Give the one server that a command line names, called after its program unless `name` is given.

    Raises:
        ProbeProblem: there is no command, or the name is none.
    """
    if not words or not words[0]:
        raise ProbeProblem("COMMAND", "it begins with the server's program")
    if name is not None and not _NAME.fullmatch(name):
        raise ProbeProblem(
            "--name", "it has 1 to 40 letters, digits or _.- and begins with one of the former"
        )
    program = re.sub(r"[^A-Za-z0-9_.-]+", "-", Path(words[0]).stem).strip("-._")[:40]
    return ServerSpec(name=name or program or "server", command=tuple(words), folder=os.getcwd())
