"""An operation that refers to what was never there cannot be read: in doubt for whoever looks at it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.sqlite_journals import damage
from counterfoil.store.domain.commands import BeginRun, FindOperations, PlanStep, RequestAuthority
from counterfoil.store.errors import JournalUnavailable
from journals import AGENT, ANOTHER, FakeClock, as_caller, folder_in_memory, open_desk

pytestmark = pytest.mark.anyio

KEYED = {"repeat": "keyed", "key_ttl_seconds": 86_400.0}
NOBODY = "op_aaaaaaaaaaaaaaaaaaaa"

DAMAGES = {
    "undoes what is no id": "UPDATE operations SET compensates = 'garbage' WHERE key = 'undo'",
    "undoes nobody's": f"UPDATE operations SET compensates = '{NOBODY}' WHERE key = 'undo'",
    "undoes another's": "UPDATE operations SET compensates = (SELECT id FROM operations WHERE key = 'other') "
    "WHERE key = 'undo'",
    "undoes another's by the table": f"UPDATE compensations SET original = '{NOBODY}'",
    "waits for what is not there": """UPDATE operations
        SET links = '{"depends_on":["nowhere"],"distinct_from":[],"satisfies":[]}' WHERE key = 'undo'""",
    "waits for itself": """UPDATE operations
        SET links = '{"depends_on":["undo"],"distinct_from":[],"satisfies":[]}' WHERE key = 'undo'""",
    "is distinct from what is no id": """UPDATE operations
        SET links = '{"depends_on":[],"distinct_from":["garbage"],"satisfies":[]}' WHERE key = 'undo'""",
}


@pytest.fixture(name="folder")
def _folder() -> Iterator[Path]:
    with folder_in_memory() as folder:
        yield folder


@pytest.mark.parametrize("sql", DAMAGES.values(), ids=DAMAGES.keys())
async def test_an_operation_with_a_damaged_link_is_in_doubt_until_its_rows_are_made_anew(
    folder: Path, sql: str
) -> None:
    async with open_desk(folder) as desk:
        original = (await desk.at("done").begin())["operation"]
        await desk.at("done").receipt()
        undo = {"action": "email.recall", "compensates": original, **KEYED}
        await desk.at("undo").begin(**undo)
        await desk.at("undo").failure()
        await desk.at("other").begin()
        plan = (PlanStep(key="after", action="email.send", depends_on=("undo",)),)
        await desk.journal.begin_run(BeginRun(run=desk.run, plan=plan), as_caller(AGENT))
    damage(folder, sql)
    clock = FakeClock()
    clock.advance(301)
    async with open_desk(folder, clock=clock) as desk:
        bad = desk.at("undo")
        plan = await desk.plan()
        found = await desk.journal.find_operations(FindOperations(run=desk.run), AGENT)
        (step,) = [step for step in plan["steps"] if step["key"] == "undo"]
        (listed,) = [entry for entry in found["operations"] if entry["key"] == "undo"]
        begun = await bad.begin(caller=ANOTHER, action="email.recall", **KEYED)
        for shown in (begun, await bad.check(), step, listed):
            assert (shown["next"], shown["reason"], shown["state"]) == ("reconcile", "in_doubt", "in_doubt")
            assert "counterfoil verify" in shown["warnings"][0]
            assert begun["operation"] in shown["warnings"][0]
        assert (plan["damaged"], found["damaged"]) == (1, 1)
        with pytest.raises(JournalUnavailable):
            await desk.journal.request_authority(RequestAuthority(ref=bad.ref, why="why"), as_caller(AGENT))
        after = await desk.at("after").begin()
        assert (after["next"], after["reason"]) == ("wait", "dependency")
        assert (await desk.at("other").receipt(external_id="m-2"))["state"] == "succeeded"
        verified = await desk.journal.reader.verify()
        assert verified.is_mendable
        assert await desk.journal.keeper.repair() == [begun["operation"]]
        assert (await desk.journal.reader.verify()).faults == ()
        assert (await bad.begin(caller=ANOTHER, **undo))["reason"] == "repeat_keyed"


async def test_a_step_that_waits_for_one_with_a_damaged_link_is_not_damaged_itself(folder: Path) -> None:
    async with open_desk(folder) as desk:
        steps = [PlanStep(key="a", action="email.send", target="a")]
        steps += [
            PlanStep(key=key, action="email.send", target=key, depends_on=(before,))
            for before, key in (("a", "b"), ("b", "c"))
        ]
        await desk.journal.begin_run(BeginRun(run=desk.run, plan=tuple(steps)), as_caller(AGENT))
    damage(folder, "UPDATE operations SET links = replace(links, '\"a\"', '\"x\"') WHERE key = 'b'")
    async with open_desk(folder) as desk:
        shown = {step["key"]: (step["next"], step["reason"]) for step in (await desk.plan())["steps"]}
        assert shown == {
            "a": ("begin", "first_attempt"),
            "b": ("reconcile", "in_doubt"),
            "c": ("wait", "dependency"),
        }
        for key, told in (("b", "in_doubt"), ("c", "dependency")):
            answered = await desk.at(key).begin(target=key)
            assert (answered["reason"], (await desk.at(key).check())["reason"]) == (told, told)


async def test_steps_that_wait_for_each_other_are_both_in_doubt(folder: Path) -> None:
    async with open_desk(folder) as desk:
        plan = (
            PlanStep(key="a", action="email.send", target="a", depends_on=("z",)),
            PlanStep(key="b", action="email.send", target="b", depends_on=("a",)),
            PlanStep(key="z", action="email.send", target="z"),
        )
        await desk.journal.begin_run(BeginRun(run=desk.run, plan=plan), as_caller(AGENT))
    damage(folder, "UPDATE operations SET links = replace(links, '\"z\"', '\"b\"') WHERE key = 'a'")
    async with open_desk(folder) as desk:
        shown = {step["key"]: (step["next"], step["reason"]) for step in (await desk.plan())["steps"]}
        assert shown["a"] == shown["b"] == ("reconcile", "in_doubt")
        for key in ("a", "b"):
            answered = await desk.at(key).begin(target=key)
            assert (answered["next"], answered["reason"]) == ("reconcile", "in_doubt")
