"""Field reports about transports and sessions, tried on the real server over stdio.

Longer, with the same code: `COUNTERFOIL_LONG=1 uv run pytest tests/scenarios/test_transport.py`.
"""

import json
import os
import random
import resource
import select
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crash.sessions import LONG
from scenarios.servers import Server, ServerFault, answer_of, server_command, server_environment
from stdio_process import WAIT_SECONDS, call

RUN = "weekly-report/2026-W48"


def begin(key: str, **fields: Any) -> dict[str, Any]:
    """Give the arguments of a begin."""
    return {"run": RUN, "key": key, "action": "email.send", "target": f"{key}@example.org", **fields}


@pytest.mark.parametrize("how", [None, signal.SIGTERM, signal.SIGINT])
def test_a_server_with_an_open_journal_ends_by_itself(tmp_path: Path, how: signal.Signals | None) -> None:
    """J-9: the database's thread does not keep the process.

    Reported: ogx-ai/ogx#4587, omnilib/aiosqlite#290, omnilib/aiosqlite#299.
    """
    with Server(tmp_path).start() as server:
        assert server.call("begin_operation", **begin("a"))["next"] == "perform"
        # The wait is bounded, and how long it took says more of the machine than of the server.
        code, _ = server.end_by(how)
        assert code == 0
        assert "Traceback" not in server.errors()


def test_a_server_whose_journal_cannot_be_opened_says_so_and_ends(tmp_path: Path) -> None:
    """J-9 and X-4: a broken file at the start; every tool tells, and the file is untouched.

    Reported: ogx-ai/ogx#4587, omnilib/aiosqlite#290, omnilib/aiosqlite#299, espressif/esp-idf#19087,
    mcp-hangar/mcp-hangar#563.
    """
    (tmp_path / "journal.db").write_bytes(b"this is no database" * 1_000)
    with Server(tmp_path, COUNTERFOIL_LOG="debug").start() as server:
        for tool, given in (
            ("begin_operation", begin("a")),
            ("record_receipt", {"run": RUN, "key": "a", "external_id": "m-1"}),
            ("resume_plan", {}),
        ):
            with pytest.raises(ServerFault) as raised:
                server.call(tool, **given)
            assert raised.value.fault["code"] == "journal_unavailable"
            assert raised.value.fault["recorded"] is False
        assert server.end_by()[0] == 0
    assert (tmp_path / "journal.db").read_bytes() == b"this is no database" * 1_000


