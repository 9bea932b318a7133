"""Lets the reads and the commits of one process take turns, so that they do not meet in SQLite's locks.

In rollback mode a commit waits until nobody reads, and whoever loses sleeps a millisecond and more: with one
writer busy, reads of the same process fell to a tenth. This is politeness and not safety: SQLite's locks
stay the ones that count, and whoever has waited for the whole lock wait goes on without its turn.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Turns"]


class Turns:
    """One turn at a time; who waits for a commit is not overtaken by a row of reads."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = threading.Lock()
        self._turn = threading.Lock()

    @contextmanager
    def commit(self) -> Iterator[None]:
        """Hold the turn for one commit, and the next place until it is over."""
        with self._held(self._next), self._held(self._turn):
            yield

    @contextmanager
    def read(self) -> Iterator[None]:
        """Hold the turn for one read."""
        with self._held(self._next):
            is_held = self._turn.acquire(timeout=self._seconds)
        try:
            yield
        finally:
            if is_held:
                self._turn.release()

    @contextmanager
    def _held(self, lock: threading.Lock) -> Iterator[None]:
        is_held = lock.acquire(timeout=self._seconds)
        try:
            yield
        finally:
            if is_held:
                lock.release()
