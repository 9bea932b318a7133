"""reconcile_operation: what looking at the performing system settles, by whom, and when it counts."""

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.store.domain.answers import Verdict
from counterfoil.store.domain.drafting import Creation, Draft, Situation
from counterfoil.store.domain.events import EventKind, to_data
from counterfoil.store.domain.instants import Instant, seconds
from counterfoil.store.domain.model import (
    Assurance,
    DisputeKind,
    Finding,
    Operation,
    Outcome,
    Receipt,
    State,
)
from counterfoil.store.domain.receipts import (
    ReceiptFacts,
    classify,
    make_receipt,
    open_dispute,
    store_receipt,
    warnings_of_receipt,
)
from counterfoil.store.domain.states import (
    BY_DEADLINE,
    UNRESOLVED_AFTER,
    is_unresolved,
    live_attempt,
    settle_until,
    unknown_attempts,
)
from counterfoil.store.domain.table import Command

__all__ = ["ReconcileFacts", "decide_reconcile"]

_NOTHING_TO_UNDO = (
    "as far as is on record it never happened, so that nothing can have been undone: if it did, record its "
    "own receipt first (finding performed)"
)
_CANNOT_BE_UNDONE = frozenset((State.PLANNED, State.IN_PROGRESS, State.FAILED, State.COMPENSATED))
"""Where a receipt of the undoing is kept and moves nothing: no effect is established, or it is undone."""


class ReconcileFacts(Struct, frozen=True, kw_only=True):
    """A finding in normal form. `by` is as the caller says it; only the situation makes it a person's."""

    finding: str
    checked_with: str
    by: str
    as_of: Instant | None
    receipt: ReceiptFacts
    end_lease: bool = False


def decide_reconcile(
    operation: Operation | None, given: ReconcileFacts, situation: Situation, *, creation: Creation
) -> Verdict:
    """Record a finding, and settle what it settles. The same call delivered again changes nothing."""
    draft = Draft(operation, operation_id=creation.id, situation=situation)
    if operation is None:
        draft.create(creation)
    verdict = _decide(draft, given, situation)
    if operation is not None and _is_redelivered(operation, given, situation):
        untouched = Draft(operation, operation_id=creation.id, situation=situation)
        if len(verdict.events) > len(untouched.events):
            return untouched.answer("continue", "duplicate")
    return verdict


def _is_redelivered(operation: Operation, given: ReconcileFacts, situation: Situation) -> bool:
    """Tell whether this very call is on file: its finding, and the receipt that it brings, if any.

    A person's word escalates when it is repeated (it contradicts a receipt, then sets it aside), so that a
    redelivery must not count as a repetition, however much happened in between.
    """
    if situation.call_id is None:
        return False
    said = (situation.call_id, given.finding, given.checked_with, given.as_of, given.receipt.evidence_digest)
    has_finding = any(
        (known.call_id, known.finding, known.checked_with, known.as_of, known.evidence_digest) == said
        for known in operation.findings
    )
    brought = (given.receipt.kind, given.receipt.system, given.receipt.external_id)
    return has_finding and (
        given.receipt.external_id is None
        or any((known.kind, known.system, known.external_id) == brought for known in operation.receipts)
    )


def _decide(draft: Draft, given: ReconcileFacts, situation: Situation) -> Verdict:
    if given.end_lease and situation.is_person and _end_lease(draft):
        if given.finding == "inconclusive" and given.receipt.external_id is None:
            _keep(draft, given, situation)
            return draft.verdict(Command.RECONCILE, "person_ends_lease")
        draft.before = draft.state
    match given.finding:
        case "performed":
            verdict = _performed(draft, given, situation)
            receipt = verdict.fields.get("receipt")
            if receipt is None or not given.receipt.contradicts:
                return verdict
            strange = warnings_of_receipt(draft, receipt, given.receipt)
            return replace(verdict, warnings=(*verdict.warnings, *strange))
        case "compensated":
            return _compensated(draft, given, situation)
        case "not_performed" if situation.is_person:
            return _denied_by_a_person(draft, given, situation)
        case _:
            return _denied(draft, given, situation)


def _end_lease(draft: Draft) -> bool:
    """End the live attempt by a person's word."""
    live = live_attempt(draft.operation, draft.now)
    if live is None:
        return False
    draft.add(EventKind.LEASE_ENDED, attempt=live.number)
    return True


