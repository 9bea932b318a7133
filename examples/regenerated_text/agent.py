"""The agent: `first` posts its letter and is killed; `second` writes the letter anew, under another name.

Usage: agent.py first|second JOURNAL POST_OFFICE
"""

import asyncio
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from mcp import Client, StdioServerParameters
from outside import PostOffice

RUN = "apologies/2026-W48"
LETTER = {
    "action": "letter.post",
    "target": "Alice Example, 1 Main Street",
    "args": {"about": "late delivery of order 77"},
    "repeat": "keyed",
    "key_ttl_seconds": 86_400,
    "lease_seconds": 2,
}


async def call(client: Client, tool: str, **arguments: object) -> dict:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


async def first(client: Client) -> None:
    text = "Dear Alice, we are sorry that order 77 came late."
    granted = await call(
        client, "begin_operation", run=RUN, key="letter:alice:late-delivery", payload=text, **LETTER
    )
    assert granted["next"] == "perform", granted
    post_office.post(to=LETTER["target"], text=text, key=granted["idempotency_key"])
    print("the letter is posted", flush=True)
    sys.stdin.read()  # here it is killed
    sys.exit("nobody killed this agent")


async def second(client: Client) -> None:
    key, text = "apology-letter-alice", "Hello Alice, please forgive the delay of order 77!"
    while True:
        answer = await call(client, "begin_operation", run=RUN, key=key, payload=text, **LETTER)
        print(f"{key}: {answer['next']} ({answer['reason']})", flush=True)
        match answer["next"], answer["reason"]:
            case "perform", _:
                break
            case "stop", "possible_duplicate":
                # It is the same letter: the recorded key stands for it.
                key = answer["duplicates"][0]["key"]
            case "wait", _:
                moment = datetime.fromisoformat(answer["retry_at"])
                await asyncio.sleep(max(0.0, (moment - datetime.now(UTC)).total_seconds()))
            case other:
                sys.exit(f"this story has no {other}")
    for warning in answer["warnings"]:
        print(f"warned: {warning}", flush=True)
    recorded = answer["recorded"]["payload"]
    number = post_office.post(to=LETTER["target"], text=recorded, key=answer["idempotency_key"])
    settled = await call(
        client,
        "record_receipt",
        operation=answer["operation"],
        attempt=answer["attempt"],
        kind="message",
        system="post office",
        external_id=number,
    )
    print(f"{key}: ended {settled['state']}", flush=True)
    plan = await call(client, "resume_plan", run=RUN, include="all")
    print(f"operations in the run: {len(plan['steps'])}", flush=True)


async def main() -> None:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "counterfoil.server", "serve", "--journal", f"sqlite:///{journal}"],
        env=dict(os.environ),
    )
    async with Client(server, read_timeout_seconds=30) as client:
        await (first if part == "first" else second)(client)


part, journal, folder = sys.argv[1:]
post_office = PostOffice(Path(folder))
asyncio.run(main())
