"""Every cell of docs/states.md, reached and held against its words with real commands on a real journal.

What is expected is read from the document, not from the table that the code decides by.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from conformance.states_cases import CASES, Case
from conformance.states_document import STATES, Expected, read_tables
from counterfoil.store.domain.commands import Caller
from journals import Desk, folder_in_memory, open_desk

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory: waiting for a disk shows nothing here."""
    with folder_in_memory() as folder:
        yield folder


TABLES = read_tables()

STRANGER = Caller(connection="connection-9", conversation="conversation-9")

SKIP_REASONS = {
    "succeeded": "already_succeeded",
    "timed_out": "timed_out",
    "cancelled": "cancelled",
    "compensated": "compensated",
}

IMPOSSIBLE_CELLS = {
    "begin_operation": {
        "no live lease; unsafe, or the key is over": "in_progress",
        "no live lease; safe, or the key is alive": "in_progress",
        "live lease, by its holder": "planned in_doubt failed timed_out cancelled",
        "live lease, by another": "planned in_doubt failed timed_out cancelled",
        "same call id, no other caller": "planned",
    },
    "record_receipt": {
        "strong, of an older attempt that was unknown": "planned failed",
        "strong, of an older attempt that was found without effect": "planned",
        "strong, of the newest attempt, found without effect while an older one is unknown": (
            "planned in_progress failed"
        ),
        "same kind, system and external_id again": "planned",
        "another external_id, same kind and system": "planned in_progress in_doubt failed",
        "other kind or system, same attempt": "planned in_progress in_doubt failed",
        "other kind or system, another attempt, not safe": "planned in_progress in_doubt failed",
    },
    "record_failure": {
        "newest attempt, its holder: unknown": "planned",
        "newest attempt, its holder: none, with evidence": "planned",
        "newest attempt, its holder: none, without evidence": "planned",
        "newest attempt, another caller: kept as a claim": "planned",
        "older attempt": "planned",
    },
    "record_progress": {
        "newest attempt, its holder": "planned",
        "newest attempt, another caller": "planned",
        "older attempt": "planned",
    },
    "reconcile_operation": {"not_performed, about an older attempt": "planned"},
    "Time and other operations": {
        "the lease of the newest attempt runs out": "planned in_doubt failed timed_out cancelled",
        "an operation with `compensates: this` succeeds": "planned",
    },
}
"""No attempt, no receipt, or no lease where the situation needs one: these cannot be reached."""


async def seen(desk: Desk) -> Mapping[str, Any]:
    """What is known of the operation; nothing where it does not exist."""
    plan = await desk.plan()
    if not any(step["key"] == desk.key for step in plan["steps"]):
        return {"state": "planned"}
    return await desk.check()


def amounts(check: Mapping[str, Any]) -> tuple[Any, ...]:
    """State, and how many attempts and receipts there are."""
    return check["state"], check["attempts_in_all"], len(check.get("receipts", ()))


def expected_of(case: Case) -> Expected:
    """The cell's part, or the cell of the row that decides in its place."""
    cell = TABLES[case.table][case.situation][case.state][case.part]
    if not cell.is_below:
        assert case.below is None
        return cell
    assert case.below is not None, "the cell says that another row decides"
    return TABLES[case.table][case.below][case.state][""]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_the_command_answers_and_leads_as_documented(case: Case, tmp_path: Path) -> None:
    expected = expected_of(case)
    async with open_desk(tmp_path, policy=case.policy) as desk:
        await case.reach(desk)
        assert (await seen(desk))["state"] == case.state

        answer = await case.give(desk)

        after = await desk.check()
        to = case.ends if expected.to == "decision" else expected.to
        assert after["state"] == (to or case.state)
        if expected.next is not None:
            assert answer["state"] == after["state"]
            assert (answer["next"], answer["reason"]) == _words(case, expected)
            await desk.again()
            assert amounts(await desk.check()) == amounts(after), "the same call again changed something"
        assert (await desk.journal.reader.verify()).faults == ()
        await assert_reads_agree_with_a_begin(desk)


def _words(case: Case, expected: Expected) -> tuple[str | None, str | None]:
    if expected.next == "skip":
        return "skip", SKIP_REASONS[case.state]
    if expected.next == "disputed†":
        assert case.verb is not None
        return case.verb, "disputed"
    assert case.verb is None
    return expected.next, expected.reason


async def assert_reads_agree_with_a_begin(desk: Desk) -> None:
    """A check and the plan say what a stranger who begins now is told."""
    check = await desk.check(caller=STRANGER)
    step = next(step for step in (await desk.plan(caller=STRANGER))["steps"] if step["key"] == desk.key)
    assert (step["state"], step["next"], step["reason"]) == (check["state"], check["next"], check["reason"])
    begun = await desk.begin(caller=STRANGER)
    next_ = "begin" if begun["next"] == "perform" else begun["next"]
    assert (next_, begun["reason"]) == (check["next"], check["reason"])
    assert (await desk.journal.reader.verify()).faults == ()


def test_every_documented_cell_is_reached() -> None:
    documented = {
        (table, situation, state, part)
        for table, rows in TABLES.items()
        for situation, cells in rows.items()
        for state, cell in cells.items()
        for part in cell
    }
    tested = {(case.table, case.situation, case.state, case.part) for case in CASES}
    assert sorted(documented - tested) == []
    assert sorted(tested - documented) == []


def test_every_cell_that_cannot_occur_is_listed() -> None:
    empty = {
        table: {
            situation: " ".join(state for state in STATES if not cells[state])
            for situation, cells in rows.items()
            if not all(cells.values())
        }
        for table, rows in TABLES.items()
    }
    assert {table: rows for table, rows in empty.items() if rows} == IMPOSSIBLE_CELLS
