"""Authority on a real journal: refused without a grant, permitted by a person only, as far as was said."""

import json
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conformance.states_reaching import REFUSED
from counterfoil.store.domain.canonical import canonical_json
from counterfoil.store.domain.commands import (
    BeginRun,
    GrantAuthority,
    Lookup,
    OperationRef,
    RecordProgress,
    RequestAuthority,
    RevokeGrant,
)
from counterfoil.store.domain.instants import micros, rfc3339
from counterfoil.store.domain.model import ConfiguredGrant
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import Forbidden, InvalidArgument, NotFound
from journals import AGENT, ANOTHER, PERSON, START, Desk, FakeClock, as_caller, open_desk, plain_sql

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]

GATED = Policy(authority=(("pay.*", "*"),), drift={"model": "block"})
PAY: dict[str, Any] = {"action": "pay.send", "target": "landlord", "args": {"amount": 90, "currency": "EUR"}}


def verb(answer: dict[str, Any]) -> str:
    return f"{answer['next']}: {answer['reason']}"


async def pay(desk: Desk, **fields: Any) -> str:
    return verb(await desk.begin(**{**PAY, **fields}))


async def grant(desk: Desk, *, caller: Any = PERSON, **fields: Any) -> dict[str, Any]:
    """Grant the desk's operation, or what `fields` name instead."""
    if not {"action", "request"} & set(fields):
        fields["ref"] = desk.ref
    return await desk.journal.grant(GrantAuthority(**fields), caller)


async def revoke(desk: Desk, given: dict[str, Any], *, caller: Any = PERSON) -> dict[str, Any]:
    return await desk.journal.revoke(RevokeGrant(grant=given["grant"]["grant"]), caller)


async def request(desk: Desk, *, caller: Any = AGENT, **fields: Any) -> dict[str, Any]:
    return await desk.journal.request_authority(RequestAuthority(**{"ref": desk.ref, **fields}), caller)


async def seen(desk: Desk, **fields: Any) -> set[str]:
    """Give what a check, the plan and a begin say of the operation: plans and checks say `begin`."""
    [step] = [step for step in (await desk.plan())["steps"] if step["key"] == desk.key]
    said = {verb(await desk.check()), verb(step)}
    begun = await pay(desk, **fields)
    return said | {begun.replace("perform:", "begin:")}


async def verified(desk: Desk) -> None:
    assert (await desk.journal.reader.verify()).faults == ()


