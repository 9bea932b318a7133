"""Field reports about growth: what is stored grows with the work, and what is asked does not read all of it.

Longer, with the same code: `COUNTERFOIL_LONG=1 uv run pytest tests/scenarios/test_growth.py`.
"""

import re
import sqlite3
from pathlib import Path
from typing import Any

import anyio
import pytest

from counterfoil.store.domain.commands import ResumePlan
from counterfoil.store.statements import load_statements
from crash.sessions import LONG
from journals import ANOTHER, Desk, open_desk

pytestmark = pytest.mark.anyio

OPERATIONS = 4_000 if LONG else 400


async def begin_many(desk: Desk, count: int, *, run: str, **fields: Any) -> None:
    """Begin and record `count` operations, fifty at a time."""

    async def one(number: int) -> None:
        place = desk.at(f"step-{number}", run=run)
        await place.begin(**fields)
        await place.receipt(external_id=f"{run}-{number}")

    for start in range(0, count, 50):
        async with anyio.create_task_group() as tasks:
            for number in range(start, min(start + 50, count)):
                tasks.start_soon(one, number)


async def test_a_context_that_every_step_repeats_is_stored_once(tmp_path: Path) -> None:
    """G-1: ten kilobytes at each of many steps; the file grows by the steps and not by the repeats.

    Reported: langchain-ai/openwiki#257, langchain-ai/openwiki#476.
    """
    context = {"tools": {f"tool-{number}": {"digest": "d" * 80} for number in range(100)}}
    async with open_desk(tmp_path) as desk:
        await begin_many(desk, OPERATIONS // 2, run="run-1", context=context)
        half = _size(tmp_path / "journal.db")
        await begin_many(desk, OPERATIONS // 2, run="run-2", context=context)
        whole = _size(tmp_path / "journal.db")
    raw = sqlite3.connect(tmp_path / "journal.db")
    assert raw.execute("SELECT count(*) FROM contexts").fetchone() == (1,)
    raw.close()
    per_operation = (whole - half) / (OPERATIONS // 2)
    assert per_operation < 8_000
    assert whole < 2.5 * half


async def test_side_files_stay_small_beside_idle_readers(tmp_path: Path) -> None:
    """G-2: three sessions that read once and then sit there, and one that writes.

    Reported: BYK/loreai#1221, openclaw/openclaw#143524.
    """
    async with (
        open_desk(tmp_path) as writer,
        open_desk(tmp_path) as one,
        open_desk(tmp_path) as two,
        open_desk(tmp_path) as three,
    ):
        largest = 0
        for round_number in range(4):
            for idle in (one, two, three):
                await idle.plan()
            await begin_many(writer, OPERATIONS // 4, run=f"run-{round_number}", args={"text": "x" * 2_000})
            largest = max(largest, *(_size(path) for path in _side_files(tmp_path)))
        assert largest <= 17 * 1024 * 1024
        assert (await three.plan(run="run-3"))["run"]["operations"] == OPERATIONS // 4


async def test_a_small_run_is_planned_without_reading_the_large_ones(tmp_path: Path) -> None:
    """G-4: every statement that a plan or a begin runs goes by an index.

    Reported: Q00/ouroboros#1359.
    """
    async with open_desk(tmp_path) as desk:
        await begin_many(desk, OPERATIONS // 2, run="large")
        await begin_many(desk, 20, run="small")
        plan = await desk.plan(run="small", caller=ANOTHER)
        assert plan["counts"] == {"succeeded": 20}
        listed = await desk.journal.resume_plan(ResumePlan(include="all"), ANOTHER)
        assert {run["run"]: run["operations"] for run in listed["runs"]} == {
            "large": OPERATIONS // 2,
            "small": 20,
        }
    for name in (
        "read_run",
        "read_operation",
        "read_operations",
        "read_operation_by_id",
        "read_attempts",
        "read_receipts",
        "read_findings",
        "any_trace",
        "look_alikes",
        "other_owner",
        "other_owner_of_undoing",
        "owners",
        "open_of_holder",
        "same_effect_elsewhere",
        "count_states",
        "read_unsettled_operations",
        "read_operations_in_state",
        "read_satisfying_operations",
        "open_operations",
        "undecided_operations",
        "near_keys",
        "read_operation_events",
        "read_acts",
        "called_before",
        "child_runs",
        "same_occurrence",
        "read_grant_uses",
        "compensators",
        "list_runs",
    ):
        steps = _query_plan(tmp_path / "journal.db", name)
        # The few rows that an inner query gave may be gone through; a table may not.
        scanned = {step.split()[1] for step in steps if step.startswith("SCAN")}
        assert not scanned & _tables(tmp_path / "journal.db"), name
        assert not [step for step in steps if step.endswith("(namespace=?)")], name


async def test_a_search_reads_the_rows_of_what_it_gives_and_of_nothing_else(tmp_path: Path) -> None:
    """G-4: all that is searched by stands in the one index of changes; what does not fit costs little.

    Reported: Q00/ouroboros#1359.
    """
    async with open_desk(tmp_path):
        pass
    steps = _query_plan(tmp_path / "journal.db", "search_operations")
    (inner,) = [step for step in steps if "operations_by_change" in step]
    assert inner == (
        "SEARCH operations USING COVERING INDEX operations_by_change"
        " (namespace=? AND updated_at>? AND updated_at<?)"
    )
    assert any(step.endswith("(namespace=? AND run=? AND key=?)") for step in steps)


def _size(path: Path) -> int:
    return path.stat().st_size


def _side_files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.suffix != ".db"]


def _tables(path: Path) -> set[str]:
    raw = sqlite3.connect(path)
    names = {name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    raw.close()
    return names


def _query_plan(path: Path, name: str) -> list[str]:
    """Give SQLite's plan of a named statement."""
    statement = load_statements(dialect="sqlite")[name]
    raw = sqlite3.connect(path)
    parameters = dict.fromkeys(re.findall(r":(\w+)", statement.sql), "x")
    rows = raw.execute(f"EXPLAIN QUERY PLAN {statement.sql}", parameters).fetchall()
    raw.close()
    return [row[3] for row in rows]
