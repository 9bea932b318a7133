"""The agent: it begins one release, performs it if it is told to, and says what it was answered.

Usage: agent.py FOLDER CONFIGURATION
"""

import asyncio
import sys
from pathlib import Path

from mcp import Client
from outside import Closed, Hosting

sys.path.append(str(Path(__file__).parents[1]))
from shared.session import call, session, verb

RUN, KEY = "release/shop-1.4", "deploy:shop"


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
    print(verb(begun))
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
    async with session(folder, "--config", configuration) as client:
        await main(client)


folder, configuration = Path(sys.argv[1]), sys.argv[2]
hosting = Hosting(folder)
asyncio.run(connect())
