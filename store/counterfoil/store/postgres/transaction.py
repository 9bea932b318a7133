"""One transaction as the journal sees it: each statement is a round trip to the server."""

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from msgspec.structs import replace
from psycopg.rows import DictRow

from counterfoil.store.domain.instants import Instant, Reading
from counterfoil.store.history_marks import HistoryMarks, newest_mark
from counterfoil.store.postgres.faults import sqlstate_of
from counterfoil.store.postgres.session import Patience, Session, SilentServer, answered, driver_fault
from counterfoil.store.protocol import Row
from counterfoil.store.statements import Statement, StatementRefused

__all__ = ["Transaction"]

_APPENDS = "append_event"

_FEW = 4
"""Up to so many rows are sent one by one; more in a pipeline, where the driver logs each lost race."""


class Transaction:
    """The `Connection` of one work; it is of no use once the work has ended."""

    __slots__ = (
        "_is_read_only",
        "_marks",
        "_moment",
        "_patience",
        "_session",
        "_statements",
        "appended",
        "lost_to",
    )

    def __init__(
        self,
        session: Session,
        statements: Mapping[str, Statement],
        *,
        moment: Instant | None,
        marks: HistoryMarks,
        patience: Patience,
        is_read_only: bool,
    ) -> None:
        """Use `session`, which is in a transaction; `moment` is the server's, None for the local clock."""
        self._session: Session | None = session
        self._statements = statements
        self._moment = moment
        self._marks = marks
        self._patience = patience
        self._is_read_only = is_read_only
        self.lost_to: psycopg.Error | SilentServer | None = None
        """The first error: PostgreSQL commits nothing after it, even if `work` hid it."""
        self.appended: Mapping[str, Any] | None = None
        """The last event that `work` appended to the log of a run. Events are never changed nor removed."""

    def history_lost_at(self, namespace: str) -> Instant | None:
        """Give the newest mark of lost history that counted in `namespace` when the transaction began."""
        return newest_mark(self._marks, namespace)

    def now(self, local: Reading) -> Reading:
        """Give the moment at which the transaction began, by the server's clock."""
        return local if self._moment is None else replace(local, at=self._moment)

    async def fetch_one(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Row | None:
        """Run the statement called `statement` and give its first row, or None."""
        rows, _ = await self._run(statement, parameters)
        return rows[0] if rows else None

    async def fetch_all(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Sequence[Row]:
        """Run the statement called `statement` and give all its rows."""
        rows, _ = await self._run(statement, parameters)
        return rows

    async def execute(self, statement: str, parameters: Mapping[str, Any] | None = None) -> int:
        """Run the statement called `statement` and give the number of rows it changed."""
        _, changed = await self._run(statement, parameters)
        return max(changed, 0)

    async def execute_many(self, statement: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run the statement called `statement`, which gives no rows, once for each of `rows`, in order."""
        if len(rows) <= _FEW:
            for row in rows:
                await self._run(statement, row)
            return
        session, sql = self._open(statement), self._statements[statement].sql
        try:
            await answered(session.cursor().executemany(sql, rows), self._patience)
        except (psycopg.Error, SilentServer) as error:
            raise self._fault(error, statement) from error
        if statement == _APPENDS:
            self.appended = rows[-1]

    def end(self) -> None:
        """Make the connection useless, so that a work that kept it cannot write outside its transaction."""
        self._session = None

    async def _run(self, name: str, parameters: Mapping[str, Any] | None) -> tuple[list[DictRow], int]:
        session, sql = self._open(name), self._statements[name].sql
        try:
            cursor = await answered(session.execute(sql, parameters or {}), self._patience)
            if name == _APPENDS:
                self.appended = parameters
            if cursor.description is None:
                return [], cursor.rowcount
            return await cursor.fetchall(), cursor.rowcount
        except (psycopg.Error, SilentServer) as error:
            raise self._fault(error, name) from error

    def _open(self, name: str) -> Session:
        if self._session is None:
            raise StatementRefused("its transaction has ended", statement=name)
        return self._session

    def _fault(self, error: psycopg.Error | SilentServer, name: str) -> Exception:
        """Give what to raise for an error, and note it: nothing may be committed after it."""
        self.lost_to = self.lost_to or error
        if self._is_read_only and sqlstate_of(error) == "25006":
            return StatementRefused("it writes, and a read may not", statement=name)
        return driver_fault(error, statement=name)
