"""Transactions in PostgreSQL: runs do not wait for each other, and what is compared across them holds."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import psycopg
import pytest

from conformance.postgres_journals import SHORT, WAIT_SECONDS, Held, hold_writes, making, opened, runs
from counterfoil.store.domain.commands import GrantAuthority
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import InvalidArgument, JournalUnavailable
from counterfoil.store.statements import StatementRefused
from journals import AGENT, ANOTHER, PERSON, Desk, as_caller, kept_at, open_desk
from postgres_cluster import Cluster

pytestmark = pytest.mark.anyio

_WAITS = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


@pytest.fixture
def place(cluster: Cluster) -> Iterator[Callable[[Path], str]]:
    """Where journals lie: in databases of their own."""
    with cluster.lending() as lent, kept_at(lent):
        yield lent


@pytest.fixture
def url(place: Callable[[Path], str]) -> str:
    """The URL of one journal."""
    return place(Path("journal"))


async def both_at_once(one: Any, other: Any, *, first: Desk, second: Desk) -> list[dict[str, Any]]:
    """Let two callers, each at its own server, reach the end of their transactions before either commits."""
    held = [hold_writes(desk.journal.database) for desk in (first, second)]
    answers: list[dict[str, Any]] = []

    async def call(act: Any) -> None:
        answers.append(await act())

    with anyio.fail_after(WAIT_SECONDS):
        async with anyio.create_task_group() as tasks:
            for act, holding in zip((one, other), held, strict=True):
                tasks.start_soon(call, act)
                await _reached(holding)
            for holding in held:
                holding().go.set()
    return answers


async def _reached(holding: Callable[[], Held]) -> None:
    while True:
        await anyio.lowlevel.checkpoint()
        try:
            held = holding()
        except IndexError:
            continue
        await held.reached.wait()
        return


async def test_two_runs_commit_without_waiting_for_each_other(
    place: Callable[[Path], str], tmp_path: Path
) -> None:
    async with open_desk(tmp_path) as one, open_desk(tmp_path) as other:
        await one.begin()
        await other.at("key-1", run="run-2").begin()
        holding = hold_writes(one.journal.database)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one.at("held").begin)
            with anyio.fail_after(WAIT_SECONDS):
                await _reached(holding)
                for number in range(5):
                    answer = await other.at(f"key-{number + 2}", run="run-2").begin(target=f"{number}@x.org")
                    assert answer["next"] == "perform"
            holding().go.set()
        assert await one.at("held").state() == "in_progress"
        assert (await other.journal.reader.verify()).faults == ()


async def test_two_runs_that_undo_one_operation_at_once_do_not_both(
    place: Callable[[Path], str], tmp_path: Path
) -> None:
    async with open_desk(tmp_path) as one, open_desk(tmp_path) as other:
        original = (await one.begin())["operation"]
        await one.receipt()
        undo = {"action": "email.recall", "compensates": original}
        answers = await both_at_once(
            lambda: one.at("undo", run="a").begin(**undo),
            lambda: other.at("undo", run="b").begin(**undo),
            first=one,
            second=other,
        )
        assert sorted((answer["next"], answer["reason"]) for answer in answers) == [
            ("perform", "first_attempt"),
            ("stop", "possible_duplicate"),
        ]


async def test_a_grant_for_one_use_is_not_used_by_two_runs_at_once(
    place: Callable[[Path], str], tmp_path: Path
) -> None:
    gated = Policy(authority=(("pay.*", "*"),))
    async with open_desk(tmp_path, policy=gated) as one, open_desk(tmp_path, policy=gated) as other:
        grant = GrantAuthority(action="pay.send", target="*", max_uses=1)
        await one.journal.grant(grant, as_caller(PERSON))
        answers = await both_at_once(
            lambda: one.at("pay", run="a").begin(action="pay.send", target="x"),
            lambda: other.at("pay", run="b").begin(action="pay.send", target="y"),
            first=one,
            second=other,
        )
        assert sorted(answer["next"] for answer in answers) == ["ask", "perform"]


async def test_one_message_is_not_the_receipt_of_two_runs_at_once(
    place: Callable[[Path], str], tmp_path: Path
) -> None:
    async with open_desk(tmp_path) as one, open_desk(tmp_path) as other:
        a, b = one.at("send", run="a"), other.at("send", run="b")
        await a.begin(target="x@example.org")
        await b.begin(target="y@example.org")
        answers = await both_at_once(a.receipt, b.receipt, first=one, second=other)
        assert sorted(answer["reason"] for answer in answers) == ["foreign_receipt", "recorded"]


async def test_of_two_servers_that_begin_one_operation_at_once_one_may_perform(
    place: Callable[[Path], str], cluster: Cluster, tmp_path: Path
) -> None:
    async with open_desk(tmp_path) as one, open_desk(tmp_path) as other:
        holding = hold_writes(one.journal.database)
        answers: list[dict[str, Any]] = []

        async def call(desk: Desk, caller: Any) -> None:
            answers.append(await desk.begin(caller=as_caller(caller)))

        with anyio.fail_after(WAIT_SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call, one, AGENT)
                await _reached(holding)
                # It comes as far as the run, which the first has taken.
                tasks.start_soon(call, other, ANOTHER)
                while not cluster.run(_WAITS):
                    await anyio.lowlevel.checkpoint()
                holding().go.set()
        assert sorted((answer["next"], answer["reason"]) for answer in answers) == [
            ("perform", "first_attempt"),
            ("wait", "lease_held"),
        ]


async def test_who_lost_a_race_waits_for_those_that_lost_one_and_for_nobody_else(
    url: str, cluster: Cluster
) -> None:
    """Of three that read what the others write one commits; the others go one by one, and lose no more."""
    losers = [LateComer(f"late-{number}") for number in range(2)]
    async with opened(url) as one, opened(url) as other, opened(url) as third:
        with anyio.fail_after(WAIT_SECONDS):
            async with anyio.create_task_group() as tasks:
                for database, loser in zip((one, other), losers, strict=True):
                    tasks.start_soon(database.write, loser)
                    await loser.reached[0].wait()
                await third.write(reading_and_making("first"))
                losers[0].go[0].set()
                await losers[0].reached[1].wait()
                losers[1].go[0].set()
                while not cluster.run(_WAITS):
                    await anyio.lowlevel.checkpoint()
                assert not losers[1].reached[1].is_set()
                await third.write(making("meanwhile"))
                losers[0].go[1].set()
                losers[1].go[1].set()
        assert await third.read(runs) == ["first", "late-0", "late-1", "meanwhile"]
    assert [loser.passed for loser in losers] == [2, 2]


async def test_who_lost_a_race_twice_runs_alone_and_loses_no_more(url: str, cluster: Cluster) -> None:
    """Other writers wait for it, readers do not."""
    loser = LateComer("late")
    async with opened(url) as database, opened(url) as other:
        with anyio.fail_after(WAIT_SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(database.write, loser)
                for number in range(2):
                    await loser.reached[number].wait()
                    await other.write(reading_and_making(f"first-{number}"))
                    loser.go[number].set()
                await loser.reached[2].wait()
                tasks.start_soon(other.write, reading_and_making("next"))
                while not cluster.run(_WAITS):
                    await anyio.lowlevel.checkpoint()
                assert await other.read(runs) == ["first-0", "first-1"]
                loser.go[2].set()
        assert await other.read(runs) == ["first-0", "first-1", "late", "next"]
    assert loser.passed == 3


class LateComer:
    """Reads all runs and makes one, and is held before its commit each time that it comes there."""

    def __init__(self, run: str) -> None:
        self._work = reading_and_making(run)
        self.reached = [anyio.Event() for _ in range(3)]
        self.go = [anyio.Event() for _ in range(3)]
        self.passed = 0

    async def __call__(self, connection: Any) -> None:
        await self._work(connection)
        self.reached[self.passed].set()
        self.passed += 1
        await self.go[self.passed - 1].wait()


def reading_and_making(run: str) -> Any:
    """Give a work that makes a run after a look at all of them."""

    async def work(connection: Any) -> None:
        await runs(connection)
        await making(run)(connection)

    return work


async def test_a_row_that_another_program_holds_is_waited_for_only_so_long(url: str) -> None:
    async with opened(url, patience=SHORT) as database:
        await database.write(making("held"))
        with psycopg.connect(url, options="-csearch_path=counterfoil") as another:
            another.execute("SELECT 1 FROM runs FOR UPDATE")
            with pytest.raises(JournalUnavailable) as fault:
                await database.write(advancing("held"))
        assert (fault.value.retryable, fault.value.recorded) == (True, False)
        assert "another writer holds its lock (55P03)" in fault.value.message
        assert await database.write(advancing("held")) == 1


def advancing(run: str) -> Any:
    """Give a work that moves a run's place in the log."""

    async def work(connection: Any) -> int:
        place = {"namespace": "default", "run": run, "touched_at": 1, "head": "1" * 64, "operations": 0}
        moved: int = await connection.execute("advance_run", {**place, "last_seq": 1, "expected_seq": 0})
        return moved

    return work


