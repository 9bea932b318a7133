"""Turns what SQLite's driver raises into faults with a mend: once, by error code, never by message text."""

import sqlite3
from typing import Final

from counterfoil.store.errors import Fault, JournalUnavailable
from counterfoil.store.statements import StatementRefused

__all__ = [
    "ends_transaction",
    "fault_for",
    "garbled_message",
    "is_busy",
    "is_corrupt",
    "is_garbled",
    "is_read_only",
    "opening_fault",
]

_NOTHING: Final = "nothing was recorded"
_LATER: Final = "do not act; send the same call again in a moment"

# Primary result code (sqlite.org/rescode.html) → what it means here, what to do, whether waiting helps.
_FAULTS: Final[dict[int, tuple[str, str, bool]]] = {
    sqlite3.SQLITE_BUSY: ("the journal is busy: another process holds its lock", _LATER, True),
    sqlite3.SQLITE_LOCKED: ("the journal is busy: another connection holds its lock", _LATER, True),
    sqlite3.SQLITE_PROTOCOL: ("the journal is busy: its lock was contended for too long", _LATER, True),
    sqlite3.SQLITE_INTERRUPT: ("the call was interrupted", _LATER, True),
    sqlite3.SQLITE_SCHEMA: ("the journal's schema was changed at this moment", _LATER, True),
    sqlite3.SQLITE_NOMEM: ("there is not enough memory", _LATER, True),
    sqlite3.SQLITE_FULL: (
        "the disk is full",
        "do not act; free space on the journal's disk, then send the same call again",
        False,
    ),
    sqlite3.SQLITE_READONLY: (
        "the journal is read-only",
        "make the journal's file and folder writable for this user, then send the same call again",
        False,
    ),
    sqlite3.SQLITE_PERM: (
        "the journal's file may not be accessed",
        "give this user access to the journal's file and folder",
        False,
    ),
    sqlite3.SQLITE_AUTH: (
        "the journal's file may not be accessed",
        "give this user access to the journal's file and folder",
        False,
    ),
    sqlite3.SQLITE_CANTOPEN: (
        "the journal or a side file of it cannot be opened",
        "check that the journal's folder exists and that this user may create files in it",
        False,
    ),
    sqlite3.SQLITE_IOERR: (
        "the disk answered with an error",
        "do not act; check the disk and its free space and quota, then send the same call again",
        False,
    ),
    sqlite3.SQLITE_NOLFS: (
        "the file system cannot hold a file of this size",
        "move the journal to another file system",
        False,
    ),
    sqlite3.SQLITE_CORRUPT: (
        "the journal is corrupt",
        "stop; keep the file as it is, run `counterfoil doctor`, and restore a backup",
        False,
    ),
    sqlite3.SQLITE_NOTADB: (
        "the journal is corrupt, or not a journal: the file is no SQLite database",
        "keep the file as it is; name the right file with --journal, or restore a backup",
        False,
    ),
}

# Trouble with the file rather than with one statement: SQLite may have undone the whole transaction, and
# what is left of it cannot be built upon.
_ENDS_TRANSACTION: Final = frozenset(_FAULTS)


def _primary(error: BaseException) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None


def is_busy(error: BaseException) -> bool:
    """Tell whether `error` says that another connection holds the lock."""
    return _primary(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)


def is_corrupt(error: BaseException) -> bool:
    """Tell whether `error` says that the file's content is broken."""
    return _primary(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_read_only(error: BaseException) -> bool:
    """Tell whether `error` says that something may not be written."""
    return _primary(error) == sqlite3.SQLITE_READONLY


def is_garbled(error: BaseException) -> bool:
    """Tell whether `error` says that a text in the file is no UTF-8: Python's own word, without a code."""
    return type(error) is sqlite3.OperationalError and _primary(error) is None


def garbled_message(error: UnicodeDecodeError) -> sqlite3.DatabaseError:
    """Give what SQLite said in a message that quotes garbled text, and that Python therefore cannot give."""
    said = sqlite3.DatabaseError(f"a message that quotes text which is no UTF-8: {error.reason}")
    said.sqlite_errorcode, said.sqlite_errorname = sqlite3.SQLITE_CORRUPT, "SQLITE_CORRUPT"
    return said


def ends_transaction(error: BaseException) -> bool:
    """Tell whether no work of the transaction in which `error` came up may be committed any more."""
    return _primary(error) in _ENDS_TRANSACTION


def fault_for(error: Exception, *, statement: str, recorded: bool | None = False) -> Fault | StatementRefused:
    """Give the fault for a driver error met in `statement`; raise it `from` the error.

    A code that speaks of the statement rather than of the file (constraint, syntax, a parameter's type) is
    a mistake in this program: `StatementRefused`.
    """
    code = sqlite3.SQLITE_CORRUPT if is_garbled(error) else _primary(error)
    if code not in _FAULTS:
        return StatementRefused(str(error), statement=statement)
    problem, fix, retryable = _FAULTS[code]
    name = getattr(error, "sqlite_errorname", "a text in it is no UTF-8")
    if recorded is None:
        outcome = "whether the call was recorded cannot be told"
        fix = f"send the same call again with the same call_id: it is recorded once; {fix}"
    else:
        outcome = _NOTHING
    return JournalUnavailable(
        f"{problem} ({name}); {outcome}", fix=fix, retryable=retryable, recorded=recorded
    )


def opening_fault(error: Exception, *, path: str) -> Fault:
    """Give the fault of a file that cannot be opened; what SQLite has no code for lies in its content."""
    fault = fault_for(error, statement=f"opening {path}")
    if isinstance(fault, Fault):
        return fault
    return JournalUnavailable(
        f"the journal at {path} cannot be opened: it is corrupt, or in a form that this SQLite does not "
        "know; nothing was recorded",
        fix="keep the file as it is, run `counterfoil doctor`, and restore a backup",
    )
