"""Works that wait together share a commit, and none of them can tell."""

import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from conformance.sqlite_journals import adding, can_be_written_by_others, names, nothing, open_small
from counterfoil.store.errors import JournalUnavailable
from counterfoil.store.failpoints import installed
from counterfoil.store.protocol import Connection
from counterfoil.store.sqlite import SqliteDatabase
from counterfoil.store.sqlite.batch import BATCH_LIMIT
from counterfoil.store.statements import StatementRefused

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Gate:
    """Holds the writing thread at a failpoint until it is opened, and counts what passes."""

    def __init__(self, at: str = "before_commit") -> None:
        self.at = at
        self.passed: Counter[str] = Counter()
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self, name: str) -> None:
        self.passed[name] += 1
        if name == self.at:
            self.reached.set()
            assert self.opened.wait(timeout=10)

    @contextmanager
    def closed(self) -> Iterator["Gate"]:
        with installed(self):
            try:
                yield self
            finally:
                self.opened.set()

    async def is_reached(self) -> None:
        assert await anyio.to_thread.run_sync(lambda: self.reached.wait(timeout=10))


async def outcomes_together(database: SqliteDatabase, works: list[object]) -> list[object]:
    """Run `works` in one batch, behind a first commit that is held until all of them wait."""
    outcomes: list[object] = [None] * len(works)

    async def one(position: int) -> None:
        try:
            outcomes[position] = await database.write(works[position])  # type: ignore[arg-type]
        except Exception as error:
            outcomes[position] = error

    with anyio.fail_after(10):
        gate = Gate()
        with gate.closed():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(database.write, nothing)
                await gate.is_reached()
                for position in range(len(works)):
                    tasks.start_soon(one, position)
                await anyio.wait_all_tasks_blocked()
                gate.opened.set()
    assert gate.passed["after_begin"] == 1 + -(-len(works) // BATCH_LIMIT)
    return outcomes


async def test_fifty_callers_that_wait_together_share_one_commit(tmp_path: Path) -> None:
    async with await open_small(tmp_path / "j.db") as database:
        expected = [f"{number:02}" for number in range(50)]
        assert await outcomes_together(database, [adding(name) for name in expected]) == expected
        assert await database.read(names) == expected


async def test_a_batch_is_bounded(tmp_path: Path) -> None:
    async with await open_small(tmp_path / "j.db") as database:
        expected = [f"{number:03}" for number in range(BATCH_LIMIT + 2)]
        assert await outcomes_together(database, [adding(name) for name in expected]) == expected
        assert await database.read(names) == expected


async def test_a_failing_work_undoes_its_own_writes_and_no_others(tmp_path: Path) -> None:
    async def failing(connection: Connection) -> None:
        await connection.execute("add_note", {"id": "b", "body": "lost"})
        raise LookupError("no")

    async with await open_small(tmp_path / "j.db") as database:
        outcomes = await outcomes_together(database, [adding("a"), failing, adding("c"), adding("a")])
        assert outcomes[0::2] == ["a", "c"]
        assert isinstance(outcomes[1], LookupError)
        assert isinstance(outcomes[3], StatementRefused)
        assert await database.read(names) == ["a", "c"]


async def test_a_lone_failing_work_leaves_nothing(tmp_path: Path) -> None:
    async def failing(connection: Connection) -> None:
        await connection.execute("add_note", {"id": "a", "body": "lost"})
        raise LookupError("no")

    async with await open_small(tmp_path / "j.db") as database:
        with pytest.raises(LookupError):
            await database.write(failing)
        assert await database.read(names) == []
        await database.write(adding("b"))
        assert await database.read(names) == ["b"]


async def test_a_later_work_of_a_batch_sees_an_earlier_one(tmp_path: Path) -> None:
    async with await open_small(tmp_path / "j.db") as database:
        assert await outcomes_together(database, [adding("a"), names, adding("b"), names]) == [
            "a",
            ["a"],
            "b",
            ["a", "b"],
        ]


async def test_nobody_is_answered_before_the_commit(tmp_path: Path) -> None:
    async with await open_small(tmp_path / "j.db") as database:
        answered = []

        async def one() -> None:
            answered.append(await database.write(adding("a")))

        gate = Gate("after_commit")
        with anyio.fail_after(10), gate.closed():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one)
                await gate.is_reached()
                await anyio.wait_all_tasks_blocked()
                assert answered == []
                assert await database.read(names) == ["a"]
                gate.opened.set()
        assert answered == ["a"]


async def test_a_work_that_writes_nothing_touches_no_file(tmp_path: Path) -> None:
    async with await open_small(tmp_path / "j.db") as database:
        await database.write(adding("a"))
        files = [tmp_path / "j.db", tmp_path / "j.db-journal"]
        before = [file.stat().st_mtime_ns for file in files]
        assert await database.write(nothing) == "nothing"
        assert [file.stat().st_mtime_ns for file in files] == before


async def test_returning_gives_rows_and_execute_counts(tmp_path: Path) -> None:
    async def work(connection: Connection) -> list[object]:
        note = {"id": "a", "body": "x", "unused": 1}
        return [
            await connection.fetch_one("offer_note", note),
            await connection.fetch_one("offer_note", note),
            await connection.execute("offer_note", {"id": "b", "body": "x"}),
            await connection.execute("offer_note", {"id": "b", "body": "x"}),
            await connection.execute("all_notes"),
            await connection.fetch_one("count_notes"),
            await connection.fetch_all("all_notes"),
        ]

    async with await open_small(tmp_path / "j.db") as database:
        rows = [{"id": "a", "body": "x"}, {"id": "b", "body": "x"}]
        assert await database.write(work) == [{"id": "a"}, None, 1, 0, 0, {"notes": 2}, rows]


