"""The journal mode follows SQLite's version, and every setting is read back."""

import sqlite3
import threading
from pathlib import Path

import pytest

from conformance.sqlite_journals import adding, names, open_small
from counterfoil.store.errors import JournalUnavailable, UnsupportedVersion
from counterfoil.store.sqlite import APPLICATION_ID, journal_mode_for, opening

pytestmark = pytest.mark.anyio

OLD = (3, 40, 1)
MENDED = (3, 51, 3)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(
    ("version", "mode"),
    [
        ((3, 37, 0), "persist"),
        ((3, 40, 1), "persist"),
        ((3, 44, 5), "persist"),
        ((3, 44, 6), "wal"),
        ((3, 44, 9), "wal"),
        ((3, 45, 0), "persist"),
        ((3, 45, 9), "persist"),
        ((3, 49, 2), "persist"),
        ((3, 50, 0), "persist"),
        ((3, 50, 6), "persist"),
        ((3, 50, 7), "wal"),
        ((3, 51, 0), "persist"),
        ((3, 51, 2), "persist"),
        ((3, 51, 3), "wal"),
        ((3, 52, 0), "wal"),
        ((4, 0, 0), "wal"),
    ],
)
async def test_wal_is_used_only_where_its_reset_bug_is_mended(version: tuple[int, ...], mode: str) -> None:
    found, why = journal_mode_for(version)
    assert found == mode
    assert ".".join(map(str, version)) in why


@pytest.mark.parametrize(("version", "mode"), [(OLD, "persist"), (MENDED, "wal")])
async def test_each_setting_is_read_back(tmp_path: Path, version: tuple[int, ...], mode: str) -> None:
    async with await open_small(tmp_path / "j.db", sqlite_version=version) as database:
        facts = await database.facts()
    expected = {
        "engine": "SQLite",
        "sqlite_version": sqlite3.sqlite_version,
        "path": str(tmp_path / "j.db"),
        "file_mode": "0600",
        "journal_mode": mode,
        "journal_mode_reason": journal_mode_for(version)[1],
        "synchronous": "FULL",
        "fullfsync": 1,
        "checkpoint_fullfsync": 1,
        "foreign_keys": 1,
        "mmap_size": 0,
        "trusted_schema": 0,
        "cell_size_check": 1,
        "temp_store": 2,
        "journal_size_limit": 16 * 1024 * 1024,
        "schema_version": 1,
        "busy_timeout_seconds": 5,
    }
    if mode == "wal":
        expected["wal_autocheckpoint"] = 1000
    assert {name: facts[name] for name in expected} == expected


async def test_a_setting_that_is_not_kept_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with await open_small(tmp_path / "j.db"):
        pass
    monkeypatch.setattr(opening, "settings_for", lambda mode: {"synchronous": 2, "page_size": 512})
    with pytest.raises(JournalUnavailable, match="does not keep page_size = 512"):
        await open_small(tmp_path / "j.db")


async def test_a_setting_not_kept_by_a_lasting_connection_leaves_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await open_small(tmp_path / "j.db"):
        pass
    before = set(threading.enumerate())
    from counterfoil.store.sqlite import database

    monkeypatch.setattr(database, "READER_SETTINGS", {"page_size": 512})
    with pytest.raises(JournalUnavailable, match="does not keep page_size"):
        await open_small(tmp_path / "j.db")
    for thread in set(threading.enumerate()) - before:
        if "AnyIO" not in thread.name:
            thread.join(timeout=5)
            assert not thread.is_alive()


async def test_the_journal_is_marked_as_ours(tmp_path: Path) -> None:
    async with await open_small(tmp_path / "j.db"):
        pass
    assert int.from_bytes((tmp_path / "j.db").read_bytes()[68:72]) == APPLICATION_ID


async def test_a_sqlite_without_strict_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedVersion, match=r"3\.36\.0 is too old"):
        await open_small(tmp_path / "j.db", sqlite_version=(3, 36, 0))
    assert not (tmp_path / "j.db").exists()


async def test_a_wal_journal_is_switched_where_wal_may_not_be_used(tmp_path: Path) -> None:
    async with await open_small(tmp_path / "j.db", sqlite_version=MENDED) as database:
        await database.write(adding("a"))
    async with await open_small(tmp_path / "j.db", sqlite_version=OLD) as database:
        assert (await database.facts())["journal_mode"] == "persist"
        assert await database.read(names) == ["a"]


async def test_a_wal_journal_in_use_is_refused_where_wal_may_not_be_used(tmp_path: Path) -> None:
    async with await open_small(tmp_path / "j.db", sqlite_version=MENDED) as newer:
        await newer.write(adding("a"))
        with pytest.raises(JournalUnavailable, match="in WAL mode and in use by another process"):
            await open_small(tmp_path / "j.db", sqlite_version=OLD, busy_timeout_seconds=0.1)
        await newer.write(adding("b"))
        assert await newer.read(names) == ["a", "b"]


async def test_a_rollback_journal_stays_one_so_that_older_servers_can_share_it(tmp_path: Path) -> None:
    async with (
        await open_small(tmp_path / "j.db", sqlite_version=OLD) as older,
        await open_small(tmp_path / "j.db", sqlite_version=MENDED) as newer,
    ):
        await older.write(adding("a"))
        await newer.write(adding("b"))
        facts = await newer.facts()
        assert await older.read(names) == ["a", "b"]
    assert facts["journal_mode"] == "persist"
    assert "servers with an older SQLite can share" in facts["journal_mode_reason"]


async def test_nothing_is_written_once_another_program_has_switched_to_wal(tmp_path: Path) -> None:
    async with await open_small(tmp_path / "j.db", sqlite_version=OLD) as database:
        await database.write(adding("a"))
        other = sqlite3.connect(tmp_path / "j.db")
        assert other.execute("PRAGMA journal_mode = WAL").fetchall() == [("wal",)]
        with pytest.raises(JournalUnavailable, match="switched to WAL mode by another program"):
            await database.write(adding("b"))
        assert other.execute("SELECT id FROM notes").fetchall() == [("a",)]
        other.close()


def size_beside(folder: Path) -> int:
    """Give the size of what SQLite keeps beside the journal."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.suffix != ".db")


@pytest.mark.parametrize("version", [OLD, MENDED], ids=["persist", "wal"])
async def test_the_side_files_do_not_grow_with_what_is_written_beside_idle_sessions(
    tmp_path: Path, version: tuple[int, ...]
) -> None:
    """Two sessions that have read once, and then a hundred commits of 200 kB by a third."""
    async with (
        await open_small(tmp_path / "j.db", sqlite_version=version) as one,
        await open_small(tmp_path / "j.db", sqlite_version=version) as two,
        await open_small(tmp_path / "j.db", sqlite_version=version) as writer,
    ):
        for idle in (one, two):
            await idle.read(names)
        sizes = []
        for number in range(100):
            await writer.write(adding(f"{number:03}", "x" * 200_000))
            sizes.append(size_beside(tmp_path))
        assert float((await writer.facts())["size_bytes"]) > 15_000_000
        assert max(sizes) < 6_000_000
        assert max(sizes[50:]) <= max(sizes[:50])
        assert len(await two.read(names)) == 100
