"""Findings: what somebody saw who looked, kept with the attempt that it is about."""

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.store.domain.drafting import Draft, Situation
from counterfoil.store.domain.events import EventKind, to_data
from counterfoil.store.domain.instants import Instant
from counterfoil.store.domain.model import Finding, Operation
from counterfoil.store.domain.receipts import ReceiptFacts
from counterfoil.store.domain.states import FINDS, UNRESOLVED_AFTER, Policy, settle_until

__all__ = ["ReconcileFacts", "attempt_looked_for", "is_timely", "is_unresolved_by_many", "keep_finding"]


class ReconcileFacts(Struct, frozen=True, kw_only=True):
    """A finding in normal form. `by` is as the caller says it; only the situation makes it a person's."""

    finding: str
    checked_with: str
    by: str
    as_of: Instant | None
    receipt: ReceiptFacts
    end_lease: bool = False


def keep_finding(
    draft: Draft, given: ReconcileFacts, situation: Situation, *, is_unsettling: bool = False
) -> None:
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
        attempt=attempt_looked_for(operation, given),
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


def attempt_looked_for(operation: Operation, given: ReconcileFacts) -> int:
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


def is_timely(operation: Operation, given: ReconcileFacts, now: Instant, policy: Policy) -> bool:
    """Tell whether it was looked after the settle time of an operation that has one."""
    until = settle_until(operation, now, policy)
    return given.as_of is not None and until is not None and given.as_of >= until


def is_unresolved_by_many(operation: Operation) -> bool:
    """Tell whether three finds that prove nothing, each with another `as_of`, came for the newest attempt.

    A find is of the effect or of its undoing.
    """
    newest = operation.newest
    number = 0 if newest is None else newest.number
    moments = {
        finding.as_of
        for finding in operation.findings
        if finding.finding in FINDS and finding.is_unsettling and finding.attempt == number
    }
    return len(moments) >= UNRESOLVED_AFTER