async def test_a_work_that_fails_leaves_nothing_and_its_connection_serves_again(url: str) -> None:
    async def failing(connection: Any) -> None:
        await making("lost")(connection)
        raise ValueError("as it happens")

    async with opened(url, most_connections=1) as database:
        with pytest.raises(ValueError, match="as it happens"):
            await database.write(failing)
        await database.write(making("kept"))
        assert await database.read(runs) == ["kept"]


async def test_an_error_that_a_work_hides_is_told_all_the_same(url: str) -> None:
    async def hiding(connection: Any) -> str:
        await making("lost")(connection)
        with pytest.raises(StatementRefused):
            await connection.execute("append_event", {"namespace": "default"})
        return "as if all were well"

    async with opened(url) as database:
        with pytest.raises(StatementRefused, match="the work"):
            await database.write(hiding)
        assert await database.read(runs) == []


async def test_a_read_may_not_write(url: str) -> None:
    async with opened(url) as database:
        with pytest.raises(StatementRefused, match="it writes, and a read may not"):
            await database.read(making("none"))
        assert await database.read(runs) == []


async def test_a_connection_is_of_no_use_after_its_transaction(url: str) -> None:
    kept: list[Any] = []

    async def keeping(connection: Any) -> None:
        kept.append(connection)

    async with opened(url) as database:
        await database.write(keeping)
        with pytest.raises(StatementRefused, match="its transaction has ended"):
            await kept[0].fetch_all("all_runs")


