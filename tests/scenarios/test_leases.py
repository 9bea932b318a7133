"""Field reports about leases and concurrency: who may act, decided at the moment of the begin.

L-6 and L-9, which need many processes, are in `tests/crash/test_many_processes.py`.
"""

from pathlib import Path

import anyio
import pytest

from counterfoil.store.domain.commands import Lookup
from journals import AGENT, ANOTHER, FakeClock, as_caller, open_desk

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]

LOOKUP = Lookup(tool="mail.search", settle_seconds=300)


async def test_a_dead_owner_is_told_by_its_lease_and_by_nothing_else(tmp_path: Path) -> None:
    """L-4: its process number now belongs to another program; it can be taken over all the same.

    Reported: mikkelchokolate/Veil#67.
    """
    async with open_desk(tmp_path) as desk:
        await desk.begin(lookup=LOOKUP)
        desk.clock.advance(299)
        held = await desk.begin(caller=ANOTHER)
        assert (held["next"], held["reason"]) == ("wait", "lease_held")
        desk.clock.advance(1)
        assert held["retry_at"] == desk.clock.text
        taken = await desk.begin(caller=ANOTHER)
        assert (taken["state"], taken["next"], taken["reason"]) == ("in_doubt", "reconcile", "in_doubt")
        assert (await desk.check())["attempts_in_all"] == 1
        desk.clock.advance(300)
        looked = (await desk.check(caller=ANOTHER))["as_of"]
        found = await desk.reconcile("not_performed", as_of=looked, caller=ANOTHER)
        assert (found["state"], found["reason"]) == ("failed", "recorded")
        own = await desk.begin(caller=ANOTHER)
        assert (own["next"], own["attempt"]) == ("perform", 2)


async def test_a_begin_decides_anew_whatever_the_plan_said(tmp_path: Path) -> None:
    """L-5: the plan said `begin`; another session began meanwhile; the plan tells when it was true.

    Reported: dbos-inc/dbos-transact-java#491, dbos-inc/dbos-transact-py#742.
    """
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        await desk.failure("none", evidence={"status": 400})
        plan = await desk.plan()
        assert plan["steps"][0]["next"] == "begin"
        assert plan["as_of"] == desk.clock.text
        desk.clock.advance(5)
        theirs = await desk.begin(caller=ANOTHER)
        assert (theirs["next"], theirs["attempt"]) == ("perform", 2)
        mine = await desk.begin()
        assert (mine["next"], mine["reason"]) == ("wait", "lease_held")
        assert mine["as_of"] > plan["as_of"]
        check = await desk.check()
        assert (check["attempts_in_all"], check["state"]) == (2, "in_progress")


async def test_twenty_callers_at_once_are_one_grant_and_nineteen_waits(tmp_path: Path) -> None:
    """L-6: on one connection, where their commits are grouped.

    Reported: anthropics/claude-code#91353, PrefectHQ/prefect#8880.
    """
    async with open_desk(tmp_path) as desk:
        answers = []

        async def ask(number: int) -> None:
            caller = as_caller(AGENT)
            answers.append(await desk.begin(caller=caller if number else as_caller(ANOTHER)))

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(ask, number)
        assert sorted(answer["next"] for answer in answers) == ["perform"] + ["wait"] * 19
        assert {answer["attempt"] for answer in answers} == {1}
        assert (await desk.check())["attempts_in_all"] == 1


async def test_nothing_that_comes_late_downgrades_what_succeeded(tmp_path: Path) -> None:
    """L-7: after the receipt a heartbeat comes, the lease runs out, a failure and an empty look come in.

    Reported: PrefectHQ/prefect#18653, PrefectHQ/prefect#16459, apache/airflow#13747.
    """
    async with open_desk(tmp_path) as desk:
        await desk.begin(lookup=LOOKUP)
        await desk.receipt()
        for pause_seconds in (1, 10_000):
            desk.clock.advance(pause_seconds)
            beat = await desk.progress(attempt=1)
            assert (beat["state"], beat["next"]) == ("succeeded", "skip")
            assert (await desk.plan())["counts"] == {"succeeded": 1}
        late = await desk.failure("unknown", error="heartbeat lost")
        assert (late["state"], late["next"]) == ("succeeded", "skip")
        assert (await desk.failure("none", evidence={"status": 400}))["state"] == "succeeded"
        looked = await desk.reconcile("not_performed", as_of=desk.clock.text, caller=ANOTHER)
        assert (looked["state"], looked["next"]) == ("succeeded", "skip")
        check = await desk.check()
        assert (check["attempts_in_all"], check["attempts"][0]["outcome"]) == (1, "performed")
        assert [receipt["accepted"] for receipt in check["receipts"]] == [True]


