"""What a tool needs of the journal: one method per command, each giving the answer that a caller sees."""

from typing import Any, Literal, Protocol

from counterfoil.store.domain.commands import (
    BeginOperation,
    BeginRun,
    Caller,
    CheckOperation,
    CloseOperation,
    FindOperations,
    FinishRun,
    GrantAuthority,
    ReconcileOperation,
    RecordFailure,
    RecordProgress,
    RecordReceipt,
    RequestAuthority,
    ResumePlan,
    VerifyOperation,
)

__all__ = ["Journal"]


class Journal(Protocol):
    """The journal, as the tools floor sees it.

    Every answer is a JSON object with `as_of`, `next`, `reason` and `guidance`, already redacted and
    bounded. A member that does not apply is absent.

    Raises:
        Fault: the call was not carried out; its `recorded` says what that means for the journal.
    """

    async def begin_operation(self, command: BeginOperation, caller: Caller) -> dict[str, Any]:
        """Grant one attempt, or say why not."""
        ...

    async def record_receipt(self, command: RecordReceipt, caller: Caller) -> dict[str, Any]:
        """Keep evidence that the effect took place."""
        ...

    async def record_failure(self, command: RecordFailure, caller: Caller) -> dict[str, Any]:
        """Keep a report that an attempt ended without success."""
        ...

    async def reconcile_operation(self, command: ReconcileOperation, caller: Caller) -> dict[str, Any]:
        """Keep what looking at the performing system showed."""
        ...

    async def check_operation(self, command: CheckOperation, caller: Caller) -> dict[str, Any]:
        """Show one operation; changes nothing."""
        ...

    async def resume_plan(self, command: ResumePlan, caller: Caller) -> dict[str, Any]:
        """Show what is done, in doubt and allowed; changes nothing."""
        ...

    async def begin_run(self, command: BeginRun, caller: Caller) -> dict[str, Any]:
        """Start a run or come back to it; give the first page of its plan."""
        ...

    async def record_progress(self, command: RecordProgress, caller: Caller) -> dict[str, Any]:
        """Extend a lease or a hold, and keep what a successor should know."""
        ...

    async def close_operation(self, command: CloseOperation, caller: Caller) -> dict[str, Any]:
        """Take the decision to stop waiting or to give up."""
        ...

    async def finish_run(self, command: FinishRun, caller: Caller) -> dict[str, Any]:
        """Finish a run, or say what stands against it."""
        ...

    async def request_authority(self, command: RequestAuthority, caller: Caller) -> dict[str, Any]:
        """Keep a wish for a person's permission, or say that none is needed."""
        ...

    async def grant(self, command: GrantAuthority, caller: Caller) -> dict[str, Any]:
        """Give a permission, if the caller is a person."""
        ...

    async def decline_request(self, request: str, caller: Caller) -> dict[str, Any]:
        """Say no to a request, if the caller is a person."""
        ...

    def vouch(self, text: str) -> str:
        """Give what later proves, to every server of this journal, that one of them wrote `text` here."""
        ...

    async def find_operations(self, command: FindOperations, caller: Caller) -> dict[str, Any]:
        """Search for operations; changes nothing."""
        ...

    async def verify_operation(self, command: VerifyOperation, caller: Caller) -> dict[str, Any]:
        """Let the operator's probe look whether the effect happened, and keep what it saw."""
        ...

    async def suggest(self, kind: Literal["run", "operation"], beginning: str) -> tuple[list[str], bool]:
        """Give names of runs or ids of operations that begin so, and whether there are more."""
        ...
