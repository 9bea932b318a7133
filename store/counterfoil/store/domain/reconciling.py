"""reconcile_operation: what looking at the performing system settles, by whom, and when it counts."""

from msgspec.structs import replace

from counterfoil.store.domain.answers import Verdict
from counterfoil.store.domain.criteria import left_unmet
from counterfoil.store.domain.denied import decide_denied, decide_denied_by_a_person
from counterfoil.store.domain.drafting import Creation, Draft, Situation
from counterfoil.store.domain.events import EventKind
from counterfoil.store.domain.findings import ReconcileFacts, keep_finding
from counterfoil.store.domain.model import Operation
from counterfoil.store.domain.performed import decide_performed
from counterfoil.store.domain.receipts import warnings_of_receipt
from counterfoil.store.domain.states import live_attempt
from counterfoil.store.domain.table import Command
from counterfoil.store.domain.undone import decide_compensated

__all__ = ["decide_reconcile"]

_UNDONE_ELSEWHERE = "what this key stands for has another target: check that this is its undoing"


def decide_reconcile(
    operation: Operation | None, given: ReconcileFacts, situation: Situation, *, creation: Creation
) -> Verdict:
    """Record a finding, and settle what it settles. The same call delivered again changes nothing."""
    draft = Draft(operation, operation_id=creation.id, situation=situation)
    if operation is None:
        draft.create(creation)
    verdict = _decide(draft, given, situation, creation)
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


def _decide(draft: Draft, given: ReconcileFacts, situation: Situation, creation: Creation) -> Verdict:
    if given.end_lease and situation.is_person and _end_lease(draft):
        if given.finding == "inconclusive" and given.receipt.external_id is None:
            keep_finding(draft, given, situation)
            return draft.verdict(Command.RECONCILE, "person_ends_lease")
        draft.before = draft.state
    match given.finding:
        case "performed":
            verdict = decide_performed(draft, given, situation, creation=creation)
            receipt = verdict.fields.get("receipt")
            if receipt is None:
                return verdict
            strange = warnings_of_receipt(draft, receipt, given.receipt) if given.receipt.contradicts else ()
            left = left_unmet(receipt, given.receipt.satisfies)
            return replace(verdict, warnings=(*verdict.warnings, *strange, *left))
        case "compensated":
            verdict = decide_compensated(draft, given, situation)
            if "target" not in given.receipt.contradicts:
                return verdict
            # An undoing has an action and args of its own; what it undoes is mostly at the same place.
            return replace(verdict, warnings=(*verdict.warnings, _UNDONE_ELSEWHERE))
        case "not_performed" if situation.is_person:
            return decide_denied_by_a_person(draft, given, situation)
        case _:
            return decide_denied(draft, given, situation)


def _end_lease(draft: Draft) -> bool:
    """End the live attempt by a person's word."""
    live = live_attempt(draft.operation, draft.now)
    if live is None:
        return False
    draft.add(EventKind.LEASE_ENDED, attempt=live.number)
    return True
