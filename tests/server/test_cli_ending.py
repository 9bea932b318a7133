"""What a person decides about a whole run: `release`, `finish`, and evidence for its criteria."""

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from command_line import HOSTILE, RUN, CommandLine, at_terminal, cli, journal, state_of
from counterfoil.store.domain.commands import BeginRun, Criterion, PlanStep, Spec
from journals import AGENT, FakeClock, as_caller, open_desk

__all__ = ["cli", "journal"]

HELD = "held/1"
BOB = (RUN, "email:bob")
RELEASE = ("release", HELD, "--reason", "its terminal is gone")
SATISFY = (
    *("reconcile", *BOB, "--finding", "performed", "--checked-with", "the review"),
    *("--external-id", "review-17", "--kind", "approval", "--system", "legal"),
)
CRITERIA = (
    Criterion(id="FR-001", text=f"System MUST group photos by date {HOSTILE}"),
    Criterion(id="FR-002", text="System MUST share an album by link"),
)


@pytest.fixture
def held(journal: Path) -> Path:
    """The journal, with a run that a session holds, and criteria for it and for another run."""

    async def work() -> None:
        clock = FakeClock(time.time_ns() // 1_000, boot=None)
        async with open_desk(journal.parent, clock=clock) as desk:
            plan = (PlanStep(key="a", action="email.send", target="a@example.org"),)
            spec = Spec(criteria=CRITERIA)
            for run, steps in ((HELD, plan), (RUN, ())):
                command = BeginRun(run=run, holder=f"night shift {HOSTILE}", spec=spec, plan=steps)
                await desk.journal.begin_run(command, as_caller(AGENT))

    anyio.run(work)
    return journal


@pytest.fixture
def secret(journal: Path, tmp_path: Path) -> tuple[str, str]:
    """The option that brings the operator's secret, whose digest stands in the configuration."""
    file = tmp_path / "operator.secret"
    file.write_text("a long secret\n")
    folder = tmp_path / ".config/counterfoil"
    folder.mkdir(parents=True)
    digest = hashlib.sha256(b"a long secret").hexdigest()
    (folder / "counterfoil.toml").write_text(f'[operator]\nsecret_sha256 = "{digest}"\n')
    return ("--operator-secret-file", str(file))


def told(cli: CommandLine, *words: str) -> dict[str, Any]:
    """Run a command with --json, and give what it says."""
    answer: dict[str, Any] = json.loads(cli(*words, "--json").out)
    return answer


def events(cli: CommandLine, run: str = HELD) -> list[str]:
    """Name the newest events of a run."""
    return [entry["event"] for entry in told(cli, "tail", run)["events"]]


# release


def test_a_release_says_who_held_the_run_and_until_when(
    cli: CommandLine, held: Path, secret: tuple[str, str]
) -> None:
    before = told(cli, "plan", HELD)["run"]
    answer = cli(*RELEASE, *secret)
    assert (answer.code, answer.err) == (0, "")
    shown = " ".join(answer.out.split())
    assert "held by night shift" in shown
    assert "connection connection-1" in shown
    assert f"until {before['held_until'][:10]}" in shown
    assert "counterfoil reconcile --end-lease" in shown
    assert "\x1b" not in answer.out
    assert "held_by" not in told(cli, "plan", HELD)["run"]
    assert events(cli)[-1] == "run_released"
    assert "its terminal is gone" in cli("tail", HELD).out
    assert cli("verify").code == 0


def test_a_release_that_is_repeated_says_that_nobody_holds_the_run(
    cli: CommandLine, held: Path, secret: tuple[str, str]
) -> None:
    first = told(cli, *RELEASE, *secret)
    assert (first["released"], first["held_by"].startswith("night shift")) == (True, True)
    again = cli(*RELEASE, *secret)
    assert (again.code, "Nobody holds this run" in again.out) == (0, True)
    assert told(cli, *RELEASE, *secret)["released"] is False
    assert events(cli).count("run_released") == 1


def test_without_a_person_no_hold_is_ended(cli: CommandLine, held: Path) -> None:
    before = events(cli)
    answer = cli(*RELEASE)
    assert (answer.code, answer.out) == (1, "")
    assert "only a person ends a session's hold" in answer.err
    assert told(cli, *RELEASE)["code"] == "forbidden"
    assert events(cli) == before


def test_who_types_the_runs_name_at_a_terminal_ends_the_hold(cli: CommandLine, held: Path) -> None:
    before = events(cli)
    answer = at_terminal(RELEASE, answer="held/2\n")
    assert (answer.code, "nothing was recorded" in answer.out) == (1, True)
    assert events(cli) == before
    answer = at_terminal(RELEASE, answer=f"{HELD}\n")
    assert answer.code == 0
    assert "You are about to end this session's hold" in answer.out
    assert "night shift" in answer.out
    assert events(cli) == [*before, "run_released"]
    again = at_terminal(RELEASE)
    assert (again.code, "Nobody holds this run" in again.out) == (0, True)
    assert "You are about to" not in again.out


def test_a_run_of_another_namespace_is_not_there(
    cli: CommandLine, held: Path, secret: tuple[str, str]
) -> None:
    for words in (RELEASE, ("finish", HELD, "failed", "--reason", "x")):
        answer = cli(*words, *secret, "--namespace", "other")
        assert (answer.code, answer.out) == (1, "")
    assert "held_by" in told(cli, "plan", HELD)["run"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("release", "held/2", "--reason", "x"), 1),
        (("release", HELD), 2),
        (("release", HELD, "--reason", " "), 2),
        (("release", HELD, "--reason", "x" * 4_001), 2),
        (("finish", "held/2", "failed", "--reason", "x"), 1),
        (("finish", HELD, "failed"), 2),
        (("finish", HELD, "done", "--reason", "x"), 2),
        (("finish", HELD, "failed", "--reason", "x" * 4_001), 2),
        ((*SATISFY, "--satisfies", "FR-003"), 2),
        ((*SATISFY, "--target", "alice"), 2),
        ((*SATISFY[:7], "--satisfies", "FR-001"), 2),
        (
            ("reconcile", *BOB, "--finding", "not_performed", "--checked-with", "x", "--satisfies", "FR-001"),
            2,
        ),
    ],
)
def test_what_cannot_be_taken_is_told_and_changes_nothing(
    cli: CommandLine, held: Path, secret: tuple[str, str], words: tuple[str, ...], code: int
) -> None:
    before = events(cli), events(cli, RUN)
    answer = cli(*words, *secret)
    assert (answer.code, answer.out) == (code, "")
    assert answer.err.startswith("counterfoil: ")
    assert (events(cli), events(cli, RUN)) == before


