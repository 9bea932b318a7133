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

    def commit(self) -> "_Held":
        """Hold the turn for one commit, and the next place until it is over."""
        return _Held(self._next, self._turn, seconds=self._seconds)

    @contextmanager
    def read(self) -> Iterator[None]:
        """Hold the turn for one read."""
        with _Held(self._next, seconds=self._seconds):
            is_held = self._turn.acquire(timeout=self._seconds)
        try:
            yield
        finally:
            if is_held:
                self._turn.release()


class _Held:
    """Locks that are held for a block, in their order; one that cannot be had in time is gone without.

    No generator, because every commit passes here.
    """

    __slots__ = ("_locks", "_seconds", "_those_held")

    def __init__(self, *locks: threading.Lock, seconds: float) -> None:
        self._locks = locks
        self._seconds = seconds
        self._those_held: list[threading.Lock] = []

    def __enter__(self) -> None:
        self._those_held += [lock for lock in self._locks if lock.acquire(timeout=self._seconds)]

    def __exit__(self, *_raised: object) -> None:
        while self._those_held:
            self._those_held.pop().release()
