"""close_operation: decide that an operation is over without evidence."""

from typing import Any, Literal

from pydantic import Field

from counterfoil.store.domain.commands import Caller, CloseOperation
from counterfoil.tools.inputs import Count, OperationInput, WritingInput
from counterfoil.tools.outputs import OperationAnswer
from counterfoil.tools.protocol import Journal
from counterfoil.tools.specification import ToolSpecification

__all__ = ["CLOSE_OPERATION", "CloseInput"]

DESCRIPTION = """\
Decide for good that an operation is over, without evidence. timed_out: stop waiting for what was \
attempted, it counts as failed. cancelled: give up what was never attempted or had no effect. Where \
it can be looked up, reconcile_operation comes first; never close to try again under another key. \
What succeeded is not closed but undone: begin_operation with `compensates`."""


class CloseInput(OperationInput, WritingInput):
    """Arguments of close_operation."""

    outcome: Literal["timed_out", "cancelled"]
    reason: str = Field(description="why, for whoever reads it later")
    attempt: Count | None = Field(None, description="of begin_operation, if you hold it")


async def run(journal: Journal, arguments: CloseInput, caller: Caller) -> dict[str, Any]:
    """Hand the decision to the journal.

    Raises:
        Fault: see `Journal`.
    """
    arguments.check_call_id(arguments.run, arguments.key)
    command = CloseOperation(
        ref=arguments.ref(), outcome=arguments.outcome, reason=arguments.reason, attempt=arguments.attempt
    )
    return await journal.close_operation(command, caller)


CLOSE_OPERATION = ToolSpecification(
    name="close_operation",
    title="Close an operation",
    description=DESCRIPTION,
    input_model=CloseInput,
    output_model=OperationAnswer,
    run=run,
    when_unavailable="The decision is NOT stored: do not count the operation as over.",
)
