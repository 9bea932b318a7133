"""Several processes with durations of their own answer alike for one operation (CONTRACT.md, 2 and 3)."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from counterfoil.store.domain.commands import BeginRun, Lookup, PlanStep
from counterfoil.store.domain.states import Policy
from counterfoil.store.spool import read_spool
from journals import AGENT, ANOTHER, FakeClock, after, as_caller, folder_in_memory, open_desk

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]

PATIENT = Policy(settle_seconds=900)
HASTY = Policy(settle_seconds=60)
UNDECLARED = Lookup(tool="search_sent")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory: waiting for a disk shows nothing here."""
    with folder_in_memory() as folder:
        yield folder


def words(answer: dict[str, Any]) -> str:
    return f"{answer['next']} {answer['reason']}"


@pytest.mark.parametrize(
    ("granting", "asking", "settle"), [(PATIENT, HASTY, 900), (HASTY, PATIENT, 60)], ids=["longer", "shorter"]
)
async def test_the_default_of_the_process_that_granted_counts_whoever_asks(
    tmp_path: Path, granting: Policy, asking: Policy, settle: int
) -> None:
    clock = FakeClock()
    async with (
        open_desk(tmp_path, clock=clock, policy=granting) as desk,
        open_desk(tmp_path, clock=clock, policy=asking) as other,
    ):
        await desk.begin(lookup=UNDECLARED)
        await desk.failure("unknown")
        assert (await other.check())["settle_until"] == after(settle)
        assert (await other.check())["lookup"]["settle_seconds"] == settle
        clock.advance(settle - 1)
        early = await other.reconcile("not_performed", caller=ANOTHER, as_of=clock.text)
        assert (words(early), early["retry_at"]) == ("wait settling", after(settle))
        clock.advance(1)
        found = await other.reconcile("not_performed", caller=ANOTHER, as_of=clock.text)
        assert words(found) == "continue recorded"
        assert await desk.state() == "failed"
        assert (await desk.journal.reader.verify()).faults == ()


async def test_a_key_ends_at_the_same_time_whoever_asks(tmp_path: Path) -> None:
    clock = FakeClock()
    async with (
        open_desk(tmp_path, clock=clock, policy=PATIENT) as desk,
        open_desk(tmp_path, clock=clock, policy=HASTY) as other,
    ):
        await desk.begin(repeat="keyed", key_ttl_seconds=3_600, lookup=UNDECLARED)
        await desk.failure("unknown")
        clock.advance(3_600 - 900)
        assert words(await other.begin(caller=ANOTHER)) == "reconcile in_doubt"


async def test_an_effect_that_nobody_announced_settles_alike_whoever_asks(tmp_path: Path) -> None:
    clock = FakeClock()
    async with (
        open_desk(tmp_path, clock=clock, policy=PATIENT) as desk,
        open_desk(tmp_path, clock=clock, policy=HASTY) as other,
    ):
        step = PlanStep(key="key-1", action="email.send", lookup=UNDECLARED)
        await desk.journal.begin_run(BeginRun(run="run-1", plan=(step,)), as_caller(AGENT))
        await desk.receipt(final=False)
        assert (await other.check())["settle_until"] == after(900)
        later = await other.begin(lookup=Lookup(tool="search_sent", settle_seconds=5))
        assert words(later) == "reconcile in_doubt"
        assert later["settle_until"] == after(900)
        assert "settle_seconds: the recorded value stands, the given one is looser" in later["warnings"]


async def test_a_step_that_was_only_planned_takes_the_default_of_whoever_begins_it(tmp_path: Path) -> None:
    clock = FakeClock()
    async with (
        open_desk(tmp_path, clock=clock, policy=PATIENT) as desk,
        open_desk(tmp_path, clock=clock, policy=HASTY) as other,
    ):
        step = PlanStep(key="key-1", action="email.send", target="key-1@example.org", lookup=UNDECLARED)
        await desk.journal.begin_run(BeginRun(run="run-1", plan=(step,)), as_caller(AGENT))
        await other.begin()
        await other.failure("unknown")
        assert (await desk.check())["settle_until"] == after(60)


async def test_what_a_call_declares_counts_over_every_default_but_no_less_than_the_least(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    careful = Policy(least_settle_seconds=30)
    short = Lookup(tool="search_sent", settle_seconds=5)
    async with (
        open_desk(tmp_path, clock=clock, policy=careful) as desk,
        open_desk(tmp_path, clock=clock, policy=HASTY) as other,
    ):
        assert "warnings" not in await desk.begin(lookup=short)
        await desk.failure("unknown")
        again = await desk.begin(lookup=short)
        assert (words(again), "warnings" in again) == ("reconcile in_doubt", False)
        assert (await other.check())["settle_until"] == after(30)
        async with open_desk(tmp_path, clock=clock, policy=Policy(least_settle_seconds=120)) as strict:
            assert (await strict.check())["settle_until"] == after(120)


async def test_one_event_fixes_the_terms_of_a_begin(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        begun = await desk.begin(lookup=UNDECLARED, deadline_seconds=7_200)
        assert words(begun) == "perform first_attempt"
        history = (await desk.check(detail="full"))["history"]
        assert [entry["event"] for entry in history] == [
            "operation_created",
            "terms_fixed",
            "attempt_granted",
        ]
        assert history[1]["data"] == {
            "repeat": "unsafe",
            "settle_seconds": 300,
            "deadline_seconds": 7_200,
            "lookup": {"tool": "search_sent"},
        }


async def test_an_export_carries_the_settle_time_to_a_journal_with_another_default(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock, policy=PATIENT) as desk:
        await desk.begin(lookup=UNDECLARED)
        await desk.failure("unknown")
        file = "".join([line async for line in desk.journal.keeper.export()]).encode()
    async with open_desk(tmp_path, clock=clock, policy=HASTY, name="other.db") as other:
        await other.journal.keeper.take_in(read_spool(io.BytesIO(file)), as_caller(AGENT))
        assert (await other.check())["settle_until"] == after(900)
        assert (await other.journal.reader.verify()).faults == ()
