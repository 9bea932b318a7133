"""Puts a verdict and the facts into the words of the contract: what a caller reads, bounded and escaped."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from counterfoil.store.domain.answers import (
    FINDING_KEPT,
    NO_ATTEMPT_LEFT,
    NOT_ITS_UNDOING,
    TWIN_IN_QUESTION,
    Verdict,
    guidance_for,
)
from counterfoil.store.domain.canonical import digest, parse_json, plain_json
from counterfoil.store.domain.identity import idempotency_key
from counterfoil.store.domain.instants import Instant, rfc3339
from counterfoil.store.domain.json_numbers import Json
from counterfoil.store.domain.lookalikes import Lookalike, cannot_be_set_aside
from counterfoil.store.domain.model import Attempt, Finding, Operation, Outcome, Receipt, State
from counterfoil.store.domain.outlook import attempts_used_up
from counterfoil.store.domain.states import (
    Policy,
    decision_at,
    is_live,
    repeat_until,
    settle,
    settle_until,
    since,
    state_of,
)
from counterfoil.store.domain.untrusted import escape_untrusted, safe_value

__all__ = [
    "BODY_SHOWN",
    "Presenter",
    "answer_head",
    "body_gone",
    "body_shown",
    "escaped_json",
    "reads_as_it_is",
    "value_of",
    "without_none",
]

BODY_SHOWN = 2_000
"""Characters of a recorded body that an answer shows; the whole comes by check_operation."""

_LAYOUT = dict.fromkeys(map(ord, "\t\n\r"))
_DEEPEST = 64
_MOST_SHOWN = 5
_SHORT = 300


def without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what does not apply."""
    return {name: value for name, value in fields.items() if value is not None}


def escaped_json(value: Json) -> str:
    """Write a value as JSON in which every character that could act on a reader is a \\u escape."""
    text = plain_json(value)
    return "".join(
        character if character.isprintable() else json.dumps(character)[1:-1] for character in text
    )


def value_of(text: str) -> Json:
    """Read a stored body; an integer longer than Python reads by itself is exact all the same."""
    try:
        return json.loads(text)
    except ValueError:
        return parse_json(text, field="body", max_depth=_DEEPEST)


def reads_as_it_is(value: Json) -> bool:
    """Tell whether no character of a value could act on a reader; line breaks and tabs of a text cannot."""
    if isinstance(value, str):
        plain = value.translate(_LAYOUT)
        return escape_untrusted(plain, limit=len(plain) + 1) == plain
    if isinstance(value, dict):
        return all(reads_as_it_is(name) and reads_as_it_is(part) for name, part in value.items())
    if isinstance(value, list):
        return all(map(reads_as_it_is, value))
    return True


def body_shown(text: str | None, *, detail: str) -> Json:
    """Show a recorded body as it was recorded; one that could act on a reader as JSON text with escapes.

    What does not fit is named with its digest and the way to the whole. `text` is the stored JSON; `detail`
    names the check_operation detail that gives it.
    """
    if text is None:
        return None
    value = value_of(text)
    if len(value if isinstance(value, str) else text) <= BODY_SHOWN and reads_as_it_is(value):
        return value
    escaped = escaped_json(value)
    if len(escaped) <= BODY_SHOWN:
        return {"as_json": escaped, "note": "parse as_json as JSON; the result is the body, unchanged"}
    shown = value if isinstance(value, str) else text
    return {
        "cut": True,
        "characters": len(shown),
        "digest": digest(text),
        "beginning": escape_untrusted(shown[:_SHORT], limit=_SHORT),
        "whole": f"check_operation with detail {detail}, from offset 0 on"
        + ("; send that, unchanged" if detail in ("args", "payload") else ""),
    }


def body_gone(recorded: str) -> dict[str, Any]:
    """Say that a body was removed: its digest is what is left of it."""
    return {
        "pruned": True,
        "digest": recorded,
        "note": "removed by prune; it can be sent again only by who still has exactly this body",
    }


def body_damaged(recorded: str) -> dict[str, Any]:
    """Say that a body is not what was recorded any more: nothing may be sent by it."""
    return {
        "damaged": True,
        "digest": recorded,
        "note": "cannot be read any more: `counterfoil verify` tells what is damaged",
    }