async def test_silence_is_doubt_and_never_failure(tmp_path: Path) -> None:
    """L-7: nobody reports while the effect goes on; its own receipt still counts later.

    Reported: PrefectHQ/prefect#18653, PrefectHQ/prefect#16459, apache/airflow#13747.
    """
    async with open_desk(tmp_path) as desk:
        await desk.begin(lookup=LOOKUP)
        desk.clock.advance(86_400)
        assert await desk.state() == "in_doubt"
        assert (await desk.begin(caller=ANOTHER))["next"] == "reconcile"
        late = await desk.receipt(attempt=1)
        assert (late["state"], late["next"]) == ("succeeded", "continue")
        assert (await desk.check())["attempts_in_all"] == 1


@pytest.mark.parametrize("jump_seconds", [-3_600, 5 * 3_600])
async def test_a_wall_clock_that_jumps_permits_nothing(tmp_path: Path, jump_seconds: float) -> None:
    """L-8: no `perform` and nothing settled by the clock; the settle time starts anew.

    Reported: microsoft/WSL#10006.
    """
    async with open_desk(tmp_path) as desk:
        await desk.begin(lookup=LOOKUP)
        await desk.failure("unknown", error="lost")
        desk.clock.jump(jump_seconds)
        assert (await desk.begin(caller=ANOTHER))["next"] == "reconcile"
        looked = await desk.reconcile("not_performed", as_of=desk.clock.text, caller=ANOTHER)
        assert (looked["next"], looked["reason"]) == ("wait", "settling")
        # A clock that was set back has to catch up with the grant first.
        desk.clock.advance(300 + max(0, -jump_seconds))
        assert desk.clock.text >= looked["retry_at"]
        found = await desk.reconcile("not_performed", as_of=desk.clock.text, caller=ANOTHER)
        assert found["state"] == "failed"
        again = await desk.begin(caller=ANOTHER)
        assert (again["next"], again["attempt"]) == ("perform", 2)


async def test_a_machine_that_was_started_again_has_not_jumped(tmp_path: Path) -> None:
    """L-8: monotonic readings of two boots cannot be compared, and the settle time does not start anew.

    Reported: microsoft/WSL#10006.
    """
    async with open_desk(tmp_path) as desk:
        await desk.begin(lookup=LOOKUP)
        await desk.failure("unknown", error="lost")
        desk.clock.advance(300)
        desk.clock.reboot()
        found = await desk.reconcile("not_performed", as_of=desk.clock.text, caller=ANOTHER)
        assert (found["state"], found["next"]) == ("failed", "continue")
        history = (await desk.check(detail="full"))["history"]
        assert "clock_jumped" not in [entry["event"] for entry in history]


async def test_a_live_lease_survives_a_clock_set_back_without_a_second_grant(tmp_path: Path) -> None:
    """L-8: an hour back, then five ahead; ages are never negative, and the number fences.

    Reported: microsoft/WSL#10006.
    """
    async with open_desk(tmp_path) as desk:
        await desk.begin(lookup=LOOKUP)
        desk.clock.jump(-3_600)
        assert (await desk.begin(caller=ANOTHER))["reason"] == "lease_held"
        (step,) = (await desk.plan())["steps"]
        assert step["age_seconds"] == 0
        desk.clock.jump(5 * 3_600)
        assert (await desk.begin(caller=ANOTHER))["next"] == "reconcile"
        history = (await desk.check(detail="full"))["history"]
        assert [entry["seq"] for entry in history] == sorted(entry["seq"] for entry in history)
        assert (await desk.receipt(attempt=1))["state"] == "succeeded"


async def test_a_keys_life_is_not_lengthened_by_a_clock_set_back(tmp_path: Path) -> None:
    """L-8: what the wall clock was set back is taken off the time in which the provider absorbs a repeat.

    Reported: microsoft/WSL#10006.
    """
    keyed = {"repeat": "keyed", "key_ttl_seconds": 3_600, "lookup": LOOKUP}
    async with open_desk(tmp_path) as desk:
        await desk.begin(**keyed)
        desk.clock.advance(3_000)
        desk.clock.jump(-3_000)
        await desk.failure("unknown", error="lost")
        desk.clock.advance(600)
        again = await desk.begin(caller=ANOTHER, **keyed)
        assert (again["state"], again["next"]) == ("in_doubt", "reconcile")


async def test_a_machine_that_slept_holds_what_it_had_begun(tmp_path: Path) -> None:
    """L-8: the process was stopped for ten minutes; its own begin is not renewed, its receipt counts.

    Reported: microsoft/WSL#10006.
    """
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        mine = as_caller(AGENT)
        await desk.begin(caller=mine, lookup=LOOKUP)
        clock.jump(600)
        again = await desk.begin(caller=mine)
        assert (again["next"], again["reason"]) == ("reconcile", "in_doubt")
        assert (await desk.receipt(attempt=1))["state"] == "succeeded"
