"""record_receipt, and receipts that come inside a finding: what one proves, and what it contradicts."""

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.store.domain.answers import Verdict
from counterfoil.store.domain.criteria import left_unmet
from counterfoil.store.domain.drafting import Creation, Draft, Situation, keeping_payload
from counterfoil.store.domain.events import EventKind, to_data
from counterfoil.store.domain.instants import Instant
from counterfoil.store.domain.model import (
    Assurance,
    Attempt,
    DisputeKind,
    Operation,
    Party,
    Receipt,
    Repeat,
    State,
)
from counterfoil.store.domain.states import CLOCK_TOLERANCE, live_attempt, since
from counterfoil.store.domain.table import Command
from counterfoil.store.domain.terms import at_attempt

__all__ = [
    "ReceiptFacts",
    "classify",
    "decide_receipt",
    "is_of_another_undoing",
    "make_receipt",
    "open_dispute",
    "store_receipt",
    "take_words",
    "warnings_of_receipt",
]

_EXCLUSIVE_KINDS = frozenset(("message", "transaction", "approval"))
"""Kinds whose reference belongs to one effect only; one commit or record may serve several steps."""

_GRAVITY = (DisputeKind.RECEIPT, DisputeKind.NEGATIVE, DisputeKind.EFFECTS)


class ReceiptFacts(Struct, frozen=True, kw_only=True):
    """A receipt in normal form. `attempt` is the number that the caller named.

    `belongs_to_another`: the reference is on file as the evidence of another operation. `contradicts` names
    what the caller says of the effect and the operation has otherwise: action, target, args. `misnamed` warns
    of criteria that the run does not have.
    """

    kind: str
    system: str
    external_id: str | None
    performed_at: Instant | None
    url: str | None
    evidence_digest: str | None
    final: bool
    source: str
    assurance: Assurance
    attempt: int | None
    satisfies: str | None = None
    result_digest: str | None = None
    belongs_to_another: bool = False
    contradicts: tuple[str, ...] = ()
    misnamed: tuple[str, ...] = ()


def decide_receipt(
    operation: Operation | None, given: ReceiptFacts, situation: Situation, *, creation: Creation
) -> Verdict:
    """Record a receipt; never refuse, lose or change one. An operation that nobody began is made for it."""
    draft = Draft(operation, operation_id=creation.id, situation=situation)
    if operation is None:
        draft.create(creation)
    receipt = make_receipt(draft, given, situation)
    take_words(draft, receipt, creation)
    row, known = classify(draft.operation, receipt, draft.before)
    warnings = warnings_of_receipt(draft, receipt, given)
    if known is not None:
        row = "duplicate" if row == "acknowledged" else row
        warnings += left_unmet(known, receipt.satisfies)
        return draft.verdict(Command.RECEIPT, row, fields={"receipt": known}, warnings=warnings)
    store_receipt(draft, receipt, row)
    return draft.verdict(
        Command.RECEIPT, row, fields={"receipt": draft.operation.receipts[-1]}, warnings=warnings
    )


def take_words(draft: Draft, receipt: Receipt, creation: Creation) -> None:
    """Let a step that was never attempted take from its receipt what its plan left out of the effect.

    Otherwise the key would stand for whatever a later begin says that it is.
    """
    operation, said = draft.operation, creation.description
    recorded = operation.description
    if said is None or receipt.is_foreign or not operation.takes or draft.before is not State.PLANNED:
        return
    parts = [(getattr(recorded, name), getattr(said, name)) for name in ("action", "target", "args_digest")]
    if all(known in (None, told) for known, told in parts) and any(known != told for known, told in parts):
        draft.add(EventKind.DESCRIPTION_TAKEN, description=to_data(keeping_payload(said, recorded)))


def make_receipt(draft: Draft, given: ReceiptFacts, situation: Situation) -> Receipt:
    """Place a receipt: its attempt, whether it is of this operation at all, and its weight."""
    operation = draft.operation
    required = situation.policy.required_assurance(operation.description.action)
    attempt = given.attempt if given.attempt is not None else _owner(operation)
    receipt = Receipt(
        number=len(operation.receipts) + 1,
        kind=given.kind,
        system=given.system,
        external_id=given.external_id,
        performed_at=given.performed_at,
        url=given.url,
        evidence_digest=given.evidence_digest,
        result_digest=given.result_digest,
        final=given.final,
        source=given.source,
        assurance=given.assurance,
        attempt=attempt,
        recorded_at=draft.now,
        call_id=situation.call_id,
        satisfies=given.satisfies,
        is_accepted=given.final and given.assurance >= required,
        is_unannounced=not operation.granted,
    )
    if _is_of_another_effect(operation, given, draft.party) or _is_foreign(
        operation, receipt, given, draft.now
    ):
        receipt = replace(receipt, is_foreign=True, is_accepted=False)
    return receipt


