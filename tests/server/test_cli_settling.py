"""What people decide: only somebody at a terminal, or the operator's secret, counts as a person."""

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from command_line import (
    RUN,
    CommandLine,
    at_terminal,
    cli,
    journal,
    process,
    state_of,
)
from journals import AGENT, Desk, FakeClock, open_desk

__all__ = ["cli", "journal"]

ALICE = (RUN, "email:alice")
DENY = ("reconcile", *ALICE, "--finding", "not_performed", "--checked-with", "the Sent folder")
AFFIRM = ("reconcile", *ALICE, "--finding", "performed", "--checked-with", "the Sent folder")
CANCEL = ("close", *ALICE, "--outcome", "cancelled", "--reason", "withdrawn")
LIVE = ("live/1", "post")


@pytest.fixture
def secret_file(journal: Path, tmp_path: Path) -> Path:
    """The operator's secret in a file; its digest stands in the configuration."""
    secret = tmp_path / "operator.secret"
    secret.write_text("a long secret\n")
    folder = tmp_path / ".config/counterfoil"
    folder.mkdir(parents=True)
    digest = hashlib.sha256(b"a long secret").hexdigest()
    (folder / "counterfoil.toml").write_text(f'[operator]\nsecret_sha256 = "{digest}"\n')
    return secret


def events_of(journal_file: Path, *names: str) -> list[dict[str, Any]]:
    """Give the history of an operation."""
    return list(state_of(journal_file, *names)["history"])


def test_who_types_the_key_at_a_terminal_is_a_person(journal: Path) -> None:
    answer = at_terminal(DENY, answer="email:alice\n")
    assert answer.code == 0
    assert "in_doubt" in answer.out
    assert "You are about to record: finding not_performed." in answer.out
    assert state_of(journal, *ALICE)["state"] == "failed"
    caller = events_of(journal, *ALICE)[-1]["caller"]
    assert (caller["person"], caller["tool"], caller["principal"]) == (True, "cli reconcile", "local")


def test_who_types_the_id_is_a_person_as_well(journal: Path) -> None:
    operation = state_of(journal, *ALICE)["operation"]
    assert at_terminal(CANCEL, answer=f"{operation}\n").code == 0
    assert state_of(journal, *ALICE)["state"] == "cancelled"


@pytest.mark.parametrize("typed", ["yes\n", "\n", "email:bob\n", "\x04"])
def test_another_answer_records_nothing_not_even_a_claim(journal: Path, typed: str) -> None:
    before = events_of(journal, *ALICE)
    answer = at_terminal(DENY, answer=typed)
    assert answer.code == 1
    assert "nothing was recorded" in answer.out
    assert events_of(journal, *ALICE) == before


def test_what_was_typed_before_the_question_does_not_count(journal: Path) -> None:
    before = events_of(journal, *ALICE)
    assert at_terminal(DENY, ahead="email:alice\n", answer="no\n").code == 1
    assert events_of(journal, *ALICE) == before


def test_ctrl_c_at_the_question_ends_it_quietly(journal: Path) -> None:
    before = events_of(journal, *ALICE)
    answer = at_terminal(DENY, answer="\x03")
    assert answer.code == 130
    assert "Traceback" not in answer.out
    assert events_of(journal, *ALICE) == before


def test_without_a_terminal_it_is_an_agents_claim_that_settles_nothing(journal: Path) -> None:
    answer = process(*DENY)
    assert answer.code == 1
    assert "counts as an agent's word, which did not settle what was asked" in answer.err
    assert state_of(journal, *ALICE)["state"] == "in_doubt"
    event = events_of(journal, *ALICE)[-1]
    assert event["event"] == "finding_recorded"
    assert "person" not in event["caller"]
    assert (event["data"]["by"], event["caller"]["tool"]) == ("claim", "cli reconcile")


def test_who_was_not_shown_to_be_a_person_is_nowhere_shown_as_one(cli: CommandLine, journal: Path) -> None:
    cli(*DENY)
    cli(*AFFIRM, "--external-id", "<m-9@example.org>", "--kind", "message")
    shown = json.loads(cli("show", *ALICE, "--json").out)
    assert [finding["by"] for finding in shown["findings"]] == ["claim", "claim"]
    assert [receipt["source"] for receipt in shown["receipts"]] == ["lookup"]
    for words in (("show", *ALICE), ("show", *ALICE, "--json"), ("tail",), ("tail", "--json")):
        said = cli(*words).out
        assert "claim" in said
        assert "human" not in said


def test_a_person_is_shown_as_one(cli: CommandLine, journal: Path, secret_file: Path) -> None:
    proof = ("--operator-secret-file", str(secret_file))
    cli(*AFFIRM, "--external-id", "<m-9@example.org>", "--kind", "message", *proof)
    shown = json.loads(cli("show", *ALICE, "--json").out)
    assert [finding["by"] for finding in shown["findings"]] == ["person"]
    assert [receipt["source"] for receipt in shown["receipts"]] == ["human"]


