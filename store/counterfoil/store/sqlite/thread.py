"""One SQLite connection in its aiosqlite thread, and a way to run a whole function there in one hop."""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import aiosqlite

from counterfoil.store.sqlite.opening import Opened, configure, uri_of
from counterfoil.store.sqlite.outcome import Outcome, closed
from counterfoil.store.sqlite.waiting import LockWait

__all__ = ["Thread", "open_thread"]

_HOP = "-- run the function that is the only parameter"
_CACHED_STATEMENTS = 512
"""More than there are named statements, so that each is prepared once for each connection."""

Result = TypeVar("Result")


class _HoppingConnection(sqlite3.Connection):
    """A connection that takes a Python function where aiosqlite hands it a statement.

    aiosqlite runs single statements in its thread; this lets its public `execute` carry a whole
    transaction there, which one hop brings and one hop answers.
    """

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        """Run `sql`; or, for `_HOP`, the function that is its only parameter."""
        if sql is _HOP:
            parameters[0](self)
            return None
        return super().execute(sql, parameters)


class Thread:
    """A connection that only its own thread touches."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self._connection = connection

    async def run(self, function: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run `function` in the thread, after those asked for before, and return or raise what it does.

        A caller that is cancelled stops waiting. What has begun then runs to its end all the same, so it has
        to leave the connection fit for the next by itself; what has not begun never does.

        Raises:
            JournalUnavailable: the connection is closed.
        """
        outcome: Outcome[Result] = Outcome()

        def task(raw: sqlite3.Connection) -> None:
            if outcome.is_withdrawn:
                return
            try:
                outcome.succeed(function(raw))
            except BaseException as error:
                outcome.fail(error)

        try:
            await self._connection.execute(_HOP, [task])
        except ValueError as error:
            # aiosqlite's word for a closed connection; the function's own errors are in its outcome.
            raise closed() from error
        except BaseException:
            outcome.is_withdrawn = True
            raise
        return outcome.give()

    async def interrupt(self) -> None:
        """Make the statement that runs now, if any, end with an error; nothing else is harmed."""
        with suppress(ValueError):
            await self._connection.interrupt()

    async def close(self) -> None:
        """Run what was asked for before, close the connection and end the thread; idempotent."""
        await self._connection.close()


async def open_thread(opened: Opened, *, extra: Mapping[str, int], wait: LockWait) -> Thread:
    """Connect to the journal in a thread of its own; no thread is left behind where that fails."""
    connection = await aiosqlite.connect(
        uri_of(opened.path),
        uri=True,
        isolation_level=None,
        timeout=0.01,
        cached_statements=_CACHED_STATEMENTS,
        factory=_HoppingConnection,
    )
    thread = Thread(connection)
    try:
        await thread.run(lambda raw: configure(raw, mode=opened.mode, extra=extra, wait=wait))
    except BaseException:
        await thread.close()
        raise
    return thread
