"""The eleven rules that hold whatever happens (CONTRACT.md, section 3), each shown on a real journal."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from conformance import states_reaching as to
from conformance.states_reaching import KEYED, LOOKUP, MESSAGE, REFUSED, SAFE, UNDOING, looked
from counterfoil.store.domain.commands import (
    BeginOperation,
    BeginRun,
    Caller,
    FinishRun,
    Lookup,
    PlanStep,
)
from counterfoil.store.domain.instants import micros, parse_rfc3339
from counterfoil.store.domain.model import Assurance
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import InvalidArgument
from journals import (
    AGENT,
    ANOTHER,
    PERSON,
    START,
    Desk,
    FakeClock,
    after,
    as_caller,
    folder_in_memory,
    open_desk,
    open_test_journal,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory: waiting for a disk shows nothing here."""
    with folder_in_memory() as folder:
        yield folder


SETTLE = 300
A_DAY = 86_400
FOREIGN = {**UNDOING, "performed_at": to.A_DAY_OLD}


def words(answer: dict[str, Any]) -> str:
    return f"{answer['next']} {answer['reason']}"


# 1: the intent is on disk before anybody may act


async def test_a_grant_is_on_file_for_everybody_as_soon_as_it_is_answered(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk, open_test_journal(tmp_path, clock=desk.clock) as elsewhere:
        begun = await desk.begin()
        check = await Desk(elsewhere, desk.clock).check()
        assert check["state"] == "in_progress"
        assert check["attempts"][0]["idempotency_key"] == begun["idempotency_key"]


async def test_a_journal_opened_again_holds_what_was_in_progress(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await desk.begin()
    async with open_desk(tmp_path, clock=clock) as desk:
        assert words(await desk.begin(caller=ANOTHER)) == "wait lease_held"


# 2: no second attempt while the first may have had its effect


@pytest.mark.parametrize("waited", [0, SETTLE, A_DAY, 30 * A_DAY])
async def test_a_lease_that_ran_out_gives_the_right_to_look_and_not_to_act(
    tmp_path: Path, waited: int
) -> None:
    async with open_desk(tmp_path) as desk:
        await to.lapsed(desk, **LOOKUP)
        desk.clock.advance(waited)
        for caller in (AGENT, ANOTHER):
            assert words(await desk.begin(caller=caller)) == "reconcile in_doubt"
        assert (await desk.check())["attempts_in_all"] == 1


async def test_an_attempt_is_repeated_under_its_key_until_repeat_until_and_no_longer(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        begun = await desk.begin(repeat="keyed", key_ttl_seconds=A_DAY)
        assert begun["repeat_until"] == after(A_DAY - SETTLE)
        desk.clock.advance(A_DAY - SETTLE - 1)
        again = await desk.begin()
        assert words(again) == "perform repeat_keyed"
        assert again["idempotency_key"] == begun["idempotency_key"]
        desk.clock.advance(1)
        assert words(await desk.begin()) == "reconcile in_doubt"


async def test_the_lease_of_a_repeat_ends_with_its_key(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(repeat="keyed", key_ttl_seconds=A_DAY)
        desk.clock.advance(A_DAY - SETTLE - 10)
        again = await desk.begin(lease_seconds=3_600)
        assert again["send_before"] == again["lease_expires_at"] == again["repeat_until"]
        assert again["send_before"] == after(A_DAY - SETTLE)


async def test_a_first_attempt_has_its_whole_lease_however_short_the_key_lives(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        begun = await desk.begin(repeat="keyed", key_ttl_seconds=10)
        assert begun["send_before"] == after(300)
        desk.clock.advance(300)
        assert words(await desk.begin()) == "reconcile in_doubt"


@pytest.mark.parametrize("shown", [{"external_id": None}, {"final": False}], ids=["claim", "acknowledgement"])
async def test_an_effect_that_nobody_announced_was_under_no_key_that_a_repeat_could_share(
    tmp_path: Path, shown: dict[str, Any]
) -> None:
    async with open_desk(tmp_path) as desk:
        await to.refused(desk, **KEYED)
        assert (await desk.receipt(**shown))["state"] == "in_doubt"
        assert words(await desk.begin()) == "reconcile in_doubt"
        assert (await desk.check())["next"] == "reconcile"


async def test_a_safe_effect_may_be_repeated_at_any_time(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.lapsed(desk, **SAFE)
        desk.clock.advance(30 * A_DAY)
        assert words(await desk.begin()) == "perform repeat_safe"


@pytest.mark.parametrize("terms", [{}, KEYED], ids=["unsafe", "keyed"])
async def test_nothing_is_performed_while_a_receipt_is_on_file(tmp_path: Path, terms: dict[str, Any]) -> None:
    async with open_desk(tmp_path) as desk:
        await to.lapsed(desk, **terms)
        await desk.receipt()
        for caller in (AGENT, ANOTHER):
            assert words(await desk.begin(caller=caller)) == "skip already_succeeded"


async def test_a_repeat_sends_the_recorded_body(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(**KEYED, args={"subject": "Invoice 42"}, payload="Dear Alice,")
        desk.clock.advance(300)
        again = await desk.begin(args={"subject": "Invoice 42"}, payload="Hello Alice!")
        assert words(again) == "perform repeat_keyed"
        assert again["recorded"] == {"args": {"subject": "Invoice 42"}, "payload": "Dear Alice,"}
        assert any("payload" in warning for warning in again["warnings"])


async def test_a_redacted_body_is_repeated_only_by_who_has_the_whole_of_it(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(**KEYED, payload={"password": "hunter2-hunter2"})
        desk.clock.advance(300)
        for payload in (None, {"password": "another-secret"}):
            assert words(await desk.begin(payload=payload)) == "reconcile in_doubt"
        again = await desk.begin(payload={"password": "hunter2-hunter2"})
        assert words(again) == "perform repeat_keyed"
        assert "hunter2" not in str(again)


# 3: what an agent's empty look needs before it counts


@pytest.mark.parametrize(
    ("early", "expected"),
    [(0.000001, "wait settling"), (0, "continue recorded")],
    ids=["a microsecond early", "in time"],
)
async def test_a_look_counts_from_settle_until_on(tmp_path: Path, early: float, expected: str) -> None:
    async with open_desk(tmp_path) as desk:
        await to.lapsed(desk, **LOOKUP)
        assert (await desk.check())["settle_until"] == after(300 + SETTLE)
        desk.clock.advance(A_DAY)
        answer = await desk.reconcile("not_performed", as_of=after(300 + SETTLE - early))
        assert words(answer) == expected


async def test_a_look_without_its_time_counts_as_early(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.settled(desk, **LOOKUP)
        answer = await desk.reconcile("not_performed")
        assert words(answer) == "wait settling"
        assert answer["retry_at"] == after(300 + SETTLE)


async def test_a_look_from_the_future_is_refused(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.lapsed(desk, **LOOKUP)
        with pytest.raises(InvalidArgument, match="future"):
            await desk.reconcile("not_performed", as_of=after(900))


async def test_an_attempt_ends_early_only_by_its_holders_word(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(**LOOKUP, lease_seconds=3_600)
        desk.clock.advance(10)
        assert words(await desk.failure("unknown", caller=ANOTHER)) == "wait lease_held"
        assert await desk.state() == "in_progress"
        assert words(await desk.failure("unknown")) == "reconcile in_doubt"
        assert (await desk.check())["settle_until"] == after(10 + SETTLE)


async def test_a_lease_that_ran_out_ended_when_it_was_granted_to_end(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(**LOOKUP, lease_seconds=3_600)
        desk.clock.advance(4_000)
        await desk.failure("unknown")
        assert (await desk.check())["settle_until"] == after(3_600 + SETTLE)


async def test_every_unknown_attempt_delays_the_look_not_the_newest_alone(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(**SAFE, lease_seconds=300)
        desk.clock.advance(300)
        await desk.begin(lease_seconds=3_600)
        await desk.failure("none", attempt=2, evidence=REFUSED)
        assert (await desk.check())["settle_until"] == after(300 + SETTLE)
        await desk.begin(lease_seconds=3_600)
        desk.clock.advance(3_600)
        assert (await desk.check())["settle_until"] == after(300 + 3_600 + SETTLE)


async def test_an_acknowledgement_starts_the_settle_time_anew(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.settled(desk, **LOOKUP)
        desk.clock.advance(400)
        await desk.receipt(final=False)
        assert words(await looked(desk, "not_performed")) == "wait settling"
        desk.clock.advance(SETTLE)
        assert words(await looked(desk, "inconclusive")) == "reconcile in_doubt"


async def test_the_declared_settle_time_counts_and_never_less_than_the_least(tmp_path: Path) -> None:
    policy = Policy(least_settle_seconds=60)
    async with open_desk(tmp_path, policy=policy) as desk:
        for key, declared, settle in (("long", 900.0, 900), ("short", 5.0, 60), ("none", 0.0, 60)):
            step = desk.at(key)
            await step.begin(lookup=Lookup(tool="search_sent", settle_seconds=declared))
            await step.failure("unknown")
            assert (await step.check())["settle_until"] == after(settle)


async def test_a_conclusive_lookup_replaces_the_settle_time_by_zero_and_nothing_more(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(lookup=Lookup(tool="search_sent", conclusive=True))
        assert words(await looked(desk, "not_performed", caller=ANOTHER)) == "wait lease_held"
        desk.clock.advance(299.999999)
        early = desk.clock.text
        desk.clock.advance(0.000001)
        assert words(await desk.reconcile("not_performed", as_of=early)) == "wait settling"
        assert words(await looked(desk, "not_performed")) == "continue recorded"
        assert await desk.state() == "failed"


async def test_a_look_at_an_older_attempt_says_nothing_of_the_newest(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.settled(desk, **SAFE)
        as_of = (await desk.check())["as_of"]
        desk.clock.advance(10)
        await desk.begin()
        desk.clock.advance(A_DAY)
        assert words(await desk.reconcile("not_performed", as_of=as_of)) == "stop superseded"
        assert await desk.state() == "in_doubt"


async def test_a_finding_counts_once_for_each_time_it_looked(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.settled(desk, **LOOKUP)
        as_of = desk.clock.text
        for _ in range(4):
            desk.clock.advance(10)
            assert words(await desk.reconcile("inconclusive", as_of=as_of)) == "reconcile in_doubt"


async def test_without_a_lookup_an_empty_look_settles_nothing_at_any_time(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.lapsed(desk)
        desk.clock.advance(30 * A_DAY)
        assert words(await looked(desk, "not_performed")) == "ask unresolved"
        assert await desk.state() == "in_doubt"


async def test_a_persons_finding_counts_at_once(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.lapsed(desk)
        assert words(await desk.reconcile("not_performed", caller=PERSON)) == "continue recorded"
        assert await desk.state() == "failed"


async def test_an_agent_that_speaks_for_a_person_is_an_agent(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.settled(desk, **LOOKUP)
        assert words(await looked(desk, "not_performed", by="human")) != "continue recorded"
        assert await desk.state() == "in_doubt"


# 4: what establishes a failure


@pytest.mark.parametrize(
    "evidence",
    [
        None,
        {},
        {"status": 500},
        {"status": "503"},
        {"status_code": 502.0},
        {"response": {"httpStatus": "HTTP/1.1 504 Gateway Timeout"}},
        {"responses": [{"status": 422}, {"status": 599}]},
        {"note": ""},
    ],
    ids=str,
)
async def test_a_failure_without_evidence_is_in_doubt_whatever_repeat_says(
    tmp_path: Path, evidence: dict[str, Any] | None
) -> None:
    async with open_desk(tmp_path) as desk:
        for key, terms in (("unsafe", {}), ("safe", SAFE), ("keyed", KEYED)):
            step = desk.at(key)
            await step.begin(**terms)
            answer = await step.failure("none", evidence=evidence)
            assert (words(answer), answer["state"]) == ("reconcile in_doubt", "in_doubt")


@pytest.mark.parametrize("status", [408, 409, 425, 429])
async def test_a_status_that_may_speak_of_the_attempt_before_is_evidence_for_the_first_only(
    tmp_path: Path, status: int
) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(**KEYED)
        assert (await desk.failure("none", evidence={"status": status}))["state"] == "failed"
        await desk.begin()
        assert (await desk.failure("none", attempt=2, evidence={"status": status}))["state"] == "in_doubt"


async def test_nobody_but_the_holder_can_fail_an_attempt(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        await desk.failure("none", caller=ANOTHER, evidence=REFUSED)
        assert await desk.state() == "in_progress"
        desk.clock.advance(300)
        await desk.failure("none", caller=ANOTHER, evidence=REFUSED)
        assert await desk.state() == "in_doubt"


async def test_a_failure_keeps_in_doubt_what_another_attempt_left_unknown(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.repeated(desk)
        answer = await desk.failure("none", attempt=2, evidence=REFUSED)
        assert (words(answer), answer["state"]) == ("reconcile in_doubt", "in_doubt")


async def test_a_final_failure_and_a_used_up_limit_are_a_persons_question(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        await desk.failure("none", evidence=REFUSED, retryable=False)
        assert words(await desk.begin()) == "ask attempts_exhausted"
        last = desk.at("key-2")
        await last.begin(max_attempts=1)
        await last.failure("none", evidence=REFUSED)
        assert words(await last.begin()) == "ask attempts_exhausted"


async def test_a_pause_that_a_failure_asks_for_is_kept(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        failed = await desk.failure("none", evidence=REFUSED, retry_after_seconds=60)
        assert (words(failed), failed["retry_at"]) == ("continue recorded", after(60))
        answer = await desk.begin()
        assert (words(answer), answer["retry_at"]) == ("wait backoff", after(60))
        desk.clock.advance(60)
        assert words(await desk.begin()) == "perform retry_after_failure"


# 5 and 6: receipts


async def test_success_needs_the_assurance_that_the_action_requires(tmp_path: Path) -> None:
    policy = Policy(assurance=(("git.*", Assurance.VERIFIED),))
    async with open_desk(tmp_path, policy=policy) as desk:
        push, mail = desk.at("push"), desk.at("mail")
        await push.begin(action="git.push")
        await mail.begin(action="email.send")
        assert words(await push.receipt(kind="commit", external_id="c0ffee")) == "reconcile receipt_too_weak"
        assert words(await mail.receipt()) == "continue recorded"
        assert (await push.state(), await mail.state()) == ("in_progress", "succeeded")


async def test_a_bare_statement_is_no_receipt(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        answer = await desk.receipt(external_id=None, evidence={"result": "sent!"})
        assert (words(answer), answer["receipt"]["assurance"]) == ("reconcile receipt_too_weak", "claimed")


@pytest.mark.parametrize("finding", ["not_performed", "inconclusive"])
async def test_an_agents_look_never_outweighs_a_receipt(tmp_path: Path, finding: str) -> None:
    async with open_desk(tmp_path) as desk:
        await to.settled(desk, **LOOKUP)
        await desk.receipt()
        for _ in range(4):
            desk.clock.advance(A_DAY)
            assert words(await looked(desk, finding)) == "skip already_succeeded"
        assert await desk.state() == "succeeded"


async def test_an_agents_look_does_not_outweigh_a_reference_below_the_required_assurance(
    tmp_path: Path,
) -> None:
    policy = Policy(assurance=(("*", Assurance.VERIFIED),))
    async with open_desk(tmp_path, policy=policy) as desk:
        await to.lapsed(desk, **LOOKUP)
        await desk.receipt()
        desk.clock.advance(A_DAY)
        assert words(await looked(desk, "not_performed")) == "reconcile in_doubt"
        assert await desk.state() == "in_doubt"


@pytest.mark.parametrize(
    "settle_it",
    [to.given_up_waiting, to.deadline_passed, to.failed_and_cancelled, to.undone_without_a_receipt],
)
async def test_a_late_receipt_is_kept_and_flips_nothing_by_itself(tmp_path: Path, settle_it: Any) -> None:
    async with open_desk(tmp_path) as desk:
        await settle_it(desk)
        desk.clock.advance(90 * A_DAY)
        answer = await desk.receipt(caller=ANOTHER)
        assert answer["state"] == "disputed"
        assert answer["receipt"]["external_id"] == "m-1"
        assert words(await desk.begin()) in ("reconcile disputed", "ask disputed")


async def test_a_receipt_inside_a_finding_counts_while_another_attempt_is_live(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.repeated(desk)
        answer = await desk.reconcile("performed", caller=ANOTHER, attempt=1, **MESSAGE)
        assert (words(answer), answer["state"]) == ("continue recorded", "succeeded")


async def test_a_persons_second_word_delivered_again_is_no_third(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        denied = await desk.reconcile("not_performed", caller=PERSON, by="human")
        assert words(denied) == "wait lease_held"
        await desk.receipt()
        assert (await desk.reconcile("not_performed", caller=PERSON, by="human"))["state"] == "disputed"
        assert words(await desk.again()) == "continue duplicate"
        assert await desk.state() == "disputed"


async def test_a_look_without_as_of_delivered_again_does_not_end_a_later_attempt(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(**LOOKUP)
        await desk.reconcile("not_performed")
        second = as_caller(AGENT)
        await desk.reconcile("not_performed", caller=second)
        desk.clock.advance(2 * SETTLE)
        await looked(desk, "not_performed")
        assert words(await desk.begin()) == "perform retry_after_failure"
        assert words(await desk.reconcile("not_performed", caller=second)) == "continue duplicate"
        assert await desk.state() == "in_progress"


async def test_a_person_contradicts_a_receipt_first_and_sets_it_aside_when_repeating(
    tmp_path: Path,
) -> None:
    async with open_desk(tmp_path) as desk:
        await to.succeeded_long_ago(desk)
        assert (await desk.reconcile("not_performed", caller=PERSON))["state"] == "disputed"
        assert (await desk.reconcile("not_performed", caller=PERSON))["state"] == "failed"
        receipt = (await desk.check())["receipts"][0]
        assert (receipt["external_id"], receipt["set_aside"]) == ("m-1", True)
        assert words(await desk.begin()) == "perform retry_after_failure"


async def test_a_receipt_that_was_set_aside_counts_again_only_through_a_finding(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.receipt_set_aside(desk)
        assert words(await desk.receipt()) == "continue duplicate"
        assert await desk.state() == "failed"
        assert (await desk.reconcile("performed", **MESSAGE))["state"] == "succeeded"


@pytest.mark.parametrize("kind", ["message", "transaction", "approval"])
async def test_a_reference_of_another_operation_proves_nothing(tmp_path: Path, kind: str) -> None:
    async with open_desk(tmp_path) as desk:
        other = desk.at("other", run="another-run")
        await other.begin()
        await other.receipt(kind=kind)
        await desk.begin()
        answer = await desk.receipt(kind=kind)
        assert (words(answer), answer["state"]) == ("reconcile foreign_receipt", "in_progress")
        assert answer["receipt"]["foreign"] is True


async def test_one_commit_may_serve_two_steps_if_its_time_lies_inside_the_attempt(tmp_path: Path) -> None:
    commit = {"kind": "commit", "system": "git", "external_id": "c0ffee"}
    async with open_desk(tmp_path) as desk:
        other = desk.at("other")
        await other.begin()
        await other.receipt(**commit)
        await desk.begin()
        assert words(await desk.receipt(**commit)) == "reconcile foreign_receipt"
        assert words(await desk.receipt(**commit, performed_at=after(1))) == "continue recorded"


async def test_a_receipt_from_before_the_attempt_is_another_effects(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.lapsed(desk)
        assert (await desk.check())["since"] == after(-60)
        answer = await desk.receipt(performed_at=after(-60.000001), external_id="m-0")
        assert words(answer) == "reconcile foreign_receipt"
        assert words(await desk.receipt(performed_at=after(-60))) == "continue recorded"


async def test_a_strange_time_is_a_warning_where_the_live_attempt_is_named(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        answer = await desk.receipt(attempt=1, performed_at=after(-A_DAY))
        assert words(answer) == "continue recorded"
        assert any("performed_at" in warning for warning in answer["warnings"])


async def test_an_effect_nobody_began_is_kept_and_marked(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        answer = await desk.receipt(action="email.send", target="key-1@example.org")
        assert (words(answer), answer["state"]) == ("continue recorded", "succeeded")
        assert answer["receipt"]["unannounced"] is True
        assert words(await desk.begin()) == "skip already_succeeded"


# 7: an old attempt's receipt


async def test_an_old_attempts_receipt_is_kept_and_does_not_take_the_newer_lease(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.retried(desk)
        assert (await desk.receipt(attempt=1))["state"] == "disputed"
        assert (await desk.check())["attempts"][1]["outcome"] == "live"
        assert words(await desk.failure("unknown", attempt=1)) == "stop superseded"
        await desk.failure("none", attempt=2, evidence=REFUSED)
        assert (await desk.check())["attempts"][1]["outcome"] == "refused"


@pytest.mark.parametrize("effect", ["none", "unknown"])
async def test_an_old_attempts_failure_changes_nothing(tmp_path: Path, effect: str) -> None:
    async with open_desk(tmp_path) as desk:
        await to.repeated(desk)
        answer = await desk.failure(effect, attempt=1, evidence=REFUSED)
        assert (words(answer), answer["state"]) == ("stop superseded", "in_progress")
        assert (await desk.check())["attempts"][0]["outcome"] == "unknown"


async def test_an_attempt_that_was_not_granted_is_an_invalid_argument(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        for give in (
            desk.receipt,
            desk.failure,
            lambda attempt: desk.reconcile("performed", attempt=attempt),
        ):
            with pytest.raises(InvalidArgument, match="attempt: 2 does not exist"):
                await give(attempt=2)


async def test_progress_of_what_was_never_attempted_is_an_invalid_argument(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.planned(desk)
        with pytest.raises(InvalidArgument, match="attempt"):
            await desk.progress()


# 8: at once


async def test_of_twenty_callers_at_once_one_performs_and_nineteen_wait(tmp_path: Path) -> None:
    answers: list[str] = []
    async with open_desk(tmp_path) as desk:

        async def begin(number: int) -> None:
            caller = Caller(connection=f"connection-{number}", conversation=f"conversation-{number}")
            answers.append(words(await desk.begin(caller=caller)))

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(begin, number)
        assert sorted(answers) == ["perform first_attempt"] + ["wait lease_held"] * 19
        assert (await desk.check())["attempts_in_all"] == 1


async def test_one_call_sent_twenty_times_at_once_is_one_grant(tmp_path: Path) -> None:
    answers: list[tuple[str, Any]] = []
    async with open_desk(tmp_path) as desk:

        async def begin() -> None:
            answer = await desk.begin(caller=to.CALL)
            answers.append((answer["reason"], answer["idempotency_key"]))

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(begin)
        assert len({key for _, key in answers}) == 1
        assert sorted(reason for reason, _ in answers) == ["first_attempt"] + ["replayed"] * 19


# 9: deadlines, and what never changes


@pytest.mark.parametrize("lease", [None, 10_000])
async def test_no_lease_reaches_beyond_the_deadline(tmp_path: Path, lease: float | None) -> None:
    async with open_desk(tmp_path) as desk:
        begun = await desk.begin(deadline_seconds=200, lease_seconds=lease, **SAFE)
        assert begun["send_before"] == after(200)
        await desk.failure("unknown")
        desk.clock.advance(150)
        assert (await desk.begin(lease_seconds=lease))["send_before"] == after(200)
        desk.clock.advance(50)
        assert words(await desk.begin()) == "skip timed_out"


async def test_a_later_deadline_is_not_before_a_lease_that_was_granted(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(lease_seconds=600)
        await desk.begin(deadline_seconds=60)
        desk.clock.advance(599)
        assert await desk.state() == "in_progress"
        desk.clock.advance(1)
        assert await desk.state() == "timed_out"


async def test_no_lease_is_longer_than_the_longest(tmp_path: Path) -> None:
    async with open_desk(tmp_path, policy=Policy(longest_lease_seconds=60)) as desk:
        assert (await desk.begin(lease_seconds=3_600))["send_before"] == after(60)


async def test_progress_extends_a_lease_by_its_own_length_however_often_it_comes(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(lease_seconds=600)
        age = 0
        for seconds in (100, 100, 0, 100):
            desk.clock.advance(seconds)
            age += seconds
            assert (await desk.progress())["state"] == "in_progress"
            assert (await desk.begin())["send_before"] == after(age + 600)


async def test_drift_changes_no_id_no_key_and_reopens_nothing(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        first = await desk.begin(context={"model": "one"}, workflow_version="1")
        await desk.failure("none", evidence={"never": "sent"})
        second = await desk.begin(context={"model": "two"}, workflow_version="2")
        assert second["operation"] == first["operation"]
        await desk.receipt()
        third = await desk.begin(context={"model": "three"}, workflow_version="3")
        assert words(third) == "skip already_succeeded"


# 10: nobody is left in a loop


SET_ASIDE = "deadline_seconds: not taken, a person reopened this after such a deadline was over"


async def test_what_a_person_reopened_is_not_closed_by_the_old_deadline_said_again(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.deadline_passed(desk)
        await desk.reconcile("not_performed", caller=PERSON, by="human")
        answer = await desk.begin(deadline_seconds=to.AN_HOUR)
        assert words(answer) == "perform retry_after_failure"
        assert answer["warnings"] == [SET_ASIDE]
        assert answer["send_before"] == after(to.AN_HOUR + 300)
        assert (await desk.journal.reader.verify()).faults == ()


@pytest.mark.parametrize("deadline", [60, to.AN_HOUR, to.AN_HOUR + 600])
async def test_no_deadline_that_was_over_closes_what_a_person_reopened(
    tmp_path: Path, deadline: float
) -> None:
    async with open_desk(tmp_path) as desk:
        await to.deadline_passed(desk)
        desk.clock.advance(600)
        await desk.reconcile("not_performed", caller=PERSON, by="human")
        await desk.begin(deadline_seconds=5 * to.AN_HOUR)
        await desk.failure("none", attempt=2, evidence=REFUSED)
        answer = await desk.begin(deadline_seconds=deadline)
        assert (words(answer), answer["warnings"]) == ("perform retry_after_failure", [SET_ASIDE])
        desk.clock.advance(5 * to.AN_HOUR)
        assert words(await desk.begin()) == "skip timed_out"


async def test_a_longer_deadline_stands_after_a_person_reopened(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.deadline_passed(desk)
        await desk.reconcile("not_performed", caller=PERSON, by="human")
        answer = await desk.begin(deadline_seconds=to.AN_HOUR + 60)
        assert (words(answer), "warnings" in answer) == ("perform retry_after_failure", False)
        assert answer["send_before"] == after(to.AN_HOUR + 60)
        desk.clock.advance(60)
        assert words(await desk.begin()) == "skip timed_out"
        await desk.reconcile("not_performed", caller=PERSON, by="human")
        again = await desk.begin(deadline_seconds=to.AN_HOUR + 60)
        assert (words(again), again["warnings"]) == ("perform retry_after_failure", [SET_ASIDE])


@pytest.mark.parametrize("reach", [to.lapsed, to.refused])
async def test_a_new_deadline_stands_where_a_person_set_none_aside(tmp_path: Path, reach: Any) -> None:
    async with open_desk(tmp_path) as desk:
        await reach(desk)
        await desk.reconcile("not_performed", caller=PERSON, by="human")
        answer = await desk.begin(deadline_seconds=10 * to.AN_HOUR)
        assert (words(answer), "warnings" in answer) == ("perform retry_after_failure", False)
        desk.clock.advance(10 * to.AN_HOUR)
        assert words(await desk.begin()) == "skip timed_out"


async def test_a_deadline_that_a_decision_came_before_may_be_given_again(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(deadline_seconds=to.AN_HOUR)
        await desk.failure("none", evidence=REFUSED)
        await desk.close("cancelled")
        desk.clock.advance(60)
        await desk.reconcile("not_performed", caller=PERSON, by="human")
        answer = await desk.begin(deadline_seconds=to.AN_HOUR)
        assert (words(answer), "warnings" in answer) == ("perform retry_after_failure", False)
        desk.clock.advance(to.AN_HOUR)
        assert words(await desk.begin()) == "skip timed_out"


async def test_a_clock_set_back_makes_no_deadline_count_again(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.deadline_passed(desk)
        assert words(await desk.begin()) == "skip timed_out"
        desk.clock.jump(-to.AN_HOUR)
        await desk.reconcile("not_performed", caller=PERSON, by="human")
        answer = await desk.begin(deadline_seconds=to.AN_HOUR)
        assert (words(answer), answer["warnings"]) == ("perform retry_after_failure", [SET_ASIDE])


async def test_the_third_look_that_settled_nothing_asks_a_person(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.settled(desk, **LOOKUP)
        answers = []
        for _ in range(3):
            desk.clock.advance(10)
            answers.append(words(await looked(desk, "inconclusive")))
        assert answers == ["reconcile in_doubt", "reconcile in_doubt", "ask unresolved"]
        assert words(await desk.begin()) == words(await desk.check()) == "ask unresolved"


async def test_early_looks_do_not_make_a_question_unresolved(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.lapsed(desk, **LOOKUP)
        for _ in range(5):
            desk.clock.advance(10)
            assert words(await looked(desk, "inconclusive")) == "wait settling"
        assert words(await desk.begin()) == "reconcile in_doubt"


@pytest.mark.parametrize(
    "end_it", [to.given_up_waiting, to.failed_and_cancelled, to.undone, to.undone_without_a_receipt]
)
async def test_a_dependency_that_can_no_longer_succeed_is_a_persons_question(
    tmp_path: Path, end_it: Any
) -> None:
    async with open_desk(tmp_path) as desk:
        await end_it(desk.at("first"))
        step = desk.at("second")
        assert words(await step.begin(depends_on=("first",))) == "ask dependency_unmet"
        last = desk.at("third")
        assert words(await last.begin(depends_on=("second",))) == "ask dependency_unmet"


@pytest.mark.parametrize("go", [to.begun, to.lapsed, to.refused, to.disputed_by_receipt])
async def test_only_success_satisfies_a_dependency(tmp_path: Path, go: Any) -> None:
    async with open_desk(tmp_path) as desk:
        first, second = desk.at("first"), desk.at("second")
        await go(first)
        answer = await second.begin(depends_on=("first",))
        assert (words(answer), answer["state"]) == ("wait dependency", "planned")
        await first.reconcile("performed", external_id="m-1", kind="message", system="smtp")
        assert words(await second.begin()) == "perform first_attempt"


async def test_an_unknown_dependency_is_refused_and_creates_nothing(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.at("other").begin()
        with pytest.raises(InvalidArgument, match="does not have: nowhere"):
            await desk.begin(depends_on=("nowhere",))
        assert [step["key"] for step in (await desk.plan())["steps"]] == ["other"]


async def test_a_circle_of_dependencies_is_refused(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        first, second, third = desk.at("first"), desk.at("second"), desk.at("third")
        await desk.begin()
        await first.begin(depends_on=("key-1",))
        await second.begin(depends_on=("first",))
        await third.begin(depends_on=("second",))
        with pytest.raises(InvalidArgument, match="circle"):
            await first.begin(depends_on=("third",))
        with pytest.raises(InvalidArgument, match="itself"):
            await second.begin(depends_on=("second",))


@pytest.mark.parametrize(
    "stuck",
    [
        to.planned,
        to.begun,
        to.lapsed,
        to.looked_thrice,
        to.looked_without_a_lookup,
        to.refused,
        to.succeeded_long_ago,
        to.deadline_passed,
        to.cancelled_plan,
        to.disputed_by_receipt,
        to.disputed_by_effects_long_ago,
        to.disputed_by_negative,
        to.undone_disputed_by_effects,
        to.retried_disputed_by_receipt,
    ],
)
async def test_from_every_state_a_person_has_a_way_to_every_end(tmp_path: Path, stuck: Any) -> None:
    """To succeeded through the receipt, and to where it may be performed again, or was given up or undone."""
    async with open_desk(tmp_path) as desk:
        await stuck(desk)
        again: dict[str, Any] = {}
        for _ in range(4):
            await desk.reconcile("inconclusive", caller=PERSON, end_lease=True)
            await desk.reconcile("not_performed", caller=PERSON)
            again = await desk.begin(caller=ANOTHER)
            if again["next"] == "perform":
                break
        if stuck is not to.undone_disputed_by_effects:
            assert again["next"] == "perform"
        answer = await desk.reconcile("performed", caller=PERSON, kind="message", external_id="m-77")
        assert answer["state"] in ("succeeded", "disputed")
        answer = await desk.reconcile("performed", caller=PERSON, kind="message", external_id="m-77")
        assert answer["state"] == "succeeded"


@pytest.mark.parametrize("given", ["inconclusive", "not_performed", "performed", "compensated"])
@pytest.mark.parametrize(
    "receipt", [{}, MESSAGE, UNDOING, {**UNDOING, "performed_at": to.A_DAY_OLD}], ids=str
)
@pytest.mark.parametrize(
    "live",
    [to.begun, to.retried, to.repeated, to.succeeded, to.retried_disputed_by_receipt, to.disputed_by_effects],
)
async def test_a_person_who_ends_a_lease_says_the_rest_as_if_it_had_run_out(
    tmp_path: Path, live: Any, given: str, receipt: dict[str, Any]
) -> None:
    said: list[tuple[str, str]] = []
    for ends_it in (True, False):
        async with open_desk(tmp_path, name=f"{ends_it}.db") as desk:
            await live(desk)
            if not ends_it:
                desk.clock.advance(300)
            answer = await desk.reconcile(given, caller=PERSON, end_lease=ends_it, **receipt)
            said.append((words(answer), answer["state"]))
            assert (await desk.journal.reader.verify()).faults == ()
    if given == "inconclusive":
        assert said[0][1] == said[1][1]
    else:
        assert said[0] == said[1]


# 11: the log is the truth, and clocks prove nothing


async def test_a_read_shows_a_lease_that_ran_out_and_the_next_write_stores_it(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        desk.clock.advance(300)
        assert await desk.state() == "in_doubt"
        assert (await desk.plan())["counts"] == {"in_doubt": 1}
        history = (await desk.check(detail="full"))["history"]
        assert "lease_ran_out" not in [entry["event"] for entry in history]
        await desk.begin(caller=ANOTHER)
        history = (await desk.check(detail="full"))["history"]
        assert "lease_ran_out" in [entry["event"] for entry in history]
        assert (await desk.journal.reader.verify()).faults == ()


@pytest.mark.parametrize("jump", [3_600, -100, -3_600], ids=["ahead", "back a little", "back an hour"])
async def test_a_jump_of_the_wall_clock_starts_the_settle_time_anew(tmp_path: Path, jump: float) -> None:
    async with open_desk(tmp_path) as desk:
        await to.lapsed(desk, **LOOKUP)
        desk.clock.advance(SETTLE - 10)
        desk.clock.jump(jump)
        desk.clock.advance(20)
        answer = await looked(desk, "not_performed")
        assert words(answer) == "wait settling"
        left = parse_rfc3339(answer["retry_at"], field="retry_at") - desk.clock.at
        assert left >= micros(SETTLE)
        desk.clock.advance(left / 1_000_000 - 1)
        assert words(await looked(desk, "not_performed")) == "wait settling"
        desk.clock.advance(1)
        assert words(await looked(desk, "not_performed")) == "continue recorded"
        assert (await desk.journal.reader.verify()).faults == ()


async def test_a_slewed_clock_restarts_nothing(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.lapsed(desk, **LOOKUP)
        desk.clock.jump(1.5)
        desk.clock.advance(SETTLE)
        assert words(await looked(desk, "not_performed")) == "continue recorded"


async def test_a_clock_set_back_does_not_lengthen_the_life_of_a_key(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(**KEYED)
        desk.clock.advance(A_DAY / 2)
        desk.clock.jump(-A_DAY / 4)
        assert words(await desk.begin()) == "perform repeat_keyed"
        desk.clock.advance(A_DAY / 2 - SETTLE)
        assert words(await desk.begin()) == "reconcile in_doubt"


async def test_a_lease_cut_short_by_a_clock_set_ahead_permits_nothing(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(**LOOKUP)
        desk.clock.jump(30 * A_DAY)
        assert words(await desk.begin(caller=ANOTHER)) == "reconcile in_doubt"
        assert words(await looked(desk, "not_performed", caller=ANOTHER)) == "wait settling"


# what is delivered again, however late


@pytest.mark.parametrize("command", ["not_performed", "performed", "closed", "failed", "receipt"])
async def test_a_call_delivered_again_after_much_else_changes_nothing(tmp_path: Path, command: str) -> None:
    person = as_caller(PERSON, call_id="the-persons-one-call-1")
    agent = as_caller(AGENT, call_id="toolu_the_agents_one_call")

    async def send(desk: Desk) -> None:
        match command:
            case "not_performed":
                await desk.reconcile("not_performed", caller=person)
            case "performed":
                await desk.reconcile("performed", caller=agent, **MESSAGE)
            case "closed":
                await desk.close("timed_out", caller=person)
            case "failed":
                await desk.failure("unknown", caller=agent)
            case "receipt":
                await desk.receipt(caller=agent)

    async with open_desk(tmp_path) as desk:
        await to.lapsed(desk)
        await send(desk)
        for _ in range(2):
            await desk.reconcile("not_performed", caller=PERSON)
        assert words(await desk.begin()) == "perform retry_after_failure"
        desk.clock.advance(300)
        before = await desk.check()
        await send(desk)
        after_it = await desk.check()
        assert (after_it["state"], after_it["attempts_in_all"]) == ("in_doubt", before["attempts_in_all"])
        assert after_it.get("receipts") == before.get("receipts")


async def test_a_receipt_delivered_again_under_a_milder_policy_settles_nothing(tmp_path: Path) -> None:
    agent = as_caller(AGENT, call_id="toolu_the_agents_one_call")
    strict = Policy(assurance=(("*", Assurance.VERIFIED),))
    async with open_desk(tmp_path, policy=strict) as desk:
        await desk.begin()
        await desk.receipt(caller=agent)
        before = await desk.check()
        assert [known["accepted"] for known in before["receipts"]] == [False]
    async with open_desk(tmp_path) as desk:
        await desk.receipt(caller=agent)
        assert (await desk.check())["receipts"] == before["receipts"]
        assert words(await desk.receipt(caller=as_caller(AGENT, call_id="toolu_another_call_of_it"))) == (
            "continue recorded"
        )


async def test_a_claim_delivered_again_is_asked_for_its_reference_again(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        for _ in range(2):
            for answer in (await desk.receipt(external_id=None), await desk.again()):
                assert words(answer) == "reconcile receipt_too_weak"
            desk.clock.advance(SETTLE)
        assert len((await desk.check())["receipts"]) == 1
        await desk.receipt(external_id="q-1", final=False)
        assert words(await desk.again()) == "continue duplicate"


# undoing


async def test_only_what_succeeded_is_undone_and_each_grant_checks_it_again(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        operation = (await desk.begin())["operation"]
        undo = desk.at("undo", run="another-run")
        assert words(await undo.begin(compensates=operation)) == "stop unmet"
        await desk.receipt()
        assert words(await undo.begin(compensates=operation)) == "perform first_attempt"
        await undo.failure("none", evidence=REFUSED)
        await desk.reconcile("not_performed", caller=PERSON)
        assert words(await undo.begin()) == "stop unmet"


@pytest.mark.parametrize("is_planned", [True, False])
async def test_what_may_not_have_happened_yet_may_still_become_an_undoing(
    tmp_path: Path, is_planned: bool
) -> None:
    async with open_desk(tmp_path) as desk:
        operation = (await desk.begin())["operation"]
        undo = desk.at("undo", run="another-run")
        if is_planned:
            await undo.at("first").begin()
            await undo.begin(depends_on=("first",))
            await undo.at("first").receipt(external_id="first-1")
        else:
            await undo.begin()
            await undo.failure("none", evidence=REFUSED)
        assert words(await undo.begin(compensates=operation)) == "stop unmet"
        await desk.receipt()

        answer = await undo.begin(compensates=operation)

        assert answer["next"] == "perform"
        second = desk.at("second", run="another-run")
        assert words(await second.begin(compensates=operation)) == "stop possible_duplicate"
        await undo.receipt(external_id="recall-1")
        assert await desk.state() == "compensated"
        assert (await desk.journal.reader.verify()).faults == ()


async def test_of_two_that_come_to_undo_one_effect_the_later_is_a_duplicate(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        operation = (await desk.begin())["operation"]
        await desk.receipt()
        undo, other = desk.at("undo"), desk.at("other")
        await other.begin(action="email.recall")
        await other.failure("none", evidence=REFUSED)
        await undo.begin(compensates=operation)
        answer = await other.begin(action="email.recall", compensates=operation)
        assert words(answer) == "stop possible_duplicate"


@pytest.mark.parametrize("reach", [to.begun, to.lapsed, to.succeeded], ids=lambda reach: reach.__name__)
async def test_what_may_have_happened_without_it_does_not_become_an_undoing_and_says_so(
    tmp_path: Path, reach: Any
) -> None:
    async with open_desk(tmp_path) as desk:
        original = desk.at("original")
        operation = (await original.begin())["operation"]
        await original.receipt(external_id="o-1")
        await reach(desk)
        before = words(await desk.begin())
        answer = await desk.begin(compensates=operation)
        assert words(answer) == before
        assert any("finding compensated" in warning for warning in answer["warnings"])


async def test_an_undoing_stays_that_of_what_it_was_begun_for(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        operation = (await desk.begin())["operation"]
        await desk.receipt()
        other = await desk.at("other").begin()
        await desk.at("other").receipt(external_id="o-1")
        undo = desk.at("undo")
        await undo.begin(compensates=operation)
        await undo.failure("none", evidence=REFUSED)
        await desk.reconcile("not_performed", caller=PERSON)
        answer = await undo.begin(compensates=other["operation"])
        assert words(answer) == "stop identity_conflict"
        recorded = {"path": "/compensates", "recorded": operation, "given": other["operation"]}
        assert answer["conflict"] == [recorded]


async def test_an_undoing_in_a_finished_run_is_told_that_it_is_finished(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        operation = (await desk.begin())["operation"]
        await desk.receipt()
        undo = desk.at("undo", run="undoings")
        await undo.begin(compensates=operation)
        await undo.failure("none", evidence=REFUSED)
        await desk.reconcile("not_performed", caller=PERSON)
        await desk.journal.finish_run(FinishRun(run="undoings", outcome="failed"), AGENT)
        for answer in (await undo.begin(), await undo.check()):
            assert words(answer) == "stop run_finished"


async def test_what_was_neither_done_nor_undone_is_given_up(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        operation = (await desk.begin())["operation"]
        await desk.receipt()
        undo = desk.at("undo", run="undoings")
        await undo.begin(compensates=operation)
        for denied in (desk, desk, undo):
            if denied is undo:
                await undo.receipt(external_id="u-1")
                assert await desk.state() == "compensated"
                await undo.reconcile("not_performed", caller=PERSON)
            answer = await denied.reconcile("not_performed", caller=PERSON)
        assert f"{operation} is not undone by this: it counts as cancelled now" in answer["warnings"]
        assert words(await desk.begin()) == "skip cancelled"
        assert (await desk.journal.reader.verify()).faults == ()
        # A person's way out: it did happen.
        assert (await desk.reconcile("performed", caller=PERSON, external_id="m-2"))["state"] == "succeeded"


async def test_nothing_undoes_itself(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        operation = (await desk.begin())["operation"]
        with pytest.raises(InvalidArgument, match="compensates: is this operation itself"):
            await desk.begin(compensates=operation)


async def test_a_step_that_is_said_to_wait_for_another_waits_also_when_it_was_tried_before(
    tmp_path: Path,
) -> None:
    async with open_desk(tmp_path) as desk:
        first = desk.at("first")
        await first.begin()
        await desk.begin()
        await desk.failure("none", evidence=REFUSED)
        assert words(await desk.begin(depends_on=("first",))) == "wait dependency"
        assert words(await desk.begin()) == "wait dependency"
        await first.receipt(external_id="first-1")
        assert words(await desk.begin()) == "perform retry_after_failure"
        assert (await desk.journal.reader.verify()).faults == ()


@pytest.mark.parametrize("is_repeatable", [True, False])
async def test_plans_and_checks_say_of_an_undoing_what_its_begin_says(
    tmp_path: Path, is_repeatable: bool
) -> None:
    async with open_desk(tmp_path) as desk:
        operation = (await desk.begin())["operation"]
        await desk.receipt()
        undo = desk.at("undo", run="another-run")
        await undo.begin(compensates=operation, **(KEYED if is_repeatable else {}))
        if is_repeatable:
            desk.clock.advance(300)
        else:
            await undo.failure("none", evidence=REFUSED)
        assert (await undo.check())["next"] == "begin"
        await desk.reconcile("not_performed", caller=PERSON)

        told = await undo.check()
        step = (await undo.plan())["steps"][0]
        begun = await undo.begin()

        assert words(told) == words(step) == words(begun) == "stop unmet"
        for answer in (told, step, begun):
            assert any(operation in warning for warning in answer["warnings"])


async def test_the_success_of_an_undoing_reaches_what_it_undoes_across_runs(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        operation = (await desk.begin())["operation"]
        await desk.receipt()
        undo = desk.at("undo", run="another-run")
        await undo.begin(compensates=operation)
        await undo.receipt(external_id="recall-1")
        assert (await desk.state(), await undo.state()) == ("compensated", "succeeded")
        assert words(await desk.begin()) == "skip compensated"
        assert (await desk.journal.reader.verify()).faults == ()


async def test_what_a_person_denies_to_have_been_undone_counts_as_done_again(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        operation = (await desk.begin())["operation"]
        await desk.receipt()
        undo = desk.at("undo", run="another-run")
        await undo.begin(compensates=operation)
        await undo.receipt(external_id="recall-1")
        await undo.reconcile("not_performed", caller=PERSON)
        assert (await undo.state(), await desk.state()) == ("disputed", "compensated")

        answer = await undo.reconcile("not_performed", caller=PERSON)

        assert answer["warnings"] == [f"{operation} is not undone by this: it counts as succeeded now"]
        assert (await undo.state(), await desk.state()) == ("failed", "succeeded")
        assert words(await undo.begin(compensates=operation)) == "perform retry_after_failure"
        await undo.receipt(external_id="recall-2")
        assert await desk.state() == "compensated"
        assert (await desk.journal.reader.verify()).faults == ()


async def test_what_was_undone_by_something_else_stays_undone(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        operation = (await desk.begin())["operation"]
        await desk.receipt()
        undo = desk.at("undo")
        await undo.begin(compensates=operation)
        await desk.reconcile("compensated", **UNDOING)
        await undo.receipt(external_id="another-recall")
        for _ in range(2):
            await undo.reconcile("not_performed", caller=PERSON)
        assert (await undo.state(), await desk.state()) == ("failed", "compensated")


async def test_the_receipt_of_the_effect_is_no_receipt_of_its_undoing(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.succeeded(desk)
        assert words(await desk.reconcile("compensated", **MESSAGE)) == "reconcile receipt_too_weak"
        assert words(await desk.reconcile("compensated", **UNDOING)) == "continue recorded"


@pytest.mark.parametrize("name", ["lease_seconds", "deadline_seconds"])
async def test_what_would_be_over_at_the_moment_it_begins_is_refused(tmp_path: Path, name: str) -> None:
    async with open_desk(tmp_path) as desk:
        with pytest.raises(InvalidArgument, match=f"{name}: is out of range"):
            await desk.begin(**{name: 4e-7})
        step = PlanStep(key="step", action="email.send", deadline_seconds=4e-7)
        with pytest.raises(InvalidArgument, match="deadline_seconds: is out of range"):
            await desk.journal.begin_run(BeginRun(run="run-2", plan=(step,)), as_caller(AGENT))
        begun = await desk.begin(**{name: 1e-6})
        assert (words(begun), begun["send_before"]) == ("perform first_attempt", after(1e-6))


async def test_times_are_kept_to_the_microsecond(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        desk.clock.advance(0.123457)
        begun = await desk.begin()
        assert parse_rfc3339(begun["as_of"], field="as_of") == START + 123_457


async def test_a_begin_asks_for_the_run_and_key_it_was_given(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        command = BeginOperation(run="weekly-report/2026-W48", key="email:alice", action="email.send")
        begun = await desk.journal.begin_operation(command, AGENT)
        assert (begun["run"], begun["key"]) == ("weekly-report/2026-W48", "email:alice")
