"""reconcile_operation: report what looking at the performing system showed."""

from typing import Any, Literal

from pydantic import Field

from counterfoil.store.domain.commands import Caller, ReconcileOperation
from counterfoil.tools.inputs import ReceiptInput
from counterfoil.tools.outputs import OperationAnswer
from counterfoil.tools.protocol import Journal
from counterfoil.tools.specification import ToolSpecification

__all__ = ["RECONCILE_OPERATION", "ReconcileInput"]

DESCRIPTION = """\
Call once you have looked in the performing system (as `lookup` says; finds older than `since` do \
not count) after next: reconcile. finding performed: give the receipt fields; compensated: it was \
undone, receipt of the undoing; a check found red: not_performed, no reference. Copy `as_of` from the \
answer that sent you to look. An empty find before `settle_until` is answered wait: at `retry_at` \
call check_operation, look again, reconcile with its `as_of`. Then begin_operation says whether to \
act."""


class ReconcileInput(ReceiptInput):
    """Arguments of reconcile_operation."""

    finding: Literal["performed", "not_performed", "inconclusive", "compensated"]
    checked_with: str = Field(description="tool, query")
    as_of: str | None = None
    by: Literal["lookup", "human"] = "lookup"


async def run(journal: Journal, arguments: ReconcileInput, caller: Caller) -> dict[str, Any]:
    """Hand the finding to the journal.

    Raises:
        Fault: see `Journal`.
    """
    arguments.check_call_id(arguments.run, arguments.key)
    command = ReconcileOperation(
        ref=arguments.ref(),
        finding=arguments.finding,
        checked_with=arguments.checked_with,
        as_of=arguments.as_of,
        by=arguments.by,
        receipt=arguments.receipt(source=arguments.by),
    )
    return await journal.reconcile_operation(command, caller)


RECONCILE_OPERATION = ToolSpecification(
    name="reconcile_operation",
    title="Reconcile an operation",
    description=DESCRIPTION,
    input_model=ReconcileInput,
    output_model=OperationAnswer,
    run=run,
    when_unavailable="The finding is NOT stored: keep it and send it again; do not perform the effect.",
)
