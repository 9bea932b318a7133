"""Pruning: old bodies go, what decides stays, and answers say what is missing."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from counterfoil.store.domain.commands import Lookup, RecordProgress, Undo
from counterfoil.store.errors import JournalUnavailable
from journals import AGENT, PERSON, Desk, FakeClock, as_caller, open_desk, plain_sql

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]

A_DAY = 86_400.0
MARK = "the-body-that-goes"
TOKEN = "ghp_" + "a1B2" * 9


def words(answer: dict[str, Any]) -> str:
    return f"{answer['next']} {answer['reason']}"


async def begun(desk: Desk, **fields: Any) -> Desk:
    """Begin with a body of every kind that holds the mark."""
    await desk.begin(
        args={"text": f"{MARK} args {desk.key}"},
        payload=f"{MARK} payload {desk.key}",
        lookup=Lookup(tool="search", args={"q": f"{MARK} lookup {desk.key}"}),
        undo=Undo(tool="unsend", args={"q": f"{MARK} undo {desk.key}"}),
        **fields,
    )
    return desk


async def done(desk: Desk, **fields: Any) -> Desk:
    await begun(desk, **fields)
    progress = RecordProgress(ref=desk.ref, checkpoint={"at": f"{MARK} checkpoint {desk.key}"})
    await desk.journal.record_progress(progress, as_caller(AGENT))
    await desk.receipt(external_id=f"m-{desk.key}", evidence={"seen": f"{MARK} evidence {desk.key}"})
    return desk


def bodies(folder: Path) -> list[str]:
    return [row[0] for row in plain_sql(folder / "journal.db", "SELECT body FROM bodies ORDER BY body")]


def files_with(text: str, folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir() if text.encode() in file.read_bytes()]


async def test_bodies_of_old_settled_operations_go_and_their_tombstones_answer(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await done(desk)
        clock.advance(91 * A_DAY)
        before = await desk.check(detail="full")
        pruned = await desk.journal.keeper.prune(older_than_seconds=90 * A_DAY)
        assert (pruned.runs, pruned.operations, pruned.bodies) == (1, 1, 6)
        assert bodies(tmp_path) == []
        after = await desk.check(detail="full")
        assert {**after, "lookup": 0} == {**before, "lookup": 0}
        begun_again = await desk.begin(args={"text": f"{MARK} args {desk.key}"}, payload="worded anew")
        assert words(begun_again) == "skip already_succeeded"
        assert begun_again["receipts"][0]["external_id"] == "m-key-1"
        assert begun_again["recorded"]["args"]["pruned"] is True
        assert begun_again["recorded"]["payload"]["digest"].startswith("sha256:")
        for detail in ("args", "payload", "checkpoint"):
            shown = await desk.check(detail=detail)
            assert (shown["recorded"], shown["pruned"]) == (False, True)
        for detail in ("lookup", "undo", "evidence"):
            assert '"pruned": true' in (await desk.check(detail=detail))["content"].replace('":t', '": t')
        assert (await desk.journal.reader.verify()).faults == ()


async def test_another_effect_under_a_pruned_key_is_still_a_conflict(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await done(desk)
        clock.advance(91 * A_DAY)
        await desk.journal.keeper.prune(older_than_seconds=90 * A_DAY)
        answer = await desk.begin(args={"text": "another"})
        assert words(answer) == "stop identity_conflict"
        assert "pruned" in str(answer["conflict"])


@pytest.mark.parametrize("age", [0.0, 89 * A_DAY])
async def test_what_is_not_old_enough_stays(tmp_path: Path, age: float) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await done(desk)
        clock.advance(age)
        before = bodies(tmp_path)
        assert (await desk.journal.keeper.prune(older_than_seconds=90 * A_DAY)).bodies == 0
        assert bodies(tmp_path) == before != []


async def test_what_was_settled_only_lately_stays_however_old_its_bodies_are(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await begun(desk)
        clock.advance(100 * A_DAY)
        await desk.receipt()
        clock.advance(A_DAY)
        assert (await desk.journal.keeper.prune(older_than_seconds=90 * A_DAY)).bodies == 0


async def test_what_only_time_has_settled_stays(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await begun(desk, deadline_seconds=600)
        await desk.failure("unknown")
        clock.advance(100 * A_DAY)
        assert await desk.state() == "timed_out"
        assert (await desk.journal.keeper.prune(older_than_seconds=90 * A_DAY)).bodies == 0


async def test_a_body_that_no_event_refers_to_is_not_stored(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(payload="the first")
        await desk.failure("none", evidence={"status": 401})
        assert words(await desk.begin(payload="worded anew")) == "perform retry_after_failure"
        assert '"worded anew"' not in bodies(tmp_path)
        assert (await desk.check(detail="payload"))["content"] == "the first"


async def test_nothing_that_is_open_is_ever_pruned(tmp_path: Path) -> None:
    """G-3: however old it is.

    Reported: zenml-io/kitaru#876, apache/iceberg#14196.
    """
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await begun(desk.at("in-doubt"))
        failed = await begun(desk.at("failed"))
        await failed.failure("none", evidence={"status": 401, "seen": MARK})
        disputed = await done(desk.at("disputed"))
        await disputed.receipt(external_id="m-second")
        await begun(desk.at("in-progress"), lease_seconds=A_DAY)
        before = bodies(tmp_path)
        clock.advance(1_000 * A_DAY)
        assert (await desk.journal.keeper.prune(older_than_seconds=A_DAY)).bodies == 0
        assert bodies(tmp_path) == before
        assert await desk.at("in-doubt").state() == "in_doubt"
        assert await disputed.state() == "disputed"


async def test_a_body_that_an_open_operation_shares_stays(tmp_path: Path) -> None:
    clock = FakeClock()
    shared = {"args": {"text": "shared"}, "distinct_from": ("*",)}
    async with open_desk(tmp_path, clock=clock) as desk:
        await desk.at("a").begin(**shared)
        await desk.at("a").receipt(external_id="m-a")
        await desk.at("b").begin(**shared)
        clock.advance(A_DAY * 100)
        await desk.journal.keeper.prune(older_than_seconds=A_DAY)
        assert bodies(tmp_path) == ['{"text":"shared"}']


async def test_a_dry_run_tells_the_same_and_removes_nothing(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await done(desk)
        clock.advance(A_DAY * 100)
        before = bodies(tmp_path)
        told = await desk.journal.keeper.prune(older_than_seconds=A_DAY, is_dry=True)
        assert bodies(tmp_path) == before
        assert await desk.journal.keeper.prune(older_than_seconds=A_DAY) == told
        assert (await desk.journal.keeper.prune(older_than_seconds=A_DAY)).bodies == 0


@pytest.mark.sqlite_only
async def test_reclaiming_leaves_nothing_of_what_was_pruned_on_the_disk(tmp_path: Path) -> None:
    """G-1: the file gets smaller by what is told.

    Reported: langchain-ai/openwiki#257, langchain-ai/openwiki#476.
    """
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        for number in range(50):
            await desk.at(f"k-{number}").begin(payload=f"{MARK} {number} " * 500)
            await desk.at(f"k-{number}").receipt(external_id=f"m-{number}")
        clock.advance(A_DAY * 100)
        before = (tmp_path / "journal.db").stat().st_size
        await desk.journal.keeper.prune(older_than_seconds=A_DAY)
        reclaimed = await desk.journal.keeper.reclaim()
        assert reclaimed is not None
        assert reclaimed > 200_000
        assert (tmp_path / "journal.db").stat().st_size == before - reclaimed
        assert files_with(MARK, tmp_path) == []
        # The journal goes on, for this server and for others.
        assert words(await desk.at("k-1").begin()) == "skip already_succeeded"
        async with open_desk(tmp_path, clock=clock) as elsewhere:
            assert words(await elsewhere.at("new").begin()) == "perform first_attempt"
        facts = await desk.journal.database.facts()
        assert (facts["temp_store"], facts["journal_size_limit"]) == (2, 16 * 1024 * 1024)


@pytest.mark.sqlite_only
async def test_a_journal_that_somebody_reads_keeps_its_space_for_later(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock, busy_timeout_seconds=0.1) as desk:
        await done(desk)
        clock.advance(A_DAY * 100)
        await desk.journal.keeper.prune(older_than_seconds=A_DAY)
        with sqlite3.connect(tmp_path / "journal.db", isolation_level=None) as raw:
            raw.execute("BEGIN")
            raw.execute("SELECT count(*) FROM runs").fetchall()
            with pytest.raises(JournalUnavailable, match="busy"):
                await desk.journal.keeper.reclaim()
            raw.execute("ROLLBACK")
        assert words(await desk.begin(args={"text": f"{MARK} args key-1"})) == "skip already_succeeded"


async def test_a_repeat_of_a_pruned_body_is_granted_only_to_who_still_has_it(tmp_path: Path) -> None:
    clock = FakeClock()
    keyed: dict[str, Any] = {"repeat": "keyed", "key_ttl_seconds": 1_000 * A_DAY}
    async with open_desk(tmp_path, clock=clock) as desk:
        await desk.begin(payload="exactly this", **keyed)
        await desk.failure("unknown")
        await desk.close("timed_out", caller=PERSON)
        clock.advance(A_DAY * 100)
        assert (await desk.journal.keeper.prune(older_than_seconds=A_DAY)).operations == 1
        # Reopened with an attempt in doubt, by way of a dispute and a person's word about the receipt.
        await desk.receipt(external_id="m-late")
        await desk.reconcile("performed", caller=PERSON, external_id="m-late", kind="message", system="smtp")
        plain_sql(
            tmp_path / "journal.db",
            "UPDATE receipts SET is_accepted = 0, is_set_aside = 1",
            "UPDATE operations SET state = 'in_doubt', standing_receipts = 0",
        )
        assert await desk.state() == "in_doubt"
        assert words(await desk.check()) == "reconcile in_doubt"
        assert words(await desk.begin(payload="worded anew", **keyed)) == "reconcile in_doubt"
        assert words(await desk.begin(payload="exactly this", **keyed)) == "perform repeat_keyed"


async def test_another_payload_than_the_pruned_one_is_not_told_to_be_sent_as_recorded(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await desk.begin(payload="exactly this")
        await desk.receipt()
        clock.advance(A_DAY * 100)
        await desk.journal.keeper.prune(older_than_seconds=A_DAY)
        for _ in range(2):
            await desk.reconcile("not_performed", caller=PERSON)

        again = await desk.begin(payload="worded anew")

        assert words(again) == "perform retry_after_failure"
        (warning,) = (told for told in again["warnings"] if "payload" in told)
        assert "which was pruned" in warning
        assert "send the recorded one" not in warning


async def test_a_pruned_secret_is_still_compared_by_its_keyed_digest(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await desk.begin(args={"token": TOKEN})
        await desk.receipt()
        clock.advance(A_DAY * 100)
        await desk.journal.keeper.prune(older_than_seconds=A_DAY)
        assert words(await desk.begin(args={"token": TOKEN})) == "skip already_succeeded"
        assert words(await desk.begin(args={"token": TOKEN[::-1]})) == "stop identity_conflict"
