"""A journal in one SQLite file for a process that does one thing after the other, and then ends.

The same transactions, guards and commits as in `database`, on one connection in the caller's own thread: no
event loop and no threads are loaded, which take longer to start than such a process has to do.
"""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, TypeVar

from counterfoil.store.protocol import Work
from counterfoil.store.sqlite.batch import GroupCommit, Job
from counterfoil.store.sqlite.binding import Bindings
from counterfoil.store.sqlite.faults import opening_fault
from counterfoil.store.sqlite.guard import Guard
from counterfoil.store.sqlite.migrations import UnreadMigrations
from counterfoil.store.sqlite.opening import Opened, configure, prepare, uri_of
from counterfoil.store.sqlite.place import MOUNTS
from counterfoil.store.sqlite.transaction import Transaction, drive
from counterfoil.store.sqlite.turns import Turns
from counterfoil.store.sqlite.waiting import LockWait
from counterfoil.store.statements import load_statements

__all__ = ["DirectDatabase", "open_directly"]

Result = TypeVar("Result")


@contextmanager
def open_directly(
    path: str | os.PathLike[str], *, fresh_values: Mapping[str, Any], busy_timeout_seconds: float = 5.0
) -> "Iterator[DirectDatabase]":
    """Open the journal at `path`, or make a new one, as `open_sqlite` does; closed when the block ends.

    Raises:
        JournalUnavailable, UnsupportedVersion: as `open_sqlite` does.
    """
    wait = LockWait(busy_timeout_seconds)
    opened = prepare(
        path,
        migrations=UnreadMigrations(),
        fresh_values=fresh_values,
        wait=wait,
        sqlite_version=sqlite3.sqlite_version_info,
        mounts=MOUNTS,
        is_thorough=False,
    )
    try:
        raw = sqlite3.connect(uri_of(opened.path), uri=True, isolation_level=None, timeout=0.01)
    except sqlite3.Error as error:
        raise opening_fault(error, path=opened.path) from error
    with closing(raw):
        try:
            configure(raw, mode=opened.mode, extra={}, wait=wait)
        except sqlite3.Error as error:
            raise opening_fault(error, path=opened.path) from error
        yield DirectDatabase(raw, opened, bindings=Bindings(load_statements(dialect="sqlite")), wait=wait)


class DirectDatabase:
    """The `Database` of one file in the caller's own thread; its coroutines never wait for anything."""

    def __init__(
        self, raw: sqlite3.Connection, opened: Opened, *, bindings: Bindings, wait: LockWait
    ) -> None:
        self._raw = raw
        self._opened = opened
        self._bindings = bindings
        self._guard = Guard(opened, wait)
        self._turns = Turns(wait.seconds)
        self._commits = GroupCommit(bindings, self._guard, self._turns)

    async def write(self, work: Work[Result]) -> Result:
        """Run `work` in one serializable transaction, as `Database.write` promises."""
        job = Job(work)
        self._commits.add(job)
        self._commits.commit_until(self._raw, job)
        return job.give()

    async def read(self, work: Work[Result]) -> Result:
        """Run `work` on one consistent snapshot that may not be changed, as `Database.read` promises."""
        with self._turns.read():
            marks = self._guard.begin(self._raw, "BEGIN")
            transaction = Transaction(self._raw, self._bindings, marks=marks, is_read_only=True)
            try:
                return drive(work(transaction))
            finally:
                transaction.end()
                self._guard.roll_back(self._raw)

    async def facts(self) -> Mapping[str, str | float]:
        """Give engine, version and place; a process of this kind shows nobody more."""
        return {"engine": "SQLite", "sqlite_version": sqlite3.sqlite_version, "path": self._opened.path}

    async def close(self) -> None:
        """Close the connection; idempotent."""
        self._raw.close()
