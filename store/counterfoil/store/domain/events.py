"""The log's vocabulary, and what each event does to the facts.

An event is plain JSON, so that the log can be hashed, stored and replayed anywhere. `evolve` is the only
place that makes one set of facts out of another: a journal that replays its log through it arrives at the
rows it holds, or something was tampered with.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from counterfoil.store.domain.enumerations import at_hand
from counterfoil.store.domain.instants import Instant
from counterfoil.store.domain.model import (
    Assurance,
    Attempt,
    Decision,
    Description,
    Dispute,
    DisputeKind,
    Finding,
    LookupTerms,
    Operation,
    Outcome,
    Party,
    Receipt,
    Repeat,
    Run,
    State,
    Terms,
    UndoTerms,
)

__all__ = [
    "Event",
    "EventKind",
    "evolve",
    "evolve_all",
    "evolve_run",
    "terms_from_data",
    "terms_to_data",
    "to_data",
]


@at_hand
class EventKind(StrEnum):
    """Everything that can happen to an operation, and to a run."""

    OPERATION_CREATED = "operation_created"
    DESCRIPTION_TAKEN = "description_taken"
    TERMS_FIXED = "terms_fixed"
    LINKS_ADDED = "links_added"
    ATTEMPT_GRANTED = "attempt_granted"
    LEASE_RAN_OUT = "lease_ran_out"
    LEASE_ENDED = "lease_ended"
    DEADLINE_PASSED = "deadline_passed"
    DEADLINE_ENDED = "deadline_ended"
    ATTEMPT_ENDED = "attempt_ended"
    FAILURE_CLAIMED = "failure_claimed"
    EFFECT_UNANNOUNCED = "effect_unannounced"
    RECEIPT_RECORDED = "receipt_recorded"
    RECEIPT_ACCEPTED = "receipt_accepted"
    FINDING_RECORDED = "finding_recorded"
    ATTEMPTS_SILENT = "attempts_silent"
    DISPUTE_OPENED = "dispute_opened"
    DISPUTE_CLOSED = "dispute_closed"
    DECIDED = "decided"
    DECISION_WITHDRAWN = "decision_withdrawn"
    RECEIPTS_SET_ASIDE = "receipts_set_aside"
    CLOCK_JUMPED = "clock_jumped"
    LEASE_EXTENDED = "lease_extended"
    PROGRESSED = "progressed"
    PERMISSION_ASKED = "permission_asked"
    AUTHORITY_GRANTED = "authority_granted"
    AUTHORITY_REVOKED = "authority_revoked"
    RUN_BEGUN = "run_begun"
    RUN_HELD = "run_held"
    RUN_RELEASED = "run_released"
    RUN_PROGRESSED = "run_progressed"
    RUN_REOPENED = "run_reopened"
    RUN_FINISHED = "run_finished"
    CONTEXT_NOTED = "context_noted"
    CONTEXT_TOLD = "context_told"
    DRIFT_ACCEPTED = "drift_accepted"


class Event(Struct, frozen=True, kw_only=True):
    """One thing that happened to one operation, or to the run itself (`operation` is empty then)."""

    kind: EventKind
    operation: str
    at: Instant
    data: Mapping[str, Any]


def to_data(fact: Struct) -> dict[str, Any]:
    """Turn a fact without facts in it into plain JSON, leaving out what is None."""
    return {name: part for name, part in asdict(fact).items() if part is not None}


def terms_to_data(terms: Terms) -> dict[str, Any]:
    """Turn `Terms` into plain JSON, leaving out what is None."""
    data = to_data(terms)
    if terms.lookup is not None:
        data["lookup"] = to_data(terms.lookup)
    if terms.undo is not None:
        data["undo"] = to_data(terms.undo)
    return data


def _party(data: Mapping[str, Any] | None) -> Party | None:
    if data is None:
        return None
    return Party(
        principal=data["principal"], conversation=data.get("conversation"), connection=data["connection"]
    )


def terms_from_data(data: Mapping[str, Any]) -> Terms:
    """Rebuild `Terms` from what `terms_to_data` made of them."""
    lookup, undo, repeat = data.get("lookup"), data.get("undo"), data.get("repeat")
    return Terms(
        repeat=None if repeat is None else Repeat(repeat),
        key_ttl_seconds=data.get("key_ttl_seconds"),
        lookup=None if lookup is None else LookupTerms(**lookup),
        settle_seconds=data.get("settle_seconds"),
        undo=None if undo is None else UndoTerms(**undo),
        deadline_seconds=data.get("deadline_seconds"),
        max_attempts=data.get("max_attempts"),
        deadline_over_seconds=data.get("deadline_over_seconds"),
    )


def _created(event: Event) -> Operation:
    data = event.data
    return Operation(
        namespace=data["namespace"],
        run=data["run"],
        key=data["key"],
        id=event.operation,
        position=data["position"],
        created_at=event.at,
        updated_at=event.at,
        since_floor=data["since_floor"],
        description=Description(**data["description"]),
        began=_party(data.get("began")),
        compensates=data.get("compensates"),
    )


def _with_attempts(operation: Operation, numbers: Iterable[int], **changes: Any) -> Operation:
    wanted = set(numbers)
    return replace(
        operation,
        attempts=tuple(
            replace(attempt, **changes) if attempt.number in wanted else attempt
            for attempt in operation.attempts
        ),
    )


def _unannounced(operation: Operation, event: Event) -> Operation:
    """An effect without a grant: an ended attempt under no key, unknown anew each time one shows.

    One that was granted in another journal was granted, and may end, when that journal says.
    """
    others = tuple(attempt for attempt in operation.attempts if attempt.number != 0)
    granted = [event.data.get("granted_at", event.at)]
    ends = [event.at, event.data.get("lease_until", event.at)]
    is_of_another_journal = "lease_until" in event.data
    for before in operation.attempts[:1]:
        if before.is_of_another_journal and not before.outcome.is_without_effect:
            is_of_another_journal = True
            granted.append(before.granted_at)
            ends.append(before.lease_until)
    shown = Attempt(
        number=0,
        generation=0,
        holder=None,
        reason="unannounced",
        granted_at=min(granted),
        lease_until=max(ends),
        ended_at=None if is_of_another_journal else event.at,
        outcome=Outcome.UNKNOWN,
        is_touched=True,
    )
    return replace(operation, attempts=(shown, *others))


def _receipt_recorded(operation: Operation, event: Event) -> Operation:
    """Keep a receipt; the holder's own, of its live attempt, ends that attempt."""
    data = dict(event.data)
    ending = {"outcome": Outcome.UNKNOWN, "ended_at": event.at} if data.pop("ends_attempt", False) else {}
    receipt = Receipt(**{**data, "assurance": Assurance(data["assurance"])})
    operation = _with_attempts(operation, (receipt.attempt,), is_touched=True, **ending)
    acknowledged = operation.acknowledged_at if receipt.final else receipt.recorded_at
    return replace(operation, receipts=(*operation.receipts, receipt), acknowledged_at=acknowledged)


