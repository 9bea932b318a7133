"""Lets a run go on under another model, with a changed tool, and at last under another policy."""

import asyncio
import hashlib
import sys
import tempfile
from copy import deepcopy
from pathlib import Path

from mcp import Client
from outside import Mail

sys.path.append(str(Path(__file__).parents[1]))
from shared.processes import command
from shared.session import call, session, take_up, verb

CONFIGURATION = Path(__file__).parent / "counterfoil.toml"
RUN = "invoices/2026-W48"
PEOPLE = ("alice", "bob", "carol")
FIRST = {
    "model": {"id": "model-a", "version": "2026-09"},
    "policy": {"id": "billing", "version": "7"},
    "tools": [
        {"name": "send_mail", "description": "Sends one mail.", "inputSchema": {"required": ["to"]}},
        {"name": "find_mail", "description": "Finds mails.", "inputSchema": {"required": ["text"]}},
    ],
}
ANOTHER_MODEL = {**deepcopy(FIRST), "model": {"id": "model-b", "version": "2026-11"}}
ANOTHER_MODEL["tools"][0]["description"] = "Sends one mail, or many."
ANOTHER_MODEL["tools"].reverse()  # which is no change
ANOTHER_POLICY = {**deepcopy(ANOTHER_MODEL), "policy": {"id": "billing", "version": "8"}}


def invoice(name: str) -> dict:
    """Give the step of one customer, as the plan and each begin say it."""
    to = f"{name}@example.org"
    return {"key": f"email:{name}", "action": "mail.send", "target": to, "args": {"invoice": 42}}


async def send(client: Client, name: str, context: dict) -> dict:
    """Begin one invoice under a context, send it if that is granted, and give the answer to the begin."""
    step = invoice(name)
    begun = await call(client, "begin_operation", run=RUN, **step, context=context)
    if begun["next"] == "perform":
        done = {"operation": begun["operation"], "attempt": begun["attempt"]}
        receipt = {"kind": "message", "system": "mail", "external_id": mail.send(step["target"])}
        await call(client, "record_receipt", **done, **receipt)
    return begun


def changed(answer: dict) -> dict:
    """Give the class of each component that differs."""
    return {drift["component"]: drift["class"] for drift in answer.get("drift", ())}


def grant(folder: Path, *words: str, secret: Path | None = None) -> bool:
    """Try to permit something, with the operator's secret or with nothing but a shell."""
    code, answer = command(folder, "grant", *words, configuration=CONFIGURATION, secret=secret)
    return code == 0 and answer["granted"]


async def first_session(client: Client) -> None:
    plan = [invoice(name) for name in PEOPLE]
    # A real session keeps the default hold of five minutes; here the next one is not to wait for its end.
    await call(client, "begin_run", run=RUN, workflow="invoices", plan=plan, context=FIRST, lease_seconds=1)
    assert verb(await send(client, "alice", FIRST)) == "perform: first_attempt"


async def under_another_model(client: Client) -> None:
    plan = await call(client, "resume_plan", run=RUN, context=ANOTHER_MODEL)
    assert changed(plan) == {"model": "note", "tools.send_mail": "review"}, plan["drift"]
    [model] = [drift for drift in plan["drift"] if drift["component"] == "model"]
    assert (model["recorded"], model["given"]) == (FIRST["model"], ANOTHER_MODEL["model"])
    assert [step["key"] for step in plan["steps"]] == ["email:bob", "email:carol"]
    unsaid = await call(client, "resume_plan", run=RUN, context={"model": FIRST["model"]})
    assert {drift["given"] for drift in unsaid["drift"]} == {"unknown"}, unsaid["drift"]
    print("another model, a changed tool: each component shown, with both values; the unsaid is unknown")

    assert verb(await send(client, "alice", ANOTHER_MODEL)) == "skip: already_succeeded"
    reason = {"reason": "send_mail only says more clearly what it did before"}
    accepted = await take_up(client, RUN, context=ANOTHER_MODEL, accept_drift=reason, lease_seconds=1)
    assert (accepted["next"], changed(accepted)) == ("continue", {}), accepted
    begun = await send(client, "bob", ANOTHER_MODEL)
    assert (verb(begun), changed(begun)) == ("perform: first_attempt", {}), begun
    print("reviewed and accepted with a reason: what is settled stays settled, the next step is performed")


async def under_another_policy(client: Client, folder: Path) -> None:
    begun = await send(client, "carol", ANOTHER_POLICY)
    assert mail.sent() == ["alice@example.org", "bob@example.org"], "performed under a policy that blocks"
    assert verb(begun) == "ask: drift"
    assert changed(begun) == {"policy": "block"}, begun["drift"]
    assert verb(await send(client, "bob", ANOTHER_POLICY)) == "skip: already_succeeded"
    reason = {"reason": "it will be all right"}
    await take_up(client, RUN, context=ANOTHER_POLICY, accept_drift=reason)
    assert verb(await send(client, "carol", ANOTHER_POLICY)) == "ask: drift", "an agent lifted a block"
    assert not grant(folder, RUN, "email:carol"), "a shell passed for a person"
    print("another policy: nothing new is performed, and no word of the agent changes that")

    secret = folder / "secret"
    secret.write_text("only the person knows this")
    assert hashlib.sha256(secret.read_bytes()).hexdigest() in CONFIGURATION.read_text()
    assert grant(folder, RUN, "email:carol", "--why", "policy 8 allows it too", secret=secret)
    assert verb(await send(client, "carol", ANOTHER_POLICY)) == "perform: first_attempt"
    finished = await call(client, "finish_run", run=RUN, outcome="completed")
    assert verb(finished) == "continue: finished", finished


async def main(folder: Path) -> None:
    configured = ("--config", str(CONFIGURATION))
    async with session(folder, *configured) as client:
        await first_session(client)
    async with session(folder, *configured) as client:
        await under_another_model(client)
        await under_another_policy(client, folder)
    assert mail.sent() == [f"{name}@example.org" for name in PEOPLE], mail.sent()
    print("permitted by the person: 3 invoices, 3 mails")


with tempfile.TemporaryDirectory() as name:
    mail = Mail(Path(name))
    asyncio.run(main(Path(name)))
