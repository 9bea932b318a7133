"""What befalls the server or the way to it: told as what it is, and got over without anybody's help."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from conformance.postgres_journals import (
    SHORT,
    WAIT_SECONDS,
    Held,
    fault_of,
    fault_where_it_waits,
    making,
    opened,
    runs,
)
from counterfoil.store.errors import JournalUnavailable
from counterfoil.store.postgres.database import PostgresDatabase
from counterfoil.store.postgres.session import Patience
from journals import kept_at, open_desk
from postgres_cluster import Cluster
from scenarios.servers import Server

pytestmark = pytest.mark.anyio

_OTHERS = "FROM pg_stat_activity WHERE application_name = 'counterfoil' AND datname = '{database}'"


@pytest.fixture
def place(cluster: Cluster) -> Iterator[Callable[[Path], str]]:
    """Where journals lie: in databases of their own."""
    with cluster.lending() as lent, kept_at(lent):
        yield lent


@pytest.fixture
def url(place: Callable[[Path], str]) -> str:
    """The URL of one journal."""
    return place(Path("journal"))


def others_of(url: str) -> str:
    """Give the part of a query that means the connections of the journal at `url`."""
    return _OTHERS.format(database=url.split("@/")[1].split("?")[0])


async def served_again(database: PostgresDatabase, run: str) -> None:
    """Wait until calls go through again, with nobody's help."""
    with anyio.fail_after(WAIT_SECONDS):
        while True:
            try:
                await database.write(making(run))
                return
            except JournalUnavailable as fault:
                if not fault.retryable:
                    raise
                await anyio.lowlevel.checkpoint()


async def test_a_connection_lost_in_a_transaction_is_told_and_the_next_call_goes_through(
    cluster: Cluster, url: str
) -> None:
    async with opened(url, patience=SHORT, most_connections=1) as database:

        async def struck(connection: Any) -> None:
            await making("lost")(connection)
            cluster.run(f"SELECT pg_terminate_backend(pid) {others_of(url)}")
            await runs(connection)

        fault = await fault_of(database.write(struck))
        assert (fault.retryable, fault.recorded) == (True, False)
        assert "nothing was recorded" in fault.message
        await database.write(making("next"))
        assert await database.read(runs) == ["next"]


async def test_a_connection_that_broke_while_nobody_used_it_is_not_noticed_by_callers(
    cluster: Cluster, url: str
) -> None:
    async with opened(url, most_connections=1) as database:
        await database.write(making("first"))
        cluster.run(f"SELECT pg_terminate_backend(pid) {others_of(url)}")
        await database.write(making("second"))
        assert await database.read(runs) == ["first", "second"]


@contextmanager
def waiting_for_a_standby(cluster: Cluster) -> Iterator[None]:
    """Let every commit wait for a standby that there is not."""
    cluster.alter("synchronous_standby_names", "nobody")
    try:
        yield
    finally:
        cluster.alter("synchronous_standby_names", None)
        cluster.until("SELECT 1 WHERE current_setting('synchronous_standby_names') = ''")


@pytest.mark.parametrize(
    ("stroke", "said"),
    [
        ("pg_cancel_backend", "committed without its standby (01000)"),
        ("pg_terminate_backend", "its connection was lost"),
    ],
)
async def test_a_commit_that_gave_up_waiting_for_its_standby_is_not_answered_as_durable(
    cluster: Cluster, url: str, stroke: str, said: str
) -> None:
    waits = f"{others_of(url)} AND wait_event = 'SyncRep'"
    faults: list[JournalUnavailable] = []
    async with opened(url, patience=Patience(busy_seconds=5)) as database:

        async def call() -> None:
            faults.append(await fault_of(database.write(making("here only"))))

        with waiting_for_a_standby(cluster):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                with anyio.fail_after(WAIT_SECONDS):
                    while not await anyio.to_thread.run_sync(cluster.run, f"SELECT 1 {waits}"):
                        await anyio.lowlevel.checkpoint()
                cluster.run(f"SELECT {stroke}(pid) {waits}")
        assert [(fault.retryable, fault.recorded) for fault in faults] == [(True, None)]
        assert said in faults[0].message
        assert "same call_id" in faults[0].fix
        # It is there all the same, on this one server: the same call again finds it.
        assert await database.read(runs) == ["here only"]


