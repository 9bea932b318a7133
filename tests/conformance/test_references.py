"""What a reference is, and that none is lost: inside a denial, or beside an acknowledgement."""

from functools import partial

import pytest

from counterfoil.store.domain.commands import BeginRun, CheckOperation, Lookup, OperationRef, PlanStep
from counterfoil.store.domain.model import Assurance
from counterfoil.store.domain.states import Policy
from journals import AGENT, ANOTHER, PERSON, as_caller, open_desk

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]

LOOKUP = Lookup(tool="search_sent", settle_seconds=0)
MESSAGE = {"kind": "message", "system": "smtp"}


@pytest.mark.parametrize("finding", ["not_performed", "inconclusive"])
async def test_a_receipt_inside_a_denial_is_kept_and_counts(tmp_path, finding):
    async with open_desk(tmp_path) as desk:
        await desk.begin(lookup=LOOKUP)
        await desk.failure("unknown")
        check = await desk.check()

        answer = await desk.reconcile(finding, as_of=check["as_of"], external_id="m-1", **MESSAGE)

        assert (answer["next"], answer["state"]) == ("continue", "succeeded")
        assert "the receipt counts" in answer["warnings"][0]
        assert (await desk.check())["receipts"][0]["external_id"] == "m-1"
        assert (await desk.begin(lookup=LOOKUP))["next"] == "skip"


@pytest.mark.parametrize(
    "external_id",
    ["\u200b", "\ufeff", "\u3164", "-", ".", "n/a", "NULL", "None", "unknown", "ok", "  "],
    ids=ascii,
)
async def test_what_nobody_can_look_up_is_no_reference(tmp_path, external_id):
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        answer = await desk.receipt(external_id=external_id)
        assert (answer["next"], answer["reason"]) == ("reconcile", "receipt_too_weak")
        assert answer["state"] == "in_progress"


async def test_the_operations_own_id_is_no_reference_of_another_system(tmp_path):
    async with open_desk(tmp_path) as desk:
        begun = await desk.begin()
        answer = await desk.receipt(external_id=begun["operation"])
        assert answer["reason"] == "receipt_too_weak"


async def test_the_same_acknowledgement_again_postpones_nothing(tmp_path):
    async with open_desk(tmp_path) as desk:
        await desk.begin(lookup=LOOKUP)
        await desk.failure("unknown")
        await desk.receipt(external_id="q-1", final=False)
        before = (await desk.check())["settle_until"]
        desk.clock.advance(5)

        answer = await desk.receipt(external_id="q-1", final=False)

        assert (answer["next"], answer["reason"]) == ("continue", "duplicate")
        assert (await desk.check())["settle_until"] == before


async def test_a_receipt_after_an_acknowledgement_belongs_to_what_was_acknowledged(tmp_path):
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        await desk.failure("none", evidence={"status": 422})
        assert (await desk.receipt(external_id="q-1", final=False))["state"] == "in_doubt"
        answer = await desk.receipt(external_id="m-1")
        assert (answer["reason"], answer["state"]) == ("recorded", "succeeded")


async def test_the_holders_own_receipt_ends_its_attempt_for_a_person_too(tmp_path):
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        await desk.receipt(external_id="m-1")
        assert (await desk.receipt(external_id="m-2"))["next"] == "ask"

        answer = await desk.reconcile("not_performed", caller=PERSON)

        assert (answer["reason"], answer["state"]) == ("recorded", "failed")


async def test_a_strangers_receipt_does_not_end_the_holders_attempt(tmp_path):
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        await desk.receipt(external_id="m-1", caller=ANOTHER)
        attempt = (await desk.check())["attempts"][0]
        assert "ended_at" not in attempt


async def test_finds_below_the_required_assurance_are_a_persons_question_in_the_end(tmp_path):
    policy = Policy(assurance=(("*", Assurance.VERIFIED),))
    async with open_desk(tmp_path, policy=policy) as desk:
        await desk.begin(lookup=LOOKUP)
        await desk.failure("unknown")
        said = []
        for _ in range(3):
            desk.clock.advance(1)
            check = await desk.check()
            answer = await desk.reconcile("performed", as_of=check["as_of"], external_id="m-1", **MESSAGE)
            said.append((answer["next"], answer["reason"]))
        weak = ("reconcile", "receipt_too_weak")
        assert said == [weak, weak, ("ask", "unresolved")]
        assert (await desk.begin(lookup=LOOKUP))["reason"] == "unresolved"