def _granted(operation: Operation, event: Event) -> Operation:
    data = dict(event.data)
    clock = data.pop("clock", {})
    attempt = Attempt(
        **{**data, "holder": _party(data["holder"]), "outcome": Outcome.OPEN, "set_back": operation.set_back}
    )
    return replace(
        operation,
        attempts=(*operation.attempts, attempt),
        asked_context=None,
        clock_boot=clock.get("boot", operation.clock_boot),
        clock_offset=clock.get("offset", operation.clock_offset),
        clock_at=clock.get("at", operation.clock_at),
    )


def _clock_jumped(operation: Operation, event: Event) -> Operation:
    """Start the settle time anew; what ended "in the future" of a clock set back ended by now."""
    jump, clock = event.data["jump"], event.data["clock"]
    attempts = operation.attempts
    if jump < 0:
        attempts = tuple(
            replace(attempt, ended_at=min(attempt.end, event.at))
            if (attempt.ended_at is not None or attempt.outcome is Outcome.UNKNOWN)
            and not attempt.is_of_another_journal
            else attempt
            for attempt in attempts
        )
    return replace(
        operation,
        attempts=attempts,
        acknowledged_at=None
        if operation.acknowledged_at is None
        else min(operation.acknowledged_at, event.at),
        settle_restart_at=event.at,
        set_back=operation.set_back + max(0, -jump),
        clock_boot=clock.get("boot"),
        clock_offset=clock.get("offset"),
        clock_at=clock.get("at"),
    )


