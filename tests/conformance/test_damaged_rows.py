"""Rows that a disk or a careless program has damaged: held in doubt, told, made anew from a whole log."""

import io
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from conformance.sqlite_journals import damage
from counterfoil.store.domain.commands import (
    BeginRun,
    CheckOperation,
    FinishRun,
    OperationRef,
    PlanStep,
    ReceiptGiven,
    RecordReceipt,
    RequestAuthority,
    VerifyOperation,
)
from counterfoil.store.errors import JournalUnavailable, NotFound
from counterfoil.store.spool import read_spool
from journals import AGENT, ANOTHER, Desk, as_caller, folder_in_memory, open_desk, plain_sql

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder for a journal whose durability is not the point here."""
    with folder_in_memory() as found:
        yield found


BAD = "(SELECT id FROM operations WHERE key = 'bad')"

JSON_COLUMNS = ("description", "terms", "links", "clock", "began")
BROKEN = ("{broken", "[]", '"text"', "7", "[" * 100_000, "")
"""Texts that no column of JSON holds: no JSON, another form, too deep, nothing."""

OTHER_DAMAGES = {
    "a duration that is a text": """UPDATE operations SET terms = '{"key_ttl_seconds":"7"}'""",
    "a repeat that is none": """UPDATE operations SET terms = '{"repeat":"often"}'""",
    "links that are no list": """UPDATE operations SET links = '{"depends_on":"good"}'""",
    "a state that is none": "UPDATE operations SET state = 'perhaps'",
    "another state": "UPDATE operations SET state = 'failed'",
    "a decision that is none": "UPDATE operations SET decision = 'perhaps', decided_at = 1, decided_by = 'x'",
    "a dispute that is none": "UPDATE operations SET dispute = 'perhaps', disputed_at = 1",
    "another action": "UPDATE operations SET action = 'email.sent'",
    "text that is no UTF-8": "UPDATE operations SET terms = CAST(x'7b22ff' AS TEXT)",
    "more attempts than there are": "UPDATE operations SET attempts = 2",
    "fewer findings than none": "UPDATE operations SET findings = -1",
    "receipts that are not there": "UPDATE operations SET receipts = 1",
}
DAMAGES = {
    **{
        f"{column} = {text[:9]}": f"UPDATE operations SET {column} = '{text}' WHERE key = 'bad'"
        for column in JSON_COLUMNS
        for text in BROKEN
    },
    **{name: f"{sql} WHERE key = 'bad'" for name, sql in OTHER_DAMAGES.items()},
    "an outcome that is none": f"UPDATE attempts SET outcome = 'perhaps' WHERE operation = {BAD}",
    "another outcome": f"UPDATE attempts SET outcome = 'refused' WHERE operation = {BAD}",
    "an error that is no UTF-8": f"UPDATE attempts SET error = CAST(x'ff' AS TEXT) WHERE operation = {BAD}",
    "no attempt": f"DELETE FROM attempts WHERE operation = {BAD}",
}


async def begin_all(folder: Path) -> None:
    """Begin the operation that is damaged later, a good one, and one that waits for the former."""
    async with open_desk(folder) as desk:
        await desk.at("good").begin()
        await desk.at("bad").begin(payload="a body", max_attempts=3)
        await desk.at("waits").begin(depends_on=("bad",))


@pytest.mark.parametrize("sql", DAMAGES.values(), ids=DAMAGES.keys())
async def test_an_operation_that_cannot_be_read_is_in_doubt_and_the_rest_is_served(
    folder: Path, sql: str
) -> None:
    await begin_all(folder)
    damage(folder, sql)
    async with open_desk(folder) as desk:
        desk.clock.advance(301)
        bad = desk.at("bad")
        begun, checked = await bad.begin(caller=ANOTHER), await bad.check(detail="full")
        plan = await desk.plan(include="open")
        (step,) = [step for step in plan["steps"] if step["key"] == "bad"]
        found = await desk.journal.reader.find(run=desk.run)
        (listed,) = [entry for entry in found if entry["key"] == "bad"]
        for answer in (begun, checked, step, listed):
            assert (answer["next"], answer["reason"], answer["state"]) == (
                "reconcile",
                "in_doubt",
                "in_doubt",
            )
            assert "counterfoil verify" in answer["warnings"][0]
            assert begun["operation"] in answer["warnings"][0]
        assert checked["history"][0]["event"] == "operation_created"
        assert plan["counts"] == {"in_doubt": 2, "planned": 1}
        assert (plan["complete"], plan["damaged"]) == (False, 1)
        waits = await desk.at("waits").begin(depends_on=("bad",))
        assert (waits["next"], waits["reason"]) == ("wait", "dependency")
        assert "counterfoil verify" in waits["warnings"][0]
        assert (await desk.at("good").receipt())["state"] == "succeeded"
        assert (await desk.at("new").begin())["next"] == "perform"


@pytest.mark.parametrize("sql", DAMAGES.values(), ids=DAMAGES.keys())
async def test_nothing_is_written_on_it_until_its_rows_are_made_anew_from_the_log(
    folder: Path, sql: str
) -> None:
    await begin_all(folder)
    damage(folder, sql)
    async with open_desk(folder) as desk:
        desk.clock.advance(301)
        bad = desk.at("bad")
        before = len((await bad.check(detail="full"))["history"])
        refused: list[Callable[[], Awaitable[Any]]] = [
            lambda: bad.receipt(attempt=1),
            lambda: bad.failure("unknown"),
            lambda: bad.reconcile("performed", external_id="m-1"),
            lambda: bad.progress(),
            lambda: bad.close("timed_out"),
            lambda: desk.journal.verify_operation(VerifyOperation(ref=bad.ref), AGENT),
            lambda: desk.journal.request_authority(RequestAuthority(ref=bad.ref, why="to go on"), AGENT),
        ]
        for call in refused:
            with pytest.raises(JournalUnavailable) as fault:
                await call()
            assert fault.value.recorded is False
            assert "NOT stored" in fault.value.message
            assert "counterfoil verify" in fault.value.fix
        assert (await bad.begin())["next"] == "reconcile"
        assert len((await bad.check(detail="full"))["history"]) == before
        (problem,) = (await desk.journal.reader.verify()).faults
        assert problem.endswith("its log is whole: `counterfoil verify --repair` makes its rows anew")
        assert await desk.journal.keeper.repair() == [(await bad.check())["operation"]]
        assert (await desk.journal.reader.verify()).faults == ()
        assert await desk.journal.keeper.repair() == []
        assert (await bad.begin())["reason"] == "in_doubt"
        assert (await bad.receipt(attempt=1))["state"] == "succeeded"
        assert (await bad.check(detail="payload"))["content"] == "a body"


@pytest.mark.parametrize(
    "sql",
    [
        f"UPDATE receipts SET assurance = 9 WHERE operation = {BAD}",
        f"UPDATE receipts SET is_accepted = 0 WHERE operation = {BAD}",
        f"UPDATE receipts SET kind = CAST(x'ff' AS TEXT) WHERE operation = {BAD}",
        f"DELETE FROM receipts WHERE operation = {BAD}",
        "UPDATE operations SET terms = '{broken' WHERE key = 'bad'",
    ],
)
async def test_a_settled_one_that_cannot_be_read_is_no_longer_said_to_be_done(folder: Path, sql: str) -> None:
    async with open_desk(folder) as desk:
        await desk.at("bad").begin()
        await desk.at("bad").receipt()
        assert (await desk.at("bad").begin())["next"] == "skip"
    damage(folder, sql)
    async with open_desk(folder) as desk:
        assert (await desk.at("bad").begin())["reason"] == "in_doubt"
        plan = await desk.plan(include="all")
        assert plan["counts"] == {"in_doubt": 1}
        assert (plan["complete"], plan["damaged"]) == (False, 1)
        assert len(await desk.journal.keeper.repair()) == 1
        assert (await desk.at("bad").begin())["next"] == "skip"
        assert (await desk.plan())["counts"] == {"succeeded": 1}


async def test_an_effect_of_which_only_the_rows_are_lost_cannot_be_begun_under_another_key(
    folder: Path,
) -> None:
    async with open_desk(folder) as desk:
        await desk.at("bad").begin(target="alice@example.org", args={"invoice": 42})
    damage(folder, f"DELETE FROM attempts WHERE operation = {BAD}")
    async with open_desk(folder) as desk:
        same: dict[str, Any] = {"target": "alice@example.org", "args": {"invoice": 42}}
        bad = (await desk.at("bad").check())["operation"]
        for distinct in ((), ("*",), (bad,)):
            answer = await desk.at("invented").begin(**same, distinct_from=distinct)
            assert (answer["next"], answer["reason"]) == ("stop", "possible_duplicate")
        other = await desk.at("invented").begin(
            target="alice@example.org", args={"invoice": 43}, distinct_from=(bad,)
        )
        assert other["next"] == "perform"


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM operations WHERE key = 'bad'",
        "UPDATE operations SET target_folded = 'zz', args_digest = 'zz', description = '{' WHERE key = 'bad'",
    ],
)
async def test_an_effect_whose_row_is_lost_is_not_permitted_under_another_key(folder: Path, sql: str) -> None:
    same: dict[str, Any] = {"target": "alice@example.org", "args": {"invoice": 42}}
    async with open_desk(folder) as desk:
        bad = (await desk.at("bad").begin(**same))["operation"]
        await desk.at("good").begin()
        await desk.at("good").receipt()
    with closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as raw:
        assert raw.execute(sql).rowcount == 1
    async with open_desk(folder) as desk:
        if sql.startswith("DELETE"):
            with pytest.raises(JournalUnavailable, match=f"{bad}, which has the same effect is in the log"):
                await desk.at("invented").begin(**same)
        else:
            answer = await desk.at("invented").begin(**same)
            assert (answer["next"], answer["reason"]) == ("stop", "possible_duplicate")
        plan = await desk.plan()
        assert (plan["complete"], plan["damaged"]) == (False, 1)
        assert plan["counts"] == {"in_doubt": 1, "succeeded": 1}
        other = await desk.at("another").begin(target="bob@example.org", args={"invoice": 7})
        assert other["next"] == "perform"


async def test_a_key_whose_row_is_lost_is_not_begun_as_another_effect(folder: Path) -> None:
    """Only the log tells then that the key was used."""
    async with open_desk(folder) as desk:
        bad = (await desk.at("bad").begin(target="alice@example.org", args={"invoice": 42}))["operation"]
    with closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as raw:
        assert raw.execute("DELETE FROM operations WHERE key = 'bad'").rowcount == 1
    async with open_desk(folder) as desk:
        with pytest.raises(JournalUnavailable, match=f"operation {bad} is in the log and its row is gone"):
            await desk.at("bad").begin(target="bob@example.org", args={"invoice": 7})


async def test_a_run_with_a_row_that_is_gone_is_not_finished(folder: Path) -> None:
    async with open_desk(folder) as desk:
        for key in ("bad", "good"):
            await desk.at(key).begin()
            await desk.at(key).receipt(external_id=key)
    with closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as raw:
        assert raw.execute("DELETE FROM operations WHERE key = 'bad'").rowcount == 1
    async with open_desk(folder) as desk:
        with pytest.raises(JournalUnavailable, match="an operation of this run is in the log"):
            await desk.journal.finish_run(FinishRun(run=desk.run, outcome="completed"), AGENT)
        listed = (await desk.plan(run=None))["runs"]
        assert [(run["run"], run["counts"]) for run in listed] == [
            (desk.run, {"in_doubt": 1, "succeeded": 1})
        ]


async def test_a_receipt_of_the_undoing_is_kept_though_what_it_undid_cannot_be_read(folder: Path) -> None:
    async with open_desk(folder) as desk:
        original = (await desk.at("bad").begin())["operation"]
        await desk.at("bad").receipt()
        await desk.at("undo").begin(action="email.recall", compensates=original)
    damage(folder, "UPDATE operations SET terms = '{broken' WHERE key = 'bad'")
    async with open_desk(folder) as desk:
        assert (await desk.at("undo").receipt(external_id="m-2"))["state"] == "succeeded"
        again = await desk.at("undo-again").begin(action="email.recall", compensates=original)
        assert (again["next"], again["reason"]) == ("stop", "possible_duplicate")


async def test_where_the_log_does_not_hold_nothing_is_made_anew(folder: Path) -> None:
    await begin_all(folder)
    damage(folder, "UPDATE operations SET terms = '{broken' WHERE key = 'bad'")
    damage(folder, f"UPDATE events SET data = CAST(x'7bff7d' AS TEXT) WHERE seq = 2 AND operation <> {BAD}")
    async with open_desk(folder) as desk:
        faults = (await desk.journal.reader.verify()).faults
        assert faults[0] == "run-1: event 2 cannot be read: a text in it is garbled"
        assert not any("--repair" in fault for fault in faults)
        assert await desk.journal.keeper.repair() == []
        assert (await desk.at("bad").begin())["reason"] == "in_doubt"


@pytest.mark.parametrize(
    ("sql", "is_gone"),
    [
        ("DELETE FROM operations WHERE key = 'alone'", True),
        ("UPDATE operations SET key = 'another' WHERE key = 'alone'", True),
        ("UPDATE operations SET id = 'op_aaaaaaaaaaaaaaaaaaaa' WHERE key = 'alone'", False),
        ("UPDATE operations SET updated_at = 1, position = 9 WHERE key = 'alone'", False),
    ],
)
async def test_a_row_that_is_gone_or_another_is_made_anew_too(folder: Path, sql: str, is_gone: bool) -> None:
    async with open_desk(folder) as desk:
        await desk.at("alone").begin()
        await desk.at("later").begin()
    with closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as raw:
        assert raw.execute(sql).rowcount == 1
    async with open_desk(folder) as desk:
        assert (await desk.journal.reader.verify()).faults != ()
        if is_gone:
            assert (await desk.at("alone").check())["reason"] == "in_doubt"
            for call in (desk.at("alone").begin, desk.at("alone").receipt):
                with pytest.raises(JournalUnavailable, match="is in the log and its row is gone") as fault:
                    await call()
                assert fault.value.recorded is False
        assert len(await desk.journal.keeper.repair()) == 1
        assert (await desk.journal.reader.verify()).faults == ()
        desk.clock.advance(301)
        assert (await desk.at("alone").begin())["reason"] == "in_doubt"


async def test_a_run_of_which_only_the_log_is_left_is_not_unknown(folder: Path) -> None:
    await begin_all(folder)
    damage(folder, "UPDATE runs SET run = 'run-2'")
    async with open_desk(folder) as desk:
        begin_run = BeginRun(run=desk.run)
        for call in (
            desk.at("good").begin,
            desk.at("new").begin,
            desk.at("new").receipt,
            desk.plan,
            lambda: desk.journal.begin_run(begin_run, AGENT),
        ):
            with pytest.raises(JournalUnavailable, match="is in the log and its row is gone"):
                await call()


async def test_a_damaged_operation_keeps_its_run_from_being_called_complete(folder: Path) -> None:
    await begin_all(folder)
    damage(folder, "UPDATE operations SET state = 'perhaps' WHERE key = 'bad'")
    async with open_desk(folder) as desk:
        (run,) = (await desk.plan(run=None, include="open"))["runs"]
        assert run["counts"] == {"in_doubt": 1, "in_progress": 1, "planned": 1}


async def test_an_operation_of_which_only_the_log_is_left_is_in_doubt_however_it_is_named(
    store: str, tmp_path: Path
) -> None:
    async with open_desk(tmp_path) as desk:
        for key in ("lost", "kept"):
            await desk.at(key, run="run-2").begin(action="email.send", payload="a body")
        await desk.at("lost", run="run-2").receipt(external_id="m-1")
        lost = (await desk.at("lost", run="run-2").check())["operation"]
    plain_sql(
        tmp_path / "journal.db",
        *(f"DELETE FROM {table} WHERE operation = '{lost}'" for table in ("receipts", "attempts")),
        "DELETE FROM operations WHERE key = 'lost'",
    )
    async with open_desk(tmp_path) as desk:
        by_id, by_key = OperationRef(operation=lost), OperationRef(run="run-2", key="lost")
        by_reference = CheckOperation(ref=OperationRef(), external_id="m-1")
        for command in (CheckOperation(ref=by_id, detail="full"), CheckOperation(ref=by_key), by_reference):
            answer = await desk.journal.check_operation(command, AGENT)
            assert (answer["next"], answer["reason"], answer["state"]) == (
                "reconcile",
                "in_doubt",
                "in_doubt",
            )
            assert (answer["operation"], answer["key"], answer["action"]) == (lost, "lost", "email.send")
            assert f"what is on record of {lost} cannot be read" in answer["warnings"][0]
        full = await desk.journal.check_operation(CheckOperation(ref=by_id, detail="full"), AGENT)
        assert [entry["event"] for entry in full["history"]] == [
            "operation_created",
            "terms_fixed",
            "attempt_granted",
            "receipt_recorded",
        ]
        body = await desk.journal.check_operation(CheckOperation(ref=by_id, detail="payload"), AGENT)
        assert body["recorded"] is False
        receipt = RecordReceipt(ref=by_id, receipt=ReceiptGiven(external_id="m-2"))
        with pytest.raises(JournalUnavailable, match=f"{lost} is in the log and its row is gone"):
            await desk.journal.record_receipt(receipt, AGENT)
        for nobody in ("op_" + 20 * "a", "op_" + 20 * "z"):
            with pytest.raises(NotFound):
                await desk.journal.check_operation(CheckOperation(ref=OperationRef(operation=nobody)), AGENT)


async def test_what_is_left_of_an_operation_is_in_doubt_though_its_log_cannot_be_read_either(
    store: str, tmp_path: Path
) -> None:
    async with open_desk(tmp_path) as desk:
        lost = (await desk.at("lost").begin())["operation"]
    plain_sql(
        tmp_path / "journal.db",
        "DELETE FROM attempts",
        "DELETE FROM operations",
        *(["DELETE FROM runs"] if store == "sqlite" else []),
        f"UPDATE events SET data = 'no JSON' WHERE operation = '{lost}'",
    )
    async with open_desk(tmp_path) as desk:
        answer = await desk.journal.check_operation(CheckOperation(ref=OperationRef(operation=lost)), AGENT)
        assert (answer["next"], answer["reason"], answer["run"]) == ("reconcile", "in_doubt", desk.run)


async def test_an_import_adds_nothing_to_an_operation_of_which_only_the_log_is_left(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.at("lost").begin()
        await desk.at("kept").begin()
        file = "".join([line async for line in desk.journal.keeper.export()]).encode()
    damage(tmp_path, "DELETE FROM operations WHERE key = 'lost'")
    async with open_desk(tmp_path) as desk:
        before = await desk.journal.reader.tail(limit=100)
        with pytest.raises(JournalUnavailable, match="is in the log and its row is gone"):
            await desk.journal.keeper.take_in(read_spool(io.BytesIO(file)), as_caller(AGENT))
        assert await desk.journal.reader.tail(limit=100) == before


def lose(folder: Path, *keys: str) -> None:
    """Take the rows of operations away, and leave their log."""
    with closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as raw:
        for key in keys:
            assert raw.execute("DELETE FROM operations WHERE key = ?", (key,)).rowcount == 1


async def said_of(desk: Desk, **begin: Any) -> list[tuple[str, str, list[str]]]:
    """Give what a check, the plan and a begin say of the desk's operation."""
    [step] = [step for step in (await desk.plan())["steps"] if step["key"] == desk.key]
    told = (await desk.check(), step, await desk.begin(**begin))
    return [(one["next"], one["reason"], one["warnings"]) for one in told]


