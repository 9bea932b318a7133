"""Whatever follows from the log and was damaged beside it is told by verification, with what mends it."""

import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from conformance.sqlite_journals import damage
from counterfoil.store.domain.commands import (
    BeginRun,
    Criterion,
    OperationRef,
    PlanStep,
    RecordProgress,
    Spec,
)
from counterfoil.store.errors import JournalUnavailable
from counterfoil.store.protocol import Connection
from counterfoil.store.saving_rows import save_operation
from counterfoil.store.spool import read_spool
from journals import AGENT, FakeClock, as_caller, folder_in_memory, open_desk

pytestmark = pytest.mark.anyio

A_DAY = 86_400.0
MEND = "its log is whole: `counterfoil verify --repair` makes its rows anew"
DONE, UNDO, LATER = (f"(SELECT id FROM operations WHERE key = '{key}')" for key in ("done", "undo", "later"))
DAMAGED = "run-1: operation op_"
ARGS = "(SELECT args_digest FROM operations WHERE key = 'done')"

FROM_FACTS = {
    "a fingerprint is gone": (f"DELETE FROM fingerprints WHERE operation = {UNDO}", "fingerprints"),
    "a fingerprint is another": (
        f"UPDATE fingerprints SET fingerprint = 'v1:sha256:0' WHERE operation = {UNDO}",
        "fingerprints",
    ),
    "a fingerprint is of another run": (
        f"UPDATE fingerprints SET run = 'run-9' WHERE operation = {UNDO}",
        "fingerprints",
    ),
    "a fingerprint too many": (
        f"INSERT INTO fingerprints SELECT namespace, 'v1:sha256:0', operation, run FROM fingerprints "
        f"WHERE operation = {UNDO}",
        "fingerprints",
    ),
    "a compensation is gone": ("DELETE FROM compensations", "compensations"),
    "a compensation is another": ("UPDATE compensations SET original = 'op_a'", "compensations"),
    "a compensation too many": (
        f"INSERT INTO compensations SELECT namespace, {UNDO}, id, run FROM operations WHERE key = 'done'",
        "compensations",
    ),
    "a reference is gone": (f"DELETE FROM external_ids WHERE operation = {DONE}", "external_ids"),
    "a reference is another": (
        f"UPDATE external_ids SET external_id = 'm-9' WHERE operation = {DONE}",
        "external_ids",
    ),
    "a reference no longer stands": (
        f"UPDATE external_ids SET stands = 0 WHERE operation = {DONE}",
        "external_ids",
    ),
    "a reference too many": (
        "INSERT INTO external_ids SELECT namespace, 'm-9', kind, system, run, operation, 1 "
        f"FROM external_ids WHERE operation = {DONE}",
        "external_ids",
    ),
    "another lease": (
        "UPDATE operations SET lease_until = lease_until + 1 WHERE key = 'later'",
        "lease_until",
    ),
    "another deadline": ("UPDATE operations SET deadline_at = 1 WHERE key = 'done'", "deadline_at"),
    "no deadline": ("UPDATE operations SET deadline_at = NULL WHERE key = 'later'", "deadline_at"),
    "other standing receipts": (
        "UPDATE operations SET standing_receipts = 0 WHERE key = 'done'",
        "standing_receipts",
    ),
    "a compensation of what is none": (
        "UPDATE operations SET compensates = 'garbage' WHERE key = 'undo'",
        "rows that cannot be read",
    ),
    "a retry that is neither forbidden nor allowed": (
        "UPDATE attempts SET retryable = 7 WHERE operation = " + DONE,
        "rows that cannot be read",
    ),
    "a number of an attempt that none has": (
        "UPDATE attempts SET number = 9 WHERE operation = " + DONE,
        "rows that cannot be read",
    ),
    "a use of a grant too many": (
        f"INSERT INTO grant_uses VALUES ('default', 'grant_a', 'run-1', {DONE}, 1)",
        "uses of grants",
    ),
}

OF_THE_RUN = {
    "operations": "UPDATE runs SET operations = operations + 1",
    "workflow": "UPDATE runs SET workflow = 'another'",
    "workflow_version": "UPDATE runs SET workflow_version = NULL",
    "created_at": "UPDATE runs SET created_at = created_at + 1",
    "touched_at": "UPDATE runs SET touched_at = touched_at + 1",
    "goal": "UPDATE runs SET goal = 'another'",
    "cannot be read": "UPDATE runs SET holder = '{broken'",
}

