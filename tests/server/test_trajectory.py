"""Every event leads to who caused it, whichever client sent the call and in whichever protocol era."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stdio_process import RealProcess, StdioProcess, call, modern_call

RUN = "weekly-report/2026-W48"
EFFECT = {"run": RUN, "key": "email:alice", "action": "mail.send", "target": "alice@example.org"}
REF = {"run": RUN, "key": "email:alice"}
SENT = {"kind": "message", "system": "smtp", "external_id": "m-1"}
FAILED = {**REF, "attempt": 1, "effect": "unknown", "error": "timeout"}
TRACE = {"agent": "reporter", "model": "claude-opus-5", "model_run": "msg_01ABCDEF"}
CONTEXT = {"model": "claude-opus-5", "policy": "p1"}
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
ENVIRONMENT_TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SESSION = "0b1c2d3e-4f50-4617-8283-94a5b6c7d8e9"
THREAD = "019a2b3c-4d5e-7f60-8172-839405a6b7c8"

Send = Callable[..., dict[str, Any]]


class Agent:
    """A client of one kind, which sends `_meta` as that kind does, over the pipes of a real server."""

    def __init__(self, process: StdioProcess, kind: str) -> None:
        self._process = process
        self._kind = kind
        self._calls = 0
        if kind == "codex":
            process.initialize("2025-06-18")

    def call_id(self) -> str:
        """Give the id that the latest call went out under."""
        return f"{'toolu' if self._kind == 'claude' else 'call'}_01AbCdEfGhIjKl{self._calls:04}"

    def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        self._calls += 1
        if self._kind == "claude":
            message = modern_call(self._calls, tool, **arguments)
            meta = {"claudecode/toolUseId": self.call_id(), "traceparent": TRACEPARENT}
        else:
            message = call(self._calls, tool, **arguments)
            meta = {"callId": self.call_id(), "threadId": THREAD, "sessionId": SESSION}
        message["params"].setdefault("_meta", {}).update(meta)
        result = self._process.ask(message)["result"]
        assert not result.get("isError"), result
        return dict(result["structuredContent"])


@contextmanager
def agent(kind: str, folder: Path, **environment: str) -> Iterator[Agent]:
    """Start a server as that client does, on the journal in `folder`, under the operator's rules."""
    settings = folder / "counterfoil.toml"
    settings.write_text(
        f'[probes.sent]\ntype = "file"\npath = "{folder}/{{args.name}}"\n'
        '[[authority]]\naction = "pay.*"\nrequire = "grant"\n'
    )
    given = {
        "COUNTERFOIL_JOURNAL": f"sqlite:///{folder}/journal.db",
        "COUNTERFOIL_CONFIG": str(settings),
        "CLAUDE_CODE_SESSION_ID": SESSION if kind == "claude" else "",
        "TRACEPARENT": ENVIRONMENT_TRACEPARENT,
    }
    with RealProcess(**{**given, **environment}) as process:
        yield Agent(process, kind)


def log(folder: Path, table: str = "events") -> list[dict[str, Any]]:
    """Give the log: kind, caller and the operation of each event."""
    with sqlite3.connect(f"file:{folder}/journal.db?mode=ro", uri=True) as connection:
        rows = connection.execute(f"SELECT kind, operation, caller FROM {table} ORDER BY seq").fetchall()
    return [{"kind": kind, "operation": operation, **json.loads(caller)} for kind, operation, caller in rows]


