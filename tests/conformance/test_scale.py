"""Large journals: a call reads what it is about, not the rest of its run nor of the journal."""

import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from counterfoil.store.domain.commands import (
    BeginRun,
    CheckOperation,
    FindOperations,
    FinishRun,
    OperationRef,
    PlanStep,
    RecordProgress,
    ResumePlan,
)
from counterfoil.store.errors import NotFound
from journals import AGENT, Desk, FakeClock, open_desk

pytestmark = pytest.mark.anyio

BUILD = Path(__file__).parents[2] / "bench" / "large_journal.py"
HUNDRED, LARGEST = "invoices/000003", "invoices/000000"
"""Two runs that are open in every built journal: one of a hundred operations, and the largest."""
FEW, MANY = 1_000, 4_000
WAIT_SECONDS = 120


def build(path: Path, operations: int) -> None:
    subprocess.run(
        [sys.executable, str(BUILD), str(path), "--operations", str(operations)],
        check=True,
        capture_output=True,
        timeout=WAIT_SECONDS,
    )


@pytest.fixture(scope="module")
def few_and_many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two journals, one four times as large as the other."""
    few, many = tmp_path_factory.mktemp("few"), tmp_path_factory.mktemp("many")
    build(few / "journal.db", FEW)
    build(many / "journal.db", MANY)
    return few, many


def now() -> FakeClock:
    """A clock that stands where the built journals end."""
    return FakeClock(time.time_ns() // 1_000)


async def test_a_journal_that_was_built_in_bulk_is_what_the_journal_would_have_written(
    few_and_many: tuple[Path, Path],
) -> None:
    async with open_desk(few_and_many[1], clock=now()) as desk:
        verified = await desk.journal.reader.verify()
        assert (verified.operations, verified.faults) == (MANY, ())
        assert await desk.journal.database.integrity() == []  # type: ignore[attr-defined]
        plan = await desk.plan(run=HUNDRED, include="open")
        assert plan["counts"] == {
            "succeeded": 80,
            "in_doubt": 5,
            "planned": 5,
            "failed": 5,
            "disputed": 5,
        }
        for system, most in (("smtp", 2), ("fax", 0)):
            search = FindOperations(system=system, limit=2)
            assert len((await desk.journal.find_operations(search, AGENT))["operations"]) == most
        begun = desk.at("mail:customer-000001", run=HUNDRED)
        again = await begun.begin(
            action="mail.send",
            target=f"Customer-000001.{HUNDRED}@example.org",
            args={"subject": "Your invoice", "invoice": f"{HUNDRED}/1"},
        )
        assert (again["next"], again["reason"]) == ("skip", "already_succeeded")
        reworded = desk.at("another-key", run=HUNDRED)
        alike = await reworded.begin(
            action="mail.send", target=f"customer-000002.{HUNDRED}@example.org", args={"invoice": "two"}
        )
        assert (alike["next"], alike["reason"]) == ("stop", "possible_duplicate")
        assert alike["duplicates"][0]["key"] == "mail:customer-000002"


def calls_in(desk: Desk, run: str) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Give one call of each kind, in a run that is open."""
    place = desk.at("a-new-key", run=run)
    journal = desk.journal
    step = PlanStep(key="a-step", action="post", target="here", depends_on=("mail:customer-000001",))

    async def unknown_key() -> None:
        with pytest.raises(NotFound):
            await desk.at("no-such-key", run=run).check()

    async def by_reference() -> None:
        check = CheckOperation(ref=OperationRef(), external_id=f"<{run}-3@mail.example.org>")
        assert (await journal.check_operation(check, AGENT))["key"] == "mail:customer-000003"

    return {
        "begin": lambda: place.begin(action="mail.send", args={"invoice": 1}, payload="Dear customer"),
        "record_progress": place.progress,
        "record_failure": place.failure,
        "reconcile": lambda: place.reconcile("not_performed"),
        "record_receipt": lambda: place.receipt(external_id="a-new-reference"),
        "begin once more": lambda: place.begin(action="mail.send", args={"invoice": 1}, payload="Dear you"),
        "close": lambda: place.close("cancelled"),
        "check": place.check,
        "check, the whole history": lambda: place.check(detail="full"),
        "check of an unknown key": unknown_key,
        "check by reference": by_reference,
        "begin_run": lambda: journal.begin_run(BeginRun(run=run, parent="invoices"), AGENT),
        "begin_run with a plan": lambda: journal.begin_run(BeginRun(run=run, plan=(step,)), AGENT),
        "progress of the run": lambda: journal.record_progress(
            RecordProgress(ref=OperationRef(run=run), message="half"), AGENT
        ),
        "finish_run, refused": lambda: journal.finish_run(FinishRun(run=run, outcome="completed"), AGENT),
        "resume_plan": lambda: desk.plan(run=run, include="open"),
        "resume_plan without a run": lambda: journal.resume_plan(ResumePlan(limit=3), AGENT),
        "find, the newest": lambda: journal.find_operations(FindOperations(), AGENT),
        "find, the newest of an action": lambda: journal.find_operations(
            FindOperations(action="mail.send"), AGENT
        ),
        "find, until a moment": lambda: journal.find_operations(
            FindOperations(until="2001-01-01T00:00:00Z"), AGENT
        ),
    }


async def work_of_each(folder: Path, run: str) -> dict[str, int]:
    """Count what SQLite does for each call, in its own instructions: the same on every computer."""
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    async with AsyncExitStack() as stack:
        desk = await stack.enter_async_context(open_desk(folder, clock=now()))
        for thread in (desk.journal.database._writer, desk.journal.database._reader):  # type: ignore[attr-defined]
            await thread.run(lambda raw: raw.set_progress_handler(count, 1))
        spent = {}
        for name, call in calls_in(desk, run).items():
            before = steps
            await call()
            spent[name] = steps - before
        return spent


async def test_the_work_of_a_call_does_not_grow_with_the_journal(few_and_many: tuple[Path, Path]) -> None:
    few, many = [await work_of_each(folder, HUNDRED) for folder in few_and_many]
    assert {name: (few[name], many[name]) for name in few if many[name] > 1.05 * few[name] + 50} == {}


async def test_the_work_of_a_call_does_not_grow_with_what_is_settled_in_its_run(
    few_and_many: tuple[Path, Path],
) -> None:
    """But for what is counted in a plan and at the end: a few instructions for each settled operation."""
    few, many = [await work_of_each(folder, LARGEST) for folder in few_and_many]
    counting = 20 * (MANY - FEW) // 10
    for name in few:
        if "plan" in name or "begin_run" in name or "finish_run" in name:
            many[name] -= counting
    assert {name: (few[name], many[name]) for name in few if many[name] > 1.05 * few[name] + 50} == {}
