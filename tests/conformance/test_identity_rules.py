"""What makes two calls one operation, two keys one effect, and two attempts one request (CONTRACT.md, 2)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance import states_reaching as to
from conformance.states_reaching import KEYED, LOOKUP, MESSAGE, REFUSED, SAFE, looked
from counterfoil.store.domain.commands import Caller, Lookup
from counterfoil.store.domain.identity import operation_id
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import InvalidArgument, TooLarge
from journals import (
    AGENT,
    ANOTHER,
    PERSON,
    Desk,
    FakeClock,
    after,
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


def words(answer: dict[str, Any]) -> str:
    return f"{answer['next']} {answer['reason']}"


# one operation


async def test_another_journal_gives_the_same_id_and_the_same_key(tmp_path: Path) -> None:
    found = []
    for name in ("one.db", "other.db"):
        async with open_desk(tmp_path, name=name) as desk:
            begun = await desk.begin()
            found.append((begun["operation"], begun["idempotency_key"]))
    assert found[0] == found[1]
    assert found[0][0].startswith("op_")
    assert len(found[0][0]) == 23


@pytest.mark.parametrize("field", ["action", "target"])
@pytest.mark.parametrize("text", ["\0", "\0mail.send"])
async def test_what_a_journal_would_take_for_no_text_is_refused_by_its_name(
    tmp_path: Path, field: str, text: str
) -> None:
    async with open_desk(tmp_path) as desk:
        with pytest.raises(InvalidArgument) as refused:
            await desk.begin(**{field: text})
        assert refused.value.recorded is False
        assert "NUL" in refused.value.message
        assert words(await desk.begin()) == "perform first_attempt"


async def test_a_text_of_the_whole_length_is_kept_as_payload_whatever_its_characters(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        assert words(await desk.begin(payload="\n" * 262_144)) == "perform first_attempt"
        with pytest.raises(TooLarge, match="262145 bytes"):
            await desk.at("key-2").begin(payload="\n" * 262_145)


async def test_nothing_crosses_namespaces(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        begun = await desk.begin()
        await desk.receipt()
    async with open_desk(tmp_path, clock=clock, namespace="another") as desk:
        other = await desk.begin()
        assert words(other) == "perform first_attempt"
        assert other["operation"] != begun["operation"]
        assert other["idempotency_key"] != begun["idempotency_key"]
        assert words(await desk.receipt()) == "continue recorded"


@pytest.mark.parametrize("key", ["  key 1 ", "key\u00a01", "key  1", "key\t1", "\u006bey 1"])
async def test_names_that_differ_only_in_form_are_one_name(tmp_path: Path, key: str) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.at("key 1").begin(target="alice@example.org")
        assert words(await desk.at(key).begin(target="alice@example.org")) == "wait lease_held_by_you"


@pytest.mark.parametrize("key", ["key\u200b1", "key\u202e1", "\ufeffkey1", "", "x" * 201])
async def test_names_that_hide_something_are_refused(tmp_path: Path, key: str) -> None:
    async with open_desk(tmp_path) as desk:
        with pytest.raises(InvalidArgument, match="key"):
            await desk.at(key).begin()
        assert (await desk.plan())["reason"] == "no_history"


# one effect under a key


@pytest.mark.parametrize(
    "args",
    [
        {"b": [1, 2], "a": {"y": None, "x": 10}},
        {"a": {"x": 10.0, "y": None}, "b": [1.0, 2]},
        {"a": {"x": 1e1, "y": None}, "b": [1, 2]},
    ],
    ids=["other order", "other numerals", "an exponent"],
)
async def test_forms_of_one_value_are_one_effect(tmp_path: Path, args: dict[str, Any]) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(args={"a": {"x": 10, "y": None}, "b": [1, 2]})
        assert words(await desk.begin(args=args)) == "wait lease_held_by_you"


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ({"a": {"x": "10", "y": None}, "b": [1, 2]}, "/args/a/x"),
        ({"a": {"x": 10}, "b": [1, 2]}, "/args/a/y"),
        ({"a": {"x": 10, "y": None}, "b": [2, 1]}, "/args/b/0"),
        ({"a": {"x": 10, "y": None}, "b": [1, 2, 3]}, "/args/b/2"),
        ({"a": {"x": True, "y": None}, "b": [1, 2]}, "/args/a/x"),
    ],
    ids=["text for a number", "missing for null", "another order of items", "one more", "true for a number"],
)
async def test_another_value_is_a_conflict_that_names_its_path(
    tmp_path: Path, args: dict[str, Any], path: str
) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(args={"a": {"x": 10, "y": None}, "b": [1, 2]})
        answer = await desk.begin(args=args)
        assert words(answer) == "stop identity_conflict"
        assert path in [entry["path"] for entry in answer["conflict"]]
        assert (await desk.check())["attempts_in_all"] == 1


@pytest.mark.parametrize(
    "reach", [to.begun, to.lapsed, to.refused, to.succeeded, to.failed_and_cancelled, to.disputed_by_receipt]
)
@pytest.mark.parametrize(
    "other",
    [{"action": "email.draft"}, {"target": "bob@example.org"}, {"args": {"to": "bob"}}],
    ids=["action", "target", "args"],
)
async def test_another_effect_under_the_key_is_a_conflict_in_every_state(
    tmp_path: Path, reach: Any, other: dict[str, Any]
) -> None:
    async with open_desk(tmp_path) as desk:
        await reach(desk, **SAFE)
        state = await desk.state()
        answer = await desk.begin(**other)
        assert words(answer) == "stop identity_conflict"
        assert answer["conflict"]
        assert await desk.state() == state


async def test_a_planned_step_takes_what_its_plan_left_out_and_nothing_else(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.at("first").begin()
        await desk.begin(target=None, payload="the plan's words", depends_on=("first",))
        await desk.at("first").receipt(external_id="first-1")
        answer = await desk.begin(action="email.draft")
        assert words(answer) == "stop identity_conflict"
        answer = await desk.begin(target="alice@example.org", args={"n": 1}, payload="other words")
        assert words(answer) == "perform first_attempt"
        assert answer["recorded"] == {"args": {"n": 1}, "payload": "the plan's words"}
        assert words(await desk.begin(target="bob@example.org", args={"n": 1})) == "stop identity_conflict"


async def test_a_payload_in_other_words_is_the_same_effect_and_the_recorded_one_is_sent(
    tmp_path: Path,
) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(payload="Dear Alice,")
        await desk.failure("none", evidence=REFUSED)
        answer = await desk.begin(payload="Hi Alice!")
        assert words(answer) == "perform retry_after_failure"
        assert answer["recorded"]["payload"] == "Dear Alice,"
        assert any("payload" in warning for warning in answer["warnings"])


# terms only tighten


async def repeat_is(desk: Desk) -> str | None:
    return (await desk.check()).get("repeat")


@pytest.mark.parametrize(
    ("first", "later", "stands"),
    [
        ({}, "safe", "unsafe"),
        ({}, "keyed", "unsafe"),
        ({"repeat": "unsafe"}, "safe", "unsafe"),
        ({"repeat": "keyed", "key_ttl_seconds": A_DAY}, "safe", "keyed"),
        ({"repeat": "keyed", "key_ttl_seconds": A_DAY}, "unsafe", "unsafe"),
        ({"repeat": "safe"}, "keyed", "keyed"),
        ({"repeat": "safe"}, "unsafe", "unsafe"),
    ],
)
async def test_a_later_call_makes_repeating_stricter_and_never_looser(
    tmp_path: Path, first: dict[str, Any], later: str, stands: str
) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(**first)
        ttl = {"key_ttl_seconds": A_DAY} if later == "keyed" else {}
        answer = await desk.begin(repeat=later, **ttl)
        assert await repeat_is(desk) == stands
        assert any("repeat" in warning for warning in answer.get("warnings", ())) == (stands != later)
        desk.clock.advance(300)
        expected = {"unsafe": "reconcile in_doubt", "keyed": "perform repeat_keyed"}[stands]
        assert words(await desk.begin()) == expected


async def test_a_keys_life_is_only_shortened(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(repeat="keyed", key_ttl_seconds=A_DAY)
        await desk.begin(repeat="keyed", key_ttl_seconds=2 * A_DAY)
        assert (await desk.check())["repeat_until"] == after(A_DAY - SETTLE)
        await desk.begin(repeat="keyed", key_ttl_seconds=3_600)
        assert (await desk.check())["repeat_until"] == after(3_600 - SETTLE)


async def test_keyed_without_the_life_of_the_key_is_refused(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        with pytest.raises(InvalidArgument, match="key_ttl_seconds"):
            await desk.begin(repeat="keyed")


async def test_a_settle_time_is_only_lengthened_and_conclusive_only_turned_off(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(lookup=Lookup(tool="search_sent", conclusive=True, settle_seconds=100))
        await desk.failure("unknown")
        assert (await desk.check())["settle_until"] == after(0)
        await desk.begin(lookup=Lookup(tool="search_sent", settle_seconds=10))
        await desk.begin(lookup=Lookup(tool="search_sent", conclusive=False, settle_seconds=10))
        assert (await desk.check())["settle_until"] == after(100)
        await desk.begin(lookup=Lookup(tool="search_sent", conclusive=True, settle_seconds=500))
        assert (await desk.check())["settle_until"] == after(500)


async def test_a_lookup_may_be_added_later_but_not_as_conclusive(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.lapsed(desk)
        await desk.begin(lookup=Lookup(tool="search_sent", conclusive=True))
        assert (await desk.check())["settle_until"] == after(300 + SETTLE)
        desk.clock.advance(SETTLE)
        assert words(await looked(desk, "not_performed")) == "continue recorded"


async def test_attempts_are_only_made_fewer(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(max_attempts=2)
        await desk.begin(max_attempts=5)
        await desk.failure("none", evidence=REFUSED)
        assert words(await desk.begin()) == "perform retry_after_failure"
        await desk.failure("none", attempt=2, evidence=REFUSED)
        assert words(await desk.begin()) == "ask attempts_exhausted"


async def test_a_deadline_is_only_made_earlier(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(deadline_seconds=1_000)
        await desk.begin(deadline_seconds=5_000)
        desk.clock.advance(1_000)
        assert await desk.state() == "timed_out"


@pytest.mark.parametrize("reach", [to.lapsed, to.refused, to.reported_unknown])
@pytest.mark.parametrize("terms", [{}, KEYED, SAFE], ids=["unsafe", "keyed", "safe"])
async def test_a_deadline_that_has_passed_when_it_is_given_ends_the_waiting(
    tmp_path: Path, reach: Any, terms: dict[str, Any]
) -> None:
    async with open_desk(tmp_path) as desk:
        await reach(desk, **terms)
        desk.clock.advance(600)
        answer = await desk.begin(deadline_seconds=60)
        assert (words(answer), answer["state"]) == ("skip timed_out", "timed_out")
        assert (await desk.check())["attempts_in_all"] == 1
        assert (await desk.journal.reader.verify()).faults == ()


# look-alikes

LOOK_ALIKES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "the same effect": ({"args": {"n": 1}}, {"args": {"n": 1}}, "fingerprint"),
    "the same target, other args": ({"args": {"n": 1}}, {"args": {"n": 2}}, "target"),
    "case": ({}, {"target": "ALICE@Example.ORG"}, "target"),
    "outer white space": ({}, {"target": " alice@example.org\n"}, "fingerprint"),
    "mailto": ({}, {"target": "mailto:alice@example.org"}, "target"),
    "a display name": ({}, {"target": "Alice <alice@example.org>"}, "target"),
    "compatibility letters": ({}, {"target": "\uff41lice@example.org"}, "target"),
    "a scheme": ({"target": "https://example.org/x"}, {"target": "example.org/x"}, "target"),
    "a trailing slash": ({"target": "https://example.org/x"}, {"target": "https://example.org/x/"}, "target"),
    "args, one without a target": ({"args": {"n": 1}}, {"target": None, "args": {"n": 1}}, "args"),
    "args, one target inside the other": (
        {"args": {"n": 1}},
        {"target": "alice@example.org, team", "args": {"n": 1}},
        "args",
    ),
}


@pytest.mark.parametrize(("one", "other", "same"), LOOK_ALIKES.values(), ids=LOOK_ALIKES.keys())
async def test_an_effect_under_another_key_is_recognised(
    tmp_path: Path, one: dict[str, Any], other: dict[str, Any], same: str
) -> None:
    async with open_desk(tmp_path) as desk:
        begun = await desk.begin(**{"target": "alice@example.org", **one})
        await desk.receipt()
        invented = desk.at("invented")
        answer = await invented.begin(caller=ANOTHER, **{"target": "alice@example.org", **other})
        assert words(answer) == "stop possible_duplicate"
        assert [(found["operation"], found["state"], found["same"]) for found in answer["duplicates"]] == [
            (begun["operation"], "succeeded", same)
        ]
        assert answer["duplicates"][0]["settled_at"] == after(0)
        assert [step["key"] for step in (await desk.plan())["steps"]] == ["key-1"]


@pytest.mark.parametrize(
    "other",
    [
        {"action": "email.draft", "target": "alice@example.org"},
        {"target": "bob@example.org"},
        {"target": "bob@example.org", "args": {"n": 1}},
    ],
    ids=["another action", "another target", "another target, the same args"],
)
async def test_another_effect_is_not_taken_for_a_look_alike(tmp_path: Path, other: dict[str, Any]) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(target="alice@example.org", args={"n": 1})
        assert words(await desk.at("other").begin(**other)) == "perform first_attempt"


async def test_the_same_effect_in_another_run_is_only_mentioned(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        begun = await desk.begin(target="alice@example.org")
        answer = await desk.at("key-1", run="run-2").begin(target="alice@example.org")
        assert words(answer) == "perform first_attempt"
        assert any(begun["operation"] in warning for warning in answer["warnings"])


@pytest.mark.parametrize(("others", "are_more"), [(3, False), (4, True)])
async def test_that_more_runs_have_the_same_effect_is_said(
    tmp_path: Path, others: int, are_more: bool
) -> None:
    async with open_desk(tmp_path) as desk:
        elsewhere = [desk.at("key", run=f"other-{number}") for number in range(others)]
        for other in elsewhere:
            await other.begin(target="alice@example.org")
        answer = await desk.begin(target="alice@example.org")
        assert words(answer) == "perform first_attempt"
        told = [warning for warning in answer["warnings"] if "in another run" in warning]
        assert len(told) == 3
        assert all("(in other-" in warning for warning in told)
        assert (answer["warnings"][-1] == "there are more: find_operations shows them") == are_more


@pytest.mark.parametrize(("others", "are_more"), [(5, False), (6, True)])
async def test_that_more_of_the_callers_operations_are_open_is_said(
    tmp_path: Path, others: int, are_more: bool
) -> None:
    async with open_desk(tmp_path) as desk:
        for number in range(others):
            await desk.at(f"open-{number}").begin()
        warnings = (await desk.begin())["warnings"]
        newest = await desk.at(f"open-{others - 1}").check()
        assert warnings[0] == (
            f"open without an outcome: {newest['operation']} (open-{others - 1}): "
            "record its receipt or failure"
        )
        assert len(warnings) == 5 + are_more
        assert (warnings[-1] == "there are more: resume_plan shows them") == are_more


async def test_naming_the_other_tells_them_apart_and_holds_both_ways(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        first = desk.at("first")
        begun = await first.begin(target=None, args={"n": 1})
        await first.failure("none", evidence=REFUSED)
        second = desk.at("second")
        told = (begun["operation"],)
        assert words(await second.begin(target=None, args={"n": 1})) == "stop possible_duplicate"
        answer = await second.begin(target=None, args={"n": 1}, distinct_from=told)
        assert words(answer) == "perform first_attempt"
        assert words(await second.begin(target=None, args={"n": 1})) == "wait lease_held_by_you"
        assert words(await first.begin(target=None, args={"n": 1})) == "perform retry_after_failure"
        third = await desk.at("third").begin(target=None, args={"n": 1}, distinct_from=told)
        assert [found["key"] for found in third["duplicates"]] == ["second"]


async def test_what_the_older_operation_said_tells_the_newer_apart_too(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        later = operation_id("default", "run-1", "later")
        await desk.begin(target="alice@example.org", distinct_from=(later,))
        answer = await desk.at("later").begin(target="alice@example.org")
        assert (words(answer), answer["operation"]) == ("perform first_attempt", later)
        assert words(await desk.at("third").begin(target="alice@example.org")) == "stop possible_duplicate"


@pytest.mark.parametrize("reach", [to.lapsed, to.reported_unknown, to.disputed_by_receipt])
@pytest.mark.parametrize("by", ["its id", "*"])
async def test_the_same_effect_that_is_in_question_cannot_be_set_aside(
    tmp_path: Path, reach: Any, by: str
) -> None:
    async with open_desk(tmp_path) as desk:
        await reach(desk)
        operation = (await desk.check())["operation"]
        told = operation if by == "its id" else "*"
        answer = await desk.at("other").begin(target="key-1@example.org", distinct_from=(told,))
        assert words(answer) == "stop possible_duplicate"
        assert "No distinct_from sets it aside" in answer["guidance"]
        assert "reconcile it first" in answer["guidance"]


@pytest.mark.parametrize(
    ("reach", "expected"),
    [
        (to.succeeded, "perform first_attempt"),
        (to.failed_and_cancelled, "perform first_attempt"),
        (to.begun, "stop possible_duplicate"),
        (to.refused, "stop possible_duplicate"),
    ],
)
async def test_the_star_covers_settled_operations_only(tmp_path: Path, reach: Any, expected: str) -> None:
    async with open_desk(tmp_path) as desk:
        await reach(desk)
        answer = await desk.at("other").begin(target="key-1@example.org", distinct_from=("*",))
        assert words(answer) == expected
        assert ("distinct_from naming its id" in answer["guidance"]) == (answer["next"] == "stop")


async def test_the_next_of_a_series_in_one_conversation_is_only_mentioned(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        begun = await desk.begin(target="alice@example.org", args={"n": 1})
        next_one = desk.at("key-2")
        fields = {"target": "alice@example.org", "args": {"n": 2}}
        assert words(await next_one.begin(**fields)) == "stop possible_duplicate"
        await desk.receipt()
        assert words(await next_one.begin(caller=ANOTHER, **fields)) == "stop possible_duplicate"
        unknown = Caller(connection=AGENT.connection)
        assert words(await next_one.begin(caller=unknown, **fields)) == "stop possible_duplicate"
        answer = await next_one.begin(**fields)
        assert words(answer) == "perform first_attempt"
        assert any(begun["operation"] in warning for warning in answer["warnings"])


async def test_a_second_undoing_of_one_effect_is_a_duplicate_in_any_run(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        operation = (await desk.begin())["operation"]
        await desk.receipt()
        first = await desk.at("undo").begin(compensates=operation)
        other = desk.at("undo", run="another-run")
        answer = await other.begin(action="email.recall", compensates=operation)
        assert words(answer) == "stop possible_duplicate"
        found = answer["duplicates"][0]
        assert (found["operation"], found["same"]) == (first["operation"], "compensates")
        told = (first["operation"],)
        answer = await other.begin(action="email.recall", compensates=operation, distinct_from=told)
        assert words(answer) == "perform first_attempt"


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("fingerprint", "perform first_attempt"),
        ("off", "perform first_attempt"),
        ("target", "stop possible_duplicate"),
    ],
)
async def test_what_counts_as_a_look_alike_is_configured(tmp_path: Path, how: str, expected: str) -> None:
    async with open_desk(tmp_path, policy=Policy(duplicates=(("chat.*", how),))) as desk:
        await desk.begin(action="chat.post", target="#general", args={"n": 1})
        answer = await desk.at("other").begin(action="chat.post", target="#general", args={"n": 2})
        assert words(answer) == expected


# one request: the idempotency key


async def keys_of(desk: Desk) -> list[str]:
    return [attempt["idempotency_key"] for attempt in (await desk.check())["attempts"]]


async def test_the_key_changes_once_every_attempt_under_it_was_answered_without_effect(
    tmp_path: Path,
) -> None:
    async with open_desk(tmp_path) as desk:
        await to.retried(desk, **KEYED)
        first, second = await keys_of(desk)
        assert first != second


async def test_silence_never_changes_the_key_while_it_is_alive(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.looked_up_and_not_found(desk, **KEYED)
        assert words(await desk.begin()) == "perform retry_after_failure"
        first, second = await keys_of(desk)
        assert first == second
        await desk.failure("none", attempt=2, evidence=REFUSED)
        await desk.begin()
        assert (await keys_of(desk))[-1] == first


async def test_silence_changes_the_key_once_it_is_over(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.looked_up_and_not_found(desk, **KEYED)
        desk.clock.advance(A_DAY)
        await desk.begin()
        first, second = await keys_of(desk)
        assert first != second


async def test_a_key_under_which_one_attempt_is_unknown_stays(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.repeated_and_refused(desk)
        await desk.begin()
        assert len(set(await keys_of(desk))) == 1


async def test_an_unsafe_effect_keeps_its_key_over_silence(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.looked_up_and_not_found(desk)
        desk.clock.advance(30 * A_DAY)
        await desk.begin()
        assert len(set(await keys_of(desk))) == 1


async def test_a_new_key_lives_its_own_life(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await to.refused(desk, **KEYED)
        desk.clock.advance(A_DAY)
        assert (await desk.begin())["repeat_until"] == after(2 * A_DAY - SETTLE)


# one call


async def test_a_call_sent_again_gets_the_same_grant(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        first = await desk.begin(caller=to.CALL)
        again = await desk.begin(caller=to.CALL)
        assert (words(again), again["replayed"]) == ("perform replayed", True)
        for name in ("attempt", "idempotency_key", "send_before"):
            assert again[name] == first[name]
        assert (await desk.check())["attempts_in_all"] == 1


@pytest.mark.parametrize(
    "record",
    [
        lambda desk: desk.receipt(external_id=None),
        lambda desk: desk.receipt(final=False),
    ],
    ids=["a claim", "an acknowledgement"],
)
async def test_a_call_is_not_granted_again_once_anything_is_recorded_on_it(
    tmp_path: Path, record: Any
) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(caller=to.CALL)
        await record(desk)
        assert words(await desk.begin(caller=to.CALL)) == "wait lease_held_by_you"


async def test_the_call_of_another_conversation_is_not_the_same_call(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(caller=to.CALL)
        stranger = Caller(connection=AGENT.connection, conversation="conversation-2", call_id=to.CALL.call_id)
        assert words(await desk.begin(caller=stranger)) == "wait lease_held"


@pytest.mark.parametrize("terms", [{}, KEYED, SAFE], ids=["unsafe", "keyed", "safe"])
@pytest.mark.parametrize(
    "caller", [to.CALL, Caller(connection="c-9", call_id=to.CALL.call_id)], ids=["its own", "any"]
)
async def test_a_call_never_gets_a_second_attempt(
    tmp_path: Path, terms: dict[str, Any], caller: Caller
) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin(caller=to.CALL, **terms)
        desk.clock.advance(300)
        assert (await desk.begin(caller=caller))["next"] != "perform"
        await desk.reconcile("not_performed", caller=PERSON)
        assert words(await desk.begin(caller=caller)) == "stop superseded"
        await desk.begin()
        assert (await desk.begin(caller=caller))["next"] == "wait"
        assert (await desk.check())["attempts_in_all"] == 2


@pytest.mark.parametrize("name", ["key-1-of-sixteen-characters", "run-1-of-sixteen-characters"])
async def test_a_call_id_is_neither_the_key_nor_the_run(tmp_path: Path, name: str) -> None:
    async with open_desk(tmp_path) as desk:
        step = desk.at("key-1-of-sixteen-characters", run="run-1-of-sixteen-characters")
        with pytest.raises(InvalidArgument, match="call_id"):
            await step.begin(caller=Caller(connection="c-1", call_id=name))


async def test_a_finding_with_a_receipt_is_one_receipt_however_often_it_comes(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk, open_test_journal(tmp_path, clock=desk.clock) as elsewhere:
        await to.lapsed(desk, **LOOKUP)
        await desk.reconcile("performed", **MESSAGE)
        await desk.again()
        await Desk(elsewhere, desk.clock).receipt(caller=ANOTHER)
        assert len((await desk.check())["receipts"]) == 1
