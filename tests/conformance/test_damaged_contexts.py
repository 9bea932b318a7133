"""A context that is damaged hides nothing but itself, and nothing that it is weighed upon is permitted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.sqlite_journals import damage_loosely
from counterfoil.store.domain.commands import (
    BeginRun,
    CheckOperation,
    Criterion,
    FindOperations,
    OperationRef,
    PlanStep,
    ReceiptGiven,
    RecordReceipt,
    RequestAuthority,
    Spec,
)
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import BodyDamaged
from counterfoil.store.viewing import CONTEXT_DAMAGED
from journals import AGENT, ANOTHER, FakeClock, as_caller, folder_in_memory, open_desk

pytestmark = pytest.mark.anyio

CONTEXT = {"model": "m-1"}
POLICY = Policy(authority=(("pay.send", "*"),))
KEYED = {"repeat": "keyed", "key_ttl_seconds": 86_400.0}

DAMAGES = {
    "another": "UPDATE contexts SET body = 'null'",
    "nothing": "UPDATE contexts SET body = NULL",
    "no text": "UPDATE contexts SET body = x'7b7d'",
    "no UTF-8": "UPDATE contexts SET body = CAST(x'ff' AS TEXT)",
    "gone": "DELETE FROM contexts",
}
every_damage = pytest.mark.parametrize("sql", DAMAGES.values(), ids=DAMAGES.keys())


@pytest.fixture(name="folder")
def _folder() -> Iterator[Path]:
    with folder_in_memory() as folder:
        yield folder


async def write(folder: Path) -> None:
    """Write a run under a context with an operation of each kind, and one run without."""
    async with open_desk(folder, policy=POLICY) as desk:
        plan = (PlanStep(key="planned", action="email.send"),)
        await desk.journal.begin_run(BeginRun(run=desk.run, context=CONTEXT, plan=plan), as_caller(AGENT))
        await desk.at("done").begin()
        await desk.at("done").receipt()
        await desk.at("doubt").begin()
        await desk.at("doubt").failure()
        await desk.at("keyed").begin(args={"n": 1}, **KEYED)
        await desk.at("keyed").failure()
        await desk.at("pay").begin(action="pay.send")
        await desk.at("apart", run="run-2").begin()


def later() -> FakeClock:
    """Give a clock that says that every lease ran out."""
    clock = FakeClock()
    clock.advance(301)
    return clock


@every_damage
async def test_whoever_only_looks_is_served_and_told(folder: Path, sql: str) -> None:
    await write(folder)
    damage_loosely(folder, "contexts", sql)
    async with open_desk(folder, policy=POLICY, clock=later()) as desk:
        found = await desk.journal.find_operations(FindOperations(text="send"), AGENT)
        plan = await desk.plan()
        assert plan["warnings"] == [CONTEXT_DAMAGED]
        steps = {step["key"]: step for step in plan["steps"]}
        listed = {entry["key"]: entry for entry in found["operations"]}
        for key in ("planned", "doubt", "keyed", "pay"):
            checked = await desk.at(key).check()
            for shown in (steps[key], listed[key], checked):
                assert (shown["next"], shown["reason"]) == ("reconcile", "in_doubt")
                assert shown["warnings"] == [CONTEXT_DAMAGED]
        assert steps["planned"]["state"] == listed["planned"]["state"] == "planned"
        for shown in (steps["done"], listed["done"], await desk.at("done").check()):
            assert (shown["next"], shown.get("warnings")) == ("skip", None)
        assert "warnings" not in listed["apart"]
        (fault, *_) = (await desk.journal.reader.verify()).faults
        assert "context sha256:" in fault


@every_damage
async def test_no_attempt_is_granted_under_it_and_the_rest_is_answered(folder: Path, sql: str) -> None:
    await write(folder)
    damage_loosely(folder, "contexts", sql)
    async with open_desk(folder, policy=POLICY, clock=later()) as desk:
        for key, fields in (("planned", {}), ("new", {}), ("keyed", {"args": {"n": 1}, **KEYED})):
            with pytest.raises(BodyDamaged):
                await desk.at(key).begin(caller=ANOTHER, **fields)
        done, doubt = await desk.at("done").begin(), await desk.at("doubt").begin(caller=ANOTHER)
        assert (done["next"], doubt["next"], doubt["reason"]) == ("skip", "reconcile", "in_doubt")
        assert CONTEXT_DAMAGED in done["warnings"]
        assert CONTEXT_DAMAGED in doubt["warnings"]
        assert (await desk.at("doubt").receipt(attempt=1, external_id="m-2"))["state"] == "succeeded"
        assert (await desk.at("new", run="run-2").begin())["next"] == "perform"


@every_damage
async def test_a_run_under_it_is_taken_up_again_but_no_drift_is_accepted(folder: Path, sql: str) -> None:
    await write(folder)
    damage_loosely(folder, "contexts", sql)
    async with open_desk(folder, policy=POLICY, clock=later()) as desk:
        run = BeginRun(run=desk.run, context={"model": "m-2"})
        begun = await desk.journal.begin_run(run, as_caller(ANOTHER))
        assert (begun["next"], begun["warnings"]) == ("continue", [CONTEXT_DAMAGED])
        assert {step["key"] for step in begun["steps"]} >= {"planned", "doubt"}
        accepting = BeginRun(run=desk.run, context={"model": "m-2"}, accept_reason="because")
        with pytest.raises(BodyDamaged):
            await desk.journal.begin_run(accepting, as_caller(ANOTHER))


@every_damage
async def test_what_asks_for_authority_is_told_that_it_cannot_be_weighed(folder: Path, sql: str) -> None:
    await write(folder)
    damage_loosely(folder, "contexts", sql)
    async with open_desk(folder, policy=POLICY, clock=later()) as desk:
        asking = RequestAuthority(ref=desk.at("pay").ref, why="to pay")
        answer = await desk.journal.request_authority(asking, as_caller(AGENT))
        assert (answer["next"], answer["reason"]) == ("reconcile", "in_doubt")
        assert answer["warnings"] == [CONTEXT_DAMAGED]
        assert await desk.journal.list_requests() == []


@pytest.mark.parametrize("text", ["NULL", "'[]'", "CAST(x'ff' AS TEXT)"])
async def test_damaged_criteria_hide_nothing_and_refuse_no_receipt(folder: Path, text: str) -> None:
    spec = Spec(criteria=(Criterion(id="c-1", text="it is sent"),))
    async with open_desk(folder) as desk:
        await desk.journal.begin_run(BeginRun(run=desk.run, spec=spec), as_caller(AGENT))
        await desk.begin(satisfies=("c-1",))
    damage_loosely(folder, "bodies", f"UPDATE bodies SET body = {text}")
    async with open_desk(folder) as desk:
        plan = await desk.plan()
        assert [step["key"] for step in plan["steps"]] == [desk.key]
        assert "the criteria on record are not those" in plan["warnings"][0]
        receipt = ReceiptGiven(kind="message", system="smtp", external_id="m-1")
        sent = RecordReceipt(ref=desk.ref, receipt=receipt)
        assert (await desk.journal.record_receipt(sent, as_caller(AGENT)))["state"] == "succeeded"
        owner = CheckOperation(ref=OperationRef(), external_id="m-1")
        assert (await desk.journal.check_operation(owner, AGENT))["key"] == desk.key
