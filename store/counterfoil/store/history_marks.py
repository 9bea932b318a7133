"""Marks of lost history as the databases see them: what sets one, and what an open journal answers then.

What such a mark means is in `restoring` and `lost_history`.
"""

from typing import Final

from counterfoil.store.errors import JournalUnavailable

__all__ = ["MARKING_STATEMENTS", "marked_meanwhile"]

MARKING_STATEMENTS: Final = frozenset(("save_restore", "take_restore", "remove_restore_of_copy"))
"""The statements that mark a journal as one that lacks history, or take such a mark back."""


def marked_meanwhile() -> JournalUnavailable:
    """Give the fault of a journal that was marked since it was opened: who opened it knows of no gap."""
    return JournalUnavailable(
        "the journal was restored, or something is copied or imported into it; nothing was recorded",
        fix="call again when a copy or import that is under way has ended; otherwise start the server again",
    )
