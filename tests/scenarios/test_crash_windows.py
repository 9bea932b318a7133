"""Field reports about crash windows: what a session that died leaves, and what the next one is told.

The kills themselves (C-1, C-2) are in `tests/crash`; here time passes and another session comes.
"""

from pathlib import Path
from typing import Any

import pytest

from counterfoil.store.domain.commands import Lookup, ResumePlan
from journals import AGENT, ANOTHER, PERSON, Desk, FakeClock, open_desk
from scenarios.tools import call_tool

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]

LOOKUP = Lookup(tool="mail.search", settle_seconds=0)
AFTER_THE_LEASE = 301


async def test_a_bare_claim_is_never_taken_for_a_result(tmp_path: Path) -> None:
    """C-3: begun, then dead before the effect; held, and saying that it was done does not settle it.

    Reported: crewAIInc/crewAI#5802, crewAIInc/crewAI#5822.
    """
    async with open_desk(tmp_path) as desk:
        await desk.begin(lookup=LOOKUP)
        desk.clock.advance(AFTER_THE_LEASE)
        begun = await desk.begin(caller=ANOTHER)
        assert (begun["state"], begun["next"]) == ("in_doubt", "reconcile")
        said = await desk.receipt(external_id=None, evidence={"note": "done"}, caller=ANOTHER)
        assert (said["state"], said["reason"]) == ("in_doubt", "receipt_too_weak")
        again = await desk.begin(caller=ANOTHER)
        assert (again["state"], again["next"], again["reason"]) == ("in_doubt", "reconcile", "in_doubt")
        check = await desk.check()
        assert check["attempts_in_all"] == 1
        assert [receipt["accepted"] for receipt in check["receipts"]] == [False]


async def test_a_step_killed_before_its_receipt_is_granted_once(tmp_path: Path) -> None:
    """C-4: three sessions, each killed at the limit; one grant, no receipt, and never a second mail.

    Reported: recoupable/app#1918.
    """
    async with open_desk(tmp_path) as desk:
        answers = []
        for _ in range(3):
            answers.append(await desk.begin(lookup=LOOKUP))
            desk.clock.advance(AFTER_THE_LEASE)
        assert [answer["next"] for answer in answers] == ["perform", "reconcile", "reconcile"]
        check = await desk.check()
        assert (check["attempts_in_all"], check["state"]) == (1, "in_doubt")
        assert "receipts" not in check


async def test_a_replay_from_the_top_finds_the_finished_steps_with_their_receipts(tmp_path: Path) -> None:
    """C-5: A and B are done; the workflow starts again and does C only.

    Reported: langchain-ai/langgraph#7780, rancher/rancher-ai-agent#136.
    """
    async with open_desk(tmp_path) as desk:
        for key in "AB":
            await desk.at(key).begin()
            await desk.at(key).receipt(external_id=f"m-{key}")
        for key in "AB":
            again = await desk.at(key).begin(caller=ANOTHER)
            assert (again["next"], again["reason"]) == ("skip", "already_succeeded")
            assert [receipt["external_id"] for receipt in again["receipts"]] == [f"m-{key}"]
            assert (await desk.at(key).check())["attempts_in_all"] == 1
        third = await desk.at("C").begin(caller=ANOTHER)
        assert (third["next"], third["reason"], third["attempt"]) == ("perform", "first_attempt", 1)
        assert (await desk.plan())["counts"] == {"succeeded": 2, "in_progress": 1}


async def test_a_new_session_of_the_same_run_does_not_repeat_what_was_approved_and_done(
    tmp_path: Path,
) -> None:
    """C-6: the tool ran, then the model call failed, and the run was started anew.

    Reported: microsoft/agent-framework#7458.
    """
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await desk.begin()
        await desk.receipt()
    clock.advance(86_400)
    async with open_desk(tmp_path, clock=clock) as desk:
        again = await desk.begin(caller=ANOTHER)
        assert (again["next"], again["reason"]) == ("skip", "already_succeeded")
        assert [receipt["external_id"] for receipt in again["receipts"]] == ["m-1"]
        check = await desk.check(caller=ANOTHER)
        assert (check["attempts_in_all"], check["state"]) == (1, "succeeded")


