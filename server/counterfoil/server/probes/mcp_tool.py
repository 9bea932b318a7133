"""`mcp_tool`: starts a configured MCP server, calls one tool of it, and reads the answer."""

import json
import os
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from counterfoil.server.probes.command import lacking_folder, program_of
from counterfoil.server.probes.json_reading import JsonReading, read_reading
from counterfoil.server.probes.probe import Inconclusive, Seen
from counterfoil.server.probes.process import environment_of, lacking_program
from counterfoil.server.probes.table import ProbeTable, missing_variables
from counterfoil.server.probes.template import Template, fill_json
from counterfoil.store.domain.json_numbers import Json
from counterfoil.store.probing import ProbeSubject

__all__ = ["McpToolLook", "read_mcp_tool"]


class McpToolLook(Struct, frozen=True, kw_only=True):
    """Calls `tool` with `args`; structured content is read, or the first text as JSON."""

    command: tuple[str, ...]
    tool: str
    args: Mapping[str, Any]
    reading: JsonReading
    environment: Mapping[str, str]
    folder: str | None
    most_bytes: int
    kind: str = "record"

    @property
    def uses_external_id(self) -> bool:
        """True where the reference on record is asked for."""
        return "external_id" in (*_placeholders(self.args), *self.reading.placeholders)

    async def see(self, subject: ProbeSubject) -> Seen:
        """Start the server, call the tool, end the server.

        Raises:
            Inconclusive: no answer, an error, or one of another shape.
        """
        from mcp import Client, MCPError
        from mcp.client.stdio import StdioServerParameters, stdio_client

        arguments = fill_json(self.args, subject)
        server = StdioServerParameters(
            command=self.command[0],
            args=list(self.command[1:]),
            env=environment_of(self.environment),
            cwd=self.folder or "/",
        )
        with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: ASYNC230 - it never blocks
            try:
                async with Client(stdio_client(server, errlog=nowhere), cache=None) as client:
                    result = await client.call_tool(self.tool, arguments)
            except* (MCPError, OSError, ValueError, RuntimeError) as errors:
                failed: str | None = type(_first(errors)).__name__
            else:
                failed = None
        if failed is not None:
            raise Inconclusive(f"the server could not be asked ({failed})")
        if result.is_error:
            raise Inconclusive("the tool answered with an error")
        document = result.structured_content
        if document is None:
            document = self._from_text(next((part for part in result.content if part.type == "text"), None))
        return self.reading.seen(document, subject, {"tool": self.tool})

    def _from_text(self, part: Any) -> Json:
        if part is None or len(part.text) > self.most_bytes:
            raise Inconclusive("the tool answered with no text, or with too much of it")
        try:
            return json.loads(part.text)
        except (ValueError, RecursionError):
            raise Inconclusive("the tool's answer is no JSON") from None

    def lacks(self) -> list[str]:
        """Say if the server's program, its folder or a variable is not there."""
        return [
            *lacking_program(self.command[0]),
            *lacking_folder(self.folder),
            *missing_variables(self.environment),
        ]


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _placeholders(value: Any) -> tuple[str, ...]:
    if isinstance(value, Template):
        return value.names
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return tuple(name for part in parts for name in _placeholders(part))


def read_mcp_tool(table: ProbeTable) -> McpToolLook:
    """Read the keys of an `mcp_tool` probe.

    Raises:
        ProbeProblem: naming the key.
    """
    command, tool = program_of(table), table.needed("tool")
    if any("{" in word for word in command):
        raise table.problem("command", "it is fixed: placeholders stand in args")
    args = table.take("args")
    if not isinstance(args, dict):
        raise table.problem("args", 'it is a table, such as { query = "{operation}" }')
    args = table.json_template("args", args)
    if not _placeholders(args):
        raise table.problem("args", "it names no operation; a placeholder such as {operation} does")
    reading = read_reading(table)
    if not reading.decides:
        raise table.problem("found", "it is missing: the JSON path that says whether something was found")
    return McpToolLook(
        command=command,
        tool=tool,
        args=args,
        reading=reading,
        environment=table.variables("environment"),
        folder=table.folder("cwd"),
        most_bytes=table.size("most_bytes", default=2**20, most=2**26),
    )
