"""Runs: begun at the start of every session, held by one of them, planned, finished, and read when large."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from counterfoil.store.domain.commands import (
    BeginRun,
    Caller,
    CheckOperation,
    FinishRun,
    Lookup,
    OperationRef,
    PlanStep,
    RecordProgress,
    ResumePlan,
)
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import InvalidArgument, NotFound, TooLarge
from journals import AGENT, ANOTHER, PERSON, Desk, after, as_caller, open_desk

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]

RUN = "nightly/2026-11-29"
REFUSED = {"status": 422}


def words(answer: Mapping[str, Any]) -> str:
    """Give an answer's verb and reason."""
    return f"{answer['next']}: {answer['reason']}"


def step(key: str, **fields: Any) -> PlanStep:
    """Give a step of its own target."""
    return PlanStep(**{"key": key, "action": "email.send", "target": f"{key}@example.org", **fields})


async def begin(desk: Desk, run: str = RUN, *, caller: Caller = AGENT, **fields: Any) -> dict[str, Any]:
    """Begin a run."""
    caller = caller if caller.call_id else as_caller(caller)
    return await desk.journal.begin_run(BeginRun(run=run, **fields), caller)


async def finish(
    desk: Desk, outcome: str, run: str = RUN, *, caller: Caller = AGENT, reason: str | None = None
) -> dict[str, Any]:
    """Finish a run."""
    caller = caller if caller.call_id else as_caller(caller)
    return await desk.journal.finish_run(FinishRun(run=run, outcome=outcome, reason=reason), caller)


async def progress(desk: Desk, run: str = RUN, *, caller: Caller = AGENT, **fields: Any) -> dict[str, Any]:
    """Record progress of a run."""
    caller = caller if caller.call_id else as_caller(caller)
    return await desk.journal.record_progress(RecordProgress(ref=OperationRef(run=run), **fields), caller)


def keys(answer: Mapping[str, Any]) -> list[str]:
    """Give the keys of the steps in their order."""
    return [entry["key"] for entry in answer["steps"]]


async def faults(desk: Desk) -> Sequence[str]:
    """Prove the log, and give what is wrong with it."""
    return (await desk.journal.reader.verify()).faults


# begun, resumed


