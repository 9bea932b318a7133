"""record_failure: report that an attempt ended without success."""

from typing import Any, Literal

from pydantic import Field

from counterfoil.store.domain.commands import Caller, RecordFailure
from counterfoil.tools.inputs import Count, Object, OperationInput, SecondsOrZero, Toggle, WritingInput
from counterfoil.tools.outputs import OperationAnswer
from counterfoil.tools.protocol import Journal
from counterfoil.tools.specification import ToolSpecification

__all__ = ["RECORD_FAILURE", "FailureInput"]

DESCRIPTION = """\
Call when an attempt did not succeed. effect unknown: a time-out, lost connection, 5xx, or any error \
after the request may have left; it is looked up before anything is done again. effect none: only if \
it was refused before any effect (e.g. 422), never sent, denied by the person, or a check that came \
out red, with `evidence` of that. In doubt: unknown. Never retry by yourself: begin_operation \
decides."""


class FailureInput(OperationInput, WritingInput):
    """Arguments of record_failure."""

    attempt: Count = Field(description="of begin_operation")
    effect: Literal["none", "unknown"]
    error: str = Field(description="its own words")
    evidence: Object | None = Field(None, description='e.g. {"status": 422}')
    retryable: Toggle = Field(True, description="false: pointless, or denied")
    retry_after_seconds: SecondsOrZero | None = None


async def run(journal: Journal, arguments: FailureInput, caller: Caller) -> dict[str, Any]:
    """Hand the report to the journal.

    Raises:
        Fault: see `Journal`.
    """
    arguments.check_call_id(arguments.run, arguments.key)
    command = RecordFailure(
        ref=arguments.ref(),
        attempt=arguments.attempt,
        effect=arguments.effect,
        error=arguments.error,
        evidence=arguments.evidence,
        retryable=arguments.retryable,
        retry_after_seconds=arguments.retry_after_seconds,
    )
    return await journal.record_failure(command, caller)


RECORD_FAILURE = ToolSpecification(
    name="record_failure",
    title="Record a failure",
    description=DESCRIPTION,
    input_model=FailureInput,
    output_model=OperationAnswer,
    run=run,
    when_unavailable="The report is NOT stored: keep it and send it again; do not repeat the effect.",
)
