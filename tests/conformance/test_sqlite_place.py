"""Where a journal may lie, what is refused, and that no journal is ever silently made anew."""

import os
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from conformance.sqlite_journals import (
    MIGRATION_1,
    MIGRATION_2,
    adding,
    finish,
    names,
    open_small,
    start_child,
    write_sql,
)
from counterfoil.store.errors import JournalUnavailable, UnsupportedVersion
from counterfoil.store.failpoints import installed
from counterfoil.store.sqlite.place import file_system_of

pytestmark = pytest.mark.anyio

MENDED = (3, 51, 3)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def modes_in(folder: Path) -> dict[str, str]:
    return {p.name: oct(stat.S_IMODE(p.stat().st_mode)) for p in folder.iterdir() if p.is_file()}


@pytest.mark.parametrize("version", [(3, 40, 1), MENDED])
async def test_the_journal_and_its_side_files_are_private(tmp_path: Path, version: tuple[int, ...]) -> None:
    before = os.umask(0)
    try:
        async with await open_small(
            tmp_path / "d" / "j.db", sql=write_sql(tmp_path), sqlite_version=version
        ) as db:
            await db.write(adding("a"))
            found = modes_in(tmp_path / "d")
    finally:
        os.umask(before)
    side = {"j.db-wal", "j.db-shm"} if version == MENDED else {"j.db-journal"}
    assert found == dict.fromkeys({"j.db", *side}, "0o600")
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o700


async def test_a_journal_in_the_making_is_private_too(tmp_path: Path) -> None:
    found: list[dict[str, str]] = []
    sql = write_sql(tmp_path / "sql")
    with installed(lambda name: found.append(modes_in(tmp_path)) if name == "during_migration" else None):
        async with await open_small(tmp_path / "j.db", sql=sql):
            pass
    assert [set(modes.values()) for modes in found] == [{"0o600"}]


async def test_a_journal_that_comes_to_lie_there_meanwhile_stays(tmp_path: Path) -> None:
    sql = write_sql(tmp_path / "sql")
    async with await open_small(tmp_path / "other.db", sql=sql, fresh_values={"journal_id": "other"}):
        pass

    def put(name: str) -> None:
        if name == "during_migration":
            os.rename(tmp_path / "other.db", tmp_path / "j.db")

    with installed(put):
        async with await open_small(tmp_path / "j.db", sql=sql) as database:
            found = await database.read(lambda connection: connection.fetch_one("find_journal"))
    assert found == {"id": "other"}


async def test_wider_permission_is_taken_away(tmp_path: Path) -> None:
    async with await open_small(tmp_path / "j.db") as database:
        await database.write(adding("a"))
    for name in ("j.db", "j.db-journal"):
        (tmp_path / name).chmod(0o664)
    async with await open_small(tmp_path / "j.db"):
        pass
    assert modes_in(tmp_path) == {"j.db": "0o600", "j.db-journal": "0o600"}


async def test_making_a_journal_leaves_nothing_beside_it(tmp_path: Path) -> None:
    async with await open_small(tmp_path / "j.db", sql=write_sql(tmp_path / "sql")):
        pass
    assert sorted(os.listdir(tmp_path)) == ["j.db", "sql"]


async def test_a_new_journal_holds_the_values_it_was_given(tmp_path: Path) -> None:
    async with await open_small(
        tmp_path / "j.db", fresh_values={"journal_id": "J-7", "unused": 1}
    ) as database:
        assert await database.read(lambda connection: connection.fetch_one("find_journal")) == {"id": "J-7"}
    async with await open_small(tmp_path / "j.db", fresh_values={"journal_id": "J-8"}) as database:
        assert await database.read(lambda connection: connection.fetch_one("find_journal")) == {"id": "J-7"}


async def test_a_name_with_signs_of_a_uri_is_only_a_name(tmp_path: Path) -> None:
    path = tmp_path / "a?mode=memory#b%20é.db"
    async with await open_small(path) as database:
        await database.write(adding("a"))
    assert path.stat().st_size > 0


async def test_a_symbolic_link_is_followed_once(tmp_path: Path) -> None:
    (tmp_path / "true").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "true" / "j.db")
    async with await open_small(tmp_path / "link.db") as database:
        await database.write(adding("a"))
        assert (await database.facts())["path"] == str(tmp_path / "true" / "j.db")
    assert sorted(os.listdir(tmp_path / "true")) == ["j.db", "j.db-journal"]


async def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "j.db").touch()
    with pytest.raises(JournalUnavailable, match="is empty, which no journal ever is"):
        await open_small(tmp_path / "j.db")
    assert (tmp_path / "j.db").stat().st_size == 0


async def test_a_missing_journal_whose_side_file_is_there_is_refused(tmp_path: Path) -> None:
    async with await open_small(tmp_path / "j.db") as database:
        await database.write(adding("a"))
    (tmp_path / "j.db").unlink()
    with pytest.raises(JournalUnavailable, match="a journal was deleted or moved"):
        await open_small(tmp_path / "j.db")
    assert not (tmp_path / "j.db").exists()


