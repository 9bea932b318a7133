"""The numbered steps of a journal's schema: read from `sql/sqlite/NNNN_name.sql`, one transaction each."""

import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, overload

from msgspec import Struct

from counterfoil.store.domain.patterns import lazy_pattern
from counterfoil.store.errors import JournalUnavailable, UnsupportedVersion
from counterfoil.store.failpoints import failpoint
from counterfoil.store.sqlite.waiting import LockWait
from counterfoil.store.statements import sql_folder

__all__ = [
    "APPLICATION_ID",
    "Migration",
    "UnreadMigrations",
    "check_schema",
    "check_tables",
    "load_migrations",
    "migrate",
    "newer_schema",
]

APPLICATION_ID = int.from_bytes(b"CtFl")
"""What `file` and SQLite read at byte 68 of a journal: 0x4374466C."""

_COLUMNS = """
SELECT entry.name, part.name, part.type, part."notnull", part.pk
FROM sqlite_master AS entry, pragma_table_info(entry.name) AS part
WHERE entry.type = 'table' AND entry.name NOT LIKE 'sqlite_%'
ORDER BY entry.name, part.cid
"""
_INDEXES = """
SELECT entry.name, entry.tbl_name, part.name
FROM sqlite_master AS entry, pragma_index_info(entry.name) AS part
WHERE entry.type = 'index'
ORDER BY entry.name, part.seqno
"""
_FILE = lazy_pattern(r"^(?P<number>[0-9]{4})_[a-z0-9_]+\.sql$")


class Migration(Struct, frozen=True):
    """One step: the schema version that it leads to, and its statements."""

    version: int
    name: str
    statements: tuple[str, ...]


def load_migrations(folder: Path | None = None) -> tuple[Migration, ...]:
    """Read the migrations in `folder`, in order.

    Raises:
        ValueError: there is none, or the numbers are not 1, 2, 3, …
    """
    folder = _folder() if folder is None else folder
    found = _names(folder)
    migrations = tuple(
        Migration(int(name[:4]), name, _split((folder / name).read_text(encoding="utf-8"), name))
        for name in found
    )
    if not migrations or [step.version for step in migrations] != list(range(1, len(migrations) + 1)):
        raise ValueError(f"migrations must be numbered 0001, 0002, … without a gap; found {found}")
    return migrations


class UnreadMigrations(Sequence[Migration]):
    """This program's migrations, of which none is read before one is asked for: most openings need none."""

    def __init__(self) -> None:
        self._count = len(_names(_folder()))

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Migration: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Migration]: ...
    def __getitem__(self, index: int | slice) -> Migration | Sequence[Migration]:
        return load_migrations()[index]


def _folder() -> Path:
    return sql_folder() / "sqlite"


def _names(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if _FILE.match(name))


def _split(text: str, source: str) -> tuple[str, ...]:
    """Part a script where its statements end; SQLite says where that is (triggers hold semicolons)."""
    statements: list[str] = []
    start = 0
    for position, character in enumerate(text):
        if character == ";" and sqlite3.complete_statement(text[start : position + 1]):
            statements.append(text[start : position + 1].strip())
            start = position + 1
    rest = [line for line in text[start:].splitlines() if line.strip() and not line.strip().startswith("--")]
    if rest:
        raise ValueError(f"{source}: the last statement has no end: {rest[0]!r}")
    return tuple(statements)


def _number(raw: sqlite3.Connection, pragma: str, wait: LockWait) -> int:
    """Read a number from the file's header, which takes the shared lock where no transaction is open."""
    ((number,),) = wait.execute(raw, f"PRAGMA {pragma}")
    return int(str(number))


def check_schema(raw: sqlite3.Connection, *, known: int, path: str, wait: LockWait) -> int:
    """Make sure that the file is a journal of a version that this program knows, and give that version.

    Raises:
        JournalUnavailable: another program's database, or a journal without its schema.
        UnsupportedVersion: a newer program has changed the schema.
    """
    found = _number(raw, "application_id", wait)
    if found != APPLICATION_ID:
        raise JournalUnavailable(
            f"{path} is a SQLite database but not a journal (application_id {found:#x})",
            fix="name the journal's file with --journal; this one was left as it is",
        )
    version = _number(raw, "user_version", wait)
    if version > known:
        raise newer_schema(version, known=known, path=path)
    if version < 1:
        raise JournalUnavailable(
            f"{path} is corrupt: it is marked as a journal and has no schema",
            fix="keep the file as it is and restore a backup",
        )
    return version


