"""The server that `bench/gateway.py` stands a gateway before: one tool acts, one reads, both take a while."""

import sys
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

WORK_SECONDS = float(sys.argv[1]) / 1_000


async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    """List the two."""
    schema = {"type": "object", "properties": {"to": {"type": "string"}, "body": {"type": "string"}}}
    reads = types.ToolAnnotations(read_only_hint=True)
    return types.ListToolsResult(
        tools=[
            types.Tool(name="send", input_schema=schema),
            types.Tool(name="read", input_schema=schema, annotations=reads),
        ]
    )


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    """Work for a while and answer."""
    if WORK_SECONDS:
        await anyio.sleep(WORK_SECONDS)
    return types.CallToolResult(content=[types.TextContent(type="text", text="done")])


async def main() -> None:
    """Serve over stdio."""
    server: Server[Any] = Server("working", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


anyio.run(main)
