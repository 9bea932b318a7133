"""Look-alikes: an effect that is perhaps on file under another key (CONTRACT.md, section 2).

A session that lost its memory invents other keys and other words; what it is about to do is compared with
what its run already holds.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from counterfoil.store.domain.instants import Instant
from counterfoil.store.domain.model import Description, Operation, Party, State
from counterfoil.store.domain.names import targets_overlap
from counterfoil.store.domain.states import Policy, state_of

__all__ = [
    "Lookalike",
    "Newcomer",
    "Suspects",
    "cannot_be_set_aside",
    "find_arrived",
    "find_lookalikes",
    "is_of_conversation",
]

_CANNOT_BE_SET_ASIDE = frozenset((State.IN_DOUBT, State.DISPUTED))


class Newcomer(Struct, frozen=True, kw_only=True):
    """The operation that is about to be told apart from the others. `distinct_from` may hold `*`.

    `compacted_at` is when the conversation of `party` last lost its memory, None where nobody told of that.
    """

    id: str
    run: str
    description: Description
    distinct_from: tuple[str, ...] = ()
    compensates: str | None = None
    party: Party
    compacted_at: Instant | None = None


class Lookalike(Struct, frozen=True, kw_only=True):
    """Another operation, and what is the same. `stops`: it has to be told apart first."""

    operation: Operation
    same: str
    stops: bool


def find_lookalikes(
    newcomer: Newcomer, others: Iterable[Operation], *, now: Instant, policy: Policy
) -> tuple[Lookalike, ...]:
    """Compare a newcomer with operations of its run, and of any run that compensate the same one."""
    found = []
    for other in others:
        same = _same(newcomer, other, policy)
        if other.id == newcomer.id or same is None:
            continue
        if same == "compensates":
            found.append(
                Lookalike(operation=other, same=same, stops=not _is_told_apart(newcomer, other, now))
            )
        elif newcomer.compensates == other.id or other.compensates == newcomer.id:
            found.append(Lookalike(operation=other, same=same, stops=False))
        elif cannot_be_set_aside(other, same, now):
            found.append(Lookalike(operation=other, same=same, stops=True))
        elif not _is_told_apart(newcomer, other, now):
            found.append(
                Lookalike(
                    operation=other,
                    same=same,
                    stops=not _is_next_of_a_series(newcomer, other, same, now, policy),
                )
            )
    return tuple(found)


def cannot_be_set_aside(other: Operation, same: str, now: Instant) -> bool:
    """Tell whether the very same effect is in question elsewhere: that is settled first, whatever is said."""
    return same == "fingerprint" and state_of(other, now) in _CANNOT_BE_SET_ASIDE


def find_arrived(
    newcomer: Newcomer, operation: Operation, others: Iterable[Operation], *, now: Instant, policy: Policy
) -> tuple[Lookalike, ...]:
    """Find what stops an operation that is on record already: look-alikes that an import or a copy brought.

    Whatever is begun or planned in this journal is compared with what is there, and told apart then; steps
    that one plan declares side by side came in one moment. What came otherwise and may have had its effect
    was never told apart, and is now as for a new key.
    """
    return tuple(
        alike
        for alike in find_lookalikes(newcomer, others, now=now, policy=policy)
        if alike.stops
        and alike.operation.created_at != operation.created_at
        and not _was_told_apart(operation, alike.operation)
        and _may_be_the_effect(alike, now)
    )


class Suspects:
    """Operations that others may be taken for, found by what makes two alike: a plan compares few."""

    def __init__(self, operations: Iterable[Operation], *, now: Instant) -> None:
        self._alike: dict[tuple[str, str], list[Operation]] = {}
        for operation in operations:
            state = state_of(operation, now)
            if state.is_open or (state.is_settled and state is not State.CANCELLED):
                for mark in _marks(operation.description, operation.compensates):
                    self._alike.setdefault(mark, []).append(operation)

    def arrived_beside(
        self, operation: Operation, *, party: Party | None, now: Instant, policy: Policy
    ) -> tuple[Lookalike, ...]:
        """Find what would stop a begin of `operation` as it is on record, as `find_arrived` does.

        `party` is who would begin it, where that is known. What a begin gives beside is not known here: a
        `distinct_from` may yet tell it apart.
        """
        if not self._alike or state_of(operation, now) not in (State.PLANNED, State.FAILED):
            return ()
        newcomer = Newcomer(
            id=operation.id,
            run=operation.run,
            description=operation.description,
            distinct_from=operation.distinct_from,
            compensates=operation.compensates,
            party=party or _NOBODY,
        )
        found = {
            other.id: other
            for mark in _marks(operation.description, operation.compensates)
            for other in self._alike.get(mark, ())
        }
        return find_arrived(newcomer, operation, found.values(), now=now, policy=policy)


_NOBODY = Party(principal="", conversation=None, connection="")


def _marks(described: Description, compensates: str | None) -> Iterator[tuple[str, str]]:
    """Give what two operations have in common one of where `_same` finds them alike."""
    yield "fingerprint", described.fingerprint
    if described.target_folded:
        yield "target", described.target_folded
    if described.args_digest is not None:
        yield "args", described.args_digest
    if compensates is not None:
        yield "compensates", compensates


def _was_told_apart(operation: Operation, other: Operation) -> bool:
    return other.id in operation.distinct_from or operation.id in other.distinct_from


def _may_be_the_effect(alike: Lookalike, now: Instant) -> bool:
    """Tell whether a look-alike may have happened: any that is open, and the very same one once settled.

    So may one on the same target that nobody began: a receipt made it, and it was compared with nothing.
    """
    state = state_of(alike.operation, now)
    if state.is_settled:
        is_unannounced = alike.operation.began is None and alike.same == "target"
        is_the_same = alike.same in ("fingerprint", "compensates") or is_unannounced
        return is_the_same and state is not State.CANCELLED
    return state.is_open


def _same(newcomer: Newcomer, other: Operation, policy: Policy) -> str | None:
    if newcomer.compensates is not None and newcomer.compensates == other.compensates:
        return "compensates"
    mine, theirs = newcomer.description, other.description
    how = policy.compare(mine.action)
    if newcomer.run != other.run or mine.action != theirs.action or how == "off":
        return None
    if mine.fingerprint == theirs.fingerprint:
        return "fingerprint"
    if how == "fingerprint":
        return None
    if mine.target_folded and mine.target_folded == theirs.target_folded:
        return "target"
    if (
        mine.args_digest is not None
        and mine.args_digest == theirs.args_digest
        and targets_overlap(mine.target_folded, theirs.target_folded)
    ):
        return "args"
    return None


def _is_told_apart(newcomer: Newcomer, other: Operation, now: Instant) -> bool:
    """Distinctness works both ways; `*` covers settled operations only."""
    return (
        other.id in newcomer.distinct_from
        or newcomer.id in other.distinct_from
        or ("*" in newcomer.distinct_from and state_of(other, now).is_settled)
    )


def is_of_conversation(other: Operation, party: Party) -> bool:
    """Tell whether the very conversation of `party` began an operation; never where it is not known."""
    return (
        other.began is not None
        and other.began.conversation is not None
        and other.began.conversation == party.conversation
        and other.began.principal == party.principal
    )


def _is_next_of_a_series(
    newcomer: Newcomer, other: Operation, same: str, now: Instant, policy: Policy
) -> bool:
    """A settled effect on the same target that this conversation began and remembers, with other args."""
    return (
        same == "target"
        and newcomer.description.args_digest != other.description.args_digest
        and state_of(other, now).is_settled
        and is_of_conversation(other, newcomer.party)
        and _is_remembered(newcomer, other, policy)
    )


def _is_remembered(newcomer: Newcomer, other: Operation, policy: Policy) -> bool:
    """Tell whether the conversation held an attempt since it was last compacted, or lost nothing ever.

    A journal put back from a backup may have lost word of a compaction: there is none later than that.
    """
    moments = [at for at in (newcomer.compacted_at, policy.history_lost_at) if at is not None]
    return not moments or any(
        attempt.granted_at > max(moments)
        and attempt.holder is not None
        and attempt.holder.conversation == newcomer.party.conversation
        for attempt in other.granted
    )
