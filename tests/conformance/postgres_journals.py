"""Journals in PostgreSQL for tests that speak of it and of nothing else, and works that say little."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from counterfoil.store.errors import JournalUnavailable
from counterfoil.store.postgres.database import PostgresDatabase
from counterfoil.store.postgres.opening import open_postgres
from counterfoil.store.postgres.session import Patience
from counterfoil.store.protocol import Connection
from journals import SECRET, START
from postgres_cluster import Cluster

WAIT_SECONDS = 20
FRESH = {"journal_id": "J-test", "secret": SECRET, "created_at": START}
SHORT = Patience(busy_seconds=0.3, statement_seconds=2, silence_seconds=1)

Work = Callable[[Connection], Awaitable[Any]]


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[PostgresDatabase]:
    """Open the database of a journal under the tests' clock."""
    given = {"fresh_values": FRESH, "gives_time": False, **options}
    async with await open_postgres(url, **given) as database:
        yield database


def making(run: str) -> Work:
    """Give a work that makes a run."""

    async def work(connection: Connection) -> str:
        await connection.fetch_one(
            "create_run",
            {
                "namespace": "default",
                "run": run,
                "created_at": START,
                "touched_at": START,
                "head": "0" * 64,
                "workflow": None,
                "workflow_version": None,
            },
        )
        return run

    return work


async def runs(connection: Connection) -> list[str]:
    """Give the names of all runs."""
    return [row["run"] for row in await connection.fetch_all("all_runs")]


class Held:
    """Holds a work where it would commit, until it is let go; only the first time that it comes there."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.reached, self.go = anyio.Event(), anyio.Event()
        self.passed = 0

    async def __call__(self, connection: Connection) -> Any:
        result = await self._work(connection)
        self.passed += 1
        if self.passed == 1:
            self.reached.set()
            with anyio.fail_after(WAIT_SECONDS):
                await self.go.wait()
        return result


def hold_writes(database: Any) -> Callable[[], Held]:
    """Hold what is written next to `database`; give what gives the held work, once there is one."""
    write = database.write
    held: list[Held] = []

    async def held_write(work: Work) -> Any:
        held.append(Held(work))
        return await write(held[-1])

    database.write = held_write
    return lambda: held[-1]


async def fault_of(work: Any) -> JournalUnavailable:
    """Await what must be answered as unavailable."""
    with pytest.raises(JournalUnavailable) as fault:
        await work
    return fault.value


async def fault_where_it_waits(cluster: Cluster, call: Any) -> JournalUnavailable:
    """Let an operator cancel the wait of a call's commit for the standby, and give the fault it ends in."""
    waits = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"

    async def strike() -> None:
        while not await anyio.to_thread.run_sync(cluster.run, waits):
            await anyio.lowlevel.checkpoint()

    with anyio.fail_after(WAIT_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(strike)
            fault = await fault_of(call)
            tasks.cancel_scope.cancel()
    return fault