# finish


def test_what_is_in_the_way_of_an_end_is_named(cli: CommandLine, held: Path, secret: tuple[str, str]) -> None:
    finish = ("finish", HELD, "completed", "--reason", "checked", *secret)
    answer = cli(*finish)
    assert answer.code == 1
    shown = " ".join(answer.out.split())
    assert "stop: unmet" in shown
    assert "is planned" in shown
    assert "unmet criterion FR-001" in shown
    refused = told(cli, *finish)
    assert (refused["finished"], refused["decided_as"]) == (False, "person")
    assert refused["unmet_criteria"] == ["FR-001", "FR-002"]
    assert "run_finished" not in events(cli)


def test_a_run_is_finished_once(cli: CommandLine, held: Path, secret: tuple[str, str]) -> None:
    finish = ("finish", HELD, "failed", "--reason", "the host died", *secret)
    first = told(cli, *finish)
    assert (first["reason"], first["finished"], first["decided_as"]) == ("finished", True, "person")
    assert cli(*finish).code == 0
    assert told(cli, *finish)["reason"] == "duplicate"
    other = cli("finish", HELD, "cancelled", "--reason", "x", *secret)
    assert (other.code, "finished as failed" in " ".join(other.out.split())) == (1, True)
    assert events(cli).count("run_finished") == 1
    release = cli(*RELEASE, *secret)
    assert (release.code, "Nobody holds this run" in release.out) == (0, True)
    run = told(cli, "plan", HELD)["run"]
    assert (run["finished_as"], run["finish_reason"]) == ("failed", "the host died")
    assert "finished as failed" in cli("plan", HELD).out
    assert cli("verify").code == 0


