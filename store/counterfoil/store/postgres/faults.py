"""Turns what PostgreSQL or its driver raises into faults with a mend: once, by SQLSTATE, never by text."""

from typing import Final

import psycopg

from counterfoil.store.errors import Fault, JournalUnavailable
from counterfoil.store.statements import StatementRefused

__all__ = [
    "LOCK_NOT_AVAILABLE",
    "closed",
    "fault_for",
    "is_connection_lost",
    "is_lost_race",
    "is_statement_gone",
    "is_taken_key",
    "silent",
    "sqlstate_of",
]

_LATER: Final = "do not act; send the same call again in a moment"
_ASK: Final = "ask whoever runs the database; `counterfoil doctor` shows which one is meant"

# SQLSTATE or its class (postgresql.org/docs/current/errcodes-appendix.html) → what it means here, what to do,
# whether waiting helps. The whole code goes before its class.
_FAULTS: Final[dict[str, tuple[str, str, bool]]] = {
    "40": ("the journal is busy: other writers went first again and again", _LATER, True),
    "55P03": ("the journal is busy: another writer holds its lock", _LATER, True),
    "57014": ("the database took too long", _LATER, True),
    "08": ("the connection to the database was lost", _LATER, True),
    "57P": ("the database is going down or starting up", _LATER, True),
    "25P03": ("the database ended a transaction that had been left idle", _LATER, True),
    "25P04": ("the database ended a transaction that took too long", _LATER, True),
    "25006": ("the database is read-only: a standby, or not yet promoted", _LATER, True),
    "53100": ("the database's disk is full", "do not act; free space there, then send the call again", False),
    "53": ("the database has no resources left: connections, memory or disk", _LATER, True),
    "28": (
        "the database refuses this user",
        "check user and password (~/.pgpass, PGPASSWORD) and the server's pg_hba.conf",
        False,
    ),
    "3D000": ("there is no such database", "create it, or name another with --journal", False),
    "42501": (
        "this user may not do that in the database",
        "let an operator run `counterfoil migrate`, and grant this user the tables of the schema counterfoil",
        False,
    ),
    "42P01": ("the journal's tables are not there", _ASK, False),
    "3F000": ("the journal's schema is not there", _ASK, False),
    "58": ("the database's disk answered with an error", _ASK, False),
    "XX001": ("the database is corrupt", "stop; restore a backup", False),
    "XX002": ("the database is corrupt", "stop; restore a backup", False),
}
_UNREACHABLE: Final = ("the database cannot be reached, or its connection was lost", _LATER, True)

LOCK_NOT_AVAILABLE: Final = "55P03"
_LOST: Final = ("08", "57P", "25P03", "25P04")


def sqlstate_of(error: BaseException) -> str | None:
    """Give the code that the server sent; None where the driver itself gave up."""
    return error.sqlstate if isinstance(error, psycopg.Error) else None


def is_lost_race(error: BaseException) -> bool:
    """Tell whether the transaction was undone because another went first, and may simply be run again."""
    return sqlstate_of(error) in ("40001", "40P01")


def is_taken_key(error: BaseException) -> bool:
    """Tell whether a unique key was taken: another writer's doing where it came between read and write."""
    return sqlstate_of(error) == "23505"


def is_statement_gone(error: BaseException) -> bool:
    """Tell whether a prepared statement is gone: a pooler lends another server for each transaction."""
    return sqlstate_of(error) in ("26000", "42P05")


def is_connection_lost(error: BaseException) -> bool:
    """Tell whether nothing more can be said to the server on this connection."""
    code = sqlstate_of(error)
    if code is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return code.startswith(_LOST)


def fault_for(error: Exception, *, statement: str, recorded: bool | None = False) -> Fault | StatementRefused:
    """Give the fault for a driver's error met in `statement`; raise it `from` the error.

    A code that speaks of the statement (constraint, syntax, type) is a mistake in this program:
    `StatementRefused`.
    """
    code = sqlstate_of(error)
    if code is None and is_connection_lost(error):
        return _unavailable(*_UNREACHABLE, name=type(error).__name__, recorded=recorded)
    code = code or ""
    found = _FAULTS.get(code) or _FAULTS.get(code[:3]) or _FAULTS.get(code[:2])
    if found is None:
        return StatementRefused(str(error), statement=statement)
    return _unavailable(*found, name=code, recorded=recorded)


def busy() -> JournalUnavailable:
    """Give the fault for a turn that did not come in time."""
    return _unavailable(*_FAULTS["40"], name="no turn", recorded=False)


def silent(*, recorded: bool | None) -> JournalUnavailable:
    """Give the fault for a server that did not answer in time."""
    return _unavailable("the database does not answer", _LATER, True, name="no answer", recorded=recorded)


def closed() -> JournalUnavailable:
    """Give the fault of a call that came after `close`."""
    return JournalUnavailable("the journal was closed; nothing was recorded", fix="start the server again")


def _unavailable(
    problem: str, fix: str, retryable: bool, *, name: str, recorded: bool | None
) -> JournalUnavailable:
    if recorded is None:
        outcome = "whether the call was recorded cannot be told"
        fix = f"send the same call again with the same call_id: it is recorded once; {fix}"
    else:
        outcome = "nothing was recorded"
    return JournalUnavailable(
        f"{problem} ({name}); {outcome}", fix=fix, retryable=retryable, recorded=recorded
    )