def evolve(operation: Operation | None, event: Event) -> Operation:
    """Apply one event to the facts.

    Raises:
        ValueError: the event cannot follow these facts (a log out of order or tampered with).
    """
    if operation is None:
        if event.kind is not EventKind.OPERATION_CREATED:
            raise ValueError(f"{event.kind} before operation_created")
        return _created(event)
    return replace(_applied(operation, event), updated_at=event.at)


def _applied(operation: Operation, event: Event) -> Operation:
    data = event.data
    match event.kind:
        # What nearly every operation has comes first.
        case EventKind.ATTEMPT_GRANTED:
            return _granted(operation, event)
        case EventKind.RECEIPT_RECORDED:
            return _receipt_recorded(operation, event)
        case EventKind.RECEIPT_ACCEPTED:
            return replace(
                operation,
                receipts=tuple(
                    replace(receipt, is_accepted=True, is_set_aside=False, is_foreign=False)
                    if receipt.number == data["receipt"]
                    else receipt
                    for receipt in operation.receipts
                ),
            )
        case EventKind.DESCRIPTION_TAKEN:
            return replace(
                operation,
                description=Description(**data["description"]),
                compensates=data.get("compensates", operation.compensates),
                began=operation.began or _party(data.get("began")),
            )
        case EventKind.TERMS_FIXED:
            return replace(operation, terms=terms_from_data(data))
        case EventKind.LINKS_ADDED:
            return replace(
                operation,
                depends_on=(*operation.depends_on, *data.get("depends_on", ())),
                satisfies=(*operation.satisfies, *data.get("satisfies", ())),
                distinct_from=(*operation.distinct_from, *data.get("distinct_from", ())),
            )
        case EventKind.LEASE_RAN_OUT:
            return _with_attempts(operation, (data["attempt"],), outcome=Outcome.UNKNOWN)
        case EventKind.LEASE_ENDED:
            return _with_attempts(
                operation, (data["attempt"],), outcome=Outcome.UNKNOWN, ended_at=event.at, is_touched=True
            )
        case EventKind.DEADLINE_PASSED | EventKind.DECIDED:
            return _decided(operation, event)
        case EventKind.DEADLINE_ENDED:
            over = data.get("over_seconds", operation.terms.deadline_over_seconds)
            terms = replace(operation.terms, deadline_seconds=None, deadline_over_seconds=over)
            return replace(operation, terms=terms)
        case EventKind.ATTEMPT_ENDED:
            return _with_attempts(
                operation,
                (data["attempt"],),
                outcome=Outcome(data["outcome"]),
                ended_at=data["ended_at"],
                error=data.get("error"),
                retryable=data.get("retryable", True),
                retry_at=data.get("retry_at"),
                is_touched=True,
            )
        case EventKind.FAILURE_CLAIMED:
            return _with_attempts(operation, (data["attempt"],), is_touched=True)
        case EventKind.AUTHORITY_GRANTED | EventKind.AUTHORITY_REVOKED:
            # Said for the history: what a grant does is weighed from the grants themselves.
            return operation
        case EventKind.PERMISSION_ASKED:
            return replace(operation, asked_context=data["context"])
        case EventKind.EFFECT_UNANNOUNCED:
            return _unannounced(operation, event)
        case EventKind.FINDING_RECORDED:
            return replace(operation, findings=(*operation.findings, Finding(**data)))
        case EventKind.ATTEMPTS_SILENT:
            return _with_attempts(operation, data["attempts"], outcome=Outcome.SILENT, is_touched=True)
        case EventKind.DISPUTE_OPENED:
            return replace(operation, dispute=Dispute(kind=DisputeKind(data["dispute"]), at=event.at))
        case EventKind.DISPUTE_CLOSED:
            return replace(operation, dispute=None)
        case EventKind.DECISION_WITHDRAWN:
            return replace(operation, decision=None)
        case EventKind.RECEIPTS_SET_ASIDE:
            aside = set(data["receipts"])
            return replace(
                operation,
                receipts=tuple(
                    replace(receipt, is_set_aside=True) if receipt.number in aside else receipt
                    for receipt in operation.receipts
                ),
            )
        case EventKind.CLOCK_JUMPED:
            return _clock_jumped(operation, event)
        case EventKind.LEASE_EXTENDED:
            return _with_attempts(
                operation,
                (data["attempt"],),
                outcome=Outcome.OPEN,
                lease_until=data["lease_until"],
                is_touched=True,
            )
        case EventKind.PROGRESSED:
            return replace(
                operation,
                progress_message=data.get("message", operation.progress_message),
                progress_fraction=data.get("fraction", operation.progress_fraction),
                checkpoint=data.get("checkpoint", operation.checkpoint),
                progressed_at=event.at,
            )
        case _:
            raise ValueError(f"{event.kind} after operation_created")


