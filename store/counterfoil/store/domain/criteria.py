"""Criteria: what the work is held against, and which of it evidence has satisfied.

A receipt remembers the digest of the criterion's text as it was then. A criterion that is worded anew makes
earlier verdicts stale, not gone.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from counterfoil.store.domain.canonical import canonical_json, digest
from counterfoil.store.domain.commands import Criterion
from counterfoil.store.domain.model import Operation, Receipt
from counterfoil.store.domain.untrusted import quoted_whole

__all__ = [
    "CriterionState",
    "Judged",
    "criteria_from_text",
    "criteria_text",
    "judge",
    "left_unmet",
    "misnamed",
    "satisfaction_text",
]

_MOST_NAMED = 5
_LONGEST_NAME = 60
"""Characters of an id that a warning quotes."""


class CriterionState(StrEnum):
    """Where a criterion stands."""

    MET = "met"
    STALE = "stale"
    UNMET = "unmet"


class Judged(Struct, frozen=True, kw_only=True):
    """A criterion, where it stands, and the operations whose receipts put it there."""

    criterion: Criterion
    state: CriterionState
    by: tuple[str, ...] = ()


def criteria_text(criteria: Iterable[Criterion]) -> str:
    """Write criteria in the one form in which they are stored."""
    return canonical_json(
        [
            {"id": criterion.id, "text": criterion.text, "required": criterion.required}
            for criterion in criteria
        ]
    )


def criteria_from_text(text: str | None) -> tuple[Criterion, ...]:
    """Read criteria as `criteria_text` wrote them."""
    return () if text is None else tuple(Criterion(**item) for item in json.loads(text))


def satisfaction_text(ids: Sequence[str], criteria: Sequence[Criterion]) -> str | None:
    """Write which criteria a receipt satisfies, each with the digest of its text as it is now.

    An id that the run does not know is kept without a digest: a spec may come later.
    """
    if not ids:
        return None
    texts = {criterion.id: digest(criterion.text) for criterion in criteria}
    return canonical_json({name: texts.get(name) for name in dict.fromkeys(ids)})


def misnamed(ids: Iterable[str], criteria: Sequence[Criterion]) -> tuple[str, ...]:
    """Warn of ids that are no criteria of the run, where it has any: a receipt meets nothing by them.

    Without criteria nobody can know: a spec may come later.
    """
    known = [criterion.id for criterion in criteria]
    strange = [name for name in dict.fromkeys(ids) if name not in known]
    if not known or not strange:
        return ()
    return (
        f"satisfies names what is no criterion of this run, and nothing is met by it: {_listed(strange)}; "
        f"its criteria: {_listed(known)}",
    )


def left_unmet(known: Receipt, satisfies: str | None) -> tuple[str, ...]:
    """Warn of the criteria that a receipt names when it comes again, and did not meet when it came first."""
    met = {} if known.satisfies is None else json.loads(known.satisfies)
    said = {} if satisfies is None else json.loads(satisfies)
    left = [name for name, text in said.items() if text is not None and met.get(name) != text]
    if not left or not known.counts:
        return ()
    return (
        f"this receipt is on file, and coming again it satisfies nothing more: not {_listed(left)}; for that "
        "bring evidence with a reference of its own, under another kind or system",
    )


def _listed(names: Sequence[str]) -> str:
    shown = [quoted_whole(name, limit=_LONGEST_NAME) for name in names[:_MOST_NAMED]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def judge(criteria: Sequence[Criterion], operations: Iterable[Operation]) -> tuple[Judged, ...]:
    """Tell of each criterion whether a receipt that stands satisfies its present text."""
    verdicts = [
        (operation.id, json.loads(receipt.satisfies))
        for operation in operations
        for receipt in operation.standing
        if receipt.satisfies is not None
    ]
    return tuple(_judged(criterion, verdicts) for criterion in criteria)


def _judged(criterion: Criterion, verdicts: Sequence[tuple[str, Mapping[str, str | None]]]) -> Judged:
    now = digest(criterion.text)
    named = [(operation, seen[criterion.id]) for operation, seen in verdicts if criterion.id in seen]
    met = tuple(dict.fromkeys(operation for operation, then in named if then == now))
    if met:
        return Judged(criterion=criterion, state=CriterionState.MET, by=met)
    if named:
        stale = tuple(dict.fromkeys(operation for operation, _then in named))
        return Judged(criterion=criterion, state=CriterionState.STALE, by=stale)
    return Judged(criterion=criterion, state=CriterionState.UNMET)
