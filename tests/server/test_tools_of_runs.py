"""The tools of runs on a real journal: through the SDK's client in both eras, and over real stdio."""

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from counterfoil.store.domain.commands import (
    BeginRun,
    Caller,
    CloseOperation,
    Criterion,
    FindOperations,
    FinishRun,
    Lookup,
    OperationRef,
    PlanStep,
    RecordProgress,
    Spec,
    Undo,
)
from counterfoil.store.errors import Ambiguous, InvalidArgument, TooLarge
from counterfoil.store.limits import Limits
from counterfoil.tools.arguments import take_arguments
from counterfoil.tools.catalogue import ALL_TOOLS
from fake_journal import FakeJournal
from journals import AGENT, Desk, FakeClock, open_test_journal
from scenarios.servers import Server
from server.test_tools_on_a_journal import session

pytestmark = pytest.mark.anyio

Mode = Literal["auto", "legacy"]
TOOLS = {tool.name: tool for tool in ALL_TOOLS}
CALLER = Caller(connection="c")
RUN = "weekly-report/2026-W48"
STEPS = [
    {"key": "build", "action": "git.push", "target": "main"},
    {"key": "mail", "action": "mail.send", "target": "alice@example.org", "depends_on": ["build"]},
]


async def command_of(tool: str, **arguments: Any) -> Any:
    """Give the command that a call becomes."""
    journal = FakeJournal()
    taken = take_arguments(TOOLS[tool].input_model, arguments, limits=Limits())
    await TOOLS[tool].run(journal, taken, CALLER)
    return journal.asked[0][0]


# arguments become commands


async def test_begin_run_takes_everything_of_its_contract() -> None:
    step = {
        "key": "mail",
        "action": "mail.send",
        "target": "alice",
        "args": {"n": 1},
        "payload": ["any", {"json": None}],
        "depends_on": ["build"],
        "satisfies": ["FR-001"],
        "repeat": "keyed",
        "key_ttl_seconds": 3600,
        "lookup": {"tool": "search", "args": {"q": "x"}, "settle_seconds": 5},
        "undo": {"instructions": "recall it"},
        "deadline_seconds": 60,
        "max_attempts": 2,
        "distinct_from": ["op_x"],
    }
    assert await command_of(
        "begin_run",
        run=RUN,
        workflow="weekly-report",
        workflow_version="7",
        goal="the report",
        spec={
            "uri": "spec.md",
            "digest": "d",
            "criteria": [{"id": "FR-001", "text": "t", "required": False}],
        },
        plan=[step],
        schedule={"name": "weekly", "occurrence": "2026-W48"},
        context={"model": "m"},
        accept_drift={"reason": "reviewed"},
        lease_seconds=60,
        holder="cron",
        parent="quarter",
        trace={"model": "m"},
        call_id="call-0123456789abcdef",
    ) == BeginRun(
        run=RUN,
        workflow="weekly-report",
        workflow_version="7",
        goal="the report",
        spec=Spec(uri="spec.md", digest="d", criteria=(Criterion(id="FR-001", text="t", required=False),)),
        plan=(
            PlanStep(
                key="mail",
                action="mail.send",
                target="alice",
                args={"n": 1},
                payload=["any", {"json": None}],
                depends_on=("build",),
                satisfies=("FR-001",),
                repeat="keyed",
                key_ttl_seconds=3600,
                lookup=Lookup(tool="search", args={"q": "x"}, settle_seconds=5),
                undo=Undo(instructions="recall it"),
                deadline_seconds=60,
                max_attempts=2,
                distinct_from=("op_x",),
            ),
        ),
        schedule_name="weekly",
        schedule_occurrence="2026-W48",
        context={"model": "m"},
        accept_reason="reviewed",
        lease_seconds=60,
        holder="cron",
        parent="quarter",
    )


async def test_a_plan_and_what_is_in_it_may_be_json_text() -> None:
    wanted = await command_of("begin_run", run=RUN, plan=STEPS, schedule={"name": "w", "occurrence": "48"})
    for plan in (json.dumps(STEPS), [json.dumps(step) for step in STEPS]):
        schedule = json.dumps({"name": "w", "occurrence": "48"})
        assert await command_of("begin_run", run=RUN, plan=plan, schedule=schedule) == wanted
    lookup = json.dumps({"tool": "search"})
    command = await command_of(
        "begin_run", run=RUN, plan=[{**STEPS[0], "lookup": lookup, "args": '{"n": 1}'}]
    )
    assert (command.plan[0].lookup, command.plan[0].args) == (Lookup(tool="search"), {"n": 1})


