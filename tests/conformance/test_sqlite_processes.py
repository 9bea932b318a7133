"""Several servers on one file, and servers that are killed: true processes, killed at failpoints."""

# ruff: noqa: ASYNC240 (waiting for a child process blocks nobody here)

import signal
import sqlite3
import time
from pathlib import Path

import anyio
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
from counterfoil.store.errors import JournalUnavailable

pytestmark = pytest.mark.anyio

OPEN_AND_ADD = """
async def main():
    async with await open_small(Path(sys.argv[1]), sql=Path(sys.argv[2])) as database:
        for name in sys.argv[3].split(","):
            print("recorded", await database.write(adding(name)), flush=True)
anyio.run(main)
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def sql(tmp_path: Path) -> Path:
    return write_sql(tmp_path / "sql")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "j.db"


def is_there(file: Path) -> None:
    for _ in range(2000):
        if file.exists():
            return
        time.sleep(0.005)
    raise AssertionError(f"{file} did not appear within 10 s")


async def test_processes_that_start_at_once_make_one_journal(path: Path, sql: Path) -> None:
    code = """
from counterfoil.store.protocol import Connection
async def main():
    path, sql, own = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    sys.stdin.readline()
    async with await open_small(path, sql=sql, fresh_values={"journal_id": own}) as database:
        await database.write(adding(own))
        print((await database.read(lambda connection: connection.fetch_all("find_journal"))))
anyio.run(main)
"""
    children = [start_child(code, path, sql, f"J-{number}") for number in range(6)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    ends = [finish(child) for child in children]
    assert [returncode for returncode, _ in ends] == [0] * 6, ends
    assert len({text for _, text in ends}) == 1
    async with await open_small(path, sql=sql) as database:
        assert await database.read(names) == [f"J-{number}" for number in range(6)]
    assert sorted(file.name for file in path.parent.iterdir()) == ["j.db", "j.db-journal"]


async def test_a_maker_killed_in_the_middle_leaves_no_half_journal(path: Path, sql: Path) -> None:
    returncode, text = finish(start_child(OPEN_AND_ADD, path, sql, "a", failpoints="during_migration=kill"))
    assert returncode == -signal.SIGKILL, text
    assert not path.exists()
    assert [file.name[:6] for file in path.parent.iterdir()] != []
    async with await open_small(path, sql=sql) as database:
        await database.write(adding("b"))
        assert await database.read(names) == ["b"]
    assert sorted(file.name for file in path.parent.iterdir()) == ["j.db", "j.db-journal"]


async def test_a_second_name_left_by_a_killed_maker_is_removed(path: Path, sql: Path) -> None:
    async with await open_small(path, sql=sql):
        pass
    second = path.parent / ".j.db.abc.new"
    second.hardlink_to(path)
    async with await open_small(path, sql=sql):
        pass
    assert not second.exists()


@pytest.fixture
def newer_sql(tmp_path: Path) -> Path:
    return write_sql(tmp_path / "new", migrations={"0001_a.sql": MIGRATION_1, "0002_b.sql": MIGRATION_2})


async def test_a_migration_killed_in_the_middle_is_undone_and_then_done(
    path: Path, sql: Path, newer_sql: Path
) -> None:
    """J-8: a program of before still works on it in between.

    Reported: simonw/sqlite-migrate#13, open-gsd/gsd-pi#1334, Untrivial-ai/agent-orchestrator#4503.
    """
    async with await open_small(path, sql=sql) as database:
        await database.write(adding("a"))
    child = start_child(OPEN_AND_ADD, path, newer_sql, "b", failpoints="during_migration=kill")
    assert finish(child)[0] == -signal.SIGKILL
    async with await open_small(path, sql=sql) as old:
        assert await old.read(names) == ["a"]
        assert (await old.facts())["schema_version"] == 1
    async with await open_small(path, sql=newer_sql) as new:
        assert (await new.facts())["schema_version"] == 2
        assert await new.read(names) == ["a"]


async def test_two_servers_that_migrate_at_once_migrate_once(
    tmp_path: Path, path: Path, sql: Path, newer_sql: Path
) -> None:
    """J-8: the second finds it done.

    Reported: simonw/sqlite-migrate#13, open-gsd/gsd-pi#1334, Untrivial-ai/agent-orchestrator#4503.
    """
    async with await open_small(path, sql=sql) as database:
        await database.write(adding("a"))
    barrier = tmp_path / "barrier"
    first = start_child(OPEN_AND_ADD, path, newer_sql, "b", failpoints=f"during_migration=barrier:{barrier}")
    is_there(Path(f"{barrier}.reached"))
    second = start_child(OPEN_AND_ADD, path, newer_sql, "c")
    Path(f"{barrier}.go").touch()
    # The migration would fail on its own tables if it ran twice.
    assert finish(first) == (0, "recorded b\n")
    assert finish(second) == (0, "recorded c\n")


@pytest.mark.parametrize(
    ("place", "kept"),
    [("before_begin", []), ("after_begin", []), ("before_commit", []), ("after_commit", ["a"])],
)
async def test_a_server_killed_around_its_commit_keeps_all_or_nothing(
    path: Path, sql: Path, place: str, kept: list[str]
) -> None:
    returncode, text = finish(start_child(OPEN_AND_ADD, path, sql, "a", failpoints=f"{place}=kill"))
    assert (returncode, text) == (-signal.SIGKILL, "")
    async with await open_small(path, sql=sql) as database:
        assert await database.read(names) == kept
        await database.write(adding("b"))
        assert await database.integrity() == []


async def test_a_lock_held_by_another_process_is_a_retryable_fault_and_no_error_for_good(
    tmp_path: Path, path: Path, sql: Path
) -> None:
    barrier = tmp_path / "barrier"
    async with await open_small(path, sql=sql, busy_timeout_seconds=0.2) as database:
        child = start_child(OPEN_AND_ADD, path, sql, "a", failpoints=f"after_begin=barrier:{barrier}")
        await anyio.to_thread.run_sync(is_there, Path(f"{barrier}.reached"))
        with anyio.fail_after(5):
            with pytest.raises(JournalUnavailable, match=r"busy.*nothing was recorded") as caught:
                await database.write(adding("b"))
            assert (caught.value.retryable, caught.value.recorded) == (True, False)
            assert "do not act" in caught.value.fix
            assert await database.read(names) == []
        Path(f"{barrier}.go").touch()
        assert finish(child) == (0, "recorded a\n")
        await database.write(adding("c"))
        assert await database.read(names) == ["a", "c"]


async def test_a_journal_opens_while_another_process_holds_its_lock(
    tmp_path: Path, path: Path, sql: Path
) -> None:
    barrier = tmp_path / "barrier"
    child = start_child(OPEN_AND_ADD, path, sql, "a", failpoints=f"after_begin=barrier:{barrier}")
    is_there(Path(f"{barrier}.reached"))
    async with await open_small(path, sql=sql, busy_timeout_seconds=0.1) as database:
        assert await database.read(names) == []
    Path(f"{barrier}.go").touch()
    assert finish(child) == (0, "recorded a\n")


async def test_many_processes_that_write_at_once_lose_nothing(path: Path, sql: Path) -> None:
    async with await open_small(path, sql=sql):
        pass
    expected = [[f"{process}-{number:03}" for number in range(60)] for process in range(6)]
    children = [start_child(OPEN_AND_ADD, path, sql, ",".join(each)) for each in expected]
    for child, each in zip(children, expected, strict=True):
        assert finish(child) == (0, "".join(f"recorded {name}\n" for name in each))
    async with await open_small(path, sql=sql) as database:
        assert await database.read(names) == sorted(name for each in expected for name in each)


async def test_a_disk_that_takes_no_more_is_a_fault_and_passes(path: Path, sql: Path) -> None:
    """J-5: the file or its side file may not grow, by the system's own limit.

    Reported: datafusion-contrib/datafusion-table-providers#208.
    """
    code = """