async def test_a_call_whose_commit_cannot_be_told_is_recorded_once_when_it_is_sent_again(
    cluster: Cluster, place: Callable[[Path], str], tmp_path: Path
) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        database: Any = desk.journal.database
        database._patience = Patience(silence_seconds=0.3)
        with waiting_for_a_standby(cluster):
            fault = await fault_of(desk.receipt())
            assert (fault.retryable, fault.recorded) == (True, None)
        database._patience = Patience()
        again = await desk.again()
        assert (again["next"], again["reason"]) == ("continue", "duplicate")
        assert len((await desk.check())["receipts"]) == 1


async def test_no_time_limit_of_the_journal_ends_a_commits_wait_without_a_word(
    cluster: Cluster, url: str
) -> None:
    """The server applies none to that wait; it is the caller who gives up, and cannot tell."""
    hasty = Patience(busy_seconds=0.2, statement_seconds=0.2, silence_seconds=1)
    async with opened(url, patience=hasty) as database:
        with waiting_for_a_standby(cluster):
            fault = await fault_of(database.write(making("perhaps")))
        assert (fault.retryable, fault.recorded) == (True, None)
        assert "the database does not answer" in fault.message


@pytest.mark.parametrize(
    ("method", "told"), [("begin", ("perform", "replayed")), ("receipt", ("continue", "duplicate"))]
)
async def test_what_only_this_server_has_is_not_told_as_recorded_when_the_call_comes_again(
    cluster: Cluster, place: Callable[[Path], str], tmp_path: Path, method: str, told: tuple[str, str]
) -> None:
    """The call sent again writes nothing, and waits all the same for the standby that lacks the first one."""
    async with open_desk(tmp_path) as desk:
        if method == "receipt":
            await desk.begin()
        with waiting_for_a_standby(cluster):
            for call in (getattr(desk, method), desk.again, desk.again):
                fault = await fault_where_it_waits(cluster, call())
                assert (fault.retryable, fault.recorded) == (True, None)
                assert "committed without its standby (01000)" in fault.message
        again = await desk.again()
        assert (again["next"], again["reason"]) == told


async def test_a_server_that_is_paused_is_told_and_got_over(cluster: Cluster, url: str) -> None:
    async with opened(url, patience=SHORT, most_connections=1) as database:
        await database.write(making("before"))
        with cluster.paused():
            fault = await fault_of(database.write(making("meanwhile")))
            assert (fault.retryable, fault.recorded) == (True, False)
            assert "the database does not answer" in fault.message
            # The connection was given up, and no other is to be had.
            fault = await fault_of(database.read(runs))
            assert (fault.retryable, fault.recorded) == (True, False)
            assert "there is no connection to the database" in fault.message
        await served_again(database, "after")
        assert await database.read(runs) == ["after", "before"]


async def test_a_server_paused_at_the_commit_leaves_it_open_whether_it_was_recorded(
    cluster: Cluster, url: str
) -> None:
    async with opened(url, patience=SHORT) as database:
        paused = cluster.paused()

        async def pausing(connection: Any) -> None:
            await making("perhaps")(connection)
            paused.__enter__()

        try:
            fault = await fault_of(database.write(pausing))
        finally:
            paused.__exit__(None, None, None)
        assert (fault.retryable, fault.recorded) == (True, None)
        await served_again(database, "after")
        assert await database.read(runs) in (["after"], ["after", "perhaps"])


async def test_a_server_that_crashed_and_came_back_has_all_that_was_answered(
    cluster: Cluster, url: str
) -> None:
    async with opened(url, patience=SHORT) as database:
        await database.write(making("answered"))
        cluster.stop_server()
        try:
            fault = await fault_of(database.write(making("not")))
            assert (fault.retryable, fault.recorded) == (True, False)
        finally:
            cluster.run_server()
        await served_again(database, "after")
        assert await database.read(runs) == ["after", "answered"]


