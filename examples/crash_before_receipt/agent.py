"""The agent: `first` begins and performs and is killed; `second` knows the run's name and follows the plan.

Usage: agent.py FOLDER first|second PROCESSOR_URL
"""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

from mcp import Client
from outside import Spool, charge_card

sys.path.append(str(Path(__file__).parents[1]))
from shared.session import call, follow, say, session

RUN = "settle/invoice-42"
LEASE_SECONDS = 2


def perform(effect: Mapping) -> dict:
    """Carry out an effect under its idempotency key, and give the receipt."""
    key, args = effect["idempotency_key"], effect["args"]
    if effect["action"] == "mail.send":
        body = effect["payload"]
        message_id = spool.send(to=effect["target"], subject=args["subject"], body=body, key=key)
        return {"kind": "message", "system": "spool", "external_id": message_id}
    charge = charge_card(processor_url, customer=effect["target"], cents=args["cents"], key=key)
    return {"kind": "transaction", "system": "processor", "external_id": charge}


def look_up(step: Mapping) -> dict | None:
    """Look as the recorded lookup says."""
    assert step["lookup"]["tool"] == "spool.find"
    message_id = spool.find(key=step["idempotency_key"])
    return {"kind": "message", "system": "spool", "external_id": message_id} if message_id else None


async def first(client: Client) -> None:
    mail = {
        "action": "mail.send",
        "target": "alice@example.org",
        "args": {"subject": "Invoice 42"},
        "payload": "Dear Alice, your card is charged for invoice 42.",
    }
    charge = {"action": "card.charge", "target": "customer-alice", "args": {"cents": 4200}}
    mail_granted = await call(
        client,
        "begin_operation",
        run=RUN,
        key="mail:alice:invoice-42",
        lookup={"tool": "spool.find", "instructions": "by idempotency key", "settle_seconds": 1},
        lease_seconds=LEASE_SECONDS,
        **mail,
    )
    charge_granted = await call(
        client,
        "begin_operation",
        run=RUN,
        key="charge:alice:invoice-42",
        repeat="keyed",
        key_ttl_seconds=86_400,
        lease_seconds=LEASE_SECONDS,
        **charge,
    )
    for granted, effect in ((mail_granted, mail), (charge_granted, charge)):
        assert granted["next"] == "perform", granted
        perform({**effect, "idempotency_key": granted["idempotency_key"]})
    say("both effects took place")
    sys.stdin.read()  # here it is killed
    sys.exit("nobody killed this agent")


async def second(client: Client) -> None:
    await follow(client, RUN, perform=perform, look_up=look_up)
    everything = await call(client, "resume_plan", run=RUN, include="all")
    for step in everything["steps"]:
        say(f"{step['key']}: ended {step['state']}")


async def main(folder: Path, part: str) -> None:
    async with session(folder) as client:
        await (first if part == "first" else second)(client)


folder, part, processor_url = Path(sys.argv[1]), *sys.argv[2:]
spool = Spool(folder / "spool")
asyncio.run(main(folder, part))
