"""Attempts that another journal granted and nobody settled there: what they put in doubt here.

They stand as one attempt without a grant, under no key: no repeat under a key of this journal is absorbed by
what was sent there, and a look counts only once the last of their leases has settled.
"""

from msgspec import Struct

from counterfoil.store.domain.answers import Verdict
from counterfoil.store.domain.drafting import Draft, Situation
from counterfoil.store.domain.events import EventKind, to_data
from counterfoil.store.domain.instants import Instant, micros
from counterfoil.store.domain.model import Assurance, Operation, Repeat, State, Terms
from counterfoil.store.domain.receipts import ReceiptFacts, make_receipt
from counterfoil.store.domain.states import Policy, settle
from counterfoil.store.domain.terms import at_attempt, merge_terms

__all__ = ["ForeignAttempt", "can_be_doubted", "decide_doubt"]


class ForeignAttempt(Struct, frozen=True, kw_only=True):
    """An attempt of another journal. `first_granted_at` is when the operation's first was granted there.

    `system` and `evidence_digest` name it, so that it is known when it comes again.
    """

    first_granted_at: Instant
    end: Instant
    terms: Terms
    system: str
    evidence_digest: str


def can_be_doubted(state: State) -> bool:
    """Tell whether a further attempt would be granted in that state, now or once something is settled."""
    return state in (State.PLANNED, State.IN_PROGRESS, State.IN_DOUBT, State.FAILED)


def decide_doubt(operation: Operation, attempt: ForeignAttempt, situation: Situation) -> Verdict:
    """Keep as a claim that an attempt made elsewhere may have had its effect, under the stricter terms."""
    draft = Draft(operation, operation_id=operation.id, situation=situation)
    if not can_be_doubted(draft.state):
        return draft.answer("continue", "recorded")
    stricter, _ = merge_terms(
        draft.operation, _stricter(draft.operation, attempt.terms, situation.policy), situation.policy
    )
    draft.fix(at_attempt(stricter, situation.policy))
    draft.add(
        EventKind.EFFECT_UNANNOUNCED,
        granted_at=min(attempt.first_granted_at, draft.now),
        lease_until=max(attempt.end, draft.now),
    )
    claim = ReceiptFacts(
        kind="other",
        system=attempt.system,
        external_id=None,
        performed_at=None,
        url=None,
        evidence_digest=attempt.evidence_digest,
        final=True,
        source="import",
        assurance=Assurance.CLAIMED,
        attempt=0,
    )
    draft.add(EventKind.RECEIPT_RECORDED, **to_data(make_receipt(draft, claim, situation)))
    return draft.answer("continue", "recorded")


def _stricter(operation: Operation, theirs: Terms, policy: Policy) -> Terms:
    """Give what of the terms there binds more than what holds here; nothing there permits more than here."""
    ours = operation.terms
    repeat = theirs.repeat
    if ours.repeat is None:
        repeat = None if repeat is Repeat.SAFE else Repeat.UNSAFE
    has_key = ours.key_ttl_seconds is not None or ours.repeat is Repeat.SAFE
    settle_seconds = theirs.settle_seconds
    if settle_seconds is not None and micros(settle_seconds) <= settle(operation, policy):
        settle_seconds = None
    return Terms(
        repeat=repeat,
        key_ttl_seconds=theirs.key_ttl_seconds if has_key else None,
        settle_seconds=settle_seconds,
    )
