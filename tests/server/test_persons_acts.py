"""What each of two server processes refuses until a person acts at the command line, and no longer then.

The run's hold, its criteria, drift and authority: told through a second process, ended by the real program.
"""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import Answered, CommandLine, at_terminal, cli, process
from scenarios.servers import Server, server_environment

__all__ = ["cli"]

RUN = "weekly-report/2026-W48"
SECRET = "a secret that another user keeps"
GROUP = {"id": "FR-001", "text": "System MUST group photos by date", "required": True}
PAY = {"run": RUN, "key": "pay:landlord", "action": "pay.send", "target": "landlord", "args": {"amount": 90}}
POST = {"run": RUN, "key": "post", "action": "chat.post", "target": "#team"}

Act = Callable[..., Answered]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A home with the operator's file, where the servers find it by themselves, and the secret."""
    settings = tmp_path / ".config/counterfoil"
    settings.mkdir(parents=True)
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    (settings / "counterfoil.toml").write_text(
        '[[authority]]\naction = "pay.*"\nrequire = "grant"\n'
        '[drift]\npolicy = "block"\n'
        f'[operator]\nsecret_sha256 = "{digest}"\n'
    )
    (tmp_path / "secret").write_text(SECRET)
    return tmp_path


@pytest.fixture
def servers(folder: Path) -> Iterator[tuple[Server, Server]]:
    """Two servers on one journal, as two clients start them."""
    with Server(folder).start() as first, Server(folder).start() as second:
        yield first, second


def settings(folder: Path) -> list[str]:
    """Give what lets the command line find the same journal and the same file."""
    config = folder / ".config/counterfoil/counterfoil.toml"
    return ["--journal", f"sqlite:///{folder / 'journal.db'}", "--config", str(config)]


def command(folder: Path, *words: str) -> Answered:
    """Run a command as a program, without a person."""
    return process(*words, *settings(folder), env=server_environment(folder))


def by_secret(folder: Path, *words: str, typed: str) -> Answered:
    """Act as a person who brings the operator's secret."""
    return command(folder, *words, "--operator-secret-file", str(folder / "secret"))


def by_terminal(folder: Path, *words: str, typed: str) -> Answered:
    """Act as a person at a terminal, who confirms by typing a name."""
    answered = at_terminal([*words, *settings(folder)], answer=f"{typed}\n")
    assert "To confirm, type" in answered.out
    return answered


BOTH_WAYS = pytest.mark.parametrize("act", [by_secret, by_terminal])


def verb(server: Server, tool: str, **arguments: Any) -> str:
    """Call a tool, and give its verb and reason."""
    answer = server.call(tool, **arguments)
    return f"{answer['next']}: {answer['reason']}"


@BOTH_WAYS
def test_a_hold_refuses_until_a_person_ends_it(
    folder: Path, servers: tuple[Server, Server], cli: CommandLine, act: Act
) -> None:
    first, second = servers
    assert verb(first, "begin_run", run=RUN, holder="night shift") == "continue: started"
    assert verb(first, "begin_operation", **POST) == "perform: first_attempt"
    assert verb(second, "begin_run", run=RUN) == "wait: run_held"
    assert verb(second, "record_progress", run=RUN) == "wait: run_held"

    words = ("release", RUN, "--reason", "its terminal is gone")
    assert command(folder, *words).code == 1
    assert verb(second, "begin_run", run=RUN) == "wait: run_held"
    done = act(folder, *words, typed=RUN)
    assert (done.code, "night shift" in done.out) == (0, True)

    assert verb(second, "begin_run", run=RUN, holder="day shift") == "continue: resumed"
    assert first.call("begin_run", run=RUN)["held_by"] == "day shift"
    assert verb(first, "record_progress", run=RUN) == "wait: run_held"
    assert verb(second, "begin_operation", **POST) == "wait: lease_held"
    assert verb(first, "record_receipt", run=RUN, key="post", attempt=1, external_id="1") == (
        "continue: recorded"
    )
    assert cli("verify", *settings(folder)).code == 0


