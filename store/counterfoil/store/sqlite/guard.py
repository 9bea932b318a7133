"""Makes sure at the start of every transaction: the same file, same schema, a mode we may use."""

import sqlite3
from contextlib import suppress

from counterfoil.store.errors import Fault, JournalUnavailable
from counterfoil.store.history_marks import HistoryMarks
from counterfoil.store.sqlite.faults import fault_for
from counterfoil.store.sqlite.migrations import newer_schema
from counterfoil.store.sqlite.opening import Opened
from counterfoil.store.sqlite.waiting import LockWait

__all__ = ["Guard"]

_HAS_MARKS = "SELECT count(*) FROM sqlite_schema WHERE name = 'namespace_restores'"
_MARKS = """
    SELECT restored_at, namespace FROM restores LEFT JOIN namespace_restores USING (restored_at)
    WHERE ended_at IS NULL
"""


class Guard:
    """Begins and undoes transactions on one journal; costs a `stat` and three small reads, about 12 µs."""

    def __init__(self, opened: Opened, wait: LockWait) -> None:
        self._opened = opened
        self.wait = wait
        self.mode = opened.mode
        self._has_marks: int | None = None
        """Whether a journal of this schema can be marked at all; None until that was looked at."""

    def check_place(self, *, recorded: bool | None = False) -> None:
        """Make sure that the journal's file is still the one that was opened.

        Raises:
            JournalUnavailable: it was deleted, replaced or emptied.
        """
        self._opened.identity.check(self._opened.path, recorded=recorded)

    def begin(self, raw: sqlite3.Connection, statement: str) -> HistoryMarks:
        """Begin a transaction, take its lock, and look at what can have changed since the last one.

        Gives the marks of lost history.

        Raises:
            JournalUnavailable: busy, gone, or in a mode that this SQLite must not write.
            UnsupportedVersion: a newer program has migrated the journal meanwhile.
        """
        self.check_place()
        self.roll_back(raw)
        try:
            self.wait.execute(raw, statement)
            # The first read of a deferred transaction is what takes its lock and its snapshot.
            ((version,),) = self.wait.execute(raw, "PRAGMA user_version")
            ((mode,),) = self.wait.execute(raw, "PRAGMA journal_mode")
            fault, marks = self._fault(version, mode), self._marks(raw)
        except sqlite3.Error as error:
            self.roll_back(raw)
            raise fault_for(error, statement=statement) from error
        if fault is not None:
            self.roll_back(raw)
            raise fault
        return marks

    def roll_back(self, raw: sqlite3.Connection) -> None:
        """Leave no transaction open; if that fails now, the next `begin` tries again."""
        if raw.in_transaction:
            with suppress(sqlite3.Error):
                raw.execute("ROLLBACK")

    def _marks(self, raw: sqlite3.Connection) -> HistoryMarks:
        if self._has_marks is None:
            ((self._has_marks,),) = raw.execute(_HAS_MARKS)
        return raw.execute(_MARKS).fetchall() if self._has_marks else ()

    def _fault(self, version: object, mode: object) -> Fault | None:
        opened = self._opened
        if version != opened.schema_version:
            if isinstance(version, int) and version > opened.schema_version:
                return newer_schema(version, known=opened.schema_version, path=opened.path)
            return JournalUnavailable(
                f"{opened.path} is corrupt: its schema version became {version}",
                fix="stop; keep the file as it is, and restore a backup",
            )
        if mode == "wal" and not opened.wal_is_safe:
            return JournalUnavailable(
                f"{opened.path} was switched to WAL mode by another program while it was in use, and this "
                f"server must not write in WAL mode: {opened.mode_reason}",
                fix="stop the other program and start this server again; or use a Python with a newer SQLite",
            )
        return None