async def test_a_run_is_started_once_and_resumed_ever_after(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        first = await begin(desk, workflow="nightly", goal="close the books", plan=(step("a"), step("b")))
        assert (words(first), first["steps_added"]) == ("continue: started", 2)
        assert [(entry["key"], entry["next"]) for entry in first["steps"]] == [("a", "begin"), ("b", "begin")]
        again = await begin(desk)
        assert (words(again), keys(again)) == ("continue: resumed", ["a", "b"])
        assert (again["run"]["workflow"], again["run"]["goal"]) == ("nightly", "close the books")
        assert again["counts"] == {"planned": 2}
        assert await faults(desk) == ()


async def test_a_run_that_began_with_an_operation_is_resumed(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.at("a", run=RUN).begin()
        assert words(await begin(desk)) == "continue: resumed"


async def test_names_that_differ_only_in_form_are_one_run(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, "Café  closing")
        assert words(await begin(desk, " Cafe\u0301 closing ")) == "continue: resumed"


async def test_the_plan_outlives_the_session_that_made_it(tmp_path: Path) -> None:
    planned = step(
        "report",
        args={"week": 48},
        payload="Dear all",
        repeat="keyed",
        key_ttl_seconds=86_400,
        lookup=Lookup(tool="search_sent"),
        max_attempts=2,
    )
    async with open_desk(tmp_path) as desk:
        await begin(desk, plan=(planned,))
    async with open_desk(tmp_path) as desk:
        resumed = await begin(desk, caller=ANOTHER)
        assert words(resumed) == "wait: run_held"
        desk.clock.advance(301)
        [entry] = (await begin(desk, caller=ANOTHER))["steps"]
        assert (entry["key"], entry["target"], entry["next"]) == ("report", "report@example.org", "begin")
        report = desk.at("report", run=RUN)
        granted = await report.begin(caller=ANOTHER, args={"week": 48})
        assert words(granted) == "perform: first_attempt"
        assert granted["recorded"] == {"args": {"week": 48}, "payload": "Dear all"}
        assert "repeat_until" in granted


async def test_a_step_on_record_is_never_altered_by_a_later_plan(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, plan=(step("a", payload="first"), step("b")))
        await desk.at("b", run=RUN).begin()
        before = (await desk.at("b", run=RUN).check(detail="full"))["history"]
        again = await begin(
            desk,
            plan=(
                step("a", payload="second", depends_on=("b",), repeat="safe"),
                step("b", repeat="safe", max_attempts=9),
                step("c", depends_on=("a",)),
            ),
        )
        assert again["steps_added"] == 1
        assert (await desk.at("b", run=RUN).check(detail="full"))["history"] == before
        checked = await desk.at("a", run=RUN).check()
        assert "depends_on" not in checked
        assert "repeat" not in checked
        body = await desk.at("a", run=RUN).check(detail="payload")
        assert body["content"] == "first"
        assert await faults(desk) == ()


async def test_a_later_step_that_looks_like_one_on_record_is_not_added(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, plan=(step("a"),))
        again = await begin(desk, plan=(step("other", target="A@example.org"), step("b")))
        assert (again["steps_added"], keys(again)) == (1, ["a", "b"])
        [alike] = again["duplicates"]
        assert (alike["step"], alike["key"], alike["same"]) == ("other", "a", "target")
        assert again["duplicates_in_all"] == 1


async def test_a_key_that_is_another_effect_already_is_a_conflict(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, plan=(step("a", args={"n": 1}),))
        again = await begin(desk, plan=(step("a", args={"n": 2}),))
        [conflict] = again["conflict"]
        assert (conflict["step"], conflict["state"]) == ("a", "planned")
        assert "steps_added" not in again
        assert words(await desk.at("a", run=RUN).begin(args={"n": 1})) == "perform: first_attempt"


async def test_who_waits_for_a_key_in_conflict_is_told_for_what_it_waits(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, plan=(step("build", args={"n": 1}), step("pack", depends_on=("build",))))
        build = desk.at("build", run=RUN)
        done = (await build.begin(args={"n": 1}))["operation"]
        await build.receipt()
        anew = (step("build", args={"n": 2}), step("deploy", depends_on=("build", "pack")))
        again = await begin(desk, plan=(*anew, step("pack", depends_on=("build",))))
        assert again["steps_added"] == 1
        # The next session brings the same plan, and knows as little: its steps are on record by now.
        later = await begin(desk, plan=(*anew, step("pack", depends_on=("build",))))
        for answer in (again, later):
            told = sorted(warning.partition(", which is another effect")[0] for warning in answer["warnings"])
            waiting = [(await desk.at(key, run=RUN).check())["operation"] for key in ("deploy", "pack")]
            assert told == sorted(f"{each} waits for {done} as it is on record" for each in waiting)
        # Nothing of it is warned of where the key stands for what the plan says.
        assert "warnings" not in await begin(desk, plan=(step("build", args={"n": 1}), anew[1]))


async def test_a_step_named_as_distinct_is_added(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        first = await begin(desk, plan=(step("a", args={"n": 1}),))
        known = first["steps"][0]["operation"]
        other = step("other", target="a@example.org", args={"n": 2}, distinct_from=(known,))
        assert (await begin(desk, plan=(other,)))["steps_added"] == 1


async def test_steps_that_one_plan_declares_side_by_side_are_mentioned_and_added(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        twins = (step("a", target="x@example.org"), step("b", target="x@example.org"))
        first = await begin(desk, plan=twins)
        assert first["steps_added"] == 2
        assert "look alike" in first["warnings"][0]


async def test_the_begin_of_a_step_mentions_its_twin_in_the_plan(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        same = {"target": "x@example.org", "args": {"n": 1}}
        await begin(desk, plan=(step("a", **same), step("b", **same), step("c")))
        first = await desk.at("a", run=RUN).begin(caller=ANOTHER, **same)
        second = await desk.at("b", run=RUN).begin(**same)
        assert words(second) == "perform: first_attempt"
        assert second["warnings"] == [f"{first['operation']} has the same fingerprint"]
        assert "warnings" not in await desk.at("c", run=RUN).begin(caller=PERSON)


async def test_a_planned_step_is_no_second_undoing_either(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        paid = desk.at("paid", run=RUN)
        original = (await paid.begin())["operation"]
        await paid.receipt()
        await begin(desk, plan=(step("undo-1"), step("undo-2")))
        first = await desk.at("undo-1", run=RUN).begin(compensates=original)
        assert words(first) == "perform: first_attempt"
        second = await desk.at("undo-2", run=RUN).begin(compensates=original)
        assert words(second) == "stop: possible_duplicate"
        assert [(other["key"], other["same"]) for other in second["duplicates"]] == [
            ("undo-1", "compensates")
        ]
        assert await desk.at("undo-2", run=RUN).state() == "planned"


async def test_a_twin_that_the_plan_tells_apart_is_not_mentioned(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        first = await begin(desk, plan=(step("a", target="x@example.org"),))
        told = (first["steps"][0]["operation"],)
        await begin(desk, plan=(step("b", target="x@example.org", distinct_from=told),))
        begun = await desk.at("b", run=RUN).begin(target="x@example.org")
        assert (words(begun), "warnings" in begun) == ("perform: first_attempt", False)


async def test_a_dependency_on_a_step_not_added_is_one_on_what_it_looks_like(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, plan=(step("build"),))
        again = await begin(
            desk, plan=(step("compile", target="build@example.org"), step("deploy", depends_on=("compile",)))
        )
        assert again["steps_added"] == 1
        deploy = desk.at("deploy", run=RUN)
        assert (await deploy.check())["depends_on"] == ["build"]
        assert words(await deploy.begin()) == "wait: dependency"
        build = desk.at("build", run=RUN)
        await build.begin()
        await build.receipt()
        assert words(await deploy.begin()) == "perform: first_attempt"


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        ((step("a", depends_on=("nowhere",)),), "depends_on"),
        ((step("a", depends_on=("a",)),), "itself"),
        (
            (step("a", depends_on=("b",)), step("b", depends_on=("c",)), step("c", depends_on=("a",))),
            "circle",
        ),
        ((step("a"), step("a", target="other@example.org")), "twice"),
    ],
    ids=["an unknown key", "itself", "a circle", "the same key twice"],
)
async def test_a_plan_without_an_order_is_refused_and_nothing_is_stored(
    tmp_path: Path, plan: tuple[PlanStep, ...], told: str
) -> None:
    async with open_desk(tmp_path) as desk:
        with pytest.raises(InvalidArgument) as refused:
            await begin(desk, plan=(step("fine"), *plan))
        assert told in f"{refused.value.message} {refused.value.fix}"
        assert words(await desk.plan(run=RUN)) == "continue: no_history"


async def test_a_plan_orders_its_steps_and_a_dependency_that_cannot_succeed_asks(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, plan=(step("b", depends_on=("a",)), step("a")))
        plan = await desk.plan(run=RUN)
        assert [(entry["key"], words(entry)) for entry in plan["steps"]] == [
            ("a", "begin: first_attempt"),
            ("b", "wait: dependency"),
        ]
        await desk.at("a", run=RUN).close("cancelled")
        assert words(await desk.at("b", run=RUN).check()) == "ask: dependency_unmet"


async def test_a_plan_of_too_many_steps_is_refused(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        with pytest.raises(TooLarge):
            await begin(desk, plan=tuple(step(f"s{number}") for number in range(501)))


# held


async def test_two_sessions_for_the_same_occurrence_see_each_other(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, holder="cron at 02:00", lease_seconds=600)
        second = await begin(desk, caller=ANOTHER, holder="cron again", plan=(step("a"),))
        assert (words(second), second["held_by"]) == ("wait: run_held", "cron at 02:00")
        assert second["retry_at"] == "2026-11-29T12:10:00.000000Z"
        assert "steps" not in second
        plan = await desk.plan(run=RUN)
        assert (plan["run"]["held_by"], plan["counts"]) == ("cron at 02:00", {})
        desk.clock.advance(600)
        taken = await begin(desk, caller=ANOTHER, holder="cron again")
        assert (words(taken), taken["run"]["held_by"]) == ("continue: resumed", "cron again")
        assert words(await begin(desk)) == "wait: run_held"


async def test_a_live_attempt_of_the_holder_holds_the_run(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, lease_seconds=60)
        await desk.at("a", run=RUN).begin(lease_seconds=900)
        desk.clock.advance(120)
        second = await begin(desk, caller=ANOTHER)
        assert words(second) == "wait: run_held"
        assert second["held_by"] == "a session without a name"
        assert second["retry_at"] == "2026-11-29T12:15:00.000000Z"
        desk.clock.advance(900)
        assert words(await begin(desk, caller=ANOTHER)) == "continue: resumed"


async def test_the_hold_is_advisory_and_guards_no_operation(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, plan=(step("a"),))
        assert words(await desk.at("a", run=RUN).begin(caller=ANOTHER)) == "perform: first_attempt"


async def test_progress_of_a_run_prolongs_the_hold_and_is_shown(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, lease_seconds=1_000)
        told = await progress(desk, message="half way", fraction=0.5, checkpoint={"page": 7})
        assert (words(told), told["held_until"]) == (
            "continue: recorded",
            "2026-11-29T12:16:40.000000Z",
        )
        desk.clock.advance(900)
        assert words(await progress(desk)) == "continue: recorded"
        desk.clock.advance(200)
        assert words(await progress(desk, caller=ANOTHER)) == "wait: run_held"
        run = (await desk.plan(run=RUN))["run"]
        assert run["progress"] == {"message": "half way", "fraction": 0.5}
        assert run["checkpoint"] == {"page": 7}
        assert await faults(desk) == ()


async def test_a_hold_that_another_takes_over_bears_no_name_of_the_first(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, holder="first")
        desk.clock.advance(301)
        assert words(await begin(desk, caller=ANOTHER)) == "continue: resumed"
        assert (await begin(desk))["held_by"] == "a session without a name"


async def test_progress_revives_a_hold_that_ran_out_for_its_holder_alone(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, holder="first")
        desk.clock.advance(301)
        told = await progress(desk, caller=ANOTHER, message="from another")
        assert (words(told), "held_until" in told) == ("continue: recorded", False)
        assert told["warnings"] == ["you do not hold this run, and this takes no hold: begin_run does"]
        run = (await desk.plan(run=RUN))["run"]
        assert (run["progress"], "held_by" in run) == ({"message": "from another"}, False)
        revived = await progress(desk)
        assert (revived["held_until"], "warnings" in revived) == (after(601), False)
        assert (await begin(desk, caller=ANOTHER))["held_by"] == "first"
        assert await faults(desk) == ()


async def test_progress_takes_no_hold_on_a_run_that_nobody_began(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.at("a", run=RUN).begin()
        told = await progress(desk)
        assert (words(told), "held_until" in told) == ("continue: recorded", False)
        assert words(await begin(desk, caller=ANOTHER)) == "continue: resumed"


@pytest.mark.parametrize("fraction", [-0.1, 1.1])
async def test_a_fraction_outside_0_to_1_is_refused(tmp_path: Path, fraction: float) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk)
        with pytest.raises(InvalidArgument, match="fraction"):
            await progress(desk, fraction=fraction)


async def test_progress_of_a_run_that_is_not_there_creates_nothing(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk)
        with pytest.raises(NotFound) as refused:
            await progress(desk, "nightly/2026-11-30")
        assert RUN in str(refused.value.candidates)


async def test_what_is_redelivered_changes_nothing(tmp_path: Path) -> None:
    one, two, three = (
        as_caller(AGENT, call_id=f"toolu_redelivered_{number}") for number in ("one", "two", "three")
    )
    async with open_desk(tmp_path) as desk:
        first = await begin(desk, caller=one)
        desk.clock.advance(100)
        again = await begin(desk, caller=one)
        assert words(again) == "continue: resumed"
        assert again["run"]["held_until"] == first["run"]["held_until"]
        assert words(await progress(desk, caller=two, message="now")) == "continue: recorded"
        desk.clock.advance(100)
        assert words(await progress(desk, caller=two, message="now")) == "continue: duplicate"
        await finish(desk, "failed", caller=three)
        assert words(await begin(desk, caller=one)) == "stop: run_finished"
        await begin(desk)
        assert words(await finish(desk, "failed", caller=three)) == "continue: duplicate"
        assert "finished_as" not in (await desk.plan(run=RUN))["run"]
        tail = await desk.journal.reader.tail(run=RUN)
        assert [entry["event"] for entry in tail].count("run_begun") == 2
        assert [entry["event"] for entry in tail].count("run_finished") == 1
        assert [entry["event"] for entry in tail].count("run_progressed") == 1


async def test_a_redelivered_heartbeat_neither_extends_nor_revives_a_lease(tmp_path: Path) -> None:
    beat = as_caller(AGENT, call_id="toolu_redelivered_beat")
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        desk.clock.advance(200)
        first = await desk.progress(caller=beat)
        desk.clock.advance(200)
        again = await desk.progress(caller=beat)
        assert (words(again), again["send_before"]) == ("continue: recorded", first["send_before"])
        desk.clock.advance(200)
        assert words(await desk.progress(caller=beat)) == "reconcile: in_doubt"
        assert words(await desk.progress()) == "continue: recorded"


@pytest.mark.parametrize(
    ("terms", "policy", "end"),
    [
        ({}, Policy(), "12:09:10"),
        ({"deadline_seconds": 400}, Policy(), "12:06:40"),
        ({"lease_seconds": 280}, Policy(longest_lease_seconds=320), "12:05:20"),
        ({"repeat": "keyed", "key_ttl_seconds": 700}, Policy(), "12:06:40"),
    ],
    ids=["nothing in the way", "the deadline", "the longest lease", "the life of the key"],
)
async def test_no_extension_reaches_beyond_what_bounds_a_lease(
    tmp_path: Path, terms: dict[str, Any], policy: Policy, end: str
) -> None:
    async with open_desk(tmp_path, policy=policy) as desk:
        await desk.begin(**terms)
        desk.clock.advance(250)
        told = await desk.progress()
        assert (words(told), told["send_before"]) == (
            "continue: recorded",
            f"2026-11-29T{end}.000000Z",
        )
        assert told["lease_expires_at"] == told["send_before"]


# finished


async def _planned(desk: Desk) -> None:
    await begin(desk, plan=(step("a"),))


async def _in_progress(desk: Desk) -> None:
    await desk.at("a", run=RUN).begin()


async def _in_doubt(desk: Desk) -> None:
    await _in_progress(desk)
    desk.clock.advance(301)


async def _failed(desk: Desk) -> None:
    await _in_progress(desk)
    await desk.at("a", run=RUN).failure("none", evidence=REFUSED)


async def _succeeded(desk: Desk) -> None:
    await _in_progress(desk)
    await desk.at("a", run=RUN).receipt()


async def _timed_out(desk: Desk) -> None:
    await _in_doubt(desk)
    await desk.at("a", run=RUN).close("timed_out")


async def _cancelled(desk: Desk) -> None:
    await _planned(desk)
    await desk.at("a", run=RUN).close("cancelled")


async def _compensated(desk: Desk) -> None:
    await _succeeded(desk)
    undoing = {"kind": "message", "system": "smtp", "external_id": "recall-1"}
    await desk.at("a", run=RUN).reconcile("compensated", **undoing)


async def _disputed(desk: Desk) -> None:
    await _failed(desk)
    await desk.at("a", run=RUN).receipt()


STATES = {
    "planned": _planned,
    "in_progress": _in_progress,
    "in_doubt": _in_doubt,
    "failed": _failed,
    "succeeded": _succeeded,
    "timed_out": _timed_out,
    "cancelled": _cancelled,
    "compensated": _compensated,
    "disputed": _disputed,
}
DONE = {"succeeded", "timed_out", "cancelled", "compensated"}
QUESTIONS = {"in_progress", "in_doubt", "disputed"}


@pytest.mark.parametrize("state", STATES)
async def test_a_run_is_completed_only_when_every_operation_is_settled(tmp_path: Path, state: str) -> None:
    async with open_desk(tmp_path) as desk:
        await STATES[state](desk)
        answer = await finish(desk, "completed")
        assert await desk.at("a", run=RUN).state() == state
        if state in DONE:
            assert words(answer) == "continue: finished"
            assert any("timed_out" in warning for warning in answer.get("warnings", ())) is (
                state == "timed_out"
            )
        else:
            assert words(answer) == "stop: unmet"
            [unmet] = answer["unmet"]
            assert (unmet["key"], unmet["state"], answer["unmet_in_all"]) == ("a", state, 1)
        assert await faults(desk) == ()


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
@pytest.mark.parametrize("state", STATES)
async def test_a_run_is_given_up_in_any_state_and_stays_listed_with_open_questions(
    tmp_path: Path, state: str, outcome: str
) -> None:
    async with open_desk(tmp_path) as desk:
        await STATES[state](desk)
        answer = await finish(desk, outcome, reason="enough")
        assert words(answer) == "continue: finished"
        assert await desk.at("a", run=RUN).state() == state
        listed = (await desk.journal.resume_plan(ResumePlan(), AGENT))["runs"]
        assert bool(listed) is (state in QUESTIONS)
        assert bool(answer.get("warnings")) is (state in QUESTIONS)
        assert words(await finish(desk, outcome)) == "continue: duplicate"
        assert words(await finish(desk, "completed")) == "stop: run_finished"


BEGINS = {
    "planned": "stop: run_finished",
    "in_progress": "wait: lease_held_by_you",
    "in_doubt": "reconcile: in_doubt",
    "failed": "stop: run_finished",
    "succeeded": "skip: already_succeeded",
    "timed_out": "skip: timed_out",
    "cancelled": "skip: cancelled",
    "compensated": "skip: compensated",
    "disputed": "reconcile: disputed",
}


@pytest.mark.parametrize("state", STATES)
async def test_nothing_new_is_begun_in_a_finished_run(tmp_path: Path, state: str) -> None:
    async with open_desk(tmp_path) as desk:
        await STATES[state](desk)
        await finish(desk, "failed")
        a = desk.at("a", run=RUN)
        assert words(await a.begin()) == BEGINS[state]
        assert words(await desk.at("new", run=RUN).begin()) == "stop: run_finished"
        if state == "in_progress":
            assert words(await a.receipt()) == "continue: recorded"


async def test_what_may_be_repeated_is_not_repeated_in_a_finished_run(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.at("a", run=RUN).begin(repeat="safe")
        desk.clock.advance(301)
        await finish(desk, "cancelled")
        assert words(await desk.at("a", run=RUN).begin()) == "stop: run_finished"


async def test_a_run_finished_as_failed_is_reopened_and_one_that_is_over_is_skipped(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await _failed(desk)
        await finish(desk, "failed", reason="the provider is down")
        assert (await desk.plan(run=RUN))["run"]["finish_reason"] == "the provider is down"
        reopened = await begin(desk, caller=ANOTHER)
        assert (words(reopened), keys(reopened)) == ("continue: resumed", ["a"])
        assert words(await desk.at("a", run=RUN).begin()) == "perform: retry_after_failure"
        await desk.at("a", run=RUN).receipt(attempt=2)
        await finish(desk, "completed")
        done = await begin(desk, caller=ANOTHER)
        assert words(done) == "skip: already_succeeded"
        assert "steps" not in done
        assert await faults(desk) == ()


async def test_a_cancelled_run_is_skipped_and_names_its_open_questions(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await _in_doubt(desk)
        operation = (await desk.at("a", run=RUN).check())["operation"]
        await finish(desk, "cancelled")
        skipped = await begin(desk)
        assert words(skipped) == "skip: cancelled"
        assert skipped["warnings"] == [f"open question: {operation} is in_doubt"]


async def test_a_person_may_settle_what_a_finished_run_left_open(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await _in_doubt(desk)
        await finish(desk, "cancelled")
        await desk.at("a", run=RUN).reconcile("not_performed", caller=PERSON)
        assert (await desk.journal.resume_plan(ResumePlan(), AGENT))["runs"] == []


# schedules and children


async def test_where_nothing_is_open_the_journal_does_not_call_itself_without_history(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        empty = await desk.journal.resume_plan(ResumePlan(), AGENT)
        assert (words(empty), empty["runs"]) == ("continue: no_history", [])
        assert "under this name" not in empty["guidance"]
        await begin(desk)
        await finish(desk, "completed")
        over = await desk.journal.resume_plan(ResumePlan(), AGENT)
        assert (words(over), over["runs"], over["complete"]) == ("continue: listed", [], True)


async def test_thirty_missed_slots_are_listed_with_their_ages_and_nothing_says_run_them(
    tmp_path: Path,
) -> None:
    async with open_desk(tmp_path) as desk:
        slots = [f"backup/2026-10-{day:02}" for day in range(1, 31)]
        for slot in slots:
            await begin(desk, slot, schedule_name="backup", schedule_occurrence=slot[7:])
            desk.clock.advance(86_400)
        seen: dict[str, dict[str, Any]] = {}
        texts = ""
        cursor = None
        while True:
            page = await desk.journal.resume_plan(ResumePlan(cursor=cursor), ANOTHER)
            seen.update({run["run"]: run for run in page["runs"]})
            texts += str(page)
            if not page["cut"]:
                break
            cursor = page["next_cursor"]
        assert sorted(seen) == slots
        ages = [seen[slot]["age_seconds"] for slot in slots]
        assert ages == [86_400 * (30 - number) for number in range(30)]
        assert seen[slots[0]]["schedule"] == {"name": "backup", "occurrence": "2026-10-01"}
        assert "begin" not in {word for run in seen.values() for word in run}
        assert "run all" not in texts.lower()
        assert words(await begin(desk, slots[3], caller=ANOTHER)) == "continue: resumed"


async def test_a_run_that_moved_between_the_pages_of_runs_is_told_and_no_other_is_skipped(
    tmp_path: Path,
) -> None:
    async with open_desk(tmp_path) as desk:
        names = [f"run-{number:02}" for number in range(12)]
        for name in names:
            await begin(desk, name)
            desk.clock.advance(1)

        async def page(cursor: str | None) -> dict[str, Any]:
            return await desk.journal.resume_plan(ResumePlan(limit=5, cursor=cursor), ANOTHER)

        first = await page(None)
        await progress(desk, names[3])
        desk.clock.advance(1)
        second = await page(first["next_cursor"])
        last = await page(second["next_cursor"])
        seen = [run["run"] for part in (first, second, last) for run in part["runs"]]
        assert seen == [name for name in reversed(names) if name != names[3]]
        assert [part["cut"] for part in (first, second, last)] == [True, True, False]
        assert [part.get("changed_meanwhile") for part in (first, second, last)] == [None, None, True]
        assert last["complete"] is False
        again = await page(None)
        again = await page((await page(again["next_cursor"]))["next_cursor"])
        assert (again["cut"], "changed_meanwhile" in again) == (False, False)


async def test_a_cursor_of_the_open_runs_is_none_of_all_runs(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, "one")
        await begin(desk, "two")
        cursor = (await desk.journal.resume_plan(ResumePlan(limit=1), AGENT))["next_cursor"]
        with pytest.raises(InvalidArgument, match="cursor"):
            await desk.journal.resume_plan(ResumePlan(limit=1, include="all", cursor=cursor), AGENT)


async def test_a_slot_already_done_is_skipped(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, schedule_name="nightly", schedule_occurrence="2026-11-29")
        await finish(desk, "completed")
        again = await begin(desk, caller=ANOTHER, schedule_name="nightly", schedule_occurrence="2026-11-29")
        assert words(again) == "skip: already_succeeded"


async def test_two_names_for_one_slot_are_mentioned(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        slot = {"schedule_name": "nightly", "schedule_occurrence": "2026-11-29"}
        assert "warnings" not in await begin(desk, **slot)
        other = await begin(desk, "nightly-again", **slot)
        [warning] = other["warnings"]
        assert warning.startswith(f"another run declares the same slot of this schedule: {RUN}; work on that")


async def test_a_new_run_is_told_of_the_open_one_that_its_name_may_be_meant_for(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        assert "near_runs" not in await begin(desk, "invoices/2026-11")
        assert "near_runs" not in await begin(desk, "deploy/v1.4.2")
        meant = await begin(desk, "Invoices 2026-Nov")
        assert meant["near_runs"] == ["invoices/2026-11"]
        assert "go on with it under its name" in meant["warnings"][0]
        assert "near_runs" not in await begin(desk, "Invoices 2026-Nov")
        assert "near_runs" not in await begin(desk, "invoices/2026-11/mails", parent="invoices/2026-11")
        slot = {"schedule_name": "invoices", "schedule_occurrence": "2026-11-30"}
        assert "near_runs" not in await begin(desk, "invoices/2026-11-30", **slot)
        for run in ("invoices/2026-11", "invoices/2026-11-30", "Invoices 2026-Nov", "invoices/2026-11/mails"):
            await desk.journal.finish_run(FinishRun(run=run, outcome="completed"), AGENT)
        assert "near_runs" not in await begin(desk, "invoices/2026-12")
        assert await faults(desk) == ()


async def test_half_a_schedule_is_refused(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        with pytest.raises(InvalidArgument, match="schedule"):
            await begin(desk, schedule_name="nightly")


async def test_a_child_run_names_its_parent(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk)
        child = await begin(desk, f"{RUN}/emails", parent=RUN)
        assert child["run"]["parent"] == RUN
        assert (await begin(desk))["run"]["children"] == [{"run": f"{RUN}/emails"}]
        with pytest.raises(InvalidArgument, match="parent"):
            await begin(desk, "x", parent="x")
        assert await faults(desk) == ()


# large


async def test_a_plan_of_a_thousand_operations_shows_every_doubt_and_reads_no_settled_ones(
    tmp_path: Path,
) -> None:
    async with open_desk(tmp_path) as desk:
        for start in range(0, 1_000, 500):
            await begin(desk, plan=tuple(step(f"step-{number}") for number in range(start, start + 500)))
        for number in range(0, 1_000, 25):
            await desk.at(f"step-{number}", run=RUN).begin(lookup=Lookup(tool="search_sent"))
        desk.clock.advance(301)
        for number in range(1_000):
            if number % 25:
                await desk.at(f"step-{number}", run=RUN).close("cancelled")

        counter = _CountingRows(desk)
        found, cursors = [], set()
        cursor = None
        while True:
            plan = await desk.journal.resume_plan(ResumePlan(run=RUN, cursor=cursor), ANOTHER)
            assert len(str(plan)) < 10_000
            assert plan["counts"] == {"in_doubt": 40, "cancelled": 960}
            found += [(entry["key"], entry["next"]) for entry in plan["steps"]]
            if not plan["cut"]:
                break
            cursor = plan["next_cursor"]
            assert cursor not in cursors
            cursors.add(cursor)
        assert found == [(f"step-{number}", "reconcile") for number in range(0, 1_000, 25)]
        assert "changed_meanwhile" not in plan
        # Per page: the run, the open operations with what belongs to each, a handful beside.
        assert counter.rows / counter.reads < 40 * 4 + 60


async def test_the_rows_that_a_plan_reads_do_not_grow_with_settled_operations(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, plan=tuple(step(f"open-{number}") for number in range(5)))
        few = await _rows_of_a_plan(desk)
        await begin(desk, plan=tuple(step(f"step-{number}") for number in range(200)))
        for number in range(200):
            await desk.at(f"step-{number}", run=RUN).close("cancelled")
        # One row more: the count of another state.
        assert await _rows_of_a_plan(desk) == few + 1


async def test_a_check_of_one_step_of_a_large_plan_is_as_small_as_of_a_small_one(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        begun = await begin(desk, plan=tuple(step(f"step-{number}") for number in range(300)))
        assert len(str(begun)) < 10_000
        assert begun["cut"] is True
        operation = begun["steps"][0]["operation"]
        checked = await desk.journal.check_operation(
            CheckOperation(ref=OperationRef(operation=operation)), ANOTHER
        )
        assert words(checked) == "begin: first_attempt"


async def _rows_of_a_plan(desk: Desk) -> int:
    counter = _CountingRows(desk)
    await desk.journal.resume_plan(ResumePlan(run=RUN), ANOTHER)
    counter.restore()
    return counter.rows


class _CountingRows:
    """Counts the rows that reads fetch from the database, once it stands before them."""

    def __init__(self, desk: Desk) -> None:
        self.rows = self.reads = 0
        self._database = desk.journal.database
        self._read = self._database.read
        self._database.read = self._counted  # type: ignore[method-assign]

    def restore(self) -> None:
        """Count no more."""
        self._database.read = self._read  # type: ignore[method-assign]

    async def _counted(self, work: Any) -> Any:
        self.reads += 1
        return await self._read(lambda connection: work(_CountingConnection(connection, self)))


class _CountingConnection:
    """A connection whose reads are counted; whatever else it has is handed on."""

    def __init__(self, connection: Any, counter: _CountingRows) -> None:
        self._connection = connection
        self._counter = counter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def fetch_all(self, *arguments: Any) -> Any:
        rows = await self._connection.fetch_all(*arguments)
        self._counter.rows += len(rows)
        return rows

    async def fetch_one(self, *arguments: Any) -> Any:
        row = await self._connection.fetch_one(*arguments)
        self._counter.rows += row is not None
        return row
