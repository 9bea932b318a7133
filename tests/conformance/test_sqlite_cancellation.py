"""A caller that is cancelled leaves no transaction, no lock and no thread; closing ends everything."""

import sqlite3
import threading
from pathlib import Path

import anyio
import pytest

from conformance.sqlite_journals import adding, can_be_written_by_others, names, nothing, open_small
from conformance.test_sqlite_group_commit import Gate
from counterfoil.store.errors import JournalUnavailable
from counterfoil.store.protocol import Connection

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def end_within(threads: set[threading.Thread], seconds: float = 5) -> bool:
    for thread in threads:
        thread.join(timeout=seconds)
    return not any(thread.is_alive() for thread in threads)


def driver_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if "_connection_worker_thread" in thread.name}


async def test_a_work_whose_caller_is_cancelled_in_the_queue_is_withdrawn(tmp_path: Path) -> None:
    async with await open_small(tmp_path / "j.db") as database:
        gate = Gate()
        with anyio.fail_after(10), gate.closed():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(database.write, adding("a"))
                await gate.is_reached()
                async with anyio.create_task_group() as queued:
                    queued.start_soon(database.write, adding("withdrawn"))
                    await anyio.wait_all_tasks_blocked()
                    queued.cancel_scope.cancel()
                tasks.start_soon(database.write, adding("b"))
                await anyio.wait_all_tasks_blocked()
                gate.opened.set()
        assert await database.read(names) == ["a", "b"]


@pytest.mark.parametrize("place", ["before_begin", "after_begin", "before_commit", "after_commit"])
async def test_a_caller_cancelled_while_its_work_runs_leaves_no_transaction(
    tmp_path: Path, place: str
) -> None:
    async with await open_small(tmp_path / "j.db") as database:
        gate = Gate(place)
        with anyio.fail_after(10), gate.closed():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(database.write, adding("a"))
                await gate.is_reached()
                tasks.cancel_scope.cancel()
            gate.opened.set()
            await database.write(adding("b"))
        assert await database.read(names) == ["a", "b"]
        assert can_be_written_by_others(tmp_path / "j.db")


async def test_a_caller_cancelled_while_it_waits_for_anothers_lock_leaves_no_lock(tmp_path: Path) -> None:
    async with await open_small(tmp_path / "j.db") as database:
        other = sqlite3.connect(tmp_path / "j.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with anyio.move_on_after(0.05) as scope:
            await database.write(adding("a"))
        assert scope.cancelled_caught
        other.execute("ROLLBACK")
        await database.write(nothing)
        assert can_be_written_by_others(tmp_path / "j.db")
        await database.write(adding("b"))
        assert (await database.read(names))[-1] == "b"
        other.close()


async def test_a_cancelled_read_leaves_the_connection_fit(tmp_path: Path) -> None:
    begun, go = threading.Event(), threading.Event()

    async def slow(connection: Connection) -> object:
        begun.set()
        assert go.wait(timeout=10)
        return await connection.fetch_all("all_notes")

    async with await open_small(tmp_path / "j.db") as database:
        await database.write(adding("a"))
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(database.read, slow)
                assert await anyio.to_thread.run_sync(lambda: begun.wait(timeout=10))
                tasks.start_soon(database.read, slow)
                await anyio.wait_all_tasks_blocked()
                tasks.cancel_scope.cancel()
            go.set()
            assert await database.read(names) == ["a"]
        assert can_be_written_by_others(tmp_path / "j.db")


async def test_closing_finishes_what_is_under_way_and_is_idempotent(tmp_path: Path) -> None:
    before = driver_threads()
    database = await open_small(tmp_path / "j.db")
    opened = driver_threads() - before
    assert len(opened) == 2
    gate = Gate()
    with anyio.fail_after(10), gate.closed():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(database.write, adding("a"))
            await gate.is_reached()
            tasks.start_soon(database.write, adding("b"))
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(database.close)
            tasks.start_soon(database.close)
            await anyio.wait_all_tasks_blocked()
            gate.opened.set()
    await database.close()
    assert end_within(opened)
    async with await open_small(tmp_path / "j.db") as again:
        assert await again.read(names) == ["a", "b"]


async def test_a_closed_journal_says_so(tmp_path: Path) -> None:
    database = await open_small(tmp_path / "j.db")
    await database.close()
    calls = (
        lambda: database.write(adding("a")),
        lambda: database.read(names),
        database.facts,
        database.integrity,
    )
    for call in calls:
        with pytest.raises(JournalUnavailable, match="was closed; nothing was recorded"):
            await call()


async def test_closing_ends_a_wait_for_anothers_lock(tmp_path: Path) -> None:
    database = await open_small(tmp_path / "j.db", busy_timeout_seconds=60)
    other = sqlite3.connect(tmp_path / "j.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    faults = []

    async def waiting() -> None:
        try:
            await database.write(adding("a"))
        except JournalUnavailable as fault:
            faults.append(fault)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(waiting)
            await anyio.wait_all_tasks_blocked()
            await database.close()
    assert [(fault.retryable, fault.recorded) for fault in faults] == [(True, False)]
    other.close()


async def test_closing_under_cancellation_ends_every_thread(tmp_path: Path) -> None:
    before = driver_threads()
    with anyio.CancelScope() as scope:
        async with await open_small(tmp_path / "j.db") as database:
            await database.write(adding("a"))
            opened = driver_threads() - before
            scope.cancel()
            await anyio.sleep(10)
    assert len(opened) == 2
    assert end_within(opened)


async def test_opening_under_cancellation_leaves_no_thread(tmp_path: Path) -> None:
    before = driver_threads()
    with anyio.CancelScope() as scope:
        scope.cancel()
        async with await open_small(tmp_path / "j.db"):
            await anyio.sleep(10)
    assert end_within(driver_threads() - before)


async def test_opening_cancelled_half_way_leaves_a_whole_journal_and_no_thread(tmp_path: Path) -> None:
    before = driver_threads()
    gate = Gate("during_migration")

    async def opening() -> None:
        async with await open_small(tmp_path / "j.db"):
            await anyio.sleep(10)

    with anyio.fail_after(10), gate.closed():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(opening)
            await gate.is_reached()
            tasks.cancel_scope.cancel()
            gate.opened.set()
    assert end_within(driver_threads() - before)
    async with await open_small(tmp_path / "j.db") as database:
        assert await database.integrity() == []


async def test_a_failed_opening_leaves_no_thread(tmp_path: Path) -> None:
    before = driver_threads()
    (tmp_path / "j.db").touch()
    with pytest.raises(JournalUnavailable):
        await open_small(tmp_path / "j.db")
    assert end_within(driver_threads() - before)
