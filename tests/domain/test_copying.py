"""Facts with some fields changed: as `dataclasses.replace` makes them, and as frozen as any."""

import dataclasses
from typing import Any

import pytest

from counterfoil.store.domain.copying import changed
from counterfoil.store.domain.model import Attempt, Description, Operation, Run, Terms

OPERATION = Operation(
    namespace="default",
    run="weekly",
    key="mail:alice",
    id="op_" + "a" * 20,
    position=1,
    created_at=1,
    updated_at=2,
    since_floor=0,
    description=Description(action="mail.send", fingerprint="v1:sha256:0"),
    attempts=(Attempt(number=1, generation=1, reason="first_attempt", granted_at=2, lease_until=3),),
)
RUN = Run(namespace="default", run="weekly", created_at=1, touched_at=1, last_seq=0, head="")


@pytest.mark.parametrize(
    ("fact", "changes"),
    [
        (OPERATION, {}),
        (OPERATION, {"updated_at": 9, "pruned_at": 9, "attempts": ()}),
        (OPERATION.attempts[0], {"error": "refused", "is_touched": True}),
        (RUN, {"finished_as": "completed"}),
        (Terms(), {"max_attempts": 3}),
    ],
)
def test_a_changed_fact_is_what_replace_makes_of_it(fact: Any, changes: dict[str, Any]) -> None:
    before = dataclasses.replace(fact)
    made, expected = changed(fact, **changes), dataclasses.replace(fact, **changes)
    assert type(made) is type(fact)
    assert (made, hash(made), repr(made)) == (expected, hash(expected), repr(expected))
    assert all(getattr(made, name) == getattr(expected, name) for name in fact.__slots__)
    assert (fact, repr(fact)) == (before, repr(before))


def test_a_changed_fact_is_frozen_and_has_no_other_fields() -> None:
    made = changed(OPERATION, updated_at=9)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.updated_at = 10  # type: ignore[misc]
    with pytest.raises(AttributeError):
        changed(OPERATION, no_such_field=1)  # type: ignore[call-arg]
