"""A journal that others put back, such as a database from a dump, is asked about once it is marked."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import JournalUnavailable
from counterfoil.store.restoring import Restored, mark_restored
from journals import ANOTHER, START, FakeClock, journal_place, kept_at, open_desk, open_test_journal
from postgres_cluster import Cluster

pytestmark = pytest.mark.anyio


def words(answer: dict[str, Any]) -> str:
    return f"{answer['next']} {answer['reason']}"


async def mark(folder: Path, clock: FakeClock) -> Restored:
    """Mark the journal in `folder`, as somebody who opens it for that."""
    async with open_test_journal(folder, clock=clock) as journal:
        return await mark_restored(journal, clock=clock, policy=Policy(), caller=ANOTHER)


async def test_what_a_marked_journal_may_lack_is_asked_about(store: str, tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await desk.at("done").begin()
        await desk.at("done").receipt()
        await desk.at("running").begin(lease_seconds=7_200)
    clock.advance(60)
    marked = await mark(tmp_path, clock)
    assert (marked.runs, marked.operations, marked.leases_ended, marked.faults) == (1, 2, 1, ())
    assert (marked.backed_up_at, marked.restored_at) == (START, clock.at)
    async with open_desk(tmp_path, clock=clock) as desk:
        assert words(await desk.at("done").begin()) == "skip already_succeeded"
        assert words(await desk.at("running").begin()) == "reconcile in_doubt"
        assert words(await desk.at("never seen").begin()) == "ask history_gap"
        assert (await desk.plan())["journal"]["restored_at"] == clock.text


async def test_a_database_put_back_from_a_dump_takes_nothing_up_once_it_is_marked(
    cluster: Cluster, tmp_path: Path
) -> None:
    """What was granted after the dump is unknown to what is put back, and is not granted again unasked."""
    clock = FakeClock()
    with cluster.lending() as place:
        with kept_at(place):
            async with open_desk(tmp_path, clock=clock) as desk:
                await desk.at("known").begin()
                dump = pg(
                    "pg_dump", "--schema=counterfoil", cluster, str(journal_place(tmp_path / "journal.db"))
                )
                await desk.at("lost").begin()
        back = cluster.new_database()
        pg("psql", "--quiet", cluster, cluster.url(back), given=dump)
        with kept_at(lambda _: cluster.url(back)):
            clock.advance(60)
            assert (await mark(tmp_path, clock)).faults == ()
            async with open_desk(tmp_path, clock=clock) as desk:
                assert words(await desk.at("lost").begin(caller=ANOTHER)) == "ask history_gap"
                assert words(await desk.at("known").begin(caller=ANOTHER)) == "reconcile in_doubt"
        cluster.drop_database(back)


async def test_a_server_that_opened_a_journal_before_the_mark_answers_nothing_any_more(
    store: str, tmp_path: Path
) -> None:
    """It would know of no gap; its client starts another, which does."""
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await desk.begin()
        clock.advance(60)
        await mark(tmp_path, clock)
        for call in (desk.at("new").begin, desk.check):
            with pytest.raises(
                JournalUnavailable, match="the journal was restored, or something is copied"
            ) as fault:
                await call()
            assert (fault.value.retryable, fault.value.recorded) == (False, False)
    async with open_desk(tmp_path, clock=clock) as desk:
        assert words(await desk.at("new").begin()) == "ask history_gap"


def pg(program: str, option: str, cluster: Cluster, url: str, *, given: bytes = b"") -> bytes:
    """Run one of PostgreSQL's own programs on a database."""
    done = subprocess.run(
        [cluster.binaries / program, option, "--dbname", url],
        input=given,
        capture_output=True,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        timeout=60,
        check=True,
    )
    assert b"ERROR" not in done.stderr, done.stderr
    return done.stdout
