"""Spans where somebody wants them: whose child, linked to what, and nothing of what an effect consists of."""

import json
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from counterfoil.server.app import build_server
from counterfoil.server.callers import ClientInfo
from counterfoil.server.settings import SettingsError, load_settings
from counterfoil.server.telemetry import Telemetry
from counterfoil.server.tracing import set_up_tracing, without_texts
from counterfoil.store.domain.instants import parse_rfc3339
from fake_journal import FakeJournal
from journals import FakeClock, open_test_journal
from stdio_process import RealProcess, StdioProcess, call, modern_call

pytestmark = pytest.mark.anyio

RUN, KEY = "weekly-report/2026-W48", "email:alice"
REF = {"run": RUN, "key": KEY}
EFFECT = {**REF, "action": "mail.send"}
SENT = {"kind": "message", "system": "smtp", "external_id": "m-1"}
TRACE = {"agent": "reporter", "model": "claude-opus-5", "model_run": "msg_01"}
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
META = {"claudecode/toolUseId": "toolu_01AbCdEfGhIjKlMn", "traceparent": TRACEPARENT}
SECRET = "ghp_" + "a1B2" * 9


class Spans:
    """What was exported, by name."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def all(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all if span.name == name]

    def call(self, tool: str) -> ReadableSpan:
        """Give the SDK's own span of the newest call of a tool."""
        return self.named(f"tools/call {tool}")[-1]


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    """Let the SDK's spans go to the same place as ours, for this test alone."""
    spans = Spans()
    monkeypatch.setattr("mcp.shared._otel._tracer", spans.provider.get_tracer("mcp-python-sdk"))
    return spans


@asynccontextmanager
async def client_of(journal: Any, spans: Spans | None, **options: Any) -> AsyncIterator[Client]:
    """Connect to a server that tells its spans."""

    async def get() -> Any:
        return journal

    telemetry = None if spans is None else Telemetry(spans.provider.get_tracer("counterfoil"))
    given = {"client": ClientInfo(connection="one", conversation="talk-1"), "telemetry": telemetry, **options}
    async with Client(build_server(get, **given)) as client:
        yield client


@asynccontextmanager
async def session(
    folder: Path, spans: Spans | None, clock: FakeClock, *, conversation: str = "talk-1"
) -> AsyncIterator[Any]:
    """Open the journal as one more process does, and give what calls a tool there."""
    async with open_test_journal(folder, clock=clock) as journal:
        info = ClientInfo(connection=conversation, conversation=conversation)
        async with client_of(journal, spans, client=info) as client:

            async def send(tool: str, **arguments: Any) -> dict[str, Any]:
                result = await client.call_tool(tool, arguments, meta=META)
                assert not result.is_error, result
                return dict(result.structured_content or {})

            yield send


def ids(span: ReadableSpan) -> tuple[int, int]:
    return span.context.trace_id, span.context.span_id


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def nanoseconds(text: str) -> int:
    return parse_rfc3339(text, field="at") * 1_000


