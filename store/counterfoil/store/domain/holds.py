"""The hold on a run: whose it is, and until when.

It is advisory: operations are guarded one by one. It lives while its own lease does, or while its holder
holds the live attempt of an operation.
"""

from collections.abc import Sequence

from counterfoil.store.domain.canonical import canonical_json
from counterfoil.store.domain.events import to_data
from counterfoil.store.domain.instants import Instant
from counterfoil.store.domain.model import Attempt, Operation, Party, Run
from counterfoil.store.domain.states import live_attempt

__all__ = ["attempts_of_holder", "held_until", "holder_seen", "is_held", "is_held_by_another"]


def attempts_of_holder(
    run: Run, operations: Sequence[Operation], now: Instant
) -> tuple[tuple[Operation, Attempt], ...]:
    """Give the operations whose live attempt the run's holder has, with that attempt."""
    if run.holder is None:
        return ()
    live = [(operation, live_attempt(operation, now)) for operation in operations]
    return tuple(
        (operation, attempt)
        for operation, attempt in live
        if attempt is not None and attempt.holder is not None and attempt.holder.is_holder(run.holder)
    )


def is_held(run: Run, operations: Sequence[Operation], now: Instant) -> bool:
    """Tell whether a live session works on the run."""
    if run.holder is None:
        return False
    if run.held_until is not None and now < run.held_until:
        return True
    return bool(attempts_of_holder(run, operations, now))


def is_held_by_another(run: Run, operations: Sequence[Operation], party: Party, now: Instant) -> bool:
    """Tell whether another live session works on the run."""
    if run.holder is None or run.holder.is_holder(party):
        return False
    return is_held(run, operations, now)


def held_until(run: Run, operations: Sequence[Operation], now: Instant) -> Instant:
    """Give when the hold on a run ends if nothing prolongs it; not before now."""
    leases = [attempt.lease_until for _, attempt in attempts_of_holder(run, operations, now)]
    return max(now, run.held_until or now, *leases)


def holder_seen(run: Run) -> str | None:
    """Give what tells one holder of a run from the next, for a person who was shown the hold."""
    return None if run.holder is None else canonical_json(to_data(run.holder))