def _keep(draft: Draft, given: ReconcileFacts, situation: Situation, *, is_unsettling: bool = False) -> None:
    """Keep a finding, bound to the attempt that it looked for. The same one again adds nothing.

    A person's, and one without `as_of`, may mean more when it is said again: it is kept with each call that
    brings it, so that a redelivery of any of them is known for one.
    """
    operation = draft.operation
    finding = Finding(
        number=len(operation.findings) + 1,
        finding=given.finding,
        checked_with=given.checked_with,
        by="person" if situation.is_person else given.by,
        as_of=given.as_of,
        attempt=_attempt_looked_for(operation, given),
        recorded_at=draft.now,
        evidence_digest=given.receipt.evidence_digest,
        call_id=situation.call_id,
        is_unsettling=is_unsettling,
        is_persons=situation.is_person,
    )
    is_kept_by_call = situation.is_person or given.as_of is None
    if not any(
        replace(
            finding,
            number=known.number,
            recorded_at=known.recorded_at,
            call_id=finding.call_id if is_kept_by_call else known.call_id,
        )
        == known
        for known in operation.findings
    ):
        draft.add(EventKind.FINDING_RECORDED, **to_data(finding))


def _attempt_looked_for(operation: Operation, given: ReconcileFacts) -> int:
    """The attempt named, else the one that was newest at `as_of`, else the newest.

    Where the wall clock was set back since a grant, an `as_of` before that grant may lie after it. It is
    taken for it, and counts only once the clock has caught up (`settle_until`).
    """
    granted, as_of = operation.granted, given.as_of
    if not granted:
        return 0
    if given.receipt.attempt is not None:
        return given.receipt.attempt
    if as_of is None:
        return granted[-1].number
    return max(
        (
            attempt.number
            for attempt in granted
            if attempt.granted_at - (operation.set_back - attempt.set_back) <= as_of
        ),
        default=0,
    )


def _performed(draft: Draft, given: ReconcileFacts, situation: Situation) -> Verdict:
    receipt = make_receipt(draft, given.receipt, situation)
    if situation.is_person and receipt.final and receipt.external_id is not None:
        receipt = replace(receipt, is_foreign=False, is_accepted=True)
    state = draft.state
    row, known = classify(draft.operation, receipt, state)
    if receipt.is_foreign:
        return _foreign(draft, given, situation, receipt, known)
    if not receipt.is_accepted:
        return _performed_weakly(draft, given, situation, receipt, known)
    _keep(draft, given, situation)
    if situation.is_person and state is State.DISPUTED:
        return _affirm(draft, receipt, known, "person_performed")
    if state is State.COMPENSATED and known is None:
        store_receipt(draft, receipt, "second_effect")
        return draft.verdict(Command.RECONCILE, "performed")
    if state is State.SUCCEEDED or state is State.COMPENSATED:
        if known is None:
            store_receipt(draft, receipt, row)
        name = {"duplicate": "performed_duplicate", "supporting": "performed_supporting"}.get(
            row, "performed_two_effects"
        )
        return draft.verdict(Command.RECONCILE, name, fields={"receipt": known or receipt})
    dispute = draft.operation.dispute
    has_two_effects = row == "second_effect" or (dispute is not None and dispute.kind is DisputeKind.EFFECTS)
    if has_two_effects:
        if known is None:
            store_receipt(draft, receipt, "second_effect")
        return draft.verdict(Command.RECONCILE, "performed_two_effects", fields={"receipt": known or receipt})
    return _affirm(draft, receipt, known, "performed")


def _affirm(draft: Draft, receipt: Receipt, known: Receipt | None, row: str) -> Verdict:
    """Let a receipt count: store or accept it, and take back what stood against it."""
    if known is None:
        store_receipt(draft, receipt, row)
    elif not known.counts:
        draft.add(EventKind.RECEIPT_ACCEPTED, receipt=known.number)
    if draft.operation.dispute is not None:
        draft.add(EventKind.DISPUTE_CLOSED, by=row)
    if draft.operation.decision is not None:
        draft.add(EventKind.DECISION_WITHDRAWN, by=row)
    return draft.verdict(Command.RECONCILE, row, fields={"receipt": known or receipt})