async def test_an_attempt_is_a_span_below_the_servers_and_the_receipt_is_linked_to_it(
    tmp_path: Path, spans: Spans
) -> None:
    clock = FakeClock()
    async with session(tmp_path, spans, clock) as send:
        granted = await send("begin_operation", **EFFECT, repeat="safe", trace=TRACE)
        clock.advance(40)
        receipt = await send("record_receipt", **REF, **SENT, attempt=1, trace=TRACE)
    begun, [attempt], [ended] = (
        spans.call("begin_operation"),
        spans.named("counterfoil.attempt"),
        spans.named("counterfoil.attempt.ended"),
    )
    assert (begun.kind, attempt.kind) == (SpanKind.SERVER, SpanKind.INTERNAL)
    assert begun.parent is not None
    assert (f"{begun.parent.trace_id:x}", begun.parent.span_id) == (TRACEPARENT[3:35], 0xF067AA0BA902B7)
    assert attempt.parent is not None
    assert (attempt.parent.trace_id, attempt.parent.span_id) == ids(begun)
    assert ended.parent is not None
    assert (ended.parent.trace_id, ended.parent.span_id) == ids(attempt)
    assert linked(spans.call("record_receipt")) == [ids(attempt)]
    assert linked(ended) == [ids(spans.call("record_receipt"))]
    assert ended.start_time == nanoseconds(granted["as_of"])
    assert ended.end_time == nanoseconds(receipt["as_of"]) == ended.start_time + 40_000_000_000

    who = {
        "gen_ai.conversation.id": "talk-1",
        "gen_ai.tool.call.id": META["claudecode/toolUseId"],
        "gen_ai.agent.name": "reporter",
        "gen_ai.request.model": "claude-opus-5",
        "counterfoil.model_run": "msg_01",
    }
    what = {
        "counterfoil.operation": granted["operation"],
        "counterfoil.run": RUN,
        "counterfoil.key": KEY,
        "counterfoil.attempt": 1,
        "counterfoil.repeat": "safe",
        "counterfoil.next": "perform",
        "counterfoil.reason": "first_attempt",
        "counterfoil.state": "in_progress",
    }
    sdk = {"mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool"}
    for span, expected in (
        (begun, {**sdk, **who, **what, "gen_ai.tool.name": "begin_operation", "network.transport": "pipe"}),
        (attempt, {**who, **what, "gen_ai.tool.name": "begin_operation"}),
    ):
        assert {name: (span.attributes or {}).get(name) for name in expected} == expected
    attributes = ended.attributes or {}
    assert (attributes["counterfoil.outcome"], attributes["counterfoil.state"]) == ("performed", "succeeded")
    assert attributes["counterfoil.repeat"] == "safe"


async def test_another_process_links_what_it_finds_to_the_attempt_of_the_one_that_died(
    tmp_path: Path, spans: Spans
) -> None:
    clock = FakeClock()
    async with session(tmp_path, spans, clock) as send:
        granted = await send("begin_operation", **EFFECT, lookup={"tool": "search", "settle_seconds": 0})
    clock.advance(400)
    [attempt] = spans.named("counterfoil.attempt")
    async with session(tmp_path, spans, clock, conversation="talk-2") as send:
        seen = await send("check_operation", **REF)
        assert spans.named("counterfoil.attempt.ended") == []
        look = {**REF, "checked_with": "search", "as_of": seen["as_of"]}
        await send("reconcile_operation", **look, finding="inconclusive")
        assert linked(spans.call("reconcile_operation")) == [ids(attempt)]
        assert spans.named("counterfoil.attempt.ended") == []
        found = await send("reconcile_operation", **look, finding="performed", **SENT)
        await send("record_receipt", **REF, **SENT)
        await send("record_receipt", **REF, kind="record", system="crm", external_id="r-1")
    [ended] = spans.named("counterfoil.attempt.ended")
    assert ended.parent is not None
    assert (ended.parent.trace_id, ended.parent.span_id) == ids(attempt)
    assert (ended.attributes or {})["gen_ai.conversation.id"] == "talk-2"
    assert ended.start_time == nanoseconds(granted["as_of"])
    assert ended.end_time == nanoseconds(found["as_of"])
    assert linked(spans.call("record_receipt")) == [ids(attempt)]


@pytest.mark.parametrize(
    ("report", "outcome"),
    [
        (("record_failure", {"effect": "none", "error": "no", "evidence": {"status": 422}}), "refused"),
        (("record_failure", {"effect": "unknown", "error": "no"}), "unknown"),
    ],
)
async def test_a_failure_ends_its_attempt_once(
    report: tuple[str, dict[str, Any]], outcome: str, tmp_path: Path, spans: Spans
) -> None:
    tool, arguments = report
    clock = FakeClock()
    async with session(tmp_path, spans, clock) as send:
        await send("begin_operation", **EFFECT)
        for call_id in ("0123456789abcdef-1", "0123456789abcdef-1", "0123456789abcdef-2"):
            clock.advance(1)
            await send(tool, **REF, attempt=1, **arguments, call_id=call_id)
    [ended] = spans.named("counterfoil.attempt.ended")
    assert (ended.attributes or {})["counterfoil.outcome"] == outcome


