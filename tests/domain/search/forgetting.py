"""Takes from the facts what no rule looks at, so that facts that differ in nothing else are explored once.

Who wrote a thing, in which words and when, is for the history. Where a moment does count, only what is asked
of it is kept: whether something was told after the newest lease had run out.
"""

from msgspec.structs import replace

from counterfoil.store.domain.instants import Instant
from counterfoil.store.domain.model import Attempt, Decision, Finding, Operation, Receipt
from counterfoil.store.domain.states import BY_DEADLINE

__all__ = ["essence"]


def essence(operation: Operation, *, with_calls: bool, with_names: bool) -> Operation:
    """Give the facts that decide. Calls and names are kept where a world has redeliveries or several keys."""
    newest = operation.newest
    ends = 0 if newest is None else newest.lease_until
    decision, dispute = operation.decision, operation.dispute
    return replace(
        operation,
        created_at=0,
        updated_at=0,
        progressed_at=_progressed(operation),
        began=operation.began if with_names else None,
        attempts=tuple(
            _attempt(attempt, is_newest=attempt is newest, with_calls=with_calls)
            for attempt in operation.attempts
        ),
        receipts=tuple(_receipt(receipt, ends) for receipt in operation.receipts),
        findings=_findings(operation.findings, ends),
        decision=None if decision is None else replace(decision, at=0, by=_decider(decision), reason=""),
        dispute=None if dispute is None else replace(dispute, at=0),
    )


def _decider(decision: Decision) -> str:
    """Whether a deadline closed the operation counts, once a person opens it again."""
    return decision.by if decision.by == BY_DEADLINE else ""


def _progressed(operation: Operation) -> Instant | None:
    """Progress counts where the newest attempt made it: its lease ends so long after it."""
    newest, at = operation.newest, operation.progressed_at
    return None if newest is None or at is None or at < newest.granted_at else at


def _attempt(attempt: Attempt, *, is_newest: bool, with_calls: bool) -> Attempt:
    """An attempt without effect has no end that counts; only the newest has a holder that counts."""
    return replace(
        attempt,
        reason="",
        error=None,
        holder=attempt.holder if is_newest else None,
        call_id=attempt.call_id if with_calls else None,
        is_touched=attempt.is_touched and with_calls,
        ended_at=None if attempt.outcome.is_without_effect else attempt.ended_at,
    )


def _receipt(receipt: Receipt, ends: Instant) -> Receipt:
    return replace(receipt, call_id=None, recorded_at=_told(receipt.recorded_at, ends))


def _told(at: Instant, ends: Instant) -> Instant:
    return ends if at >= ends else 0


def _findings(findings: tuple[Finding, ...], ends: Instant) -> tuple[Finding, ...]:
    """Keep what settled nothing and what a person said; of all others only that there was one, and when."""
    kept = {
        replace(
            finding,
            number=0,
            call_id=finding.call_id if finding.is_persons else None,
            recorded_at=_told(finding.recorded_at, ends),
        )
        for finding in findings
        if finding.is_unsettling or finding.is_persons
    }
    others = [
        _told(finding.recorded_at, ends)
        for finding in findings
        if not (finding.is_unsettling or finding.is_persons)
    ]
    if others:
        kept.add(
            Finding(
                number=0,
                finding="inconclusive",
                checked_with="",
                by="lookup",
                attempt=0,
                recorded_at=max(others),
            )
        )
    return tuple(sorted(kept, key=repr))
