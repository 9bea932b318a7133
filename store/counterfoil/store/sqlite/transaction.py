"""One transaction as the journal sees it, driven to its end inside aiosqlite's thread in a single hop.

A hop to that thread and back costs about 80 µs, several times what a statement costs. So a whole `work`
is run there: its connection never makes it wait, and a coroutine that never waits is finished by one `send`.
"""

import sqlite3
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

from counterfoil.store.domain.instants import Instant, Reading
from counterfoil.store.history_marks import HistoryMarks, newest_mark
from counterfoil.store.protocol import Row
from counterfoil.store.sqlite.binding import Bindings
from counterfoil.store.sqlite.faults import (
    ends_transaction,
    fault_for,
    garbled_message,
    is_garbled,
    is_read_only,
)
from counterfoil.store.statements import StatementRefused

__all__ = ["Transaction", "drive"]

Result = TypeVar("Result")

GARBLED = "Garbled text comes as bytes."
"""What the guarantee of a statement says whose reader tells the damaged rows from the others."""


class Transaction:
    """The `Connection` of one work; it is of no use once the work has ended."""

    __slots__ = ("_bindings", "_is_read_only", "_marks", "_raw", "lost_to")

    def __init__(
        self, raw: sqlite3.Connection, bindings: Bindings, *, marks: HistoryMarks, is_read_only: bool
    ) -> None:
        self._bindings = bindings
        self._marks = marks
        self._is_read_only = is_read_only
        self._raw: sqlite3.Connection | None = raw
        self.lost_to: sqlite3.Error | None = None
        """The error after which nothing of this transaction may be committed, even if `work` hid it."""

    def history_lost_at(self, namespace: str) -> Instant | None:
        """Give the newest mark of lost history that counted in `namespace` when the transaction began."""
        return newest_mark(self._marks, namespace)

    def now(self, local: Reading) -> Reading:
        """Give the moment: whoever shares a file shares this machine's clocks."""
        return local

    async def fetch_one(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Row | None:
        """Run the statement called `statement` and give its first row, or None."""
        rows, _ = self._run(statement, parameters)
        return rows[0] if rows else None

    async def fetch_all(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Sequence[Row]:
        """Run the statement called `statement` and give all its rows."""
        rows, _ = self._run(statement, parameters)
        return rows

    async def execute(self, statement: str, parameters: Mapping[str, Any] | None = None) -> int:
        """Run the statement called `statement` and give the number of rows it changed."""
        _, changed = self._run(statement, parameters)
        return max(changed, 0)

    async def execute_many(self, statement: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run the statement called `statement`, which gives no rows, once for each of `rows`, in order."""
        raw, bound = self._open(statement), self._bindings[statement]
        cursor = raw.cursor()
        try:
            cursor.executemany(bound.sql, map(bound.in_order, rows))
        except KeyError as error:
            raise _not_given(error, statement) from error
        except UnicodeDecodeError as error:
            raise self._fault(garbled_message(error), statement) from error
        except (sqlite3.Error, OverflowError) as error:
            raise self._fault(error, statement) from error
        finally:
            cursor.close()

    def end(self) -> None:
        """Make the connection useless, so that a work that kept it cannot write outside its transaction."""
        self._raw = None

    def _run(self, name: str, parameters: Mapping[str, Any] | None) -> tuple[list[Row], int]:
        raw, bound = self._open(name), self._bindings[name]
        try:
            values = bound.in_order({} if parameters is None else parameters)
        except KeyError as error:
            raise _not_given(error, name) from error
        try:
            try:
                cursor, found = _drained(raw, bound.sql, values)
            except sqlite3.OperationalError as error:
                if not (is_garbled(error) and GARBLED in bound.statement.guarantee):
                    raise
                cursor, found = _with_garbled_text(raw, bound.sql, values)
        except (sqlite3.Error, OverflowError) as error:
            raise self._fault(error, name) from error
        if not found:
            return [], cursor.rowcount
        columns = self._bindings.columns(name, cursor)
        return [dict(zip(columns, row, strict=True)) for row in found], cursor.rowcount

    def _open(self, name: str) -> sqlite3.Connection:
        if self._raw is None:
            raise StatementRefused("its transaction has ended", statement=name)
        return self._raw

    def _fault(self, error: sqlite3.Error | OverflowError, name: str) -> Exception:
        """Give what to raise for an error of SQLite's, and note where nothing may be committed after it."""
        if self._is_read_only and is_read_only(error):
            return StatementRefused("it writes, and a read may not", statement=name)
        if isinstance(error, sqlite3.Error) and ends_transaction(error):
            self.lost_to = error
        return fault_for(error, statement=name)


def _not_given(error: KeyError, name: str) -> StatementRefused:
    return StatementRefused(f"the parameter {error} is not given", statement=name)


def _drained(raw: sqlite3.Connection, sql: str, values: Sequence[Any]) -> tuple[sqlite3.Cursor, list[Any]]:
    """Run `sql` to its end: half-way it would keep its lock, and RETURNING counts only at its end."""
    cursor = raw.cursor()
    try:
        cursor.execute(sql, values)
        return cursor, cursor.fetchall()
    except BaseException as error:
        # Whoever keeps the error keeps the cursor, and with it the lock.
        cursor.close()
        if isinstance(error, UnicodeDecodeError):
            raise garbled_message(error) from error
        raise


def _with_garbled_text(
    raw: sqlite3.Connection, sql: str, values: Sequence[Any]
) -> tuple[sqlite3.Cursor, list[Any]]:
    """Run `sql` and give each text that is no UTF-8 as its bytes; a journal holds no others."""

    def text(content: bytes) -> str | bytes:
        try:
            return content.decode()
        except UnicodeDecodeError:
            return content

    raw.text_factory = text
    try:
        return _drained(raw, sql, values)
    finally:
        raw.text_factory = str


def drive(awaitable: Awaitable[Result]) -> Result:
    """Run `awaitable` to its end here and now.

    Raises:
        RuntimeError: it awaited something other than its connection; only that can suspend it.
    """
    steps = awaitable.__await__()
    try:
        next(steps)
    except StopIteration as stop:
        result: Result = stop.value
        return result
    steps.close()
    raise RuntimeError("a work awaits nothing but its connection; this one waited for something else")
