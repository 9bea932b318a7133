"""The numbered steps of the schema, from `sql/postgresql/NNNN_name.sql`, one transaction each.

Several servers may start at once: one takes the advisory lock and migrates, the others wait and find it done.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from counterfoil.store.errors import JournalUnavailable
from counterfoil.store.failpoints import failpoint
from counterfoil.store.postgres.session import SCHEMA, Patience, Session, answered, newer_schema
from counterfoil.store.postgres.translation import split, translate
from counterfoil.store.statements import sql_folder

__all__ = ["load_steps", "migrate", "schema_version"]

_FILE = re.compile(r"^(?P<number>[0-9]{4})_[a-z0-9_]+\.sql$")

_LOCK = int.from_bytes(b"CtFl")
"""The key of the advisory lock, which the whole database shares with whoever else takes such locks."""

_IS_THERE = f"""
    SELECT
        EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = '{SCHEMA}') AS has_schema,
        EXISTS (
            SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
            WHERE nspname = '{SCHEMA}' AND relname = 'schema_version'
        ) AS has_tables
"""
"""Asked of the catalog's tables, because to_regclass answers from a cache that may be older than the lock."""

_AT = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS at"


def load_steps(folder: Path | None = None) -> tuple[tuple[str, ...], ...]:
    """Read the migrations in `folder`, in order: the statements of each.

    Raises:
        ValueError: there is none, or the numbers are not 1, 2, 3, …
    """
    folder = sql_folder() / "postgresql" if folder is None else folder
    found = sorted(entry.name for entry in folder.iterdir() if _FILE.match(entry.name))
    if not found or [int(name[:4]) for name in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"migrations must be numbered 0001, 0002, … without a gap; found {found}")
    return tuple(tuple(split((folder / name).read_text(encoding="utf-8"))) for name in found)


async def schema_version(session: Session, patience: Patience) -> int:
    """Give the version of the journal's schema in the database; 0 where there is no journal."""
    found = await _row(session, _IS_THERE, patience)
    if not found["has_tables"]:
        return 0
    row = await _row(session, f"SELECT version FROM {SCHEMA}.schema_version", patience)
    return int(row["version"])


async def migrate(
    session: Session,
    steps: Sequence[Sequence[str]],
    fresh_values: Mapping[str, Any],
    *,
    patience: Patience,
    gives_time: bool,
) -> None:
    """Run what is missing, each step in a transaction that also sets the version: whole or not at all.

    `fresh_values` are the parameters of a new journal's first rows; `created_at` is the server's time where
    `gives_time`.

    Raises:
        UnsupportedVersion: a newer program migrated meanwhile.
        psycopg.Error, SilentServer: as the driver raises them.
    """
    while (found := await schema_version(session, patience)) < len(steps):
        await _take_step(session, steps, fresh_values, patience=patience, gives_time=gives_time)
    if found > len(steps):
        raise newer_schema(found, known=len(steps))


async def _take_step(
    session: Session,
    steps: Sequence[Sequence[str]],
    fresh_values: Mapping[str, Any],
    *,
    patience: Patience,
    gives_time: bool,
) -> None:
    # READ COMMITTED on purpose: behind the lock the version has to be seen that its last holder committed.
    await answered(session.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"), patience)
    try:
        limit = round(patience.statement_seconds * 1000)
        await answered(session.execute(f"SET LOCAL lock_timeout = {limit}"), patience)
        await answered(session.execute(f"SELECT pg_advisory_xact_lock({_LOCK})"), patience)
        version = await schema_version(session, patience)
        if version < len(steps):
            values = dict(fresh_values)
            if gives_time:
                values["created_at"] = (await _row(session, _AT, patience))["at"]
            # Asked first, because IF NOT EXISTS needs the right to make one even where it is there.
            if not (await _row(session, _IS_THERE, patience))["has_schema"]:
                await answered(session.execute(f"CREATE SCHEMA {SCHEMA}"), patience)
            await answered(session.execute(f"SET LOCAL search_path = {SCHEMA}, pg_temp"), patience)
            await answered(session.execute("SET LOCAL synchronous_commit = on"), patience)
            for statement in steps[version]:
                await answered(session.execute(translate(statement), values), patience)
            await answered(
                session.execute("UPDATE schema_version SET version = %(version)s", {"version": version + 1}),
                patience,
            )
            failpoint("during_migration")
        await session.commit_now(patience)
    finally:
        await session.end(patience)


async def _row(session: Session, sql: str, patience: Patience) -> Mapping[str, Any]:
    cursor = await answered(session.execute(sql), patience)
    row = await cursor.fetchone()
    if row is None:
        raise JournalUnavailable(
            "the journal is damaged: its schema has no version; nothing was recorded",
            fix="stop; restore a backup",
        )
    return row
