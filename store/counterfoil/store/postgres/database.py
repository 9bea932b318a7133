"""A journal in PostgreSQL: a pool of connections, serializable transactions, lost races run again."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import anyio
import anyio.lowlevel
import psycopg
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from counterfoil.store.errors import JournalUnavailable
from counterfoil.store.failpoints import failpoint
from counterfoil.store.postgres.faults import (
    LOCK_NOT_AVAILABLE,
    busy,
    closed,
    is_connection_lost,
    is_lost_race,
    is_statement_gone,
    is_taken_key,
    sqlstate_of,
)
from counterfoil.store.postgres.session import (
    Patience,
    Place,
    Session,
    SilentServer,
    answered,
    driver_fault,
)
from counterfoil.store.postgres.transaction import Transaction
from counterfoil.store.protocol import Work
from counterfoil.store.statements import Statements

__all__ = ["PostgresDatabase"]

Result = TypeVar("Result")

_TAKEN_KEYS: Final = 3
"""So often a taken key is put down to a race; one that is still taken then is a mistake of this program."""


class _Retry(Exception):
    """The transaction came to nothing, and may be run again."""

    def __init__(self, cause: psycopg.Error | SilentServer) -> None:
        super().__init__()
        self.cause = cause


class PostgresDatabase:
    """The `Database` of one journal in PostgreSQL; made by `opening.py`."""

    def __init__(
        self,
        pool: AsyncConnectionPool[Session],
        *,
        shown: str,
        statements: Statements,
        known: int,
        gives_time: bool,
        patience: Patience,
    ) -> None:
        self._pool = pool
        self._shown = shown
        self._statements = statements
        self._known = known
        self._gives_time = gives_time
        self._patience = patience
        self._is_closed = False
        self._prepares = True
        """Off once a prepared statement was not where it was prepared."""
        self._lent = 0
        self._turn = anyio.Lock()
        self._confirmed: Mapping[str, Any] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def write(self, work: Work[Result]) -> Result:
        """Run `work` in one serializable transaction and return its result once that is durable.

        As `Database.write` promises. SERIALIZABLE: what `work` read is still so when it commits, in whatever
        run it lies; of two that contradict each other the later is run again, `statement_seconds` at most.
        """
        failpoint("before_begin")
        return await self._repeated(work, is_read_only=False)

    async def read(self, work: Work[Result]) -> Result:
        """Run `work` on one consistent snapshot that may not be changed, as `Database.read` promises."""
        return await self._repeated(work, is_read_only=True)

    async def facts(self) -> Mapping[str, str | float]:
        """Give engine, version, place and each setting as read back now inside a writing transaction."""
        async with self._session() as session:
            try:
                begun = await session.begin(is_read_only=False, patience=self._patience, known=self._known)
                cursor = await answered(session.execute(_FACTS), self._patience)
                row = await cursor.fetchone() or {}
            except (psycopg.Error, SilentServer) as error:
                raise driver_fault(error, statement="facts") from error
        return {
            "engine": "PostgreSQL",
            "location": self._shown,
            "schema_version": begun.schema_version,
            "clock": "the database's" if self._gives_time else "this machine's",
            "connections": self._pool.get_stats().get("pool_size", 0),
            "most_connections": self._pool.max_size,
            "busy_timeout_seconds": self._patience.busy_seconds,
            **row,
        }

    async def close(self) -> None:
        """End every connection; idempotent. Transactions that run are finished first."""
        self._is_closed = True
        with anyio.CancelScope(shield=True):
            await self._pool.close()

    async def _repeated(self, work: Work[Result], *, is_read_only: bool) -> Result:
        """Run `work` until it goes through; who has lost a race stands in line from then on."""
        # What follows is shielded nearly everywhere: who was cancelled before begins nothing.
        await anyio.lowlevel.checkpoint()
        deadline = anyio.current_time() + self._patience.statement_seconds
        lost = taken = broken = 0
        async with AsyncExitStack() as line:
            while True:
                place = Place.after(lost)
                try:
                    async with self._session() as session:
                        seconds = deadline - anyio.current_time()
                        return await self._once(
                            session, work, is_read_only=is_read_only, place=place, line_seconds=seconds
                        )
                except _Retry as again:
                    cause = again.cause
                    self._prepares = self._prepares and not is_statement_gone(cause)
                    if anyio.current_time() >= deadline or taken + is_taken_key(cause) > _TAKEN_KEYS:
                        raise driver_fault(cause, statement="the work") from cause
                    taken += is_taken_key(cause)
                    if is_connection_lost(cause):
                        await anyio.sleep(min(0.001 * 2**broken, 0.05))
                        broken += 1
                    else:
                        lost += 1
                        if lost == 1:
                            await line.enter_async_context(self._in_line(deadline))

    @asynccontextmanager
    async def _in_line(self, deadline: float) -> AsyncIterator[None]:
        """Let those of this process that lost a race go one by one, holding no connection meanwhile."""
        try:
            with anyio.fail_after(max(0, deadline - anyio.current_time())):
                await self._turn.acquire()
        except TimeoutError as error:
            raise busy() from error
        try:
            yield
        finally:
            self._turn.release()

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Session]:
        """Lend a connection, and take it back without a transaction open on it."""
        if self._is_closed:
            raise closed()
        try:
            session = await self._pool.getconn(timeout=self._patience.busy_seconds)
        except PoolClosed:
            raise closed() from None
        except PoolTimeout as error:
            raise self._none_free() from error
        self._lent += 1
        if not self._prepares:
            session.prepare_threshold = None
        try:
            yield session
        finally:
            self._lent -= 1
            with anyio.CancelScope(shield=True):
                try:
                    await session.end(self._patience)
                finally:
                    await self._pool.putconn(session)

    def _none_free(self) -> JournalUnavailable:
        if self._lent >= self._pool.max_size:
            problem = f"all {self._pool.max_size} connections to the database are in use"
        else:
            problem = "there is no connection to the database: it cannot be reached"
        return JournalUnavailable(
            f"{problem}; nothing was recorded",
            fix="do not act; send the same call again in a moment",
            retryable=True,
        )

    async def _once(
        self, session: Session, work: Work[Result], *, is_read_only: bool, place: Place, line_seconds: float
    ) -> Result:
        patience = self._patience
        # Asked for before the snapshot is taken, which then has to show it.
        confirmed = self._confirmed
        try:
            begun = await session.begin(
                is_read_only=is_read_only,
                patience=patience,
                known=self._known,
                place=place,
                line_seconds=line_seconds,
            )
        except psycopg.Error as error:
            # Nothing was done yet: one that broke while nobody used it is no reason to refuse the call.
            if (
                is_connection_lost(error)
                or is_lost_race(error)
                or (place is Place.ALONE and sqlstate_of(error) == LOCK_NOT_AVAILABLE)
            ):
                raise _Retry(error) from error
            raise driver_fault(error, statement="BEGIN") from error
        except SilentServer as error:
            raise driver_fault(error, statement="BEGIN") from error
        if not is_read_only:
            failpoint("after_begin")
        transaction = Transaction(
            session,
            self._statements,
            moment=begun.at if self._gives_time else None,
            marks=begun.marks,
            patience=patience,
            is_read_only=is_read_only,
        )
        try:
            if not session.is_trusted:
                await _look_for(confirmed, transaction, session)
                session.is_trusted = True
            result = await work(transaction)
        except Exception as error:
            if (lost_to := transaction.lost_to) is not None and _may_repeat(lost_to):
                raise _Retry(lost_to) from error
            raise
        finally:
            transaction.end()
        if (lost_to := transaction.lost_to) is not None:
            if _may_repeat(lost_to):
                raise _Retry(lost_to)
            raise driver_fault(lost_to, statement="the work") from lost_to
        if not is_read_only:
            await self._commit(session, transaction, has_standby=begun.has_standby)
            self._confirmed = transaction.appended or self._confirmed
        return result

    async def _commit(self, session: Session, transaction: Transaction, *, has_standby: bool) -> None:
        failpoint("before_commit")
        try:
            await session.commit_now(self._patience, has_standby=has_standby)
        except psycopg.Error as error:
            if _may_repeat(error):
                raise _Retry(error) from error
            # A commit whose answer was lost may have happened.
            is_unknown = is_connection_lost(error) or sqlstate_of(error) == "57014"
            raise driver_fault(error, statement="COMMIT", recorded=None if is_unknown else False) from error
        except SilentServer as error:
            raise driver_fault(error, statement="COMMIT", recorded=None) from error
        failpoint("after_commit")


async def _look_for(confirmed: Mapping[str, Any] | None, transaction: Transaction, session: Session) -> None:
    """Make sure that a database still has the newest event whose commit was confirmed to this server.

    A new connection may lead elsewhere than the last one: to a standby that was behind, an old primary that
    came back, or a database that was set back. None of them can tell that of itself.
    """
    if confirmed is None:
        return
    place = {name: confirmed[name] for name in ("namespace", "run")}
    event = await transaction.fetch_one("read_events", {**place, "after": confirmed["seq"] - 1, "most": 1})
    if event is None or (event["seq"], event["hash"]) != (confirmed["seq"], confirmed["hash"]):
        # The next one may lead elsewhere.
        session.give_up()
        raise JournalUnavailable(
            "the database lacks what it had confirmed to this server: it was set back, or one that was "
            "behind has taken its place; nothing was recorded",
            fix="do not act; let an operator look what was lost and run `counterfoil restore --mark`; "
            "then start the server again",
        )


def _may_repeat(error: BaseException) -> bool:
    return is_lost_race(error) or is_taken_key(error) or is_statement_gone(error)


_FACTS: Final = """
    SELECT
        current_setting('server_version') AS server_version,
        current_database() AS database,
        current_user AS role,
        current_setting('transaction_isolation') AS isolation,
        current_setting('fsync') AS fsync,
        current_setting('full_page_writes') AS full_page_writes,
        current_setting('synchronous_commit') AS synchronous_commit,
        current_setting('synchronous_standby_names') AS synchronous_standby_names,
        COALESCE((SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()), 'none') AS tls
"""
