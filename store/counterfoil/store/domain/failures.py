"""record_failure: what an agent's word about its own attempt establishes (CONTRACT.md, section 3, rule 4)."""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from counterfoil.store.domain.answers import Verdict
from counterfoil.store.domain.drafting import Draft, Situation
from counterfoil.store.domain.events import EventKind
from counterfoil.store.domain.instants import micros
from counterfoil.store.domain.model import Attempt, Operation, Outcome, State
from counterfoil.store.domain.outlook import attempts_used_up
from counterfoil.store.domain.patterns import lazy_pattern
from counterfoil.store.domain.states import is_repeatable, unknown_attempts
from counterfoil.store.domain.table import Command

__all__ = ["FailureFacts", "decide_failure", "is_evidence_of_no_effect"]

_STATUS_NAMES = frozenset(("status", "statuscode", "httpstatus", "httpstatuscode", "responsestatus"))
_UNSURE_WHEN_REPEATED = frozenset((408, 409, 425, 429))
"""Answers that may speak of the attempt before: a conflict, or a limit, that the first one ran into."""

_STATUS = lazy_pattern(r"\s*(?:HTTP/\S+\s+)?(\d{3})(?!\d)", re.IGNORECASE)


class FailureFacts(Struct, frozen=True, kw_only=True):
    """A failure in normal form. `evidence` is the body itself, for what it says of an HTTP status.

    `is_on_file`: a claim in these very words is kept already.
    """

    attempt: int
    effect: str
    error: str
    evidence: Mapping[str, Any] | None
    evidence_digest: str | None
    retryable: bool
    retry_after_seconds: float | None
    is_on_file: bool = False


def is_evidence_of_no_effect(evidence: Mapping[str, Any] | None, *, attempt: int) -> bool:
    """Tell whether evidence can show that a request was refused before any effect.

    A 5xx shows nothing; on any attempt but the first, neither does a status that may speak of the attempt
    before it.
    """
    if not _says_something(evidence):
        return False
    for status in _statuses(evidence):
        if status >= 500 or (attempt > 1 and status in _UNSURE_WHEN_REPEATED):
            return False
    return True


def _says_something(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_says_something(part) for part in value.values())
    if isinstance(value, list | tuple):
        return any(_says_something(part) for part in value)
    return value is not None and value != "" and not (isinstance(value, str) and value.isspace())


def _statuses(value: Any) -> list[int]:
    """Every HTTP status that a body carries, however deep and under whichever usual name."""
    if isinstance(value, list | tuple):
        return [status for part in value for status in _statuses(part)]
    if not isinstance(value, Mapping):
        return []
    found = []
    for name, part in value.items():
        if re.sub(r"[^a-z]", "", name.lower()) in _STATUS_NAMES:
            found += _as_status(part)
        found += _statuses(part)
    return found


def _as_status(value: Any) -> list[int]:
    if isinstance(value, bool):
        return []
    if isinstance(value, int | float):
        return [int(value)] if 100 <= value < 1000 else []
    if isinstance(value, str):
        match = _STATUS.match(value)
        return [] if match is None else [int(match[1])]
    return []


def decide_failure(operation: Operation, given: FailureFacts, situation: Situation) -> Verdict:
    """Record that an attempt ended without success; without evidence it is unknown how."""
    draft = Draft(operation, operation_id=operation.id, situation=situation)
    newest = draft.operation.newest
    if newest is None or given.attempt != newest.number:
        return draft.verdict(Command.FAILURE, "older")
    if newest.holder is None or not newest.holder.is_holder(situation.party):
        _claim(draft, given, situation)
        return draft.verdict(Command.FAILURE, "another_caller", warnings=_if_open(draft, _NOT_ITS_HOLDER))
    if given.effect == "none" and is_evidence_of_no_effect(given.evidence, attempt=newest.number):
        return _without_effect(draft, given, newest)
    row = "unknown" if given.effect == "unknown" else "none_without_evidence"
    if draft.before in (State.IN_PROGRESS, State.IN_DOUBT, State.DISPUTED):
        _end(draft, given, newest, Outcome.UNKNOWN)
    warnings = () if given.effect == "unknown" else _if_open(draft, _NO_EVIDENCE)
    after = draft.operation
    if (
        draft.state is State.IN_DOUBT
        and is_repeatable(after, draft.now, situation.policy)
        and not attempts_used_up(after)
    ):
        warnings += (_MAY_BE_REPEATED,)
    return draft.verdict(Command.FAILURE, row, warnings=warnings)


_NOT_ITS_HOLDER = (
    "this caller is not known as the holder of the attempt (the same conversation, or connection): what it "
    "says is kept as a claim"
)
_NO_EVIDENCE = (
    "effect none is taken as unknown: it counts only with evidence that the request was refused before any "
    "effect or never sent; an HTTP status of 5xx is no such evidence, nor is 408, 409, 425 or 429 on any "
    "attempt but the first. If you have it, call record_failure again with it (the code of another protocol "
    "under another name than status)"
)
_MAY_BE_REPEATED = (
    "this may be repeated although it is in doubt (see repeat_until, or repeat safe): begin_operation "
    "decides, and nothing has to be waited for"
)


def _if_open(draft: Draft, warning: str) -> tuple[str, ...]:
    """Warn only where the word would have mattered."""
    return (warning,) if draft.before in (State.IN_PROGRESS, State.IN_DOUBT) else ()


def _without_effect(draft: Draft, given: FailureFacts, newest: Attempt) -> Verdict:
    if draft.before in (State.IN_PROGRESS, State.IN_DOUBT, State.DISPUTED):
        _end(draft, given, newest, Outcome.REFUSED)
    others = [
        attempt for attempt in unknown_attempts(draft.operation, draft.now) if attempt.number != newest.number
    ]
    if others:
        return draft.verdict(Command.FAILURE, "none_while_another_is_unknown")
    ended = draft.operation.newest
    pause_until = None if ended is None or draft.state is not State.FAILED else ended.retry_at
    is_paused = pause_until is not None and draft.now < pause_until
    fields = {"retry_at": pause_until} if is_paused else {}
    return draft.verdict(Command.FAILURE, "none_with_evidence", fields=fields)


def _end(draft: Draft, given: FailureFacts, newest: Attempt, outcome: Outcome) -> None:
    """End the holder's attempt. One that is over stays over as it was, unless evidence says more of it."""
    is_over = newest.ended_at is not None
    if newest.outcome.is_without_effect or (is_over and outcome is Outcome.UNKNOWN):
        return
    draft.add(
        EventKind.ATTEMPT_ENDED,
        attempt=newest.number,
        outcome=outcome.value,
        ended_at=newest.ended_at if is_over else min(draft.now, newest.lease_until),
        error=given.error,
        evidence_digest=given.evidence_digest,
        retryable=given.retryable,
        retry_at=None if given.retry_after_seconds is None else draft.now + micros(given.retry_after_seconds),
    )


def _claim(draft: Draft, given: FailureFacts, situation: Situation) -> None:
    """Keep another caller's word, once per wording: it changes nothing."""
    if given.is_on_file:
        return
    draft.add(
        EventKind.FAILURE_CLAIMED,
        attempt=given.attempt,
        effect=given.effect,
        error=given.error,
        evidence_digest=given.evidence_digest,
        call_id=situation.call_id,
    )