async def test_the_holder_is_told_that_the_lease_is_its_own_wherever_it_looks(tmp_path):
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        assert (await desk.check())["reason"] == "lease_held_by_you"
        assert (await desk.plan())["steps"][0]["reason"] == "lease_held_by_you"
        assert (await desk.check(caller=ANOTHER))["reason"] == "lease_held"
        assert (await desk.plan(caller=ANOTHER))["steps"][0]["reason"] == "lease_held"


async def test_an_integer_of_any_length_is_kept_exactly_and_shown_again(tmp_path):
    long = 10**5_000 + 7
    async with open_desk(tmp_path) as desk:
        first = await desk.begin(args={"a": long}, lookup=Lookup(tool="t", args={"b": long}))
        assert first["next"] == "perform"
        await desk.receipt(external_id="m-1", evidence={"c": long})

        assert (await desk.begin(args={"a": long}))["next"] == "skip"
        assert (await desk.begin(args={"a": long + 1}))["reason"] == "identity_conflict"
        for detail in ("args", "lookup", "evidence"):
            text, offset = "", 0
            while offset is not None:
                page = await desk.check(detail=detail, offset=offset)
                text, offset = text + page["content"], page.get("next_offset")
            assert "1" + "0" * 4_999 + "7" in text


async def test_a_look_without_its_time_says_what_is_missing(tmp_path):
    async with open_desk(tmp_path) as desk:
        await desk.begin(lookup=LOOKUP)
        await desk.failure("unknown")
        answer = await desk.reconcile("not_performed", caller=AGENT)
        assert answer["reason"] == "settling"
        assert "as_of is missing" in answer["warnings"][0]


async def test_the_history_tells_times_and_assurance_in_words(tmp_path):
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        await desk.receipt(external_id="m-1")
        history = (await desk.check(detail="full"))["history"]
        granted = next(entry for entry in history if entry["event"] == "attempt_granted")
        recorded = next(entry for entry in history if entry["event"] == "receipt_recorded")
        assert granted["data"]["granted_at"].startswith("2026-11-29T12:00:00")
        assert recorded["data"]["assurance"] == "reported"


async def test_a_grant_is_not_replayed_once_its_holder_told_of_progress(tmp_path):
    async with open_desk(tmp_path) as desk:
        caller = as_caller(AGENT)
        await desk.begin(caller=caller)
        assert (await desk.begin(caller=caller))["reason"] == "replayed"
        await desk.progress(attempt=1, message="sent it")
        answer = await desk.begin(caller=caller)
        assert (answer["next"], answer["reason"]) == ("wait", "lease_held_by_you")


@pytest.mark.parametrize("finding", ["not_performed", "inconclusive"])
async def test_a_denial_with_the_reference_of_another_effect_is_told_that_neither_counts(tmp_path, finding):
    async with open_desk(tmp_path) as desk:
        other = desk.at("other")
        await other.begin()
        await other.receipt()
        await desk.begin(lookup=LOOKUP)
        await desk.failure("unknown")
        check = await desk.check()

        answer = await desk.reconcile(finding, as_of=check["as_of"], external_id="m-1", **MESSAGE)

        assert (answer["reason"], answer["state"]) == ("foreign_receipt", "in_doubt")
        assert "neither counts: leave the reference out" in answer["warnings"][0]
        answer = await desk.reconcile("not_performed", as_of=check["as_of"])
        assert answer["state"] == "failed"


OTHER_EFFECT = {"action": "pay.charge", "target": "carol@example.org", "args": {"amount": 5}}