def _owner(operation: Operation) -> int:
    """The accepted attempt where there is one, else the newest attempt not found without effect."""
    if operation.standing:
        return operation.standing[0].attempt
    granted = operation.granted
    open_ones = [attempt for attempt in operation.attempts if not attempt.outcome.is_without_effect]
    newest_open = max(open_ones, key=lambda attempt: (attempt.granted_at, attempt.number), default=None)
    if newest_open is not None:
        return newest_open.number
    return granted[-1].number if granted else 0


def _attempt(operation: Operation, number: int) -> Attempt | None:
    return next((attempt for attempt in operation.attempts if attempt.number == number), None)


def _is_of_another_effect(operation: Operation, given: ReceiptFacts, party: Party) -> bool:
    """Tell whether a receipt is by its caller's own words one of another effect than this key stands for.

    That is one on another target. Actions and args are worded anew by a session that lost its memory, and a
    receipt that was taken for another's would leave the effect to be performed again. The holder of the
    attempt that it names speaks of what it did, however it words that: to it, a warning.
    """
    named = None if given.attempt is None else _attempt(operation, given.attempt)
    is_its_holders = named is not None and named.holder is not None and named.holder.is_holder(party)
    return "target" in given.contradicts and not is_its_holders


def _is_foreign(operation: Operation, receipt: Receipt, given: ReceiptFacts, now: Instant) -> bool:
    """Tell whether a receipt proves nothing about this operation.

    With the live attempt's number, a strange time is a warning only: its holder speaks of what it just did.
    """
    live = live_attempt(operation, now)
    is_of_live = live is not None and given.attempt == live.number
    if receipt.performed_at is not None and receipt.performed_at < since(operation) and not is_of_live:
        return True
    if not given.belongs_to_another:
        return False
    if receipt.kind in _EXCLUSIVE_KINDS:
        return True
    return not _is_inside(operation, receipt, is_of_live=is_of_live)


def is_of_another_undoing(operation: Operation, receipt: Receipt, given: ReceiptFacts) -> bool:
    """Tell whether a receipt proves nothing about the undoing of this operation.

    As for a receipt of the effect, but that an undoing comes after the attempts: a commit or record, which
    may undo several effects, is that of this one too where it has a time of its own that is not before them.
    """
    if receipt.performed_at is not None and receipt.performed_at < since(operation):
        return True
    return given.belongs_to_another and (receipt.kind in _EXCLUSIVE_KINDS or receipt.performed_at is None)


def _is_inside(operation: Operation, receipt: Receipt, *, is_of_live: bool) -> bool:
    """Tell whether a receipt's own time lies inside the attempt that it belongs to."""
    if receipt.performed_at is None:
        return False
    if is_of_live:
        return True
    attempt = _attempt(operation, receipt.attempt)
    if attempt is None:
        return True
    return attempt.granted_at - CLOCK_TOLERANCE <= receipt.performed_at <= attempt.end + CLOCK_TOLERANCE


def classify(operation: Operation, receipt: Receipt, state: State) -> tuple[str, Receipt | None]:
    """Name the row of the table that a receipt falls into, and the one on file that it repeats, if any."""
    before = _before_it_was_unannounced(operation, receipt)
    for known in operation.receipts:
        if _is_redelivered(known, receipt):
            # It stays what it was: an attempt granted in between does not make it that attempt's.
            return _row_of_repeat(known, state), known
        is_known = _is_same(known, receipt) or _is_same(known, before)
        if not is_known or (not known.is_accepted and (receipt.is_accepted or known.is_undo)):
            continue
        if known.is_foreign and receipt.is_foreign:
            return "foreign", known
        if known.is_in_test_for_duplicates:
            return "duplicate", known
        if known.is_foreign == receipt.is_foreign and state not in (State.PLANNED, State.FAILED):
            return _row_of_unproving(receipt), known
    if receipt.is_foreign or not receipt.is_accepted:
        return _row_of_unproving(receipt), None
    standing = operation.standing
    if standing:
        return _beside_another(operation, receipt, standing, state), None
    attempt = _attempt(operation, receipt.attempt)
    if attempt is not None and attempt.outcome.is_without_effect:
        return "strong_without_effect", None
    return "strong", None


def _row_of_unproving(receipt: Receipt) -> str:
    if receipt.is_foreign:
        return "foreign"
    return "weak" if receipt.final else "acknowledged"


def _row_of_repeat(known: Receipt, state: State) -> str:
    """Name the row of a call that came twice: whoever lost the first answer needs the same one."""
    is_proving = known.is_in_test_for_duplicates or state in (State.PLANNED, State.FAILED)
    return "duplicate" if is_proving and not known.is_foreign else _row_of_unproving(known)


