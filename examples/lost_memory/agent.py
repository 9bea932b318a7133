"""The agent: `first` plans twelve mails and is killed amid them; `second` knows the workflow's name, no more.

Usage: agent.py FOLDER first|second
"""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

from mcp import Client
from outside import MailServer

sys.path.append(str(Path(__file__).parents[1]))
from shared.session import call, follow, say, session, take_up

WORKFLOW = "price-rise letters"
"""All that the second session has: the first one's plan, texts and names are in the journal only."""


async def first(client: Client) -> None:
    customers = [f"customer-{number:02}" for number in range(1, 13)]
    plan = [
        {
            "key": f"email:{name}:price-rise",
            "action": "mail.send",
            "target": f"{name}@example.org",
            "args": {"subject": "Our prices in 2027"},
            "payload": f"Dear {name}, from January you pay {30 + number} euros.",
            "lookup": {"tool": "mail.find", "instructions": "by idempotency key", "settle_seconds": 1},
        }
        for number, name in enumerate(customers)
    ]
    run = "price-rise/2027-01"
    await call(client, "begin_run", run=run, workflow=WORKFLOW, plan=plan, lease_seconds=2)
    for step in plan[:6]:
        said = {name: value for name, value in step.items() if name not in ("payload", "lookup")}
        begun = await call(client, "begin_operation", run=run, **said, lease_seconds=2)
        effect = {
            **said,
            "payload": begun["recorded"]["payload"],
            "idempotency_key": begun["idempotency_key"],
        }
        receipt = perform(effect)
        if step is plan[5]:
            break
        await call(
            client, "record_receipt", operation=begun["operation"], attempt=begun["attempt"], **receipt
        )
    say("five on record, a sixth just sent")
    sys.stdin.read()  # here it is killed
    sys.exit("nobody killed this agent")


async def second(client: Client) -> None:
    open_runs = (await call(client, "resume_plan"))["runs"]
    [run] = [run["run"] for run in open_runs if run["workflow"] == WORKFLOW]
    say(f"the run is {run}")
    known = await call(client, "find_operations", workflow=WORKFLOW, limit=50)
    done = [operation["key"] for operation in known["operations"] if operation["next"] == "skip"]
    say(f"{len(known['operations'])} operations, {len(done)} of them done")

    resumed = await take_up(client, run)
    pending = {step["key"] for step in resumed["steps"]}
    say(f"{len(pending)} open, {len(pending & set(done))} of the done among them")
    await follow(client, run, perform=perform, look_up=look_up)
    finished = await call(client, "finish_run", run=run, outcome="completed")
    say(finished["reason"])


def perform(effect: Mapping) -> dict:
    """Send a mail, with the idempotency key for its reference, and give the receipt."""
    reference = effect["idempotency_key"]
    subject, body = effect["args"]["subject"], effect["payload"]
    message_id = mail.send(to=effect["target"], subject=subject, body=body, reference=reference)
    return {"kind": "message", "system": "mail", "external_id": message_id}


def look_up(step: Mapping) -> dict | None:
    """Look as the recorded lookup says."""
    assert step["lookup"]["tool"] == "mail.find"
    found = mail.find(step["idempotency_key"])
    return {"kind": "message", "system": "mail", "external_id": found} if found else None


async def main(part: str) -> None:
    async with session(folder) as client:
        await (first if part == "first" else second)(client)


folder = Path(sys.argv[1])
mail = MailServer(folder)
asyncio.run(main(sys.argv[2]))