def newer_schema(version: int, *, known: int, path: str) -> UnsupportedVersion:
    """Give the fault for a journal that a newer program has written."""
    return UnsupportedVersion(
        f"{path} has schema version {version}, this program knows up to {known}; "
        "an older program never writes to a newer journal; nothing was recorded",
        fix="update counterfoil, or name another journal with --journal",
    )


def migrate(
    raw: sqlite3.Connection,
    migrations: Sequence[Migration],
    fresh_values: Mapping[str, Any],
    *,
    path: str,
    wait: LockWait,
) -> None:
    """Run what is missing, each step in a transaction that also sets the version: whole or not at all.

    Of two servers that migrate at once one does, and the other waits and finds it done. `fresh_values` are
    the parameters of a new journal's first rows.

    Raises:
        UnsupportedVersion: a newer program migrated meanwhile.
    """
    ((are_enforced,),) = wait.execute(raw, "PRAGMA foreign_keys")
    # A table that others refer to can be made anew only while nobody watches; each step is checked before
    # its commit instead. Inside a transaction this PRAGMA would do nothing.
    raw.execute("PRAGMA foreign_keys = OFF")
    try:
        while _number(raw, "user_version", wait) < len(migrations):
            _take_step(raw, migrations, fresh_values, path=path, wait=wait)
    finally:
        raw.execute(f"PRAGMA foreign_keys = {are_enforced}")
    check_schema(raw, known=len(migrations), path=path, wait=wait)


def _take_step(
    raw: sqlite3.Connection,
    migrations: Sequence[Migration],
    fresh_values: Mapping[str, Any],
    *,
    path: str,
    wait: LockWait,
) -> None:
    wait.execute(raw, "BEGIN IMMEDIATE")
    try:
        version = _number(raw, "user_version", wait)
        if version >= len(migrations):
            raw.execute("ROLLBACK")
            return
        step = migrations[version]
        for statement in step.statements:
            raw.execute(statement, dict(fresh_values)).fetchall()
        if raw.execute("PRAGMA foreign_key_check").fetchone() is not None:
            raise JournalUnavailable(
                f"{path} cannot be brought to schema version {step.version}: some of its rows refer to "
                "others that are missing; it was left as it is",
                fix="restore a backup; `counterfoil doctor` of the version that wrote it says more",
            )
        failpoint("during_migration")
        # A PRAGMA takes no parameters; both values are ours.
        raw.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        raw.execute(f"PRAGMA user_version = {step.version}")
        wait.execute(raw, "COMMIT")
    except BaseException:
        if raw.in_transaction:
            raw.execute("ROLLBACK")
        raise


def check_tables(
    raw: sqlite3.Connection,
    migrations: Sequence[Migration],
    fresh_values: Mapping[str, Any],
    *,
    path: str,
    wait: LockWait,
) -> None:
    """Make sure that a journal of the newest version has the tables and indexes that the migrations make.

    The version lies on another page of the file than they do.

    Raises:
        JournalUnavailable: one is missing or another, which no program that knows journals would do.
    """
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        for step in migrations:
            for statement in step.statements:
                made.execute(statement, dict(fresh_values)).fetchall()
        wanted = _shape(made, wait)
    found = _shape(raw, wait)
    if found != wanted:
        wrong = sorted({str(part[0]) for part in set(found) ^ set(wanted)})
        raise JournalUnavailable(
            f"{path} is corrupt: its tables are not those of a journal: {', '.join(wrong[:5])}",
            fix="stop; keep the file as it is, run `counterfoil doctor`, and restore a backup",
        )


def _shape(raw: sqlite3.Connection, wait: LockWait) -> list[tuple[object, ...]]:
    """List every column of every table and index; the text that made them may differ by SQLite's version."""
    return wait.execute(raw, _COLUMNS) + wait.execute(raw, _INDEXES)
