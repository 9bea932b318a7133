"""The seam between the journal and a database: two ways to run a transaction, five things to do in it.

Nothing above this file knows which database it talks to; databases differ only below it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from counterfoil.store.domain.instants import Instant, Reading

__all__ = ["Connection", "Database", "Row", "Work"]

Row = Mapping[str, Any]
Result = TypeVar("Result")
Work = Callable[["Connection"], Awaitable[Result]]


class Connection(Protocol):
    """What a transaction offers: the named statements of `sql/queries.sql`, and its moment.

    A text that the disk has garbled is a `JournalUnavailable`; only a statement whose guarantee says so gives
    it, as bytes, so that its reader can tell one damaged row from the others.
    """

    def history_lost_at(self, namespace: str) -> Instant | None:
        """Give when history of `namespace` was lost last, as it stood when this transaction began."""
        ...

    def now(self, local: Reading) -> Reading:
        """Give the moment of this transaction; `local` is what this machine's clocks say.

        Where one machine keeps the journal that is `local` itself. Where many share it the wall clock is the
        database's, one for all, read when the transaction began; `monotonic` and `boot` stay this machine's.
        """
        ...

    async def fetch_one(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Row | None:
        """Run the statement called `statement` and give its first row, or None."""
        ...

    async def fetch_all(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Sequence[Row]:
        """Run the statement called `statement` and give all its rows."""
        ...

    async def execute(self, statement: str, parameters: Mapping[str, Any] | None = None) -> int:
        """Run the statement called `statement` and give the number of rows it changed."""
        ...

    async def execute_many(self, statement: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run the statement called `statement`, which gives no rows, once for each of `rows`, in order."""
        ...


class Database(Protocol):
    """A database that holds one journal."""

    async def write(self, work: Work[Result]) -> Result:
        """Run `work` in one serializable transaction and return its result once that is durable.

        Durability: when this returns, the commit is on stable storage. Isolation: `work` sees a state
        that no other writer changes before the commit. Atomicity: an exception from `work` undoes what
        it wrote and is raised here. Cancellation: the caller may be cancelled while it waits; `work` has
        then been committed whole or not at all, and which of the two is not told. `work` awaits nothing
        but its connection, and may be run again after a lost race, so it has no other effect.

        Raises:
            JournalUnavailable: busy, full, read-only, corrupt or unreachable; nothing of `work` was kept,
                except where the fault's `recorded` is None.
        """
        ...

    async def read(self, work: Work[Result]) -> Result:
        """Run `work` on one consistent snapshot that may not be changed.

        Raises:
            JournalUnavailable: as for `write`.
        """
        ...

    async def facts(self) -> Mapping[str, str | float]:
        """Give what `doctor` shows of this database: engine, version, location, each setting as read back.

        What is a number is given as one; a setting has the form that the engine itself gives it.
        """
        ...

    async def close(self) -> None:
        """End every connection and thread; idempotent."""
        ...
