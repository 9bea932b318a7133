"""Brings into normal form what is told of an operation: receipts, failures, findings, decisions."""

from counterfoil.store.domain.closing import CloseFacts
from counterfoil.store.domain.commands import (
    RECEIPT_KINDS,
    CloseOperation,
    ReceiptGiven,
    ReconcileOperation,
    RecordFailure,
)
from counterfoil.store.domain.criteria import satisfaction_text
from counterfoil.store.domain.failures import FailureFacts
from counterfoil.store.domain.instants import Instant, parse_rfc3339
from counterfoil.store.domain.model import Assurance, State
from counterfoil.store.domain.names import fold_target
from counterfoil.store.domain.receipts import ReceiptFacts
from counterfoil.store.errors import InvalidArgument
from counterfoil.store.preparing import Bodies, Preparer, as_dict, attempt_number, duration

__all__ = ["is_reference", "prepare_close", "prepare_failure", "prepare_receipt", "read_as_of"]

_SOURCES = ("response", "lookup", "human")
_NO_REFERENCES = frozenset(
    (
        "n/a",
        "na",
        "none",
        "null",
        "nil",
        "unknown",
        "undefined",
        "tbd",
        "todo",
        "ok",
        "done",
        "success",
        "true",
    )
)
"""What is written into a field that has to be filled: no performing system calls an effect so."""


def prepare_receipt(
    given: ReceiptGiven,
    *,
    prepare: Preparer,
    bodies: Bodies,
    action: str | None,
    operation: str | None = None,
) -> ReceiptFacts:
    """Prepare a receipt; `action` stands for the system where none is named."""
    if given.kind not in RECEIPT_KINDS:
        raise InvalidArgument("kind", "is unknown", accepted="one of " + ", ".join(RECEIPT_KINDS))
    if given.source not in _SOURCES:
        raise InvalidArgument("source", "is unknown", accepted="one of " + ", ".join(_SOURCES))
    external_id = prepare.text(given.external_id, name="external_id")
    external_id = None if external_id is None else external_id.strip()
    performed_at = None
    if given.performed_at is not None and given.performed_at.strip():
        performed_at = parse_rfc3339(given.performed_at, field="performed_at")
    return ReceiptFacts(
        kind=given.kind,
        system=(prepare.text(given.system, name="system") or action or "").strip(),
        external_id=external_id,
        performed_at=performed_at,
        url=prepare.text(given.url, name="url"),
        evidence_digest=prepare.body(as_dict(given.evidence), bodies, name="evidence"),
        final=given.final,
        source=given.source,
        # What the server itself found is its own evidence, whatever name it goes by.
        assurance=_assurance(
            given.assurance,
            has_reference=(external_id is not None and given.assurance is not None)
            or is_reference(external_id, operation=operation),
        ),
        attempt=attempt_number(given.attempt),
        satisfies=satisfaction_text(prepare.texts(given.satisfies, name="satisfies"), ()),
        result_digest=prepare.body(given.result, bodies, name="result"),
    )


def prepare_failure(command: RecordFailure, *, prepare: Preparer, bodies: Bodies) -> FailureFacts:
    """Prepare a failure report."""
    if command.effect not in ("none", "unknown"):
        raise InvalidArgument("effect", "is unknown", accepted='"none" or "unknown"')
    attempt = attempt_number(command.attempt)
    if attempt is None:
        raise InvalidArgument("attempt", "is missing", accepted="the attempt's number, from 1")
    evidence = as_dict(command.evidence)
    return FailureFacts(
        attempt=attempt,
        effect=command.effect,
        error=prepare.text(command.error, name="error") or "",
        evidence=evidence,
        evidence_digest=prepare.body(evidence, bodies, name="evidence"),
        retryable=command.retryable,
        retry_after_seconds=duration(command.retry_after_seconds, name="retry_after_seconds", least=0),
    )


def prepare_close(command: CloseOperation, *, prepare: Preparer) -> CloseFacts:
    """Prepare a decision."""
    if command.outcome not in ("timed_out", "cancelled"):
        raise InvalidArgument("outcome", "is unknown", accepted='"timed_out" or "cancelled"')
    reason = prepare.text(command.reason, name="reason")
    if reason is None:
        raise InvalidArgument("reason", "is empty", accepted="why, in a sentence")
    return CloseFacts(outcome=State(command.outcome), reason=reason)


def read_as_of(command: ReconcileOperation, now: Instant) -> Instant | None:
    """Read the time that a finding was made after; one in the future proves nothing."""
    if command.as_of is None or not command.as_of.strip():
        return None
    moment = parse_rfc3339(command.as_of, field="as_of")
    if moment > now:
        raise InvalidArgument(
            "as_of",
            "lies in the future",
            accepted="the as_of of the answer that sent you to look, copied unchanged",
        )
    return moment


def is_reference(external_id: str | None, *, operation: str | None) -> bool:
    """Tell whether a text can be a performing system's reference: something visible, and not our own id."""
    if external_id is None or external_id.casefold() in _NO_REFERENCES or external_id == operation:
        return False
    return any(character.isalnum() for character in fold_target(external_id))


def _assurance(found: str | None, *, has_reference: bool) -> Assurance:
    """Weigh a receipt: a claim without a reference, else what brought it."""
    if not has_reference:
        return Assurance.CLAIMED
    return Assurance.REPORTED if found is None else Assurance[found.upper()]
