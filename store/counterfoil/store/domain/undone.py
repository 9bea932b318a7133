"""A finding that the effect was undone: the receipt of the undoing, and when it counts."""

from msgspec.structs import replace

from counterfoil.store.domain.answers import Verdict
from counterfoil.store.domain.drafting import Draft, Situation
from counterfoil.store.domain.events import EventKind, to_data
from counterfoil.store.domain.findings import ReconcileFacts, is_timely, is_unresolved_by_many, keep_finding
from counterfoil.store.domain.model import DisputeKind, Receipt, State
from counterfoil.store.domain.receipts import is_of_another_undoing, make_receipt
from counterfoil.store.domain.table import Command

__all__ = ["decide_compensated"]

_NOTHING_TO_UNDO = (
    "as far as is on record it never happened, so that nothing can have been undone: if it did, record its "
    "own receipt first (finding performed)"
)
_OF_ANOTHER = (
    "a reference that is on file as another operation's, or is older than this effect, does not prove that "
    "this was undone: bring the one that the undoing of this was given, and performed_at where one commit or "
    "record undid several effects. Where an operation undid it that was begun without compensates, only a "
    "person can say so (counterfoil reconcile)"
)
_CANNOT_BE_UNDONE = frozenset((State.PLANNED, State.IN_PROGRESS, State.FAILED, State.COMPENSATED))
"""Where a receipt of the undoing is kept and moves nothing: no effect is established, or it is undone."""


def decide_compensated(draft: Draft, given: ReconcileFacts, situation: Situation) -> Verdict:
    """Keep the finding with the receipt of the undoing, and let it count where an effect is established."""
    receipt = make_receipt(draft, given.receipt, situation)
    is_of_another = (
        receipt.external_id is not None
        and not situation.is_person
        and is_of_another_undoing(draft.operation, receipt, given.receipt)
    )
    receipt = replace(receipt, is_undo=True, is_foreign=is_of_another)
    required = situation.policy.required_assurance(draft.operation.description.action)
    is_of_the_effect = any(
        not known.is_undo
        and (known.kind, known.system, known.external_id)
        == (receipt.kind, receipt.system, receipt.external_id)
        for known in draft.operation.receipts
    )
    is_strong = (
        receipt.final
        and given.receipt.assurance >= required
        and not is_of_the_effect
        and not receipt.is_foreign
    )
    state, dispute = draft.state, draft.operation.dispute
    is_foreign = receipt.is_foreign and not is_of_the_effect
    # Where it is in doubt, finds that prove nothing lead nowhere, as they do of the effect itself.
    is_unsettling = (
        state is State.IN_DOUBT
        and not (is_strong or situation.is_person)
        and (is_foreign or is_timely(draft.operation, given, draft.now, situation.policy))
    )
    keep_finding(draft, given, situation, is_unsettling=is_unsettling)
    is_over = is_unsettling and is_unresolved_by_many(draft.operation)
    is_taken = is_strong and state not in _CANNOT_BE_UNDONE
    if not is_of_the_effect:
        _keep_undoing(draft, replace(receipt, is_accepted=is_taken))
    is_unheard_of = state in (State.PLANNED, State.FAILED)
    warnings = (_NOTHING_TO_UNDO,) if is_unheard_of else ()
    if is_foreign:
        return draft.verdict(
            Command.RECONCILE,
            "foreign_unresolved" if is_over else "compensated_foreign",
            fields={"receipt": receipt},
            warnings=(*warnings, _OF_ANOTHER),
        )
    if not is_strong:
        return draft.verdict(
            Command.RECONCILE,
            "unresolved" if is_over else "compensated_weak",
            fields={"receipt": receipt},
            warnings=warnings,
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
