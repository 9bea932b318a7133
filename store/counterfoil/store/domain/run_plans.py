"""The plan of a run: which of the steps that begin_run brings are added, and which are there already."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.store.domain.begin import BeginGiven
from counterfoil.store.domain.drafting import Creation, Draft, Situation
from counterfoil.store.domain.events import Event, EventKind, terms_to_data
from counterfoil.store.domain.instants import Instant
from counterfoil.store.domain.lookalikes import Lookalike, Newcomer, find_lookalikes
from counterfoil.store.domain.model import LookupTerms, Operation
from counterfoil.store.errors import InvalidArgument

__all__ = ["PlannedStep", "TakenPlan", "differing_parts", "take_plan"]

_MOST_TOLD = 5
"""Steps on record that a plan is told of one by one: a session that lost its memory words many anew."""


class PlannedStep(Struct, frozen=True, kw_only=True):
    """A step that was taken into the plan, as a new operation."""

    operation: Operation
    events: tuple[Event, ...]


class TakenPlan(Struct, frozen=True, kw_only=True):
    """What became of the steps of a plan. `duplicates` and `conflicts` were not added, by key."""

    steps: tuple[PlannedStep, ...] = ()
    duplicates: Mapping[str, tuple[Lookalike, ...]] | None = None
    conflicts: tuple[tuple[BeginGiven, Operation], ...] = ()
    warnings: tuple[str, ...] = ()


def take_plan(
    brought: Sequence[BeginGiven],
    operations: Sequence[Operation],
    situation: Situation,
    *,
    compacted_at: Instant | None,
    created_at: Instant,
    next_position: int,
) -> TakenPlan:
    """Add the steps that are new: one that exists is not altered, one that looks like another not added.

    Raises:
        InvalidArgument: a dependency on a key that is neither in the run nor in the plan, or a circle.
    """
    by_key = {operation.key: operation for operation in operations}
    duplicates: dict[str, tuple[Lookalike, ...]] = {}
    conflicts: list[tuple[BeginGiven, Operation]] = []
    stands_for: dict[str, str] = {}
    fresh: list[BeginGiven] = []
    known: list[tuple[BeginGiven, Operation]] = []
    for step in brought:
        existing = by_key.get(step.key)
        if existing is not None:
            if differing_parts(step, existing):
                conflicts.append((step, existing))
            else:
                known.append((step, existing))
            continue
        alike = _lookalikes(step, operations, situation, compacted_at=compacted_at)
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
    warnings += _untaken(known, stands_for)
    unattempted = [existing for _step, existing in known if existing.newest is None]
    waiting = [
        *((step.id, step.depends_on) for step in fresh),
        *((each.id, each.depends_on) for each in unattempted),
    ]
    warnings += _behind_conflicts(waiting, {existing.key: existing for _step, existing in conflicts})
    return TakenPlan(
        steps=tuple(steps),
        duplicates=duplicates or None,
        conflicts=tuple(conflicts),
        warnings=tuple(warnings),
    )


def _untaken(known: Sequence[tuple[BeginGiven, Operation]], stands_for: Mapping[str, str]) -> list[str]:
    """Say of steps that are on record what a plan gives otherwise, or in addition: it alters nothing."""
    untaken = [(existing.id, _not_taken(step, existing, stands_for)) for step, existing in known]
    told = [
        f"{operation} is on record already, and a plan alters nothing: {', '.join(names)} as given here did "
        "not count (begin_operation takes what was left out, and what is stricter)"
        for operation, names in untaken
        if names
    ]
    more = len(told) - _MOST_TOLD
    return told if more <= 0 else [*told[:_MOST_TOLD], f"so it is with {more} more steps of this plan"]


def _behind_conflicts(
    waiting: Sequence[tuple[str, Sequence[str]]], conflicting: Mapping[str, Operation]
) -> list[str]:
    """Say which steps wait for a key whose step was not added, since another effect is on record under it.

    `waiting` are those that were not attempted, each with the keys it depends on. What they wait for is the
    one on record: a key stands for one effect. It may be done already.
    """
    told = [
        f"{step} waits for {conflicting[key].id} as it is on record, which is another effect than this "
        "plan gives under that key (see conflict): begin it only if that is the one that goes first; else "
        "plan the other under a key of its own, and name that in depends_on"
        for step, keys in waiting
        for key in keys
        if key in conflicting
    ]
    more = len(told) - _MOST_TOLD
    return told if more <= 0 else [*told[:_MOST_TOLD], f"so it is with {more} more dependencies of this plan"]


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
        for name in (
            "repeat",
            "key_ttl_seconds",
            "lookup",
            "settle_seconds",
            "undo",
            "deadline_seconds",
            "max_attempts",
        )
        if getattr(terms, name) not in (None, getattr(existing.terms, name))
    ]
    if {stands_for.get(key, key) for key in step.depends_on} - {*existing.depends_on}:
        names.append("depends_on")
    if {*step.satisfies} - {*existing.satisfies}:
        names.append("satisfies")
    if {*step.distinct_from} - {*existing.distinct_from}:
        names.append("distinct_from")
    return names


def _as_said(given: LookupTerms | None, recorded: LookupTerms | None) -> LookupTerms | None:
    """Read a lookup as the one on record where it leaves `conclusive` open."""
    if given is None or recorded is None or given.conclusive is not None:
        return given
    return replace(given, conclusive=recorded.conclusive)


def differing_parts(step: BeginGiven, existing: Operation) -> list[str]:
    """Name the parts in which a step is another effect than the operation of its key.

    What one of them leaves out is no difference while nothing was granted.
    """
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
