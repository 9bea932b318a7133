"""Opens a journal in PostgreSQL: looks at the server, brings the schema up to date, makes the pool."""

from collections.abc import Mapping
from typing import Any, Final

import anyio
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool

from counterfoil.store.errors import JournalUnavailable
from counterfoil.store.postgres.address import FORM, shown_url
from counterfoil.store.postgres.database import PostgresDatabase
from counterfoil.store.postgres.faults import sqlstate_of
from counterfoil.store.postgres.migrations import load_steps, migrate, schema_version
from counterfoil.store.postgres.session import (
    Patience,
    Session,
    SilentServer,
    answered,
    driver_fault,
    newer_schema,
)
from counterfoil.store.postgres.translation import translated
from counterfoil.store.statements import Statements, load_statements

__all__ = ["open_postgres"]

_CONNECTIONS: Final = 10
"""At most so many for one server: a transaction takes milliseconds, and PostgreSQL allows a hundred."""

_IDLE_SECONDS: Final = 60.0
"""After this long an unused connection is closed: each MCP client starts a server, most of them idle."""

_DEFAULTS: Final[Mapping[str, str]] = {
    "application_name": "counterfoil",
    "connect_timeout": "5",
    # A host that is gone without a word is noticed by TCP itself after half a minute.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": "30000",
    # After a failover the old primary must not be taken for the journal.
    "target_session_attrs": "read-write",
}


async def open_postgres(
    url: str,
    *,
    fresh_values: Mapping[str, Any],
    is_made: bool = True,
    gives_time: bool = True,
    patience: Patience | None = None,
    most_connections: int = _CONNECTIONS,
    statements: Statements | None = None,
    steps: tuple[tuple[str, ...], ...] | None = None,
) -> PostgresDatabase:
    """Open the journal in the database that `url` names; bring its schema up to date.

    Where there is no journal a new one is made, filled with `fresh_values` (its id, the time it was made, its
    key), unless `is_made` is False. `gives_time`: the server's clock is the journal's; False is for tests.

    Raises:
        JournalUnavailable: the server cannot be reached or cannot keep the promises, or there is no journal.
        UnsupportedVersion: the journal's schema is newer than this program.
    """
    patience = patience or Patience()
    statements = load_statements(dialect="postgresql") if statements is None else statements
    steps = load_steps() if steps is None else steps
    try:
        shown = shown_url(url)
        given = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    except (ValueError, psycopg.ProgrammingError):
        # Not told on: the message of either may repeat a part of a password.
        raise JournalUnavailable("the journal's URL cannot be read", fix=f"give {FORM}") from None
    conninfo = make_conninfo(**{**_DEFAULTS, **given})
    await _prepare(
        conninfo, shown, steps, fresh_values, is_made=is_made, gives_time=gives_time, patience=patience
    )
    pool = AsyncConnectionPool(
        conninfo,
        connection_class=Session,
        kwargs={"autocommit": True},
        min_size=1,
        max_size=most_connections,
        max_idle=_IDLE_SECONDS,
        timeout=patience.busy_seconds,
        # A server that is back is noticed within this, with or without calls.
        reconnect_timeout=patience.busy_seconds,
        open=False,
        name="counterfoil",
    )
    with anyio.CancelScope(shield=True):
        await pool.open()
    return PostgresDatabase(
        pool,
        shown=shown,
        statements=translated(statements),
        known=len(steps),
        gives_time=gives_time,
        patience=patience,
    )


async def _prepare(
    conninfo: str,
    shown: str,
    steps: tuple[tuple[str, ...], ...],
    fresh_values: Mapping[str, Any],
    *,
    is_made: bool,
    gives_time: bool,
    patience: Patience,
) -> None:
    """Make sure that the newest known schema is there and that the server makes commits durable."""
    statement = "connecting"
    try:
        session = await answered(Session.opened(conninfo), patience)
        try:
            statement = "migrating"
            version = await schema_version(session, patience)
            if version == 0 and not is_made:
                raise JournalUnavailable(
                    f"there is no journal at {shown}",
                    fix="a server makes it when a client first calls a tool, or `counterfoil migrate` does; "
                    "if there should be one, check --journal (`counterfoil doctor` shows what counts)",
                )
            if version > len(steps):
                raise newer_schema(version, known=len(steps))
            await migrate(session, steps, fresh_values, patience=patience, gives_time=gives_time)
            statement = "beginning"
            await session.begin(is_read_only=False, patience=patience, known=len(steps))
        finally:
            session.give_up()
    except SilentServer as error:
        raise driver_fault(error, statement=statement) from error
    except psycopg.Error as error:
        if statement == "connecting" and sqlstate_of(error) is None:
            raise _unreachable(error, shown) from error
        raise driver_fault(error, statement=statement) from error


def _unreachable(error: psycopg.Error, shown: str) -> JournalUnavailable:
    # What the driver says names host, user and database, never the password; it tells a person what to mend.
    said = " ".join(str(error).split())[:300]
    return JournalUnavailable(
        f"{shown} cannot be reached; nothing was recorded; the driver says: {said}",
        fix="do not act; check that the server runs and that URL, user and password are right, "
        "then send the same call again",
        retryable=True,
    )
