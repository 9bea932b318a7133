"""Criteria: what a run is held against, met by receipts alone, stale when worded anew."""

from pathlib import Path
from typing import Any

import pytest

from counterfoil.store.domain.commands import (
    BeginRun,
    Criterion,
    FinishRun,
    OperationRef,
    PlanStep,
    SetSpec,
    Spec,
    VerifyOperation,
)
from counterfoil.store.errors import InvalidArgument, NotFound
from counterfoil.store.probing import ProbeFinding, ProbeSubject
from journals import AGENT, ANOTHER, PERSON, Desk, as_caller, open_desk

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]

GROUP = Criterion(id="FR-001", text="System MUST group photos by date")
SHARE = Criterion(id="FR-002", text="System MUST share an album by link")
FAST = Criterion(id="SC-001", text="A thousand photos SHOULD be sorted in two seconds", required=False)


def spec(*criteria: Criterion, uri: str = "file:///spec.md", digest: str = "sha256:1") -> Spec:
    """Give a specification."""
    return Spec(uri=uri, digest=digest, criteria=criteria)


async def begin_run(desk: Desk, **given: Any) -> dict[str, Any]:
    """Begin the desk's run."""
    return await desk.journal.begin_run(BeginRun(run=desk.run, **given), as_caller(AGENT))


async def set_spec(desk: Desk, given: Spec, *, caller: Any = PERSON) -> dict[str, Any]:
    """Hold the desk's run against a specification."""
    return await desk.journal.set_spec(SetSpec(run=desk.run, spec=given), as_caller(caller))


async def finish(desk: Desk, outcome: str = "completed") -> dict[str, Any]:
    """Finish the desk's run."""
    return await desk.journal.finish_run(FinishRun(run=desk.run, outcome=outcome), as_caller(AGENT))


async def standing(desk: Desk) -> dict[str, str]:
    """Give where each criterion that is not met stands, as a plan shows it."""
    shown = (await desk.plan())["criteria"]
    return {one["id"]: one["state"] for one in shown["open"]}


