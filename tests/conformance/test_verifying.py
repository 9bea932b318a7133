"""verify_operation: what a probe saw is recorded like any other finding, by the rules of findings."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from counterfoil.store.domain.commands import Lookup, OperationRef, VerifyOperation
from counterfoil.store.domain.model import Assurance
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import NotFound
from counterfoil.store.probing import ProbeFinding, ProbeSubject
from journals import AGENT, ANOTHER, Desk, FakeClock, as_caller, open_desk

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]

LOOKUP = Lookup(probe="sent", settle_seconds=60)
VERIFIED = Policy(assurance=(("email.*", Assurance.VERIFIED),))


class FakeProber:
    """Sees what it is told to, and keeps whom it was asked about."""

    def __init__(self, found: bool | None = True, **fields: Any) -> None:
        given = {"external_id": "m-1", "kind": "message", "system": "smtp"} if found else {}
        self.finding = ProbeFinding(probe="sent", found=found, **{**given, **fields})
        self.asked: list[ProbeSubject] = []
        self.meanwhile: Any = None

    async def look(self, subject: ProbeSubject) -> ProbeFinding:
        """Give the finding, after something else happened meanwhile."""
        self.asked.append(subject)
        if self.meanwhile is not None:
            await self.meanwhile()
        return self.finding


async def verify(desk: Desk, **caller: Any) -> dict[str, Any]:
    """Verify the desk's operation."""
    by = caller.pop("by", AGENT)
    return await desk.journal.verify_operation(VerifyOperation(ref=desk.ref), as_caller(by, **caller))


async def test_what_a_probe_found_is_a_verified_receipt(tmp_path: Path) -> None:
    async with open_desk(tmp_path, prober=FakeProber()) as desk:
        await desk.begin(lookup=LOOKUP)
        await desk.failure("unknown")
        answer = await verify(desk)
        assert (answer["next"], answer["reason"], answer["state"]) == ("continue", "recorded", "succeeded")
        assert answer["probe"] == {"name": "sent", "found": True}
        assert answer["receipt"]["assurance"] == "verified"
        assert answer["receipt"]["source"] == "lookup"
        assert (await desk.check())["findings"][0]["checked_with"] == "probe sent"
        assert (await desk.journal.reader.verify()).faults == ()


async def test_verified_suffices_where_the_operator_requires_it_and_reported_did_not(tmp_path: Path) -> None:
    prober = FakeProber()
    async with open_desk(tmp_path, prober=prober, policy=VERIFIED) as desk:
        await desk.begin(lookup=LOOKUP)
        weak = await desk.receipt()
        assert (weak["next"], weak["reason"]) == ("reconcile", "receipt_too_weak")
        assert await desk.state() == "in_progress"
        answer = await verify(desk)
        assert (answer["next"], answer["state"]) == ("continue", "succeeded")
        [asked] = prober.asked
        assert (asked.external_id, asked.kind, asked.system) == ("m-1", "message", "smtp")


async def test_a_caller_cannot_say_that_its_receipt_is_verified(tmp_path: Path) -> None:
    async with open_desk(tmp_path, prober=FakeProber(), policy=VERIFIED) as desk:
        await desk.begin(lookup=LOOKUP)
        answer = await desk.receipt(evidence={"assurance": "verified"}, source="lookup")
        assert answer["receipt"]["assurance"] == "reported"
        assert answer["state"] == "in_progress"


async def test_what_a_probe_did_not_find_waits_for_the_settle_time_and_counts_after_it(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock, prober=FakeProber(found=False)) as desk:
        await desk.begin(lookup=LOOKUP)
        clock.advance(301)
        early = await verify(desk)
        assert (early["next"], early["reason"], early["state"]) == ("wait", "settling", "in_doubt")
        assert early["probe"] == {"name": "sent", "found": False}
        clock.advance(60)
        answer = await verify(desk)
        assert (answer["next"], answer["state"]) == ("continue", "failed")
        assert (await desk.begin())["reason"] == "retry_after_failure"


async def test_a_negative_finding_is_dated_before_the_look(tmp_path: Path) -> None:
    clock = FakeClock()
    prober = FakeProber(found=False)
    async with open_desk(tmp_path, clock=clock, prober=prober) as desk:
        await desk.begin(lookup=LOOKUP)
        clock.advance(359)

        async def settle_time_passes() -> None:
            clock.advance(10)

        prober.meanwhile = settle_time_passes
        answer = await verify(desk)
        assert (answer["next"], answer["reason"]) == ("wait", "settling")
        prober.meanwhile = None
        assert (await verify(desk))["state"] == "failed"


