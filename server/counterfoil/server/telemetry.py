"""Tells OpenTelemetry what calls did, where somebody configured it; nothing here can break a call.

The SDK's own span of a call is the parent, and gets what the answer said. A granted attempt is a span of its
own below it. That span covers only the granting, since none can be kept open across processes: its ids are
stored with the attempt's event, so that whichever process later sees the attempt's end can put
`counterfoil.attempt.ended` below it, from the grant to that end by the journal's times, and link the span of
the receipt, the failure or the finding to it. What an effect consists of never enters a span.
"""

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from msgspec.structs import replace
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, TraceFlags, Tracer

from counterfoil.server.logs import logger
from counterfoil.store.domain.commands import Caller, CheckOperation, OperationRef
from counterfoil.store.domain.instants import parse_rfc3339
from counterfoil.store.errors import Fault
from counterfoil.store.redact import Redactor
from counterfoil.tools.inputs import Input
from counterfoil.tools.protocol import Journal

__all__ = ["Telemetry"]

Run = Callable[[Journal, Any, Caller], Awaitable[dict[str, Any]]]
"""What carries a call out."""

ATTEMPT, ATTEMPT_ENDED = "counterfoil.attempt", "counterfoil.attempt.ended"

_REPORTS = frozenset(
    (
        "record_receipt",
        "record_failure",
        "reconcile_operation",
        "verify_operation",
        "close_operation",
        "record_progress",
    )
)
"""The tools whose calls are about an attempt that somebody was granted before."""

_READING_SECONDS = 1.0
"""How long an answer may be held up by reading what its span is linked to; it takes milliseconds."""

_LONGEST = 200
_KEY_BYTES = 32


class Telemetry:
    """Makes the spans of one process. Secrets that a name or an id holds are replaced as in the journal."""

    def __init__(
        self,
        tracer: Tracer,
        *,
        names: tuple[str, ...] = (),
        patterns: tuple[str, ...] = (),
        transport: str = "pipe",
    ) -> None:
        self._tracer = tracer
        self._transport = transport
        self._redactor = Redactor(secrets.token_bytes(_KEY_BYTES), extra_names=names, patterns=patterns)

    async def watched(
        self, tool: str, run: Run, journal: Journal, arguments: Input, caller: Caller
    ) -> dict[str, Any]:
        """Carry a call out as `run` does, answer and faults alike, and tell what became of it."""
        server = trace.get_current_span()
        if not server.is_recording():
            return await run(journal, arguments, caller)
        attempt = self._attempt_span() if tool == "begin_operation" else None
        if attempt is not None:
            caller = replace(caller, attempt_span=_traceparent(attempt.get_span_context()))
        try:
            answer = await run(journal, arguments, caller)
        except Fault as fault:
            server.set_attribute("counterfoil.fault", fault.code)
            raise
        try:
            with anyio.move_on_after(_READING_SECONDS):
                await self._tell(tool, server, attempt, journal, arguments, caller, answer)
        except Exception:
            logger.warning("the spans of a call were not told", exc_info=True)
        return answer

    def _attempt_span(self) -> Span | None:
        """Start the span of an attempt that may be granted. One that never ends is never exported."""
        try:
            span = self._tracer.start_span(ATTEMPT, kind=SpanKind.INTERNAL)
        except Exception:
            logger.warning("the span of an attempt was not started", exc_info=True)
            return None
        return span if span.get_span_context().is_valid and span.is_recording() else None

    async def _tell(
        self,
        tool: str,
        server: Span,
        attempt: Span | None,
        journal: Journal,
        arguments: Input,
        caller: Caller,
        answer: Mapping[str, Any],
    ) -> None:
        who, what = self._who(caller), self._what(arguments, answer)
        server.set_attributes({"network.transport": self._transport, **who, **what})
        _link_to_sender(server, caller)
        if attempt is not None and answer.get("next") == "perform" and not answer.get("replayed"):
            attempt.set_attributes({"gen_ai.tool.name": tool, **who, **what})
            attempt.end()
        is_about_earlier = tool in _REPORTS or answer.get("replayed")
        if is_about_earlier and (number := _attempt_meant(arguments, answer)):
            await self._report(tool, server, journal, caller, answer, number, {**who, **what})

    async def _report(
        self,
        tool: str,
        server: Span,
        journal: Journal,
        caller: Caller,
        answer: Mapping[str, Any],
        number: int,
        attributes: Mapping[str, str | int | bool],
    ) -> None:
        """Link the span of a report to the attempt, and tell the attempt's end where this call brought it."""
        operation = answer.get("operation")
        if not isinstance(operation, str):
            return
        checked = await journal.check_operation(CheckOperation(ref=OperationRef(operation=operation)), caller)
        granted = _granted_span(checked, number)
        if granted is not None:
            server.add_link(granted, {"counterfoil.attempt": number})
        shown = _shown_attempt(checked, number)
        outcome = _ended_now(tool, answer, shown, _receipts_of(checked, number))
        if outcome is None:
            return
        told: dict[str, str | int | bool] = {
            **attributes,
            "counterfoil.attempt": number,
            "counterfoil.outcome": outcome,
            "gen_ai.tool.name": tool,
        }
        if isinstance(repeat := checked.get("repeat"), str):
            told["counterfoil.repeat"] = repeat
        parent = None if granted is None else trace.set_span_in_context(NonRecordingSpan(granted))
        span = self._tracer.start_span(
            ATTEMPT_ENDED,
            context=parent,
            kind=SpanKind.INTERNAL,
            attributes=told,
            links=[trace.Link(server.get_span_context())],
            start_time=_nanoseconds(shown.get("granted_at")),
        )
        span.end(_nanoseconds(shown.get("ended_at") or answer.get("as_of")))

    def _who(self, caller: Caller) -> dict[str, str | int | bool]:
        """Say who calls, in the words of the GenAI conventions where they have one."""
        return self._texts(
            {
                "gen_ai.conversation.id": caller.conversation,
                "gen_ai.tool.call.id": caller.tool_call,
                "gen_ai.agent.name": caller.agent,
                "gen_ai.request.model": caller.model,
                "counterfoil.model_run": caller.model_run,
                "counterfoil.client": caller.client,
                "counterfoil.client_version": caller.client_version,
            }
        )

    def _what(self, arguments: Input, answer: Mapping[str, Any]) -> dict[str, str | int | bool]:
        """Say what the answer was: names, numbers and the server's own words, nothing of what was sent."""
        told = self._texts(
            {
                "counterfoil.next": answer.get("next"),
                "counterfoil.reason": answer.get("reason"),
                "counterfoil.state": answer.get("state"),
                "counterfoil.operation": answer.get("operation"),
                "counterfoil.run": answer.get("run"),
                "counterfoil.key": answer.get("key"),
                "counterfoil.repeat": answer.get("repeat") or getattr(arguments, "repeat", None),
            }
        )
        number = _attempt_meant(arguments, answer)
        if number is not None:
            told["counterfoil.attempt"] = number
        return told

    def _texts(self, texts: Mapping[str, object]) -> dict[str, str | int | bool]:
        return {
            name: self._redactor.redact_text(text)[:_LONGEST]
            for name, text in texts.items()
            if isinstance(text, str) and text
        }


