"""Processes that are stopped for longer than a lease, clocks that jump, noise, and many calls at once.

After each of them the next call works, and the journal agrees with what was answered.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from command_line import process
from crash.sessions import LONG
from hostile.fields import TOOLS, minimal
from hostile.house import open_house
from journals import FakeClock
from scenarios.servers import Server, answer_of, server_command, server_environment
from stdio_process import WAIT_SECONDS, call

RUN = "weekly-report/2026-W48"
LEASE_SECONDS = 0.5
LOOKUP = {"tool": "mail.search", "conclusive": True, "settle_seconds": 0}
EFFECT: dict[str, Any] = {"run": RUN, "key": "a", "action": "mail.send", "lookup": LOOKUP}
REF = {"run": RUN, "key": "a"}


def stop(pid: int) -> None:
    """Stop a process, and wait until the system says that it is."""
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + WAIT_SECONDS
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < deadline
        os.sched_yield()


def assert_whole(folder: Path) -> None:
    """Hold that the journal agrees with itself."""
    journal = f"sqlite:///{folder / 'journal.db'}"
    verified = process("verify", "--journal", journal, env=server_environment(folder))
    assert verified.code == 0, verified


def wait_until_in_doubt(server: Server) -> dict[str, Any]:
    """Let the lease of the first attempt run out; the check itself waits."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        checked = server.call("check_operation", **REF, wait_seconds=5)
        if checked["state"] == "in_doubt":
            return checked
        assert time.monotonic() < deadline, checked


def test_a_server_that_is_stopped_for_longer_than_its_lease_neither_loses_nor_repeats(tmp_path: Path) -> None:
    with Server(tmp_path).start() as first, Server(tmp_path).start() as second:
        begun = first.call("begin_operation", **EFFECT, lease_seconds=LEASE_SECONDS)
        assert (begun["next"], begun["attempt"]) == ("perform", 1)
        stop(first.process.pid)
        # The effect took place; the report lies in the pipe while the server does not run.
        first.send(call("late", "record_receipt", **REF, attempt=1, kind="message", external_id="m-1"))
        first.send(call("held", "record_progress", **REF, attempt=1))
        checked = wait_until_in_doubt(second)
        assert (checked["next"], checked["reason"]) == ("reconcile", "in_doubt")
        assert second.call("begin_operation", **EFFECT)["next"] == "reconcile"
        os.kill(first.process.pid, signal.SIGCONT)
        answers = {message["id"]: answer_of(message) for message in (first.receive(), first.receive())}
        assert answers["late"]["state"] == "succeeded"
        assert answers["held"]["next"] in ("skip", "continue", "reconcile")
        again = second.call("begin_operation", **EFFECT)
        assert (again["next"], again["reason"]) == ("skip", "already_succeeded")
        assert second.call("check_operation", **REF)["attempts_in_all"] == 1
        assert first.call("begin_operation", **{**EFFECT, "key": "b", "target": "b"})["next"] == "perform"
    assert_whole(tmp_path)


def test_a_server_that_comes_back_after_it_was_superseded_changes_nothing_silently(tmp_path: Path) -> None:
    with Server(tmp_path).start() as first, Server(tmp_path).start() as second:
        first.call("begin_operation", **EFFECT, lease_seconds=LEASE_SECONDS)
        stop(first.process.pid)
        first.send(call("progress", "record_progress", **REF, attempt=1))
        first.send(call("failure", "record_failure", **REF, attempt=1, effect="unknown", error="it hung"))
        checked = wait_until_in_doubt(second)
        looked = {"finding": "not_performed", "checked_with": "mail.search", "as_of": checked["as_of"]}
        assert second.call("reconcile_operation", **REF, **looked)["state"] == "failed"
        granted = second.call("begin_operation", **EFFECT)
        assert (granted["next"], granted["attempt"]) == ("perform", 2)
        os.kill(first.process.pid, signal.SIGCONT)
        for message in (first.receive(), first.receive()):
            answer = answer_of(message)
            assert (answer["next"], answer["reason"]) == ("stop", "superseded"), message["id"]
        late = first.call("record_receipt", **REF, attempt=1, kind="message", external_id="m-1")
        assert (late["state"], len(late["receipts"])) == ("disputed", 1)
        assert second.call("begin_operation", **EFFECT)["next"] in ("reconcile", "ask")
    assert_whole(tmp_path)


RELAY = """
import subprocess, sys, threading
server = subprocess.Popen(sys.argv[1:], stdin=-1, stdout=-1)
def carry(source, sink):
    for line in iter(source.readline, b""):
        sink.write(line); sink.flush()
    sink.close()
threading.Thread(target=carry, args=(server.stdout, sys.stdout.buffer), daemon=True).start()
carry(sys.stdin.buffer, server.stdin)
server.wait(20)
"""