async def test_a_work_that_waits_for_something_else_is_refused(tmp_path: Path) -> None:
    async def waiting(connection: Connection) -> None:
        await connection.execute("add_note", {"id": "a", "body": "lost"})
        await anyio.lowlevel.checkpoint()

    async def yielding(connection: Connection) -> None:
        import asyncio

        await connection.execute("add_note", {"id": "a", "body": "lost"})
        await asyncio.sleep(0)

    async with await open_small(tmp_path / "j.db") as database:
        with pytest.raises(RuntimeError):
            await database.write(waiting)
        with pytest.raises(RuntimeError, match="awaits nothing but its connection"):
            await database.write(yielding)
        assert await database.read(names) == []


async def test_a_connection_is_useless_after_its_work(tmp_path: Path) -> None:
    async def leaking(connection: Connection) -> Connection:
        return connection

    async with await open_small(tmp_path / "j.db") as database:
        for leaked in (await database.write(leaking), await database.read(leaking)):
            with pytest.raises(StatementRefused, match="its transaction has ended"):
                await leaked.execute("add_note", {"id": "a", "body": "x"})


async def test_a_read_may_not_write(tmp_path: Path) -> None:
    async with await open_small(tmp_path / "j.db") as database:
        with pytest.raises(StatementRefused, match="a read may not"):
            await database.read(adding("a"))
        assert await database.read(names) == []


@pytest.mark.parametrize(
    ("statement", "parameters"),
    [
        ("no_such_statement", {}),
        ("add_note", {"id": "a"}),
        ("add_note", {"id": "a", "body": None}),
        ("add_note", {"id": "a", "body": 2**70}),
        ("add_note", {"id": "a", "body": object()}),
    ],
)
async def test_a_mistake_in_a_statement_is_an_internal_error(
    tmp_path: Path, statement: str, parameters: dict[str, object]
) -> None:
    async with await open_small(tmp_path / "j.db") as database:
        with pytest.raises(StatementRefused, match=f"statement {statement}"):
            await database.write(lambda connection: connection.execute(statement, parameters))
        await database.write(adding("a"))


async def test_a_trigger_that_says_no_is_an_internal_error(tmp_path: Path) -> None:
    async with await open_small(tmp_path / "j.db") as database:
        await database.write(adding("a"))
        with pytest.raises(StatementRefused, match="notes; stay"):
            await database.write(lambda connection: connection.execute("delete_notes"))


async def test_a_full_disk_loses_the_whole_batch_and_the_next_call_works(tmp_path: Path) -> None:
    async with await open_small(tmp_path / "j.db") as database:
        await database.write(adding("a"))
        await database.write(lambda connection: connection.execute("limit_pages"))
        outcomes = await outcomes_together(database, [adding("b"), adding("c", "x" * 60_000), adding("d")])
        for outcome in outcomes:
            assert isinstance(outcome, JournalUnavailable)
            assert outcome.message == "the disk is full (SQLITE_FULL); nothing was recorded"
            assert outcome.recorded is False
            assert not outcome.retryable
        assert len(set(map(id, outcomes))) == 3
        assert can_be_written_by_others(tmp_path / "j.db")
        assert await database.read(names) == ["a"]
        await database.write(lambda connection: connection.execute("lift_limit"))
        await database.write(adding("c", "x" * 60_000))
        assert await database.read(names) == ["a", "c"]


async def test_a_commit_that_finds_readers_is_undone_and_leaves_no_lock(tmp_path: Path) -> None:
    async with await open_small(tmp_path / "j.db", busy_timeout_seconds=0.1) as database:
        await database.write(adding("a"))
        other = sqlite3.connect(tmp_path / "j.db", isolation_level=None)
        other.execute("BEGIN")
        assert other.execute("SELECT id FROM notes").fetchall() == [("a",)]
        with pytest.raises(JournalUnavailable, match="busy") as caught:
            await database.write(adding("b"))
        assert (caught.value.retryable, caught.value.recorded) == (True, False)
        other.execute("COMMIT")
        assert can_be_written_by_others(tmp_path / "j.db")
        await database.write(adding("c"))
        assert await database.read(names) == ["a", "c"]
        other.close()


async def test_a_work_cannot_hide_that_its_transaction_is_lost(tmp_path: Path) -> None:
    async def hiding(connection: Connection) -> str:
        await connection.execute("add_note", {"id": "b", "body": "x"})
        with pytest.raises(JournalUnavailable):
            await connection.execute("add_note", {"id": "c", "body": "x" * 60_000})
        return "all is well"

    async with await open_small(tmp_path / "j.db") as database:
        await database.write(lambda connection: connection.execute("limit_pages"))
        with pytest.raises(JournalUnavailable, match="the disk is full"):
            await database.write(hiding)
        assert await database.read(names) == []


async def test_a_journal_deleted_under_its_commit_is_not_called_recorded(tmp_path: Path) -> None:
    async with await open_small(tmp_path / "j.db") as database:

        def delete(name: str) -> None:
            if name == "before_commit":
                (tmp_path / "j.db").unlink()

        with installed(delete), pytest.raises(JournalUnavailable, match="deleted") as caught:
            await database.write(adding("a"))
        assert caught.value.recorded is None


async def test_reads_do_not_keep_writes_waiting(tmp_path: Path) -> None:
    async with await open_small(tmp_path / "j.db") as database:
        is_done = False

        async def reading() -> None:
            while not is_done:
                await database.read(names)

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                for _ in range(8):
                    tasks.start_soon(reading)
                for number in range(100):
                    await database.write(adding(f"{number:02}"))
                is_done = True
        assert len(await database.read(names)) == 100
