"""Leaves out the SDK's span of a message where nobody could see it.

The SDK makes one for every message, also in a process that keeps no traces: a twentieth of what a call costs.
"""

from collections.abc import Sequence
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerMiddleware
from opentelemetry import propagate, trace

from counterfoil.server.access import Context

__all__ = ["without_unseen_spans"]

_SPANS = "OpenTelemetryMiddleware"


def without_unseen_spans(middleware: Sequence[ServerMiddleware[Any]]) -> list[ServerMiddleware[Any]]:
    """Give the SDK's middleware so that its spans are made where somebody keeps or continues a trace only."""
    return [_SeenSpans(one) if type(one).__name__ == _SPANS else one for one in middleware]


class _SeenSpans:
    """Makes the span of a message, unless nothing could come of it."""

    def __init__(self, spans: ServerMiddleware[Any]) -> None:
        self._spans = spans
        self._traced_by = propagate.get_global_textmap().fields

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        # A trace that the client began is passed on to whatever is called from here, kept or not.
        if self._traced_by.isdisjoint(ctx.meta or ()) and _is_untraced():
            return await call_next(ctx)
        return await self._spans(ctx, call_next)


def _is_untraced() -> bool:
    """Tell whether no traces are kept in this process, and none was begun around this call."""
    return (
        isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
        and not trace.get_current_span().get_span_context().is_valid
    )
