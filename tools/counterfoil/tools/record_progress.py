"""record_progress: say that an attempt or a run is still at work, and what a successor should know."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from counterfoil.store.domain.commands import Caller, OperationRef, RecordProgress
from counterfoil.tools.inputs import Count, Object, OperationInput, WritingInput, number, refused
from counterfoil.tools.outputs import OperationAnswer
from counterfoil.tools.protocol import Journal
from counterfoil.tools.specification import ToolSpecification

__all__ = ["RECORD_PROGRESS", "ProgressInput"]

DESCRIPTION = """\
Call before sending if `send_before` is near or past, and from time to time during long work. Extends \
the lease of your attempt, also one that merely ran out; with `run` alone your hold on the run. \
continue: go on, before the new `send_before`. On anything else do not send. `checkpoint` comes back \
to whoever resumes."""


def _share(value: float) -> float:
    if not 0 <= value <= 1:
        raise refused("is out of range", "a number from 0 to 1")
    return value


class ProgressInput(OperationInput, WritingInput):
    """Arguments of record_progress."""

    operation: str | None = Field(None, description="its id; or run and key; or run alone")
    attempt: Count | None = Field(None, description="of begin_operation")
    message: str | None = None
    fraction: Annotated[float, BeforeValidator(number), AfterValidator(_share)] | None = Field(
        None, description="0 to 1"
    )
    checkpoint: Object | None = Field(None, description="what a successor needs to go on")


class ProgressAnswer(OperationAnswer):
    """Answer of record_progress."""

    lease_expires_at: str | None = None
    send_before: str | None = None
    held_until: str | None = Field(None, description="end of the hold on the run")
    held_by: str | None = None


async def run(journal: Journal, arguments: ProgressInput, caller: Caller) -> dict[str, Any]:
    """Hand the word of progress to the journal.

    Raises:
        Fault: see `Journal`.
    """
    arguments.check_call_id(arguments.run, arguments.key)
    is_of_run = arguments.run is not None and arguments.operation is None and arguments.key is None
    command = RecordProgress(
        ref=OperationRef(run=arguments.run) if is_of_run else arguments.ref(),
        attempt=arguments.attempt,
        message=arguments.message,
        fraction=arguments.fraction,
        checkpoint=arguments.checkpoint,
    )
    return await journal.record_progress(command, caller)


RECORD_PROGRESS = ToolSpecification(
    name="record_progress",
    title="Record progress",
    description=DESCRIPTION,
    input_model=ProgressInput,
    output_model=ProgressAnswer,
    run=run,
    when_unavailable="The lease was NOT extended: do not send.",
)
