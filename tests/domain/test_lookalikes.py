"""The next of a series: what a conversation remembers is mentioned, what it may have forgotten stops it."""

import pytest
from msgspec.structs import replace

from counterfoil.store.domain.lookalikes import Newcomer, find_lookalikes
from counterfoil.store.domain.model import Attempt, Decision, Description, Operation, Party, State
from counterfoil.store.domain.states import Policy

MINE = Party(principal="local", conversation="mine", connection="1")
OTHERS = Party(principal="local", conversation="others", connection="2")
BEGUN, NOW = 100, 1_000


def effect(args: str) -> Description:
    """Give a mail to Alice with these args."""
    return Description(
        action="email.send",
        target="alice@example.org",
        target_folded="alice@example.org",
        args_digest=args,
        fingerprint=args,
    )


def attempt(number: int, granted_at: int, holder: Party = MINE) -> Attempt:
    """Give an attempt that its holder ended."""
    return Attempt(
        number=number,
        generation=1,
        holder=holder,
        reason="first_attempt",
        granted_at=granted_at,
        lease_until=granted_at + 50,
        ended_at=granted_at + 1,
    )


SETTLED = Operation(
    namespace="default",
    run="run-1",
    key="key-1",
    id="op_1",
    position=1,
    created_at=BEGUN,
    updated_at=BEGUN,
    since_floor=BEGUN,
    description=effect("one"),
    began=MINE,
    attempts=(attempt(1, BEGUN),),
    decision=Decision(outcome=State.TIMED_OUT, at=BEGUN + 60, by="local", reason="over"),
)


def stops(other: Operation, *, compacted_at: int | None, restored_at: int | None = None) -> bool:
    """Tell whether a second mail to Alice is stopped."""
    newcomer = Newcomer(
        id="op_2", run="run-1", description=effect("two"), party=MINE, compacted_at=compacted_at
    )
    policy = Policy(history_lost_at=restored_at)
    (found,) = find_lookalikes(newcomer, [other], now=NOW, policy=policy)
    assert found.same == "target"
    return found.stops


@pytest.mark.parametrize(
    ("compacted_at", "is_stopped"),
    [(None, False), (BEGUN - 1, False), (BEGUN, True), (BEGUN + 1, True), (NOW, True)],
)
def test_what_a_conversation_began_before_it_was_compacted_stops_the_next_of_a_series(
    compacted_at: int | None, is_stopped: bool
) -> None:
    assert stops(SETTLED, compacted_at=compacted_at) is is_stopped


def test_a_conversation_remembers_what_it_attempted_again_after_it_was_compacted() -> None:
    again = replace(SETTLED, attempts=(attempt(1, BEGUN), attempt(2, BEGUN + 20)))
    assert not stops(again, compacted_at=BEGUN + 10)


def test_what_another_conversation_attempted_since_is_not_remembered_by_this_one() -> None:
    taken_over = replace(SETTLED, attempts=(attempt(1, BEGUN), attempt(2, BEGUN + 20, OTHERS)))
    assert stops(taken_over, compacted_at=BEGUN + 10)


def test_what_it_was_never_granted_is_not_remembered_after_a_compaction() -> None:
    assert stops(replace(SETTLED, attempts=()), compacted_at=BEGUN - 1)


@pytest.mark.parametrize(("restored_at", "is_stopped"), [(BEGUN - 1, False), (BEGUN, True)])
def test_in_a_restored_journal_word_of_a_compaction_may_be_what_was_lost(
    restored_at: int, is_stopped: bool
) -> None:
    assert stops(SETTLED, compacted_at=None, restored_at=restored_at) is is_stopped


def test_what_is_said_to_be_distinct_is_distinct_after_a_compaction_too() -> None:
    newcomer = Newcomer(
        id="op_2",
        run="run-1",
        description=effect("two"),
        distinct_from=("*",),
        party=MINE,
        compacted_at=NOW,
    )
    assert find_lookalikes(newcomer, [SETTLED], now=NOW, policy=Policy()) == ()