async def test_only_what_was_granted_is_an_attempt(tmp_path: Path, spans: Spans) -> None:
    async with session(tmp_path, spans, FakeClock()) as send:
        first = await send("begin_operation", **EFFECT, call_id="0123456789abcdef")
        again = await send("begin_operation", **EFFECT, call_id="0123456789abcdef")
        other = await send("begin_operation", **{**EFFECT, "args": {"n": 1}})
    assert [answer["next"] for answer in (first, again, other)] == ["perform", "perform", "stop"]
    [attempt] = spans.named("counterfoil.attempt")
    refused, replayed, _granted = reversed(spans.named("tools/call begin_operation"))
    assert linked(replayed) == [ids(attempt)]
    assert (refused.attributes or {})["counterfoil.reason"] == "identity_conflict"
    assert refused.links == ()


async def test_an_attempt_that_was_granted_without_spans_is_told_all_the_same(
    tmp_path: Path, spans: Spans
) -> None:
    async with session(tmp_path, None, FakeClock()) as send:
        await send("begin_operation", **EFFECT)
    async with session(tmp_path, spans, FakeClock()) as send:
        await send("record_receipt", **REF, **SENT)
    [ended] = spans.named("counterfoil.attempt.ended")
    assert ended.parent is not None
    assert (ended.parent.trace_id, ended.parent.span_id) == ids(spans.call("record_receipt"))


async def test_no_span_holds_what_an_effect_consists_of_or_a_secret(tmp_path: Path, spans: Spans) -> None:
    body = {"marked": "hunter2-body"}
    clock = FakeClock()
    async with session(tmp_path, spans, clock) as send:
        secretive = {**TRACE, "model_run": SECRET, "agent": f"password={SECRET}"}
        effect = {**EFFECT, "target": "hunter2-target", "args": body, "payload": body, "trace": secretive}
        lookup = {"tool": "search", "args": body, "instructions": "hunter2-lookup"}
        await send("begin_run", run=RUN, goal="hunter2-goal", context={"model": "hunter2-context"})
        await send("begin_operation", **effect, lookup=lookup, undo={"instructions": "hunter2-undo"})
        await send("record_progress", **REF, attempt=1, message="hunter2-message", checkpoint=body)
        failed = {**REF, "attempt": 1, "effect": "unknown", "error": "hunter2-error", "evidence": body}
        await send("record_failure", **failed)
        looked = {**REF, "checked_with": "hunter2-with", "evidence": body}
        await send("reconcile_operation", **looked, finding="inconclusive")
        await send("record_receipt", **REF, **SENT, url="https://hunter2-url", evidence=body)
        await send("check_operation", **REF, detail="args")
        await send("resume_plan", run=RUN)
        await send("finish_run", run=RUN, outcome="completed", reason="hunter2-reason")
    told = "".join(without_texts(span).to_json() for span in spans.all)
    assert len(spans.all) >= 11
    assert RUN in told
    assert "hunter2" not in told
    assert SECRET not in told
    assert "[redacted:" in told


async def test_a_fault_is_told_by_its_code_alone(spans: Spans, tmp_path: Path) -> None:
    async with open_test_journal(tmp_path) as journal, client_of(journal, spans) as client:
        result = await client.call_tool("check_operation", {"run": "hunter2-run", "key": "k"})
    assert result.is_error
    span = spans.call("check_operation")
    assert (span.attributes or {})["counterfoil.fault"] == "not_found"
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    assert "hunter2" not in span.to_json()


def test_the_words_of_an_exception_are_left_out_of_what_is_exported() -> None:
    provider = Spans()
    with (
        pytest.raises(RuntimeError),
        provider.provider.get_tracer("x").start_as_current_span("failing"),
    ):
        raise RuntimeError("hunter2")
    [span] = provider.all
    assert "hunter2" in span.to_json()
    clean = without_texts(span)
    assert "hunter2" not in clean.to_json()
    assert (clean.name, clean.context, clean.status.status_code) == (
        "failing",
        span.context,
        StatusCode.ERROR,
    )