def _attempt_meant(arguments: Input, answer: Mapping[str, Any]) -> int | None:
    """Give the number of the attempt that a call is about: its receipt's, the one it named, or the newest."""
    receipt = answer.get("receipt")
    of_receipt = receipt.get("attempt") if isinstance(receipt, dict) else None
    for number in (of_receipt, getattr(arguments, "attempt", None), answer.get("attempt")):
        if isinstance(number, int):
            return number
    return None


def _shown_attempt(checked: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    return next((entry for entry in checked.get("attempts") or () if entry.get("attempt") == number), {})


def _granted_span(checked: Mapping[str, Any], number: int) -> SpanContext | None:
    """Give the span of the attempt, if traces were kept where it was granted."""
    for entry in checked.get("trajectory") or ():
        if entry.get("attempt") == number:
            return _span_context(entry["by"].get("attempt_span"))
    return None


def _ended_now(tool: str, answer: Mapping[str, Any], attempt: Mapping[str, Any], receipts: int) -> str | None:
    """Tell what an attempt ended with, if it is this call that ended it.

    Its holder's report ends it at the answer's own moment, or at the lease's end where that came before. One
    that nobody ended ends with the first evidence about it, or with the decision to wait no longer.
    `receipts` is how many are on file for it.
    """
    outcome, ended_at = attempt.get("outcome"), attempt.get("ended_at")
    if not isinstance(outcome, str) or answer.get("reason") in ("duplicate", "replayed"):
        return None
    if ended_at is not None:
        is_late = tool == "record_failure" and ended_at == attempt.get("lease_expires_at")
        return outcome if is_late or ended_at == answer.get("as_of") else None
    match tool:
        case "close_operation":
            is_end = outcome == "unknown" and answer.get("next") == "continue"
        case "record_receipt":
            is_end = outcome == "performed" and receipts == 1
        case "reconcile_operation" | "verify_operation":
            is_end = outcome in ("silent", "refused") or (outcome == "performed" and receipts == 1)
        case _:
            is_end = False
    return outcome if is_end else None


def _receipts_of(checked: Mapping[str, Any], number: int) -> int:
    return sum(receipt.get("attempt") == number for receipt in checked.get("receipts") or ())


def _link_to_sender(server: Span, caller: Caller) -> None:
    """Link to the trace that the caller acts in, where the span of the call is not part of it already."""
    sender = _span_context(caller.traceparent)
    if sender is not None and sender.trace_id != server.get_span_context().trace_id:
        server.add_link(sender)


def _traceparent(context: SpanContext) -> str:
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _span_context(traceparent: object) -> SpanContext | None:
    if not isinstance(traceparent, str) or len(parts := traceparent.split("-")) != 4:
        return None
    _, trace_id, span_id, flags = parts
    context = SpanContext(
        trace_id=int(trace_id, 16),
        span_id=int(span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(int(flags, 16)),
    )
    return context if context.is_valid else None


def _nanoseconds(text: object) -> int:
    return parse_rfc3339(text, field="at") * 1_000 if isinstance(text, str) else time.time_ns()
