"""The agent: it begins one release, performs it if it is told to, and says what it was answered.

Usage: agent.py JOURNAL CONFIGURATION HOSTING
"""

import asyncio
import os
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters
from outside import Closed, Hosting

RUN, KEY = "release/shop-1.4", "deploy:shop"


async def call(client: Client, tool: str, **arguments: object) -> dict:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


async def main(client: Client) -> None:
    begun = await call(
        client,
        "begin_operation",
        run=RUN,
        key=KEY,
        action="deploy.release",
        target="shop.example.org",
        args={"version": "1.4"},
        lookup={"tool": "hosting.releases"},
    )
    print(f"{begun['next']}: {begun['reason']}")
    if begun["next"] == "ask":
        asked = await call(client, "request_authority", operation=begun["operation"], why="1.4 is tested")
        print(asked["request"])
        return
    if begun["next"] != "perform":
        return
    done = {"operation": begun["operation"], "attempt": begun["attempt"]}
    try:
        number = hosting.release("1.4")
    except Closed:
        refused = {"effect": "none", "error": "the service is closed", "evidence": {"status": 423}}
        answer = await call(client, "record_failure", **done, **refused)
    else:
        receipt = {"kind": "release", "system": "hosting", "external_id": number}
        answer = await call(client, "record_receipt", **done, **receipt)
    print(answer["state"])


async def connect() -> None:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "counterfoil.server", "serve", "--journal", journal, "--config", configuration],
        env=dict(os.environ),
    )
    async with Client(server, read_timeout_seconds=30) as client:
        await main(client)


journal, configuration, folder = sys.argv[1:]
hosting = Hosting(Path(folder))
asyncio.run(connect())
