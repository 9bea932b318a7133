"""The agent: `first` begins and performs and is killed; `second` knows the run's name and follows the plan.

Usage: agent.py first|second JOURNAL SPOOL PROCESSOR_URL
"""

import asyncio
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from mcp import Client, StdioServerParameters
from outside import Spool, charge_card

RUN = "settle/invoice-42"
LEASE_SECONDS = 2


async def call(client: Client, tool: str, **arguments: object) -> dict:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


def perform(action: str, target: str, args: dict, payload: str | None, key: str) -> dict:
    """Carry out an effect under its idempotency key, and give the receipt."""
    if action == "mail.send":
        message_id = spool.send(to=target, subject=args["subject"], body=payload or "", key=key)
        return {"kind": "message", "system": "spool", "external_id": message_id}
    charge = charge_card(processor_url, customer=target, cents=args["cents"], key=key)
    return {"kind": "transaction", "system": "processor", "external_id": charge}


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
        key = granted["idempotency_key"]
        perform(effect["action"], effect["target"], effect["args"], effect.get("payload"), key)
    print("both effects took place", flush=True)
    sys.stdin.read()  # here it is killed
    sys.exit("nobody killed this agent")


async def second(client: Client, run: str) -> None:
    while steps := (plan := await call(client, "resume_plan", run=run))["steps"]:
        for step in steps:
            print(f"{step['key']}: {step['next']} ({step['reason']})", flush=True)
            match step["next"]:
                case "reconcile":
                    await look_up(client, step, plan["as_of"])
                case "begin":
                    await repeat(client, run, step)
                case "wait":
                    moment = datetime.fromisoformat(step["retry_at"])
                    await asyncio.sleep(max(0.0, (moment - datetime.now(UTC)).total_seconds()))
                case other:
                    sys.exit(f"{step['key']}: this story has no {other}")
    everything = await call(client, "resume_plan", run=run, include="all")
    for step in everything["steps"]:
        print(f"{step['key']}: ended {step['state']}", flush=True)


async def look_up(client: Client, step: dict, as_of: str) -> None:
    """Look as the recorded lookup says, and report what was found."""
    assert step["lookup"]["tool"] == "spool.find"
    message_id = spool.find(key=step["idempotency_key"])
    found = {"kind": "message", "system": "spool", "external_id": message_id}
    answer = await call(
        client,
        "reconcile_operation",
        operation=step["operation"],
        finding="performed" if message_id else "not_performed",
        checked_with=f"spool.find {step['idempotency_key']}",
        as_of=as_of,
        **(found if message_id else {}),
    )
    if answer["next"] == "wait":
        moment = datetime.fromisoformat(answer["retry_at"])
        await asyncio.sleep(max(0.0, (moment - datetime.now(UTC)).total_seconds()))


async def repeat(client: Client, run: str, step: dict) -> None:
    """Begin a step with what is on record of it, perform it if granted, and hand in the receipt."""
    args = json.loads(
        (await call(client, "check_operation", operation=step["operation"], detail="args"))["content"]
    )
    body = await call(client, "check_operation", operation=step["operation"], detail="payload")
    payload = {"payload": body["content"]} if body["recorded"] else {}
    answer = await call(
        client,
        "begin_operation",
        run=run,
        key=step["key"],
        action=step["action"],
        target=step["target"],
        args=args,
        **payload,
    )
    print(f"{step['key']}: begun again, {answer['next']} ({answer['reason']})", flush=True)
    if answer["next"] == "perform":
        receipt = perform(
            step["action"], step["target"], args, payload.get("payload"), answer["idempotency_key"]
        )
        await call(
            client,
            "record_receipt",
            operation=answer["operation"],
            attempt=answer["attempt"],
            **receipt,
        )


async def main() -> None:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "counterfoil.server", "serve", "--journal", f"sqlite:///{journal}"],
        env=dict(os.environ),
    )
    async with Client(server, read_timeout_seconds=30) as client:
        if part == "first":
            await first(client)
        else:
            await second(client, RUN)


part, journal, spool_path, processor_url = sys.argv[1:]
spool = Spool(Path(spool_path))
asyncio.run(main())
