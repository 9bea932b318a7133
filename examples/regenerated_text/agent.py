"""The agent: `first` posts its letter and is killed; `second` writes the letter anew, under another name.

Usage: agent.py FOLDER first|second
"""

import asyncio
import sys
from pathlib import Path

from mcp import Client
from outside import PostOffice

sys.path.append(str(Path(__file__).parents[1]))
from shared.session import call, say, session, verb, wait_until

RUN = "apologies/2026-W48"
LETTER = {
    "action": "letter.post",
    "target": "Alice Example, 1 Main Street",
    "args": {"about": "late delivery of order 77"},
    "repeat": "keyed",
    "key_ttl_seconds": 86_400,
    "lease_seconds": 2,
}


async def first(client: Client) -> None:
    text = "Dear Alice, we are sorry that order 77 came late."
    granted = await call(
        client, "begin_operation", run=RUN, key="letter:alice:late-delivery", payload=text, **LETTER
    )
    assert granted["next"] == "perform", granted
    post_office.post(to=LETTER["target"], text=text, key=granted["idempotency_key"])
    say("the letter is posted")
    sys.stdin.read()  # here it is killed
    sys.exit("nobody killed this agent")


async def second(client: Client) -> None:
    key, text = "apology-letter-alice", "Hello Alice, please forgive the delay of order 77!"
    while True:
        answer = await call(client, "begin_operation", run=RUN, key=key, payload=text, **LETTER)
        say(f"{key}: {verb(answer)}")
        match answer["next"], answer["reason"]:
            case "perform", _:
                break
            case "stop", "possible_duplicate":
                # It is the same letter: the recorded key stands for it.
                key = answer["duplicates"][0]["key"]
            case "wait", _:
                await wait_until(answer["retry_at"])
            case other:
                sys.exit(f"this story has no {other}")
    for warning in answer["warnings"]:
        say(f"warned: {warning}")
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
    say(f"{key}: ended {settled['state']}")
    plan = await call(client, "resume_plan", run=RUN, include="all")
    say(f"operations in the run: {len(plan['steps'])}")


async def main(part: str) -> None:
    async with session(folder) as client:
        await (first if part == "first" else second)(client)


folder = Path(sys.argv[1])
post_office = PostOffice(folder / "post")
asyncio.run(main(sys.argv[2]))