async def test_an_interrupted_turn_is_held_and_giving_up_needs_a_person(tmp_path: Path) -> None:
    """C-7: stopped between begin and receipt; cancelling does not mean that it did not happen.

    Reported: openai/codex#9042.
    """
    async with open_desk(tmp_path) as desk:
        await desk.begin(action="pr.open", lookup=LOOKUP)
        desk.clock.advance(AFTER_THE_LEASE)
        (step,) = (await desk.plan(caller=ANOTHER))["steps"]
        assert (step["state"], step["next"]) == ("in_doubt", "reconcile")
        refused = await desk.close("cancelled", caller=ANOTHER)
        assert (refused["state"], refused["next"]) == ("in_doubt", "reconcile")
        assert (await desk.close("cancelled", caller=PERSON))["state"] == "cancelled"
        again = await desk.begin(action="pr.open", caller=ANOTHER)
        assert (again["next"], again["reason"]) == ("skip", "cancelled")
        late = await desk.receipt(kind="record", external_id="pr-2", caller=ANOTHER)
        assert (late["state"], late["next"], late["reason"]) == ("disputed", "reconcile", "disputed")
        warned = await desk.begin(action="pr.open", caller=ANOTHER)
        assert (warned["next"], warned["reason"]) == ("reconcile", "disputed")
        assert (await desk.check())["attempts_in_all"] == 1


async def test_each_part_of_a_batch_stands_for_itself(tmp_path: Path) -> None:
    """C-8: two sent, one rejected, one begun, one untouched; only what may be sent again is.

    Reported: Immersion-Facilitee/immersion-facile#5209, PostHog/posthog#66456.
    """
    names = ("r1", "r2", "r3", "r4", "r5")
    plan = [{"key": name, "action": "email.send", "target": f"{name}@example.org"} for name in names]
    async with open_desk(tmp_path) as desk:
        parts = {name: desk.at(name) for name in names}
        await call_tool(desk.journal, "begin_run", run=desk.run, plan=plan)
        for name in ("r1", "r2", "r3", "r4"):
            assert (await parts[name].begin(lookup=LOOKUP))["next"] == "perform"
        for name in ("r1", "r2"):
            await parts[name].receipt(external_id=f"m-{name}")
        await parts["r3"].failure("none", evidence={"reply": "550 no such user"})
        desk.clock.advance(AFTER_THE_LEASE)
        told = await desk.plan(caller=ANOTHER)
        assert [(step["key"], step["state"], step["next"], step["reason"]) for step in told["steps"]] == [
            ("r4", "in_doubt", "reconcile", "in_doubt"),
            ("r3", "failed", "begin", "retry_after_failure"),
            ("r5", "planned", "begin", "first_attempt"),
            ("r1", "succeeded", "skip", "already_succeeded"),
            ("r2", "succeeded", "skip", "already_succeeded"),
        ]
        assert told["complete"] is False
        ended = await call_tool(desk.journal, "finish_run", run=desk.run, outcome="completed")
        assert (ended["next"], ended["reason"]) == ("stop", "unmet")
        assert sorted(step["key"] for step in ended["unmet"]) == ["r3", "r4", "r5"]
        begun = {name: await place.begin(caller=ANOTHER) for name, place in parts.items()}
        assert {name: (answer["next"], answer["attempt"]) for name, answer in begun.items()} == {
            "r1": ("skip", 1),
            "r2": ("skip", 1),
            "r3": ("perform", 2),
            "r4": ("reconcile", 1),
            "r5": ("perform", 1),
        }


