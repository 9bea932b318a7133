"""Field reports about schedules: a slot is served once, and a slot that nobody served is not lost."""

import json
import signal
from pathlib import Path

import anyio
import pytest

from counterfoil.store.domain.commands import Caller
from journals import AGENT, ANOTHER, FakeClock, open_desk
from scenarios.servers import Server
from scenarios.tools import call_tool

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]

SLOT = "post:2026-11-29T08:00"


async def test_a_slot_that_was_served_is_not_fired_again_by_catching_up(tmp_path: Path) -> None:
    """S-1: fired again twelve hours later, after a restart; a late catch-up of an unserved slot may run.

    Reported: NousResearch/hermes-agent#104312, NousResearch/hermes-agent#68211.
    """
    clock = FakeClock()
    effect = {"action": "feed.post", "target": "weekly"}
    served, missed = (
        {"run": f"weekly/{slot}", "schedule": {"name": "weekly", "occurrence": f"{slot}T08:00Z"}}
        for slot in ("2026-11-29", "2026-11-22")
    )
    async with open_desk(tmp_path, clock=clock) as desk:
        await call_tool(desk.journal, "begin_run", **served)
        post = desk.at("post", run=served["run"])
        await post.begin(**effect)
        await post.receipt(kind="record", external_id="post-1")
        await call_tool(desk.journal, "finish_run", run=served["run"], outcome="completed")
    clock.advance(43_260)
    async with open_desk(tmp_path, clock=clock) as desk:
        over = await call_tool(desk.journal, "begin_run", **served, connection="connection-2")
        assert (over["next"], over["reason"]) == ("skip", "already_succeeded")
        post = desk.at("post", run=served["run"])
        again = await post.begin(caller=ANOTHER, **effect)
        assert (again["next"], again["reason"]) == ("skip", "already_succeeded")
        assert [receipt["external_id"] for receipt in again["receipts"]] == ["post-1"]
        assert (await post.check())["attempts_in_all"] == 1
        late = await call_tool(desk.journal, "begin_run", **missed, connection="connection-2")
        assert (late["next"], late["reason"]) == ("continue", "started")
        unserved = await desk.at("post", run=missed["run"]).begin(caller=ANOTHER, **effect)
        assert (unserved["next"], unserved["reason"], unserved["attempt"]) == ("perform", "first_attempt", 1)


async def test_two_triggers_of_one_slot_are_one_grant(tmp_path: Path) -> None:
    """S-2: run-on-restart and the schedule fire together.

    Reported: huggingface/agent-manager#97.
    """
    async with open_desk(tmp_path) as desk:
        answers = []

        async def fire(caller: Caller) -> None:
            answers.append(await desk.at(SLOT).begin(caller=caller))

        async with anyio.create_task_group() as tasks:
            for caller in (AGENT, ANOTHER):
                tasks.start_soon(fire, caller)
        assert sorted((answer["next"], answer["reason"]) for answer in answers) == [
            ("perform", "first_attempt"),
            ("wait", "lease_held"),
        ]
        assert len({answer["operation"] for answer in answers}) == 1
        check = await desk.at(SLOT).check()
        assert (check["attempts_in_all"], check["state"]) == (1, "in_progress")


async def test_the_version_of_a_workflow_is_context_and_not_identity(tmp_path: Path) -> None:
    """S-3: versions 11 and 12 fire for the same slot; one acts, the other waits and is told what differs.

    Reported: n8n-io/n8n#30607, n8n-io/n8n#10836, n8n-io/n8n#7045.
    """
    async with open_desk(tmp_path) as desk:
        old = await desk.at(SLOT).begin(workflow_version="11")
        new = await desk.at(SLOT).begin(workflow_version="12", caller=ANOTHER)
        assert (old["next"], new["next"], new["reason"]) == ("perform", "wait", "lease_held")
        assert old["operation"] == new["operation"]
        assert "drift" not in old
        assert new["drift"] == [
            {"component": "workflow_version", "recorded": "11", "given": "12", "class": "review"}
        ]
        (attempt,) = (await desk.at(SLOT).check())["attempts"]
        assert attempt["workflow_version"] == "11"


def test_a_declared_slot_outlives_the_process_that_declared_it(tmp_path: Path) -> None:
    """S-4: the schedule was advanced and the process killed before anything was begun.

    Reported: NousResearch/hermes-agent#108945.
    """
    plan = [{"key": "post", "action": "feed.post", "target": "weekly"}]
    slot = {"run": "weekly/2026-12-06", "schedule": {"name": "weekly", "occurrence": "2026-12-06T08:00Z"}}
    with Server(tmp_path).start() as server:
        assert server.call("begin_run", **slot, plan=plan, lease_seconds=1)["reason"] == "started"
        server.end_by(signal.SIGKILL)
    with Server(tmp_path).start() as server:
        (run,) = server.call("resume_plan")["runs"]
        assert (run["run"], run["counts"]) == (slot["run"], {"planned": 1})
        (step,) = server.call("resume_plan", run=slot["run"])["steps"]
        assert (step["key"], step["state"], step["next"], step["reason"]) == (
            "post",
            "planned",
            "begin",
            "first_attempt",
        )
        begun = server.call("begin_operation", run=slot["run"], **plan[0])
        assert (begun["next"], begun["attempt"]) == ("perform", 1)


async def test_a_step_that_was_declared_and_never_begun_is_not_lost(tmp_path: Path) -> None:
    """S-4: it waits for another step when its process dies; every later plan still lists it.

    Reported: NousResearch/hermes-agent#108945.
    """
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
        begun = await desk.at("release").begin(action="release", caller=ANOTHER)
        assert (begun["next"], begun["reason"], begun["attempt"]) == ("perform", "first_attempt", 1)


async def test_thirty_missed_slots_are_thirty_runs_with_their_ages(tmp_path: Path) -> None:
    """S-5: after an outage each slot stands for itself; no words say to run them all.

    Reported: NousResearch/hermes-agent#106255.
    """
    async with open_desk(tmp_path) as desk:
        for number in range(30):
            slot = {"name": "hourly", "occurrence": f"2026-11-28T{number:02}"}
            step = {"key": "post", "action": "feed.post", "target": "hourly"}
            run = f"hourly/{number:02}"
            await call_tool(desk.journal, "begin_run", run=run, schedule=slot, plan=[step], lease_seconds=1)
            desk.clock.advance(60)
        pages = [await call_tool(desk.journal, "resume_plan", limit=12)]
        while pages[-1]["cut"]:
            cursor = pages[-1]["next_cursor"]
            pages.append(await call_tool(desk.journal, "resume_plan", limit=12, cursor=cursor))
        runs = [run for page in pages for run in page["runs"]]
        assert {run["schedule"]["occurrence"]: run["age_seconds"] for run in runs} == {
            f"2026-11-28T{number:02}": 60 * (30 - number) for number in range(30)
        }
        assert len(runs) == 30
        assert [run["counts"] for run in runs] == [{"planned": 1}] * 30
        oldest = await call_tool(desk.journal, "resume_plan", run="hourly/00")
        (listed,) = oldest["steps"]
        assert (listed["next"], listed["age_seconds"]) == ("begin", 1_800)
        words = json.dumps([[page["guidance"], page.get("guidances")] for page in (*pages, oldest)]).lower()
        assert "only a begin_operation that answers perform lets you act" in words
        assert " all " not in words
