"""A journal in one SQLite file: one connection that writes, one that reads, each in its own thread."""

import os
import sqlite3
import stat
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import anyio
import anyio.to_thread

from counterfoil.store.domain.instants import Instant
from counterfoil.store.protocol import Work
from counterfoil.store.sqlite.batch import GroupCommit, Job
from counterfoil.store.sqlite.binding import Bindings
from counterfoil.store.sqlite.faults import fault_for, is_corrupt, opening_fault
from counterfoil.store.sqlite.files import copy_out
from counterfoil.store.sqlite.guard import Guard
from counterfoil.store.sqlite.migrations import Migration, load_migrations
from counterfoil.store.sqlite.modes import READER_SETTINGS, settings_for
from counterfoil.store.sqlite.opening import Opened, prepare
from counterfoil.store.sqlite.outcome import closed
from counterfoil.store.sqlite.place import MOUNTS
from counterfoil.store.sqlite.thread import Thread, open_thread
from counterfoil.store.sqlite.transaction import Transaction, drive
from counterfoil.store.sqlite.turns import Turns
from counterfoil.store.sqlite.waiting import LockWait
from counterfoil.store.statements import Statements, load_statements

__all__ = ["SqliteDatabase", "open_sqlite"]

Result = TypeVar("Result")

_REBUILT_IN_MEMORY_BYTES = 256 * 1024 * 1024
"""Up to this size VACUUM builds the new file in memory, beyond it in an unnamed temporary file."""


async def open_sqlite(
    path: str | os.PathLike[str],
    *,
    fresh_values: Mapping[str, Any],
    busy_timeout_seconds: float = 5.0,
    statements: Statements | None = None,
    migrations: tuple[Migration, ...] | None = None,
    sqlite_version: tuple[int, ...] = sqlite3.sqlite_version_info,
    mounts: Path = MOUNTS,
) -> "SqliteDatabase":
    """Open the journal at `path`, or make a new one where nothing lies there; bring its schema up to date.

    `fresh_values` are the parameters of the migrations, which fill a new journal with them (its id, the time
    it was made, its key): no clock and no randomness here. `statements` and `migrations` default to those
    of this package. `sqlite_version` and `mounts` are for tests.

    Use it as `async with await open_sqlite(…) as database:`; leaving the block closes it. An open database
    keeps the interpreter alive, a failed opening leaves no thread behind.

    Raises:
        JournalUnavailable: the file, its place or this SQLite cannot keep the promises; nothing was changed.
        UnsupportedVersion: the journal's schema is newer than this program, or SQLite is too old.
    """
    wait = LockWait(busy_timeout_seconds)
    statements = load_statements(dialect="sqlite") if statements is None else statements
    known = load_migrations() if migrations is None else migrations

    def prepared() -> Opened:
        return prepare(
            path,
            migrations=known,
            fresh_values=fresh_values,
            wait=wait,
            sqlite_version=sqlite_version,
            mounts=mounts,
        )

    # Bounded, and not to be left half-way: a cancelled opening would strand a thread.
    with anyio.CancelScope(shield=True):
        opened = await anyio.to_thread.run_sync(prepared)
        try:
            writer = await open_thread(opened, extra={}, wait=wait)
            try:
                reader = await open_thread(opened, extra=READER_SETTINGS, wait=wait)
            except BaseException:
                await writer.close()
                raise
        except sqlite3.Error as error:
            raise opening_fault(error, path=opened.path) from error
    return SqliteDatabase(opened, statements=statements, writer=writer, reader=reader, wait=wait)