async def test_a_batch_journaled_as_one_operation_is_held_whole(tmp_path: Path) -> None:
    """C-8: nobody is told to send all of it again.

    Reported: Immersion-Facilitee/immersion-facile#5209, PostHog/posthog#66456.
    """
    async with open_desk(tmp_path) as desk:
        await desk.begin(action="email.batch", args={"to": ["r1", "r2", "r3"]}, lookup=LOOKUP)
        desk.clock.advance(AFTER_THE_LEASE)
        again = await desk.begin(action="email.batch", args={"to": ["r1", "r2", "r3"]}, caller=ANOTHER)
        assert (again["state"], again["next"]) == ("in_doubt", "reconcile")
        rest = await desk.at("rest").begin(
            action="email.batch", target=f"{desk.key}@example.org", args={"to": ["r2", "r3"]}, caller=ANOTHER
        )
        assert (rest["next"], rest["reason"]) == ("stop", "possible_duplicate")
        (step,) = (await desk.plan())["steps"]
        assert (step["key"], step["state"], step["attempt"]) == (desk.key, "in_doubt", 1)


async def test_a_session_that_forgot_everything_finds_all_that_was_done(tmp_path: Path) -> None:
    """C-9: twelve operations; by the run's name, by the workflow's, and by nothing at all.

    Reported: NousResearch/hermes-agent#48855, openclaw/openclaw#15854, openclaw/openclaw#84139,
    openai/codex#38931.
    """
    async with open_desk(tmp_path) as desk:
        for number in range(12):
            await desk.at(f"step-{number}").begin(workflow="weekly-report")
            if number < 10:
                await desk.at(f"step-{number}").receipt(external_id=f"m-{number}")
        steps = await _all_steps(desk)
        assert {key: step["next"] for key, step in steps.items()} == {
            f"step-{number}": "skip" if number < 10 else "wait" for number in range(12)
        }
        done = {step["state"] for step in steps.values() if step["next"] == "skip"}
        assert done == {"succeeded"}
        found = await desk.journal.resume_plan(ResumePlan(), ANOTHER)
        (run,) = found["runs"]
        assert (run["run"], run["workflow"]) == (desk.run, "weekly-report")
        assert run["counts"] == {"succeeded": 10, "in_progress": 2}
        search = {"workflow": "weekly-report", "limit": 50, "connection": "connection-2"}
        listed = await call_tool(desk.journal, "find_operations", **search)
        assert {step["key"]: step["next"] for step in listed["operations"]} == {
            key: step["next"] for key, step in steps.items()
        }
        for number in range(12):
            again = await desk.at(f"step-{number}").begin(caller=ANOTHER, workflow="weekly-report")
            assert again["next"] == steps[f"step-{number}"]["next"]
            assert again["attempt"] == 1


async def test_a_receipt_redelivered_by_later_sessions_is_one_receipt(tmp_path: Path) -> None:
    """C-10: the same from three sessions is kept once; a different one is flagged and overwrites nothing.

    Reported: Jamie-BitFlight/claude_skills#115.
    """
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        assert (await desk.receipt())["reason"] == "recorded"
        for caller in (AGENT, ANOTHER, PERSON):
            assert (await desk.receipt(caller=caller))["reason"] == "duplicate"
        other = await desk.receipt(external_id="m-2", caller=ANOTHER)
        assert (other["state"], other["next"], other["reason"]) == ("disputed", "ask", "disputed")
        check = await desk.check()
        assert [receipt["external_id"] for receipt in check["receipts"]] == ["m-1", "m-2"]
        assert (check["attempts_in_all"], check["next"]) == (1, "ask")
        assert (await desk.begin(caller=ANOTHER))["next"] == "ask"


async def _all_steps(desk: Desk) -> dict[str, dict[str, Any]]:
    """Walk every page of the plan."""
    plan = await desk.plan(caller=ANOTHER)
    steps = {step["key"]: step for step in plan["steps"]}
    while plan["cut"]:
        plan = await desk.plan(caller=ANOTHER, cursor=plan["next_cursor"])
        steps |= {step["key"]: step for step in plan["steps"]}
    return steps