async def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalUnavailable, match="is not a file"):
        await open_small(tmp_path)


async def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(JournalUnavailable, match="file"):
        await open_small(tmp_path / "file" / "j.db", sql=write_sql(tmp_path / "sql"))


async def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "j.db").write_bytes(b"precious text, not SQL" * 100)
    with pytest.raises(JournalUnavailable, match="no SQLite database"):
        await open_small(tmp_path / "j.db")
    assert (tmp_path / "j.db").read_bytes() == b"precious text, not SQL" * 100


async def test_another_programs_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "j.db")
    other.execute("CREATE TABLE theirs (a)")
    other.close()
    before = (tmp_path / "j.db").read_bytes()
    with pytest.raises(JournalUnavailable, match="not a journal"):
        await open_small(tmp_path / "j.db")
    assert (tmp_path / "j.db").read_bytes() == before


async def test_a_newer_schema_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    newer = write_sql(tmp_path / "new", migrations={"0001_a.sql": MIGRATION_1, "0002_b.sql": MIGRATION_2})
    async with await open_small(tmp_path / "j.db", sql=newer):
        pass
    before = (tmp_path / "j.db").read_bytes()
    with pytest.raises(
        UnsupportedVersion, match="an older program never writes to a newer journal"
    ) as caught:
        await open_small(tmp_path / "j.db")
    assert "schema version 2, this program knows up to 1" in caught.value.message
    assert (tmp_path / "j.db").read_bytes() == before


async def test_an_open_journal_that_a_newer_program_migrates_is_no_longer_written(tmp_path: Path) -> None:
    """J-8: the newer one came while the older ran.

    Reported: simonw/sqlite-migrate#13, open-gsd/gsd-pi#1334, Untrivial-ai/agent-orchestrator#4503.
    """
    newer = write_sql(tmp_path / "new", migrations={"0001_a.sql": MIGRATION_1, "0002_b.sql": MIGRATION_2})
    async with await open_small(tmp_path / "j.db") as old:
        await old.write(adding("a"))
        async with await open_small(tmp_path / "j.db", sql=newer) as new:
            for call in (lambda: old.write(adding("b")), lambda: old.read(names)):
                with pytest.raises(UnsupportedVersion, match="schema version 2"):
                    await call()
            assert await new.read(names) == ["a"]


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "9p", "virtiofs", "fuse.sshfs", "fakeowner"])
@pytest.mark.parametrize("version", [(3, 40, 1), MENDED])
async def test_a_file_system_without_true_locks_is_refused(
    tmp_path: Path, kind: str, version: tuple[int, ...]
) -> None:
    """J-3: whatever the mode, where locks or shared memory cannot be relied on.

    Reported: NousResearch/hermes-agent#110848, Gentleman-Programming/engram#1292, anomalyco/opencode#14970.
    """
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"21 1 8:1 / / rw - ext4 /dev/a rw\n22 21 0:5 / {tmp_path} rw shared:1 - {kind} srv rw\n"
    )
    with pytest.raises(JournalUnavailable, match=f"lies on {kind}"):
        await open_small(tmp_path / "j.db", mounts=mounts, sqlite_version=version)
    assert not (tmp_path / "j.db").exists()


async def test_wal_is_not_used_where_machines_do_not_share_memory(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"22 21 0:5 / {tmp_path} rw - ceph srv rw\n")
    async with await open_small(tmp_path / "j.db", mounts=mounts, sqlite_version=MENDED) as database:
        facts = await database.facts()
    assert (facts["file_system"], facts["journal_mode"]) == ("ceph", "persist")


async def test_the_deepest_and_last_mount_tells_the_file_system(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "21 1 8:1 / / rw - ext4 /dev/a rw\n"
        "22 21 0:5 / /data rw - xfs /dev/b rw\n"
        "23 21 0:6 / /data\\040two rw - nfs srv rw\n"
        "24 22 0:7 / /data rw - btrfs /dev/c rw\n"
        "not a line of this file\n"
    )
    paths = ["/data/j.db", "/data two/j.db", "/database/j.db", "/data"]
    assert [file_system_of(path, mounts) for path in paths] == ["btrfs", "nfs", "ext4", "btrfs"]
    assert file_system_of("/data", tmp_path / "absent") == "unknown"


