"""What an agent accepts is what is classed review; what is classed block stays until a person lifts it."""

import pytest

from counterfoil.store.domain.commands import BeginRun, GrantAuthority
from counterfoil.store.domain.context import accepted_context, compare_contexts
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import InvalidArgument
from journals import AGENT, Desk, open_desk

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]

POLICY = Policy(drift={"policy": "block", "model": "review"})
BEFORE = {"model": "a", "policy": "p1", "code": "c1"}


async def begin_run(desk: Desk, **fields):
    return await desk.journal.begin_run(BeginRun(run=desk.run, **fields), AGENT)


async def test_an_accepted_review_is_no_drift_any_more_and_what_was_not_said_stays_recorded(tmp_path):
    async with open_desk(tmp_path, policy=POLICY) as desk:
        await begin_run(desk, context=BEFORE)
        seen = await begin_run(desk, context={"model": "b", "policy": "p1"})
        assert ("model", "review") in [(one["component"], one["class"]) for one in seen["drift"]]

        accepted = await begin_run(desk, context={"model": "b", "policy": "p1"}, accept_reason="tried it")

        assert [one for one in accepted.get("drift", []) if one["class"] != "note"] == []
        again = await begin_run(desk, context={"model": "b", "policy": "p1", "code": "c2"})
        assert [(one["component"], one["recorded"], one["given"]) for one in again["drift"]] == [
            ("code", "c1", "c2")
        ]


async def test_an_agent_accepts_what_is_to_review_and_not_what_blocks(tmp_path):
    async with open_desk(tmp_path, policy=POLICY) as desk:
        await begin_run(desk, context=BEFORE)
        answer = await begin_run(
            desk, context={"model": "b", "policy": "p2", "code": "c1"}, accept_reason="all fine"
        )
        assert [one["component"] for one in answer["drift"]] == ["policy"]
        assert any("only a person lifts it" in warning for warning in answer["warnings"])
        begun = await desk.begin(context={"model": "b", "policy": "p2", "code": "c1"})
        assert (begun["next"], begun["reason"]) == ("ask", "drift")
        assert [one["component"] for one in begun["drift"]] == ["policy"]
        assert (await desk.begin(context={"model": "b", "policy": "p1", "code": "c1"}))["next"] == "perform"


async def test_whoever_is_asked_about_a_block_is_told_what_changed(tmp_path):
    async with open_desk(tmp_path, policy=POLICY) as desk:
        await begin_run(desk, context=BEFORE)
        await desk.begin(context={**BEFORE, "policy": "p2", "code": "c2"})
        blocks = [{"component": "policy", "recorded": "p1", "given": "p2", "class": "block"}]
        assert (await desk.check())["drift"] == blocks
        assert (await desk.plan())["steps"][0]["drift"] == blocks
        preview = await desk.journal.preview_grant(GrantAuthority(ref=desk.ref))
        assert preview["drift"] == blocks

        await desk.begin(context=BEFORE)

        assert "drift" not in await desk.check()


async def test_a_review_stays_in_every_plan_and_begin_until_it_is_accepted(tmp_path):
    async with open_desk(tmp_path, policy=POLICY) as desk:
        await begin_run(desk, context=BEFORE)
        await begin_run(desk, context={**BEFORE, "model": "b"})
        to_review = [{"component": "model", "recorded": "a", "given": "b", "class": "review"}]
        assert (await desk.plan())["drift"] == to_review
        assert to_review[0] in (await desk.begin())["drift"]

        await begin_run(desk, context={**BEFORE, "model": "b"}, accept_reason="tried it")

        assert "drift" not in await desk.plan()
        begun = await desk.at("key-2").begin()
        assert {one["given"] for one in begun["drift"]} == {"unknown"}


async def test_what_begin_run_told_of_is_accepted_without_being_said_again(tmp_path):
    async with open_desk(tmp_path, policy=POLICY) as desk:
        await begin_run(desk, context=BEFORE)
        await begin_run(desk, context={"model": "b", "policy": "p2"})

        accepted = await begin_run(desk, accept_reason="tried it")

        assert [one["component"] for one in accepted["drift"] if one["class"] != "note"] == ["policy"]
        assert any("only a person lifts it" in warning for warning in accepted["warnings"])
        again = await begin_run(desk, context={**BEFORE, "model": "b"})
        assert "drift" not in again
        assert "drift" in await begin_run(desk, context=BEFORE)