def writing_calls() -> list[tuple[str, dict[str, Any]]]:
    """Give a call of every tool that writes, in an order in which each of them does."""
    other = {"run": RUN, "key": "email:bob", "action": "mail.send", "target": "bob@example.org"}
    carol = {"run": RUN, "key": "email:carol"}
    return [
        ("begin_run", {"run": RUN, "workflow": "weekly-report", "workflow_version": "7", "context": CONTEXT}),
        ("begin_operation", {**EFFECT, "lookup": {"tool": "mail.search"}}),
        ("record_progress", {**REF, "attempt": 1, "message": "half"}),
        ("record_failure", FAILED),
        ("reconcile_operation", {**REF, "finding": "inconclusive", "checked_with": "mail.search"}),
        ("record_receipt", {**REF, **SENT}),
        ("begin_operation", {**other, "args": {"name": "bob"}, "lookup": {"probe": "sent"}}),
        ("verify_operation", {"run": RUN, "key": "email:bob"}),
        ("begin_operation", {**carol, "action": "pay.send", "target": "carol@example.org"}),
        ("request_authority", {**carol, "why": "rent"}),
        ("close_operation", {**carol, "outcome": "cancelled", "reason": "not needed"}),
        ("record_progress", {"run": RUN, "message": "nearly"}),
        ("finish_run", {"run": RUN, "outcome": "failed", "reason": "half of it"}),
    ]


@pytest.mark.parametrize("kind", ["claude", "codex"])
def test_every_event_of_every_writing_tool_leads_to_who_caused_it(kind: str, tmp_path: Path) -> None:
    called = {}
    with agent(kind, tmp_path) as send:
        for tool, arguments in writing_calls():
            send(tool, **arguments, trace=TRACE)
            called[send.call_id()] = tool
    events = [*log(tmp_path), *log(tmp_path, "namespace_events")]
    expected = {
        "client": "raw",
        "client_version": "1",
        "principal": "local",
        **TRACE,
        "conversation": SESSION if kind == "claude" else THREAD,
        "traceparent": TRACEPARENT if kind == "claude" else ENVIRONMENT_TRACEPARENT,
        "workflow_version": "7",
        "context": events[0]["context"],
    }
    assert events[0]["context"].startswith("sha256:")
    for event in events:
        assert {name: event.get(name) for name in expected} == expected, event["kind"]
        assert event["call_id"] == event["tool_call"]
        assert event["tool"] == called[event["call_id"]]
    assert {event["tool"] for event in events} == set(called.values())


def by_of(answer: dict[str, Any], what: str) -> dict[str, Any]:
    """Give who did one thing of a trajectory."""
    [entry] = [entry for entry in answer["trajectory"] if what in entry]
    return dict(entry["by"])


def test_the_reference_of_a_provider_leads_to_the_model_run_that_did_it(tmp_path: Path) -> None:
    with agent("claude", tmp_path) as send:
        send("begin_operation", **EFFECT, lookup={"tool": "mail.search"}, trace=TRACE)
        send("record_failure", **FAILED)
        began = "toolu_01AbCdEfGhIjKl0001"
    with agent("codex", tmp_path) as send:
        found = {**REF, "finding": "performed", "checked_with": "mail.search", **SENT}
        assert send("reconcile_operation", **found, trace={"model_run": "resp_02"})["state"] == "succeeded"
        who = send("check_operation", external_id="m-1")
    assert [next(iter(entry)) for entry in who["trajectory"]] == ["attempt", "receipt"]
    assert by_of(who, "attempt") == {
        "tool": "begin_operation",
        "client": "raw",
        "client_version": "1",
        "principal": "local",
        **TRACE,
        "tool_call": began,
        "conversation": SESSION,
        "traceparent": TRACEPARENT,
    }
    receipt = by_of(who, "receipt")
    assert (receipt["tool"], receipt["model_run"]) == ("reconcile_operation", "resp_02")
    assert (receipt["conversation"], receipt["traceparent"]) == (THREAD, ENVIRONMENT_TRACEPARENT)
    assert "model" not in receipt


def test_what_a_caller_says_of_itself_comes_back_bounded_and_escaped(tmp_path: Path) -> None:
    hostile = "\x1b[31m\u202e" + "x" * 3_000
    trace = dict.fromkeys(("agent", "conversation", "model", "model_run"), hostile)
    with agent("codex", tmp_path) as send:
        send("begin_operation", **EFFECT, trace=trace)
        send("record_receipt", **REF, **SENT, trace=trace)
        who = send("check_operation", external_id="m-1")
    for what in ("attempt", "receipt"):
        by = by_of(who, what)
        assert by["conversation"] == THREAD
        assert by["model_run"].startswith("\\u001b[31m\\u202exxx")
        assert all(len(text) <= 100 for text in by.values())
    assert len(json.dumps(who)) < 10_000


