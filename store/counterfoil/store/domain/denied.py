"""A finding that the effect did not happen, or one that shows nothing: when it counts, and by whose word."""

from counterfoil.store.domain.answers import Verdict
from counterfoil.store.domain.drafting import Draft, Situation
from counterfoil.store.domain.events import EventKind
from counterfoil.store.domain.findings import ReconcileFacts, attempt_looked_for, is_timely, keep_finding
from counterfoil.store.domain.instants import Instant, seconds
from counterfoil.store.domain.model import Assurance, DisputeKind, Operation, Outcome, State
from counterfoil.store.domain.receipts import (
    classify,
    make_receipt,
    open_dispute,
    store_receipt,
    warnings_of_receipt,
)
from counterfoil.store.domain.states import (
    BY_DEADLINE,
    is_unresolved,
    live_attempt,
    settle_until,
    unknown_attempts,
)
from counterfoil.store.domain.table import Command

__all__ = ["decide_denied", "decide_denied_by_a_person"]


def decide_denied_by_a_person(draft: Draft, given: ReconcileFacts, situation: Situation) -> Verdict:
    """A person's word counts at once: it contradicts a receipt once, and repeated it sets it aside."""
    operation, state = draft.operation, draft.state
    if live_attempt(operation, draft.now) is not None and state in (State.IN_PROGRESS, State.DISPUTED):
        keep_finding(draft, given, situation)
        if state is State.DISPUTED:
            return draft.answer("wait", "lease_held")
        return draft.verdict(Command.RECONCILE, "person_not_performed")
    row = "person_not_performed"
    keep_finding(draft, given, situation)
    if state is State.SUCCEEDED:
        open_dispute(draft, DisputeKind.RECEIPT)
        return draft.verdict(Command.RECONCILE, row)
    if state in (State.PLANNED, State.FAILED, State.COMPENSATED):
        return draft.verdict(Command.RECONCILE, row)
    silent = [attempt.number for attempt in unknown_attempts(operation, draft.now)]
    if silent:
        draft.add(EventKind.ATTEMPTS_SILENT, attempts=silent)
    standing = [receipt.number for receipt in operation.standing]
    if standing:
        draft.add(EventKind.RECEIPTS_SET_ASIDE, receipts=standing)
    if state is State.DISPUTED:
        draft.add(EventKind.DISPUTE_CLOSED, by="person")
        if operation.decision is not None:
            return draft.verdict(Command.RECONCILE, "person_not_performed_decision_stands", state=state)
    elif operation.decision is not None:
        draft.add(EventKind.DECISION_WITHDRAWN, by="person")
    if operation.terms.deadline_seconds is not None and state is not State.IN_DOUBT:
        draft.add(EventKind.DEADLINE_ENDED, over_seconds=_deadline_over(operation, draft.now))
    if not operation.attempts:
        row = "person_not_performed_reopens_plan"
    return draft.verdict(Command.RECONCILE, row, state=state)


def _deadline_over(operation: Operation, now: Instant) -> float | None:
    """Tell how long the deadlines are that are over now.

    One that closed the operation is, also by a clock that was set back since.
    """
    if not operation.granted:
        return None
    passed = seconds(now - operation.granted[0].granted_at)
    was_closed_by_it = operation.decision is not None and operation.decision.by == BY_DEADLINE
    return max(passed, operation.terms.deadline_seconds or 0) if was_closed_by_it else passed