@pytest.mark.parametrize("parts", [("target",), ("action", "target", "args")])
@pytest.mark.parametrize("command", ["receipt", "reconcile"])
async def test_a_receipt_of_another_effect_settles_nothing_under_this_key(tmp_path, command, parts):
    async with open_desk(tmp_path) as desk:
        await desk.begin(args={"n": 1})
        said = {name: OTHER_EFFECT[name] for name in parts}
        give = desk.receipt if command == "receipt" else partial(desk.reconcile, "performed", **MESSAGE)

        answer = await give(caller=ANOTHER, external_id="m-1", **said)

        assert (answer["next"], answer["reason"]) == ("reconcile", "foreign_receipt")
        assert answer["state"] == "in_progress"
        assert answer["receipt"]["foreign"] is True
        assert f"another {', '.join(parts)}: record" in answer["warnings"][0]
        # What it is of may have it under its own key, and this one if that is what was meant.
        other = desk.at("other")
        assert (await other.receipt(external_id="m-1", action="pay.charge"))["state"] == "succeeded"
        assert (await desk.receipt(external_id="m-2"))["state"] == "succeeded"


async def test_a_planned_step_is_not_done_by_the_receipt_of_another_effect(tmp_path):
    async with open_desk(tmp_path) as desk:
        await desk.at("first").begin()
        await desk.begin(depends_on=("first",))
        answer = await desk.receipt(action="email.send", target="carol@example.org")
        assert (answer["reason"], answer["state"]) == ("foreign_receipt", "planned")
        assert (await desk.receipt(action="email.send"))["state"] == "succeeded"


@pytest.mark.parametrize("said", [{"action": "mail.send"}, {"args": {"n": "one"}}])
async def test_a_receipt_in_other_words_counts_with_a_warning(tmp_path, said):
    async with open_desk(tmp_path) as desk:
        await desk.begin(args={"n": 1})
        answer = await desk.receipt(caller=ANOTHER, **said)
        assert (answer["reason"], answer["state"]) == ("recorded", "succeeded")
        assert "check that this receipt is of this effect" in answer["warnings"][0]


async def test_who_did_this_is_the_one_of_which_the_reference_is_evidence(tmp_path):
    async with open_desk(tmp_path) as desk:
        bob, carol = desk.at("bob"), desk.at("carol")
        await bob.begin(target="bob@example.org")
        done = await carol.begin(target="carol@example.org")
        await bob.receipt(caller=ANOTHER, external_id="m-1", target="carol@example.org")
        await carol.receipt(external_id="m-1")
        asked = CheckOperation(ref=OperationRef(), external_id="m-1")
        assert (await desk.journal.check_operation(asked, AGENT))["operation"] == done["operation"]


async def test_whoever_performs_after_a_foreign_receipt_is_told_of_it(tmp_path):
    async with open_desk(tmp_path) as desk:
        step = PlanStep(key=desk.key, action="email.send", target="bob@example.org")
        await desk.journal.begin_run(BeginRun(run=desk.run, plan=(step,)), AGENT)
        await desk.receipt(caller=ANOTHER, target="carol@example.org")
        begun = await desk.begin(target="bob@example.org")
        assert begun["next"] == "perform"
        assert any("did not fit this effect" in warning for warning in begun["warnings"])


async def test_a_planned_step_is_not_performed_beside_its_effect_under_another_key(tmp_path):
    async with open_desk(tmp_path) as desk:
        step = PlanStep(key=desk.key, action="email.send", target="bob@example.org", args={"n": 1})
        await desk.journal.begin_run(BeginRun(run=desk.run, plan=(step,)), AGENT)
        desk.clock.advance(1)
        await desk.at("other").receipt(caller=ANOTHER, action="email.send", target="bob@example.org")
        begun = await desk.begin(target="bob@example.org", args={"n": 1})
        told = (begun, await desk.check(), (await desk.plan())["steps"][0])
        assert [(one["next"], one["reason"]) for one in told] == [("stop", "possible_duplicate")] * 3
        apart = (begun["duplicates"][0]["operation"],)
        again = await desk.begin(target="bob@example.org", args={"n": 1}, distinct_from=apart)
        assert again["next"] == "perform"


