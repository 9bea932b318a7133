"""Makes a probe out of its `[probes.NAME]` table."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from counterfoil.server.probes.command import read_command
from counterfoil.server.probes.file import read_file_probe
from counterfoil.server.probes.git_commit import read_git_commit
from counterfoil.server.probes.git_ref import read_git_ref
from counterfoil.server.probes.http import read_http
from counterfoil.server.probes.mcp_tool import read_mcp_tool
from counterfoil.server.probes.probe import Look, Probe
from counterfoil.server.probes.table import ProbeProblem, ProbeTable
from counterfoil.store.domain.commands import RECEIPT_KINDS

__all__ = ["TYPES", "ProbeProblem", "read_probe"]

TYPES = ("git_commit", "git_ref", "file", "http", "command", "mcp_tool")

_DEFAULT_SECONDS, _MOST_SECONDS = 20, 45
"""Clients give a call up after a minute; the answer has to be recorded and sent by then."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


_READERS: Mapping[str, Callable[[ProbeTable], Look]] = {
    "git_commit": read_git_commit,
    "git_ref": read_git_ref,
    "file": read_file_probe,
    "command": read_command,
    "mcp_tool": read_mcp_tool,
}


def read_probe(name: str, values: Any) -> Probe:
    """Read one probe.

    Raises:
        ProbeProblem: a key is unknown, missing or wrong; it is named, with what would be right.
    """
    where = f"probes.{name}"
    if not isinstance(values, dict):
        raise ProbeProblem(where, "it is a table")
    if not _NAME.fullmatch(name):
        raise ProbeProblem(
            where, "its name has 1 to 64 letters, digits or ._- and begins with one of the former"
        )
    table = ProbeTable(where, values)
    type_ = table.one_of("type", TYPES)
    if type_ is None:
        raise table.problem("type", f"it is missing: one of {', '.join(TYPES)}")
    action, kind, system = table.text("action"), table.one_of("kind", RECEIPT_KINDS), table.text("system")
    timeout_seconds = table.seconds("timeout_seconds", default=_DEFAULT_SECONDS, most=_MOST_SECONDS)
    look: Look = (
        read_http(table, timeout_seconds=timeout_seconds) if type_ == "http" else _READERS[type_](table)
    )
    table.close()
    return Probe(
        name=name,
        type=type_,
        look=look,
        action=action,
        kind=kind,
        system=system,
        timeout_seconds=timeout_seconds,
    )
