"""Field reports about the journal's durability: a journal that cannot keep its promise says so, and when.

J-9 is in `test_transport.py`; eight processes and one lock (J-2) are in `tests/crash/test_many_processes.py`.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from counterfoil.store.errors import JournalUnavailable, UnsupportedVersion
from journals import ANOTHER, Desk, open_desk

pytestmark = pytest.mark.anyio


@contextmanager
def raw_journal(folder: Path) -> Iterator[sqlite3.Connection]:
    """Open the journal's file beside the server, as a careless program would."""
    with closing(sqlite3.connect(folder / "journal.db", isolation_level=None, timeout=0)) as raw:
        yield raw


async def limit_pages(desk: Desk, *, to_spare: int | None) -> None:
    """Let the disk hold only `to_spare` more pages than now, or as many as ever."""

    def limit(raw: sqlite3.Connection) -> None:
        ((pages,),) = raw.execute("PRAGMA page_count").fetchall()
        raw.execute(f"PRAGMA max_page_count = {4_000_000 if to_spare is None else pages + to_spare}")

    await desk.journal.database._writer.run(limit)  # type: ignore[attr-defined]


async def test_a_locked_journal_is_told_as_unavailable_and_nothing_is_recorded(tmp_path: Path) -> None:
    """J-2: retryable, "nothing was recorded"; the same call goes through once the lock is gone.

    Reported: mksglu/context-mode#218, kenn-io/msgvault#226, awslabs/mcp#3711,
    buildingjoshbetter/TrueMemory#401.
    """
    async with open_desk(tmp_path, busy_timeout_seconds=0.2) as desk:
        await desk.begin()
        with raw_journal(tmp_path) as raw:
            raw.execute("BEGIN IMMEDIATE")
            for refused in (desk.at("other").begin(), desk.receipt()):
                with pytest.raises(JournalUnavailable) as fault:
                    await refused
                assert (fault.value.retryable, fault.value.recorded) == (True, False)
            raw.execute("ROLLBACK")
        assert (await desk.plan())["counts"] == {"in_progress": 1}
        assert (await desk.receipt())["state"] == "succeeded"
        begun = await desk.at("other").begin()
        assert (begun["next"], begun["reason"], begun["attempt"]) == ("perform", "first_attempt", 1)
        check = await desk.check()
        assert (check["attempts_in_all"], len(check["receipts"])) == (1, 1)


async def test_a_full_disk_grants_nothing_and_keeps_the_question_open(tmp_path: Path) -> None:
    """J-5: full at the begin, and full at the record; both go through once there is room.

    Reported: datafusion-contrib/datafusion-table-providers#208.
    """
    large = {"text": "x" * 60_000}
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        await limit_pages(desk, to_spare=2)
        with pytest.raises(JournalUnavailable) as begin_fault:
            await desk.at("other").begin(args=large)
        with pytest.raises(JournalUnavailable) as record_fault:
            await desk.receipt(evidence=large)
        for fault in (begin_fault.value, record_fault.value):
            assert fault.recorded is False
            assert "full" in fault.message.lower()
        assert (await desk.plan())["counts"] == {"in_progress": 1}
        assert (await desk.begin(caller=ANOTHER))["reason"] == "lease_held"
        await limit_pages(desk, to_spare=None)
        assert (await desk.receipt(evidence=large))["state"] == "succeeded"
        begun = await desk.at("other").begin(args=large)
        assert (begun["next"], begun["attempt"]) == ("perform", 1)
        check = await desk.check()
        assert (check["attempts_in_all"], len(check["receipts"])) == (1, 1)
        assert (await desk.journal.reader.verify()).faults == ()


async def test_flipped_bytes_are_an_error_and_never_a_new_journal(tmp_path: Path) -> None:
    """J-3: pages overwritten in the middle; whatever is asked fails, nothing is written, the file stays.

    Reported: NousResearch/hermes-agent#110848, Gentleman-Programming/engram#1292, anomalyco/opencode#14970.
    """
    await _begin_all(tmp_path, steps=40)
    _overwrite(tmp_path / "journal.db")
    before = _content(tmp_path / "journal.db")
    with pytest.raises(JournalUnavailable) as fault:
        await _begin_all(tmp_path, steps=40)
    assert fault.value.recorded is False
    assert fault.value.retryable is False
    assert _content(tmp_path / "journal.db") == before