async def test_a_caller_who_gives_up_leaves_the_whole_or_nothing(url: str) -> None:
    async with opened(url, most_connections=1) as database:
        held = Held(making("whole"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(database.write, held)
            await held.reached.wait()
            tasks.cancel_scope.cancel()
        assert await database.read(runs) in (["whole"], [])
        await database.write(making("next"))
        assert "next" in await database.read(runs)


async def test_the_character_nul_is_refused_as_an_argument(
    place: Callable[[Path], str], tmp_path: Path
) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        with pytest.raises(InvalidArgument, match="holds the character NUL"):
            await desk.failure("unknown", error="torn\0off")
        assert await desk.state() == "in_progress"


async def test_what_is_as_long_as_may_be_can_be_kept_and_found(
    place: Callable[[Path], str], tmp_path: Path
) -> None:
    """An entry of an index of PostgreSQL is bounded; what stands in one has to fit whatever it is."""
    long = "".join(chr(0x4E00 + number * 7 % 20_000) for number in range(4_000))
    async with open_desk(tmp_path) as desk:
        begun = await desk.begin(action=long, target=long, workflow=long, args={"text": long})
        assert begun["next"] == "perform"
        again = await desk.at("another").begin(action=long, target=long)
        assert again["reason"] == "possible_duplicate"
        assert (await desk.receipt(system=long, external_id=long))["reason"] == "recorded"
        assert (await desk.receipt(system=long, external_id=long))["reason"] == "duplicate"
        assert (await desk.journal.reader.verify()).faults == ()


async def test_statements_that_a_pooler_left_on_another_server_are_not_prepared_any_more(
    place: Callable[[Path], str], tmp_path: Path
) -> None:
    """A pooler that lends a server by transaction: what the driver has prepared is gone, behind its back."""
    async with open_desk(tmp_path) as desk:
        for number in range(8):
            await desk.at(f"key-{number}").begin()
        database: Any = desk.journal.database
        async with database._session() as session:
            prepared = "SELECT COUNT(*) AS prepared FROM pg_prepared_statements"
            row = await (await session.execute(prepared)).fetchone()
            assert row["prepared"] > 0
            # In a block, so that the driver does not see it.
            await session.execute("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$")
        answer = await desk.at("key-8").begin()
        assert (answer["next"], answer["reason"]) == ("perform", "first_attempt")
        for number in range(9, 18):
            assert (await desk.at(f"key-{number}").begin())["next"] == "perform"
        async with database._session() as session:
            row = await (await session.execute(prepared)).fetchone()
            assert row["prepared"] == 0