def test_a_traceparent_that_is_none_does_not_hide_the_environments(tmp_path: Path) -> None:
    with agent("codex", tmp_path) as send:
        send("begin_operation", **EFFECT, trace={"traceparent": TRACEPARENT})
        who = send("check_operation", **REF)
        assert by_of(who, "attempt")["traceparent"] == ENVIRONMENT_TRACEPARENT
    with agent("codex", tmp_path, TRACEPARENT="00-" + "0" * 32 + "-00f067aa0ba902b7-01") as send:
        send("begin_operation", **{**EFFECT, "key": "b", "target": "b"}, trace={"traceparent": TRACEPARENT})
        send("begin_operation", **{**EFFECT, "key": "c", "target": "c"}, trace={"traceparent": "none"})
        assert by_of(send("check_operation", run=RUN, key="b"), "attempt")["traceparent"] == TRACEPARENT
        assert "traceparent" not in by_of(send("check_operation", run=RUN, key="c"), "attempt")


def test_an_event_says_which_assumptions_its_call_did_not_name(tmp_path: Path) -> None:
    with agent("claude", tmp_path) as send:
        send("begin_run", run=RUN, workflow_version="7", context=CONTEXT)
        send("begin_operation", **EFFECT, context={**CONTEXT, "model": "other"})
        send("record_progress", **REF, attempt=1, message="half")
    with agent("codex", tmp_path) as send:
        send("record_receipt", **REF, **SENT)
    events = {event["kind"]: event for event in log(tmp_path)}
    begun, granted, progressed = events["run_begun"], events["attempt_granted"], events["progressed"]
    receipt = events["receipt_recorded"]
    assert "inherited" not in begun
    assert granted["inherited"] == events["operation_created"]["inherited"] == ["workflow_version"]
    assert granted["context"] != begun["context"]
    # The holder acts under what it began under; a stranger under what the run stands under.
    assert progressed["context"] == granted["context"]
    assert progressed["inherited"] == receipt["inherited"] == ["context", "workflow_version"]
    assert receipt["context"] == begun["context"]


def test_the_history_shows_all_that_is_known_of_a_caller_and_when_each_attempt_was_made(
    tmp_path: Path,
) -> None:
    with agent("claude", tmp_path) as send:
        send("begin_run", run=RUN, workflow_version="7", context=CONTEXT)
        send("begin_operation", **EFFECT, trace=TRACE)
        refused = {**FAILED, "effect": "none", "evidence": {"status": 422}}
        assert send("record_failure", **refused)["state"] == "failed"
        send("begin_operation", **EFFECT, trace=TRACE)
        send("record_receipt", **REF, **SENT)
        checked = page = send("check_operation", **REF, detail="full")
        history = list(page["history"])
        while "next_offset" in page:
            page = send("check_operation", **REF, detail="full", offset=page["next_offset"])
            history += page["history"]
    first, second = checked["attempts"]
    assert first["granted_at"] < first["ended_at"] < second["granted_at"] < second["ended_at"]
    assert second["ended_at"] == checked["receipts"][0]["recorded_at"]
    [granted, _again] = [entry for entry in history if entry["event"] == "attempt_granted"]
    [in_log, _again] = [event for event in log(tmp_path) if event["kind"] == "attempt_granted"]
    assert granted["caller"] == {name: in_log[name] for name in in_log if name not in ("kind", "operation")}
    assert len(granted["caller"]) > 12
    assert by_of(checked, "receipt")["tool"] == "record_receipt"
    assert [entry["attempt"] for entry in checked["trajectory"] if "attempt" in entry] == [2]