@pytest.mark.parametrize("part", [1 / 2, 0, None], ids=["halved", "emptied", "removed"])
async def test_a_cut_side_file_is_never_taken_for_a_new_journal(tmp_path: Path, part: float | None) -> None:
    """J-3: what was acknowledged is there, and no other journal is made in its place.

    Reported: NousResearch/hermes-agent#110848, Gentleman-Programming/engram#1292, anomalyco/opencode#14970.
    """
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        identity = desk.journal.identity
    _cut_side_files(tmp_path, part=part)
    async with open_desk(tmp_path) as desk:
        assert desk.journal.identity == identity
        again = await desk.begin(caller=ANOTHER)
        assert (again["next"], again["reason"], again["attempt"]) == ("wait", "lease_held", 1)
        assert (await desk.journal.reader.verify()).faults == ()
        begun = await desk.at("next").begin()
        assert (begun["next"], begun["attempt"]) == ("perform", 1)


@pytest.mark.parametrize("content", [b"", b"not a database " * 400])
async def test_an_emptied_or_foreign_file_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    """J-3: never silently a fresh empty journal.

    Reported: NousResearch/hermes-agent#110848, Gentleman-Programming/engram#1292, anomalyco/opencode#14970.
    """
    (tmp_path / "journal.db").write_bytes(content)
    with pytest.raises(JournalUnavailable):
        async with open_desk(tmp_path):
            pass
    assert _content(tmp_path / "journal.db") == content


async def test_a_journal_deleted_while_it_is_open_is_noticed_by_the_next_write(tmp_path: Path) -> None:
    """J-3: its name is gone or another file lies there; no begin is granted into nowhere.

    Reported: NousResearch/hermes-agent#110848, Gentleman-Programming/engram#1292, anomalyco/opencode#14970.
    """
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        os.rename(tmp_path / "journal.db", tmp_path / "moved.db")
        with pytest.raises(JournalUnavailable):
            await desk.at("other").begin()
        shutil.copy(tmp_path / "moved.db", tmp_path / "journal.db")
        with pytest.raises(JournalUnavailable):
            await desk.at("other").begin()


