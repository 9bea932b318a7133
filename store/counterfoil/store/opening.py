"""Opens a journal: the one place that knows which databases there are."""

import hmac
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.store.domain.instants import Reading
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import Forbidden, JournalUnavailable
from counterfoil.store.journal import Journal
from counterfoil.store.journal_identity import read_marks
from counterfoil.store.limits import Limits
from counterfoil.store.probing import Prober
from counterfoil.store.protocol import Connection, Database
from counterfoil.store.redact import Redactor
from counterfoil.store.stored_json import write_quickly

if TYPE_CHECKING:
    from counterfoil.store.postgres.database import PostgresDatabase
    from counterfoil.store.sqlite import SqliteDatabase

__all__ = ["Fresh", "open_journal", "open_journal_directly"]


class Fresh(Struct, frozen=True, kw_only=True):
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
    key_of: Journal | None = None,
) -> AsyncIterator[Journal]:
    """Open the journal at `place`, making it where there is none; closed when the block ends.

    A path is a SQLite file, a URL a database of PostgreSQL. For that, with `is_made` off none is made, and
    with `has_own_clock` off `clock` counts and not the database's (for tests). With `key_of`, one that has to
    be made gets the key of that journal, so that one secret has one placeholder in both.

    Raises:
        Forbidden: a journal is there, and it does not have the key of `key_of`.
        JournalUnavailable, UnsupportedVersion: it cannot be used, with the reason. Never a silent new one.
    """
    write_quickly()
    if key_of is not None:
        fresh = replace(fresh, secret=await key_of.database.read(_key))
    fresh_values = {"journal_id": fresh.journal_id, "secret": fresh.secret, "created_at": clock().at}
    database: SqliteDatabase | PostgresDatabase
    if isinstance(place, Path):
        # Loaded here: whoever opens a journal directly needs no threads.
        from counterfoil.store.sqlite import open_sqlite

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
    async with database:
        yield await _journal(
            database,
            named=place if isinstance(place, Path) else "the journal",
            namespace=namespace,
            policy=policy,
            clock=clock,
            redact_names=redact_names,
            redact_patterns=redact_patterns,
            limits=limits,
            prober=prober,
            key=None if key_of is None else fresh.secret,
        )


async def _key(connection: Connection) -> str:
    row = await connection.fetch_one("read_journal")
    return "" if row is None else str(row["secret"])


@contextmanager
def open_journal_directly(
    path: Path,
    *,
    fresh: Fresh,
    namespace: str,
    policy: Policy,
    clock: Callable[[], Reading],
    redact_names: tuple[str, ...] = (),
    redact_patterns: tuple[str, ...] = (),
    limits: Limits | None = None,
    busy_timeout_seconds: float = 5.0,
) -> Iterator[Journal]:
    """Open the journal in the file at `path` for a process that does one thing after the other.

    Its commands are coroutines as ever, and none of them waits: `drive` runs each to its end. As
    `open_journal` otherwise.

    Raises:
        JournalUnavailable, UnsupportedVersion: as `open_journal` does.
    """
    from counterfoil.store.sqlite.direct import open_directly
    from counterfoil.store.sqlite.transaction import drive

    fresh_values = {"journal_id": fresh.journal_id, "secret": fresh.secret, "created_at": clock().at}
    with open_directly(
        path, fresh_values=fresh_values, busy_timeout_seconds=busy_timeout_seconds
    ) as database:
        yield drive(
            _journal(
                database,
                named=path,
                namespace=namespace,
                policy=policy,
                clock=clock,
                redact_names=redact_names,
                redact_patterns=redact_patterns,
                limits=limits,
                prober=None,
                key=None,
            )
        )


async def _journal(
    database: Database,
    *,
    named: Path | str,
    namespace: str,
    policy: Policy,
    clock: Callable[[], Reading],
    redact_names: tuple[str, ...],
    redact_patterns: tuple[str, ...],
    limits: Limits | None,
    prober: Prober | None,
    key: str | None,
) -> Journal:
    """Make the journal of an open database, by what it says of itself.

    Raises:
        JournalUnavailable: it does not say that any more.
        Forbidden: its secrets are compared under another key than `key`, where one is given.
    """

    marks = await read_marks(database, namespace, named=named)
    if key is not None and not hmac.compare_digest(marks.secret, key):
        raise Forbidden(
            f"{named} has a key of its own, under which its secrets are compared; a key is given to a "
            "journal only when it is made",
            fix="copy without the key, or to a place where no journal is yet",
        )
    return Journal(
        database,
        identity=marks.identity,
        redactor=Redactor(bytes.fromhex(marks.secret), patterns=redact_patterns, extra_names=redact_names),
        namespace=namespace,
        policy=replace(policy, history_lost_at=marks.identity.restored_at),
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
            fix="install the extra: `uv tool install '.[postgres]'` in a clone of the project",
        ) from error
    return await open_postgres(
        url,
        fresh_values=fresh_values,
        patience=Patience(busy_seconds=busy_seconds),
        is_made=is_made,
        gives_time=has_own_clock,
    )