async def test_the_holder_is_warned_when_it_words_its_effect_otherwise(tmp_path):
    async with open_desk(tmp_path) as desk:
        await desk.begin(args={"n": 1})
        answer = await desk.receipt(attempt=1, args={"n": 2})
        assert (answer["reason"], answer["state"]) == ("recorded", "succeeded")
        assert answer["warnings"] == [
            "what this key stands for has another args: check that this receipt is of this effect"
        ]


@pytest.mark.parametrize(
    "said",
    [
        {"action": "Email.Send", "target": "mailto:KEY-1@example.org"},
        {"target": "Key One <key-1@example.org>", "args": {"b": 2.0, "a": {"password": "hunter2hunter2"}}},
        {"args": {"a": {"password": "hunter2hunter2"}, "b": 2}},
        {"target": "example.org"},
    ],
)
async def test_other_spelling_and_what_is_left_out_contradict_nothing(tmp_path, said):
    async with open_desk(tmp_path) as desk:
        await desk.begin(args={"a": {"password": "hunter2hunter2"}, "b": 2})
        answer = await desk.receipt(caller=ANOTHER, **said)
        assert (answer["reason"], answer["state"]) == ("recorded", "succeeded")
        assert "warnings" not in answer


@pytest.mark.parametrize(
    ("recorded", "said", "reason"),
    [
        ("a@example.org", "aa@example.org", "foreign_receipt"),
        ("aa@example.org", "a@example.org", "foreign_receipt"),
        ("user-12", "user-1", "foreign_receipt"),
        ("owner/repo", "https://forge.example/owner/repo/issues/1", "recorded"),
        ("https://forge.example/owner/repo", "owner/repo", "recorded"),
    ],
)
async def test_a_target_inside_another_word_is_another_target(tmp_path, recorded, said, reason):
    async with open_desk(tmp_path) as desk:
        await desk.begin(target=recorded)
        assert (await desk.receipt(caller=ANOTHER, target=said))["reason"] == reason


async def test_a_persons_receipt_counts_however_the_effect_is_worded(tmp_path):
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        answer = await desk.reconcile(
            "performed", caller=PERSON, by="human", external_id="m-1", **MESSAGE, **OTHER_EFFECT
        )
        assert answer["state"] == "succeeded"
        assert "check that this receipt" in answer["warnings"][0]


@pytest.mark.parametrize("command", ["receipt", "reconcile"])
async def test_a_planned_step_is_what_its_receipt_says_where_its_plan_left_that_out(tmp_path, command):
    async with open_desk(tmp_path) as desk:
        step = PlanStep(key=desk.key, action="email.send")
        await desk.journal.begin_run(BeginRun(run=desk.run, plan=(step,)), AGENT)
        give = desk.receipt if command == "receipt" else partial(desk.reconcile, "performed", **MESSAGE)
        said = {"action": "email.send", "target": "carol@example.org", "args": {"n": 1}}
        assert (await give(external_id="m-1", **said))["state"] == "succeeded"

        assert (await desk.begin(**said))["next"] == "skip"
        answer = await desk.begin(**{**said, "target": "bob@example.org"})
        assert (answer["next"], answer["reason"]) == ("stop", "identity_conflict")
        assert [one["path"] for one in answer["conflict"]] == ["/target"]
        assert (await desk.journal.reader.verify()).faults == ()


@pytest.mark.parametrize("is_weak", [False, True])
async def test_denials_with_references_that_prove_nothing_end_as_a_persons_question(tmp_path, is_weak):
    said = {} if is_weak else {"target": "carol@example.org"}
    policy = Policy(assurance=(("*", Assurance.VERIFIED),)) if is_weak else Policy()
    async with open_desk(tmp_path, policy=policy) as desk:
        await desk.begin(lookup=LOOKUP)
        await desk.failure("unknown")
        told = []
        for number in range(3):
            desk.clock.advance(1)
            as_of = (await desk.check())["as_of"]
            answer = await desk.reconcile(
                "not_performed", caller=ANOTHER, as_of=as_of, external_id=f"m-{number}", **MESSAGE, **said
            )
            told.append(answer["next"])
        assert (told, answer["reason"]) == (["reconcile", "reconcile", "ask"], "unresolved")
        assert (await desk.check())["reason"] == "unresolved"


