"""A journal that an older version left: it opens, is brought up to date, answers as before, and verifies."""

import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from counterfoil.store.domain.commands import Lookup
from counterfoil.store.domain.states import Policy
from counterfoil.store.sqlite import load_migrations
from counterfoil.store.sqlite.migrations import Migration
from journals import AGENT, FakeClock, open_desk, open_test_journal

pytestmark = pytest.mark.anyio

VERSION_1 = Path(__file__).parent / "files" / "version_1.sql"
TOKEN = "ghp_" + "a1B2" * 9


def words(answer: dict[str, Any]) -> str:
    return f"{answer['next']} {answer['reason']}"


def make_old(folder: Path, script: str | None = None) -> Path:
    """Make the file as version 0.1.0 left it."""
    file = folder / "journal.db"
    with sqlite3.connect(file) as raw:
        raw.executescript(script or VERSION_1.read_text())
    file.chmod(0o600)
    return file


def schema_of(file: Path) -> dict[str, str]:
    """Give what the schema says, however it came about."""
    with sqlite3.connect(file) as raw:
        rows = raw.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {name: re.sub(r"--[^\n]*|[\s\"]+", " ", sql).replace(" ", "") for name, sql in rows}


def version_of(file: Path) -> int:
    with sqlite3.connect(file) as raw:
        ((version,),) = raw.execute("PRAGMA user_version").fetchall()
    return int(version)


async def test_a_file_of_version_1_opens_answers_and_verifies(tmp_path: Path) -> None:
    file = make_old(tmp_path)
    assert version_of(file) == 1
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        assert version_of(file) == len(load_migrations())
        assert (await desk.journal.reader.verify()).faults == ()
        plan = await desk.plan()
        assert {step["key"]: step["state"] for step in plan["steps"]} == {
            "done": "succeeded",
            "in-doubt": "in_doubt",
            "failed": "failed",
            "twice": "disputed",
            "given-up": "cancelled",
            "waits": "planned",
            "running": "in_progress",
        }
        args = {"n": 1, "token": TOKEN}
        lookup = Lookup(tool="search_sent", args={"q": "alice"})
        done = await desk.at("done").begin(args=args, payload="Dear Alice", lookup=lookup)
        assert words(done) == "skip already_succeeded"
        assert (await desk.at("done").check(detail="evidence"))["content"].endswith('{"status":250}}]')
        assert words(await desk.at("in-doubt").begin()) == "perform repeat_keyed"
        assert words(await desk.at("failed").begin()) == "perform retry_after_failure"
        assert (
            words(await desk.at("other-key").begin(target="failed@example.org")) == "stop possible_duplicate"
        )
        assert await desk.at("pay", run="run-2").state() == "compensated"
        assert (await desk.journal.reader.verify()).faults == ()
        assert await desk.journal.database.integrity() == []  # type: ignore[attr-defined]


async def test_an_old_file_is_brought_to_the_very_schema_of_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    old = make_old(tmp_path)
    async with open_test_journal(tmp_path), open_test_journal(tmp_path / "new"):
        pass
    assert schema_of(old) == schema_of(tmp_path / "new" / "journal.db")


@pytest.mark.parametrize("version", range(1, len(load_migrations())))
async def test_a_file_of_every_version_between_is_brought_up_to_date(tmp_path: Path, version: int) -> None:
    from counterfoil.store.sqlite import open_sqlite

    values = {"journal_id": "J-1", "created_at": 0, "secret": "0" * 64}
    older: tuple[Migration, ...] = load_migrations()[:version]
    async with await open_sqlite(tmp_path / "journal.db", fresh_values=values, migrations=older):
        pass
    assert version_of(tmp_path / "journal.db") == version
    async with open_desk(tmp_path) as desk:
        assert desk.journal.identity.id == "J-1"
        assert words(await desk.begin()) == "perform first_attempt"
        assert (await desk.journal.reader.verify()).faults == ()


async def test_a_backup_of_an_older_version_is_restored_and_exported(tmp_path: Path) -> None:
    from counterfoil.store.restoring import restore_journal

    file = make_old(tmp_path)
    clock = FakeClock()
    clock.advance(60)
    restored = await restore_journal(
        file, tmp_path / "restored" / "journal.db", clock=clock, policy=Policy(), caller=AGENT
    )
    assert (restored.operations, restored.faults) == (9, ())
    assert version_of(file) == 1
    async with open_desk(tmp_path / "restored", clock=clock) as desk:
        assert words(await desk.at("failed").begin()) == "ask history_gap"
        assert len([line async for line in desk.journal.keeper.export()]) > 50


async def test_an_attempt_of_an_older_version_takes_the_settle_time_of_whoever_grants_the_next(
    tmp_path: Path,
) -> None:
    make_old(tmp_path)
    clock = FakeClock()
    async with (
        open_desk(tmp_path, clock=clock, policy=Policy(settle_seconds=900)) as desk,
        open_desk(tmp_path, clock=clock, policy=Policy(settle_seconds=60)) as other,
    ):
        # Nothing on file says which default counted when it was granted: each process counts its own.
        ends = [(await one.at("in-doubt").check())["settle_until"] for one in (desk, other)]
        assert ends[0] != ends[1]
        assert words(await desk.at("in-doubt").begin()) == "perform repeat_keyed"
        await desk.at("in-doubt").failure("unknown", attempt=2)
        checks = [await one.at("in-doubt").check() for one in (desk, other)]
        assert checks[0]["settle_until"] == checks[1]["settle_until"]
        assert (await desk.journal.reader.verify()).faults == ()