async def test_what_needs_a_grant_is_refused_without_one_and_permitted_with_one(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        assert await pay(desk) == "ask: authority_required"
        assert await desk.state() == "planned"
        assert await seen(desk) == {"ask: authority_required"}
        assert await pay(desk.at("chat"), action="chat.post") == "perform: first_attempt"
        given = await grant(desk)
        assert verb(given) == "continue: recorded"
        assert verb(await desk.check()) == "begin: first_attempt"
        performed = await desk.begin(**PAY)
        assert (performed["next"], performed["grant"]) == ("perform", given["grant"]["grant"])
        [attempt] = (await desk.check())["attempts"]
        assert attempt["grant"] == given["grant"]["grant"]
        assert await pay(desk.at("other"), target="tax office") == "ask: authority_required"
        history = (await desk.check(detail="full"))["history"]
        assert "authority_granted" in [entry["event"] for entry in history]
        await verified(desk)


async def test_a_rule_is_not_evaded_by_another_spelling_or_by_a_missing_target(tmp_path: Path) -> None:
    policy = Policy(authority=(("pay.*", "*"), ("git.push", "https://example.org/prod*")))
    async with open_desk(tmp_path, policy=policy) as desk:
        assert await pay(desk, action="Pay.Send") == "ask: authority_required"
        assert await pay(desk.at("e"), action="pa\u200by.send") == "ask: authority_required"
        assert await pay(desk.at("f"), action="\uff50ay.send") == "ask: authority_required"
        assert await pay(desk.at("b"), action="pay.refund", target=None) == "ask: authority_required"
        assert await pay(desk.at("c"), action="git.push", target="HTTPS://EXAMPLE.ORG/prod/") == (
            "ask: authority_required"
        )
        assert await pay(desk.at("d"), action="git.push", target="https://example.org/test") == (
            "perform: first_attempt"
        )


async def test_an_agent_cannot_grant_decline_or_revoke(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        await pay(desk)
        kept = await grant(desk, caller=AGENT)
        assert verb(kept) == "ask: authority_required"
        kept_pattern = await grant(desk, caller=AGENT, action="pay.*")
        assert await pay(desk) == "ask: authority_required"
        waiting = await desk.journal.list_requests()
        assert {line["request"] for line in waiting} == {kept["request"], kept_pattern["request"]}
        with pytest.raises(Forbidden):
            await desk.journal.decline_request(kept["request"], AGENT)
        given = await grant(desk)
        with pytest.raises(Forbidden):
            await revoke(desk, given, caller=AGENT)
        assert await pay(desk) == "perform: first_attempt"
        await verified(desk)


async def test_a_request_waits_is_one_and_is_answered_by_the_grant(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        await pay(desk, payload="Rent for November")
        first = await request(desk, why="the rent is due", caller=as_caller(AGENT))
        again = await request(desk, caller=as_caller(ANOTHER))
        assert (verb(first), again["request"]) == ("ask: authority_required", first["request"])
        assert first["effect"] == {
            "action": "pay.send",
            "target": "landlord",
            "args": PAY["args"],
            "payload": "Rent for November",
        }
        [waiting] = await desk.journal.list_requests()
        assert (waiting["why"], waiting["operation"]) == ("the rent is due", first["operation"])
        given = await grant(desk, request=first["request"])
        assert verb(given) == "continue: recorded"
        assert await desk.journal.list_requests() == []
        assert verb(await grant(desk, request=first["request"])) == "continue: duplicate"
        assert verb(await request(desk)) == "begin: first_attempt"
        with pytest.raises(NotFound):
            await grant(desk, request="request_unheard-of")
        await verified(desk)


async def test_a_declined_request_permits_nothing_and_the_same_call_asks_nothing_new(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        await pay(desk)
        call = as_caller(AGENT)
        asked = await request(desk, caller=call)
        declined = await desk.journal.decline_request(asked["request"], PERSON)
        assert (verb(declined), declined["request_state"]) == ("ask: authority_required", "declined")
        assert (await request(desk, caller=call))["request"] == asked["request"]
        assert await pay(desk) == "ask: authority_required"
        assert await desk.journal.list_requests() == []
        await verified(desk)


async def test_a_later_session_is_told_that_a_request_waits_or_was_declined(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:

        async def told() -> list[tuple[str | None, str | None]]:
            begun = await desk.begin(**PAY, caller=ANOTHER)
            steps = (await desk.plan(caller=ANOTHER))["steps"]
            [step] = [step for step in steps if step["key"] == desk.key]
            answers = [begun, await desk.check(caller=ANOTHER), step]
            assert {one["next"] for one in answers} == {"ask"}
            return [(one.get("request"), one.get("request_state")) for one in answers]

        assert await told() == [(None, None)] * 3
        first = await request(desk)
        assert "The request waits" in first["guidance"]
        assert await told() == [(first["request"], "waiting")] * 3
        assert "The request waits" in (await desk.check())["guidance"]
        declined = await desk.journal.decline_request(first["request"], PERSON)
        assert "Asking again asks nobody" in declined["guidance"]
        assert await told() == [(first["request"], "declined")] * 3
        for answer in (await desk.begin(**PAY), await request(desk)):
            assert "Asking again asks nobody" in answer["guidance"]
            assert answer["how"] == f"counterfoil grant {first['request']}"
        other = desk.at("other")
        assert "request" not in await other.begin(**{**PAY, "target": "other"})
        given = await grant(desk, request=first["request"])
        assert (await request(desk))["guidance"].startswith("A permission for it is on file")
        await revoke(desk, given)
        assert await told() == [(None, None)] * 3
        await verified(desk)


async def test_a_no_that_no_longer_stands_is_not_told(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        await desk.begin(**{**PAY, "target": None})
        asked = await request(desk)
        await desk.journal.decline_request(asked["request"], PERSON)
        assert (await desk.check())["request"] == asked["request"]
        desk.clock.advance(1)
        # The effect was not wholly said before: it is another question now.
        begun = await desk.begin(**PAY)
        assert (verb(begun), "request" in begun) == ("ask: authority_required", False)
        assert (await request(desk))["request_state"] == "waiting"


async def test_where_nobody_is_asked_the_answer_is_nobodys_yes(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        await desk.at("first").begin()
        await desk.begin(depends_on=("first",))
        await desk.at("first").receipt(attempt=1)
        in_run = OperationRef(run="run-1")
        for free in (await request(desk), await request(desk, ref=in_run, action="chat.post", target="x")):
            assert verb(free) == "begin: first_attempt"
            assert free["guidance"].startswith("Nobody was asked")
        asked = await request(desk, ref=in_run, action="pay.send", target="x")
        await grant(desk, request=asked["request"])
        permitted = await request(desk, ref=in_run, action="pay.send", target="x")
        assert permitted["guidance"].startswith("A permission for it is on file")


async def test_a_person_who_said_no_is_not_asked_the_same_again(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        await pay(desk)
        asked = await request(desk, caller=as_caller(AGENT))
        desk.clock.advance(1)
        await desk.journal.decline_request(asked["request"], PERSON)
        desk.clock.advance(1)
        for caller in (as_caller(AGENT), as_caller(ANOTHER)):
            await pay(desk)
            again = await request(desk, caller=caller, why="really")
            assert (again["request"], again["request_state"]) == (asked["request"], "declined")
            assert verb(again) == "ask: authority_required"
            assert again["warnings"] == ["a person was asked, and has not permitted it"]
        assert await desk.journal.list_requests() == []
        claimed = await grant(desk, caller=as_caller(AGENT))
        assert (claimed["request"], claimed["request_state"]) == (asked["request"], "declined")
        # Whoever said no can change their mind.
        assert verb(await grant(desk, request=asked["request"])) == "continue: recorded"
        assert await pay(desk) == "perform: first_attempt"
        await verified(desk)


async def test_a_no_to_an_action_in_a_run_stands_for_that_action_and_target(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        wish: dict[str, Any] = {"ref": OperationRef(run="run-1"), "action": "pay.send"}
        asked = await request(desk, target="landlord", **wish)
        await desk.journal.decline_request(asked["request"], PERSON)
        desk.clock.advance(1)
        again = await request(desk, target="landlord", **wish)
        assert (again["request"], again["request_state"]) == (asked["request"], "declined")
        other = await request(desk, target="baker", **wish)
        assert other["request_state"] == "waiting"


async def test_a_no_does_not_stand_for_another_effect_nor_for_another_question(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        given = {**PAY, "target": None}
        await desk.begin(**given)
        asked = await request(desk)
        desk.clock.advance(1)
        await desk.journal.decline_request(asked["request"], PERSON)
        desk.clock.advance(1)
        await pay(desk)
        changed = await request(desk)
        assert (changed["request_state"], changed["request"] == asked["request"]) == ("waiting", False)
        await desk.journal.decline_request(changed["request"], PERSON)
        desk.clock.advance(1)
        # What was permitted meanwhile, tried, and is used up asks for one more attempt.
        await grant(desk)
        await pay(desk)
        await desk.failure("none", evidence=REFUSED, retryable=False)
        more = await request(desk)
        assert (verb(more), more["request_state"]) == ("ask: attempts_exhausted", "waiting")
        await desk.journal.decline_request(more["request"], PERSON)
        desk.clock.advance(1)
        assert (await request(desk))["request"] == more["request"]
        await grant(desk)
        await pay(desk)
        await desk.failure("none", evidence=REFUSED, attempt=2, retryable=False)
        assert (await request(desk))["request_state"] == "waiting"


async def test_a_no_about_drift_stands_until_the_context_changes(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=Policy(drift={"policy": "block"})) as desk:
        run = OperationRef(run=desk.run)
        begin = partial(BeginRun, run=desk.run)
        await desk.journal.begin_run(begin(context={"policy": "p1"}), AGENT)
        changed = {"context": {"policy": "p2"}}
        assert verb(await desk.begin(**changed)) == "ask: drift"
        asked = await request(desk)
        desk.clock.advance(1)
        await desk.journal.decline_request(asked["request"], PERSON)
        desk.clock.advance(1)
        # A hold, word of progress and another step change nothing of the question.
        await desk.journal.begin_run(begin(), AGENT)
        await desk.journal.record_progress(RecordProgress(ref=run, message="at it"), AGENT)
        other = desk.at("other")
        await other.begin(context={"policy": "p1"})
        await other.receipt(external_id="o-1")
        for answer in (await desk.begin(**changed), await desk.check(), await request(desk)):
            assert (verb(answer), answer["request_state"]) == ("ask: drift", "declined")
            assert answer["request"] == asked["request"]
        desk.clock.advance(301)
        await desk.journal.begin_run(begin(context={"policy": "p3"}, accept_reason="agreed"), PERSON)
        assert verb(await desk.begin(**changed)) == "ask: drift"
        assert (await request(desk))["request_state"] == "waiting"
        await verified(desk)


async def test_an_action_in_a_run_can_be_permitted_before_it_is_begun(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        in_run = OperationRef(run="run-1")
        free = await request(desk, ref=in_run, action="chat.post", target="x")
        assert verb(free) == "begin: first_attempt"
        asked = await request(desk, ref=in_run, action="pay.send", target="land[lord]*")
        assert (verb(asked), "operation" in asked) == ("ask: authority_required", False)
        await grant(desk, request=asked["request"])
        assert await pay(desk, target="land[lord]*") == "perform: first_attempt"
        assert await pay(desk.at("b"), target="land[lord]x") == "ask: authority_required"
        assert await pay(desk.at("c", run="run-2"), target="land[lord]*") == "ask: authority_required"
        again = await request(desk, ref=in_run, action="pay.send", target="land[lord]*")
        assert verb(again) == "begin: first_attempt"
        with pytest.raises(InvalidArgument):
            await request(desk, ref=in_run)
        await verified(desk)


async def test_a_grant_for_an_operation_is_bound_to_the_effect_that_was_shown(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        await desk.at("first").begin()
        waits = {"depends_on": ("first",)}
        assert await pay(desk, args=None, **waits) == "wait: dependency"
        await grant(desk)
        await desk.at("first").receipt()
        assert await pay(desk) == "ask: authority_required"
        preview = await desk.journal.preview_grant(GrantAuthority(ref=desk.ref))
        other = await grant(desk, seen=preview["seen"] + "x")
        assert verb(other) == "stop: unmet"
        assert await pay(desk) == "ask: authority_required"
        await grant(desk, seen=preview["seen"])
        assert await pay(desk, payload="another text") == "ask: authority_required"
        await verified(desk)


async def test_a_grant_that_the_effect_has_outgrown_is_named(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        await pay(desk, args=None)
        given = await grant(desk)
        outgrown = [{"grant": given["grant"]["grant"], "why_not": "other_effect"}]
        asked = await desk.begin(**PAY)
        assert (verb(asked), asked["grants"]) == ("ask: authority_required", outgrown)
        assert "it was another effect" in " ".join(asked["warnings"])
        named = await desk.begin(**PAY, grant=given["grant"]["grant"])
        assert (verb(named), named["grants"]) == ("ask: authority_required", outgrown)
        checked = await desk.check()
        assert (verb(checked), checked["grants"]) == ("ask: authority_required", outgrown)
        [step] = (await desk.plan())["steps"]
        assert (verb(step), step["grants"]) == ("ask: authority_required", outgrown)
        await grant(desk)
        begun = await desk.begin(**PAY)
        assert (verb(begun), "grants" in begun) == ("perform: first_attempt", False)
        assert "warnings" not in begun
        await verified(desk)


async def test_a_grant_taken_back_is_not_named_for_an_effect_that_it_was_not_for(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        await pay(desk, args=None)
        await revoke(desk, await grant(desk))
        asked = await desk.begin(**PAY)
        assert (verb(asked), "grants" in asked) == ("ask: authority_required", False)


async def test_a_grant_that_lifted_drift_for_another_effect_is_named(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=Policy(drift={"policy": "block"})) as desk:
        await desk.at("first").begin(context={"policy": "p1"})
        today: dict[str, Any] = {**PAY, "context": {"policy": "p2"}}
        assert verb(await desk.begin(**{**today, "args": None})) == "ask: drift"
        given = await grant(desk)
        asked = await desk.begin(**today)
        assert verb(asked) == "ask: drift"
        assert asked["grants"] == [{"grant": given["grant"]["grant"], "why_not": "other_effect"}]
        await grant(desk)
        assert verb(await desk.begin(**today)) == "perform: first_attempt"


async def test_a_request_for_what_the_effect_was_does_not_permit_what_it_has_become(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        await pay(desk, args=None)
        asked = await request(desk)
        assert await pay(desk) == "ask: authority_required"
        assert verb(await grant(desk, request=asked["request"])) == "stop: unmet"
        assert await pay(desk) == "ask: authority_required"
        renewed = await request(desk)
        assert renewed["request"] != asked["request"]
        await grant(desk, request=renewed["request"])
        assert await pay(desk) == "perform: first_attempt"


async def test_a_grant_ends_when_it_was_said_to_end(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        await pay(desk)
        await grant(desk, action="pay.*", lasts_seconds=60, not_before=rfc3339(START + micros(10)))
        assert await seen(desk) == {"ask: authority_required"}
        desk.clock.advance(70)
        asked = await desk.begin(**PAY)
        assert verb(asked) == "ask: authority_expired"
        assert asked["grants"][0]["why_not"] == "expired"
        assert await seen(desk) == {"ask: authority_expired"}
        await grant(desk, action="pay.*", lasts_seconds=60)
        desk.clock.advance(59)
        assert await pay(desk) == "perform: first_attempt"


async def test_every_new_attempt_is_weighed_again_and_what_is_done_needs_no_grant(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        await pay(desk)
        given = await grant(desk, lasts_seconds=400)
        await pay(desk)
        assert (await desk.failure("none", evidence=REFUSED))["state"] == "failed"
        assert verb(await revoke(desk, given)) == "continue: recorded"
        assert verb(await revoke(desk, given)) == "continue: duplicate"
        assert await seen(desk) == {"ask: authority_expired"}
        given = await grant(desk, lasts_seconds=400)
        assert await pay(desk, lookup=Lookup(tool="bank.find"), lease_seconds=100) == (
            "perform: retry_after_failure"
        )
        desk.clock.advance(500)
        assert await pay(desk) == "reconcile: in_doubt"
        desk.clock.advance(500)
        checked = await desk.check()
        assert verb(await desk.reconcile("not_performed", as_of=checked["as_of"])) == "continue: recorded"
        assert await seen(desk) == {"ask: authority_expired"}
        assert (await desk.receipt(external_id="t-1"))["state"] == "disputed"
        assert (await desk.reconcile("performed", external_id="t-1"))["state"] == "succeeded"
        assert await pay(desk) == "skip: already_succeeded"
        await verified(desk)


async def test_uses_are_counted_by_operation_and_given_back_where_nothing_happened(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        await grant(desk, action="pay.*", max_uses=2)
        first, second, third = desk, desk.at("b"), desk.at("c", run="run-2")
        assert await pay(first) == "perform: first_attempt"
        await first.failure("none", evidence=REFUSED)
        assert await pay(first) == "perform: retry_after_failure"
        assert await pay(second, target="b") == "perform: first_attempt"
        assert await pay(third, target="c") == "ask: authority_expired"
        assert (await third.begin(**{**PAY, "target": "c"}))["grants"][0]["why_not"] == "used_up"
        await second.failure("unknown")
        assert await pay(third, target="c") == "ask: authority_expired"
        [listed] = await desk.journal.list_grants()
        assert listed["uses"] == 2
        await second.reconcile("not_performed", caller=PERSON)
        assert await pay(third, target="c") == "perform: first_attempt"
        assert await pay(second, target="b") == "ask: authority_expired"
        await third.receipt(external_id="t-3")
        assert await pay(second, target="b") == "ask: authority_expired"
        await verified(desk)


async def test_an_operation_in_a_use_keeps_it_for_its_repeats(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        await grant(desk, action="pay.*", max_uses=1)
        keyed = {"repeat": "keyed", "key_ttl_seconds": 86_400}
        assert await pay(desk, **keyed) == "perform: first_attempt"
        desk.clock.advance(301)
        assert await pay(desk) == "perform: repeat_keyed"
        assert await pay(desk.at("b"), target="b") == "ask: authority_expired"


async def test_constraints_bound_the_args(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        only = ("args.amount <= 100", 'args.currency == "EUR"')
        await grant(desk, action="pay.*", constraints=only)
        refused = [
            {"amount": 101, "currency": "EUR"},
            {"amount": 90, "currency": "USD"},
            {"amount": "90"},
            None,
        ]
        for number, args in enumerate(refused):
            other = desk.at(f"key {number}")
            assert await seen_of(other, args) == {"ask: authority_required"}
        assert await pay(desk, args={"amount": 100.0, "currency": "EUR"}) == "perform: first_attempt"
        for wrong in ("amount <= 100", "args.amount < 100", "args.amount == EUR", 'args.amount <= "100"'):
            with pytest.raises(InvalidArgument):
                await grant(desk, action="pay.*", constraints=(wrong,))


async def seen_of(desk: Desk, args: Any) -> set[str]:
    await pay(desk, target=desk.key, args=args)
    return await seen(desk, target=desk.key, args=args)


async def test_a_grant_given_under_another_policy_does_not_hold_and_both_are_named(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        old, new = {"policy": "travel-2025"}, {"policy": "travel-2026"}
        assert await pay(desk, context=old) == "ask: authority_required"
        await grant(desk)
        asked = await desk.begin(**PAY, context=new)
        assert verb(asked) == "ask: authority_expired"
        named = {"component": "policy", "recorded": "travel-2025", "given": "travel-2026", "class": "review"}
        assert named in asked["drift"]
        checked = await desk.check()
        assert (verb(checked), checked["drift"]) == ("ask: authority_expired", [named])
        [step] = (await desk.plan(context=new))["steps"]
        assert (verb(step), step["drift"]) == ("ask: authority_expired", [named])
        await grant(desk)
        assert await pay(desk, context=new) == "perform: first_attempt"
        await desk.receipt()
        assert await pay(desk, context={"policy": "travel-2027"}) == "skip: already_succeeded"
        await verified(desk)


async def test_a_grant_may_be_named_and_only_that_one_counts_then(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        one = await grant(desk, action="pay.*", max_uses=5)
        other = await grant(desk, action="pay.send")
        name = other["grant"]["grant"]
        assert (await desk.begin(**PAY, grant=name))["grant"] == name
        refused = await desk.at("b").begin(**{**PAY, "target": "b"}, grant="grant_unheard-of")
        assert verb(refused) == "ask: authority_required"
        assert "the grant named does not hold for this operation" in refused["warnings"]
        await revoke(desk, one)
        gone = await desk.at("b").begin(**{**PAY, "target": "b"}, grant=one["grant"]["grant"])
        assert gone["next"] == "ask"
        assert await pay(desk.at("b"), target="b") == "perform: first_attempt"


async def test_a_grant_holds_for_its_subject_only(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        await grant(desk, action="pay.*", subject="team-*")
        assert await pay(desk) == "ask: authority_required"


async def test_a_persons_grant_for_an_operation_lifts_a_change_that_blocks_until_the_next(
    tmp_path: Path,
) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        await desk.at("first").begin(context={"model": "m-1"})
        plain = {"action": "chat.post", "target": "x"}
        asked = await desk.begin(**plain, context={"model": "m-2"})
        assert verb(asked) == "ask: drift"
        assert verb(await desk.check()) == "ask: drift"
        assert verb(await request(desk)) == "ask: drift"
        await grant(desk, action="chat.*")
        assert verb(await desk.begin(**plain, context={"model": "m-2"})) == "ask: drift"
        await grant(desk)
        assert verb(await desk.check()) == "begin: first_attempt"
        assert verb(await desk.begin(**plain, context={"model": "m-3"})) == "ask: drift"
        begun = await desk.begin(**plain, context={"model": "m-2"})
        assert verb(begun) == "perform: first_attempt"
        await verified(desk)


async def test_a_persons_grant_for_an_operation_permits_one_more_attempt_each(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        plain = {"action": "chat.post", "target": "x", "args": None}
        await desk.begin(**plain, max_attempts=1)
        await desk.failure("none", evidence=REFUSED)
        assert await seen(desk, **plain) == {"ask: attempts_exhausted"}
        await grant(desk, action="chat.*")
        assert await seen(desk, **plain) == {"ask: attempts_exhausted"}
        given = await grant(desk)
        assert given["grant"]["adds_attempt"] is True
        assert await seen(desk, **plain) == {"begin: retry_after_failure"}
        await desk.failure("none", evidence=REFUSED, attempt=2, retryable=False)
        assert await seen(desk, **plain) == {"ask: attempts_exhausted"}
        for attempt in (3, 4):
            if attempt == 3:
                await grant(desk)
                await revoke(desk, await grant(desk))
                await grant(desk)
            assert await seen(desk, **plain) == {"begin: retry_after_failure"}
            await desk.failure("none", evidence=REFUSED, attempt=attempt, retryable=False)
        assert await seen(desk, **plain) == {"ask: attempts_exhausted"}
        await verified(desk)


async def test_a_persons_grant_for_an_operation_since_a_restore_answers_for_the_gap(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock, policy=GATED) as desk:
        await pay(desk)
        await grant(desk)
    clock.advance(60)
    plain_sql(
        tmp_path / "journal.db",
        f"INSERT INTO restores (restored_at, backed_up_at) VALUES ({clock.at}, {START})",
    )
    async with open_desk(tmp_path, clock=clock, policy=GATED) as desk:
        assert await seen(desk) == {"ask: history_gap"}
        await grant(desk, action="*")
        assert await seen(desk) == {"ask: history_gap"}
        assert verb(await request(desk)) == "ask: history_gap"
        await grant(desk)
        assert await seen(desk) == {"begin: first_attempt"}
        await verified(desk)


async def test_the_operators_grant_holds_while_it_stands_in_the_file_and_is_on_record_once_used(
    tmp_path: Path,
) -> None:
    own = ConfiguredGrant(name="small", action="pay.*", constraints=("args.amount <= 100",), max_uses=1)
    with_grant = Policy(authority=GATED.authority, grants=(own,))
    clock = FakeClock()
    async with open_desk(tmp_path, policy=with_grant, clock=clock) as desk:
        assert await pay(desk, args={"amount": 500}) == "ask: authority_required"
        used = await desk.at("b").begin(**{**PAY, "target": "b"})
        assert used["next"] == "perform"
        assert await pay(desk.at("c"), target="c") == "ask: authority_expired"
        [listed] = await desk.journal.list_grants()
        assert (listed["source"], listed["uses"]) == ("configuration", 1)
        with pytest.raises(Forbidden):
            await desk.journal.revoke(RevokeGrant(grant=listed["grant"]), PERSON)
        await verified(desk)
    async with open_desk(tmp_path, policy=GATED, clock=clock) as desk:
        assert await pay(desk.at("c"), target="c") == "ask: authority_required"
        [listed] = await desk.journal.list_grants()
        assert listed["holds"] == "no: not in the configuration any more"


@pytest.mark.sqlite_only
async def test_verification_notices_grants_requests_and_uses_that_no_event_made(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, policy=GATED, clock=clock) as desk:
        await pay(desk.at("b"), target="b")
        await request(desk.at("b"))
        await grant(desk, action="pay.send", max_uses=1)
        await pay(desk)
        await verified(desk)
    forgeries = {
        "UPDATE grants SET max_uses = 100": "grants",
        "UPDATE authority_requests SET state = 'declined', answered_at = 1": "requests",
        "UPDATE grant_uses SET is_held = 0": "uses of grants",
        "UPDATE namespace_events SET data = replace(data, 'pay.send', 'pay.*') WHERE seq = 2": "was changed",
        "DELETE FROM namespace_events WHERE seq = 2": "the log ends at 1",
    }
    for forgery, named in forgeries.items():
        copy = tmp_path / "forged.db"
        copy.unlink(missing_ok=True)
        with sqlite3.connect(tmp_path / "journal.db") as whole, sqlite3.connect(copy) as forged:
            whole.backup(forged)
            forged.execute(forgery)
        async with open_desk(tmp_path, policy=GATED, clock=clock, name="forged.db") as desk:
            faults = (await desk.journal.reader.verify()).faults
            assert any(named in fault for fault in faults), (forgery, faults)


async def test_nothing_crosses_namespaces(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=GATED) as desk:
        given = await grant(desk, action="pay.*")
    async with open_desk(tmp_path, policy=GATED, namespace="other") as desk:
        assert await pay(desk) == "ask: authority_required"
        assert await desk.journal.list_grants() == []
        with pytest.raises(NotFound):
            await revoke(desk, given)


@pytest.mark.sqlite_only
async def test_a_secret_in_why_is_not_kept(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    async with open_desk(tmp_path, policy=GATED) as desk:
        await pay(desk)
        asked = await request(desk, why=f"use {secret}")
        listed = await desk.journal.list_requests()
        assert secret not in canonical_json(json.loads(json.dumps([asked, listed])))
    assert secret.encode() not in (tmp_path / "journal.db").read_bytes()
