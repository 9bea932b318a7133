"""resume_plan: what is done, in doubt and allowed in a run; changes nothing."""

from typing import Any, Literal

from pydantic import Field

from counterfoil.store.domain.commands import Caller, ResumePlan
from counterfoil.tools.inputs import Count, Input, Object
from counterfoil.tools.outputs import Answer
from counterfoil.tools.paging import fitting_page
from counterfoil.tools.protocol import Journal
from counterfoil.tools.specification import ToolSpecification

__all__ = ["RESUME_PLAN", "PlanInput"]

DESCRIPTION = """\
Call first in every session, after compaction or interruption, and whenever unsure what was done. \
With `run`: its open steps in the order to take them, each with its own next. Without: the \
unfinished runs. Permits nothing: next: begin means call begin_operation, it decides. `cut`: there \
is more, send `next_cursor` as cursor. An unknown run or new journal is no evidence that nothing was \
done."""


class PlanInput(Input):
    """Arguments of resume_plan."""

    run: str | None = None
    context: Object | None = Field(None, description="versions now, to compare")
    include: Literal["open", "all"] = Field("open", description="all: also what is done")
    limit: Count | None = None
    cursor: str | None = None


class PlanAnswer(Answer):
    """Answer of resume_plan."""

    journal: dict[str, Any] | None = None
    run: Any = None
    runs: list[Any] | None = None
    counts: dict[str, Any] | None = None
    drift: list[Any] | None = None
    criteria: dict[str, Any] | None = None
    steps: list[Any] | None = None
    guidances: dict[str, str] | None = None
    complete: bool | None = None
    cut: bool | None = None
    next_cursor: str | None = None
    changed_meanwhile: bool | None = None
    near_runs: list[Any] | None = None


async def run(journal: Journal, arguments: PlanInput, caller: Caller) -> dict[str, Any]:
    """Ask the journal for a page of the plan that fits one answer.

    Raises:
        Fault: see `Journal`.
    """

    async def page(limit: int | None) -> dict[str, Any]:
        command = ResumePlan(
            run=arguments.run,
            context=arguments.context,
            include=arguments.include,
            limit=limit,
            cursor=arguments.cursor,
        )
        return await journal.resume_plan(command, caller)

    return await fitting_page(page, limit=arguments.limit)


RESUME_PLAN = ToolSpecification(
    name="resume_plan",
    title="Resume plan",
    description=DESCRIPTION,
    input_model=PlanInput,
    output_model=PlanAnswer,
    run=run,
    reads_only=True,
    when_unavailable="This says nothing about what was done: do not perform any effect.",
    way_to_rest="resume_plan with a smaller limit, or check_operation for one step",
)
