"""Field reports about what is kept and moved: old snapshots, short memories, and what ought to be older."""

import io
from pathlib import Path
from typing import Any

import pytest

from counterfoil.store.domain.commands import Caller
from counterfoil.store.spool import read_spool
from journals import ANOTHER, Desk, FakeClock, open_desk

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]

A_DAY = 86_400
IMPORTER = Caller(connection="cli-1", client="counterfoil", tool="cli import")


def words(answer: dict[str, Any]) -> str:
    return f"{answer['next']} {answer['reason']}"


async def snapshot(desk: Desk) -> bytes:
    return "".join([line async for line in desk.journal.keeper.export()]).encode()


async def test_a_stale_snapshot_taken_in_again_reopens_nothing_and_is_told(tmp_path: Path) -> None:
    """J-7: export at t0, done at t1, import of t0: it stays done, and the difference is reported.

    Reported: gastownhall/beads#3822, gastownhall/beads#3931, gastownhall/beads#4128.
    """
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await desk.begin()
        at_t0 = await snapshot(desk)
        clock.advance(60)
        await desk.receipt()
        clock.advance(A_DAY)
        for _ in range(2):
            taken = await desk.journal.keeper.take_in(read_spool(io.BytesIO(at_t0)), IMPORTER)
            assert not taken.changed
            assert [(found.kind, found.journal) for found in taken.conflicts] == [("state", "succeeded")]
        assert words(await desk.begin(caller=ANOTHER)) == "skip already_succeeded"
        check = await desk.check()
        assert (check["state"], check["attempts_in_all"], len(check["receipts"])) == ("succeeded", 1, 1)
        assert (await desk.journal.reader.verify()).faults == ()


async def test_an_agent_that_retries_after_a_month_is_answered_by_the_tombstone(tmp_path: Path) -> None:
    """G-3: a done operation was purged and begins again on day 31; one in doubt has reached the same age.

    Reported: zenml-io/kitaru#876, apache/iceberg#14196.
    """
    clock = FakeClock()
    body = {"args": {"invoice": 42}, "payload": "Dear Alice"}
    async with open_desk(tmp_path, clock=clock) as desk:
        doubtful = desk.at("doubtful")
        await desk.begin(**body)
        await desk.receipt()
        await doubtful.begin(payload="Dear Bob")
        clock.advance(31 * A_DAY)
        pruned = await desk.journal.keeper.prune(older_than_seconds=30 * A_DAY)
        assert (pruned.operations, pruned.bodies) == (1, 2)
        again = await desk.begin(caller=ANOTHER, **body)
        assert words(again) == "skip already_succeeded"
        assert [receipt["external_id"] for receipt in again["receipts"]] == ["m-1"]
        assert words(await doubtful.begin(caller=ANOTHER, payload="Dear Bob")) == "reconcile in_doubt"
        assert (await doubtful.check(detail="payload"))["content"] == "Dear Bob"
        assert (await desk.plan())["counts"] == {"succeeded": 1, "in_doubt": 1}
        assert [(await place.check())["attempts_in_all"] for place in (desk, doubtful)] == [1, 1]
        assert (await desk.journal.reader.verify()).faults == ()