class Relayed(Server):
    """A server behind a process of its own, which is its client."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", RELAY, *server_command(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=server_environment(folder),
        )
        self._buffer = b""
        self._calls = 0

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(WAIT_SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()


def test_a_client_that_is_stopped_for_longer_than_its_lease_may_go_on_where_nothing_was_decided(
    tmp_path: Path,
) -> None:
    with Server(tmp_path).start() as other, Relayed(tmp_path).start() as client:
        client.call("begin_operation", **EFFECT, lease_seconds=LEASE_SECONDS)
        stop(client.process.pid)
        wait_until_in_doubt(other)
        assert other.call("begin_operation", **EFFECT)["next"] == "reconcile"
        os.kill(client.process.pid, signal.SIGCONT)
        revived = client.call("record_progress", **REF, attempt=1, message="I was asleep")
        assert (revived["next"], revived["state"]) == ("continue", "in_progress")
        stored = client.call("record_receipt", **REF, attempt=1, kind="message", external_id="m-1")
        assert stored["state"] == "succeeded"
        assert other.call("begin_operation", **EFFECT)["next"] == "skip"
    assert_whole(tmp_path)


DAY_SECONDS = 86_400


@pytest.mark.anyio
@pytest.mark.parametrize(
    "jump_seconds", [-3_650 * DAY_SECONDS, -DAY_SECONDS, -400, 400, DAY_SECONDS, 3_650 * DAY_SECONDS]
)
async def test_after_a_clock_that_jumped_every_tool_answers_and_nothing_is_settled_by_it(
    tmp_path: Path, jump_seconds: float
) -> None:
    clock = FakeClock()
    async with open_house(tmp_path, clock=clock, connections=("one", "another")) as house:
        for tool in TOOLS:
            effect = minimal("begin_operation", run=f"run of {tool}", key="a", lookup={"tool": "mail.search"})
            assert (await house.call("begin_operation", effect))["next"] == "perform"
        clock.jump(jump_seconds)
        for tool, specification in TOOLS.items():
            named = {
                name: value
                for name, value in {"run": f"run of {tool}", "key": "a"}.items()
                if name in specification.input_model.model_fields
            }
            answer = await house.call(tool, minimal(tool, **named), connection="another")
            assert "fault" not in answer or tool == "verify_operation", answer
            assert answer.get("next") != "perform", answer
        clock.jump(-jump_seconds)
        for tool in TOOLS:
            ref = {"run": f"run of {tool}", "key": "a"}
            begun = await house.call(
                "begin_operation", minimal("begin_operation", **ref), connection="another"
            )
            assert begun["next"] != "perform", f"{tool}: {begun}"
            receipt = {**ref, "attempt": 1, "kind": "message", "external_id": f"m-{tool}"}
            assert "fault" not in await house.call("record_receipt", receipt)
        await house.check_whole()
        await house.check_works()


@pytest.mark.anyio
@pytest.mark.parametrize("jump_seconds", [400, DAY_SECONDS])
async def test_a_look_right_after_a_jump_ahead_settles_nothing(tmp_path: Path, jump_seconds: float) -> None:
    clock = FakeClock()
    async with open_house(tmp_path, clock=clock) as house:
        effect = minimal("begin_operation", **REF, lookup={"tool": "mail.search"})
        await house.call("begin_operation", effect)
        clock.advance(301)
        clock.jump(jump_seconds)
        checked = await house.call("check_operation", REF)
        looked = minimal("reconcile_operation", **REF, as_of=checked["as_of"]) | {"finding": "not_performed"}
        answer = await house.call("reconcile_operation", looked)
        assert (answer["next"], answer["reason"], answer["state"]) == ("wait", "settling", "in_doubt")
        await house.check_whole()


def noise(chance: random.Random) -> bytes:
    """Give bytes that are no message, or one with some bytes of it changed."""
    if chance.random() < 0.3:
        return chance.randbytes(chance.choice((1, 10, 1_000, 70_000))).replace(b"\n", b"")
    line = bytearray(json.dumps(call(chance.randrange(10**6), **{**EFFECT, "key": "noise"})).encode())
    for _ in range(chance.randrange(1, 4)):
        line[chance.randrange(len(line))] = chance.randrange(256)
    return bytes(line).replace(b"\n", b"")


def test_binary_noise_among_the_calls_harms_nothing(tmp_path: Path) -> None:
    chance = random.Random(20261129)
    with Server(tmp_path).start() as server:
        for number in range(2_000 if LONG else 150):
            server.send(noise(chance))
            if number % 10 == 0:
                key = f"key-{number}"
                server.send(call(f"begin {number}", **{**EFFECT, "key": key, "target": key}))
                while (message := server.receive()).get("id") != f"begin {number}":
                    assert message["jsonrpc"] == "2.0"
                assert answer_of(message)["next"] == "perform"
        assert server.end_by()[0] == 0
        assert "Traceback" not in server.errors()
    assert_whole(tmp_path)


def test_hundreds_of_calls_sent_at_once_are_each_answered_once_and_agree(tmp_path: Path) -> None:
    count = 1_000 if LONG else 150
    calls = []
    for number in range(count):
        ref = {"run": f"run-{number % 7}", "key": f"key-{number}"}
        calls += [
            call(f"begin {number}", **minimal("begin_operation", **ref, target=ref["key"])),
            call(f"check {number}", "check_operation", **ref),
            call(f"plan {number}", "resume_plan", run=ref["run"]),
        ]
    with Server(tmp_path).start() as server:
        answers: dict[str, dict[str, Any]] = {}
        for start in range(
            0, len(calls), 60
        ):  # As many as a pipe holds, so that neither side waits for the other.
            batch = calls[start : start + 60]
            server.send(b"\n".join(json.dumps(line).encode() for line in batch))
            for _ in batch:
                message = server.receive()
                assert message["id"] not in answers
                answers[message["id"]] = message
        assert set(answers) == {line["id"] for line in calls}
        granted = {
            name
            for name in answers
            if name.startswith("begin ") and answer_of(answers[name])["next"] == "perform"
        }
        assert len(granted) == count
        for number in range(count):
            checked = server.call("check_operation", run=f"run-{number % 7}", key=f"key-{number}")
            begun = answer_of(answers[f"begin {number}"])
            assert (checked["operation"], checked["state"]) == (begun["operation"], "in_progress")
            assert checked["idempotency_key"] == begun["idempotency_key"]
            early = answers[f"check {number}"]["result"]
            if early.get("isError"):
                assert json.loads(early["content"][0]["text"])["code"] == "not_found"
            else:
                assert early["structuredContent"]["operation"] == begun["operation"]
    assert_whole(tmp_path)