def answer_head(next_: str, reason: str, now: Instant, state: State | None = None) -> dict[str, Any]:
    """Give what every answer begins with: the moment, the verb, its reason and what to do."""
    return {
        "as_of": rfc3339(now),
        "next": next_,
        "reason": reason,
        "guidance": guidance_for(next_, reason, state),
    }


class Presenter:
    """Answers under one configuration."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def verdict(self, verdict: Verdict, now: Instant) -> dict[str, Any]:
        """Give the verb, its reason and what to do."""
        state = None if verdict.after is None else state_of(verdict.after, now)
        head = answer_head(verdict.next, verdict.reason, now, state)
        duplicates = verdict.fields.get("duplicates", ())
        if any(cannot_be_set_aside(alike.operation, alike.same, now) for alike in duplicates):
            head["guidance"] = TWIN_IN_QUESTION
        if verdict.reason == "recorded" and verdict.after is not None and _is_final(verdict.after, now):
            head["guidance"] = NO_ATTEMPT_LEFT
        receipt = verdict.fields.get("receipt")
        if verdict.reason == "foreign_receipt" and receipt is not None and receipt.is_undo:
            head["guidance"] = NOT_ITS_UNDOING
        kept = verdict.kept_finding if verdict.reason == "duplicate" else None
        return head if kept is None else {**head, "guidance": FINDING_KEPT, "finding": self.finding(kept)}

    def place(self, operation: Operation, now: Instant) -> dict[str, Any]:
        """Say which operation is spoken of, and its state."""
        newest = operation.newest
        return without_none(
            {
                "operation": operation.id,
                "run": operation.run,
                "key": operation.key,
                "state": state_of(operation, now).value,
                "attempt": None if newest is None else newest.number,
            }
        )

    def grant(self, attempt: Attempt, operation: Operation) -> dict[str, Any]:
        """Show what an attempt was granted."""
        return {
            "attempt": attempt.number,
            "idempotency_key": idempotency_key(operation.id, attempt.generation),
            "lease_expires_at": rfc3339(attempt.lease_until),
            "send_before": rfc3339(attempt.lease_until),
        }

    def doubt(self, operation: Operation, now: Instant, lookup_args: Json) -> dict[str, Any]:
        """Show how to find out: where to look, since when, from when an empty look counts, which key.

        `lookup_args` are the lookup's args as they are shown.
        """
        newest = operation.newest
        until = settle_until(operation, now, self._policy)
        return without_none(
            {
                "lookup": self.lookup(operation, lookup_args),
                "since": rfc3339(since(operation)),
                "settle_until": None if until is None else rfc3339(until),
                "repeat_until": self.repeat_until(operation),
                "idempotency_key": None
                if newest is None
                else idempotency_key(operation.id, newest.generation),
                "receipts": self.receipts(operation.receipts) or None,
            }
        )

    def repeat_until(self, operation: Operation) -> str | None:
        """Until when the provider absorbs a repeat, where that is known."""
        until = repeat_until(operation, self._policy)
        return None if until is None else rfc3339(until)

    def lookup(self, operation: Operation, args: Json) -> dict[str, Any] | None:
        """Show the declared lookup."""
        lookup = operation.terms.lookup
        if lookup is None:
            return None
        return without_none(
            {
                "tool": _safe(lookup.tool),
                "args": args,
                "instructions": _safe(lookup.instructions, limit=1_000),
                "probe": _safe(lookup.probe),
                "conclusive": True if lookup.conclusive else None,
                "settle_seconds": settle(operation, self._policy) / 1_000_000,
            }
        )

    def settled_at(self, operation: Operation, now: Instant) -> str | None:
        """When the operation came to rest."""
        decision = decision_at(operation, now)
        if decision is not None and operation.dispute is None:
            return rfc3339(decision.at)
        standing = operation.standing
        if state_of(operation, now) is State.SUCCEEDED and standing:
            return rfc3339(standing[0].recorded_at)
        return None

    def receipts(self, receipts: Iterable[Receipt], *, most: int = _MOST_SHOWN) -> list[dict[str, Any]]:
        """Show the newest receipts; where there are more, the first entry says how many."""
        every = list(receipts)
        shown = [self.receipt(receipt) for receipt in every[-most:]]
        if len(every) > most:
            shown.insert(0, {"cut": len(every) - most, "whole": "check_operation with detail full"})
        return shown

    def receipt(self, receipt: Receipt) -> dict[str, Any]:
        """Show one receipt; marks that do not apply are left out."""
        return without_none(
            {
                "receipt": receipt.number,
                "kind": receipt.kind,
                "system": _safe(receipt.system),
                "external_id": _safe(receipt.external_id),
                "url": _safe(receipt.url),
                "performed_at": None if receipt.performed_at is None else rfc3339(receipt.performed_at),
                "recorded_at": rfc3339(receipt.recorded_at),
                "assurance": receipt.assurance.word,
                "source": receipt.source,
                "attempt": receipt.attempt,
                "accepted": receipt.is_accepted,
                "final": None if receipt.final else False,
                "evidence": None if receipt.evidence_digest is None else "check_operation detail evidence",
                "foreign": True if receipt.is_foreign else None,
                "unannounced": True if receipt.is_unannounced else None,
                "satisfies": None
                if receipt.satisfies is None
                else safe_value(list(json.loads(receipt.satisfies)), limit=_SHORT),
                "undoing": True if receipt.is_undo else None,
                "set_aside": True if receipt.is_set_aside else None,
            }
        )

    def finding(self, finding: Finding) -> dict[str, Any]:
        """Show one finding."""
        return without_none(
            {
                "finding": finding.finding,
                "checked_with": _safe(finding.checked_with),
                "by": finding.shown_by,
                "as_of": None if finding.as_of is None else rfc3339(finding.as_of),
                "attempt": finding.attempt,
                "recorded_at": rfc3339(finding.recorded_at),
                "settled_nothing": True if finding.is_unsettling else None,
            }
        )

    def attempt(self, attempt: Attempt, operation: Operation, now: Instant) -> dict[str, Any]:
        """Show one attempt with its times and whom it was granted to."""
        holder = attempt.holder
        return without_none(
            {
                "attempt": attempt.number,
                "outcome": _outcome(attempt, operation, now),
                "granted_as": attempt.reason,
                "granted_at": rfc3339(attempt.granted_at),
                "lease_expires_at": rfc3339(attempt.lease_until),
                "ended_at": None if attempt.ended_at is None else rfc3339(attempt.ended_at),
                "error": _safe(attempt.error),
                "retryable": None if attempt.retryable else False,
                "retry_at": None if attempt.retry_at is None else rfc3339(attempt.retry_at),
                "conversation": None if holder is None else _safe(holder.conversation),
                "connection": None if holder is None else _safe(holder.connection),
                "idempotency_key": None
                if attempt.number == 0
                else idempotency_key(operation.id, attempt.generation),
                "workflow_version": _safe(attempt.workflow_version),
                "context": attempt.context,
                "grant": attempt.grant_id,
            }
        )

    def duplicates(self, lookalikes: Iterable[Lookalike], now: Instant) -> list[dict[str, Any]]:
        """Show the operations that look like the one asked for."""
        found = list(lookalikes)
        shown = [
            without_none(
                {
                    "operation": lookalike.operation.id,
                    "run": lookalike.operation.run if lookalike.same == "compensates" else None,
                    "key": lookalike.operation.key,
                    "state": state_of(lookalike.operation, now).value,
                    "same": lookalike.same,
                    "settled_at": self.settled_at(lookalike.operation, now),
                }
            )
            for lookalike in found[:_MOST_SHOWN]
        ]
        if len(found) > _MOST_SHOWN:
            shown.append({"cut": len(found) - _MOST_SHOWN, "whole": "resume_plan with include all"})
        return shown


def _is_final(operation: Operation, now: Instant) -> bool:
    """Tell whether an operation failed so that a begin by itself leads nowhere."""
    newest = operation.newest
    is_last = newest is not None and (not newest.retryable or attempts_used_up(operation))
    return is_last and state_of(operation, now) is State.FAILED


def _outcome(attempt: Attempt, operation: Operation, now: Instant) -> str:
    """Say what became of an attempt: receipts go before what was reported."""
    if any(receipt.attempt == attempt.number for receipt in operation.standing):
        return "performed"
    if is_live(operation, attempt, now):
        return "live"
    return Outcome.UNKNOWN.value if attempt.outcome is Outcome.OPEN else attempt.outcome.value


def _safe(text: str | None, *, limit: int = _SHORT) -> str | None:
    return None if text is None else escape_untrusted(text, limit=limit)
