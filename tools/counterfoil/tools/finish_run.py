"""finish_run: say how a run ended."""

from typing import Any, Literal

from counterfoil.store.domain.commands import Caller, FinishRun
from counterfoil.tools.inputs import WritingInput
from counterfoil.tools.outputs import Answer
from counterfoil.tools.protocol import Journal
from counterfoil.tools.specification import ToolSpecification

__all__ = ["FINISH_RUN", "FinishAnswer", "FinishInput"]

DESCRIPTION = """\
Call when the work on a run ends. completed is refused (stop: unmet, see `unmet`) while an operation \
is planned, in progress, in doubt, failed or disputed, or a required criterion is unmet: settle or \
close those first. failed: begin_run may take it up again. cancelled: given up for good. Receipts and \
findings stay welcome afterwards."""


class FinishInput(WritingInput):
    """Arguments of finish_run."""

    run: str
    outcome: Literal["completed", "failed", "cancelled"]
    reason: str | None = None


class FinishAnswer(Answer):
    """Answer of finish_run."""

    run: str | None = None
    unmet: list[Any] | None = None
    unmet_in_all: int | None = None
    unmet_criteria: list[Any] | None = None
    unmet_criteria_in_all: int | None = None
    finished_as: str | None = None


async def run(journal: Journal, arguments: FinishInput, caller: Caller) -> dict[str, Any]:
    """Hand the end of the run to the journal.

    Raises:
        Fault: see `Journal`.
    """
    arguments.check_call_id(arguments.run)
    command = FinishRun(run=arguments.run, outcome=arguments.outcome, reason=arguments.reason)
    return await journal.finish_run(command, caller)


FINISH_RUN = ToolSpecification(
    name="finish_run",
    title="Finish a run",
    description=DESCRIPTION,
    input_model=FinishInput,
    output_model=FinishAnswer,
    run=run,
    when_unavailable="The end of the run is NOT stored: send it again.",
    way_to_rest="resume_plan lists what is open",
)
