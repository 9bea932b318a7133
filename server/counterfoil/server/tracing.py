"""Sets OpenTelemetry up where it is wanted and installed; says on stderr, once, why it cannot be."""

import os
import secrets
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opentelemetry import context, propagate, trace

from counterfoil.server.logs import logger
from counterfoil.server.telemetry import Telemetry
from counterfoil.store.redact import Redactor

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import SpanContext, Status

    from counterfoil.server.settings import Settings

__all__ = ["set_up_tracing", "without_secrets", "without_texts"]

FLUSHING_SECONDS = 0.3
"""How long the last spans may take at the end; the process is gone within two seconds in any case."""


class _Unusable(Exception):
    """What was configured cannot be done; the message says why."""


def set_up_tracing(
    settings: "Settings",
    *,
    version: str,
    environment: Mapping[str, str] = os.environ,
    transport: str = "pipe",
) -> tuple[Telemetry | None, Callable[[], None]]:
    """Give what tells the spans, None where that cannot be, and what sends the last of them at the end.

    A provider that the process was started with (`opentelemetry-instrument`) is used as it is.
    """
    flush: Callable[[], None] = _nothing
    redactor = Redactor(
        secrets.token_bytes(32), extra_names=settings.redact_names, patterns=settings.redact_patterns
    )
    try:
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            provider = _provider(version, environment, redactor)
            trace.set_tracer_provider(provider)
            flush = _flusher(provider)
        telemetry = Telemetry(
            trace.get_tracer("counterfoil", version),
            names=settings.redact_names,
            patterns=settings.redact_patterns,
            transport=transport,
        )
    except ImportError:
        logger.warning("telemetry is configured, but not installed: pip install 'counterfoil[otel]'")
        return None, _nothing
    except _Unusable as problem:
        logger.warning("telemetry is configured, but %s; no spans are sent", problem)
        return None, _nothing
    except Exception:
        logger.warning("telemetry could not be set up; no spans are sent", exc_info=True)
        return None, _nothing
    if settings.traceparent is not None:
        # The SDK's span takes its parent from `_meta`, and where that has none from here.
        context.attach(propagate.extract({"traceparent": settings.traceparent}))
    return telemetry, flush


def _nothing() -> None:
    pass


def _provider(version: str, environment: Mapping[str, str], redactor: Redactor) -> "TracerProvider":
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    attributes = {"service.version": version}
    if not environment.get("OTEL_SERVICE_NAME"):
        attributes["service.name"] = "counterfoil"
    # An own end is made below: the one at exit may wait for half a minute.
    provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_clean(_exporter(environment), redactor)))
    return provider


def _exporter(environment: Mapping[str, str]) -> "SpanExporter":
    name = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower() or "otlp"
    if name == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter(out=sys.stderr)
    if name != "otlp":
        raise _Unusable("OTEL_TRACES_EXPORTER is neither otlp, console nor none")
    protocol = environment.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environment.get(
        "OTEL_EXPORTER_OTLP_PROTOCOL", ""
    )
    if protocol not in ("", "http/protobuf"):
        raise _Unusable("OTEL_EXPORTER_OTLP_PROTOCOL is not http/protobuf")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _clean(exporter: "SpanExporter", redactor: Redactor) -> "SpanExporter":
    """Let an exporter see spans without the texts that errors have, which quote what was sent, or secrets."""
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class WithoutTexts(SpanExporter):
        def export(self, spans: "Sequence[ReadableSpan]") -> SpanExportResult:
            return exporter.export([without_secrets(without_texts(span), redactor) for span in spans])

        def shutdown(self) -> None:
            exporter.shutdown()

        def force_flush(self, timeout_millis: int = 30_000) -> bool:
            return exporter.force_flush(timeout_millis)

    return WithoutTexts()


def without_texts(span: "ReadableSpan") -> "ReadableSpan":
    """Give a span without its events (recorded exceptions) and without the words of its status."""
    if not span.events and not span.status.description:
        return span
    from opentelemetry.trace import Status

    return _copy(span, name=span.name, attributes=span.attributes, status=Status(span.status.status_code))


def without_secrets(span: "ReadableSpan", redactor: Redactor) -> "ReadableSpan":
    """Give a span whose name, attributes and trace states hold no secret.

    The SDK names it after what the client asked for, and passes on what the client's own tracing sent along.
    """
    attributes = {
        name: redactor.redact_text(value) if isinstance(value, str) else value
        for name, value in (span.attributes or {}).items()
    }
    return _copy(
        span,
        name=redactor.redact_text(span.name),
        attributes=attributes,
        status=span.status,
        redactor=redactor,
    )


def _copy(
    span: "ReadableSpan",
    *,
    name: str,
    attributes: "Mapping[str, Any] | None",
    status: "Status",
    redactor: Redactor | None = None,
) -> "ReadableSpan":
    """Give a span like `span`, without its events; with a redactor, no trace state holds a secret."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Link

    def clean(context: "SpanContext") -> "SpanContext":
        return context if redactor is None else _without_secret_state(context, redactor)

    return ReadableSpan(
        name=name,
        context=None if span.context is None else clean(span.context),
        parent=None if span.parent is None else clean(span.parent),
        resource=span.resource,
        attributes=attributes,
        links=[Link(clean(link.context), link.attributes) for link in span.links],
        kind=span.kind,
        status=status,
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _without_secret_state(context: "SpanContext", redactor: Redactor) -> "SpanContext":
    from opentelemetry.trace import SpanContext, TraceState

    told = [(key, value, f"{key}={value}") for key, value in context.trace_state.items()]
    kept = [(key, value) for key, value, text in told if redactor.redact_text(text) == text]
    if len(kept) == len(told):
        return context
    return SpanContext(
        context.trace_id, context.span_id, context.is_remote, context.trace_flags, TraceState(kept)
    )


def _flusher(provider: "TracerProvider") -> Callable[[], None]:
    def flush() -> None:
        ending = threading.Thread(target=provider.shutdown, name="last-spans", daemon=True)
        ending.start()
        ending.join(FLUSHING_SECONDS)

    return flush
