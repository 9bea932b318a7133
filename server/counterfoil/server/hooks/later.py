"""What was done to the same target after an effect that is on record as done: it may not stand any more."""

from collections.abc import Mapping
from typing import Any

from counterfoil.store.domain.commands import Caller, FindOperations
from counterfoil.store.domain.model import State
from counterfoil.store.journal import Journal

__all__ = ["later_effect"]

_MOST = 50
_MAY_STAND = frozenset(
    state.value for state in (State.SUCCEEDED, State.IN_PROGRESS, State.IN_DOUBT, State.DISPUTED)
)


async def later_effect(journal: Journal, answer: Mapping[str, Any], caller: Caller) -> dict[str, Any] | None:
    """Give the newest effect of the same program on the target of the operation of an answer, if it is later.

    Only among what last changed in its run. Whether it undid the other one, nobody here can tell.
    """
    found = await journal.find_operations(FindOperations(run=answer["run"], limit=_MOST), caller)
    later: list[dict[str, Any]] = []
    for entry in found.get("operations", ()):
        if entry["operation"] != answer["operation"]:
            later.append(entry)
            continue
        family = _family(entry)
        return next(
            (
                one
                for one in later
                if one.get("target") == entry.get("target") is not None
                and _family(one) == family
                and one.get("state") in _MAY_STAND
            ),
            None,
        )
    return None


def _family(entry: Mapping[str, Any]) -> str:
    """Give the program that an action is of: `kubectl` of `kubectl.apply`."""
    return str(entry.get("action", "")).partition(".")[0]
