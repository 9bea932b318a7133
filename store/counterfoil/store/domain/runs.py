"""begin_run: a run is begun at the start of every session, and held by one of them at a time."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from counterfoil.store.domain.begin import BeginGiven
from counterfoil.store.domain.drafting import Situation
from counterfoil.store.domain.events import Event, EventKind, evolve_run, to_data
from counterfoil.store.domain.holds import is_held_by_another
from counterfoil.store.domain.instants import Instant, micros
from counterfoil.store.domain.lookalikes import Lookalike
from counterfoil.store.domain.model import Operation, Run
from counterfoil.store.domain.run_plans import PlannedStep, take_plan
from counterfoil.store.domain.states import state_of

__all__ = [
    "RunFacts",
    "RunGiven",
    "RunVerdict",
    "decide_begin_run",
    "open_questions",
    "run_event",
]


class RunGiven(Struct, frozen=True, kw_only=True):
    """A begin_run in normal form. Durations in seconds. `is_redelivered`: the same call was taken before."""

    namespace: str
    run: str
    workflow: str | None = None
    workflow_version: str | None = None
    goal: str | None = None
    spec_uri: str | None = None
    spec_digest: str | None = None
    schedule_name: str | None = None
    schedule_occurrence: str | None = None
    parent: str | None = None
    context: str | None = None
    offered: str | None = None
    criteria: str | None = None
    accept_reason: str | None = None
    lease_seconds: float | None = None
    is_redelivered: bool = False
    holder_name: str | None = None
    steps: tuple[BeginGiven, ...] = ()


class RunFacts(Struct, frozen=True, kw_only=True):
    """What is read before deciding: the run, and its operations but for settled ones that it is not about.

    `compacted_at` is when the caller's conversation last was, where one of the operations is its own.
    """

    run: Run | None
    operations: tuple[Operation, ...] = ()
    compacted_at: Instant | None = None


class RunVerdict(Struct, frozen=True, kw_only=True):
    """What was decided about a run. `duplicates` and `conflicts` are steps that were not added, by key."""

    next: str
    reason: str
    run: Run | None
    events: tuple[Event, ...] = ()
    steps: tuple[PlannedStep, ...] = ()
    duplicates: Mapping[str, tuple[Lookalike, ...]] | None = None
    conflicts: tuple[tuple[BeginGiven, Operation], ...] = ()
    unmet: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()


def decide_begin_run(given: RunGiven, facts: RunFacts, situation: Situation) -> RunVerdict:
    """Start a run, or come back to it; take the steps that its plan adds.

    Raises:
        InvalidArgument: a dependency on a key that is neither in the run nor in the plan, or a circle.
    """
    run, now = facts.run, situation.now.at
    if run is not None:
        if run.finished_as == "completed":
            return RunVerdict(
                next="skip",
                reason="already_succeeded",
                run=run,
                warnings=open_questions(facts.operations, now),
            )
        if run.finished_as == "cancelled":
            return RunVerdict(
                next="skip", reason="cancelled", run=run, warnings=open_questions(facts.operations, now)
            )
        if given.is_redelivered and run.finished_as is not None:
            return RunVerdict(next="stop", reason="run_finished", run=run)
        if is_held_by_another(run, facts.operations, situation.party, now):
            return RunVerdict(next="wait", reason="run_held", run=run)
        if given.is_redelivered:
            return RunVerdict(next="continue", reason="resumed", run=run)
    events = [run_event(EventKind.RUN_BEGUN, now, _begun(given))]
    if run is not None and run.finished_as == "failed":
        events.append(run_event(EventKind.RUN_REOPENED, now, {}))
    events.append(
        run_event(
            EventKind.RUN_HELD,
            now,
            {
                "holder": to_data(situation.party),
                "holder_name": given.holder_name,
                "until": now + _hold(given, situation),
            },
        )
    )
    if given.accept_reason is not None and given.context is not None:
        events.append(
            run_event(
                EventKind.DRIFT_ACCEPTED, now, {"context": given.context, "reason": given.accept_reason}
            )
        )
    taken = take_plan(
        given.steps,
        facts.operations,
        situation,
        compacted_at=facts.compacted_at,
        created_at=now if run is None else run.created_at,
        next_position=1 if run is None else run.operations + 1,
    )
    after = run
    for event in events:
        after = evolve_run(after, event, namespace=given.namespace, name=given.run)
    return RunVerdict(
        next="continue",
        reason="started" if run is None else "resumed",
        run=after,
        events=tuple(events),
        steps=taken.steps,
        duplicates=taken.duplicates,
        conflicts=taken.conflicts,
        warnings=taken.warnings,
    )


def _hold(given: RunGiven, situation: Situation) -> int:
    """How long a hold is asked for, in microseconds: as long as a lease unless the call says so."""
    policy = situation.policy
    wanted = policy.lease_seconds if given.lease_seconds is None else given.lease_seconds
    return micros(min(wanted, policy.longest_lease_seconds))


def run_event(kind: EventKind, at: Instant, data: Mapping[str, object]) -> Event:
    """Give an event of a run; what is None is not said."""
    return Event(
        kind=kind,
        operation="",
        at=at,
        data={name: value for name, value in data.items() if value is not None},
    )


def _begun(given: RunGiven) -> dict[str, object]:
    names = (
        "workflow",
        "workflow_version",
        "goal",
        "spec_uri",
        "spec_digest",
        "schedule_name",
        "schedule_occurrence",
        "parent",
        "context",
        "offered",
        "criteria",
    )
    return {name: getattr(given, name) for name in names}


def open_questions(operations: Sequence[Operation], now: Instant) -> tuple[str, ...]:
    """Warn of the operations that are open."""
    return tuple(
        f"open question: {operation.id} is {state_of(operation, now).value}"
        for operation in operations
        if state_of(operation, now).is_open
    )
