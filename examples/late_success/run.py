"""Gives a call up as timed out, and lets the provider make it afterwards."""

import asyncio
import sys
import tempfile
from pathlib import Path

from mcp import Client
from outside import Telephony

sys.path.append(str(Path(__file__).parents[1]))
from shared.session import call, session, take_up, verb

RUN, KEY = "reminders/2026-11-29", "call:alice:dentist"
STEP = {"run": RUN, "key": KEY}


async def place(client: Client) -> dict:
    """Begin the call, order it if that is granted, and give the answer to the begin."""
    begun = await call(
        client,
        "begin_operation",
        **STEP,
        action="phone.call",
        target="+1-555-0100",
        args={"about": "dentist, Monday 9:00"},
        lookup={"tool": "telephony.call_of", "instructions": "by the id of the order"},
    )
    if begun["next"] == "perform":
        order = telephony.order("+1-555-0100")
        accepted = {"kind": "other", "system": "telephony", "external_id": order, "final": False}
        await call(client, "record_receipt", **STEP, attempt=begun["attempt"], **accepted)
    return begun


async def patience_ends(client: Client) -> None:
    await call(client, "begin_run", run=RUN, workflow="reminders", lease_seconds=1)
    assert verb(await place(client)) == "perform: first_attempt"
    waiting = await call(client, "check_operation", **STEP)
    assert (waiting["state"], telephony.call_of("order-1")) == ("in_progress", None), "accepted is not done"
    given_up = {"outcome": "timed_out", "reason": "still queued after 4 minutes"}
    closed = await call(client, "close_operation", **STEP, attempt=1, **given_up)
    assert (verb(closed), closed["state"]) == ("continue: recorded", "timed_out"), closed
    print("ordered, accepted, never heard of again: given up as timed_out, without evidence")


async def late_success(client: Client) -> None:
    await take_up(client, RUN)
    begun = await place(client)
    telephony.make_the_calls()
    assert len(telephony.calls()) == 1, f"{len(telephony.calls())} calls, not 1"
    assert verb(begun) == "skip: timed_out", begun
    print("a later session does not order it anew; the provider makes the call after all")

    done = {"kind": "other", "system": "telephony", "external_id": telephony.call_of("order-1")}
    late = await call(client, "record_receipt", **STEP, **done)
    assert (verb(late), late["state"]) == ("reconcile: disputed", "disputed"), late
    assert verb(await place(client)) == "reconcile: disputed"
    refused = await call(client, "finish_run", run=RUN, outcome="completed")
    assert (verb(refused), refused["unmet"][0]["state"]) == ("stop: unmet", "disputed"), refused
    print("its receipt is kept and turns nothing over: disputed, until somebody looks")

    looked = await call(client, "check_operation", **STEP)
    found = {**done, "external_id": telephony.call_of("order-1")}
    settled = await call(
        client,
        "reconcile_operation",
        **STEP,
        finding="performed",
        checked_with="telephony.call_of order-1",
        as_of=looked["as_of"],
        **found,
    )
    assert (verb(settled), settled["state"]) == ("continue: recorded", "succeeded"), settled
    assert verb(await place(client)) == "skip: already_succeeded"
    assert verb(await call(client, "finish_run", run=RUN, outcome="completed")) == "continue: finished"


async def all_is_kept(client: Client) -> None:
    """See that the order, the giving up and the late call all stand in the history, in their order."""
    full = await call(client, "check_operation", **STEP, detail="full")
    told = [entry["event"] for entry in full["history"]]
    order = ["attempt_granted", "receipt_recorded", "decided", "receipt_recorded", "finding_recorded"]
    assert [event for event in told if event in order] == order, told
    assert {receipt["external_id"] for receipt in full["receipts"]} == {"order-1", "call-1"}, full["receipts"]


async def main(folder: Path) -> None:
    async with session(folder) as client:
        await patience_ends(client)
    async with session(folder) as client:
        await late_success(client)
        await all_is_kept(client)
    print("looked up and reconciled: 1 call")


with tempfile.TemporaryDirectory() as name:
    telephony = Telephony(Path(name))
    asyncio.run(main(Path(name)))
