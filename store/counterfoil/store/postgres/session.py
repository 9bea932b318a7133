"""One connection to the server: how a transaction begins on it, what is read back there, and how it ends.

Everything that a transaction needs is set in its own first message, never on the connection: so nothing
depends on who used the connection before, and that message costs one round trip.
"""

from collections.abc import Awaitable
from enum import Enum
from typing import Any, Final, Self, TypeVar

import anyio
import psycopg
from msgspec import Struct
from psycopg.abc import Buffer
from psycopg.pq import TransactionStatus
from psycopg.rows import DictRow, dict_row
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import StrDumper

from counterfoil.store.domain.instants import Instant
from counterfoil.store.errors import Fault, InvalidArgument, JournalUnavailable, UnsupportedVersion
from counterfoil.store.history_marks import HistoryMarks
from counterfoil.store.postgres.faults import fault_for, silent

__all__ = [
    "SCHEMA",
    "Begun",
    "Patience",
    "Place",
    "Session",
    "SilentServer",
    "answered",
    "driver_fault",
    "newer_schema",
]

SCHEMA: Final = "counterfoil"
"""The schema that holds the tables: made by the first migration, and never mixed with others' tables."""

_SEEN: Final = "SELECT pg_logical_emit_message(true, 'counterfoil', ''); "
"""Writes a few bytes, so that the commit behind it waits for the standby, and with it for all before it.

A commit whose wait was cancelled, or that its server had on disk when it crashed, is seen by others although
no standby has it. A transaction that only reads waits for nothing: a call sent again would find its own
record here and be told that it is kept, and a failover would prove that wrong.
"""

_LINE: Final = f"""
    SET LOCAL lock_timeout = {{lock_timeout}};
    LOCK TABLE {SCHEMA}.schema_version IN {{mode}} MODE;
"""
"""Takes a writer's place among the others; see `Place`.

It comes before the first SELECT, and so before the snapshot: what those before committed is seen. To ask for
an advisory lock is a SELECT, which would see what was there before the wait, and lose again.
"""

Result = TypeVar("Result")


class Patience(Struct, frozen=True, kw_only=True):
    """How long what is waited for. Seconds.

    `busy_seconds`: for a free connection, and for a lock.
    `statement_seconds`: what the server lets one statement take, and how long a transaction that loses races
    is run again.
    `silence_seconds`: for any answer at all, also that of a commit which waits for a standby; then the
    connection is given up: the server is paused or gone.
    """

    busy_seconds: float = 5.0
    statement_seconds: float = 20.0
    silence_seconds: float = 25.0


class Place(Enum):
    """Beside which other writers a transaction runs: the mode of its lock on the schema's version.

    `FREE`: beside all but one that is alone. `IN_LINE`: as well, but one after the other of those in line, of
    whatever server. `ALONE`: beside nobody, so that it cannot lose a race. Who reads only is barred by none.
    """

    FREE = "ROW SHARE"
    IN_LINE = "SHARE UPDATE EXCLUSIVE"
    ALONE = "EXCLUSIVE"

    @classmethod
    def after(cls, lost: int) -> "Place":
        """Give the place of one that has lost so many races."""
        return (cls.FREE, cls.IN_LINE, cls.ALONE)[min(lost, 2)]


class Begun(Struct, frozen=True, kw_only=True):
    """What the server said when a transaction began."""

    at: Instant
    schema_version: int
    has_standby: bool
    """Whether the server lets commits wait for a synchronous standby."""
    marks: HistoryMarks


class SilentServer(Exception):
    """The server did not answer in time; the connection cannot be used any more."""


class _WholeNumber(Int8Dumper):
    """Sends every whole number as bigint, and a truth value as 0 or 1: as SQLite keeps them."""

    def dump(self, obj: int) -> Buffer | None:
        return b"%d" % obj


class _Text(StrDumper):
    """Sends text as text; there is one character that PostgreSQL keeps nowhere."""

    def dump(self, obj: str) -> Buffer | None:
        if "\0" in obj:
            raise InvalidArgument("text", "holds the character NUL", accepted="text without it")
        return super().dump(obj)