@pytest.mark.parametrize(
    ("said", "reason", "state"),
    [
        (MESSAGE, "foreign_receipt", "succeeded"),
        ({"kind": "commit", "system": "git"}, "foreign_receipt", "succeeded"),
        (
            {"kind": "commit", "system": "git", "performed_at": "2026-11-29T12:00:05Z"},
            "recorded",
            "compensated",
        ),
    ],
    ids=["a message of another", "a commit of another", "a commit that may undo this too"],
)
async def test_what_another_effect_was_given_does_not_prove_an_undoing(tmp_path, said, reason, state):
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        await desk.receipt(external_id="m-1")
        other = desk.at("other")
        await other.begin()
        await other.receipt(**{**said, "performed_at": None}, external_id="o-1")
        desk.clock.advance(10)
        answer = await desk.reconcile("compensated", external_id="o-1", **said)
        assert (answer["reason"], answer["state"]) == (reason, state)
        assert ("warnings" in answer) == (state == "succeeded")
        if state == "succeeded":
            person = await desk.reconcile("compensated", caller=PERSON, external_id="o-1", **said)
            assert person["state"] == "compensated"
        assert (await other.check())["state"] == "succeeded"
        assert (await desk.journal.reader.verify()).faults == ()


@pytest.mark.parametrize("lookup", [LOOKUP, None], ids=["with a lookup", "without one"])
@pytest.mark.parametrize("said", [{"external_id": "o-1", **MESSAGE}, {}], ids=["of another", "no reference"])
async def test_an_undoing_that_three_looks_do_not_prove_is_a_persons_question(tmp_path, said, lookup):
    async with open_desk(tmp_path) as desk:
        other = desk.at("other")
        await other.begin()
        await other.receipt(external_id="o-1", **MESSAGE)
        await desk.begin(lookup=lookup)
        await desk.failure("unknown")
        told = []
        for _ in range(3):
            desk.clock.advance(400)
            as_of = (await desk.check())["as_of"]
            answer = await desk.reconcile("compensated", caller=ANOTHER, as_of=as_of, **said)
            told.append(answer["next"])
        assert (told, answer["reason"]) == (["reconcile", "reconcile", "ask"], "unresolved")
        assert (await desk.check())["reason"] == "unresolved"

        answer = await desk.reconcile("compensated", caller=ANOTHER, external_id="u-1", **MESSAGE)
        assert (answer["reason"], answer["state"]) == ("recorded", "compensated")
        assert (await desk.journal.reader.verify()).faults == ()


async def test_who_brings_another_effects_reference_for_an_undoing_is_told_who_can_say_it(tmp_path):
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        await desk.receipt(external_id="m-1")
        refund = desk.at("refund")
        await refund.begin()
        await refund.receipt(external_id="o-1", **MESSAGE)
        answer = await desk.reconcile("compensated", external_id="o-1", **MESSAGE)
        assert "undo it no second time" in answer["guidance"]
        assert "begun without compensates" in answer["warnings"][0]


async def test_what_undid_an_effect_is_the_reference_of_its_undoing(tmp_path):
    async with open_desk(tmp_path) as desk:
        original = await desk.begin()
        await desk.receipt(external_id="m-1")
        undo = desk.at("undo")
        await undo.begin(compensates=original["operation"])
        await undo.receipt(external_id="u-1", final=False)
        answer = await desk.reconcile("compensated", external_id="u-1", **MESSAGE)
        assert (answer["reason"], answer["state"]) == ("recorded", "compensated")


async def test_the_reference_of_an_undoing_proves_it_also_once_it_was_told_of_its_original(tmp_path):
    async with open_desk(tmp_path) as desk:
        original = await desk.begin()
        await desk.receipt(external_id="m-1")
        undo = desk.at("undo")
        await undo.begin(compensates=original["operation"])
        await desk.reconcile("compensated", caller=ANOTHER, external_id="u-1", **MESSAGE)

        assert (await undo.receipt(attempt=1, external_id="m-1"))["reason"] == "foreign_receipt"
        assert (await undo.receipt(attempt=1, external_id="u-1"))["state"] == "succeeded"
        assert (await desk.journal.reader.verify()).faults == ()