async def test_a_full_pool_is_told_and_serves_again(url: str) -> None:
    async with opened(url, patience=SHORT, most_connections=1) as database:
        held = Held(making("held"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(database.write, held)
            await held.reached.wait()
            fault = await fault_of(database.write(making("too many")))
            assert (fault.retryable, fault.recorded) == (True, False)
            assert "all 1 connections to the database are in use" in fault.message
            held.go.set()
        await database.write(making("next"))
        assert await database.read(runs) == ["held", "next"]


async def test_a_server_that_forgets_is_refused_at_opening_and_in_use(cluster: Cluster, url: str) -> None:
    async with opened(url) as database:
        await database.write(making("before"))
        cluster.alter("fsync", "off")
        try:
            cluster.until("SELECT 1 WHERE current_setting('fsync') = 'off'")
            with anyio.fail_after(WAIT_SECONDS):
                fault = await fault_of(_writes_until_refused(database))
            assert "does not make commits durable (fsync=off" in fault.message
            assert (fault.retryable, fault.recorded) == (False, False)
            with pytest.raises(JournalUnavailable, match="does not make commits durable"):
                async with opened(url):
                    pass
        finally:
            cluster.alter("fsync", None)
            cluster.until("SELECT 1 WHERE current_setting('fsync') = 'on'")


async def _writes_until_refused(database: PostgresDatabase) -> None:
    """Write until the connection's own process has read the configuration again."""
    while True:
        await database.write(making("more"))


async def test_a_commit_waits_for_the_disk_whatever_the_database_was_set_to(
    cluster: Cluster, url: str
) -> None:
    database_name = url.split("@/")[1].split("?")[0]
    cluster.run(f"ALTER DATABASE {database_name} SET synchronous_commit = off")
    try:
        async with opened(url) as database:
            facts = await database.facts()
            assert facts["synchronous_commit"] == "on"
            assert isinstance(facts["schema_version"], int)
            assert isinstance(facts["connections"], int)
            await database.write(making("kept"))
    finally:
        cluster.run(f"ALTER DATABASE {database_name} RESET synchronous_commit")


async def test_closing_ends_every_connection_and_later_calls_are_refused(cluster: Cluster, url: str) -> None:
    async with opened(url) as database:
        await database.write(making("one"))
    cluster.until(f"SELECT 1 WHERE NOT EXISTS (SELECT 1 {others_of(url)})")
    fault = await fault_of(database.write(making("two")))
    assert (fault.retryable, fault.recorded) == (False, False)
    assert "the journal was closed" in fault.message
    await database.close()


BEGIN: dict[str, Any] = {
    "run": "nightly",
    "key": "email:alice",
    "action": "email.send",
    "target": "alice@example.org",
    "call_id": "call-of-one-begin-0001",
}


@pytest.mark.parametrize(
    ("failpoint", "reason"),
    [
        ("before_begin", "first_attempt"),
        ("after_begin", "first_attempt"),
        ("before_commit", "first_attempt"),
        ("after_commit", "replayed"),
    ],
)
def test_a_server_killed_in_a_call_leaves_the_whole_of_it_or_nothing(
    place: Callable[[Path], str], tmp_path: Path, failpoint: str, reason: str
) -> None:
    with Server(tmp_path, failpoints=f"{failpoint}=kill") as server:
        server.start()
        with pytest.raises(EOFError):
            server.call("begin_operation", **BEGIN)
    with Server(tmp_path) as server:
        server.start()
        again = server.call("begin_operation", **BEGIN)
        assert (again["next"], again["reason"], again["attempt"]) == ("perform", reason, 1)
        done = server.call(
            "record_receipt", run="nightly", key="email:alice", attempt=1, kind="message", external_id="m-1"
        )
        assert (done["next"], done["reason"], done["state"]) == ("continue", "recorded", "succeeded")
        assert "Traceback" not in server.errors()


def test_the_servers_of_several_clients_share_a_journal_and_end_with_them(
    cluster: Cluster, url: str, place: Callable[[Path], str], tmp_path: Path
) -> None:
    with Server(tmp_path) as one, Server(tmp_path) as other:
        one.start()
        other.start()
        begun = one.call("begin_operation", **BEGIN)
        assert (begun["next"], begun["reason"]) == ("perform", "first_attempt")
        waiting = other.call("begin_operation", **{**BEGIN, "call_id": "call-of-another-0001"})
        assert (waiting["next"], waiting["reason"]) == ("wait", "lease_held")
        for server in (one, other):
            assert server.process.stdin is not None
            server.process.stdin.close()
            assert server.process.wait(WAIT_SECONDS) == 0
    database = place(tmp_path / "journal.db")
    cluster.until(f"SELECT 1 WHERE NOT EXISTS (SELECT 1 {others_of(database)})")