class Session(psycopg.AsyncConnection[DictRow]):
    """A connection that is always in autocommit mode: BEGIN and COMMIT are said in so many words."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.row_factory = dict_row
        self.warned: list[str] = []
        """The SQLSTATEs of the warnings that came since the list was emptied."""
        self.is_trusted = False
        """Whether it was seen to lead to a database that has what this server was confirmed before."""
        self.add_notice_handler(self._note)
        self.adapters.register_dumper(int, _WholeNumber)
        self.adapters.register_dumper(bool, _WholeNumber)
        self.adapters.register_dumper(str, _Text)

    def _note(self, notice: psycopg.errors.Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":
            self.warned.append(notice.sqlstate or "")

    @classmethod
    async def opened(cls, conninfo: str) -> Self:
        """Connect outside the pool."""
        return await cls.connect(conninfo, autocommit=True)

    async def begin(
        self,
        *,
        is_read_only: bool,
        patience: Patience,
        known: int,
        place: Place = Place.FREE,
        line_seconds: float = 0.0,
    ) -> Begun:
        """Begin a transaction, and look at what may have changed since the last one.

        `place`: beside which other writers; `line_seconds`: how long at most to stand in line for it.

        Raises:
            JournalUnavailable: the server would not make a commit durable, or the journal is not there.
            UnsupportedVersion: a newer program has migrated it.
            psycopg.Error, SilentServer: as the driver raises them.
        """
        cursor = await answered(self.execute(_begin(is_read_only, patience, place, line_seconds)), patience)
        while cursor.nextset():
            pass
        row = await cursor.fetchone()
        if row is None:
            raise JournalUnavailable(
                "the journal is damaged: its schema has no version; nothing was recorded",
                fix="stop; restore a backup",
            )
        fault = _unfit(row, known=known)
        if fault is not None:
            raise fault
        return Begun(
            at=row["at"],
            schema_version=row["version"],
            has_standby=row["has_standby"],
            marks=[(at, namespace) for at, namespace in row["marks"] or ()],
        )

    async def commit_now(self, patience: Patience, *, has_standby: bool = False) -> None:
        """Commit; when this returns, it is on stable storage wherever the server was set up to put it.

        With `has_standby` that holds for all that the transaction read as well, even where it wrote nothing.

        Raises:
            JournalUnavailable: the server committed here and gave up waiting for its standby, of which it
                only warns; whether the commit survives a failover cannot be told.
            psycopg.Error, SilentServer: as the driver raises them.
        """
        self.warned.clear()
        cursor = await answered(self.execute(_SEEN + "COMMIT" if has_standby else "COMMIT"), patience)
        while cursor.nextset():
            pass
        if cursor.statusmessage != "COMMIT":
            # What PostgreSQL answers where an earlier statement failed: nothing was kept.
            raise JournalUnavailable(
                "the database undid the transaction; nothing was recorded",
                fix="send the call again",
                retryable=True,
            )
        if self.warned:
            raise JournalUnavailable(
                "the database committed without its standby "
                f"({', '.join(self.warned)}); whether the call was recorded for good cannot be told",
                fix="send the same call again with the same call_id: it is recorded once; "
                "and let somebody look at the standby",
                retryable=True,
                recorded=None,
            )

    async def end(self, patience: Patience) -> None:
        """Leave no transaction open: undo one that is, or give the connection up where that fails."""
        if self.closed:
            return
        status = self.pgconn.transaction_status
        if status == TransactionStatus.IDLE:
            return
        if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            try:
                await answered(self.execute("ROLLBACK"), patience)
            except (psycopg.Error, SilentServer):
                self.give_up()
            return
        self.give_up()

    def give_up(self) -> None:
        """Close the socket at once, without a word to the server."""
        self.pgconn.finish()


async def answered(call: Awaitable[Result], patience: Patience) -> Result:
    """Await the server's answer whole: a cancelled caller does not break off what the server is doing.

    Raises:
        SilentServer: there was none in time.
    """
    with anyio.move_on_after(patience.silence_seconds, shield=True):
        return await call
    raise SilentServer


def _begin(is_read_only: bool, patience: Patience, place: Place, line_seconds: float) -> str:
    statement = round(patience.statement_seconds * 1000)
    busy = round(patience.busy_seconds * 1000)
    # Whoever waits to be alone keeps others waiting: less long than they have patience.
    waits = {Place.FREE: busy, Place.IN_LINE: max(1, round(line_seconds * 1000)), Place.ALONE: busy // 2}
    line = "" if is_read_only else _LINE.format(lock_timeout=waits[place], mode=place.value)
    mode = "REPEATABLE READ READ ONLY" if is_read_only else "SERIALIZABLE READ WRITE"
    return f"""
        BEGIN ISOLATION LEVEL {mode};
        {line}
        SET LOCAL search_path = {SCHEMA}, pg_temp;
        SET LOCAL statement_timeout = {statement};
        SET LOCAL lock_timeout = {busy};
        SET LOCAL idle_in_transaction_session_timeout = {statement};
        -- What was read is held against other writers: by way of an index less than the whole table.
        SET LOCAL enable_seqscan = off;
        -- That raises estimates so far that every statement would be compiled first, which takes longer.
        SET LOCAL jit = off;
        SELECT
            version,
            (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS at,
            (
                SELECT json_agg(json_build_array(restored_at, namespace))
                FROM restores LEFT JOIN namespace_restores USING (restored_at)
                WHERE ended_at IS NULL
            ) AS marks,
            current_setting('fsync') AS fsync,
            COALESCE(current_setting('synchronous_standby_names', true), '') <> '' AS has_standby,
            set_config(
                'synchronous_commit',
                CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on'
                END,
                true
            ) AS synchronous_commit
        FROM schema_version
        WHERE "only" = 1
    """


def _unfit(row: DictRow, *, known: int) -> Fault | None:
    if row["fsync"] != "on" or row["synchronous_commit"] not in ("on", "remote_apply"):
        return JournalUnavailable(
            f"the database does not make commits durable (fsync={row['fsync']}, "
            f"synchronous_commit={row['synchronous_commit']}); nothing was recorded",
            fix="set fsync = on in the server's configuration; a journal that forgets guards nothing",
        )
    if row["version"] > known:
        return newer_schema(row["version"], known=known)
    if row["version"] < known:
        return JournalUnavailable(
            f"the journal's schema went back to version {row['version']}; nothing was recorded",
            fix="start the server again",
        )
    return None


def newer_schema(version: int, *, known: int) -> UnsupportedVersion:
    """Give the fault for a journal that a newer program has migrated."""
    return UnsupportedVersion(
        f"the journal has schema version {version}, this program knows up to {known}; "
        "an older program never writes to a newer journal; nothing was recorded",
        fix="update counterfoil, or name another journal with --journal",
    )


def driver_fault(
    error: psycopg.Error | SilentServer, *, statement: str, recorded: bool | None = False
) -> Exception:
    """Give the fault for what the driver raised, or for a server that stayed silent."""
    if isinstance(error, SilentServer):
        return silent(recorded=recorded)
    return fault_for(error, statement=statement, recorded=recorded)
