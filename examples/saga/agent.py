"""The agent: `first` books a trip, fails, and is killed while it undoes; `second` follows the plan.

Usage: agent.py FOLDER first|second
"""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

from mcp import Client
from outside import Office, SoldOut

sys.path.append(str(Path(__file__).parents[1]))
from shared.session import call, follow, say, session, take_up, verb

RUN = "trip/alice-2027-02"
LOOKUP = {"tool": "office.find", "instructions": "by idempotency key", "settle_seconds": 1}
LEASE_SECONDS = 2


def booking(what: str) -> dict:
    return {"key": f"book:{what}", "action": "trip.book", "target": what, "lookup": LOOKUP}


def undoing(what: str) -> dict:
    return {"key": f"undo:{what}", "action": "trip.cancel", "target": what, "lookup": LOOKUP}


async def begin(client: Client, step: Mapping, **terms: object) -> dict:
    begun = await call(client, "begin_operation", run=RUN, **step, **terms, lease_seconds=LEASE_SECONDS)
    say(f"{step['key']}: {verb(begun)}")
    return begun


async def first(client: Client) -> None:
    trip = [booking(what) for what in ("flight", "hotel", "car")]
    await call(client, "begin_run", run=RUN, workflow="trip", plan=trip, lease_seconds=LEASE_SECONDS)
    for step in trip:
        begun = await begin(client, step)
        done = {"operation": begun["operation"], "attempt": begun["attempt"]}
        try:
            receipt = perform({**step, "idempotency_key": begun["idempotency_key"]})
        except SoldOut:
            refused = {"effect": "none", "error": "sold out", "evidence": {"status": 410}, "retryable": False}
            await call(client, "record_failure", **done, **refused)
        else:
            await call(client, "record_receipt", **done, **receipt)
    await begin(client, booking("car"))
    await call(
        client, "close_operation", run=RUN, key="book:car", outcome="cancelled", reason="there is no car"
    )
    # What is to be undone goes into the plan before any of it is: whoever resumes finds it there.
    undo = [undoing("hotel"), {**undoing("flight"), "depends_on": ["undo:hotel"]}]
    await call(client, "begin_run", run=RUN, plan=undo, lease_seconds=LEASE_SECONDS)
    begun = await begin(client, undoing("hotel"), compensates=await operation_of(client, "book:hotel"))
    perform({**undoing("hotel"), "idempotency_key": begun["idempotency_key"]})
    say("the hotel is cancelled")
    sys.stdin.read()  # here it is killed
    sys.exit("nobody killed this agent")


async def second(client: Client) -> None:
    await take_up(client, RUN)
    # What an undoing undoes is what its key says; to name it twice does no harm.
    terms = {
        f"undo:{what}": {"compensates": await operation_of(client, f"book:{what}")}
        for what in ("hotel", "flight")
    }
    await follow(client, RUN, perform=perform, look_up=look_up, terms=terms)
    everything = await call(client, "resume_plan", run=RUN, include="all")
    for step in everything["steps"]:
        say(f"{step['key']}: ended {step['state']}")
    again = await begin(client, undoing("flight"), compensates=await operation_of(client, "book:flight"))
    assert again["next"] == "skip", again
    finished = await call(client, "finish_run", run=RUN, outcome="cancelled", reason="no car: all is undone")
    say(f"{RUN}: {verb(finished)}")


async def operation_of(client: Client, key: str) -> str:
    return (await call(client, "check_operation", run=RUN, key=key))["operation"]


def perform(effect: Mapping) -> dict:
    """Book or cancel, with the idempotency key for a reference, and give the receipt."""
    do = office.book if effect["action"] == "trip.book" else office.cancel
    number = do(effect["target"], reference=effect["idempotency_key"])
    return {"kind": "transaction", "system": "office", "external_id": number}


def look_up(step: Mapping) -> dict | None:
    """Look as the recorded lookup says."""
    assert step["lookup"]["tool"] == "office.find"
    number = office.find(step["idempotency_key"])
    return {"kind": "transaction", "system": "office", "external_id": number} if number else None


async def main(part: str) -> None:
    async with session(folder) as client:
        await (first if part == "first" else second)(client)


folder = Path(sys.argv[1])
office = Office(folder)
asyncio.run(main(sys.argv[2]))