import resource, signal
from counterfoil.store.errors import JournalUnavailable
async def main():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    path, sql = Path(sys.argv[1]), Path(sys.argv[2])
    async with await open_small(path, sql=sql) as database:
        await database.write(adding("a"))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        for size in (path.stat().st_size, 100):  # the journal may not grow; its side file may not either
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
            for _ in range(2):
                try:
                    await database.write(adding("b", "x" * 50_000))
                except JournalUnavailable as fault:
                    print(fault.recorded, fault.retryable, "nothing was recorded" in fault.message)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        print(await database.read(names))
        await database.write(adding("b", "x" * 50_000))
        print(await database.read(names), await database.integrity())
anyio.run(main)
"""
    returncode, text = finish(start_child(code, path, sql))
    assert (returncode, text) == (0, "False False True\n" * 4 + "['a']\n['a', 'b'] []\n")


ENDINGS = {
    "a closed journal": "async with await open_small(path, sql=sql) as db: await db.write(adding('a'))",
    "an exception": "async with await open_small(path, sql=sql) as db: raise SystemExit(0)",
    "a failed opening": "path.touch()\n    try: await open_small(path, sql=sql)\n    except Exception: pass",
}


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_process_is_gone_at_once_after(ending: str, tmp_path: Path, sql: Path) -> None:
    code = f"""
async def main():
    path, sql = Path(sys.argv[1]), Path(sys.argv[2])
    {ENDINGS[ending]}
    print("end", flush=True)
try:
    anyio.run(main)
finally:
    print("after", flush=True)
"""
    child = start_child(code, tmp_path / "j.db", sql)
    assert child.stdout is not None
    while child.stdout.readline() not in ("after\n", ""):
        pass
    child.wait(timeout=2)
    assert finish(child)[0] == 0


async def test_a_killed_process_leaves_a_lock_to_nobody(tmp_path: Path, path: Path, sql: Path) -> None:
    barrier = tmp_path / "barrier"
    child = start_child(OPEN_AND_ADD, path, sql, "a", failpoints=f"before_commit=barrier:{barrier}")
    is_there(Path(f"{barrier}.reached"))
    child.kill()
    child.wait(timeout=5)
    finish(child)
    async with await open_small(path, sql=sql, busy_timeout_seconds=0.1) as database:
        await database.write(adding("b"))
        assert await database.read(names) == ["b"]


async def test_opening_and_closing_a_journal_drops_no_lock_of_this_process(path: Path, sql: Path) -> None:
    async with await open_small(path, sql=sql):
        held = sqlite3.connect(path, isolation_level=None)
        held.execute("BEGIN IMMEDIATE")
        async with await open_small(path, sql=sql):
            pass
        code = """
other = sqlite3 = __import__("sqlite3")
try:
    sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute("BEGIN IMMEDIATE")
    print("taken")
except sqlite3.OperationalError as error:
    print(error.sqlite_errorname)
"""
        assert finish(start_child(code, path)) == (0, "SQLITE_BUSY\n")
        held.close()