def test_a_finding_added_to_a_receipt_on_file_is_told_of(
    cli: CommandLine, journal: Path, secret_file: Path
) -> None:
    bob = (RUN, "email:bob")
    before = json.loads(cli("show", *bob, "--json").out)
    again = ("reconcile", *bob, "--finding", "performed", "--checked-with", "the Sent folder")
    again += ("--external-id", "<m-1@example.org>", "--kind", "message", "--system", "smtp")
    again += ("--operator-secret-file", str(secret_file))
    page = " ".join(cli(*again).out.split())
    assert "continue: duplicate" in page
    assert "your finding is kept beside it" in page
    assert "nothing was changed" not in page
    after = json.loads(cli("show", *bob, "--json").out)
    assert after["receipts"] == before["receipts"]
    assert [finding["by"] for finding in after["findings"]] == ["person"]
    told = json.loads(cli(*again, "--as-of", after["as_of"], "--json").out)
    assert (told["reason"], told["finding"]["checked_with"]) == ("duplicate", "the Sent folder")
    assert "the finding is kept beside it" in told["guidance"]


@pytest.mark.parametrize("redirected", ["> {file}", "2> {file}", "< /dev/null"])
def test_a_terminal_on_some_streams_alone_is_not_enough(
    journal: Path, tmp_path: Path, redirected: str
) -> None:
    answer = at_terminal(
        DENY, answer="email:alice\n", redirected=redirected.format(file=tmp_path / "elsewhere")
    )
    assert answer.code == 1
    assert "You are about to record" not in answer.out
    assert state_of(journal, *ALICE)["state"] == "in_doubt"


def test_a_claim_with_a_reference_is_evidence_as_an_agents_would_be(cli: CommandLine, journal: Path) -> None:
    answer = cli(*AFFIRM, "--external-id", "<m-9@example.org>", "--kind", "message", "--json")
    assert answer.code == 0
    assert "counts as an agent's word." in answer.err
    told = json.loads(answer.out)
    assert (told["state"], told["decided_as"], told["settled"]) == ("succeeded", "claim", True)


def test_without_a_reference_performed_proves_nothing(cli: CommandLine, journal: Path) -> None:
    answer = cli(*AFFIRM, "--json")
    assert answer.code == 1
    assert json.loads(answer.out)["reason"] == "receipt_too_weak"


