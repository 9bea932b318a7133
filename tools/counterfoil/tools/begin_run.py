"""begin_run: start a run or come back to it, declare its plan, and get the first page of that plan."""

from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from counterfoil.store.domain.commands import BeginRun, Caller, Criterion, PlanStep, ResumePlan, Spec
from counterfoil.tools.begin_operation import Repetition
from counterfoil.tools.inputs import (
    Closed,
    Count,
    LookupInput,
    Names,
    Object,
    Seconds,
    Toggle,
    UndoInput,
    WritingInput,
)
from counterfoil.tools.outputs import Answer
from counterfoil.tools.paging import fitting_page
from counterfoil.tools.protocol import Journal
from counterfoil.tools.specification import ToolSpecification
from counterfoil.tools.text import LONGEST_ANSWER, length, sendable

__all__ = ["BEGIN_RUN", "BeginRunAnswer", "BeginRunInput"]

DESCRIPTION = """\
Call at the start of every session that works on a run: first, resumed, scheduled. started or resumed: \
follow each step's next; only begin_operation permits acting. wait: another live session is at it. \
skip: it is over, do nothing. Declare in `plan` the effects you intend: they outlive this \
conversation. Steps may be added later; what is on record is never altered. A step that looks like \
one on record is not added: see `duplicates`, `conflict`, and use that key."""

_OF_THE_PLAN = ("steps", "guidances", "complete", "cut", "next_cursor", "changed_meanwhile")
_AS_IN_BEGIN: dict[str, Any] = {"type": "object", "description": "as in begin_operation"}


class CriterionInput(Closed):
    """One thing that the work has to fulfil."""

    id: str
    text: str = ""
    required: Toggle = True


class SpecInput(Closed):
    """What the work is held against."""

    uri: str | None = None
    digest: str | None = None
    criteria: list[CriterionInput] = Field([])

    def spec(self) -> Spec:
        """Give it as the command's part."""
        criteria = (Criterion(id=one.id, text=one.text, required=one.required) for one in self.criteria)
        return Spec(uri=self.uri, digest=self.digest, criteria=tuple(criteria))


class PlanStepInput(Closed):
    """One intended effect; begun later by begin_operation under the same key."""

    key: str
    action: str
    target: str | None = None
    args: Object | None = None
    payload: Any = None
    depends_on: Names = Field([])
    satisfies: Names = Field([], description="criterion ids")
    repeat: Repetition | None = None
    key_ttl_seconds: Seconds | None = None
    lookup: Annotated[LookupInput, WithJsonSchema(_AS_IN_BEGIN)] | None = None
    undo: Annotated[UndoInput, WithJsonSchema({"type": "object"})] | None = None
    deadline_seconds: Seconds | None = None
    max_attempts: Count | None = None
    distinct_from: Names = Field([])

    def step(self) -> PlanStep:
        """Give it as the command's part."""
        return PlanStep(
            key=self.key,
            action=self.action,
            target=self.target,
            args=self.args,
            payload=self.payload,
            depends_on=tuple(self.depends_on),
            satisfies=tuple(self.satisfies),
            repeat=self.repeat,
            key_ttl_seconds=self.key_ttl_seconds,
            lookup=self.lookup.lookup() if self.lookup else None,
            undo=self.undo.undo() if self.undo else None,
            deadline_seconds=self.deadline_seconds,
            max_attempts=self.max_attempts,
            distinct_from=tuple(self.distinct_from),
        )


class ScheduleInput(Closed):
    """Which slot of which schedule this run is."""

    name: str
    occurrence: str


class AcceptDriftInput(Closed):
    """Why what differs is accepted."""

    reason: str


class BeginRunInput(WritingInput):
    """Arguments of begin_run."""

    run: str = Field(description="as any later session would name it; of a schedule, with the slot")
    workflow: str | None = None
    workflow_version: str | None = None
    goal: str | None = Field(None, description="what it is for")
    spec: SpecInput | None = Field(None, description="what the work is held against")
    plan: list[PlanStepInput] = Field([], description="intended effects, fields as in begin_operation")
    schedule: ScheduleInput | None = Field(None, description="e.g. nightly, 2026-11-29T02:00Z")
    context: Object | None = Field(None, description="versions now: model, code, tools, policy, …")
    accept_drift: AcceptDriftInput | None = Field(
        None, description="after reviewing `drift`: why to go on under this context"
    )
    lease_seconds: Seconds | None = Field(None, description="hold on the run (300)")
    holder: str | None = Field(None, description="your name, for others who ask")
    parent: str | None = Field(None, description="run that started this one")


class BeginRunAnswer(Answer):
    """Answer of begin_run."""

    journal: dict[str, Any] | None = None
    run: Any = None
    held_by: str | None = None
    retry_at: str | None = None
    drift: list[Any] | None = None
    criteria: dict[str, Any] | None = None
    duplicates: list[Any] | None = Field(None, description="steps that were not added, with what they equal")
    conflict: list[Any] | None = Field(None, description="steps whose key is another effect already")
    steps_added: int | None = None
    counts: dict[str, Any] | None = None
    steps: list[Any] | None = None
    guidances: dict[str, str] | None = None
    complete: bool | None = None
    cut: bool | None = Field(None, description="the plan has more: resume_plan with next_cursor")
    next_cursor: str | None = None
    near_runs: list[Any] | None = Field(None, description="open runs that a new one may be meant for")


async def run(journal: Journal, arguments: BeginRunInput, caller: Caller) -> dict[str, Any]:
    """Begin the run, and let the first page of its plan fit the answer.

    Raises:
        Fault: see `Journal`.
    """
    arguments.check_call_id(arguments.run)
    schedule = arguments.schedule
    command = BeginRun(
        run=arguments.run,
        workflow=arguments.workflow,
        workflow_version=arguments.workflow_version,
        goal=arguments.goal,
        spec=arguments.spec.spec() if arguments.spec else None,
        plan=tuple(step.step() for step in arguments.plan),
        schedule_name=schedule.name if schedule else None,
        schedule_occurrence=schedule.occurrence if schedule else None,
        context=arguments.context,
        accept_reason=arguments.accept_drift.reason if arguments.accept_drift else None,
        lease_seconds=arguments.lease_seconds,
        holder=arguments.holder,
        parent=arguments.parent,
    )
    answer = sendable(await journal.begin_run(command, caller))
    if length(answer) <= LONGEST_ANSWER or not answer.get("steps"):
        return answer
    return await _with_smaller_page(journal, arguments.run, caller, answer)


async def _with_smaller_page(
    journal: Journal, name: str, caller: Caller, answer: dict[str, Any]
) -> dict[str, Any]:
    """Give `answer` with less of the plan, so that all of it fits and its cursor skips nothing."""
    rest = {part: value for part, value in answer.items() if part not in _OF_THE_PLAN}
    room = LONGEST_ANSWER - length(rest)

    async def page(limit: int | None) -> dict[str, Any]:
        plan = await journal.resume_plan(ResumePlan(run=name, limit=limit), caller)
        return {part: plan[part] for part in _OF_THE_PLAN if part in plan}

    smaller = await fitting_page(page, limit=None, room=room)
    if length(smaller) > room:
        smaller = {"steps": [], "complete": False, "cut": True}
    return {**rest, **smaller}


BEGIN_RUN = ToolSpecification(
    name="begin_run",
    title="Begin a run",
    description=DESCRIPTION,
    input_model=BeginRunInput,
    output_model=BeginRunAnswer,
    run=run,
    when_unavailable="The run was NOT begun and its plan is not stored: do not perform any effect.",
    way_to_rest="resume_plan for the plan, check_operation for one step",
)
