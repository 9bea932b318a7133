"""Brings the commands about runs into normal form; what every command shares is in `preparing`."""

from counterfoil.store.domain.begin import BeginGiven
from counterfoil.store.domain.commands import BeginOperation, BeginRun, Criterion, RecordProgress, Spec
from counterfoil.store.domain.criteria import criteria_text
from counterfoil.store.domain.progress import ProgressFacts
from counterfoil.store.domain.run_changes import SpecGiven
from counterfoil.store.domain.runs import RunGiven
from counterfoil.store.errors import InvalidArgument, TooLarge
from counterfoil.store.preparing import Bodies, Preparer, attempt_number, duration
from counterfoil.store.preparing_begins import prepare_begin

__all__ = [
    "prepare_progress",
    "prepare_run",
    "prepare_spec",
]

MOST_CRITERIA = 500
"""Criteria in one spec."""

MOST_STEPS = 500
"""Steps in one begin_run; a longer plan comes in several calls."""


def prepare_run(command: BeginRun, *, prepare: Preparer, bodies: Bodies) -> RunGiven:
    """Prepare a begin_run; its context is prepared apart.

    Raises:
        InvalidArgument, TooLarge: naming the field; nothing was stored.
    """
    name = prepare.name(command.run, name="run")
    if len(command.plan) > MOST_STEPS:
        raise TooLarge("plan", size=len(command.plan), limit=MOST_STEPS, unit="steps")
    parent = None if command.parent is None else prepare.name(command.parent, name="parent")
    if parent == name:
        raise InvalidArgument("parent", "is this run itself", accepted="the run that started this one")
    if command.accept_reason is not None and not command.accept_reason.strip():
        raise InvalidArgument("accept_drift.reason", "is empty", accepted="why, in a sentence")
    if (command.schedule_name is None) != (command.schedule_occurrence is None):
        raise InvalidArgument(
            "schedule", "lacks a part", accepted="{name, occurrence}, such as nightly and 2026-11-29T02:00Z"
        )
    steps = tuple(
        _step(command, number, prepare=prepare, bodies=bodies) for number in range(len(command.plan))
    )
    keys = [step.key for step in steps]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise InvalidArgument("plan.key", f"stands twice: {twice}", accepted="one step for each key")
    spec = prepare_spec(command.spec or Spec(), prepare=prepare, bodies=bodies)
    return RunGiven(
        namespace=prepare.namespace,
        run=name,
        workflow=prepare.text(command.workflow, name="workflow"),
        workflow_version=prepare.text(command.workflow_version, name="workflow_version"),
        goal=prepare.text(command.goal, name="goal"),
        spec_uri=spec.uri,
        spec_digest=spec.digest,
        schedule_name=prepare.text(command.schedule_name, name="schedule.name"),
        schedule_occurrence=prepare.text(command.schedule_occurrence, name="schedule.occurrence"),
        parent=parent,
        criteria=spec.criteria,
        accept_reason=prepare.text(command.accept_reason, name="accept_drift.reason"),
        lease_seconds=duration(command.lease_seconds, name="lease_seconds"),
        holder_name=prepare.text(command.holder, name="holder"),
        steps=steps,
    )


def prepare_spec(spec: Spec, *, prepare: Preparer, bodies: Bodies) -> SpecGiven:
    """Prepare the specification that a run is held against.

    Raises:
        InvalidArgument, TooLarge: naming the field; nothing was stored.
    """
    return SpecGiven(
        uri=prepare.text(spec.uri, name="spec.uri"),
        digest=prepare.text(spec.digest, name="spec.digest"),
        criteria=_criteria(spec, prepare=prepare, bodies=bodies),
    )


def _step(command: BeginRun, number: int, *, prepare: Preparer, bodies: Bodies) -> BeginGiven:
    step = command.plan[number]
    return prepare_begin(
        BeginOperation(
            run=command.run,
            key=step.key,
            action=step.action,
            target=step.target,
            args=step.args,
            payload=step.payload,
            depends_on=step.depends_on,
            satisfies=step.satisfies,
            repeat=step.repeat,
            key_ttl_seconds=step.key_ttl_seconds,
            lookup=step.lookup,
            undo=step.undo,
            deadline_seconds=step.deadline_seconds,
            max_attempts=step.max_attempts,
            distinct_from=step.distinct_from,
        ),
        prepare=prepare,
        bodies=bodies,
    )


def _criteria(spec: Spec, *, prepare: Preparer, bodies: Bodies) -> str | None:
    """Keep the criteria of a spec as one body; None where it brings none."""
    if not spec.criteria:
        return None
    if len(spec.criteria) > MOST_CRITERIA:
        raise TooLarge("spec.criteria", size=len(spec.criteria), limit=MOST_CRITERIA, unit="criteria")
    criteria = [
        Criterion(
            id=prepare.name(criterion.id, name="spec.criteria.id"),
            text=prepare.text(criterion.text, name="spec.criteria.text") or "",
            required=criterion.required,
        )
        for criterion in spec.criteria
    ]
    if len({criterion.id for criterion in criteria}) != len(criteria):
        raise InvalidArgument("spec.criteria.id", "stands twice", accepted="one criterion for each id")
    return bodies.add(criteria_text(criteria))


def prepare_progress(command: RecordProgress, *, prepare: Preparer, bodies: Bodies) -> ProgressFacts:
    """Prepare a progress report."""
    fraction = command.fraction
    if fraction is not None and not 0 <= fraction <= 1:
        raise InvalidArgument("fraction", "is out of range", accepted="a number from 0 to 1")
    checkpoint = None if command.checkpoint is None else dict(command.checkpoint)
    return ProgressFacts(
        attempt=attempt_number(command.attempt),
        message=prepare.text(command.message, name="message"),
        fraction=None if fraction is None else float(fraction),
        checkpoint=prepare.body(checkpoint, bodies, name="checkpoint"),
    )
