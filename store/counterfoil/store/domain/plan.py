"""The plan: facts of a run turned into steps, each with what may be done now, the urgent ones first."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from counterfoil.store.domain.answers import damage_warning
from counterfoil.store.domain.grants import NO_AUTHORITY, Authority
from counterfoil.store.domain.instants import Instant
from counterfoil.store.domain.lookalikes import Lookalike, Suspects
from counterfoil.store.domain.model import Operation, Party, Run, State
from counterfoil.store.domain.outlook import NO_BARRIERS, Barriers, Outlook, outlook
from counterfoil.store.domain.states import Policy, state_of

__all__ = ["Step", "make_steps"]

_RANKS = {"reconcile": 0, "ask": 1, "begin": 2, "stop": 2, "wait": 3, "skip": 4}
_MOST_TOLD = 5
"""Steps that go first of which a step says that they cannot be read."""


class Step(Struct, frozen=True, kw_only=True):
    """One operation as the plan shows it. `rank` and position give its place in the plan.

    `duplicates` are what it may be a second one of, where that stops it. `is_unreadable`: the context that
    it was made under, or what its authority is weighed upon, is damaged. `warnings` say why there is
    nothing to undo, or what of the steps that go first cannot be read.
    """

    operation: Operation
    state: State
    outlook: Outlook
    authority: Authority = NO_AUTHORITY
    duplicates: tuple[Lookalike, ...] = ()
    is_unreadable: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def rank(self) -> int:
        """Reconcile, ask, begin, wait, then settled."""
        return _RANKS[self.outlook.next]

    @property
    def place(self) -> tuple[int, int]:
        """Where the step stands in the plan."""
        return self.rank, self.operation.position


def make_steps(
    operations: Sequence[Operation],
    *,
    run: Run | None,
    now: Instant,
    policy: Policy,
    around: Sequence[Operation] = (),
    barriers: Callable[[Operation], Barriers] = lambda _operation: NO_BARRIERS,
    authorities: Mapping[str, Authority] | None = None,
    party: Party | None = None,
    suspects: Iterable[Operation] = (),
) -> tuple[Step, ...]:
    """Give the steps of a run in the order of the plan.

    `around` are operations that are not listed and that a listed one waits for, directly or not; `party` is
    who asks; `authorities` is what was found of each operation's authority, by its id; `suspects` are others
    that a listed one may be taken for.
    """
    by_key: Mapping[str, Operation] = {operation.key: operation for operation in (*around, *operations)}
    compared = Suspects((*operations, *suspects), now=now)
    arrived = {
        operation.id: compared.arrived_beside(operation, party=party, now=now, policy=policy)
        for operation in operations
    }
    barred = {operation.id: barriers(operation) for operation in operations}
    outlooks = {
        operation.id: outlook(
            operation,
            now=now,
            policy=policy,
            run=run,
            dependencies=by_key,
            can_reproduce=not (
                operation.description.args_redacted
                or operation.description.payload_redacted
                or operation.pruned_at is not None
            ),
            barriers=barred[operation.id],
            party=party,
            is_possible_duplicate=bool(arrived[operation.id]),
        )
        for operation in operations
    }
    steps = [
        Step(
            operation=operation,
            state=state_of(operation, now),
            outlook=outlooks[operation.id],
            authority=(authorities or {}).get(operation.id, NO_AUTHORITY),
            duplicates=arrived[operation.id],
            is_unreadable=barred[operation.id].is_unreadable,
            warnings=_warnings(outlooks[operation.id], barred[operation.id], by_key),
        )
        for operation in operations
    ]
    return tuple(sorted(steps, key=lambda step: step.place))


def _warnings(found: Outlook, barriers: Barriers, by_key: Mapping[str, Operation]) -> tuple[str, ...]:
    if found.reason == "unmet":
        return barriers.nothing_to_undo
    # What goes first has others before it, and a begin tells of all of them.
    first: dict[str, Operation] = {}
    keys = [*found.waits_for]
    while keys:
        key = keys.pop(0)
        if key in by_key and key not in first:
            first[key] = by_key[key]
            keys += by_key[key].depends_on
    unread = [other for other in first.values() if other.is_damaged]
    return tuple(damage_warning(other) for other in unread[:_MOST_TOLD])
