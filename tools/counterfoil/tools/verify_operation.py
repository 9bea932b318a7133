"""verify_operation: let a probe of the server look whether the effect happened."""

from typing import Any

from counterfoil.store.domain.commands import Caller, VerifyOperation
from counterfoil.tools.inputs import OperationInput, WritingInput
from counterfoil.tools.outputs import OperationAnswer
from counterfoil.tools.protocol import Journal
from counterfoil.tools.specification import ToolSpecification

__all__ = ["VERIFY_OPERATION", "VerifyInput"]

DESCRIPTION = """\
Let the server look for the effect itself, with the probe that the operator configured (lookup.probe, or \
the one for this action); it records what it finds. found is evidence of the highest assurance; not \
found counts as in reconcile_operation: on wait, call this again at `retry_at`. not_found (error): none \
is configured; look yourself and reconcile_operation."""


class VerifyInput(OperationInput, WritingInput):
    """Arguments of verify_operation."""


class VerifyAnswer(OperationAnswer):
    """The answer of reconcile_operation, and which probe looked: `found` is null where it cannot tell."""

    probe: dict[str, Any] | None = None


async def run(journal: Journal, arguments: VerifyInput, caller: Caller) -> dict[str, Any]:
    """Let the journal's probe look.

    Raises:
        Fault: see `Journal`.
    """
    arguments.check_call_id(arguments.run, arguments.key)
    return await journal.verify_operation(VerifyOperation(ref=arguments.ref()), caller)


VERIFY_OPERATION = ToolSpecification(
    name="verify_operation",
    title="Verify an operation",
    description=DESCRIPTION,
    input_model=VerifyInput,
    output_model=VerifyAnswer,
    run=run,
    looks_outside=True,
    when_unavailable="What was found is NOT stored: call again; do not perform the effect.",
)