def _decided(operation: Operation, event: Event) -> Operation:
    """A decision ends a live lease with it: the attempt stays unknown, whatever was decided."""
    newest = operation.newest
    if newest is not None and newest.outcome is Outcome.OPEN:
        operation = _with_attempts(operation, (newest.number,), outcome=Outcome.UNKNOWN)
    return replace(
        operation,
        decision=Decision(
            outcome=State(event.data["outcome"]),
            at=event.data.get("since", event.at),
            by=event.data["by"],
            reason=event.data["reason"],
        ),
    )


def evolve_run(run: Run | None, event: Event, *, namespace: str, name: str) -> Run:
    """Apply one event to what is known of a run; events of its operations leave it as it is."""
    if run is None:
        run = Run(
            namespace=namespace, run=name, created_at=event.at, touched_at=event.at, last_seq=0, head=""
        )
    data = event.data
    match event.kind:
        case EventKind.RUN_BEGUN:
            # What was said once stands until it is said anew; the first context is what later ones are
            # compared with.
            told = {field: value for field, value in data.items() if field != "context"}
            return replace(
                run, **told, context=run.context or data.get("context"), begun_at=run.begun_at or event.at
            )
        case EventKind.RUN_HELD:
            return replace(
                run,
                holder=_party(data["holder"]),
                holder_name=data.get("holder_name"),
                held_until=data["until"],
            )
        case EventKind.RUN_RELEASED:
            return replace(run, holder=None, holder_name=None, held_until=None)
        case EventKind.RUN_PROGRESSED:
            return replace(
                run,
                progress_message=data.get("message", run.progress_message),
                progress_fraction=data.get("fraction", run.progress_fraction),
                checkpoint=data.get("checkpoint", run.checkpoint),
            )
        case EventKind.RUN_REOPENED:
            return replace(run, finished_as=None, finished_at=None, finish_reason=None)
        case EventKind.RUN_FINISHED:
            return replace(
                run,
                finished_as=data["outcome"],
                finished_at=event.at,
                finish_reason=data.get("reason"),
                holder=None,
                holder_name=None,
                held_until=None,
            )
        case EventKind.DRIFT_ACCEPTED | EventKind.CONTEXT_NOTED:
            return replace(run, context=data["context"])
        case EventKind.CONTEXT_TOLD:
            return replace(run, offered=data["offered"])
        case _:
            return run


def evolve_all(operation: Operation | None, events: Iterable[Event]) -> Operation | None:
    """Apply events in order."""
    for event in events:
        operation = evolve(operation, event)
    return operation
