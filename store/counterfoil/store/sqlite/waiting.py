"""Waits for another process's lock in short rounds, so that closing ends the wait."""

import math
import sqlite3
import time

from counterfoil.store.sqlite.faults import garbled_message, is_busy
from counterfoil.store.sqlite.modes import BUSY_ROUND_MILLISECONDS

__all__ = ["LockWait"]

_PAUSE_SECONDS = 0.001
"""Between rounds: SQLite answers some BUSY at once, without its own wait."""


class LockWait:
    """How long a lock is waited for: about `seconds`, and not at all once `give_up` was called.

    Rounds of 10 ms also bound the worst case: SQLite's own handler sleeps up to 100 ms at a time, and among
    many busy processes it can miss gap after gap between two commits.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._rounds = max(0, math.ceil(seconds * 1000 / BUSY_ROUND_MILLISECONDS))
        self._is_over = False

    def give_up(self) -> None:
        """End every wait, those under way within one round."""
        self._is_over = True

    def execute(self, raw: sqlite3.Connection, sql: str) -> list[tuple[object, ...]]:
        """Run `sql`, again and again while it finds the journal locked, and give its rows.

        Raises:
            sqlite3.Error: what SQLite said, BUSY among it when the time is over.
        """
        for remaining in range(self._rounds, -1, -1):
            try:
                # By a cursor: the connection's own method is Python, which looks for a hop (see thread.py).
                return raw.cursor().execute(sql).fetchall()
            except sqlite3.OperationalError as error:
                if not is_busy(error) or remaining == 0 or self._is_over:
                    raise
                time.sleep(_PAUSE_SECONDS)
            except UnicodeDecodeError as error:
                raise garbled_message(error) from error
        raise AssertionError("unreachable: the last round returns or raises")
