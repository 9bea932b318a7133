"""A finding that the effect happened: its receipt counts, or is weak, or belongs to another effect."""

from msgspec.structs import replace

from counterfoil.store.domain.answers import Verdict
from counterfoil.store.domain.drafting import Creation, Draft, Situation
from counterfoil.store.domain.events import EventKind
from counterfoil.store.domain.findings import ReconcileFacts, is_timely, is_unresolved_by_many, keep_finding
from counterfoil.store.domain.model import DisputeKind, Receipt, State
from counterfoil.store.domain.receipts import classify, make_receipt, store_receipt, take_words
from counterfoil.store.domain.table import Command

__all__ = ["decide_performed"]


def decide_performed(
    draft: Draft, given: ReconcileFacts, situation: Situation, *, creation: Creation
) -> Verdict:
    """Keep the finding with its receipt, and let it settle what a receipt of this assurance can."""
    receipt = make_receipt(draft, given.receipt, situation)
    if situation.is_person and receipt.final and receipt.external_id is not None:
        receipt = replace(receipt, is_foreign=False, is_accepted=True)
    take_words(draft, receipt, creation)
    state = draft.state
    row, known = classify(draft.operation, receipt, state)
    if receipt.is_foreign:
        return _foreign(draft, given, situation, receipt, known)
    if not receipt.is_accepted:
        return _performed_weakly(draft, given, situation, receipt, known)
    keep_finding(draft, given, situation)
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
    keep_finding(draft, given, situation, is_unsettling=True)
    if known is None:
        store_receipt(draft, receipt, "foreign")
    row = "performed_foreign"
    if draft.state not in (State.SUCCEEDED, State.DISPUTED) and is_unresolved_by_many(draft.operation):
        row = "foreign_unresolved"
    return draft.verdict(Command.RECONCILE, row, fields={"receipt": known or receipt})


def _performed_weakly(
    draft: Draft, given: ReconcileFacts, situation: Situation, receipt: Receipt, known: Receipt | None
) -> Verdict:
    """Keep a find that does not prove the effect; the third after the settle time is a person's question."""
    may_unsettle = draft.before is State.IN_DOUBT and is_timely(
        draft.operation, given, draft.now, situation.policy
    )
    keep_finding(draft, given, situation, is_unsettling=may_unsettle)
    if known is None or draft.state in (State.PLANNED, State.FAILED):
        store_receipt(draft, receipt, "performed_weak")
    is_over = draft.before is State.IN_DOUBT and is_unresolved_by_many(draft.operation)
    row = "unresolved" if is_over else "performed_weak"
    return draft.verdict(Command.RECONCILE, row, fields={"receipt": known or receipt})
