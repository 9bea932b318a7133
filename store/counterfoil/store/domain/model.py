"""The facts: what the journal knows of an operation. Everything here is frozen; `events` makes the next one.

Nothing in these classes depends on the present; what does (state, settle time, key) is in `states`.
"""

from enum import IntEnum, StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from counterfoil.store.domain.enumerations import at_hand
from counterfoil.store.domain.instants import Instant

__all__ = [
    "NO_TERMS",
    "Assurance",
    "Attempt",
    "ConfiguredGrant",
    "Decision",
    "Description",
    "Dispute",
    "DisputeKind",
    "Finding",
    "LookupTerms",
    "Operation",
    "Outcome",
    "Party",
    "Receipt",
    "Repeat",
    "Run",
    "State",
    "Terms",
    "UndoTerms",
    "shown_by",
]


@at_hand
class State(StrEnum):
    """The nine states of an operation (CONTRACT.md, section 3)."""

    PLANNED = "planned"
    IN_PROGRESS = "in_progress"
    IN_DOUBT = "in_doubt"
    FAILED = "failed"
    SUCCEEDED = "succeeded"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    COMPENSATED = "compensated"
    DISPUTED = "disputed"

    @property
    def is_settled(self) -> bool:
        """True where a begin answers `skip`."""
        return self in _SETTLED

    @property
    def is_open(self) -> bool:
        """True where the effect may have happened and nobody knows."""
        return self in (State.IN_PROGRESS, State.IN_DOUBT, State.DISPUTED)


_SETTLED = frozenset((State.SUCCEEDED, State.TIMED_OUT, State.CANCELLED, State.COMPENSATED))


@at_hand
class Repeat(StrEnum):
    """Whether the effect may be performed again while an earlier attempt is unknown."""

    SAFE = "safe"
    KEYED = "keyed"
    UNSAFE = "unsafe"

    @property
    def strictness(self) -> int:
        """Order of strictness: unsafe over keyed over safe."""
        return (Repeat.SAFE, Repeat.KEYED, Repeat.UNSAFE).index(self)


@at_hand
class Outcome(StrEnum):
    """What is known of one attempt's effect, apart from receipts.

    `open`: nothing reported, its lease may still live. `unknown`: ended, no evidence either way. `refused`:
    answered without effect or never sent, by its holder's evidence. `silent`: looked up and not found.
    """

    OPEN = "open"
    UNKNOWN = "unknown"
    REFUSED = "refused"
    SILENT = "silent"

    @property
    def is_without_effect(self) -> bool:
        """True where it is established that the attempt had no effect."""
        return self in (Outcome.REFUSED, Outcome.SILENT)


@at_hand
class Assurance(IntEnum):
    """How far a receipt can be relied upon, weakest first."""

    CLAIMED = 0
    REPORTED = 1
    CAPTURED = 2
    VERIFIED = 3

    @property
    def word(self) -> str:
        """The contract's word."""
        return self.name.lower()


@at_hand
class DisputeKind(StrEnum):
    """What contradicts what; the last two need a person."""

    RECEIPT = "receipt"
    EFFECTS = "effects"
    NEGATIVE = "negative"

    @property
    def needs_person(self) -> bool:
        """True where the answer is `ask: disputed`, not `reconcile: disputed`."""
        return self is not DisputeKind.RECEIPT


class Party(Struct, frozen=True, kw_only=True):
    """Whom an attempt was granted to."""

    principal: str
    conversation: str | None
    connection: str

    def is_holder(self, other: "Party") -> bool:
        """Tell whether `other` is the same holder: by conversation, or by connection where one is unknown."""
        if self.principal != other.principal:
            return False
        if self.conversation is not None and other.conversation is not None:
            return self.conversation == other.conversation
        return self.connection == other.connection

    def may_be(self, other: "Party") -> bool:
        """Tell whether nothing that both sides know tells them apart (for a call sent again)."""
        if self.principal != other.principal:
            return False
        return None in (self.conversation, other.conversation) or self.conversation == other.conversation


class LookupTerms(Struct, frozen=True, kw_only=True):
    """A declared lookup; its args lie in the bodies under `args_digest`. `conclusive` None: not said."""

    tool: str | None = None
    args_digest: str | None = None
    instructions: str | None = None
    probe: str | None = None
    conclusive: bool | None = None

    @property
    def is_on_record(self) -> bool:
        """True where the lookup says how to look, or promises that an empty answer is conclusive."""
        return any((self.tool, self.args_digest, self.instructions, self.probe, self.conclusive))


