"""The span of a message: made where a trace is kept or continued, left out where nobody could see it."""

from types import SimpleNamespace
from typing import Any

import pytest
from mcp.server.lowlevel import Server
from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from counterfoil.server.unseen_spans import without_unseen_spans

pytestmark = pytest.mark.anyio

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def spans_of(meta: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch) -> int:
    """Send a message through the SDK's own middleware, and count the spans that were begun for it."""
    begun = 0
    tracer = trace.get_tracer("test")

    class Counting:
        def start_as_current_span(self, *given: Any, **options: Any) -> Any:
            nonlocal begun
            begun += 1
            return tracer.start_as_current_span(*given, **options)

    monkeypatch.setattr("mcp.shared._otel._tracer", Counting())
    (middleware,) = without_unseen_spans(Server("bare").middleware)
    message: Any = SimpleNamespace(
        meta=meta, method="tools/call", params={"name": "t"}, protocol_version="2025-06-18", request_id=1
    )

    async def answer(ctx: Any) -> dict[str, Any]:
        assert ctx is message
        return {"isError": False}

    assert await middleware(message, answer) == {"isError": False}
    return begun


@pytest.mark.parametrize("meta", [None, {}, {"claudecode/toolUseId": "toolu_01", "progressToken": 1}])
async def test_no_span_is_made_where_no_trace_is_kept(
    meta: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await spans_of(meta, monkeypatch) == 0


@pytest.mark.parametrize("meta", [{"traceparent": TRACEPARENT}, {"baggage": "a=b"}])
async def test_a_trace_that_the_client_began_is_continued(
    meta: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await spans_of(meta, monkeypatch) == 1


async def test_every_message_has_a_span_where_traces_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", TracerProvider(shutdown_on_exit=False))
    assert await spans_of(None, monkeypatch) == 1


async def test_a_trace_that_the_process_was_started_in_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    around = SpanContext(1, 2, is_remote=True, trace_flags=TraceFlags(1))
    token = context.attach(trace.set_span_in_context(NonRecordingSpan(around)))
    try:
        assert await spans_of(None, monkeypatch) == 1
    finally:
        context.detach(token)