def lost_words(operation: str) -> str:
    return f"what is on record of {operation} cannot be read: its effect may have happened"


async def test_what_undoes_an_operation_whose_row_is_gone_is_told_so_everywhere(folder: Path) -> None:
    async with open_desk(folder) as desk:
        bad, undo = desk.at("bad"), desk.at("undo")
        original = (await bad.begin())["operation"]
        await bad.receipt()
        again: dict[str, Any] = {"action": "email.recall", "compensates": original}
        await undo.begin(**again)
        await undo.failure("none", evidence={"status": 401})
    lose(folder, "bad")
    async with open_desk(folder) as desk:
        for verb, reason, warnings in await said_of(desk.at("undo"), **again):
            assert (verb, reason) == ("stop", "unmet")
            [warning] = warnings
            assert warning.startswith(lost_words(original))
            assert "`counterfoil verify`" in warning
        assert len(await desk.journal.keeper.repair()) == 1
        assert (await desk.at("undo").begin(**again))["next"] == "perform"


@pytest.mark.parametrize("links", [{}, {"depends_on": ("bad",)}], ids=["as recorded", "named again"])
async def test_what_waits_for_an_operation_whose_row_is_gone_is_told_so_everywhere(
    folder: Path, links: dict[str, Any]
) -> None:
    async with open_desk(folder) as desk:
        bad, later = desk.at("bad"), desk.at("later")
        first = (await bad.begin())["operation"]
        await bad.receipt()
        await later.begin(depends_on=("bad",))
        await later.failure("none", evidence={"status": 401})
    lose(folder, "bad")
    async with open_desk(folder) as desk:
        for verb, reason, warnings in await said_of(desk.at("later"), **links):
            assert (verb, reason) == ("wait", "dependency")
            [warning] = warnings
            assert warning.startswith(lost_words(first))
        assert len(await desk.journal.keeper.repair()) == 1
        assert (await desk.at("later").begin(**links))["next"] == "perform"