NOT_IN_THE_LOG = {
    "a body is another": (
        f"UPDATE bodies SET body = '{{}}' WHERE digest = {ARGS}",
        "its digest does not fit",
    ),
    "a body is garbled": (
        f"UPDATE bodies SET body = CAST(x'ff' AS TEXT) WHERE digest = {ARGS}",
        "its digest does not fit",
    ),
    "a body is gone": (f"DELETE FROM bodies WHERE digest = {ARGS}", "gone without a mark of pruning"),
    "the criteria are gone": (
        "DELETE FROM bodies WHERE digest = (SELECT criteria FROM runs)",
        "gone without a mark of pruning",
    ),
    "a checkpoint of the run is gone": (
        "DELETE FROM bodies WHERE digest = (SELECT checkpoint FROM runs)",
        "gone without a mark of pruning",
    ),
    "a context is another": (
        "UPDATE contexts SET body = '{}' WHERE digest = (SELECT context FROM runs)",
        "its digest does not fit",
    ),
    "a body from no time": (
        f"UPDATE bodies SET stored_at = {2**62} WHERE digest = {ARGS}",
        "was stored at what is no time",
    ),
    "a context from no time": (
        f"UPDATE contexts SET stored_at = {2**62} WHERE digest = (SELECT context FROM runs)",
        "was stored at what is no time",
    ),
    "a context is gone": ("DELETE FROM contexts WHERE digest = (SELECT context FROM runs)", "is gone"),
}


async def write(folder: Path) -> None:
    """Write a run in which everything is there that a log leads to, and that it refers to."""
    async with open_desk(folder) as desk:
        await desk.journal.begin_run(
            BeginRun(
                run=desk.run,
                workflow="report",
                workflow_version="1",
                goal="to report",
                spec=Spec(criteria=(Criterion(id="c-1", text="it is sent"),)),
                context={"model": "m-1"},
                plan=(PlanStep(key="later", action="email.send"),),
            ),
            as_caller(AGENT),
        )
        begun = await desk.at("done").begin(args={"n": 1}, payload="a body")
        await desk.at("done").receipt(evidence={"seen": True})
        undo = desk.at("undo")
        await undo.begin(action="email.recall", compensates=begun["operation"])
        await desk.at("later").begin(args={"n": 2}, deadline_seconds=600)
        progress = RecordProgress(ref=OperationRef(run=desk.run), checkpoint={"at": 1})
        await desk.journal.record_progress(progress, as_caller(AGENT))
        assert (await desk.journal.reader.verify()).faults == ()


@pytest.fixture(scope="module")
def written() -> Iterator[Path]:
    """Give a journal that is written once, and copied by each test that damages it."""
    with folder_in_memory() as folder:
        anyio.run(write, folder)
        yield folder / "journal.db"


@pytest.fixture
def folder(written: Path) -> Iterator[Path]:
    """Give a folder with a copy of the journal."""
    with folder_in_memory() as found:
        shutil.copy(written, found)
        yield found


@pytest.mark.parametrize(("sql", "told"), FROM_FACTS.values(), ids=FROM_FACTS.keys())
async def test_a_row_that_follows_from_the_log_is_told_and_made_anew(
    folder: Path, sql: str, told: str
) -> None:
    damage(folder, sql)
    async with open_desk(folder) as desk:
        verified = await desk.journal.reader.verify()
        assert verified.faults != ()
        assert verified.is_mendable
        assert any(told in fault for fault in verified.faults)
        assert all(DAMAGED in fault and fault.endswith(MEND) for fault in verified.faults)
        assert len(await desk.journal.keeper.repair()) == 1
        mended = await desk.journal.reader.verify()
        assert (mended.faults, mended.is_mendable) == ((), False)
        assert await desk.journal.keeper.repair() == []


@pytest.mark.parametrize(("told", "sql"), OF_THE_RUN.items(), ids=OF_THE_RUN.keys())
async def test_a_runs_row_that_differs_is_told_and_needs_a_backup(folder: Path, told: str, sql: str) -> None:
    damage(folder, sql)
    async with open_desk(folder) as desk:
        verified = await desk.journal.reader.verify()
        (fault,) = verified.faults
        assert told in fault
        assert fault.startswith("run-1: the run's row says what its events do not lead to")
        assert fault.endswith("restore a backup")
        assert not verified.is_mendable


async def test_a_runs_row_that_is_gone_is_told_though_only_the_log_is_left(folder: Path) -> None:
    damage(folder, "DELETE FROM runs")
    async with open_desk(folder) as desk:
        verified = await desk.journal.reader.verify()
        assert verified.faults == ("run-1: the run's row is gone; restore a backup",)
        assert (verified.runs, verified.is_mendable) == (1, False)
        assert verified.events > 0
        assert await desk.journal.keeper.repair() == []
        with pytest.raises(JournalUnavailable, match="its row is gone") as refused:
            await desk.at("done").begin()
        assert "restores a backup" in refused.value.fix
        assert "--repair" not in refused.value.fix


