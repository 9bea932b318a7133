"""The gateway as a client starts it, before a server that is a process of its own, with real kills."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from stdio_process import FOLDER, WAIT_SECONDS, StdioProcess, call, modern_call

ALICE = {"to": "alice"}


class GatewayProcess(StdioProcess):
    """`counterfoil gateway` before a mail server that keeps its facts in `folder`."""

    program = ("-m", "counterfoil.server")

    def __init__(self, folder: Path, *options: str, **environment: str) -> None:
        server = (sys.executable, str(FOLDER / "gateway" / "mail_process.py"), str(folder))
        settings = {"COUNTERFOIL_JOURNAL": f"sqlite:///{folder}/journal.db", "COUNTERFOIL_RUN": "run-1"}
        super().__init__("gateway", *options, "--", *server, **{**settings, **environment})
        self.news: list[str] = []

    def receive(self) -> dict[str, Any]:
        """Give the next answer, and keep what else is told meanwhile."""
        while "method" in (message := super().receive()):
            self.news.append(message["method"])
        return message


def sent(folder: Path) -> list[Any]:
    file = folder / "sent"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def text_of(answer: dict[str, Any]) -> str:
    return str(answer["result"]["content"][0]["text"])


def state_of(folder: Path) -> str:
    """Ask the command line, as a person does."""
    words = ["find", "--json", "--journal", f"{folder}/journal.db"]
    found = subprocess.run(
        [sys.executable, "-m", "counterfoil.server", *words],
        capture_output=True,
        check=True,
        timeout=WAIT_SECONDS,
        env={**os.environ, "HOME": "/nonexistent"},
    )
    (operation,) = json.loads(found.stdout)["operations"]
    return str(operation["state"])


def test_a_server_killed_between_effect_and_answer_leaves_a_call_that_nobody_repeats(tmp_path: Path) -> None:
    (tmp_path / "failure").write_text("die")
    with GatewayProcess(tmp_path) as gateway:
        gateway.initialize()
        first = gateway.ask(call(1, "send_mail", **ALICE))
        (tmp_path / "failure").unlink()
        again = gateway.ask(call(2, "send_mail", **ALICE))
        other = gateway.ask(call(3, "send_mail", to="bob"))
        count = gateway.ask(call(4, "count_mails"))
        gateway.end_by()

    assert gateway.news == ["notifications/tools/list_changed"]
    assert "the server ended during the call" in text_of(first)
    assert '"reason":"in_doubt"' in text_of(again)
    assert (text_of(other), text_of(count)) == ("sent", "2")
    with GatewayProcess(tmp_path) as gateway:
        late = gateway.ask(modern_call(1, "send_mail", **ALICE))

    assert late["result"]["isError"] is True
    assert '"reason":"in_doubt"' in text_of(late)
    assert sent(tmp_path) == [ALICE, {"to": "bob"}]


@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGINT])
def test_a_client_that_goes_in_the_middle_of_a_call_leaves_it_in_doubt(
    tmp_path: Path, number: signal.Signals | None
) -> None:
    (tmp_path / "failure").write_text("hang")
    with GatewayProcess(tmp_path) as gateway:
        gateway.initialize()
        gateway.send(call(1, "send_mail", **ALICE))
        wait_for(lambda: sent(tmp_path) == [ALICE])
        code, seconds = gateway.end_by(number)

    assert (code, seconds < 8) == (0, True)
    wait_for(lambda: not is_running(int((tmp_path / "pid").read_text())))
    assert state_of(tmp_path) == "in_doubt"


def test_a_gateway_that_is_killed_has_the_intent_on_record(tmp_path: Path) -> None:
    (tmp_path / "failure").write_text("hang")
    with GatewayProcess(tmp_path) as gateway:
        gateway.initialize()
        gateway.send(call(1, "send_mail", **ALICE))
        wait_for(lambda: sent(tmp_path) == [ALICE])
        gateway.process.kill()
        gateway.process.wait(WAIT_SECONDS)
    (tmp_path / "failure").unlink()
    with GatewayProcess(tmp_path) as gateway:
        gateway.initialize()
        again = gateway.ask(call(1, "send_mail", **ALICE))

    assert '"reason":"lease_held"' in text_of(again)
    assert sent(tmp_path) == [ALICE]


def test_a_cancelled_call_is_in_doubt(tmp_path: Path) -> None:
    (tmp_path / "failure").write_text("hang")
    with GatewayProcess(tmp_path) as gateway:
        gateway.initialize()
        gateway.send(call(1, "send_mail", **ALICE))
        wait_for(lambda: sent(tmp_path) == [ALICE])
        cancel = {"method": "notifications/cancelled", "params": {"requestId": 1}}
        gateway.send({"jsonrpc": "2.0", **cancel})
        again = gateway.ask(call(2, "send_mail", **ALICE))

    assert again["id"] == 2
    assert any(f'"reason":"{reason}"' in text_of(again) for reason in ("in_doubt", "lease_held_by_you"))
    assert sent(tmp_path) == [ALICE]


def test_an_integer_that_cannot_be_passed_on_costs_its_own_call_and_none_under_way(tmp_path: Path) -> None:
    (tmp_path / "failure").write_text("hang")
    with GatewayProcess(tmp_path) as gateway:
        gateway.initialize()
        gateway.send(call(1, "send_mail", **ALICE))
        wait_for(lambda: sent(tmp_path) == [ALICE])
        for number, tool in enumerate(("count_mails", "send_mail"), 2):
            line = json.dumps(call(number, tool, to="DIGITS")).replace('"DIGITS"', "9" * 4_301)
            refused = gateway.ask(line.encode())
            told = json.loads(text_of(refused))
            assert (refused["id"], refused["result"]["isError"], told["recorded"]) == (number, True, False)
            assert "an integer of more than 4300 digits" in told["message"]
        assert text_of(gateway.ask(call(4, "count_mails"))) == "1"
        assert state_of(tmp_path) == "in_progress"


def test_a_later_process_answers_from_the_journal(tmp_path: Path) -> None:
    for is_replayed in (False, True):
        with GatewayProcess(tmp_path) as gateway:
            gateway.initialize()
            answer = gateway.ask(call(1, "send_mail", **ALICE))
            gateway.end_by()
        assert text_of(answer) == "sent"
        assert answer["result"]["_meta"]["counterfoil/gateway"]["replayed"] is is_replayed
    assert sent(tmp_path) == [ALICE]


def test_the_server_starts_with_the_gateway_and_ends_with_it_though_nobody_spoke(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path) as gateway:
        wait_for((tmp_path / "pid").exists)
        code, seconds = gateway.end_by()

    assert (code, seconds < 8) == (0, True)
    wait_for(lambda: not is_running(int((tmp_path / "pid").read_text())))


def test_a_server_that_outlives_the_end_of_its_stdin_is_ended(tmp_path: Path) -> None:
    (tmp_path / "failure").write_text("stay")
    with GatewayProcess(tmp_path) as gateway:
        gateway.initialize()
        code, seconds = gateway.end_by()

    assert (code, seconds < 8) == (0, True)
    wait_for(lambda: not is_running(int((tmp_path / "pid").read_text())))


def test_a_configured_server_that_cannot_be_started_costs_its_calls_and_not_the_gateway(
    tmp_path: Path,
) -> None:
    class Absent(StdioProcess):
        program = ("-m", "counterfoil.server")

    journal, config = f"sqlite:///{tmp_path}/journal.db", tmp_path / "counterfoil.toml"
    config.write_text('[gateway.servers.mail]\ncommand = ["/nonexistent/program"]\n')
    with Absent("gateway", "--config", str(config), COUNTERFOIL_JOURNAL=journal) as gateway:
        hello = gateway.initialize()
        answer = gateway.ask(call(1, "send_mail", **ALICE))
        code, _ = gateway.end_by()

    assert hello["result"]["capabilities"]["tools"] == {"listChanged": True}
    assert "could not be reached" in text_of(answer)
    assert "there is no program /nonexistent/program" in text_of(answer)
    assert "Nothing was sent" in text_of(answer)
    assert code == 0


def test_without_a_server_the_command_says_what_it_needs() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "counterfoil.server", "gateway"],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "HOME": "/nonexistent"},
        check=False,
    )

    assert ended.returncode == 2
    assert "`counterfoil gateway -- npx -y some-mail-server`" in ended.stderr
