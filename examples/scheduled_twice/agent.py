"""What cron starts: `agent.py FOLDER fire SLOT` for one slot, `agent.py FOLDER catch-up` after an outage.

With a third word, `fire` stops in the middle of the job until somebody types a line.
"""

import asyncio
import sys
from pathlib import Path

from mcp import Client
from outside import Feed

sys.path.append(str(Path(__file__).parents[1]))
from shared.session import call, say, session, verb

FOLLOWING = {"2026-11-29T02:00Z": "2026-11-30T02:00Z"}
"""The slot after a slot, as the schedule has it."""


def of_slot(slot: str) -> dict:
    """Say which run a slot is, and what is intended in it: the same words in every session."""
    return {
        "run": f"night-report/{slot}",
        "workflow": "night-report",
        "schedule": {"name": "night-report", "occurrence": slot},
        "plan": [{"key": "post:report", "action": "feed.post", "target": f"report of {slot}"}],
    }


async def fire(client: Client, slot: str, *, stops_in_the_middle: bool = False) -> None:
    begun = await call(client, "begin_run", **of_slot(slot), holder="the firing that came first")
    say(f"{slot}: {verb(begun)}")
    if "held_by" in begun:
        # An agent stops here. This one goes on, to show that the operation is guarded as well.
        say(f"held by {begun['held_by']}")
    if begun["next"] == "skip":
        return
    if slot in FOLLOWING:
        # The journal knows of a slot only what somebody said. It is held for a moment only: to declare
        # work is not to be at it.
        await call(client, "begin_run", **of_slot(FOLLOWING[slot]), lease_seconds=0.1)
    step = {"run": f"night-report/{slot}", "key": "post:report"}
    answer = await call(
        client, "begin_operation", **step, action="feed.post", target=f"report of {slot}", payload="All well."
    )
    say(f"post:report: {verb(answer)}")
    if answer["next"] != "perform":
        return
    if stops_in_the_middle:
        sys.stdin.readline()
    number = feed.post(title=f"report of {slot}", text="All well.")
    receipt = {"kind": "record", "system": "feed", "external_id": number}
    await call(client, "record_receipt", **step, attempt=answer["attempt"], **receipt)
    finished = await call(client, "finish_run", run=f"night-report/{slot}", outcome="completed")
    say(f"{slot}: {verb(finished)}")


async def catch_up(client: Client) -> None:
    """Fire what was due, as schedulers do after a restart, and serve what the journal shows as missed."""
    await fire(client, "2026-11-29T02:00Z")
    missed = (await call(client, "resume_plan"))["runs"]
    for run in missed:
        slot = run["schedule"]["occurrence"]
        say(f"missed: {slot}, {run['counts']['planned']} planned, age {run['age_seconds']}")
        await fire(client, slot)
        await fire(client, slot)
    after = await call(client, "resume_plan")
    say(f"missed now: {len(after['runs'])}")


async def main(word: str, slot: str = "", stop: str = "") -> None:
    async with session(folder) as client:
        if word == "fire":
            await fire(client, slot, stops_in_the_middle=bool(stop))
        else:
            await catch_up(client)


folder = Path(sys.argv[1])
feed = Feed(folder)
asyncio.run(main(*sys.argv[2:]))