def _foreign(
    draft: Draft, given: ReconcileFacts, situation: Situation, receipt: Receipt, known: Receipt | None
) -> Verdict:
    _keep(draft, given, situation, is_unsettling=True)
    if known is None:
        store_receipt(draft, receipt, "foreign")
    row = "performed_foreign"
    if draft.state not in (State.SUCCEEDED, State.DISPUTED) and is_unresolved_by_many(draft.operation):
        row = "foreign_unresolved"
    return draft.verdict(Command.RECONCILE, row, fields={"receipt": known or receipt})


def is_unresolved_by_many(operation: Operation) -> bool:
    """Tell whether three finds that prove nothing, each with another `as_of`, came for the newest attempt."""
    newest = operation.newest
    number = 0 if newest is None else newest.number
    moments = {
        finding.as_of
        for finding in operation.findings
        if finding.finding == "performed" and finding.is_unsettling and finding.attempt == number
    }
    return len(moments) >= UNRESOLVED_AFTER


def _receipt_in_a_denial(draft: Draft, given: ReconcileFacts, situation: Situation) -> Verdict | None:
    """Take the receipt that comes inside a finding of no effect: no receipt is lost, and none outweighed."""
    if given.receipt.external_id is None or given.receipt.assurance is Assurance.CLAIMED:
        return None
    receipt = make_receipt(draft, given.receipt, situation)
    row, known = classify(draft.operation, receipt, draft.state)
    _keep(draft, given, situation)
    if known is None:
        store_receipt(draft, receipt, row)
    what_counts = (
        "and the receipt counts" if receipt.is_accepted else "which proves nothing here, and neither counts"
    )
    return draft.verdict(
        Command.RECEIPT,
        row,
        fields={"receipt": known or receipt},
        warnings=(
            f"{given.finding} came with a receipt, {what_counts}: leave the reference out where the effect "
            "was not found",
            *warnings_of_receipt(draft, receipt, given.receipt),
        ),
    )


def _performed_weakly(
    draft: Draft, given: ReconcileFacts, situation: Situation, receipt: Receipt, known: Receipt | None
) -> Verdict:
    """Keep a find that does not prove the effect; the third after the settle time is a person's question."""
    until = settle_until(draft.operation, draft.now, situation.policy)
    is_timely = given.as_of is not None and until is not None and given.as_of >= until
    _keep(draft, given, situation, is_unsettling=is_timely and draft.before is State.IN_DOUBT)
    if known is None or draft.state in (State.PLANNED, State.FAILED):
        store_receipt(draft, receipt, "performed_weak")
    is_over = draft.before is State.IN_DOUBT and is_unresolved_by_many(draft.operation)
    row = "unresolved" if is_over else "performed_weak"
    return draft.verdict(Command.RECONCILE, row, fields={"receipt": known or receipt})


def _compensated(draft: Draft, given: ReconcileFacts, situation: Situation) -> Verdict:
    receipt = replace(make_receipt(draft, given.receipt, situation), is_undo=True, is_foreign=False)
    required = situation.policy.required_assurance(draft.operation.description.action)
    is_of_the_effect = any(
        not known.is_undo
        and (known.kind, known.system, known.external_id)
        == (receipt.kind, receipt.system, receipt.external_id)
        for known in draft.operation.receipts
    )
    is_strong = receipt.final and given.receipt.assurance >= required and not is_of_the_effect
    state, dispute = draft.state, draft.operation.dispute
    _keep(draft, given, situation)
    is_taken = is_strong and state not in _CANNOT_BE_UNDONE
    if not is_of_the_effect:
        _keep_undoing(draft, replace(receipt, is_accepted=is_taken))
    is_unheard_of = state in (State.PLANNED, State.FAILED)
    warnings = (_NOTHING_TO_UNDO,) if is_unheard_of else ()
    if not is_strong:
        return draft.verdict(
            Command.RECONCILE, "compensated_weak", fields={"receipt": receipt}, warnings=warnings
        )
    if not is_taken:
        return draft.verdict(Command.RECONCILE, "compensated", fields={"receipt": receipt}, warnings=warnings)
    has_two_effects = dispute is not None and dispute.kind is DisputeKind.EFFECTS
    if has_two_effects and not situation.is_person:
        return draft.verdict(Command.RECONCILE, "compensated_two_effects", fields={"receipt": receipt})
    if dispute is not None:
        draft.add(EventKind.DISPUTE_CLOSED, by="compensated")
    draft.add(
        EventKind.DECIDED,
        outcome=State.COMPENSATED.value,
        by="person" if situation.is_person else "finding",
        reason="a receipt of the undoing is on file",
    )
    return draft.verdict(Command.RECONCILE, "compensated", fields={"receipt": receipt})