DAMAGES = {
    "invalid JSON": "UPDATE operations SET terms = '{broken' WHERE key = 'bad'",
    "JSON of another form": "UPDATE operations SET description = '[]' WHERE key = 'bad'",
    "an unknown outcome": "UPDATE attempts SET outcome = 'perhaps' WHERE operation = "
    "(SELECT id FROM operations WHERE key = 'bad')",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
async def test_one_damaged_operation_is_held_and_the_others_are_served(tmp_path: Path, damage: str) -> None:
    """J-6: it is neither granted nor shown as settled, the plan says that it is there, the log tells.

    Reported: modelcontextprotocol/servers#4642, modelcontextprotocol/servers#4510.
    """
    async with open_desk(tmp_path) as desk:
        await desk.at("good").begin()
        await desk.at("bad").begin()
        await desk.at("waits").begin(depends_on=("bad",))
    with raw_journal(tmp_path) as raw:
        raw.execute("PRAGMA ignore_check_constraints = ON")
        assert raw.execute(damage).rowcount == 1
    async with open_desk(tmp_path) as desk:
        desk.clock.advance(301)
        for answer in (await desk.at("bad").begin(caller=ANOTHER), await desk.at("bad").check()):
            assert (answer["next"], answer["reason"]) == ("reconcile", "in_doubt")
            assert "counterfoil verify" in answer["warnings"][0]
        with pytest.raises(JournalUnavailable) as fault:
            await desk.at("bad").receipt()
        assert fault.value.recorded is False
        assert (await desk.at("good").begin(caller=ANOTHER))["next"] == "reconcile"
        assert (await desk.at("good").receipt())["state"] == "succeeded"
        assert (await desk.at("new").begin())["next"] == "perform"
        plan = await desk.plan(include="open")
        assert [(step["key"], step["next"], step["reason"]) for step in plan["steps"]] == [
            ("bad", "reconcile", "in_doubt"),
            ("waits", "wait", "dependency"),
            ("new", "wait", "lease_held_by_you"),
        ]
        assert (plan["complete"], plan["damaged"]) == (False, 1)
        (problem,) = (await desk.journal.reader.verify()).faults
        assert "has rows that cannot be read; its log is whole" in problem


async def test_the_effect_of_a_damaged_operation_is_not_granted_under_another_key(tmp_path: Path) -> None:
    """J-6: it cannot be told whether it happened, so a look-alike is refused and not simply new.

    Reported: modelcontextprotocol/servers#4642, modelcontextprotocol/servers#4510.
    """
    async with open_desk(tmp_path) as desk:
        await desk.at("bad").begin(target="alice@example.org", args={"invoice": 42})
    with raw_journal(tmp_path) as raw:
        raw.execute(DAMAGES["invalid JSON"])
    async with open_desk(tmp_path) as desk:
        answer = await desk.at("invented").begin(target="alice@example.org", args={"invoice": 42})
        assert (answer["next"], answer["reason"]) == ("stop", "possible_duplicate")
        assert [(one["key"], one["state"]) for one in answer["duplicates"]] == [("bad", "in_doubt")]
        assert "counterfoil verify" in answer["warnings"][0]
        assert (await desk.at("other").begin(target="bob@example.org"))["next"] == "perform"


async def test_an_older_program_refuses_a_newer_journal_in_plain_words(tmp_path: Path) -> None:
    """J-8: it writes nothing into a schema that it does not know.

    Reported: simonw/sqlite-migrate#13, open-gsd/gsd-pi#1334, Untrivial-ai/agent-orchestrator#4503.
    """
    async with open_desk(tmp_path) as desk:
        await desk.begin()
    with raw_journal(tmp_path) as raw:
        ((version,),) = raw.execute("PRAGMA user_version").fetchall()
        raw.execute(f"PRAGMA user_version = {version + 1}")
    before = _content(tmp_path / "journal.db")
    with pytest.raises(UnsupportedVersion) as fault:
        async with open_desk(tmp_path):
            pass
    assert str(version + 1) in fault.value.message
    assert _content(tmp_path / "journal.db") == before


async def test_the_settings_that_make_a_commit_survive_a_power_cut_are_in_force(tmp_path: Path) -> None:
    """C-2: a kill cannot show a missing sync, so the settings are read back from the open connections.

    Reported: langchain-ai/langgraph#8764.
    """
    async with open_desk(tmp_path) as desk:

        def settings(raw: sqlite3.Connection) -> dict[str, Any]:
            names = ("journal_mode", "synchronous", "foreign_keys", "mmap_size")
            return {name: raw.execute(f"PRAGMA {name}").fetchone()[0] for name in names}

        found = await desk.journal.database._writer.run(settings)  # type: ignore[attr-defined]
        assert found.pop("journal_mode") in ("persist", "wal")
        assert found == {"synchronous": 2, "foreign_keys": 1, "mmap_size": 0}


async def _begin_all(folder: Path, *, steps: int) -> None:
    async with open_desk(folder) as desk:
        await desk.plan()
        for number in range(steps):
            await desk.at(f"step-{number}").begin(args={"text": "x" * 500})


def _content(path: Path) -> bytes:
    return path.read_bytes()


def _cut_side_files(folder: Path, *, part: float | None) -> None:
    """Leave `part` of every file beside the journal, or remove them."""
    for path in folder.iterdir():
        if path.name != "journal.db":
            if part is None:
                path.unlink()
            else:
                os.truncate(path, int(path.stat().st_size * part))


def _overwrite(path: Path) -> None:
    """Flip the bytes of every page but the first four."""
    content = bytearray(path.read_bytes())
    page = int.from_bytes(content[16:18], "big")
    for start in range(4 * page, len(content), page):
        content[start : start + 64] = bytes(byte ^ 0xFF for byte in content[start : start + 64])
    path.write_bytes(content)