async def test_a_payload_of_a_step_that_is_text_stays_text() -> None:
    command = await command_of("begin_run", run=RUN, plan=[{**STEPS[0], "payload": '{"n": 1}'}])
    assert command.plan[0].payload == '{"n": 1}'


@pytest.mark.parametrize(
    ("plan", "field"),
    [
        ([{**STEPS[0], "taget": "x"}], "plan[0].taget"),
        ([STEPS[0], {"key": "x"}], "plan[1].action"),
        ([STEPS[0], "nonsense"], "plan[1]"),
        ([STEPS[0], 7], "plan[1]"),
        ([{**STEPS[0], "lookup": {"tol": "x"}}], "plan[0].lookup.tol"),
        ([{**STEPS[0], "repeat": "often"}], "plan[0].repeat"),
        ([{**STEPS[0], "max_attempts": 0}], "plan[0].max_attempts"),
        ([{**STEPS[0], "depends_on": [1]}], "plan[0].depends_on[0]"),
        ({"key": "x", "action": "y"}, "plan"),
        ("[1", "plan"),
    ],
    ids=str,
)
async def test_what_is_wrong_in_a_plan_is_named_by_its_place(plan: Any, field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await command_of("begin_run", run=RUN, plan=plan)
    assert refused.value.field == field


async def test_a_step_that_is_too_large_is_named_by_its_place() -> None:
    with pytest.raises(TooLarge) as refused:
        await command_of("begin_run", run=RUN, plan=[{**STEPS[0], "args": {"x": "y" * 70_000}}])
    assert refused.value.field == "plan[0].args"
    with pytest.raises(TooLarge):
        await command_of("begin_run", run=RUN, plan=[{"key": "k", "action": "a"}] * 501)


async def test_the_others_take_everything_of_their_contract() -> None:
    ref = {"operation": "op_x"}
    assert await command_of(
        "record_progress", **ref, attempt=2, message="m", fraction=0.5, checkpoint='{"page": 7}'
    ) == RecordProgress(
        ref=OperationRef(operation="op_x"), attempt=2, message="m", fraction=0.5, checkpoint={"page": 7}
    )
    assert await command_of("record_progress", run=RUN) == RecordProgress(ref=OperationRef(run=RUN))
    assert await command_of("record_progress", run=RUN, key="k") == RecordProgress(
        ref=OperationRef(run=RUN, key="k")
    )
    assert await command_of(
        "close_operation", **ref, outcome="cancelled", reason="r", attempt=1
    ) == CloseOperation(ref=OperationRef(operation="op_x"), outcome="cancelled", reason="r", attempt=1)
    assert await command_of("finish_run", run=RUN, outcome="failed", reason="r") == FinishRun(
        run=RUN, outcome="failed", reason="r"
    )
    searched = {
        "text": "t",
        "run": RUN,
        "workflow": "w",
        "state": "in_doubt",
        "action": "a",
        "system": "s",
        "external_id": "e",
        "since": "2026-11-29T12:00:00Z",
        "until": "2026-11-30T12:00:00Z",
        "limit": 5,
        "cursor": "c",
    }
    assert await command_of("find_operations", **searched) == FindOperations(**searched)


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("record_progress", {}, "operation"),
        ("record_progress", {"key": "k"}, "run"),
        ("record_progress", {"run": RUN, "fraction": 2}, "fraction"),
        ("record_progress", {"run": RUN, "fraction": True}, "fraction"),
        ("record_progress", {"run": RUN, "call_id": "short"}, "call_id"),
        ("close_operation", {"operation": "op_x", "outcome": "succeeded", "reason": "r"}, "outcome"),
        ("close_operation", {"operation": "op_x", "outcome": "cancelled"}, "reason"),
        ("finish_run", {"run": RUN, "outcome": "done"}, "outcome"),
        ("finish_run", {"run": RUN, "outcome": "failed", "call_id": RUN}, "call_id"),
        ("find_operations", {"state": "lost"}, "state"),
        ("find_operations", {"limit": 0}, "limit"),
        ("begin_run", {"run": RUN, "schedule": {"name": "w"}}, "schedule.occurrence"),
        ("begin_run", {"run": RUN, "call_id": RUN}, "call_id"),
        ("begin_run", {"plan": []}, "run"),
    ],
    ids=str,
)
async def test_what_does_not_fit_is_refused_by_name(tool: str, arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await command_of(tool, **arguments)
    assert refused.value.field == field


# on a real journal


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_run_from_its_plan_to_its_end(tmp_path: Path, mode: Mode) -> None:
    clock = FakeClock()
    async with session(tmp_path, clock, mode=mode) as here:
        started = await here.call("begin_run", run=RUN, plan=STEPS, goal="the report", holder="first")
        assert (started["reason"], [step["next"] for step in started["steps"]]) == (
            "started",
            ["begin", "wait"],
        )
        assert await here.verb("finish_run", run=RUN, outcome="completed") == "stop: unmet"
        build = {key: STEPS[0][key] for key in ("key", "action", "target")}
        granted = await here.call("begin_operation", run=RUN, **build)
        clock.advance(290)
        beat = await here.call(
            "record_progress", run=RUN, key="build", attempt=1, checkpoint={"sent": 3}, message="sending"
        )
        assert (beat["next"], beat["attempt"]) == ("continue", 1)
        assert beat["send_before"] > granted["send_before"]
        clock.advance(200)
        done = {"run": RUN, "key": "build", "kind": "commit", "external_id": "abc123", "system": "git"}
        assert await here.verb("record_receipt", **done) == "continue: recorded"
        found = await here.call("find_operations", external_id="abc123")
        assert [(one["key"], one["state"]) for one in found["operations"]] == [("build", "succeeded")]
        closing = {"run": RUN, "key": "mail", "outcome": "cancelled", "reason": "nobody needs it"}
        assert await here.verb("close_operation", **closing) == "continue: recorded"
        assert await here.verb("finish_run", run=RUN, outcome="completed") == "continue: finished"
        assert await here.verb("begin_run", run=RUN) == "skip: already_succeeded"


async def test_a_checkpoint_comes_back_to_whoever_resumes(tmp_path: Path) -> None:
    clock = FakeClock()
    async with session(tmp_path, clock) as first:
        await first.call("begin_run", run=RUN, plan=STEPS)
        await first.call("begin_operation", run=RUN, **STEPS[0])
        await first.call("record_progress", run=RUN, key="build", checkpoint={"sent": 3})
        await first.call("record_progress", run=RUN, checkpoint={"page": 7})
    clock.advance(1_000)
    async with session(tmp_path, clock, connection="second") as second:
        resumed = await second.call("begin_run", run=RUN)
        assert resumed["run"]["checkpoint"] == {"page": 7}
        begun = await second.call("begin_operation", run=RUN, **STEPS[0])
        assert (begun["next"], begun["checkpoint"]) == ("reconcile", {"sent": 3})


async def test_the_first_page_of_a_long_plan_fits_and_its_cursor_skips_nothing(tmp_path: Path) -> None:
    async with session(tmp_path, FakeClock()) as here:
        steps = [
            {"key": f"step-{number}", "action": '"' * 200, "target": '"' * 280 + str(number)}
            for number in range(60)
        ]
        page = await here.call("begin_run", run=RUN, plan=steps, goal='"' * 3_000, workflow='"' * 3_000)
        assert "shortened" not in page
        keys = [step["key"] for step in page["steps"]]
        assert 0 < len(keys) < 60
        while page["cut"]:
            page = await here.call("resume_plan", run=RUN, cursor=page["next_cursor"])
            keys += [step["key"] for step in page["steps"]]
        assert keys == [f"step-{number}" for number in range(60)]


async def test_a_begin_run_with_much_to_tell_beside_the_plan_skips_nothing(tmp_path: Path) -> None:
    async with session(tmp_path, FakeClock()) as here:
        steps = [{"key": f"a-{n}", "action": "mail.send", "target": f"{n}@example.org"} for n in range(40)]
        await here.call("begin_run", run=RUN, plan=steps, goal="g" * 300)
        await here.call("record_progress", run=RUN, checkpoint={"text": "c" * 1_900})
        alike = [{**step, "key": f"b-{n}-{'x' * 180}"} for n, step in enumerate(steps)]
        page = await here.call("begin_run", run=RUN, plan=alike)
        assert (page["duplicates_in_all"], len(page["duplicates"])) == (40, 10)
        assert "shortened" not in page
        keys = [step["key"] for step in page["steps"]]
        assert 0 < len(keys) < 30
        while page["cut"]:
            page = await here.call("resume_plan", run=RUN, cursor=page["next_cursor"])
            keys += [step["key"] for step in page["steps"]]
        assert keys == [step["key"] for step in steps]


async def test_the_last_checkpoint_of_every_open_step_comes_back_in_the_plan(tmp_path: Path) -> None:
    clock = FakeClock()
    keys = ["failed", "live", "doubtful", "done"]
    async with session(tmp_path, clock) as here:
        for key in keys:
            await here.call("begin_operation", run=RUN, key=key, action="mail.send", target=key)
            for sent in (1, 2):
                await here.call(
                    "record_progress", run=RUN, key=key, attempt=1, checkpoint={"key": key, "sent": sent}
                )
        ended: dict[str, Any] = {"run": RUN, "attempt": 1, "error": "it ended"}
        await here.call("record_failure", key="failed", effect="none", evidence={"status": 422}, **ended)
        await here.call("record_failure", key="doubtful", effect="unknown", **ended)
        await here.call("record_receipt", run=RUN, key="done", attempt=1, external_id="m-1")
    async with session(tmp_path, clock, connection="second") as there:
        for tool in ("resume_plan", "begin_run"):
            steps = {step["key"]: step for step in (await there.call(tool, run=RUN))["steps"]}
            assert {key: step["checkpoint"] for key, step in steps.items()} == {
                key: {"key": key, "sent": 2} for key in ("failed", "live", "doubtful")
            }
        page = await there.call("resume_plan", run=RUN, include="all")
        assert ["checkpoint" in step for step in page["steps"]] == [True, True, True, False]


async def test_progress_of_an_attempt_without_its_operation_prolongs_nothing(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_test_journal(tmp_path, clock=clock) as journal:
        desk = Desk(journal, clock, run=RUN, key="mail")
        begun = await desk.begin(lease_seconds=60)
        for run, named in ((RUN, [begun["operation"]]), ("another", [])):
            await journal.begin_run(BeginRun(run=run), AGENT)
            with pytest.raises(Ambiguous) as refused:
                await journal.record_progress(RecordProgress(ref=OperationRef(run=run), attempt=1), AGENT)
            assert [candidate.split()[0] for candidate in refused.value.candidates] == named
            assert refused.value.recorded is False
        assert (await desk.check())["retry_at"] == begun["send_before"]


async def test_long_checkpoints_leave_room_for_every_step_of_the_plan(tmp_path: Path) -> None:
    keys = [f"k{n:02}" for n in range(12)]
    async with session(tmp_path, FakeClock()) as here:
        for key in keys:
            await here.call("begin_operation", run=RUN, key=key, action="mail.send", target=key)
            await here.call("record_progress", run=RUN, key=key, attempt=1, checkpoint={"text": "x" * 1_900})
        page = await here.call("resume_plan", run=RUN)
        steps = list(page["steps"])
        while page["cut"]:
            assert "shortened" not in page
            page = await here.call("resume_plan", run=RUN, cursor=page["next_cursor"])
            steps += page["steps"]
        assert [step["key"] for step in steps] == keys
        assert {step["checkpoint"]["text"] for step in steps} == {"x" * 1_900}


def test_two_servers_for_the_same_slot_see_each_other_over_stdio(tmp_path: Path) -> None:
    """S-2: the hold tells the second who is at it.

    Reported: huggingface/agent-manager#97.
    """
    with Server(tmp_path).start() as first, Server(tmp_path).start() as second:
        begun = first.call("begin_run", run=RUN, plan=STEPS, holder="cron 02:00")
        assert begun["reason"] == "started"
        held = second.call("begin_run", run=RUN, plan=STEPS)
        assert (held["next"], held["reason"], held["held_by"]) == ("wait", "run_held", "cron 02:00")
        assert second.call("record_progress", run=RUN)["reason"] == "run_held"
        assert first.call("record_progress", run=RUN, message="half")["reason"] == "recorded"
        assert first.call("finish_run", run=RUN, outcome="failed")["reason"] == "finished"
        taken = second.call("begin_run", run=RUN)
        assert (taken["reason"], len(taken["steps"])) == ("resumed", 2)
        assert second.call("find_operations", run=RUN, state="planned")["cut"] is False
