"""Marks of lost history as the databases hand them up: what sets one, and where each of them counts.

What such a mark means is in `restoring` and `lost_history`.
"""

from collections.abc import Sequence
from typing import Final

from counterfoil.store.domain.instants import Instant

__all__ = ["MARKING_STATEMENTS", "HistoryMarks", "newest_mark"]

HistoryMarks = Sequence[tuple[Instant, str | None]]
"""When history was lost, each time with the namespace that lacks it; None where all do."""

MARKING_STATEMENTS: Final = frozenset(("save_restore", "take_restore", "remove_restore_of_copy"))
"""The statements that mark a journal as one that lacks history, or take such a mark back."""


def newest_mark(marks: HistoryMarks, namespace: str) -> Instant | None:
    """Give the newest mark that counts in `namespace`, None where there is none."""
    if not marks:
        return None
    return max((at for at, own in marks if own is None or own == namespace), default=None)