class SqliteDatabase:
    """The `Database` of one SQLite file; made by `open_sqlite`."""

    def __init__(
        self, opened: Opened, *, statements: Statements, writer: Thread, reader: Thread, wait: LockWait
    ) -> None:
        self._opened = opened
        self._bindings = Bindings(statements)
        self._writer = writer
        self._reader = reader
        self._wait = wait
        self._guard = Guard(opened, wait)
        self._turns = Turns(wait.seconds)
        self._commits = GroupCommit(self._bindings, self._guard, self._turns)
        self._is_closed = False
        self._closing = anyio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def write(self, work: Work[Result]) -> Result:
        """Run `work` in one serializable transaction and return its result once that is durable.

        As `Database.write` promises. Works that wait together share a commit; a failing one undoes only its
        own writes. A work that writes nothing costs no `fsync`.
        """
        if self._is_closed:
            raise closed()
        job = Job(work)
        self._commits.add(job)
        try:
            await self._writer.run(lambda raw: self._commits.commit_until(raw, job))
        except BaseException:
            # Not begun yet, it never will be; begun, it ends in the thread, whole or not at all.
            job.is_withdrawn = True
            raise
        return job.give()

    async def read(self, work: Work[Result]) -> Result:
        """Run `work` on one consistent snapshot that may not be changed, as `Database.read` promises."""
        if self._is_closed:
            raise closed()
        return await self._reader.run(lambda raw: self._read(raw, work))

    async def facts(self) -> Mapping[str, str | float]:
        """Give engine, version, place, size and each setting as read back now from the writing connection."""
        if self._is_closed:
            raise closed()
        return await self._writer.run(self._facts)

    async def integrity(self) -> list[str]:
        """Give every problem that SQLite finds in the whole file; none means it is whole.

        Reads every page, and in rollback mode no commit is possible meanwhile: for `check` and `doctor`.
        """
        if self._is_closed:
            raise closed()
        return await self._reader.run(self._integrity)

    async def copy_to(self, path: str | os.PathLike[str], *, backed_up_at: Instant) -> int:
        """Copy the whole journal, as it is at one moment, to a new private file; give its size in bytes.

        The copy is durable and was checked by opening it when this returns. See `files.copy_out`.

        Raises:
            JournalUnavailable: something lies at `path`, the journal is busy, or the copy is not whole.
        """
        if self._is_closed:
            raise closed()

        def copy(raw: sqlite3.Connection) -> int:
            self._guard.check_place()
            with self._turns.read():
                size = copy_out(
                    raw,
                    os.path.abspath(path),
                    backed_up_at=backed_up_at,
                    known=self._opened.schema_version,
                    wait=self._wait,
                )
            self._guard.check_place()
            return size

        return await self._reader.run(copy)

    async def reclaim(self) -> int:
        """Give the space of what was removed back to the disk, and give how many bytes that were.

        VACUUM writes the file anew and needs it alone; nothing that was removed is left in it or beside it.

        Raises:
            JournalUnavailable: the journal is in use; the space is then used again for what is recorded next.
        """
        if self._is_closed:
            raise closed()
        return await self._writer.run(self._reclaim)

    def _reclaim(self, raw: sqlite3.Connection) -> int:
        self._guard.check_place()
        self._guard.roll_back(raw)
        path, before = self._opened.path, os.stat(self._opened.path).st_size
        in_memory = before <= _REBUILT_IN_MEMORY_BYTES
        try:
            if not in_memory:
                raw.execute("PRAGMA temp_store = 1")
            # What was removed stands in the rollback journal as well, until that is cut.
            raw.execute("PRAGMA journal_size_limit = 0")
            with self._turns.commit():
                self._wait.execute(raw, "VACUUM")
            if self._opened.mode == "wal":
                self._wait.execute(raw, "PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise fault_for(error, statement="VACUUM") from error
        finally:
            for name in ("temp_store", "journal_size_limit"):
                raw.execute(f"PRAGMA {name} = {settings_for(self._opened.mode)[name]}")
        return max(0, before - os.stat(path).st_size)

    async def close(self) -> None:
        """End every connection and thread; idempotent.

        Writes that wait are finished, except that none waits for another process's lock any more.
        """
        self._is_closed = True
        self._wait.give_up()
        with anyio.CancelScope(shield=True):
            async with self._closing:
                try:
                    # A check of the whole file is not waited for.
                    await self._reader.interrupt()
                    await self._reader.close()
                finally:
                    await self._writer.close()

    def _read(self, raw: sqlite3.Connection, work: Work[Result]) -> Result:
        with self._turns.read():
            marks = self._guard.begin(raw, "BEGIN")
            transaction = Transaction(raw, self._bindings, marks=marks, is_read_only=True)
            try:
                return drive(work(transaction))
            finally:
                transaction.end()
                self._guard.roll_back(raw)

    def _integrity(self, raw: sqlite3.Connection) -> list[str]:
        found: list[str] = []
        self._guard.begin(raw, "BEGIN")
        try:
            found.extend(str(row[0]) for row in raw.execute("PRAGMA integrity_check"))
            if found != ["ok"]:
                return found
            broken = raw.execute("PRAGMA foreign_key_check").fetchall()
        except sqlite3.Error as error:
            if not is_corrupt(error):
                raise fault_for(error, statement="PRAGMA integrity_check") from error
            return [*found, f"the check itself ended: {error}"]
        finally:
            self._guard.roll_back(raw)
        return [f"{table}, row {row}: its {parent} is missing" for table, row, parent, _ in broken]

    def _facts(self, raw: sqlite3.Connection) -> dict[str, str | float]:
        opened = self._opened
        self._guard.check_place()
        found = os.stat(opened.path)
        try:
            ((mode,),) = self._wait.execute(raw, "PRAGMA journal_mode")
            ((version,),) = self._wait.execute(raw, "PRAGMA user_version")
            settings: dict[str, str | float] = {
                # A build that leaves a setting out answers with no row.
                name: row[0]
                for name in settings_for(opened.mode)
                if (row := raw.execute(f"PRAGMA {name}").fetchone()) is not None
            }
        except sqlite3.Error as error:
            raise fault_for(error, statement="PRAGMA journal_mode") from error
        # A round of the wait, and not the wait: that is `busy_timeout_seconds`.
        settings["busy_round_milliseconds"] = settings.pop("busy_timeout")
        settings["synchronous"] = {2: "FULL"}.get(int(settings["synchronous"]), settings["synchronous"])
        return {
            "engine": "SQLite",
            "sqlite_version": sqlite3.sqlite_version,
            "path": opened.path,
            "file_system": opened.file_system,
            "file_mode": f"{stat.S_IMODE(found.st_mode):04o}",
            "size_bytes": found.st_size,
            "schema_version": cast("int", version),
            "journal_mode": str(mode),
            "journal_mode_reason": opened.mode_reason,
            "busy_timeout_seconds": self._wait.seconds,
            **settings,
        }
