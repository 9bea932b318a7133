"""check_operation: look at one operation; changes nothing."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from counterfoil.store.domain.commands import Caller, CheckOperation, OperationRef
from counterfoil.tools.inputs import OperationInput, SecondsOrZero, Whole, refused
from counterfoil.tools.outputs import OperationAnswer
from counterfoil.tools.protocol import Journal
from counterfoil.tools.specification import ToolSpecification

__all__ = ["CHECK_OPERATION", "CheckInput"]

DESCRIPTION = """\
Read one operation: state, attempts, receipts, findings, history; or who did something, by \
`external_id`. Permits nothing: next: begin means call begin_operation, it decides. Gives a fresh \
`as_of` for reconcile_operation."""

LONGEST_WAIT_SECONDS = 50
"""Under the shortest time-out of a known client (60 s)."""


def _wait(value: float) -> float:
    if value > LONGEST_WAIT_SECONDS:
        raise refused("is out of range", f"a number of seconds from 0 to {LONGEST_WAIT_SECONDS}")
    return value


class CheckInput(OperationInput):
    """Arguments of check_operation."""

    external_id: str | None = Field(None, description="instead of an operation")
    system: str | None = None
    detail: Literal["summary", "full", "args", "payload", "checkpoint", "lookup", "undo", "evidence"] = Field(
        "summary", description="full: whole history; others: that body, whole"
    )
    offset: Whole = Field(0, description="next_offset, to read on")
    wait_seconds: Annotated[SecondsOrZero, AfterValidator(_wait)] = Field(
        0, description="0 to 50, for a change"
    )


class CheckAnswer(OperationAnswer):
    """Answer of check_operation."""

    action: str | None = None
    target: str | None = None
    waits_for: list[Any] | None = Field(None, description="keys of steps that go first")
    attempts: list[Any] | None = None
    findings: list[Any] | None = None
    undo: dict[str, Any] | None = None
    contexts: dict[str, Any] | None = Field(None, description="of the attempts, by digest; with detail full")
    trajectory: list[Any] | None = Field(None, description="who was granted it, who brought the receipt")
    history: list[Any] | None = None
    detail: str | None = None
    format: str | None = Field(None, description="how content is to be read: text or json")
    content: str | None = Field(None, description="characters of the body from offset on")
    offset: int | None = None
    characters: int | None = Field(None, description="of the whole body")
    next_offset: int | None = Field(None, description="send it as offset to read on")


async def run(journal: Journal, arguments: CheckInput, caller: Caller) -> dict[str, Any]:
    """Ask the journal about one operation.

    Raises:
        Fault: see `Journal`.
    """
    if arguments.external_id is not None and arguments.operation is None and arguments.key is None:
        ref = OperationRef(run=arguments.run)
    else:
        ref = arguments.ref()
    command = CheckOperation(
        ref=ref,
        external_id=arguments.external_id,
        system=arguments.system,
        detail=arguments.detail,
        offset=arguments.offset,
        wait_seconds=arguments.wait_seconds,
    )
    return await journal.check_operation(command, caller)


CHECK_OPERATION = ToolSpecification(
    name="check_operation",
    title="Check an operation",
    description=DESCRIPTION,
    input_model=CheckInput,
    output_model=CheckAnswer,
    run=run,
    reads_only=True,
    when_unavailable="This says nothing about the operation: do not perform the effect.",
)
