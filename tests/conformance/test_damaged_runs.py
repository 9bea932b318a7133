"""A run whose row cannot be read is told as damaged, and the other runs are served."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.sqlite_journals import damage
from counterfoil.store.errors import RunDamaged
from journals import folder_in_memory, open_desk

pytestmark = pytest.mark.anyio

DAMAGES = {
    "a holder that is no JSON": "UPDATE runs SET holder = '{broken' WHERE run = 'bad'",
    "a goal that is no UTF-8": "UPDATE runs SET goal = CAST(x'ff' AS TEXT) WHERE run = 'bad'",
    "a holder that is another thing": "UPDATE runs SET holder = '[1]' WHERE run = 'bad'",
}


@pytest.fixture(name="folder")
def _folder() -> Iterator[Path]:
    with folder_in_memory() as folder:
        yield folder


@pytest.mark.parametrize("sql", DAMAGES.values(), ids=DAMAGES.keys())
async def test_its_operations_are_refused_with_the_cause_and_other_runs_are_served(
    folder: Path, sql: str
) -> None:
    async with open_desk(folder) as desk:
        await desk.at("key-1", run="bad").begin()
        await desk.at("key-1", run="good").begin()
    damage(folder, sql)
    async with open_desk(folder) as desk:
        for call in (desk.at("key-2", run="bad").begin, desk.at("key-1", run="bad").plan):
            with pytest.raises(RunDamaged, match="the row of run bad cannot be read"):
                await call()
        listed = await desk.plan(run=None)
        entries = {entry["run"]: entry for entry in listed["runs"]}
        assert entries["good"]["counts"] == {"in_progress": 1}
        assert entries["bad"]["counts"] == {"in_doubt": 1}
        assert "cannot be read" in entries["bad"]["warnings"][0]
        assert listed["complete"] is False
        assert (await desk.at("key-1", run="good").receipt(attempt=1))["state"] == "succeeded"


async def test_the_receipt_of_an_undoing_is_kept_where_the_run_of_its_original_is_gone(folder: Path) -> None:
    async with open_desk(folder) as desk:
        original = desk.at("key-1", run="bad")
        operation = (await original.begin())["operation"]
        await original.receipt()
        await desk.at("undo", run="good").begin(compensates=operation)
    damage(folder, "DELETE FROM runs WHERE run = 'bad'")
    async with open_desk(folder) as desk:
        answer = await desk.at("undo", run="good").receipt(external_id="u-1")
        assert answer["state"] == "succeeded"
        assert any("not marked as undone" in warning for warning in answer["warnings"])
