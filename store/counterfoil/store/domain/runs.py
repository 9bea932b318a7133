"""Runs: begun at the start of every session, held by one of them, finished when nothing is open."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.store.domain.begin import BeginGiven
from counterfoil.store.domain.drafting import Creation, Draft, Situation
from counterfoil.store.domain.events import Event, EventKind, evolve_run, terms_to_data, to_data
from counterfoil.store.domain.holds import held_until, holder_seen, is_held, is_held_by_another
from counterfoil.store.domain.instants import Instant, micros
from counterfoil.store.domain.lookalikes import Lookalike, Newcomer, find_lookalikes
from counterfoil.store.domain.model import LookupTerms, Operation, Run, State
from counterfoil.store.domain.states import state_of
from counterfoil.store.errors import InvalidArgument

__all__ = [
    "PlannedStep",
    "RunFacts",
    "RunGiven",
    "RunVerdict",
    "SpecGiven",
    "decide_begin_run",
    "decide_finish_run",
    "decide_release_run",
    "decide_run_progress",
    "decide_set_spec",
    "differing_parts",
]

_MOST_TOLD = 5
"""Steps on record that a plan is told of one by one: a session that lost its memory words many anew."""
_TAKES_NO_HOLD = "you do not hold this run, and this takes no hold: begin_run does"
_DONE = frozenset((State.SUCCEEDED, State.TIMED_OUT, State.CANCELLED, State.COMPENSATED))


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


class SpecGiven(Struct, frozen=True, kw_only=True):
    """A specification in normal form; `criteria` is the digest of their text."""

    uri: str | None = None
    digest: str | None = None
    criteria: str | None = None


class RunFacts(Struct, frozen=True, kw_only=True):
    """What is read before deciding: the run, and its operations but for settled ones that it is not about.

    `compacted_at` is when the caller's conversation last was, where one of the operations is its own.
    """

    run: Run | None
    operations: tuple[Operation, ...] = ()
    compacted_at: Instant | None = None


class PlannedStep(Struct, frozen=True, kw_only=True):
    """A step that was taken into the plan, as a new operation."""

    operation: Operation
    events: tuple[Event, ...]


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
                warnings=_open_questions(facts.operations, now),
            )
        if run.finished_as == "cancelled":
            return RunVerdict(
                next="skip", reason="cancelled", run=run, warnings=_open_questions(facts.operations, now)
            )
        if given.is_redelivered and run.finished_as is not None:
            return RunVerdict(next="stop", reason="run_finished", run=run)
        if is_held_by_another(run, facts.operations, situation.party, now):
            return RunVerdict(next="wait", reason="run_held", run=run)
        if given.is_redelivered:
            return RunVerdict(next="continue", reason="resumed", run=run)
    events = [_event(EventKind.RUN_BEGUN, now, _begun(given))]
    if run is not None and run.finished_as == "failed":
        events.append(_event(EventKind.RUN_REOPENED, now, {}))
    events.append(
        _event(
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
            _event(EventKind.DRIFT_ACCEPTED, now, {"context": given.context, "reason": given.accept_reason})
        )
    taken = _take_plan(
        given,
        facts,
        situation,
        created_at=now if run is None else run.created_at,
        next_position=1 if run is None else run.operations + 1,
    )
    after = run
    for event in events:
        after = evolve_run(after, event, namespace=given.namespace, name=given.run)
    return replace(
        taken,
        reason="started" if run is None else "resumed",
        run=after,
        events=tuple(events),
        warnings=taken.warnings,
    )


def _hold(given: RunGiven, situation: Situation) -> int:
    """How long a hold is asked for, in microseconds: as long as a lease unless the call says so."""
    policy = situation.policy
    wanted = policy.lease_seconds if given.lease_seconds is None else given.lease_seconds
    return micros(min(wanted, policy.longest_lease_seconds))


def _event(kind: EventKind, at: Instant, data: Mapping[str, object]) -> Event:
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


def _open_questions(operations: Sequence[Operation], now: Instant) -> tuple[str, ...]:
    return tuple(
        f"open question: {operation.id} is {state_of(operation, now).value}"
        for operation in operations
        if state_of(operation, now).is_open
    )


def _take_plan(
    given: RunGiven,
    facts: RunFacts,
    situation: Situation,
    *,
    created_at: Instant,
    next_position: int,
) -> RunVerdict:
    """Add the steps that are new: one that exists is not altered, one that looks like another not added."""
    by_key = {operation.key: operation for operation in facts.operations}
    duplicates: dict[str, tuple[Lookalike, ...]] = {}
    conflicts: list[tuple[BeginGiven, Operation]] = []
    stands_for: dict[str, str] = {}
    fresh: list[BeginGiven] = []
    known: list[tuple[BeginGiven, Operation]] = []
    for step in given.steps:
        existing = by_key.get(step.key)
        if existing is not None:
            if _is_another_effect(step, existing):
                conflicts.append((step, existing))
            else:
                known.append((step, existing))
            continue
        alike = _lookalikes(step, facts.operations, situation, compacted_at=facts.compacted_at)
        if alike:
            duplicates[step.key] = alike
            stands_for[step.key] = alike[0].operation.key
            continue
        fresh.append(step)
    keys = {*by_key, *(step.key for step in fresh)}
    fresh = [
        replace(step, depends_on=tuple(stands_for.get(key, key) for key in step.depends_on)) for step in fresh
    ]
    _check_dependencies(fresh, by_key, keys)
    steps: list[PlannedStep] = []
    warnings: list[str] = []
    for position, step in enumerate(fresh, start=next_position):
        planned = _plan(step, situation, position=position, created_at=created_at)
        siblings = _siblings(step, steps, situation)
        warnings += [f"{planned.operation.id} and {other.id} look alike in this plan" for other in siblings]
        steps.append(planned)
    untaken = [(existing.id, _not_taken(step, existing, stands_for)) for step, existing in known]
    told = [
        f"{operation} is on record already, and a plan alters nothing: {', '.join(names)} as given here did "
        "not count (begin_operation takes what was left out, and what is stricter)"
        for operation, names in untaken
        if names
    ]
    warnings += told[:_MOST_TOLD]
    if len(told) > _MOST_TOLD:
        warnings.append(f"so it is with {len(told) - _MOST_TOLD} more steps of this plan")
    return RunVerdict(
        next="continue",
        reason="started",
        run=None,
        steps=tuple(steps),
        duplicates=duplicates or None,
        conflicts=tuple(conflicts),
        warnings=tuple(warnings),
    )


def _not_taken(step: BeginGiven, existing: Operation, stands_for: Mapping[str, str]) -> list[str]:
    """Name what a step says otherwise than its operation on record, or in addition to it."""
    said, recorded = step.description, existing.description
    names = [
        name
        for name, given, known in (
            ("target", said.target, recorded.target),
            ("args", said.args_digest, recorded.args_digest),
        )
        if given is not None and known is None
    ]
    if said.payload_keyed not in (None, recorded.payload_keyed) and (
        said.payload_digest != recorded.payload_digest
    ):
        names.append("payload")
    terms = replace(step.terms, lookup=_as_said(step.terms.lookup, existing.terms.lookup))
    names += [
        name
        for name in ("repeat", "key_ttl_seconds", "lookup", "settle_seconds", "undo", *_LIMITS)
        if getattr(terms, name) not in (None, getattr(existing.terms, name))
    ]
    if {stands_for.get(key, key) for key in step.depends_on} - {*existing.depends_on}:
        names.append("depends_on")
    if {*step.satisfies} - {*existing.satisfies}:
        names.append("satisfies")
    return names


_LIMITS = ("deadline_seconds", "max_attempts")


def _as_said(given: LookupTerms | None, recorded: LookupTerms | None) -> LookupTerms | None:
    """Read a lookup as the one on record where it leaves `conclusive` open."""
    if given is None or recorded is None or given.conclusive is not None:
        return given
    return replace(given, conclusive=recorded.conclusive)


def _is_another_effect(step: BeginGiven, existing: Operation) -> bool:
    """Compare what both say; what one leaves out is no difference while nothing was granted."""
    return bool(differing_parts(step, existing))


def differing_parts(step: BeginGiven, existing: Operation) -> list[str]:
    """Name the parts in which a step is another effect than the operation of its key."""
    said, recorded = step.description, existing.description
    if said.fingerprint == recorded.fingerprint:
        return []
    differing = ["action"] if said.action != recorded.action else []
    differing += [
        part
        for part, name in (("target", "target"), ("args", "args_digest"))
        if getattr(said, name) is not None
        and getattr(said, name) != getattr(recorded, name)
        and not _may_take(existing, name)
    ]
    return differing


def _may_take(existing: Operation, name: str) -> bool:
    return existing.takes and getattr(existing.description, name) is None


def _lookalikes(
    step: BeginGiven,
    operations: Sequence[Operation],
    situation: Situation,
    *,
    compacted_at: Instant | None = None,
) -> tuple[Lookalike, ...]:
    """Find the operations that a step stands for already; one with nothing to compare is compared later."""
    if step.description.target is None and step.description.args_digest is None:
        return ()
    found = find_lookalikes(
        Newcomer(
            id=step.id,
            run=step.run,
            description=step.description,
            distinct_from=step.distinct_from,
            party=situation.party,
            compacted_at=compacted_at,
        ),
        operations,
        now=situation.now.at,
        policy=situation.policy,
    )
    return tuple(lookalike for lookalike in found if lookalike.stops)


def _siblings(
    step: BeginGiven, planned: Sequence[PlannedStep], situation: Situation
) -> tuple[Operation, ...]:
    alike = _lookalikes(step, [other.operation for other in planned], situation)
    return tuple(lookalike.operation for lookalike in alike)


def _check_dependencies(fresh: Sequence[BeginGiven], by_key: Mapping[str, Operation], keys: set[str]) -> None:
    waits_for = {key: operation.depends_on for key, operation in by_key.items()}
    for step in fresh:
        unknown = [key for key in step.depends_on if key not in keys]
        if unknown:
            raise InvalidArgument(
                "plan.depends_on",
                f"the step {step.key} names a key that neither the run nor the plan has",
                accepted="keys of this plan or of the run",
            )
        waits_for[step.key] = step.depends_on
    done: set[str] = set()
    for start in waits_for:
        path: list[tuple[str, int]] = [(start, 0)]
        on_path = {start}
        while path:
            key, index = path.pop()
            following = waits_for.get(key, ())
            if key in done or index >= len(following):
                done.add(key)
                on_path.discard(key)
                continue
            path.append((key, index + 1))
            nearest = following[index]
            if nearest in on_path:
                raise InvalidArgument(
                    "plan.depends_on", "is a circle: a step would wait for itself", accepted="an order"
                )
            if nearest not in done:
                on_path.add(nearest)
                path.append((nearest, 0))


def _plan(step: BeginGiven, situation: Situation, *, position: int, created_at: Instant) -> PlannedStep:
    draft = Draft(None, operation_id=step.id, situation=situation)
    draft.create(
        Creation(
            id=step.id,
            namespace=step.namespace,
            run=step.run,
            key=step.key,
            position=position,
            run_created_at=created_at,
            description=step.description,
        )
    )
    terms = terms_to_data(step.terms)
    if terms:
        draft.add(EventKind.TERMS_FIXED, **terms)
    if step.depends_on or step.satisfies or step.distinct_from:
        draft.add(
            EventKind.LINKS_ADDED,
            depends_on=list(step.depends_on) or None,
            satisfies=list(step.satisfies) or None,
            distinct_from=[other for other in step.distinct_from if other != "*"] or None,
        )
    return PlannedStep(operation=draft.operation, events=draft.events)


def decide_finish_run(
    run: Run,
    operations: Sequence[Operation],
    outcome: str,
    reason: str | None,
    situation: Situation,
    *,
    unmet_criteria: Sequence[str] = (),
    is_redelivered: bool = False,
) -> RunVerdict:
    """Finish a run. `completed` is refused while anything is open, planned, failed or unmet.

    A redelivered call changes nothing, also where the run was begun again since.
    """
    now = situation.now.at
    if run.finished_as == outcome or (is_redelivered and run.finished_as is None):
        return RunVerdict(next="continue", reason="duplicate", run=run)
    if run.finished_as is not None:
        return RunVerdict(next="stop", reason="run_finished", run=run)
    warnings = list(_open_questions(operations, now))
    if outcome == "completed":
        unmet = tuple(operation for operation in operations if state_of(operation, now) not in _DONE)
        if unmet or unmet_criteria:
            return RunVerdict(next="stop", reason="unmet", run=run, unmet=unmet)
        warnings += [
            f"{operation.id} counts as timed_out, without evidence"
            for operation in operations
            if state_of(operation, now) is State.TIMED_OUT
        ]
    event = _event(EventKind.RUN_FINISHED, now, {"outcome": outcome, "reason": reason})
    return RunVerdict(
        next="continue",
        reason="finished",
        run=evolve_run(run, event, namespace=run.namespace, name=run.run),
        events=(event,),
        warnings=tuple(warnings),
    )


def decide_release_run(
    run: Run,
    operations: Sequence[Operation],
    reason: str,
    situation: Situation,
    *,
    seen: str | None = None,
    is_redelivered: bool = False,
) -> RunVerdict:
    """End the hold on a run by a person's word; the leases of its operations are left as they are.

    `seen` is the holder that the person was shown (`holder_seen`): another one since keeps its hold.
    """
    now = situation.now.at
    if is_redelivered or run.holder is None or not is_held(run, operations, now):
        return RunVerdict(next="continue", reason="duplicate", run=run)
    if seen not in (None, holder_seen(run)):
        return RunVerdict(
            next="stop",
            reason="unmet",
            run=run,
            warnings=("another session has taken the hold since it was shown",),
        )
    event = _event(
        EventKind.RUN_RELEASED,
        now,
        {
            "holder": to_data(run.holder),
            "holder_name": run.holder_name,
            "until": held_until(run, operations, now),
            "reason": reason,
        },
    )
    return RunVerdict(
        next="continue",
        reason="recorded",
        run=evolve_run(run, event, namespace=run.namespace, name=run.run),
        events=(event,),
    )


def decide_run_progress(
    run: Run,
    operations: Sequence[Operation],
    situation: Situation,
    *,
    message: str | None,
    fraction: float | None,
    checkpoint: str | None,
    is_redelivered: bool = False,
) -> RunVerdict:
    """Note progress of a run; its holder prolongs the hold by it, or revives one that merely ran out.

    Nobody takes a hold so, or a heartbeat would undo a person's release: only begin_run does. While another
    session holds the run nothing is taken.
    """
    now = situation.now.at
    if run.finished_as is not None:
        return RunVerdict(next="stop", reason="run_finished", run=run)
    if is_held_by_another(run, operations, situation.party, now):
        return RunVerdict(next="wait", reason="run_held", run=run)
    if is_redelivered:
        return RunVerdict(next="continue", reason="duplicate", run=run)
    said = {"message": message, "fraction": fraction, "checkpoint": checkpoint}
    events = [_event(EventKind.RUN_PROGRESSED, now, said)]
    is_its_own = run.holder is not None and run.holder.is_holder(situation.party)
    if is_its_own:
        held = {
            "holder": to_data(situation.party),
            "holder_name": run.holder_name,
            "until": max(now + micros(situation.policy.lease_seconds), run.held_until or 0),
        }
        events.insert(0, _event(EventKind.RUN_HELD, now, held))
    after: Run | None = run
    for event in events:
        after = evolve_run(after, event, namespace=run.namespace, name=run.run)
    return RunVerdict(
        next="continue",
        reason="recorded",
        run=after,
        events=tuple(events),
        warnings=() if is_its_own else (_TAKES_NO_HOLD,),
    )


def decide_set_spec(run: Run, given: SpecGiven, situation: Situation) -> RunVerdict:
    """Hold a run against a specification, whoever holds the run; one that is over takes no other."""
    said = {"spec_uri": given.uri, "spec_digest": given.digest, "criteria": given.criteria}
    if all(value is None or getattr(run, name) == value for name, value in said.items()):
        return RunVerdict(next="continue", reason="duplicate", run=run)
    if run.finished_as in ("completed", "cancelled"):
        return RunVerdict(next="stop", reason="run_finished", run=run)
    event = _event(EventKind.RUN_BEGUN, situation.now.at, said)
    return RunVerdict(
        next="continue",
        reason="recorded",
        run=evolve_run(run, event, namespace=run.namespace, name=run.run),
        events=(event,),
    )