def _is_same(known: Receipt, receipt: Receipt) -> bool:
    """Tell whether two receipts are one: by reference, or by all they say where there is none."""
    if (known.kind, known.system, known.external_id, known.final) != (
        receipt.kind,
        receipt.system,
        receipt.external_id,
        receipt.final,
    ):
        return False
    if known.external_id is None or not known.is_in_test_for_duplicates:
        return (known.attempt, known.evidence_digest, known.performed_at, known.url) == (
            receipt.attempt,
            receipt.evidence_digest,
            receipt.performed_at,
            receipt.url,
        )
    return True


def _before_it_was_unannounced(operation: Operation, receipt: Receipt) -> Receipt:
    """Give a receipt as it was placed when it came first: what it left unknown itself does not move it."""
    newest = operation.newest
    return replace(receipt, attempt=newest.number) if receipt.attempt == 0 and newest is not None else receipt


def _is_redelivered(known: Receipt, receipt: Receipt) -> bool:
    """Tell whether the same call came twice."""
    return (
        known.call_id is not None
        and known.call_id == receipt.call_id
        and known.is_undo == receipt.is_undo
        and _is_same(known, replace(receipt, attempt=known.attempt))
    )


def _beside_another(
    operation: Operation, receipt: Receipt, standing: tuple[Receipt, ...], state: State
) -> str:
    """Tell a second effect from supporting evidence for the first."""
    if operation.terms.repeat is Repeat.SAFE and state is State.SUCCEEDED:
        return "supporting"
    for known in standing:
        if (known.kind, known.system) == (receipt.kind, receipt.system):
            return "second_effect"
    if all(known.attempt != receipt.attempt for known in standing):
        return "second_effect"
    return "supporting"


def store_receipt(draft: Draft, receipt: Receipt, row: str) -> None:
    """Write a receipt and what follows from its row: an unannounced effect, a dispute."""
    state = draft.state
    is_unproving = row in ("weak", "acknowledged", "performed_weak")
    if (not draft.operation.granted and receipt.is_accepted and state is State.PLANNED) or (
        is_unproving and state in (State.PLANNED, State.FAILED)
    ):
        draft.fix(at_attempt(draft.operation.terms, draft.policy))
        draft.add(EventKind.EFFECT_UNANNOUNCED)
    ends_attempt = True if _ends_attempt(draft, receipt) else None
    draft.add(EventKind.RECEIPT_RECORDED, **to_data(receipt), ends_attempt=ends_attempt)
    kind = _dispute_opened(row, state)
    if kind is not None:
        open_dispute(draft, kind)


def _ends_attempt(draft: Draft, receipt: Receipt) -> bool:
    """Tell whether a receipt is the holder's own word that its live attempt is over."""
    live = live_attempt(draft.operation, draft.now)
    return (
        live is not None
        and receipt.is_accepted
        and receipt.attempt == live.number
        and live.holder is not None
        and live.holder.is_holder(draft.party)
    )


def _dispute_opened(row: str, state: State) -> DisputeKind | None:
    if row == "second_effect":
        return DisputeKind.EFFECTS
    if row in ("strong", "strong_without_effect"):
        if state is State.COMPENSATED:
            return DisputeKind.EFFECTS
        if row == "strong_without_effect" or state in (State.FAILED, State.TIMED_OUT, State.CANCELLED):
            return DisputeKind.RECEIPT
    return None


def open_dispute(draft: Draft, kind: DisputeKind) -> None:
    """Open a dispute, or make an open one graver; one never becomes lighter."""
    current = draft.operation.dispute
    if current is None or _GRAVITY.index(kind) > _GRAVITY.index(current.kind):
        draft.add(EventKind.DISPUTE_OPENED, dispute=kind.value)


def warnings_of_receipt(draft: Draft, receipt: Receipt, given: ReceiptFacts) -> tuple[str, ...]:
    """Say what is strange about a receipt that the caller may have meant otherwise."""
    warnings: tuple[str, ...] = ()
    if given.contradicts:
        warnings += (_of_another_effect(given.contradicts, is_foreign=receipt.is_foreign),)
    if receipt.performed_at is None or receipt.is_foreign:
        return warnings
    if receipt.performed_at < since(draft.operation):
        warnings += ("performed_at lies before the attempt: check that this receipt is of this effect",)
    elif receipt.performed_at > draft.now + CLOCK_TOLERANCE:
        warnings += ("performed_at lies in the future: the performing system's clock differs from this one",)
    return warnings


def _of_another_effect(parts: tuple[str, ...], *, is_foreign: bool) -> str:
    differing = f"what this key stands for has another {', '.join(parts)}"
    if is_foreign:
        return (
            f"{differing}: record a receipt of another effect under that effect's own key; if it is of this "
            f"one, send it again without {', '.join(parts)}"
        )
    return f"{differing}: check that this receipt is of this effect"