@pytest.mark.parametrize(("sql", "told"), NOT_IN_THE_LOG.values(), ids=NOT_IN_THE_LOG.keys())
async def test_a_body_or_a_context_that_is_gone_or_another_is_told_and_needs_a_backup(
    folder: Path, sql: str, told: str
) -> None:
    damage(folder, sql)
    async with open_desk(folder) as desk:
        verified = await desk.journal.reader.verify()
        assert verified.faults != ()
        assert all(told in fault and fault.endswith("restore a backup") for fault in verified.faults)
        assert not verified.is_mendable
        assert await desk.journal.keeper.repair() == []


async def test_where_the_chain_does_not_hold_what_is_compared_across_runs_is_left_alone(folder: Path) -> None:
    damage(folder, "DELETE FROM compensations")
    damage(folder, "UPDATE events SET at = at + 1 WHERE seq = 1")
    async with open_desk(folder) as desk:
        verified = await desk.journal.reader.verify()
        assert any("lacks a row of compensations" in fault for fault in verified.faults)
        assert not verified.is_mendable
        assert not any("--repair" in fault for fault in verified.faults)
        assert await desk.journal.keeper.repair() == []
        assert (await desk.journal.reader.verify()).faults == verified.faults


@pytest.mark.parametrize(
    "sql",
    ["DELETE FROM operations WHERE key = 'done'", "UPDATE operations SET terms = '[]' WHERE key = 'done'"],
)
async def test_a_pruned_operation_that_is_made_anew_is_still_marked_as_pruned(folder: Path, sql: str) -> None:
    clock = FakeClock()
    clock.advance(91 * A_DAY)
    async with open_desk(folder, clock=clock) as desk:
        assert (await desk.journal.keeper.prune(older_than_seconds=90 * A_DAY)).operations == 1
        assert (await desk.journal.reader.verify()).faults == ()
    damage(folder, sql)
    async with open_desk(folder, clock=clock) as desk:
        assert len(await desk.journal.keeper.repair()) == 1
        assert (await desk.journal.reader.verify()).faults == ()
    # The mark is there: this changes exactly one row.
    damage(folder, "UPDATE operations SET pruned_at = NULL WHERE pruned_at IS NOT NULL AND key = 'done'")
    async with open_desk(folder, clock=clock) as desk:
        verified = await desk.journal.reader.verify()
        assert verified.faults != ()
        assert all("gone without a mark of pruning" in fault for fault in verified.faults)
        assert not verified.is_mendable


async def test_an_operation_that_was_put_into_another_run_is_taken_back(folder: Path) -> None:
    damage(folder, "UPDATE operations SET run = 'run-2' WHERE key = 'done'")
    async with open_desk(folder) as desk:
        assert any(
            "is in the log and has no row" in fault for fault in (await desk.journal.reader.verify()).faults
        )
        assert len(await desk.journal.keeper.repair()) == 1
        assert (await desk.journal.reader.verify()).faults == ()
        assert (await desk.at("done").begin(args={"n": 1}))["next"] == "skip"


async def test_rows_that_still_cannot_be_read_are_not_said_to_be_made_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def write_what_cannot_be_read(connection: Connection, *given: Any) -> None:
        await save_operation(connection, *given)
        await connection.execute("remove_receipts", {**place, "operation": given[1].id})

    damage(folder, "UPDATE operations SET terms = '[]' WHERE key = 'done'")
    monkeypatch.setattr("counterfoil.store.repairing.save_operation", write_what_cannot_be_read)
    async with open_desk(folder) as desk:
        place = {"namespace": "default", "run": desk.run}
        assert await desk.journal.keeper.repair() == []
        assert any("cannot be read" in fault for fault in (await desk.journal.reader.verify()).faults)


async def test_an_operation_that_was_pruned_where_an_import_comes_from_is_not_told(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await desk.begin()
        await desk.receipt(evidence={"seen": True})
        clock.advance(91 * A_DAY)
        assert (await desk.journal.keeper.prune(older_than_seconds=90 * A_DAY)).bodies == 1
        file = "".join([line async for line in desk.journal.keeper.export()]).encode()
    (tmp_path / "there").mkdir()
    async with open_desk(tmp_path / "there", clock=clock) as there:
        await there.journal.keeper.take_in(read_spool(io.BytesIO(file)), as_caller(AGENT))
        verified = await there.journal.reader.verify()
        assert (verified.operations, verified.faults) == (1, ())