async def test_what_waits_for_a_step_that_waits_for_one_whose_row_is_gone_is_told_so_too(
    folder: Path,
) -> None:
    async with open_desk(folder) as desk:
        first = (await desk.at("bad").begin())["operation"]
        await desk.at("later").begin(depends_on=("bad",))
        await desk.at("last").begin(depends_on=("later",))
    lose(folder, "bad")
    async with open_desk(folder) as desk:
        for verb, reason, warnings in await said_of(desk.at("last")):
            assert (verb, reason) == ("wait", "dependency")
            [warning] = warnings
            assert warning.startswith(lost_words(first))


async def test_a_plan_begins_no_step_anew_whose_row_is_gone(folder: Path) -> None:
    async with open_desk(folder) as desk:
        await desk.at("bad").begin()
        await desk.at("bad").receipt()
    lose(folder, "bad")
    async with open_desk(folder) as desk:
        steps = (
            PlanStep(key="bad", action="email.send", target="bad@example.org"),
            PlanStep(key="later", action="email.send", target="later@example.org", depends_on=("bad",)),
        )
        answer = await desk.journal.begin_run(BeginRun(run=desk.run, plan=steps), AGENT)
        assert (answer["steps_added"], [step["key"] for step in answer["steps"]]) == (1, ["later"])
        assert (answer["steps"][0]["reason"], answer["damaged"]) == ("dependency", 1)
        assert len(await desk.journal.keeper.repair()) == 1
        assert (await desk.journal.reader.verify()).faults == ()