class UndoTerms(Struct, frozen=True, kw_only=True):
    """How the effect can be undone; shown, never run."""

    tool: str | None = None
    args_digest: str | None = None
    instructions: str | None = None


class Terms(Struct, frozen=True, kw_only=True):
    """What is fixed by whichever call gives it first. Durations in seconds; None is "not given".

    `deadline_over_seconds`: when a person set a deadline aside, those of at most so long were over.
    """

    repeat: Repeat | None = None
    key_ttl_seconds: float | None = None
    lookup: LookupTerms | None = None
    settle_seconds: float | None = None
    undo: UndoTerms | None = None
    deadline_seconds: float | None = None
    max_attempts: int | None = None
    deadline_over_seconds: float | None = None


NO_TERMS = Terms()


class Description(Struct, frozen=True, kw_only=True):
    """What the effect is. None is "not said", which a first begin may still say (`Operation.takes`).

    Digests are of the stored, redacted text; keyed digests are of what the caller really sent.
    """

    action: str
    target: str | None = None
    target_folded: str = ""
    args_digest: str | None = None
    args_keyed: str | None = None
    args_redacted: bool = False
    payload_digest: str | None = None
    payload_keyed: str | None = None
    payload_redacted: bool = False
    fingerprint: str


class Attempt(Struct, frozen=True, kw_only=True):
    """One permission to perform the effect. Number 0 stands for an effect that nobody announced.

    `lease_until` is the granted end of the lease; `ended_at` is set only where its holder (or a person)
    ended it, so that the end of a lease that merely ran out stays its granted end.
    """

    number: int
    generation: int
    holder: Party | None = None
    call_id: str | None = None
    reason: str
    granted_at: Instant
    lease_until: Instant
    ended_at: Instant | None = None
    outcome: Outcome = Outcome.OPEN
    is_touched: bool = False
    retryable: bool = True
    retry_at: Instant | None = None
    error: str | None = None
    set_back: Annotated[int, Meta(ge=0, le=2**62)] = 0
    context: str | None = None
    workflow_version: str | None = None
    grant_id: str | None = None

    @property
    def end(self) -> Instant:
        """When it ended: by its holder, else by its granted lease."""
        return self.lease_until if self.ended_at is None else self.ended_at

    @property
    def is_of_another_journal(self) -> bool:
        """Whether it stands for attempts of another journal: from the first grant there to the last end."""
        return self.number == 0 and self.ended_at is None


class Receipt(Struct, frozen=True, kw_only=True):
    """Evidence as recorded. `is_accepted`: it was at or above the required assurance when it came.

    `result_digest` is of what the tool answered, where the server took the receipt from that answer.
    """

    number: int
    kind: str
    system: str
    external_id: str | None = None
    performed_at: Instant | None = None
    url: str | None = None
    evidence_digest: str | None = None
    result_digest: str | None = None
    final: bool
    source: str
    assurance: Assurance
    attempt: int
    recorded_at: Instant
    call_id: str | None = None
    satisfies: str | None = None
    is_accepted: bool = False
    is_foreign: bool = False
    is_unannounced: bool = False
    is_undo: bool = False
    is_set_aside: bool = False

    @property
    def counts(self) -> bool:
        """True where it stands as evidence that this effect happened."""
        return self.is_accepted and not (self.is_set_aside or self.is_undo or self.is_foreign)

    @property
    def is_in_test_for_duplicates(self) -> bool:
        """Acknowledgements, claims and foreign receipts take no part in it."""
        return self.final and not self.is_foreign and self.assurance > Assurance.CLAIMED


class Finding(Struct, frozen=True, kw_only=True):
    """What looking showed. `is_unsettling`: it counted, and settled nothing.

    `by` is as the caller said it, except that a person's is `person`.
    """

    number: int
    finding: str
    checked_with: str
    by: str
    as_of: Instant | None = None
    attempt: int
    recorded_at: Instant
    evidence_digest: str | None = None
    call_id: str | None = None
    is_unsettling: bool = False
    is_persons: bool = False

    @property
    def shown_by(self) -> str:
        """Whose word it is: `lookup`, `person`, or the `claim` of one who spoke for a person."""
        return shown_by(self.by)


