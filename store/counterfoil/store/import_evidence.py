"""The evidence that an export holds of one operation, weighed against the facts that are here.

Each receipt and each finding goes through the decision that it would go through if an agent handed it in now;
nothing else of the file weighs anything.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from counterfoil.store.domain.canonical import canonical_json, digest
from counterfoil.store.domain.doubts import ForeignAttempt, can_be_doubted, decide_doubt
from counterfoil.store.domain.drafting import Creation, Situation
from counterfoil.store.domain.events import Event, EventKind, evolve, to_data
from counterfoil.store.domain.findings import ReconcileFacts
from counterfoil.store.domain.instants import Instant
from counterfoil.store.domain.model import Assurance, Attempt, Finding, Operation, Outcome, Receipt
from counterfoil.store.domain.receipts import ReceiptFacts, decide_receipt
from counterfoil.store.domain.reconciling import decide_reconcile
from counterfoil.store.domain.states import live_attempt, state_of, unknown_attempts
from counterfoil.store.preparing import Bodies

if TYPE_CHECKING:
    from counterfoil.store.domain.answers import Verdict

__all__ = ["Evidence"]


class Evidence:
    """What the file proves of an operation that is here: weighed one by one, as if it were handed in now."""

    def __init__(self, ours: Operation, theirs: Operation, situation: Situation, journal_id: str) -> None:
        self.operation = ours
        self.events: list[Event] = []
        self.bodies = Bodies()
        self.doubts = 0
        self.not_taken = 0
        self._theirs = theirs
        self._situation = situation
        self._journal_id = journal_id

    def take_undoing(self) -> None:
        """Take what this undoes, where that was said there and is not known here: it undoes nothing else."""
        if self.operation.compensates is None and self._theirs.compensates is not None:
            event = Event(
                kind=EventKind.DESCRIPTION_TAKEN,
                operation=self.operation.id,
                at=self._now,
                data={
                    "description": to_data(self.operation.description),
                    "compensates": self._theirs.compensates,
                },
            )
            self.operation = evolve(self.operation, event)
            self.events.append(event)

    def new_receipts(self) -> Sequence[Receipt]:
        """Give the receipts that stand as evidence there and are not on file here; undoings come last.

        One that is on file here without counting, and counts there, is handed in again as well.
        """
        known = {_receipt_key(receipt) for receipt in self.operation.receipts}
        waiting = self._waiting()
        new = [
            receipt
            for receipt in self._theirs.receipts
            if _receipt_key(receipt) not in known
            or (receipt.is_accepted and _receipt_key(receipt) in waiting)
        ]
        # What is foreign there may look as if it proved something here, and what a person set aside does not.
        standing = [receipt for receipt in new if not (receipt.is_foreign or receipt.is_set_aside)]
        self.not_taken += len(new) - len(standing)
        return sorted(standing, key=lambda receipt: (receipt.is_undo, receipt.number))

    def undoings_left(self) -> Sequence[Receipt]:
        """Give the undoings that count there and were too early here: an effect may be established by now."""
        waiting = self._waiting()
        return [
            receipt
            for receipt in self._theirs.receipts
            if receipt.is_undo and receipt.is_accepted and _receipt_key(receipt) in waiting
        ]

    def _waiting(self) -> set[tuple[Any, ...]]:
        """Name the receipts that are on file here and have not come to count; what a person set aside has."""
        return {
            _receipt_key(receipt)
            for receipt in self.operation.receipts
            if not (receipt.is_accepted or receipt.is_set_aside)
        }

    def new_findings(self) -> Sequence[Finding]:
        """Give the empty and the inconclusive looks that are not on file here; the others had receipts."""
        known = {_finding_key(finding) for finding in self.operation.findings}
        return [
            finding
            for finding in self._theirs.findings
            if finding.finding in ("not_performed", "inconclusive") and _finding_key(finding) not in known
        ]

    def take_receipt(self, receipt: Receipt, *, belongs_to_another: bool) -> None:
        """Weigh a receipt as one that an agent brings: how it was come by there proves nothing here."""
        facts = ReceiptFacts(
            kind=receipt.kind,
            system=receipt.system,
            external_id=receipt.external_id,
            performed_at=receipt.performed_at,
            url=receipt.url,
            evidence_digest=receipt.evidence_digest,
            final=receipt.final,
            source="import",
            assurance=min(receipt.assurance, Assurance.REPORTED),
            attempt=self._attempt_here(receipt.attempt),
            satisfies=receipt.satisfies,
            result_digest=receipt.result_digest,
            belongs_to_another=belongs_to_another,
        )
        if receipt.is_undo:
            self._apply(self._reconciled("compensated", "an import", facts, as_of=None, by="lookup"))
        else:
            self._apply(decide_receipt(self.operation, facts, self._situation, creation=self._creation()))

    def take_finding(self, finding: Finding) -> None:
        """Weigh a finding as an agent's; what a person found there is that person's word only there."""
        as_of = finding.as_of if finding.as_of is not None and finding.as_of <= self._now else None
        by = "lookup" if finding.by == "lookup" and not finding.is_persons else "human"
        facts = replace(
            _NO_RECEIPT,
            evidence_digest=finding.evidence_digest,
            attempt=self._attempt_here(finding.attempt),
        )
        self._apply(self._reconciled(finding.finding, finding.checked_with, facts, as_of=as_of, by=by))

    def take_doubt(self) -> None:
        """Keep as a claim that an attempt unknown here may have had its effect, so that none is granted."""
        for attempt in _open_attempts(self._theirs, self._now):
            if not can_be_doubted(state_of(self.operation, self._now)):
                return
            if not self._is_news(attempt):
                continue
            facts = ForeignAttempt(
                first_granted_at=min(each.granted_at for each in (*self._theirs.granted, attempt)),
                end=attempt.end,
                terms=self._theirs.terms,
                system=f"counterfoil {self._journal_id}"[:200],
                evidence_digest=self.bodies.add(canonical_json(self._said_of(attempt))),
            )
            self._apply(decide_doubt(self.operation, facts, self._situation))
            self.doubts += 1

    def _is_news(self, attempt: Attempt) -> bool:
        """Tell whether an attempt, or its granted lease, goes beyond what is known here."""
        if attempt.number == 0 and not self._is_unannounced_news(attempt):
            return False
        if self._attempt_here(attempt.number) is not None:
            ours = next(each for each in self.operation.granted if each.number == attempt.number)
            if ours.outcome is Outcome.REFUSED or attempt.lease_until <= ours.lease_until:
                return False
            if attempt.end <= ours.end:
                return False
        said = self._said_of(attempt)
        known = digest(canonical_json(said))
        # A claim that names no lease was noted when that was over, if it was.
        said.pop("lease_until", None)
        known_as_over = digest(canonical_json(said))
        return not any(
            receipt.evidence_digest == known
            or (receipt.evidence_digest == known_as_over and receipt.recorded_at >= attempt.end)
            for receipt in self.operation.receipts
        )

    def _is_unannounced_news(self, attempt: Attempt) -> bool:
        """Tell whether an effect nobody announced there is unknown here; one in doubt here covers it."""
        ours = next((each for each in self.operation.attempts if each.number == 0), None)
        if ours is None:
            return True
        is_same = (ours.granted_at, ours.lease_until) == (attempt.granted_at, attempt.lease_until)
        return not is_same and ours.outcome.is_without_effect

    def _said_of(self, attempt: Attempt) -> dict[str, Any]:
        said = {"journal": self._journal_id, "attempt": attempt.number, "granted_at": attempt.granted_at}
        return said if attempt.number == 0 else {**said, "lease_until": attempt.lease_until}

    @property
    def _now(self) -> Instant:
        return self._situation.now.at

    def _reconciled(
        self, finding: str, checked_with: str, facts: ReceiptFacts, *, as_of: Instant | None, by: str
    ) -> "Verdict":
        given = ReconcileFacts(finding=finding, checked_with=checked_with, by=by, as_of=as_of, receipt=facts)
        return decide_reconcile(self.operation, given, self._situation, creation=self._creation())

    def _apply(self, verdict: "Verdict") -> None:
        if verdict.after is not None:
            self.operation = verdict.after
            self.events += verdict.events

    def _attempt_here(self, number: int) -> int | None:
        """Give the number of an attempt if it is the very same one here."""
        theirs = next((attempt for attempt in self._theirs.granted if attempt.number == number), None)
        ours = next((attempt for attempt in self.operation.granted if attempt.number == number), None)
        if theirs is None or ours is None:
            return None
        is_same = (theirs.granted_at, theirs.holder, theirs.generation) == (
            ours.granted_at,
            ours.holder,
            ours.generation,
        )
        return number if is_same else None

    def _creation(self) -> Creation:
        """Nothing is created here; the domain asks for it all the same."""
        operation = self.operation
        return Creation(
            id=operation.id,
            namespace=operation.namespace,
            run=operation.run,
            key=operation.key,
            position=operation.position,
            run_created_at=operation.since_floor,
            description=operation.description,
        )


_NO_RECEIPT = ReceiptFacts(
    kind="other",
    system="",
    external_id=None,
    performed_at=None,
    url=None,
    evidence_digest=None,
    final=True,
    source="import",
    assurance=Assurance.CLAIMED,
    attempt=None,
)


def _open_attempts(operation: Operation, now: Instant) -> Iterable[Attempt]:
    live = live_attempt(operation, now)
    return (*unknown_attempts(operation, now), *(() if live is None else (live,)))


def _receipt_key(receipt: Receipt) -> tuple[Any, ...]:
    return (
        receipt.kind,
        receipt.system,
        receipt.external_id,
        receipt.final,
        receipt.is_undo,
        receipt.performed_at,
        receipt.url,
        receipt.evidence_digest,
    )


def _finding_key(finding: Finding) -> tuple[Any, ...]:
    return finding.finding, finding.checked_with, finding.as_of, finding.evidence_digest
