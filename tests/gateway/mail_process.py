"""A mail server as a program: what it sent stands in a file, one line each; a second file says how it fails.

The failure is read at each call: `die` kills the process after the effect, `hang` never answers, `stay` makes
it outlive the end of its stdin.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

folder = Path(sys.argv[1])


async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    schema = {"type": "object", "properties": {"to": {"type": "string"}}}
    read_only = types.ToolAnnotations(read_only_hint=True)
    return types.ListToolsResult(
        tools=[
            types.Tool(name="send_mail", input_schema=schema),
            types.Tool(name="count_mails", input_schema={"type": "object"}, annotations=read_only),
        ]
    )


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    sent = folder / "sent"
    if params.name == "count_mails":
        count = len(sent.read_text().splitlines()) if sent.exists() else 0
        return types.CallToolResult(content=[types.TextContent(type="text", text=str(count))])
    with sent.open("a") as file:
        file.write(json.dumps(params.arguments) + "\n")
    failure = folder / "failure"
    how = failure.read_text() if failure.exists() else ""
    if how == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "hang":
        await anyio.sleep_forever()
    return types.CallToolResult(content=[types.TextContent(type="text", text="sent")])


async def main() -> None:
    (folder / "pid").write_text(str(os.getpid()))
    server: Server[Any] = Server("mail", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
    while (folder / "failure").exists() and (folder / "failure").read_text() == "stay":
        time.sleep(0.05)  # noqa: ASYNC251 - nothing else is left to run


if __name__ == "__main__":
    anyio.run(main)