CLIENT = """
import os, subprocess, sys
server = subprocess.Popen(sys.argv[1:], stdin=-1, stdout=-1, stderr=subprocess.DEVNULL)
lines = sys.stdin.buffer.read().splitlines(keepends=True)
server.stdin.write(lines[0]); server.stdin.flush()
server.stdout.readline()
server.stdin.writelines(lines[1:]); server.stdin.flush()
print(server.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_clients_killed_in_the_middle_of_a_call_leave_no_server_and_no_lock(tmp_path: Path) -> None:
    """X-1: twenty clients, each killed with calls under way; what they began is there, once.

    Reported: Q00/ouroboros#2325, thedotmack/claude-mem#1351, yvgude/lean-ctx#1409.
    """
    servers = []
    for number in range(20):
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        lines = [
            {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello},
            call(1, **begin(f"client-{number}")),
            call(2, "check_operation", run=RUN, key=f"client-{number}", wait_seconds=50),
        ]
        client = subprocess.run(
            [sys.executable, "-c", CLIENT, *server_command(tmp_path)],
            input="".join(json.dumps(line) + "\n" for line in lines).encode(),
            stdout=subprocess.PIPE,
            timeout=WAIT_SECONDS,
            check=False,
            env=server_environment(tmp_path),
        )
        assert client.returncode == -signal.SIGKILL
        servers.append(_pidfd(int(client.stdout)))
    for server in servers:
        if server is not None:
            poll = select.poll()
            poll.register(server, select.POLLIN)
            assert poll.poll(WAIT_SECONDS * 1_000), "a server outlived its client"
            os.close(server)
    with closing(sqlite3.connect(tmp_path / "journal.db", timeout=0)) as raw:
        raw.execute("BEGIN IMMEDIATE")
        raw.execute("ROLLBACK")
    with Server(tmp_path).start() as server:
        assert server.call("begin_operation", **begin("afterwards"))["next"] == "perform"
        plan = server.call("resume_plan", run=RUN)
        # What a client had sent when it was killed is there whole, with one attempt, or not at all.
        assert plan["counts"] == {"in_progress": len(plan["steps"])}
        assert {step["attempt"] for step in plan["steps"]} == {1}


def test_a_signal_during_a_record_leaves_the_whole_receipt_or_none(tmp_path: Path) -> None:
    """X-2: the process ends cleanly, and what it did not store is not half there.

    Reported: RekklesNA/ProxmoxMCP-Plus#113, doobidoo/mcp-memory-service#370.
    """
    rounds = 12 if LONG else 4
    for number in range(rounds):
        with Server(tmp_path).start() as server:
            server.call("begin_operation", **begin(f"round-{number}"))
            server.send(call(99, "record_receipt", run=RUN, key=f"round-{number}", external_id=f"m-{number}"))
            code, _ = server.end_by(signal.SIGTERM if number % 2 else signal.SIGINT)
            assert code == 0
            assert "Traceback" not in server.errors()
    with Server(tmp_path).start() as server:
        for number in range(rounds):
            checked = server.call("check_operation", run=RUN, key=f"round-{number}")
            receipts = len(checked.get("receipts", []))
            assert (checked["state"], receipts) in (("succeeded", 1), ("in_progress", 0))


def test_a_call_cancelled_at_any_moment_agrees_with_its_retry(tmp_path: Path) -> None:
    """X-3: sixty cancels around the reply (five hundred in the long version).

    Reported: modelcontextprotocol/python-sdk#2416, modelcontextprotocol/python-sdk#1152,
    anthropics/claude-code#49479, QwenLM/qwen-code#11272.
    """
    chance = random.Random(7)
    with Server(tmp_path).start() as server:
        for number in range(500 if LONG else 60):
            key, call_id = f"key-{number}", f"call-id-{number:016}"
            server.send(call(f"begin-{number}", **begin(key, call_id=call_id)))
            # The cancel travels right behind, or after some other messages: the reply may be out by then.
            for other in range(chance.randrange(3)):
                server.send({"jsonrpc": "2.0", "id": f"ping-{number}-{other}", "method": "ping"})
            server.send(
                {
                    "jsonrpc": "2.0",
                    "method": "notifications/cancelled",
                    "params": {"requestId": f"begin-{number}"},
                }
            )
            server.send(call(f"retry-{number}", **begin(key, call_id=call_id)))
            answers = _answers_until(server, f"retry-{number}")
            retry = answer_of(answers[f"retry-{number}"])
            assert retry["next"] == "perform"
            assert retry["attempt"] == 1
            if f"begin-{number}" in answers and "result" in answers[f"begin-{number}"]:
                assert answer_of(answers[f"begin-{number}"])["idempotency_key"] == retry["idempotency_key"]
        assert server.call("resume_plan", run=RUN)["counts"] == {"in_progress": 500 if LONG else 60}


def test_stdout_is_json_rpc_and_nothing_else(tmp_path: Path) -> None:
    """X-4: with every log line switched on, faults, junk lines and an unknown method among the calls.

    Reported: espressif/esp-idf#19087, mcp-hangar/mcp-hangar#563.
    """
    with Server(tmp_path, COUNTERFOIL_LOG="debug", PYTHONWARNINGS="always", PYTHONDEVMODE="1") as server:
        server.initialize()
        lines: list[Any] = [
            call(1, **begin("a")),
            call(2, **begin("a", idempotency_key="x")),
            call(3, "no_such_tool"),
            {"jsonrpc": "2.0", "id": 4, "method": "no/such/method"},
            call(5, "check_operation", operation="op_" + "a" * 20),
            call(6, **begin("b", args={"n": 2**80})),
            b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"begin_operation","arguments":'
            b'{"run":"r","key":"k","action":"a","args":{"n":NaN}}}}',
        ]
        for line in lines:
            server.send(line)
        assert sorted(str(server.receive()["id"]) for _ in lines) == list("1234567")
        server.send(b"junk that is no JSON")
        assert server.ask({"jsonrpc": "2.0", "id": 8, "method": "ping"})["jsonrpc"] == "2.0"
        assert server.process.stdin is not None
        server.process.stdin.close()
        assert server.process.stdout is not None
        for rest in server.process.stdout.read().splitlines():
            assert json.loads(rest)["jsonrpc"] == "2.0"


def test_a_restart_loses_nothing_and_another_session_may_record(tmp_path: Path) -> None:
    """X-5: the state hangs on run and key and not on a connection; a plain re-begin is not a second grant.

    Reported: PrefectHQ/fastmcp#3073, markmhendrickson/neotoma#1923.
    """
    with Server(tmp_path).start() as server:
        begun = server.call("begin_operation", **begin("a"))
        server.end_by(signal.SIGKILL)
    with Server(tmp_path).start() as server:
        again = server.call("begin_operation", **begin("a"))
        assert (again["next"], again["reason"]) == ("wait", "lease_held")
        stored = server.call("record_receipt", run=RUN, key="a", external_id="m-1", attempt=1)
        assert (stored["operation"], stored["state"]) == (begun["operation"], "succeeded")
        check = server.call("check_operation", run=RUN, key="a")
        assert (check["attempts_in_all"], len(check["receipts"])) == (1, 1)
        assert server.call("begin_operation", **begin("a"))["next"] == "skip"


def test_every_message_delivered_twice_changes_nothing(tmp_path: Path) -> None:
    """X-7: begin, failure, begin, receipt and finding, each sent twice with the id of its call.

    Reported: nicobailon/pi-mcp-adapter#194, mcheemaa/mistri#26.
    """
    calls = [
        ("begin_operation", begin("a", lookup={"tool": "mail.search"})),
        ("record_failure", {"attempt": 1, "effect": "none", "error": "x", "evidence": {"status": 400}}),
        ("begin_operation", begin("a")),
        ("record_receipt", {"attempt": 2, "kind": "message", "external_id": "m-1"}),
        ("reconcile_operation", {"finding": "inconclusive", "checked_with": "mail.search"}),
    ]
    with Server(tmp_path).start() as server:
        for number, (tool, given) in enumerate(calls):
            named = {"run": RUN, "key": "a", **given, "call_id": f"the-call-number-{number}"}
            once = server.call(tool, **named)
            before = server.call("check_operation", run=RUN, key="a", detail="full")
            twice = server.call(tool, **named)
            after = server.call("check_operation", run=RUN, key="a", detail="full")
            assert once["next"] != "stop"
            for changing in ("as_of", "settle_until"):
                before.pop(changing, None)
                after.pop(changing, None)
            assert after == before
            assert (twice.get("attempt"), twice["state"]) == (once.get("attempt"), once["state"])
        assert after["state"] == "succeeded"
        assert after["attempts_in_all"] == 2


def test_every_message_about_runs_delivered_twice_changes_nothing(tmp_path: Path) -> None:
    """X-7: the tools of runs, of permission and of the decision, each sent twice with the id of its call.

    Reported: nicobailon/pi-mcp-adapter#194, mcheemaa/mistri#26.
    """
    step = {"key": "a", "action": "email.send", "target": "a@example.org"}
    given_up = {**step, "key": "b", "target": "b@example.org"}
    calls = [
        ("begin_run", {"run": RUN, "plan": [step, given_up], "workflow": "weekly-report"}),
        ("request_authority", {"run": RUN, "key": "a", "why": "it is due"}),
        ("begin_operation", {"run": RUN, **step}),
        ("record_progress", {"run": RUN, "key": "a", "attempt": 1, "message": "half", "fraction": 0.5}),
        ("record_progress", {"run": RUN, "message": "half of the run"}),
        ("record_receipt", {"run": RUN, "key": "a", "kind": "message", "external_id": "m-1"}),
        ("close_operation", {"run": RUN, "key": "b", "outcome": "cancelled", "reason": "not needed"}),
        ("finish_run", {"run": RUN, "outcome": "completed"}),
    ]
    with Server(tmp_path).start() as server:

        def seen() -> Any:
            found = [server.call("resume_plan", run=RUN, include="all")]
            found += [server.call("check_operation", run=RUN, key=key, detail="full") for key in "ab"]
            return [without_times(answer) for answer in found]

        for number, (tool, given) in enumerate(calls):
            call_id = f"the-call-number-{number}"
            once = server.call(tool, **given, call_id=call_id)
            before = seen()
            twice = server.call(tool, **given, call_id=call_id)
            assert once["next"] not in ("stop", "ask", "wait"), once
            assert (twice["next"], twice.get("state")) == (once["next"], once.get("state"))
            assert seen() == before, tool
        plan, sent, cancelled = seen()
        assert plan["counts"] == {"succeeded": 1, "cancelled": 1}
        assert (sent["state"], sent["attempts_in_all"], len(sent["receipts"])) == ("succeeded", 1, 1)
        assert (cancelled["state"], cancelled["attempts_in_all"]) == ("cancelled", 0)


def without_times(answer: Any) -> Any:
    """Give an answer without what grows by itself while one looks."""
    if isinstance(answer, dict):
        moving = ("as_of", "age_seconds", "settle_until")
        return {name: without_times(value) for name, value in answer.items() if name not in moving}
    return [without_times(item) for item in answer] if isinstance(answer, list) else answer


def test_eight_mixed_calls_of_one_turn_are_all_answered_rightly(tmp_path: Path) -> None:
    """X-8: sent at once, answered in any order.

    Reported: modelcontextprotocol/servers#1819, colbymchenry/codegraph#238.
    """
    with Server(tmp_path).start() as server:
        server.call("begin_operation", **begin("done"))
        server.call("begin_operation", **begin("open"))
        batch = [
            call("plan", "resume_plan", run=RUN),
            call("receipt", "record_receipt", run=RUN, key="done", external_id="m-1"),
            call("new", **begin("new")),
            call("held", **begin("open")),
            call("failure", "record_failure", run=RUN, key="open", attempt=1, effect="unknown", error="x"),
            call("check", "check_operation", run=RUN, key="done"),
            call("missing", "check_operation", run=RUN, key="missing"),
            call("runs", "resume_plan"),
        ]
        assert server.process.stdin is not None
        server.process.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in batch))
        server.process.stdin.flush()
        answers = {message["id"]: message for message in (server.receive() for _ in batch)}
        assert set(answers) == {line["id"] for line in batch}
        assert answers["missing"]["result"]["isError"] is True
        given = {name: answer_of(message) for name, message in answers.items() if name != "missing"}
        assert given["receipt"]["state"] == "succeeded"
        assert given["new"]["next"] == "perform"
        assert given["held"]["next"] in ("wait", "reconcile", "ask")
        assert given["failure"]["state"] == "in_doubt"
        plan = server.call("resume_plan", run=RUN)
        assert plan["counts"] == {"succeeded": 1, "in_progress": 1, "in_doubt": 1}
        checks = {key: server.call("check_operation", run=RUN, key=key) for key in ("done", "new", "open")}
        assert {key: check["attempts_in_all"] for key, check in checks.items()} == dict.fromkeys(checks, 1)
        assert len(checks["done"]["receipts"]) == 1


def test_a_disk_that_fills_up_under_a_running_server_is_told_by_what_to_do(tmp_path: Path) -> None:
    """J-5: full at the begin and at the record; each says what to do, and goes through once there is room.

    Reported: datafusion-contrib/datafusion-table-providers#208.
    """
    large = {"text": "x" * 60_000}
    receipt = {"run": RUN, "key": "open", "external_id": "m-1", "evidence": large}
    with Server(tmp_path).start() as server:
        assert server.call("begin_operation", **begin("open"))["next"] == "perform"
        pid, limit = server.process.pid, resource.RLIMIT_FSIZE
        lifted = resource.prlimit(pid, limit)
        resource.prlimit(pid, limit, ((tmp_path / "journal.db").stat().st_size, lifted[1]))
        for tool, given, words in (
            ("begin_operation", begin("other", args=large), "Do not perform the effect"),
            ("record_receipt", receipt, "NOT stored: keep it"),
        ):
            with pytest.raises(ServerFault) as raised:
                server.call(tool, **given)
            fault = raised.value.fault
            assert (fault["code"], fault["recorded"]) == ("journal_unavailable", False)
            assert words in fault["message"] + fault["fix"]
        assert server.call("resume_plan", run=RUN)["counts"] == {"in_progress": 1}
        resource.prlimit(pid, limit, lifted)
        stored = server.call("record_receipt", **receipt)
        assert (stored["state"], stored["next"]) == ("succeeded", "continue")
        begun = server.call("begin_operation", **begin("other", args=large))
        assert (begun["next"], begun["attempt"]) == ("perform", 1)
        check = server.call("check_operation", run=RUN, key="open")
        assert (check["attempts_in_all"], len(check["receipts"])) == (1, 1)


def test_a_server_that_was_stopped_past_its_lease_may_not_act_and_its_receipt_counts(tmp_path: Path) -> None:
    """L-8: stopped like a machine asleep; another session is sent to look meanwhile, and granted nothing.

    Reported: microsoft/WSL#10006.
    """
    mine = begin("a", lease_seconds=1, lookup={"tool": "mail.search"}, call_id="the-call-of-the-sleeper")
    with Server(tmp_path).start() as sleeper, Server(tmp_path).start() as other:
        assert sleeper.call("begin_operation", **mine)["attempt"] == 1
        sleeper.process.send_signal(signal.SIGSTOP)
        moved = other.call("check_operation", run=RUN, key="a", wait_seconds=15)
        assert (moved["state"], moved["next"]) == ("in_doubt", "reconcile")
        taken = other.call("begin_operation", **begin("a"))
        assert (taken["next"], taken["reason"]) == ("reconcile", "in_doubt")
        sleeper.process.send_signal(signal.SIGCONT)
        again = sleeper.call("begin_operation", **mine)
        assert (again["next"], again["reason"]) == ("reconcile", "in_doubt")
        late = sleeper.call("record_receipt", run=RUN, key="a", attempt=1, external_id="m-1")
        assert (late["state"], late["next"]) == ("succeeded", "continue")
        check = other.call("check_operation", run=RUN, key="a")
        assert (check["attempts_in_all"], len(check["receipts"])) == (1, 1)


HOSTILE = [
    ("a lone surrogate", rb'"args":{"text":"\ud800"}'),
    ("not a number", rb'"args":{"n":NaN}'),
    ("infinity", rb'"args":{"n":-Infinity}'),
    ("a member twice", rb'"args":{"to":"alice","to":"bob"}'),
    ("a nested bomb", b'"args":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000),
    ("one megabyte", b'"args":{"text":"' + b"x" * 1_000_000 + b'"}'),
    ("ten megabytes", b'"args":{"text":"' + b"x" * 10_000_000 + b'"}'),
]
if LONG:
    HOSTILE.append(("64 megabytes", b'"args":{"text":"' + b"x" * 64_000_000 + b'"}'))


def test_a_poisonous_message_is_answered_and_harms_nothing(tmp_path: Path) -> None:
    """M-11 and M-12: in a begin and in a record; what was open stays held, and the next call works.

    Reported: simonw/llm#546, frappe/frappe#41128, edxeth/pi-subagents#23.
    """
    head = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":{"run":"r",'
    with Server(tmp_path).start() as server:
        assert server.call("begin_operation", run="r", key="open", action="email.send")["next"] == "perform"
        for place, (what, member) in enumerate(HOSTILE):
            evidence = member.replace(b'"args"', b'"evidence"', 1)
            for number, tool, given in (
                (1_000 + place, b"begin_operation", b'"key":"poison","action":"email.send",' + member),
                (2_000 + place, b"record_receipt", b'"key":"open","external_id":"m-1",' + evidence),
            ):
                answer = server.ask(head % (number, tool) + given + b"}}}")
                assert answer["id"] == number, what
                text = json.dumps(answer)
                assert "invalid_argument" in text or "too_large" in text, what
                assert answer.get("result", {"isError": True})["isError"] is True, what
            assert server.call("resume_plan", run="r")["counts"] == {"in_progress": 1}, what
        normal = server.call("record_receipt", run="r", key="open", external_id="m-1")
        assert normal["state"] == "succeeded"


def _pidfd(pid: int) -> int | None:
    """Give a descriptor of a process, or None where it has ended already."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _answers_until(server: Server, last: str) -> dict[str, dict[str, Any]]:
    """Receive messages until the one with the id `last`."""
    answers: dict[str, dict[str, Any]] = {}
    while last not in answers:
        message = server.receive()
        answers[str(message["id"])] = message
    return answers