def _keep_undoing(draft: Draft, receipt: Receipt) -> None:
    """Keep the reference of an undoing, once, also where it cannot count yet: no receipt is ever lost."""
    known = next(
        (
            known
            for known in draft.operation.receipts
            if known.is_undo
            and (known.kind, known.system, known.external_id)
            == (receipt.kind, receipt.system, receipt.external_id)
        ),
        None,
    )
    if known is None and receipt.external_id is not None:
        draft.add(EventKind.RECEIPT_RECORDED, **to_data(receipt))
    elif known is not None and receipt.is_accepted and not known.is_accepted:
        draft.add(EventKind.RECEIPT_ACCEPTED, receipt=known.number)


def _denied_by_a_person(draft: Draft, given: ReconcileFacts, situation: Situation) -> Verdict:
    """A person's word counts at once: it contradicts a receipt once, and repeated it sets it aside."""
    operation, state = draft.operation, draft.state
    if live_attempt(operation, draft.now) is not None and state in (State.IN_PROGRESS, State.DISPUTED):
        _keep(draft, given, situation)
        if state is State.DISPUTED:
            return draft.answer("wait", "lease_held")
        return draft.verdict(Command.RECONCILE, "person_not_performed")
    row = "person_not_performed"
    _keep(draft, given, situation)
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


def _denied(draft: Draft, given: ReconcileFacts, situation: Situation) -> Verdict:
    """An agent's empty look, or one that showed nothing either way."""
    with_receipt = _receipt_in_a_denial(draft, given, situation)
    if with_receipt is not None:
        return with_receipt
    operation, state = draft.operation, draft.state
    if _attempt_looked_for(operation, given) < (0 if operation.newest is None else operation.newest.number):
        return draft.verdict(Command.RECONCILE, "older")
    lookup = operation.terms.lookup
    has_lookup = lookup is not None and lookup.is_on_record
    until = settle_until(operation, draft.now, situation.policy)
    is_early = given.as_of is None or (until is not None and given.as_of < until)
    if state is State.IN_PROGRESS:
        return _denied_while_live(draft, given, situation, has_lookup=has_lookup)
    if state is State.DISPUTED:
        _keep(draft, given, situation)
        open_dispute(draft, DisputeKind.NEGATIVE)
        return draft.verdict(Command.RECONCILE, "inconclusive")
    warnings = (
        ("a receipt is on file: what you found contradicts it; tell a person",)
        if state is State.SUCCEEDED and given.finding == "not_performed"
        else ()
    )
    if state is not State.IN_DOUBT:
        _keep(draft, given, situation)
        return draft.verdict(Command.RECONCILE, "inconclusive", warnings=warnings)
    if not has_lookup and not situation.is_person:
        _keep(draft, given, situation, is_unsettling=True)
        return draft.verdict(Command.RECONCILE, "without_lookup")
    if is_early and not situation.is_person:
        _keep(draft, given, situation)
        missing = (
            ("as_of is missing: copy it from the answer that sent you to look, or the look counts as early",)
            if given.as_of is None
            else ()
        )
        return draft.verdict(
            Command.RECONCILE, "early", fields={"retry_at": until}, warnings=(*warnings, *missing)
        )
    if given.finding == "not_performed" and _weighs(draft.operation, given):
        _keep(draft, given, situation)
        silent = [attempt.number for attempt in unknown_attempts(operation, draft.now)]
        draft.add(EventKind.ATTEMPTS_SILENT, attempts=silent)
        return draft.verdict(Command.RECONCILE, "not_performed")
    _keep(draft, given, situation, is_unsettling=True)
    row = "unresolved" if is_unresolved(draft.operation) else "weighs_nothing"
    return draft.verdict(Command.RECONCILE, row)


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
    _keep(draft, given, situation)
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