def decide_denied(draft: Draft, given: ReconcileFacts, situation: Situation) -> Verdict:
    """An agent's empty look, or one that showed nothing either way."""
    with_receipt = _receipt_in_a_denial(draft, given, situation)
    if with_receipt is not None:
        return with_receipt
    operation, state = draft.operation, draft.state
    if attempt_looked_for(operation, given) < (0 if operation.newest is None else operation.newest.number):
        return draft.verdict(Command.RECONCILE, "older")
    lookup = operation.terms.lookup
    has_lookup = lookup is not None and lookup.is_on_record
    until = settle_until(operation, draft.now, situation.policy)
    is_early = given.as_of is None or (until is not None and given.as_of < until)
    if state is State.IN_PROGRESS:
        return _denied_while_live(draft, given, situation, has_lookup=has_lookup)
    if state is State.DISPUTED:
        keep_finding(draft, given, situation)
        open_dispute(draft, DisputeKind.NEGATIVE)
        return draft.verdict(Command.RECONCILE, "inconclusive")
    warnings = (
        ("a receipt is on file: what you found contradicts it; tell a person",)
        if state is State.SUCCEEDED and given.finding == "not_performed"
        else ()
    )
    if state is not State.IN_DOUBT:
        keep_finding(draft, given, situation)
        return draft.verdict(Command.RECONCILE, "inconclusive", warnings=warnings)
    if not has_lookup and not situation.is_person:
        keep_finding(draft, given, situation, is_unsettling=True)
        return draft.verdict(Command.RECONCILE, "without_lookup")
    if is_early and not situation.is_person:
        keep_finding(draft, given, situation)
        missing = (
            ("as_of is missing: copy it from the answer that sent you to look, or the look counts as early",)
            if given.as_of is None
            else ()
        )
        return draft.verdict(
            Command.RECONCILE, "early", fields={"retry_at": until}, warnings=(*warnings, *missing)
        )
    if given.finding == "not_performed" and _weighs(draft.operation, given):
        keep_finding(draft, given, situation)
        silent = [attempt.number for attempt in unknown_attempts(operation, draft.now)]
        draft.add(EventKind.ATTEMPTS_SILENT, attempts=silent)
        return draft.verdict(Command.RECONCILE, "not_performed")
    keep_finding(draft, given, situation, is_unsettling=True)
    row = "unresolved" if is_unresolved(draft.operation) else "weighs_nothing"
    return draft.verdict(Command.RECONCILE, row)


def _receipt_in_a_denial(draft: Draft, given: ReconcileFacts, situation: Situation) -> Verdict | None:
    """Take the receipt that comes inside a finding of no effect: no receipt is lost, and none outweighed."""
    if given.receipt.external_id is None or given.receipt.assurance is Assurance.CLAIMED:
        return None
    receipt = make_receipt(draft, given.receipt, situation)
    row, known = classify(draft.operation, receipt, draft.state)
    is_too_weak = (
        receipt.final
        and not receipt.is_accepted
        and draft.before is State.IN_DOUBT
        and is_timely(draft.operation, given, draft.now, situation.policy)
    )
    keep_finding(draft, given, situation, is_unsettling=receipt.is_foreign or is_too_weak)
    if known is None:
        store_receipt(draft, receipt, row)
    command = Command.RECEIPT
    if (
        (receipt.is_foreign or is_too_weak)
        and draft.state not in (State.SUCCEEDED, State.DISPUTED)
        and is_unresolved(draft.operation)
    ):
        command, row = Command.RECONCILE, "foreign_unresolved" if receipt.is_foreign else "unresolved"
    what_counts = (
        "and the receipt counts" if receipt.is_accepted else "which proves nothing here, and neither counts"
    )
    return draft.verdict(
        command,
        row,
        fields={"receipt": known or receipt},
        warnings=(
            f"{given.finding} came with a receipt, {what_counts}: leave the reference out where the effect "
            "was not found",
            *warnings_of_receipt(draft, receipt, given.receipt),
        ),
    )


def _weighs(operation: Operation, given: ReconcileFacts) -> bool:
    """Tell whether an agent's timely empty look counts.

    It does not where the agent speaks for a person instead of having looked, nor against a reference of the
    performing system that is on file, even one below the required assurance.
    """
    return given.by == "lookup" and not any(
        receipt.is_in_test_for_duplicates and not receipt.is_set_aside for receipt in operation.receipts
    )


def _denied_while_live(
    draft: Draft, given: ReconcileFacts, situation: Situation, *, has_lookup: bool
) -> Verdict:
    """While a lease lives only its holder's look means anything: it ends the attempt, and settling begins."""
    live = live_attempt(draft.operation, draft.now)
    is_holder = live is not None and live.holder is not None and live.holder.is_holder(situation.party)
    keep_finding(draft, given, situation)
    if not is_holder or not has_lookup or given.by != "lookup" or live is None:
        return draft.verdict(Command.RECONCILE, "early" if has_lookup else "without_lookup")
    draft.add(
        EventKind.ATTEMPT_ENDED,
        attempt=live.number,
        outcome=Outcome.UNKNOWN.value,
        ended_at=draft.now,
        error="ended by its holder, who looked and did not find the effect",
    )
    until = settle_until(draft.operation, draft.now, situation.policy)
    return draft.verdict(Command.RECONCILE, "by_its_holder", fields={"retry_at": until})