def test_who_types_the_runs_name_at_a_terminal_finishes_it_as_a_person(cli: CommandLine, held: Path) -> None:
    finish = ("finish", HELD, "cancelled", "--reason", "withdrawn")
    answer = at_terminal(finish, answer="yes\n")
    assert (answer.code, "nothing was recorded" in answer.out) == (1, True)
    assert "0 met, 0 stale, 2 unmet" in answer.out
    assert at_terminal(finish, answer=f"{HELD}\n").code == 0
    entry = told(cli, "tail", HELD)["events"][-1]
    assert (entry["event"], entry["caller"]["person"]) == ("run_finished", True)


def test_without_a_person_the_end_of_a_run_is_an_agents_word(cli: CommandLine, held: Path) -> None:
    answer = cli("finish", HELD, "failed", "--reason", "the host died", "--json")
    assert (answer.code, json.loads(answer.out)["decided_as"]) == (0, "claim")
    assert "this counts as an agent's word." in answer.err
    entry = told(cli, "tail", HELD)["events"][-1]
    assert (entry["event"], "person" in entry["caller"]) == ("run_finished", False)


# evidence for criteria


def test_a_person_brings_the_evidence_for_a_criterion(
    cli: CommandLine, held: Path, secret: tuple[str, str]
) -> None:
    shown = cli("plan", RUN).out
    assert "criteria: 0 met, 0 stale, 2 unmet" in shown
    assert "FR-002 is unmet: System MUST share" in shown
    assert "held by night shift" in shown
    assert "\x1b" not in shown
    answer = cli(*SATISFY, "--satisfies", "FR-002", *secret)
    assert (answer.code, "criterion FR-002: met" in " ".join(answer.out.split())) == (0, True)
    assert state_of(held, *BOB)["state"] == "succeeded"
    criteria = told(cli, "plan", RUN)["criteria"]
    assert (criteria["met"], [one["id"] for one in criteria["open"]]) == (1, ["FR-001"])
    assert cli("verify").code == 0


def test_evidence_that_is_on_file_already_meets_nothing_more(
    cli: CommandLine, held: Path, secret: tuple[str, str]
) -> None:
    assert cli(*SATISFY, "--satisfies", "FR-001", *secret).code == 0
    answer = cli(*SATISFY, "--satisfies", "FR-002", "--json", *secret)
    again = json.loads(answer.out)
    assert (answer.code, again["settled"], again["criteria"][0]["state"]) == (1, False, "unmet")
    assert cli(*SATISFY, "--satisfies", "FR-001", *secret).code == 0


def test_evidence_may_be_of_what_nobody_began(cli: CommandLine, held: Path, secret: tuple[str, str]) -> None:
    signed = (
        *("reconcile", HELD, "sign:legal", "--finding", "performed", "--checked-with", "the contract"),
        *("--external-id", "c-9", "--satisfies", "FR-001"),
    )
    refused = cli(*signed, *secret)
    assert (refused.code, refused.out) == (1, "")
    assert told(cli, *signed, "--action", "contract.sign", *secret)["criteria"][0]["state"] == "met"
    assert state_of(held, HELD, "sign:legal")["state"] == "succeeded"
    assert cli("verify").code == 0


def test_at_a_terminal_what_nobody_began_is_told_apart(cli: CommandLine, held: Path) -> None:
    signed = (
        *("reconcile", HELD, "sign:legal", "--finding", "performed", "--checked-with", "the contract"),
        *("--external-id", "c-9", "--action", "contract.sign"),
    )
    answer = at_terminal(signed, answer="sign:legal\n")
    assert answer.code == 0
    assert "There is no such operation" in answer.out
    assert state_of(held, HELD, "sign:legal")["state"] == "succeeded"
