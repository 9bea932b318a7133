"""Compactions: what a conversation began before one is another session's to it, and the log proves each."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from conformance.test_copying import both, is_whole_after_copying
from counterfoil.store import compacting
from counterfoil.store.domain.commands import BeginRun, PlanStep
from counterfoil.store.errors import JournalUnavailable
from counterfoil.store.protocol import Connection
from counterfoil.store.statements import StatementRefused
from journals import AGENT, ANOTHER, Desk, FakeClock, open_desk, plain_sql

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]

ALICE = "alice@example.org"
MENTIONED, STOPPED = ("perform", "first_attempt"), ("stop", "possible_duplicate")


async def send(desk: Desk, number: int, **fields: Any) -> tuple[str, str]:
    """Begin the mail of this number to Alice."""
    answer = await desk.at(f"mail-{number}").begin(target=ALICE, args={"n": number}, **fields)
    return answer["next"], answer["reason"]


async def sent(desk: Desk, number: int) -> None:
    """Send the mail of this number to Alice, receipt and all."""
    assert (await send(desk, number))[0] == "perform"
    await desk.at(f"mail-{number}").receipt(external_id=f"m-{number}")


async def compacted(desk: Desk, **other: Any) -> bool:
    """Tell of a compaction, a second after what came before."""
    desk.clock.advance(1)
    is_written = await desk.journal.note_compaction(replace(AGENT, **other))
    desk.clock.advance(1)
    return is_written


async def times(desk: Desk) -> list[int]:
    """Give when each compaction was, in the order of the log."""
    asked = {"namespace": desk.journal.namespace, "after": 0, "most": 10}

    async def work(connection: Connection) -> list[int]:
        rows = await connection.fetch_all("read_namespace_events", asked)
        return [json.loads(row["data"])["compacted_at"] for row in rows]

    return await desk.journal.database.read(work)


async def events(desk: Desk, folder: Path) -> Sequence[tuple[Any, ...]]:
    """Give what the log of the namespace holds, and demand that it proves its rows."""
    assert (await desk.journal.reader.verify()).faults == ()
    return plain_sql(folder / "journal.db", "SELECT kind FROM namespace_events ORDER BY seq")


async def test_what_was_begun_before_the_last_compaction_is_a_possible_duplicate(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await sent(desk, 1)
        assert await compacted(desk) is True
        assert await send(desk, 2) == STOPPED
        assert await send(desk, 2, distinct_from=("*",)) == MENTIONED
        await desk.at("mail-2").receipt(external_id="m-2")
        # The first is still forgotten; only what came since is remembered.
        answer = await desk.at("mail-3").begin(target=ALICE, args={"n": 3})
        assert [one["key"] for one in answer["duplicates"]] == ["mail-1"]
        assert await events(desk, tmp_path) == [("conversation_compacted",)]


async def test_what_was_begun_since_the_last_compaction_is_only_mentioned(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.at("other").begin()
        assert await compacted(desk) is True
        await sent(desk, 1)
        assert await send(desk, 2) == MENTIONED


@pytest.mark.parametrize(("is_compacted", "alike"), [(False, []), (True, ["mail-1"])])
async def test_steps_of_a_plan_are_told_apart_by_the_same_rule(
    tmp_path: Path, is_compacted: bool, alike: list[str]
) -> None:
    async with open_desk(tmp_path) as desk:
        await sent(desk, 1)
        if is_compacted:
            await compacted(desk)
        step = PlanStep(key="mail-2", action="email.send", target=ALICE, args={"n": 2})
        answer = await desk.journal.begin_run(BeginRun(run=desk.run, plan=(step,)), AGENT)
        assert [one["key"] for one in answer.get("duplicates", ())] == alike


async def test_the_compaction_of_another_conversation_or_in_another_namespace_changes_nothing(
    tmp_path: Path,
) -> None:
    async with open_desk(tmp_path) as desk:
        await sent(desk, 1)
        await desk.at("other").begin(caller=ANOTHER)
        assert await compacted(desk, conversation=ANOTHER.conversation) is True
        elsewhere = Desk(await desk.journal.of_namespace("elsewhere"), desk.clock)
        await sent(elsewhere, 1)
        assert await compacted(elsewhere) is True
        assert await send(desk, 2) == MENTIONED
        assert await send(elsewhere, 2) == STOPPED


async def test_a_conversation_that_began_nothing_writes_nothing(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        assert await compacted(desk) is False
        await desk.begin(caller=ANOTHER)
        assert await compacted(desk) is False
        assert await compacted(desk, conversation=None) is False
        assert await events(desk, tmp_path) == []


async def test_a_compaction_with_nothing_new_to_forget_is_written_once(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await sent(desk, 1)
        assert [await compacted(desk), await compacted(desk)] == [True, False]
        assert await send(desk, 2, distinct_from=("*",)) == MENTIONED
        assert [await compacted(desk), await compacted(desk)] == [True, False]
        assert len(await events(desk, tmp_path)) == 2
        assert len(plain_sql(tmp_path / "journal.db", "SELECT * FROM compactions")) == 1


async def test_where_not_all_can_be_looked_through_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacting, "_MOST_LOOKED_THROUGH", 1)
    async with open_desk(tmp_path) as desk:
        await sent(desk, 1)
        desk.clock.advance(1)
        await desk.at("later").begin(caller=ANOTHER)
        assert await compacted(desk) is True
        assert await send(desk, 2) == STOPPED


async def test_a_clock_that_is_set_back_makes_nothing_remembered_that_is_forgotten(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        clock.jump(3_600)
        await sent(desk, 1)
        clock.jump(-3_600)
        assert await compacted(desk) is True
        assert await send(desk, 2) == STOPPED
        clock.jump(-3_600)
        assert await compacted(desk) is False
        assert await send(desk, 2) == STOPPED


async def test_a_begin_reads_of_compactions_only_for_what_its_own_conversation_began(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await sent(desk, 1)
        plain_sql(tmp_path / "journal.db", "ALTER TABLE compactions RENAME TO out_of_sight")
        try:
            assert await send(desk, 2, caller=ANOTHER) == STOPPED
            assert (await desk.at("new").begin(target="bob@example.org"))["next"] == "perform"
            with pytest.raises((StatementRefused, JournalUnavailable)):
                await send(desk, 2)
        finally:
            plain_sql(tmp_path / "journal.db", "ALTER TABLE out_of_sight RENAME TO compactions")


@pytest.mark.parametrize("is_back", [False, True], ids=["out of a file", "into a file"])
async def test_a_copy_knows_of_compactions_and_never_of_an_earlier_one(tmp_path: Path, is_back: bool) -> None:
    clock = FakeClock()
    async with both(tmp_path, clock, is_back=is_back) as (source, target):
        await sent(source, 1)
        await compacted(source)
        await is_whole_after_copying(source, target)
        assert await send(target, 2) == STOPPED
        assert await send(target, 2, distinct_from=("*",)) == MENTIONED
        await target.at("mail-2").receipt(external_id="m-2")
        assert await compacted(target) is True
        told = await times(target)
        await is_whole_after_copying(source, target)
        assert await times(target) == told
        assert len(told) == 2
        assert await compacted(target) is False


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM compactions",
        "UPDATE compactions SET compacted_at = 1",
        "UPDATE compactions SET conversation = 'another'",
        "UPDATE compactions SET namespace = 'another'",
    ],
)
async def test_a_compaction_that_was_changed_past_the_log_is_met_by_verification(
    tmp_path: Path, change: str
) -> None:
    async with open_desk(tmp_path) as desk:
        await sent(desk, 1)
        await compacted(desk)
        plain_sql(tmp_path / "journal.db", change)
        faults = (await desk.journal.reader.verify()).faults
        assert any("there are compactions that its events do not lead to" in fault for fault in faults)