async def test_a_receipt_meets_what_its_operation_is_for(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        step = PlanStep(key=desk.key, action="photos.group", target="album", satisfies=("FR-001",))
        begun = await begin_run(desk, spec=spec(GROUP, SHARE, FAST), plan=(step,))
        assert begun["criteria"]["unmet"] == 3
        await desk.begin(action="photos.group", target="album")
        assert await standing(desk) == {"FR-001": "unmet", "FR-002": "unmet", "SC-001": "unmet"}
        await desk.receipt()
        plan = await desk.plan()
        assert (plan["criteria"]["met"], plan["criteria"]["unmet"]) == (1, 2)
        assert await standing(desk) == {"FR-002": "unmet", "SC-001": "unmet"}
        assert plan["run"]["spec"] == {"uri": "file:///spec.md", "digest": "sha256:1"}


async def test_a_receipt_meets_what_it_names_itself(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin_run(desk, spec=spec(GROUP, SHARE))
        await desk.begin(satisfies=("FR-001",))
        answer = await desk.receipt(kind="test_result", satisfies=("FR-002",))
        assert answer["receipt"]["satisfies"] == ["FR-001", "FR-002"]
        assert (await desk.plan())["criteria"] == {
            "met": 2,
            "stale": 0,
            "unmet": 0,
            "open": [],
            "cut": False,
        }


@pytest.mark.parametrize(
    "fields",
    [
        {"external_id": None},
        {"final": False},
        {"performed_at": "2026-11-28T12:00:00Z"},
    ],
    ids=["a claim", "an acknowledgement", "a foreign receipt"],
)
async def test_what_is_no_evidence_meets_nothing(tmp_path: Path, fields: dict[str, Any]) -> None:
    async with open_desk(tmp_path) as desk:
        await begin_run(desk, spec=spec(GROUP))
        await desk.begin(satisfies=("FR-001",))
        await desk.receipt(satisfies=("FR-001",), **fields)
        assert await standing(desk) == {"FR-001": "unmet"}


MISNAMED = (
    "satisfies names what is no criterion of this run, and nothing is met by it: FR-01; "
    "its criteria: FR-001, FR-002"
)


async def test_an_id_that_is_no_criterion_of_the_run_is_told_wherever_it_is_named(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        step = PlanStep(key="planned", action="photos.share", target="album", satisfies=("FR-01",))
        begun = await begin_run(desk, spec=spec(GROUP, SHARE), plan=(step,))
        assert begun["warnings"] == [MISNAMED]
        named = {"satisfies": ("FR-01", "FR-001")}
        assert (await desk.begin(**named))["warnings"] == [MISNAMED]
        assert (await desk.receipt(**named))["warnings"] == [MISNAMED]
        other = desk.at("other")
        assert "warnings" not in await other.begin(satisfies=("FR-002",))
        found = await other.reconcile("performed", external_id="m-2", satisfies=("FR-01",))
        assert found["warnings"] == [MISNAMED]
        assert await standing(desk) == {}


async def test_a_receipt_that_comes_again_for_another_criterion_is_told_that_it_meets_none(
    tmp_path: Path,
) -> None:
    async with open_desk(tmp_path) as desk:
        await begin_run(desk, spec=spec(GROUP, SHARE))
        await desk.begin()
        ran = {"external_id": "ci-1", "kind": "test_result", "system": "ci"}
        await desk.receipt(satisfies=("FR-001",), **ran)
        again = await desk.receipt(satisfies=("FR-001",), **ran)
        assert (again["reason"], "warnings" in again) == ("duplicate", False)
        more: dict[str, Any] = {"satisfies": ("FR-001", "FR-002"), **ran}
        for answer in (await desk.receipt(**more), await desk.reconcile("performed", **more)):
            assert answer["reason"] == "duplicate"
            assert "satisfies nothing more: not FR-002" in " ".join(answer["warnings"])
        assert "FR-002" in await standing(desk)
        other = await desk.receipt(**{**more, "external_id": "log-1", "kind": "record"})
        assert (other["reason"], "warnings" in other) == ("recorded", False)
        assert "FR-002" not in await standing(desk)


async def test_an_id_is_not_called_mistaken_while_the_run_has_no_criteria(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        assert "warnings" not in await desk.begin(satisfies=("FR-01",))
        assert "warnings" not in await begin_run(desk, spec=Spec(uri="file:///spec.md", criteria=()))
        await set_spec(desk, spec(GROUP, SHARE))
        # Named before there were criteria: told with the evidence that would have met them.
        assert (await desk.receipt())["warnings"] == [MISNAMED]


async def test_a_receipt_that_a_person_sets_aside_meets_nothing_any_more(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin_run(desk, spec=spec(GROUP))
        await desk.begin(satisfies=("FR-001",))
        await desk.receipt()
        assert await standing(desk) == {}
        for _ in range(2):
            await desk.reconcile("not_performed", caller=PERSON, as_of=desk.clock.text)
        assert await standing(desk) == {"FR-001": "unmet"}


async def test_a_criterion_that_is_worded_anew_is_stale_and_not_gone(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin_run(desk, spec=spec(GROUP))
        begun = await desk.begin(satisfies=("FR-001",))
        await desk.receipt()
        anew = Criterion(id="FR-001", text="System MUST group photos by date and place")
        assert (await set_spec(desk, spec(anew, digest="sha256:2")))["reason"] == "recorded"
        shown = (await desk.plan())["criteria"]
        assert shown["open"] == [
            {
                "id": "FR-001",
                "text": anew.text,
                "state": "stale",
                "required": True,
                "by": [begun["operation"]],
            }
        ]
        assert (await finish(desk))["unmet_criteria"] == ["FR-001"]
        again = desk.at("group-again")
        await again.begin(satisfies=("FR-001",))
        await again.receipt(external_id="m-2")
        assert (await desk.plan())["criteria"]["met"] == 1
        await set_spec(desk, spec(GROUP))
        assert (await desk.plan())["criteria"]["met"] == 1
        assert (await desk.journal.reader.verify()).faults == ()


async def test_a_run_is_not_completed_before_each_required_criterion_is_met(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin_run(desk, spec=spec(GROUP, SHARE, FAST))
        await desk.begin(satisfies=("FR-001",))
        await desk.receipt()
        refused = await finish(desk)
        assert (refused["next"], refused["reason"]) == ("stop", "unmet")
        assert (refused["unmet_criteria"], refused["unmet_criteria_in_all"]) == (["FR-002"], 1)
        other = desk.at("key-2")
        await other.begin(satisfies=("FR-002",))
        assert (await finish(desk))["next"] == "stop"
        await other.receipt(external_id="m-2")
        done = await finish(desk)
        assert (done["next"], done["reason"]) == ("continue", "finished")


async def test_a_run_may_fail_with_criteria_unmet(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin_run(desk, spec=spec(GROUP))
        assert (await finish(desk, "failed"))["reason"] == "finished"


async def test_what_a_probe_found_meets_what_the_operation_is_for(tmp_path: Path) -> None:
    class Prober:
        async def look(self, subject: ProbeSubject) -> ProbeFinding:
            return ProbeFinding(probe="it", found=True, external_id="m-1")

    async with open_desk(tmp_path, prober=Prober()) as desk:
        await begin_run(desk, spec=spec(GROUP))
        begun = await desk.begin(satisfies=("FR-001",))
        ref = OperationRef(operation=begun["operation"])
        await desk.journal.verify_operation(VerifyOperation(ref=ref), as_caller(AGENT))
        assert await standing(desk) == {}


async def test_evidence_that_came_before_its_specification_is_stale(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(satisfies=("FR-001",))
        await desk.receipt()
        await set_spec(desk, spec(GROUP))
        assert await standing(desk) == {"FR-001": "stale"}


async def test_giving_a_run_its_specification_leaves_the_hold_with_its_holder(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin_run(desk, holder="nightly")
        answer = await set_spec(desk, spec(GROUP), caller=ANOTHER)
        assert (answer["next"], answer["reason"], answer["run"]) == ("continue", "recorded", desk.run)
        plan = await desk.plan()
        assert (plan["run"]["held_by"], plan["criteria"]["unmet"]) == ("nightly", 1)
        held = await desk.journal.begin_run(BeginRun(run=desk.run), as_caller(ANOTHER))
        assert held["reason"] == "run_held"
        assert (await begin_run(desk))["reason"] == "resumed"
        assert (await set_spec(desk, spec(GROUP)))["reason"] == "duplicate"
        assert (await desk.journal.reader.verify()).faults == ()


async def test_a_run_that_is_over_or_not_there_takes_no_specification(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        with pytest.raises(NotFound, match="no run of that name"):
            await set_spec(desk, spec(GROUP))
        await begin_run(desk)
        twice = spec(GROUP, GROUP)
        with pytest.raises(InvalidArgument, match="stands twice"):
            await set_spec(desk, twice)
        await finish(desk)
        answer = await set_spec(desk, spec(GROUP))
        assert (answer["next"], answer["reason"]) == ("stop", "run_finished")
        assert "criteria" not in await desk.plan()