@pytest.mark.parametrize(("target", "mode"), [("j.db", 0o400), ("", 0o500)])
def test_what_may_not_be_written_is_refused(tmp_path: Path, target: str, mode: int) -> None:
    """O-1: the file, or the folder that its side files need.

    Reported: Gentleman-Programming/engram#1292.
    """
    folder = tmp_path / "d"
    code = """
import os
folder, target, mode = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
async def main():
    sql = write_sql(folder.parent / "sql")
    async with await open_small(folder / "j.db", sql=sql):
        pass
    statements, migrations = load_statements(dialect="sqlite", folder=sql), load_migrations(sql / "sqlite")
    (folder / target).chmod(mode)
    if os.geteuid() == 0:  # root may write anything
        os.chown(folder, 65534, -1); os.chown(folder / "j.db", 65534, -1)
        for above in folder.parents:
            if above.stat().st_mode & 0o711 != 0o711:
                above.chmod(0o711)
        os.setuid(65534)
    try:
        await open_sqlite(folder / "j.db", fresh_values=FRESH, statements=statements, migrations=migrations)
    except Exception as error:
        print(type(error).__name__, error)
anyio.run(main)
"""
    returncode, text = finish(start_child(code, folder, target, mode))
    (folder / target).chmod(0o700)
    assert returncode == 0, text
    assert text == f"JournalUnavailable {folder / target} is read-only for this user\n"


@pytest.mark.parametrize("happening", ["deleted", "replaced", "emptied"])
async def test_a_journal_that_vanishes_while_open_is_never_made_anew(tmp_path: Path, happening: str) -> None:
    path = tmp_path / "j.db"
    async with await open_small(path) as database:
        await database.write(adding("a"))
        shutil.copy(path, tmp_path / "copy.db")
        if happening == "deleted":
            path.unlink()
        elif happening == "replaced":
            os.replace(tmp_path / "copy.db", path)
        else:
            os.truncate(path, 0)
        for _ in range(2):
            for call in (lambda: database.write(adding("b")), lambda: database.read(names), database.facts):
                with pytest.raises(JournalUnavailable, match=happening) as caught:
                    await call()
                assert caught.value.recorded is False
    assert path.exists() == (happening != "deleted")


async def test_a_truncated_journal_is_corrupt_and_never_without_rows(tmp_path: Path) -> None:
    """J-3: its end is missing.

    Reported: NousResearch/hermes-agent#110848, Gentleman-Programming/engram#1292, anomalyco/opencode#14970.
    """
    path = tmp_path / "j.db"
    async with await open_small(path) as database:
        await database.write(adding("a"))
    os.truncate(path, 8192)
    with pytest.raises(JournalUnavailable, match="corrupt"):
        async with await open_small(path) as database:
            await database.read(names)


async def test_flipped_bytes_are_corrupt_and_never_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    async with await open_small(path) as database:
        for name in range(200):
            await database.write(adding(f"{name:03}", "x" * 200))
    content = bytearray(path.read_bytes())
    for page in range(2, len(content) // 4096):
        for offset in range(8):
            content[page * 4096 + offset] ^= 0xFF
    path.write_bytes(content)
    async with await open_small(path) as database:
        for call in (lambda: database.read(names), lambda: database.write(adding("new"))):
            with pytest.raises(JournalUnavailable, match="corrupt") as caught:
                await call()
            assert caught.value.recorded is False
            assert not caught.value.retryable
        assert await database.integrity() != []


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("DELETE FROM sqlite_schema WHERE tbl_name = 'notes'", "notes"),
        ("UPDATE sqlite_schema SET sql = replace(sql, 'body', 'bodx') WHERE name = 'notes'", "notes"),
        ("UPDATE sqlite_schema SET sql = 'CREATE INDEX ' WHERE name = 'notes'", ""),
        ("UPDATE sqlite_schema SET sql = replace(sql, 'body', CAST(x'ff' AS TEXT))", ""),
    ],
)
async def test_a_journal_without_its_tables_is_corrupt(tmp_path: Path, sql: str, named: str) -> None:
    async with await open_small(tmp_path / "j.db") as database:
        await database.write(adding("a"))
    with closing(sqlite3.connect(tmp_path / "j.db", isolation_level=None)) as raw:
        raw.execute("PRAGMA writable_schema = ON")
        raw.execute(sql)
    with pytest.raises(JournalUnavailable, match=f"corrupt.*{named}") as caught:
        await open_small(tmp_path / "j.db")
    assert caught.value.recorded is False


async def test_text_that_is_no_utf_8_is_corrupt_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    async with await open_small(path) as database:
        await database.write(adding("a"))
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("UPDATE notes SET body = CAST(x'ff' AS TEXT)")
    async with await open_small(path) as database:
        with pytest.raises(JournalUnavailable, match=r"corrupt .* is no UTF-8") as caught:
            await database.read(names)
        assert (caught.value.recorded, caught.value.retryable) == (False, False)
        assert await database.read(lambda connection: connection.fetch_one("count_notes")) == {"notes": 1}
        await database.write(adding("b"))


async def test_a_whole_journal_has_no_problem(tmp_path: Path) -> None:
    async with await open_small(tmp_path / "j.db") as database:
        await database.write(adding("a"))
        assert await database.integrity() == []