def shown_by(by: str) -> str:
    """Name a finding's `by` so that nobody who was not shown to be a person reads as one."""
    return "claim" if by == "human" else by


class Decision(Struct, frozen=True, kw_only=True):
    """A decision that stands until evidence or a person moves it: timed_out, cancelled or compensated."""

    outcome: State
    at: Instant
    by: str
    reason: str


class Dispute(Struct, frozen=True, kw_only=True):
    """An open contradiction."""

    kind: DisputeKind
    at: Instant


class Operation(Struct, frozen=True, kw_only=True):
    """One intended external effect and all that is known of it.

    `attempts` stand in the order of their numbers; 0 is an effect without a grant. `pruned_at` (bodies of it
    were removed then) is the one fact that no event tells. `is_damaged`: its rows cannot be read, and this
    stands in for it: in doubt, unsafe to repeat, and not to be written.
    """

    namespace: str
    run: str
    key: str
    id: str
    position: int
    created_at: Instant
    updated_at: Instant
    since_floor: Instant
    description: Description
    began: Party | None = None
    terms: Terms = NO_TERMS
    depends_on: tuple[str, ...] = ()
    satisfies: tuple[str, ...] = ()
    distinct_from: tuple[str, ...] = ()
    compensates: str | None = None
    attempts: tuple[Attempt, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    findings: tuple[Finding, ...] = ()
    decision: Decision | None = None
    dispute: Dispute | None = None
    acknowledged_at: Instant | None = None
    settle_restart_at: Instant | None = None
    set_back: Annotated[int, Meta(ge=0, le=2**62)] = 0
    clock_boot: str | None = None
    clock_offset: int | None = None
    clock_at: Instant | None = None
    progress_message: str | None = None
    progress_fraction: float | None = None
    checkpoint: str | None = None
    progressed_at: Instant | None = None
    asked_context: str | None = None
    pruned_at: Instant | None = None
    is_damaged: bool = False

    @property
    def granted(self) -> tuple[Attempt, ...]:
        """The attempts that were really granted, oldest first."""
        attempts = self.attempts
        return attempts[1:] if attempts and attempts[0].number == 0 else attempts

    @property
    def newest(self) -> Attempt | None:
        """The newest granted attempt."""
        last = self.attempts[-1] if self.attempts else None
        return None if last is None or last.number == 0 else last

    @property
    def takes(self) -> bool:
        """True while a begin may still say what was left out: nothing was ever granted."""
        return self.newest is None

    @property
    def standing(self) -> tuple[Receipt, ...]:
        """The receipts that stand as evidence that this effect happened, oldest first."""
        receipts = self.receipts
        return tuple(receipt for receipt in receipts if receipt.counts) if receipts else receipts


class ConfiguredGrant(Struct, frozen=True, kw_only=True):
    """A grant that the operator's file gives, known by its name; taking it out of the file revokes it.

    `policy` is the context's component of that name to which it is bound, as canonical JSON.
    """

    name: str
    subject: str = "*"
    action: str = "*"
    target: str = "*"
    constraints: tuple[str, ...] = ()
    policy: str | None = None
    not_before: Instant | None = None
    expires_at: Instant | None = None
    max_uses: int | None = None


class Run(Struct, frozen=True, kw_only=True):
    """One execution of a workflow. `finished_as` is None while it is open, `begun_at` until begin_run.

    `context` is the digest of the context that steps are compared with: the first one, or the one whose
    drift was accepted last. `offered` is what was told of last: what it says counts where a call does not
    say it. `checkpoint` is a digest too.
    """

    namespace: str
    run: str
    created_at: Instant
    touched_at: Instant
    last_seq: int
    head: str
    operations: int = 0
    workflow: str | None = None
    workflow_version: str | None = None
    finished_as: str | None = None
    begun_at: Instant | None = None
    goal: str | None = None
    spec_uri: str | None = None
    spec_digest: str | None = None
    parent: str | None = None
    schedule_name: str | None = None
    schedule_occurrence: str | None = None
    context: str | None = None
    offered: str | None = None
    criteria: str | None = None
    holder: Party | None = None
    holder_name: str | None = None
    held_until: Instant | None = None
    finished_at: Instant | None = None
    finish_reason: str | None = None
    progress_message: str | None = None
    progress_fraction: float | None = None
    checkpoint: str | None = None