class Broken:
    """A tracer, a journal and a clock of nothing but faults."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("hunter2-exception")


async def test_what_goes_wrong_with_spans_breaks_no_call(
    tmp_path: Path, spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with open_test_journal(tmp_path) as journal:
        broken = Telemetry(Broken())  # type: ignore[arg-type]
        async with client_of(journal, spans, telemetry=broken) as client:
            begun = await client.call_tool("begin_operation", EFFECT)
            receipt = await client.call_tool("record_receipt", {**REF, **SENT})
    assert begun.structured_content is not None
    assert begun.structured_content["next"] == "perform"
    assert receipt.structured_content is not None
    assert receipt.structured_content["state"] == "succeeded"
    assert "the spans of a call were not told" in caplog.text


async def test_by_default_nothing_is_watched_and_the_log_names_no_span(tmp_path: Path, spans: Spans) -> None:
    async with session(tmp_path, None, FakeClock()) as send:
        await send("begin_operation", **EFFECT)
        told = await send("check_operation", **REF)
    assert {span.instrumentation_scope.name for span in spans.all if span.instrumentation_scope} == {
        "mcp-python-sdk"
    }
    assert not any("counterfoil" in name for span in spans.all for name in span.attributes or {})
    assert "attempt_span" not in told["trajectory"][0]["by"]


@pytest.mark.parametrize(
    ("file", "environment", "expected"),
    [
        ("", {}, False),
        ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, True),
        ("", {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, True),
        ("", {"OTEL_TRACES_EXPORTER": "console"}, True),
        ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"}, False),
        ("", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}, False),
        ("", {"OTEL_METRICS_EXPORTER": "otlp", "OTEL_SERVICE_NAME": "x"}, False),
        ("[telemetry]\nenabled = true", {}, True),
        ("[telemetry]\nenabled = true", {"OTEL_SDK_DISABLED": "true"}, False),
        ("[telemetry]\nenabled = false", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, False),
    ],
)
def test_spans_are_wanted_only_where_somebody_says_so(
    file: str, environment: dict[str, str], expected: bool, tmp_path: Path
) -> None:
    path = tmp_path / "counterfoil.toml"
    path.write_text(file)
    given = {"HOME": str(tmp_path), "COUNTERFOIL_CONFIG": str(path), **environment}
    assert load_settings(environment=given).has_traces is expected


def test_the_switch_is_true_or_false(tmp_path: Path) -> None:
    path = tmp_path / "counterfoil.toml"
    path.write_text('[telemetry]\nenabled = "yes"')
    with pytest.raises(SettingsError, match=r"telemetry\.enabled"):
        load_settings(environment={"HOME": str(tmp_path), "COUNTERFOIL_CONFIG": str(path)})


@pytest.mark.parametrize(
    ("environment", "problem"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "neither otlp, console nor none"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "is not http/protobuf"),
    ],
)
def test_what_cannot_be_done_is_said_and_no_spans_are_made(
    environment: dict[str, str], problem: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = load_settings(environment={"HOME": str(tmp_path)})
    telemetry, _flush = set_up_tracing(settings, version="0", environment=environment)
    assert telemetry is None
    assert problem in caplog.text


def on_journal(folder: Path, **environment: str) -> StdioProcess:
    """Start the program on the journal in `folder`."""
    return RealProcess(COUNTERFOIL_JOURNAL=f"sqlite:///{folder}/journal.db", **environment)


def test_the_program_does_not_even_load_the_sdk_unless_it_is_wanted(tmp_path: Path) -> None:
    with on_journal(tmp_path, PYTHONPROFILEIMPORTTIME="1", COUNTERFOIL_LOG="warning") as process:
        process.initialize()
        assert process.ask(call(1, **EFFECT))["result"]["structuredContent"]["next"] == "perform"
        process.end_by()
        loaded = process.errors()
    assert "opentelemetry.trace" in loaded
    assert "opentelemetry.sdk" not in loaded
    assert "counterfoil.server.telemetry" not in loaded


@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_spans_on_the_console_leave_stdout_to_the_protocol(era: str, tmp_path: Path) -> None:
    send = call if era == "handshake" else modern_call
    given = {"OTEL_TRACES_EXPORTER": "console", "COUNTERFOIL_LOG": "warning", "TRACEPARENT": TRACEPARENT}
    with on_journal(tmp_path, **given) as process:
        if era == "handshake":
            process.initialize()
        assert process.ask(send(1, **EFFECT))["result"]["structuredContent"]["next"] == "perform"
        code, seconds = process.end_by()
        told = process.errors()
    assert (code, seconds < 2) == (0, True)
    assert '"name": "counterfoil.attempt"' in told
    assert '"name": "tools/call begin_operation"' in told
    # What the environment says is the parent where `_meta` says nothing.
    assert f'"parent_id": "0x{TRACEPARENT[36:52]}"' in told
    assert '"service.name": "counterfoil"' in told


def test_the_words_of_a_refusal_do_not_reach_what_is_exported(tmp_path: Path) -> None:
    with on_journal(tmp_path, OTEL_TRACES_EXPORTER="console", COUNTERFOIL_LOG="warning") as process:
        process.initialize()
        # The SDK puts the message of an error of the protocol into the status of its span.
        refused = process.ask(call(1, "hunter2-tool"))
        assert refused["error"]["message"].startswith("Unknown tool")
        process.end_by()
        told = process.errors()
    assert '"status_code": "ERROR"' in told
    assert "Unknown tool" not in told


def test_without_the_extra_that_is_said_once_and_the_server_goes_on(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import sys\nsys.modules['opentelemetry.sdk'] = None\n")
    given = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "PYTHONPATH": str(hidden)}
    with on_journal(tmp_path, **given) as process:
        process.initialize()
        assert process.ask(call(1, **EFFECT))["result"]["structuredContent"]["next"] == "perform"
        assert process.ask(call(2, "record_receipt", **REF, **SENT))["result"]["structuredContent"]
        assert process.end_by()[0] == 0
        told = process.errors()
    assert told.count("pip install 'counterfoil[otel]'") == 1
    assert "Traceback" not in told


class Collector(BaseHTTPRequestHandler):
    """Takes what is exported."""

    taken: list[tuple[str, bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        type(self).taken.append((self.path, body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def collector() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """Run a collector; give its address and what it has taken."""
    handler = type("Handler", (Collector,), {"taken": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", handler.taken  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()


def test_two_processes_export_one_attempt_to_a_collector(tmp_path: Path) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    with collector() as (address, taken):
        for send in (
            call(1, **EFFECT, target="hunter2-target"),
            call(1, "record_receipt", **REF, **SENT),
        ):
            with on_journal(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=address) as process:
                process.initialize()
                assert process.ask(send)["result"]["structuredContent"]["operation"]
                assert process.end_by()[0] == 0
    assert {path for path, _ in taken} == {"/v1/traces"}
    exported = {
        span.name: span
        for _, body in taken
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }
    attempt, ended = exported["counterfoil.attempt"], exported["counterfoil.attempt.ended"]
    assert attempt.parent_span_id == exported["tools/call begin_operation"].span_id
    assert (ended.trace_id, ended.parent_span_id) == (attempt.trace_id, attempt.span_id)
    assert [link.span_id for link in exported["tools/call record_receipt"].links] == [attempt.span_id]
    assert all(b"hunter2" not in body for _, body in taken)


async def test_a_journal_that_answers_by_rote_is_watched_too(spans: Spans) -> None:
    async with client_of(FakeJournal(), spans) as client:
        result = await client.call_tool("record_receipt", {**REF, **SENT})
    assert result.structured_content is not None
    assert json.loads(spans.call("record_receipt").to_json())["attributes"]["counterfoil.next"]