async def test_an_attempt_granted_during_the_look_is_not_judged_by_it(tmp_path: Path) -> None:
    clock = FakeClock()
    prober = FakeProber(found=False)
    async with open_desk(tmp_path, clock=clock, prober=prober) as desk:
        await desk.begin(lookup=LOOKUP)
        await desk.failure("none", evidence={"status": 422})
        clock.advance(1_000)

        async def begin_again() -> None:
            clock.advance(1)
            assert (await desk.begin(caller=ANOTHER))["next"] == "perform"

        prober.meanwhile = begin_again
        assert (await verify(desk))["reason"] == "superseded"
        assert await desk.state() == "in_progress"


async def test_a_probe_that_cannot_tell_settles_nothing_and_ends_with_a_person(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock, prober=FakeProber(found=None, why="it was closed")) as desk:
        await desk.begin(lookup=LOOKUP)
        clock.advance(1_000)
        verbs = []
        for _ in range(3):
            clock.advance(1)
            answer = await verify(desk)
            assert answer["probe"] == {"name": "sent", "found": None, "why": "it was closed"}
            verbs.append((answer["next"], answer["reason"]))
        assert verbs == [("reconcile", "in_doubt")] * 2 + [("ask", "unresolved")]
        assert await desk.state() == "in_doubt"


async def test_something_performed_before_the_operation_is_foreign(tmp_path: Path) -> None:
    prober = FakeProber(performed_at="2026-11-29T11:00:00Z")
    async with open_desk(tmp_path, prober=prober) as desk:
        await desk.begin(lookup=LOOKUP)
        await desk.failure("unknown")
        answer = await verify(desk)
        assert (answer["next"], answer["reason"], answer["state"]) == (
            "reconcile",
            "foreign_receipt",
            "in_doubt",
        )


async def test_the_same_call_again_does_not_look_again(tmp_path: Path) -> None:
    prober = FakeProber(found=False)
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock, prober=prober) as desk:
        await desk.begin(lookup=LOOKUP)
        clock.advance(1_000)
        first = await verify(desk, call_id="toolu_the_same_call")
        seq = (await desk.check(detail="full"))["history_in_all"]
        again = await verify(desk, call_id="toolu_the_same_call")
        assert (again["next"], again["reason"], again["probe"]) == ("continue", "duplicate", first["probe"])
        assert len(prober.asked) == 1
        assert (await desk.check(detail="full"))["history_in_all"] == seq


async def test_looking_twice_keeps_one_receipt(tmp_path: Path) -> None:
    async with open_desk(tmp_path, prober=FakeProber()) as desk:
        await desk.begin(lookup=LOOKUP)
        await verify(desk)
        answer = await verify(desk)
        assert (answer["next"], answer["reason"], answer["state"]) == ("continue", "duplicate", "succeeded")
        assert (await desk.check())["receipts"][0]["receipt"] == 1


async def test_a_late_success_that_a_probe_sees_settles_a_decision_to_stop_waiting(tmp_path: Path) -> None:
    async with open_desk(tmp_path, prober=FakeProber()) as desk:
        await desk.begin(lookup=LOOKUP)
        await desk.close("timed_out")
        answer = await verify(desk)
        assert (answer["reason"], answer["state"]) == ("recorded", "succeeded")


async def test_a_probe_gets_the_whole_operation_as_it_is_on_record(tmp_path: Path) -> None:
    prober = FakeProber(found=False)
    async with open_desk(tmp_path, prober=prober) as desk:
        args = {"commit": "c" * 3_000, "password": "hunter2", "n": 10.0}
        begun = await desk.begin(args=args, lookup=LOOKUP, target="\u202ea@example.org")
        await verify(desk)
        [asked] = prober.asked
        assert (asked.operation, asked.run, asked.key) == (begun["operation"], "run-1", "key-1")
        assert (asked.action, asked.target, asked.probe) == ("email.send", "\u202ea@example.org", "sent")
        assert asked.idempotency_key == begun["idempotency_key"]
        assert asked.external_id is None
        assert asked.args is not None
        assert asked.args["commit"] == "c" * 3_000
        assert str(asked.args["password"]).startswith("[redacted:")


async def test_without_probes_the_fault_says_what_the_operator_has_to_do(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(lookup=LOOKUP)
        with pytest.raises(NotFound) as raised:
            await verify(desk)
        assert "[probes.NAME]" in raised.value.fix
        assert raised.value.recorded is False
        with pytest.raises(NotFound, match="no operation of that key"):
            await verify(desk.at("other"))
        missing = VerifyOperation(ref=OperationRef(operation="op_" + "a" * 20))
        with pytest.raises(NotFound, match="there is no operation"):
            await desk.journal.verify_operation(missing, AGENT)


async def test_the_probe_runs_outside_of_any_transaction(tmp_path: Path) -> None:
    prober = FakeProber()
    async with open_desk(tmp_path, prober=prober) as desk:
        await desk.begin(lookup=LOOKUP)

        async def somebody_else_writes() -> None:
            with anyio.fail_after(5):
                await desk.at("other").begin()

        prober.meanwhile = somebody_else_writes
        assert (await verify(desk))["state"] == "succeeded"