@pytest.mark.parametrize("how", ["option", "environment"])
def test_the_operators_secret_counts_as_a_person(
    cli: CommandLine, journal: Path, secret_file: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = DENY
    if how == "option":
        words = (*DENY, "--operator-secret-file", str(secret_file))
    else:
        monkeypatch.setenv("COUNTERFOIL_OPERATOR_SECRET_FILE", str(secret_file))
    answer = cli(*words, "--json")
    told = json.loads(answer.out)
    assert (answer.code, answer.err) == (0, "")
    assert (told["state"], told["decided_as"], told["settled"]) == ("failed", "person", True)


def test_another_secret_is_refused_and_nothing_recorded(
    cli: CommandLine, journal: Path, secret_file: Path
) -> None:
    before = events_of(journal, *ALICE)
    secret_file.write_text("a wrong secret")
    answer = cli(*DENY, "--operator-secret-file", str(secret_file), "--json")
    assert answer.code == 1
    assert json.loads(answer.out)["code"] == "forbidden"
    assert "wrong secret" not in answer.out
    assert events_of(journal, *ALICE) == before


def test_a_secret_that_nothing_is_known_of_is_a_usage_error(
    cli: CommandLine, journal: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "any"
    secret.write_text("x")
    answer = cli(*DENY, "--operator-secret-file", str(secret))
    assert answer.code == 2
    assert "operator.secret_sha256" in answer.err


def test_a_secret_file_that_is_not_there_is_a_usage_error(
    cli: CommandLine, journal: Path, secret_file: Path
) -> None:
    assert cli(*DENY, "--operator-secret-file", "/nonexistent").code == 2


def test_an_agents_close_is_refused_where_only_a_person_may(cli: CommandLine, journal: Path) -> None:
    answer = cli(*CANCEL, "--json")
    assert answer.code == 1
    assert json.loads(answer.out)["next"] == "reconcile"
    assert state_of(journal, *ALICE)["state"] == "in_doubt"


def test_a_command_without_a_terminal_never_passes_for_the_holder(
    cli: CommandLine, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert AGENT.conversation is not None
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", AGENT.conversation)
    monkeypatch.setenv("COUNTERFOIL_CONVERSATION", AGENT.conversation)
    answer = cli("close", *LIVE, "--outcome", "timed_out", "--reason", "tired", "--json")
    assert answer.code == 1
    assert json.loads(answer.out)["reason"] == "lease_held"
    assert state_of(journal, *LIVE)["state"] == "in_progress"


def test_a_person_ends_a_live_lease_and_denies_in_one_go(
    cli: CommandLine, journal: Path, secret_file: Path
) -> None:
    deny = ("reconcile", *LIVE, "--finding", "not_performed", "--checked-with", "the channel")
    secret = ("--operator-secret-file", str(secret_file), "--json")
    held = cli(*deny, *secret)
    assert (held.code, json.loads(held.out)["reason"]) == (1, "lease_held")
    ended = cli(*deny, "--end-lease", *secret)
    assert (ended.code, json.loads(ended.out)["state"]) == (0, "failed")


def test_a_person_closes_what_is_disputed(cli: CommandLine, journal: Path, secret_file: Path) -> None:
    answer = cli(
        *("close", "rent/2026-11", "pay:rent", "--outcome", "timed_out", "--reason", "settled by telephone"),
        *("--operator-secret-file", str(secret_file)),
    )
    assert answer.code == 0
    assert state_of(journal, "rent/2026-11", "pay:rent")["state"] == "timed_out"


def test_a_person_who_says_which_of_two_effects_counts_settles_the_dispute(
    cli: CommandLine, journal: Path, secret_file: Path
) -> None:
    answer = cli(
        *("reconcile", "rent/2026-11", "pay:rent", "--finding", "performed", "--checked-with", "the bank"),
        *("--external-id", "t-1", "--kind", "transaction", "--operator-secret-file", str(secret_file)),
    )
    assert answer.code == 0
    assert state_of(journal, "rent/2026-11", "pay:rent")["state"] == "succeeded"


def test_closing_what_succeeded_is_refused(cli: CommandLine, journal: Path, secret_file: Path) -> None:
    answer = cli(
        *("close", RUN, "email:bob", "--outcome", "cancelled", "--reason", "regret"),
        *("--operator-secret-file", str(secret_file), "--json"),
    )
    assert (answer.code, json.loads(answer.out)["reason"]) == (1, "unmet")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((*DENY, "--as-of", "yesterday"), 2),
        ((*DENY, "--as-of", "2999-01-01T00:00:00Z"), 2),
        ((*AFFIRM, "--evidence", "[1]"), 2),
        ((*AFFIRM, "--evidence", "{"), 2),
        ((*AFFIRM, "--kind", "rumour"), 2),
        ((*AFFIRM, "--attempt", "7"), 2),
        ((*AFFIRM, "--performed-at", "noon"), 2),
        ((*DENY[:-1], "x" * 4_001), 2),
        ((*CANCEL[:-1], "x" * 4_001), 2),
        (("close", *ALICE, "--outcome", "succeeded", "--reason", "x"), 2),
        (("close", *ALICE, "--outcome", "cancelled"), 2),
        (("reconcile", *ALICE, "--finding", "performed"), 2),
        (("reconcile", RUN, "nobody", "--finding", "performed", "--checked-with", "x"), 1),
        (("close", "op_aaaaaaaaaaaaaaaaaaaa", "--outcome", "cancelled", "--reason", "x"), 1),
    ],
)
def test_what_cannot_be_taken_is_told_by_its_exit_code(
    cli: CommandLine, journal: Path, words: tuple[str, ...], code: int
) -> None:
    before = events_of(journal, *ALICE)
    answer = cli(*words)
    assert (answer.code, answer.out) == (code, "")
    assert answer.err.startswith("counterfoil: ")
    assert json.loads(cli(*words, "--json").out)["recorded"] is False
    assert events_of(journal, *ALICE) == before


def test_a_secret_in_what_a_person_says_is_not_stored(
    cli: CommandLine, journal: Path, secret_file: Path
) -> None:
    token = "ghp_" + "a1B2" * 9
    cli(*DENY[:-1], f"curl with {token}", "--operator-secret-file", str(secret_file))
    assert token.encode() not in journal.read_bytes()


def test_what_changed_while_the_question_stood_there_is_not_decided_blindly(journal: Path) -> None:
    """Another attempt was granted meanwhile: the person's word is about the one that was shown."""

    async def permit_another() -> None:
        clock = FakeClock(time.time_ns() // 1_000, boot=None)
        async with open_desk(journal.parent, clock=clock) as desk:
            doubt = Desk(desk.journal, clock, run="safe/1", key="k")
            await doubt.begin(repeat="safe")

    anyio.run(permit_another)
    words = ("reconcile", "safe/1", "k", "--finding", "not_performed", "--checked-with", "x")
    answer = at_terminal(words, answer="k\n")
    assert answer.code == 1
    assert "lease_held" in answer.out