@BOTH_WAYS
def test_a_criterion_refuses_until_a_person_brings_the_evidence(
    folder: Path, servers: tuple[Server, Server], cli: CommandLine, act: Act
) -> None:
    first, second = servers
    first.call("begin_run", run=RUN, spec={"criteria": [GROUP]})
    first.call("begin_operation", **POST)
    first.call("record_receipt", run=RUN, key="post", attempt=1, kind="message", external_id="m-1")
    for server in servers:
        refused = server.call("finish_run", run=RUN, outcome="completed")
        assert (refused["next"], refused["reason"]) == ("stop", "unmet")
        assert (refused["unmet_criteria"], refused["unmet_criteria_in_all"]) == (["FR-001"], 1)

    done = act(
        folder,
        *("reconcile", RUN, "post", "--finding", "performed", "--checked-with", "the review"),
        *("--satisfies", "FR-001", "--external-id", "review-17", "--kind", "approval", "--system", "legal"),
        typed="post",
    )
    assert done.code == 0, done
    assert "FR-001: met" in " ".join(done.out.split())
    assert verb(second, "finish_run", run=RUN, outcome="completed") == "continue: finished"
    assert verb(first, "begin_run", run=RUN) == "skip: already_succeeded"
    assert cli("verify", *settings(folder)).code == 0


def test_a_criterion_refuses_until_a_person_requires_it_no_longer(
    folder: Path, servers: tuple[Server, Server], cli: CommandLine
) -> None:
    first, second = servers
    first.call("begin_run", run=RUN, spec={"criteria": [GROUP]})
    assert second.call("finish_run", run=RUN, outcome="completed")["unmet_criteria"] == ["FR-001"]
    spec = folder / "spec.md"
    spec.write_text("- **FR-001**: System SHOULD group photos by date\n")
    assert command(folder, "spec", str(spec), "--run", RUN).code == 0
    assert verb(second, "finish_run", run=RUN, outcome="completed") == "continue: finished"
    assert cli("verify", *settings(folder)).code == 0


def test_a_blocking_drift_refuses_until_a_person_permits_the_step(
    folder: Path, servers: tuple[Server, Server], cli: CommandLine
) -> None:
    first, second = servers
    first.call("begin_run", run=RUN, context={"policy": "p1"})
    today = {**POST, "context": {"policy": "p2"}}
    for server in (second, first):
        assert verb(server, "begin_operation", **today) == "ask: drift"
    told = "policy: p1 then, p2 now"
    assert told in cli("show", RUN, "post", *settings(folder)).out
    assert f"post: {told}" in cli("plan", RUN, *settings(folder)).out
    asked = at_terminal(["grant", RUN, "post", *settings(folder)], answer="no\n")
    assert (told in asked.out, asked.code) == (True, 1)
    assert by_secret(folder, "grant", RUN, "post", typed="post").code == 0
    assert verb(second, "begin_operation", **today) == "perform: first_attempt"
    assert verb(first, "begin_operation", **today) == "wait: lease_held"
    assert cli("verify", *settings(folder)).code == 0


def test_an_action_that_needs_a_grant_is_refused_until_a_person_gives_one(
    folder: Path, servers: tuple[Server, Server], cli: CommandLine
) -> None:
    first, second = servers
    for server in servers:
        assert verb(server, "begin_operation", **PAY) == "ask: authority_required"
    asked = second.call("request_authority", run=RUN, key=PAY["key"])
    assert by_terminal(folder, "grant", asked["request"], typed=str(PAY["key"])).code == 0
    assert verb(second, "begin_operation", **PAY) == "perform: first_attempt"
    assert verb(first, "begin_operation", **PAY) == "wait: lease_held"
    assert cli("verify", *settings(folder)).code == 0


def test_a_run_that_a_person_finishes_is_over_for_every_server(
    folder: Path, servers: tuple[Server, Server], cli: CommandLine
) -> None:
    first, second = servers
    first.call("begin_run", run=RUN, plan=[{name: POST[name] for name in ("key", "action", "target")}])
    refused = by_secret(folder, "finish", RUN, "completed", "--reason", "over", typed=RUN)
    assert (refused.code, "post" in refused.out) == (1, True)
    assert verb(second, "begin_run", run=RUN) == "wait: run_held"
    assert by_secret(folder, "finish", RUN, "cancelled", "--reason", "withdrawn", typed=RUN).code == 0
    for server in servers:
        assert verb(server, "begin_run", run=RUN) == "skip: cancelled"
        assert verb(server, "begin_operation", **POST) == "stop: run_finished"
    assert cli("verify", *settings(folder)).code == 0
