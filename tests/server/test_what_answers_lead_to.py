"""What an answer tells an agent to do is true of its case, and can be done."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from counterfoil.store.domain import answers
from counterfoil.store.domain.answers import GUIDANCE
from counterfoil.store.domain.commands import (
    BeginRun,
    CheckOperation,
    FindOperations,
    FinishRun,
    Lookup,
    OperationRef,
    PlanStep,
    Undo,
)
from counterfoil.store.errors import InvalidArgument, NotFound, TooLarge
from counterfoil.tools.catalogue import ALL_TOOLS, CORE_TOOLS
from journals import AGENT, ANOTHER, open_desk

pytestmark = pytest.mark.anyio


async def test_who_holds_a_receipt_of_nothing_on_record_is_not_told_to_begin_it(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        for _ in ("no run of that name", "no operation of that key"):
            for command in (desk.receipt(), desk.reconcile("performed", external_id="m-1")):
                with pytest.raises(NotFound) as refused:
                    await command
                assert "record_receipt with run, key and action" in refused.value.fix
            await desk.at("another").begin()
        assert (await desk.receipt(action="email.send"))["state"] == "succeeded"


async def test_what_is_refused_as_unmet_says_what_is_missing_and_what_to_do_instead(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        begun = await desk.begin()
        undo = desk.at("undo")
        early = await undo.begin(action="email.recall", compensates=begun["operation"])
        assert (early["next"], early["reason"]) == ("stop", "unmet")
        assert early["warnings"] == [
            f"only what succeeded is undone, and {begun['operation']} is in_progress"
        ]
        await desk.receipt(attempt=1)
        for outcome in ("timed_out", "cancelled"):
            closed = await desk.close(outcome)
            assert closed["reason"] == "unmet"
            [instead] = closed["warnings"]
            assert (
                f"begin_operation under a key of its own, with compensates: {begun['operation']}" in instead
            )
        planned = desk.at("planned")
        await desk.journal.begin_run(
            BeginRun(run=desk.run, plan=(PlanStep(key="planned", action="a"),)), AGENT
        )
        never = await planned.close("timed_out")
        assert never["warnings"] == ["what was never attempted cannot time out: close it as cancelled"]
        for receipt in ({"external_id": "u-1"}, {}):
            undone = await planned.reconcile("compensated", **receipt)
            assert undone["reason"] == "unmet"
            assert "record its own receipt first" in undone["warnings"][0]
        for answer in (early, closed, never, undone):
            assert "warnings" in answer["guidance"]


async def test_what_waits_for_other_steps_names_them(tmp_path: Path) -> None:
    steps = [PlanStep(key=key, action=f"a.{key}") for key in ("one", "two", "done")]
    steps.append(PlanStep(key="last", action="a.last", depends_on=("one", "done", "two")))
    async with open_desk(tmp_path) as desk:
        await desk.journal.begin_run(BeginRun(run=desk.run, plan=tuple(steps)), AGENT)
        await desk.at("done").begin(action="a.done", target=None)
        await desk.at("done").receipt(attempt=1)
        last = desk.at("last")

        async def seen() -> list[tuple[str, list[str]]]:
            [step] = [step for step in (await desk.plan())["steps"] if step["key"] == "last"]
            answers = [await last.begin(action="a.last", target=None), await last.check(), step]
            return [(answer["reason"], answer["waits_for"]) for answer in answers]

        assert await seen() == [("dependency", ["one", "two"])] * 3
        await desk.at("two").close("cancelled")
        assert await seen() == [("dependency_unmet", ["two"])] * 3


async def test_a_lease_is_not_said_to_be_another_sessions_where_it_may_be_the_callers(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        held = await desk.close("cancelled")
        assert (held["next"], held["reason"]) == ("wait", "lease_held")
        assert "Another session" not in held["guidance"]
        assert "if the attempt is your own, record its receipt or failure" in held["guidance"]


def test_whoever_must_not_act_is_told_so() -> None:
    for (verb, reason), words in GUIDANCE.items():
        if verb in ("ask", "stop", "reconcile", "skip"):
            assert "o not perform" in words, (verb, reason)


def test_a_person_is_asked_by_a_tool_only_where_it_is_offered_and_only_once() -> None:
    asking = [words for words in GUIDANCE.values() if "request_authority" in words]
    assert len(asking) == 4
    for words in asking:
        assert "once, by request_authority where that tool is offered" in words
        assert "counterfoil grant" in words


async def test_a_body_of_2000_characters_comes_back_as_it_is_and_one_of_more_by_its_digest(
    tmp_path: Path,
) -> None:
    bodies: list[tuple[Any, bool]] = [
        ("x" * 2_000, True),
        ("x" * 2_001, False),
        ("é" * 2_000, True),
        ('"\n' * 1_000, True),
        ('"\n' * 1_000 + "x", False),
        (["x" * 1_996], True),
        (["x" * 1_997], False),
    ]
    async with open_desk(tmp_path) as desk:
        for number, (payload, is_whole) in enumerate(bodies):
            letter = desk.at(f"letter-{number}")
            await letter.begin(payload=payload)
            shown = (await letter.begin(payload=payload))["recorded"]["payload"]
            assert (shown == payload) is is_whole
            if not is_whole:
                assert (shown["cut"], shown["characters"]) == (True, 2_001)


async def test_a_letter_of_just_the_limit_is_kept_whole_and_one_byte_more_is_too_large(
    tmp_path: Path,
) -> None:
    letter = '"\n' * (128 * 1024)
    async with open_desk(tmp_path) as desk:
        with pytest.raises(TooLarge) as refused:
            await desk.begin(payload=letter + "x")
        assert (refused.value.field, refused.value.recorded) == ("payload", False)
        await desk.begin(payload=letter)
        read, offset = "", 0
        while offset is not None:
            page = await desk.check(detail="payload", offset=offset)
            read, offset = read + page["content"], page.get("next_offset")
        assert read == letter


async def test_whoever_may_send_a_body_that_held_secrets_is_told_not_to_send_placeholders(
    tmp_path: Path,
) -> None:
    secret = {"api_key": "abcd1234abcd1234", "text": "hello"}
    keyed: dict[str, Any] = {"repeat": "keyed", "key_ttl_seconds": 9_000}
    async with open_desk(tmp_path) as desk:
        planned = PlanStep(key="planned", action="email.send", target="planned@example.org", payload=secret)
        await desk.journal.begin_run(BeginRun(run=desk.run, plan=(planned,)), AGENT)
        own = desk.at("own")
        assert "warnings" not in await own.begin(payload=secret, **keyed)
        await own.failure("unknown")
        plain = desk.at("plain")
        await plain.begin(payload="hello", **keyed)
        await plain.failure("unknown")
        for desk_of, given, is_told in (
            (desk.at("planned"), {}, True),
            (own, {"payload": secret}, True),
            (plain, {"payload": "hello"}, False),
        ):
            begun = await desk_of.begin(**given)
            assert begun["next"] == "perform"
            told = [warning for warning in begun.get("warnings", ()) if "placeholders" in warning]
            assert bool(told) is is_told
            assert all("never send one" in warning for warning in told)


async def test_a_word_of_no_effect_that_does_not_count_is_told_why(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        for number, (evidence, caller, why) in enumerate(
            [
                (None, AGENT, "counts only with evidence"),
                ({"status": 503}, AGENT, "5xx is no such evidence"),
                ({"status": 422}, ANOTHER, "not known as the holder"),
                ({"status": 422}, AGENT, None),
            ]
        ):
            at = desk.at(f"k{number}")
            await at.begin()
            told = await at.failure("none", evidence=evidence, caller=caller)
            assert [why is not None and why in warning for warning in told.get("warnings", ())] == (
                [True] if why else []
            )


async def test_whoever_has_the_evidence_after_all_is_told_to_send_it_and_it_counts(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        # A mail server's 550 is a refusal; under the name of an HTTP status it is none.
        told = await desk.failure("none", evidence={"status": 550})
        assert told["state"] == "in_doubt"
        assert "call record_failure again with it" in told["warnings"][0]
        assert (await desk.failure("none", evidence={"smtp_reply": "550 5.1.1"}))["state"] == "failed"


async def test_a_failure_in_doubt_that_may_be_repeated_says_so(tmp_path: Path) -> None:
    terms: list[tuple[dict[str, Any], bool]] = [
        ({"repeat": "keyed", "key_ttl_seconds": 9_000}, True),
        ({"repeat": "safe"}, True),
        ({"repeat": "safe", "max_attempts": 1}, False),
        ({}, False),
    ]
    async with open_desk(tmp_path) as desk:
        for number, (given, is_told) in enumerate(terms):
            at = desk.at(f"k{number}")
            await at.begin(**given)
            failed = await at.failure("unknown")
            assert (failed["next"], failed["reason"]) == ("reconcile", "in_doubt")
            assert ["begin_operation decides" in one for one in failed.get("warnings", ())] == [
                True
            ] * is_told
            assert ((await at.begin())["next"] == "perform") is is_told


async def test_a_final_failure_does_not_send_the_caller_into_a_begin_that_asks(tmp_path: Path) -> None:
    ended: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({}, {"retryable": False}, "ask"),
        ({"max_attempts": 1}, {}, "ask"),
        ({}, {}, "perform"),
    ]
    async with open_desk(tmp_path) as desk:
        for number, (terms, failure, next_) in enumerate(ended):
            at = desk.at(f"k{number}")
            await at.begin(**terms)
            told = await at.failure("none", evidence={"denied": "by the user"}, **failure)
            assert (told["next"], told["state"]) == ("continue", "failed")
            assert ("begin_operation answers ask" in told["guidance"]) is (next_ == "ask")
            assert ("call begin_operation again" in told["guidance"]) is (next_ == "perform")
            assert (await at.begin())["next"] == next_


async def test_what_depends_on_a_check_that_came_out_red_waits(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        tests, deploy = desk.at("tests"), desk.at("deploy")
        await tests.begin(action="ci.run", repeat="safe")
        red = await tests.failure("none", evidence={"failed": 3, "report": "ci-501"})
        assert (red["next"], red["state"]) == ("continue", "failed")
        assert (await deploy.begin(action="deploy", depends_on=("tests",)))["reason"] == "dependency"
        assert (await tests.begin(action="ci.run"))["reason"] == "retry_after_failure"
        await tests.receipt(attempt=2, kind="test_result", external_id="ci-502")
        assert (await deploy.begin(action="deploy"))["next"] == "perform"


async def test_a_list_without_steps_does_not_send_the_caller_to_their_next(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        journal, run = desk.journal, desk.run
        started = await journal.begin_run(BeginRun(run=run), AGENT)
        assert started["guidance"].startswith("Started. Nothing is open in this run")
        await desk.begin()
        for answer in (await desk.plan(), await journal.begin_run(BeginRun(run=run), AGENT)):
            assert "each step's next" in answer["guidance"]
        assert "resume_plan with it" in (await desk.plan(run=None))["guidance"]
        found = await journal.find_operations(FindOperations(text="email"), AGENT)
        assert "Operations of any run" in found["guidance"]
        await desk.receipt(attempt=1)
        for include in ("open", "all"):
            assert "finish_run" in (await desk.plan(include=include))["guidance"]
        await journal.finish_run(FinishRun(run=run, outcome="completed"), AGENT)
        assert (await desk.plan())["guidance"].startswith("This run is finished")


async def test_what_is_to_be_reviewed_is_said_wherever_it_may_be_acted_on(tmp_path: Path) -> None:
    then, now = {"model": "a", "spec": "1"}, {"model": "b", "spec": "2"}
    async with open_desk(tmp_path) as desk:

        async def begun(**given: Any) -> dict[str, Any]:
            return await desk.journal.begin_run(BeginRun(run=desk.run, **given), AGENT)

        async def is_told() -> bool:
            return "to review" in str((await desk.plan()).get("warnings"))

        await begun(context=then, plan=(PlanStep(key=desk.key, action="email.send"),))
        assert not await is_told()
        assert "to review" not in str((await begun(context={**then, "model": "b"})).get("warnings"))
        assert "begin_run with accept_drift" in str((await begun(context=now))["warnings"])
        assert await is_told()
        assert "to review" in str((await desk.begin())["warnings"])
        accepted = await begun(context=now, accept_reason="looked at the steps: unchanged")
        assert "to review" not in str(accepted.get("warnings"))
        assert not await is_told()


async def test_a_refused_close_says_that_it_was_not_closed_and_what_would_be(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        await desk.failure("unknown")
        refused = await desk.close("cancelled")
        assert (refused["next"], refused["state"]) == ("reconcile", "in_doubt")
        [why] = refused["warnings"]
        assert "was not closed" in why
        assert "close it as timed_out" in why
        closed = await desk.close("timed_out")
        assert (closed["state"], closed.get("warnings")) == ("timed_out", None)


def test_a_tool_outside_the_core_is_named_with_where_it_is_offered() -> None:
    further = {tool.name for tool in ALL_TOOLS} - {tool.name for tool in CORE_TOOLS}
    everything = [*GUIDANCE.values(), *answers.REQUESTED.values(), *answers.RECORDED.values()]
    # The end of a hold is told to the person who ended it.
    named = (getattr(answers, name) for name in answers.__all__ if name != "HOLD_ENDED")
    everything += [words for words in named if isinstance(words, str)]
    for words in everything:
        if any(tool in words for tool in further):
            assert "tool is offered" in words, words


async def test_whoever_undoes_by_key_is_given_the_id(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        booked = await desk.at("book:flight").begin(action="flight.book", undo=Undo(tool="flight.cancel"))
        await desk.at("book:flight").receipt(attempt=1)
        cancel = desk.at("cancel:flight")
        for named in ({"compensates": "book:flight"}, {"distinct_from": ("book:flight",)}):
            with pytest.raises(InvalidArgument) as refused:
                await cancel.begin(action="flight.cancel", **named)
            assert f"for that key of this run it is {booked['operation']}" in refused.value.fix
        with pytest.raises(InvalidArgument) as refused:
            await cancel.begin(action="flight.cancel", compensates="https://airline.example/pnr")
        assert "op_" not in refused.value.fix
        assert (await desk.at("book:flight").check())["undo"] == {"tool": "flight.cancel", "detail": "undo"}


async def test_a_check_says_that_a_checkpoint_is_on_file(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        assert not {"checkpoint", "undo"} & (await desk.check()).keys()
        await desk.progress(attempt=1, checkpoint={"parts": 4})
        assert (await desk.check())["checkpoint"] == "check_operation detail checkpoint"
        assert '"parts"' in (await desk.check(detail="checkpoint"))["content"]


async def test_a_plan_says_what_it_could_not_alter(tmp_path: Path) -> None:
    lookup = Lookup(tool="search", args={"q": "x"}, settle_seconds=60)
    step = PlanStep(
        key="mail",
        action="email.send",
        target="alice@example.org",
        payload="one",
        repeat="keyed",
        key_ttl_seconds=900,
        lookup=lookup,
        satisfies=("C1",),
    )
    bare = PlanStep(key="bare", action="email.send")
    changes: list[tuple[PlanStep, str]] = [
        (replace(step, payload="two"), "payload"),
        (replace(step, repeat="unsafe", max_attempts=2), "repeat, max_attempts"),
        (replace(step, key_ttl_seconds=100, deadline_seconds=50), "key_ttl_seconds, deadline_seconds"),
        (replace(step, lookup=replace(lookup, tool="other"), undo=Undo(tool="recall")), "lookup, undo"),
        (replace(step, lookup=replace(lookup, settle_seconds=90)), "settle_seconds"),
        (replace(step, depends_on=("bare",), satisfies=("C1", "C2")), "depends_on, satisfies"),
        (replace(bare, target="bob@example.org", args={"n": 1}), "target, args"),
    ]
    async with open_desk(tmp_path) as desk:

        async def told(*plan: PlanStep) -> list[str]:
            answer = await desk.journal.begin_run(BeginRun(run=desk.run, plan=plan), AGENT)
            return list(answer.get("warnings", ()))

        assert await told(step, bare) == []
        assert await told(step, bare, PlanStep(key="mail2", action="a")) == []
        for changed, names in changes:
            [warning] = await told(changed)
            assert f"a plan alters nothing: {names} as given here did not count" in warning
        assert await told(step, bare) == []
        await desk.at("mail").begin(target="alice@example.org", payload="one")
        assert await told(step) == []
        clash = replace(step, action="email.other", target="bob@example.org")
        answer = await desk.journal.begin_run(BeginRun(run=desk.run, plan=(clash,)), AGENT)
        assert [one["differs"] for one in answer["conflict"]] == [["action", "target"]]
        assert "warnings" not in answer
        many = [PlanStep(key=f"k{n}", action="a", target=f"t{n}") for n in range(8)]
        await told(*many)
        *each, rest = await told(*(replace(one, payload="reworded") for one in many))
        assert (len(each), rest) == (5, "so it is with 3 more steps of this plan")


async def test_who_did_something_is_answered_of_the_operation_that_did_it(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        begun = await desk.begin()
        await desk.receipt(attempt=1)
        other = desk.at("other", run="another")
        await other.begin(action="a")

        async def owner(run: str | None = None, key: str | None = None, **given: str) -> str:
            ref = OperationRef(run=run, key=key)
            command = CheckOperation(ref=ref, external_id="m-1", **given)
            return str((await desk.journal.check_operation(command, AGENT))["operation"])

        for place in ({}, {"run": desk.run}, {"run": desk.run, "key": desk.key}):
            assert await owner(**place) == await owner(system="smtp", **place) == begun["operation"]
            with pytest.raises(NotFound):
                await owner(system="imap", **place)
        for place in ({"run": "another"}, {"run": "another", "key": "other"}):
            with pytest.raises(NotFound) as refused:
                await owner(**place)
            assert "does not prove" in refused.value.message


async def test_an_unannounced_receipt_is_told_what_it_may_be_a_second_effect_of(tmp_path: Path) -> None:
    alice: dict[str, Any] = {"action": "email.send", "target": "alice@example.org"}
    async with open_desk(tmp_path) as desk:
        begun = await desk.begin(**alice)
        await desk.failure("unknown")
        told = await desk.at("mail-to-alice").receipt(**alice)
        assert told["state"] == "succeeded"
        [warning] = told["warnings"]
        assert warning.startswith(
            f"{begun['operation']} is on record with the same fingerprint and is in_doubt"
        )
        assert "warnings" not in await desk.at("mail-to-alice").receipt(**alice)
        assert "warnings" not in await desk.at("bob").receipt(
            action="email.send", target="bob@example.org", external_id="m-2"
        )


async def test_only_what_is_to_be_sent_is_said_to_be_sent_unchanged(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(payload="x" * 3_000)
        await desk.progress(attempt=1, checkpoint={"text": "y" * 3_000})
        again = await desk.begin(payload="x" * 3_000)
        assert again["recorded"]["payload"]["whole"].endswith("from offset 0 on; send that, unchanged")
        assert again["checkpoint"]["whole"].endswith("detail checkpoint, from offset 0 on")


async def test_plans_and_checks_say_as_a_begin_does_that_there_is_nothing_to_undo(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        done = await desk.begin()
        await desk.receipt(attempt=1)
        undo = desk.at("undo", run="undoings")
        recall: dict[str, Any] = {"action": "email.recall", "compensates": done["operation"]}
        await undo.begin(**recall)
        await undo.failure("none", evidence={"status": 422})

        async def seen() -> list[tuple[str, str, list[str]]]:
            [step] = (await undo.plan())["steps"]
            answers = [await undo.check(), step]
            return [(one["next"], one["reason"], one.get("warnings", [])) for one in answers]

        assert await seen() == [("begin", "retry_after_failure", [])] * 2
        await desk.receipt(attempt=1, external_id="m-2")
        why = [f"only what succeeded is undone, and {done['operation']} is disputed"]
        assert await seen() == [("stop", "unmet", why)] * 2
        begun = await undo.begin(**recall)
        assert (begun["next"], begun["reason"], begun["warnings"]) == ("stop", "unmet", why)
