"""What a tool needs of the journal: one method per command, each giving the answer that a caller sees."""

from typing import Any, Protocol

from counterfoil.store.domain.commands import (
    BeginOperation,
    Caller,
    CheckOperation,
    ReconcileOperation,
    RecordFailure,
    RecordReceipt,
    ResumePlan,
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
