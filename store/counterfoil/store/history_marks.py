"""Marks of lost history as the databases hand them up, and where each of them counts.

What such a mark means is in `restoring` and `lost_history`.
"""

from collections.abc import Sequence

from counterfoil.store.domain.instants import Instant

__all__ = ["HistoryMarks", "newest_mark"]

HistoryMarks = Sequence[tuple[Instant, str | None]]
"""When history was lost, each time with the namespace that lacks it; None where all do."""


def newest_mark(marks: HistoryMarks, namespace: str) -> Instant | None:
    """Give the newest mark that counts in `namespace`, None where there is none."""
    if not marks:
        return None
    return max((at for at, own in marks if own is None or own == namespace), default=None)
