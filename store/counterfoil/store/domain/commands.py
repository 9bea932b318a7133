"""What can be asked of the journal: one frozen command per tool, with the names and defaults of CONTRACT.md.

A value of None means "not given". Bodies (`args`, `payload`, `evidence`, …) are JSON values.
"""

from collections.abc import Mapping
from typing import Literal, get_args

from msgspec import Struct, field

from counterfoil.store.domain.json_numbers import Json

__all__ = [
    "RECEIPT_KINDS",
    "ReceiptKind",
    "BeginOperation",
    "BeginRun",
    "Caller",
    "CheckOperation",
    "CloseOperation",
    "Criterion",
    "FindOperations",
    "FinishRun",
    "GrantAuthority",
    "IssueToken",
    "Json",
    "Lookup",
    "OperationRef",
    "PlanStep",
    "ReceiptGiven",
    "ReconcileOperation",
    "RecordFailure",
    "RecordProgress",
    "RecordReceipt",
    "ReleaseRun",
    "RequestAuthority",
    "ResumePlan",
    "RevokeGrant",
    "SetSpec",
    "Spec",
    "Undo",
    "VerifyOperation",
]

ReceiptKind = Literal[
    "message",
    "transaction",
    "commit",
    "deployment",
    "release",
    "test_result",
    "file",
    "http_response",
    "record",
    "approval",
    "other",
]
"""What a receipt can be of."""

RECEIPT_KINDS: tuple[str, ...] = get_args(ReceiptKind)


class Caller(Struct, frozen=True, kw_only=True):
    """Who calls, as far as the transport, its `_meta`, the environment and `trace` tell.

    `connection` is always known: one stdio process is one connection. `is_person` is true only where a
    person was shown to be one (a terminal or the operator's secret), never by what a call says of itself.
    `call_id` is the client's own tool-call id or the argument of that name. `attempt_span` is the span, in
    the form of a traceparent, that an attempt granted by this call has where traces are kept.
    """

    connection: str
    principal: str = "local"
    conversation: str | None = None
    client: str | None = None
    client_version: str | None = None
    tool: str | None = None
    agent: str | None = None
    model: str | None = None
    model_run: str | None = None
    tool_call: str | None = None
    traceparent: str | None = None
    call_id: str | None = None
    attempt_span: str | None = None
    is_person: bool = False


class OperationRef(Struct, frozen=True, kw_only=True):
    """Which operation is meant: its id (`operation`), or its `run` and `key`."""

    operation: str | None = None
    run: str | None = None
    key: str | None = None


class Lookup(Struct, frozen=True, kw_only=True):
    """How to find out from the performing system whether the effect happened. Durations in seconds.

    `conclusive` None is "not said", which counts as false when the lookup is first declared and turns
    nothing off later.
    """

    tool: str | None = None
    args: Mapping[str, Json] | None = None
    instructions: str | None = None
    probe: str | None = None
    conclusive: bool | None = None
    settle_seconds: float | None = None


class Undo(Struct, frozen=True, kw_only=True):
    """How the effect can be undone, in words or by a tool call; shown, never run by the journal."""

    tool: str | None = None
    args: Mapping[str, Json] | None = None
    instructions: str | None = None


class BeginOperation(Struct, frozen=True, kw_only=True):
    """Ask for permission to perform one effect. Durations in seconds."""

    run: str
    key: str
    action: str
    target: str | None = None
    args: Mapping[str, Json] | None = None
    payload: Json = None
    repeat: str | None = None
    key_ttl_seconds: float | None = None
    lookup: Lookup | None = None
    undo: Undo | None = None
    depends_on: tuple[str, ...] = ()
    lease_seconds: float | None = None
    deadline_seconds: float | None = None
    max_attempts: int | None = None
    grant: str | None = None
    satisfies: tuple[str, ...] = ()
    context: Mapping[str, Json] | None = None
    distinct_from: tuple[str, ...] = ()
    compensates: str | None = None
    workflow: str | None = None
    workflow_version: str | None = None


class ReceiptGiven(Struct, frozen=True, kw_only=True):
    """A receipt as a caller gives it. `performed_at` is RFC 3339 text of the performing system's clock.

    `assurance` is "captured" or "verified" where the server itself took the receipt from a tool's result or
    read the performing system; it never comes from a caller. Neither does `result`: what the tool answered,
    whole, for whoever makes the same call again.
    """

    attempt: int | None = None
    kind: str = "other"
    external_id: str | None = None
    system: str | None = None
    performed_at: str | None = None
    url: str | None = None
    evidence: Mapping[str, Json] | None = None
    final: bool = True
    source: str = "response"
    satisfies: tuple[str, ...] = ()
    action: str | None = None
    target: str | None = None
    args: Mapping[str, Json] | None = None
    assurance: str | None = None
    result: Json = None


class RecordReceipt(Struct, frozen=True, kw_only=True):
    """Hand in evidence from the system that performed the effect."""

    ref: OperationRef
    receipt: ReceiptGiven = field(default_factory=ReceiptGiven)


class RecordFailure(Struct, frozen=True, kw_only=True):
    """Report that an attempt ended without success. `effect` is "none" or "unknown"."""

    ref: OperationRef
    attempt: int
    effect: str
    error: str
    evidence: Mapping[str, Json] | None = None
    retryable: bool = True
    retry_after_seconds: float | None = None


