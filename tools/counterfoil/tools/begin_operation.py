"""begin_operation: ask for permission to perform one effect. Only its `perform` lets an agent act."""

from typing import Any, Literal

from pydantic import Field

from counterfoil.store.domain.commands import BeginOperation, Caller
from counterfoil.tools.inputs import (
    Count,
    LookupInput,
    Names,
    Object,
    Seconds,
    TraceInput,
    UndoInput,
    WritingInput,
)
from counterfoil.tools.outputs import OperationAnswer
from counterfoil.tools.protocol import Journal
from counterfoil.tools.specification import ToolSpecification

__all__ = ["BEGIN_OPERATION", "BeginAnswer", "BeginInput", "Repetition"]

Repetition = Literal["unsafe", "safe", "keyed"]

DESCRIPTION = """\
Call before EVERY effect outside this conversation (send, post, push, pay, deploy, delete), once per \
effect, also if it may have been done already. Stores the intent durably, then answers `next`:
perform: do it once, now, before `send_before`; pass `idempotency_key` on if the performing system \
takes one; if `recorded` is given, send its args and payload, not new wording. Then record_receipt \
or record_failure with this `attempt`.
skip: settled, do not do it. wait: begin again at `retry_at`. reconcile: it may have happened; look \
it up, then reconcile_operation. ask: a person decides. stop: the call does not fit, see `conflict`, \
`duplicates`.
On anything but perform, errors included, do not act. Get approvals before beginning."""


class BeginInput(WritingInput):
    """Arguments of begin_operation."""

    trace: TraceInput | None = Field(
        None, description="who acts: agent, conversation, model, model_run, tool_call, traceparent"
    )
    call_id: str | None = Field(
        None, description="16+ characters, new per call; resent, the call changes nothing"
    )
    run: str = Field(
        description="this execution, named as any later session would name it: weekly-report/2026-W48; "
        "never a random id"
    )
    key: str = Field(description="this effect, named likewise: email:alice:invoice-42")
    action: str = Field(description="e.g. mail.send")
    target: str | None = Field(None, description="address, repository, URL, …")
    args: Object | None = Field(None, description="what the effect is; the same at each begin")
    payload: Any = Field(None, description="content that may be worded anew (mail body); any JSON")
    repeat: Repetition | None = Field(
        None,
        description="if done twice: unsafe (default) harms, safe is harmless, keyed: the performing system "
        "drops a repeat of idempotency_key for key_ttl_seconds",
    )
    key_ttl_seconds: Seconds | None = None
    lookup: LookupInput | None = Field(
        None, description="how to find out later whether it happened; without it a crash needs a person"
    )
    undo: UndoInput | None = None
    depends_on: Names = Field([], description="keys that must succeed first")
    lease_seconds: Seconds | None = Field(None, description="time you need (300)")
    deadline_seconds: Seconds | None = Field(None, description="then it is timed_out")
    max_attempts: Count | None = None
    grant: str | None = None
    satisfies: Names = Field([])
    context: Object | None = Field(None, description="versions now: model, code, tools, policy, …")
    distinct_from: Names = Field(
        [], description='operation ids, after possible_duplicate, if truly another effect; ["*"]: all settled'
    )
    compensates: str | None = Field(None, description="operation id that this undoes")
    workflow: str | None = None
    workflow_version: str | None = None


class BeginAnswer(OperationAnswer):
    """Answer of begin_operation."""

    lease_expires_at: str | None = None
    send_before: str | None = None
    replayed: bool | None = None
    recorded: dict[str, Any] | None = Field(None, description="args and payload on record")
    conflict: list[Any] | None = None
    duplicates: list[Any] | None = None
    waits_for: list[Any] | None = Field(None, description="keys of steps that go first")
    drift: list[Any] | None = None
    grants: list[Any] | None = Field(None, description="permissions that were meant for this, and why not")
    checkpoint: Any = None


async def run(journal: Journal, arguments: BeginInput, caller: Caller) -> dict[str, Any]:
    """Ask the journal for a grant.

    Raises:
        Fault: see `Journal`.
    """
    arguments.check_call_id(arguments.run, arguments.key)
    command = BeginOperation(
        run=arguments.run,
        key=arguments.key,
        action=arguments.action,
        target=arguments.target,
        args=arguments.args,
        payload=arguments.payload,
        repeat=arguments.repeat,
        key_ttl_seconds=arguments.key_ttl_seconds,
        lookup=arguments.lookup.lookup() if arguments.lookup else None,
        undo=arguments.undo.undo() if arguments.undo else None,
        depends_on=tuple(arguments.depends_on),
        lease_seconds=arguments.lease_seconds,
        deadline_seconds=arguments.deadline_seconds,
        max_attempts=arguments.max_attempts,
        grant=arguments.grant,
        satisfies=tuple(arguments.satisfies),
        context=arguments.context,
        distinct_from=tuple(arguments.distinct_from),
        compensates=arguments.compensates,
        workflow=arguments.workflow,
        workflow_version=arguments.workflow_version,
    )
    return await journal.begin_operation(command, caller)


BEGIN_OPERATION = ToolSpecification(
    name="begin_operation",
    title="Begin an operation",
    description=DESCRIPTION,
    input_model=BeginInput,
    output_model=BeginAnswer,
    run=run,
    when_unavailable="Do not perform the effect.",
)
