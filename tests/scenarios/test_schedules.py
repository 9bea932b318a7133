"""Field reports about schedules: a slot is served once, and a slot that nobody served is not lost."""

import json
from pathlib import Path

import anyio
import pytest

from counterfoil.store.domain.commands import Caller
from journals import AGENT, ANOTHER, FakeClock, open_desk

pytestmark = pytest.mark.anyio

SLOT = "post:2026-11-29T08:00"


async def test_a_slot_that_was_served_is_not_fired_again_by_catching_up(tmp_path: Path) -> None:
    """S-1: fired again twelve hours later, after a restart; a late catch-up of an unserved slot may run."""
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await desk.at(SLOT).begin(action="feed.post", target="weekly")
        await desk.at(SLOT).receipt(kind="record", external_id="post-1")
    clock.advance(43_260)
    async with open_desk(tmp_path, clock=clock) as desk:
        again = await desk.at(SLOT).begin(action="feed.post", target="weekly", caller=ANOTHER)
        assert (again["next"], again["reason"]) == ("skip", "already_succeeded")
        unserved = await desk.at("post:2026-11-22T08:00", run="weekly/2026-W47").begin(
            action="feed.post", target="weekly", caller=ANOTHER
        )
        assert (unserved["next"], unserved["reason"]) == ("perform", "first_attempt")


async def test_two_triggers_of_one_slot_are_one_grant(tmp_path: Path) -> None:
    """S-2: run-on-restart and the schedule fire together."""
    async with open_desk(tmp_path) as desk:
        answers = []

        async def fire(caller: Caller) -> None:
            answers.append(await desk.at(SLOT).begin(caller=caller))

        async with anyio.create_task_group() as tasks:
            for caller in (AGENT, ANOTHER):
                tasks.start_soon(fire, caller)
        assert sorted(answer["next"] for answer in answers) == ["perform", "wait"]


async def test_the_version_of_a_workflow_is_context_and_not_identity(tmp_path: Path) -> None:
    """S-3: versions 11 and 12 fire for the same slot; one acts, and the record says under which version."""
    async with open_desk(tmp_path) as desk:
        old = await desk.at(SLOT).begin(workflow_version="11")
        new = await desk.at(SLOT).begin(workflow_version="12", caller=ANOTHER)
        assert (old["next"], new["next"], new["reason"]) == ("perform", "wait", "lease_held")
        (attempt,) = (await desk.at(SLOT).check())["attempts"]
        assert attempt["workflow_version"] == "11"


async def test_a_step_that_was_declared_and_never_begun_is_not_lost(tmp_path: Path) -> None:
    """S-4: it waits for another step when its process dies; every later plan still lists it."""
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await desk.at("build").begin(action="build")
        waiting = await desk.at("release").begin(action="release", depends_on=("build",))
        assert (waiting["next"], waiting["reason"]) == ("wait", "dependency")
        await desk.at("build").receipt(kind="record", external_id="b-1")
    clock.advance(86_400)
    async with open_desk(tmp_path, clock=clock) as desk:
        plan = await desk.plan(include="open", caller=ANOTHER)
        (step,) = plan["steps"]
        assert (step["key"], step["state"], step["next"]) == ("release", "planned", "begin")
        assert plan["complete"] is False
        assert (await desk.at("release").begin(action="release", caller=ANOTHER))["next"] == "perform"


async def test_thirty_missed_slots_are_thirty_steps_with_their_ages(tmp_path: Path) -> None:
    """S-5: after an outage each slot stands for itself; no words say to run them all."""
    async with open_desk(tmp_path) as desk:
        for slot in range(30):
            await desk.at(f"slot-{slot:02}").begin()
            await desk.at(f"slot-{slot:02}").failure("none", evidence={"reply": "the scheduler was down"})
            desk.clock.advance(60)
        pages = [await desk.plan(caller=ANOTHER)]
        while pages[-1]["cut"]:
            pages.append(await desk.plan(caller=ANOTHER, cursor=pages[-1]["next_cursor"]))
        ages = {step["key"]: step["age_seconds"] for page in pages for step in page["steps"]}
        assert ages == {f"slot-{slot:02}": 60 * (30 - slot) for slot in range(30)}
        assert {step["next"] for page in pages for step in page["steps"]} == {"begin"}
        words = json.dumps([[page["guidance"], page["guidances"]] for page in pages]).lower()
        assert "only a begin_operation that answers perform lets you act" in words
        assert "run all" not in words