class ReconcileOperation(Struct, frozen=True, kw_only=True):
    """Report what looking at the performing system showed.

    `finding` is "performed", "not_performed", "inconclusive" or "compensated"; `by` is "lookup" or "human"
    as the caller says it (only `Caller.is_person` makes it a person's); `as_of` is RFC 3339 text copied from
    the answer that sent the caller to look. `end_lease` is a person's word that the live attempt is over.
    """

    ref: OperationRef
    finding: str
    checked_with: str
    as_of: str | None = None
    by: str = "lookup"
    receipt: ReceiptGiven = field(default_factory=ReceiptGiven)
    end_lease: bool = False


class CloseOperation(Struct, frozen=True, kw_only=True):
    """Decide to stop waiting (`timed_out`) or to give up (`cancelled`)."""

    ref: OperationRef
    outcome: str
    reason: str
    attempt: int | None = None


class CheckOperation(Struct, frozen=True, kw_only=True):
    """Look at one operation. `detail` says how much; `offset` (characters) pages through a long body."""

    ref: OperationRef
    external_id: str | None = None
    system: str | None = None
    detail: str = "summary"
    offset: int = 0
    wait_seconds: float = 0


class ResumePlan(Struct, frozen=True, kw_only=True):
    """Ask what is done, in doubt and allowed in a run, or which runs are open where `run` is None."""

    run: str | None = None
    context: Mapping[str, Json] | None = None
    include: str = "open"
    limit: int | None = None
    cursor: str | None = None


class Criterion(Struct, frozen=True, kw_only=True):
    """One thing that the work has to fulfil."""

    id: str
    text: str = ""
    required: bool = True


class Spec(Struct, frozen=True, kw_only=True):
    """What the work is held against: where it is, in which version, and its criteria."""

    uri: str | None = None
    digest: str | None = None
    criteria: tuple[Criterion, ...] = ()


class PlanStep(Struct, frozen=True, kw_only=True):
    """A step as a plan declares it; begun later by begin_operation under the same key."""

    key: str
    action: str
    target: str | None = None
    args: Mapping[str, Json] | None = None
    payload: Json = None
    depends_on: tuple[str, ...] = ()
    satisfies: tuple[str, ...] = ()
    repeat: str | None = None
    key_ttl_seconds: float | None = None
    lookup: Lookup | None = None
    undo: Undo | None = None
    deadline_seconds: float | None = None
    max_attempts: int | None = None
    distinct_from: tuple[str, ...] = ()


class BeginRun(Struct, frozen=True, kw_only=True):
    """Start a run or come back to it; called at the start of every session. Durations in seconds."""

    run: str
    workflow: str | None = None
    workflow_version: str | None = None
    goal: str | None = None
    spec: Spec | None = None
    plan: tuple[PlanStep, ...] = ()
    schedule_name: str | None = None
    schedule_occurrence: str | None = None
    context: Mapping[str, Json] | None = None
    accept_reason: str | None = None
    lease_seconds: float | None = None
    holder: str | None = None
    parent: str | None = None


class RecordProgress(Struct, frozen=True, kw_only=True):
    """Say how far an operation (by `ref`) or a whole run (by its name alone) has come."""

    ref: OperationRef
    attempt: int | None = None
    message: str | None = None
    fraction: float | None = None
    checkpoint: Mapping[str, Json] | None = None


class FinishRun(Struct, frozen=True, kw_only=True):
    """Say how a run ended: "completed", "failed" or "cancelled"."""

    run: str
    outcome: str
    reason: str | None = None


class ReleaseRun(Struct, frozen=True, kw_only=True):
    """End the hold that a session has on a run, by a person's word.

    `seen` is what the person was shown (`preview_release`): another holder since keeps its hold.
    """

    run: str
    reason: str
    seen: str | None = None


class FindOperations(Struct, frozen=True, kw_only=True):
    """Search for operations by any of these; times are RFC 3339 text."""

    text: str | None = None
    run: str | None = None
    workflow: str | None = None
    state: str | None = None
    action: str | None = None
    system: str | None = None
    external_id: str | None = None
    since: str | None = None
    until: str | None = None
    limit: int | None = None
    cursor: str | None = None


class VerifyOperation(Struct, frozen=True, kw_only=True):
    """Let the operator's probe look whether the effect happened."""

    ref: OperationRef


class SetSpec(Struct, frozen=True, kw_only=True):
    """Give a run the specification that it is held against, without holding the run."""

    run: str
    spec: Spec


class RequestAuthority(Struct, frozen=True, kw_only=True):
    """Ask a person to permit an operation (`ref`), or an action in a run (`ref.run`, `action`, `target`)."""

    ref: OperationRef
    action: str | None = None
    target: str | None = None
    why: str | None = None


class GrantAuthority(Struct, frozen=True, kw_only=True):
    """Permit what a `request` asks for, one operation (by `ref`), or all that `action` and `target` match.

    `seen` is what the person was shown (`preview_grant`): the grant is refused if it is another effect by
    now. Times are RFC 3339 text; `constraints` read like `args.amount <= 100`; `policy` binds a general grant
    to that component of the context.
    """

    request: str | None = None
    ref: OperationRef | None = None
    action: str | None = None
    target: str | None = None
    run: str | None = None
    subject: str | None = None
    constraints: tuple[str, ...] = ()
    not_before: str | None = None
    expires_at: str | None = None
    lasts_seconds: float | None = None
    max_uses: int | None = None
    policy: Json = None
    why: str | None = None
    seen: str | None = None
    by_elicitation: bool = False


class IssueToken(Struct, frozen=True, kw_only=True):
    """A bearer token to be: what it is called, the SHA-256 of what it is, and how far and long it goes."""

    name: str
    sha256: str
    scopes: tuple[str, ...]
    lasts_seconds: float | None = None


class RevokeGrant(Struct, frozen=True, kw_only=True):
    """Take a grant back."""

    grant: str
    why: str | None = None