async def test_what_one_call_told_of_is_not_taken_back_by_one_that_does_not_say_it(tmp_path):
    async with open_desk(tmp_path, policy=POLICY) as desk:
        await begin_run(desk, context=BEFORE)
        await begin_run(desk, context={"policy": "p2"})
        await begin_run(desk, context={"model": "b"})

        assert {(one["component"], one["given"]) for one in (await desk.plan())["drift"]} == {
            ("policy", "p2"),
            ("model", "b"),
        }
        begun = await desk.begin()
        assert (begun["next"], begun["reason"]) == ("ask", "drift")
        await begin_run(desk, context={"policy": "p1"})
        assert (await desk.at("key-2").begin())["next"] == "perform"


async def test_a_review_that_a_granted_begin_told_of_stays_until_it_is_accepted(tmp_path):
    async with open_desk(tmp_path, policy=POLICY) as desk:
        await begin_run(desk, context=BEFORE)
        to_review = {"component": "model", "recorded": "a", "given": "b", "class": "review"}
        begun = await desk.begin(context={**BEFORE, "model": "b"})
        assert (begun["next"], begun["drift"]) == ("perform", [to_review])

        assert (await desk.plan())["drift"] == [to_review]
        assert to_review in (await desk.at("key-2").begin())["drift"]
        await begin_run(desk, accept_reason="tried it")

        assert "drift" not in await desk.plan()
        assert (await desk.journal.reader.verify()).faults == ()


async def test_what_a_begin_was_refused_for_stays_with_its_operation(tmp_path):
    async with open_desk(tmp_path, policy=POLICY) as desk:
        await begin_run(desk, context=BEFORE)
        assert (await desk.begin(context={**BEFORE, "policy": "p2"}))["reason"] == "drift"
        assert (await desk.begin())["reason"] == "drift"
        assert (await desk.at("key-2").begin())["next"] == "perform"


async def test_an_acceptance_is_of_what_its_context_says_and_the_answer_names_the_rest(tmp_path):
    async with open_desk(tmp_path, policy=Policy(drift={"model": "review", "code": "review"})) as desk:
        await begin_run(desk, context=BEFORE)
        await begin_run(desk, context={"model": "b", "code": "c2"})

        accepted = await begin_run(desk, context={"model": "b"}, accept_reason="tried the model")

        assert [one["component"] for one in accepted["drift"]] == ["code"]
        assert [one["component"] for one in (await desk.plan())["drift"]] == ["code"]


async def test_where_no_difference_is_known_an_acceptance_says_that_it_accepts_nothing(tmp_path):
    async with open_desk(tmp_path, policy=POLICY) as desk:
        for context in (None, BEFORE, None):
            answer = await begin_run(desk, context=context, accept_reason=None if context else "fine")
            is_told = any("accepted nothing" in warning for warning in answer.get("warnings", ()))
            assert is_told is (context is None)
        again = await begin_run(desk, context={**BEFORE, "model": "b"})
        assert ("model", "review") in [(one["component"], one["class"]) for one in again["drift"]]


async def test_an_acceptance_without_a_reason_is_refused(tmp_path):
    async with open_desk(tmp_path, policy=POLICY) as desk:
        await begin_run(desk, context=BEFORE)
        with pytest.raises(InvalidArgument, match="accept_drift"):
            await begin_run(desk, context={**BEFORE, "model": "b"}, accept_reason=" ")
        assert "drift" not in await desk.plan()


async def test_silence_lifts_no_block(tmp_path):
    async with open_desk(tmp_path, policy=POLICY) as desk:
        await begin_run(desk, context=BEFORE)
        refused = await desk.begin(context={**BEFORE, "policy": "p2"})
        assert refused["reason"] == "drift"
        for context in (None, {}, {"model": "a"}):
            assert (await desk.begin(context=context))["reason"] == "drift"
        assert (await desk.check())["reason"] == "drift"

        await begin_run(desk, context={**BEFORE, "policy": "p2"})
        assert (await desk.at("key-2").begin())["reason"] == "drift"


def test_a_blocked_part_of_a_map_stays_as_it_was_and_a_new_one_stays_out():
    recorded = {"tools": {"mail": "1", "git": "1"}}
    given = {"tools": {"mail": "2", "git": "2", "pay": "1"}}
    drifts = compare_contexts(recorded, given, {"tools.mail": "block", "tools.pay": "block"})
    merged = accepted_context(recorded, given, drifts, is_person=False)
    assert merged == {"tools": {"mail": "1", "git": "2"}}
    assert accepted_context(recorded, given, drifts, is_person=True) == given
