"""Opens a journal: the one place that knows which databases there are."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterfoil.store.domain.instants import Reading
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import JournalUnavailable
from counterfoil.store.journal import Journal
from counterfoil.store.limits import Limits
from counterfoil.store.planning import JournalIdentity
from counterfoil.store.probing import Prober
from counterfoil.store.protocol import Connection, Row
from counterfoil.store.redact import Redactor
from counterfoil.store.sqlite import open_sqlite

if TYPE_CHECKING:
    from counterfoil.store.postgres.database import PostgresDatabase
    from counterfoil.store.sqlite import SqliteDatabase

__all__ = ["Fresh", "open_journal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """What a journal is filled with if it has to be made: drawn by the caller, used only then.

    `secret` is the key of the digests that stand for secrets: at least 64 hexadecimal digits.
    """

    journal_id: str
    secret: str


@asynccontextmanager
async def open_journal(
    place: Path | str,
    *,
    fresh: Fresh,
    namespace: str,
    policy: Policy,
    clock: Callable[[], Reading],
    redact_names: tuple[str, ...] = (),
    redact_patterns: tuple[str, ...] = (),
    limits: Limits | None = None,
    busy_timeout_seconds: float = 5.0,
    prober: Prober | None = None,
    is_made: bool = True,
    has_own_clock: bool = True,
) -> AsyncIterator[Journal]:
    """Open the journal at `place`, making it where there is none; closed when the block ends.

    A path is a SQLite file, a URL a database of PostgreSQL. For that, with `is_made` off none is made, and
    with `has_own_clock` off `clock` counts and not the database's (for tests).

    Raises:
        JournalUnavailable, UnsupportedVersion: it cannot be used, with the reason. Never a silent new one.
    """
    fresh_values = {"journal_id": fresh.journal_id, "secret": fresh.secret, "created_at": clock().at}
    database: SqliteDatabase | PostgresDatabase
    if isinstance(place, Path):
        database = await open_sqlite(
            place, fresh_values=fresh_values, busy_timeout_seconds=busy_timeout_seconds
        )
    else:
        database = await _open_postgres(
            place,
            fresh_values,
            busy_seconds=busy_timeout_seconds,
            is_made=is_made,
            has_own_clock=has_own_clock,
        )
    named = place if isinstance(place, Path) else "the journal"
    async with database:

        async def identity(connection: Connection) -> tuple[Row, Row | None]:
            row = await connection.fetch_one("read_journal")
            if row is None:
                raise JournalUnavailable(
                    f"{named} is corrupt: its own row is gone",
                    fix="stop; keep the file as it is, and restore a backup",
                )
            return row, await connection.fetch_one("newest_restore")

        row, restore = await database.read(identity)
        try:
            secret = bytes.fromhex(row["secret"])
        except ValueError as error:
            raise JournalUnavailable(
                f"{named} is corrupt: its own row cannot be read",
                fix="stop; keep the file as it is, and restore a backup",
            ) from error
        restored_at = None if restore is None else restore["restored_at"]
        yield Journal(
            database,
            identity=JournalIdentity(id=row["id"], created_at=row["created_at"], restored_at=restored_at),
            redactor=Redactor(secret, patterns=redact_patterns, extra_names=redact_names),
            namespace=namespace,
            policy=replace(policy, history_lost_at=restored_at),
            clock=clock,
            limits=limits or Limits(),
            prober=prober,
        )


async def _open_postgres(
    url: str, fresh_values: dict[str, Any], *, busy_seconds: float, is_made: bool, has_own_clock: bool
) -> "PostgresDatabase":
    try:
        # Loaded only where it is used: the driver is an extra, and takes a while to load.
        from counterfoil.store.postgres.opening import open_postgres
        from counterfoil.store.postgres.session import Patience
    except ImportError as error:
        raise JournalUnavailable(
            f"the driver for PostgreSQL is not installed ({error.name})",
            fix="install counterfoil[postgres]: `uvx --from 'counterfoil[postgres]' counterfoil`",
        ) from error
    return await open_postgres(
        url,
        fresh_values=fresh_values,
        patience=Patience(busy_seconds=busy_seconds),
        is_made=is_made,
        gives_time=has_own_clock,
    )
