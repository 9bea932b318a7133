"""Small journals with a schema of their own, so that these tests speak of SQLite and of nothing else."""

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from counterfoil.store.protocol import Connection
from counterfoil.store.sqlite import SqliteDatabase, load_migrations, open_sqlite
from counterfoil.store.statements import load_statements

FRESH = {"journal_id": "J-1"}

MIGRATION_1 = """
CREATE TABLE journal (id TEXT NOT NULL) STRICT;
INSERT INTO journal (id) VALUES (:journal_id);
CREATE TABLE notes (id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
CREATE TRIGGER notes_stay BEFORE DELETE ON notes BEGIN SELECT raise(ABORT, 'notes; stay'); END;
"""

MIGRATION_2 = """
CREATE TABLE tags (name TEXT PRIMARY KEY) STRICT;
INSERT INTO tags (name) SELECT id FROM notes;
"""

QUERIES = """
-- name: add_note
-- Fails where the id is taken.
INSERT INTO notes (id, body) VALUES (:id, :body);

-- name: offer_note
-- One row where it was new, none where the id is taken.
INSERT INTO notes (id, body) VALUES (:id, :body) ON CONFLICT DO NOTHING RETURNING id;

-- name: all_notes
-- Every note by id.
SELECT id, body FROM notes ORDER BY id;

-- name: count_notes
-- One row.
SELECT count(*) AS notes FROM notes;

-- name: find_journal
-- One row.
SELECT id FROM journal;

-- name: delete_notes
-- Refused by a trigger.
DELETE FROM notes;

-- name: limit_pages
-- SQLite answers FULL beyond the limit.
PRAGMA max_page_count = 12;

-- name: lift_limit
-- As before.
PRAGMA max_page_count = 1000000;
"""


def write_sql(folder: Path, *, migrations: Mapping[str, str] | None = None, queries: str = QUERIES) -> Path:
    """Write the SQL files of a small journal into `folder` and give it."""
    (folder / "sqlite").mkdir(parents=True, exist_ok=True)
    (folder / "queries.sql").write_text(queries, encoding="utf-8")
    for name, text in (migrations or {"0001_first.sql": MIGRATION_1}).items():
        (folder / "sqlite" / name).write_text(text, encoding="utf-8")
    return folder


async def open_small(path: Path, *, sql: Path | None = None, **options: Any) -> SqliteDatabase:
    """Open the small journal at `path`; its SQL lies in `sql`, by default beside it."""
    sql = write_sql(path.parent / "sql") if sql is None else sql
    return await open_sqlite(
        path,
        fresh_values=options.pop("fresh_values", FRESH),
        statements=load_statements(dialect="sqlite", folder=sql),
        migrations=load_migrations(sql / "sqlite"),
        **options,
    )


def adding(name: str, body: str = "text") -> Any:
    """Give a work that adds one note."""

    async def work(connection: Connection) -> str:
        await connection.execute("add_note", {"id": name, "body": body})
        return name

    return work


async def names(connection: Connection) -> list[str]:
    """Give the ids of all notes."""
    return [row["id"] for row in await connection.fetch_all("all_notes")]


async def nothing(connection: Connection) -> str:
    """Write nothing."""
    return "nothing"


def can_be_written_by_others(path: Path) -> bool:
    """Tell whether nobody holds a lock on the journal at `path`."""
    other = sqlite3.connect(path, timeout=0)
    try:
        other.execute("BEGIN EXCLUSIVE")
        other.execute("ROLLBACK")
    except sqlite3.OperationalError:
        return False
    finally:
        other.close()
    return True


def start_child(code: str, *arguments: object, failpoints: str = "") -> "subprocess.Popen[str]":
    """Start a Python process that runs `code`, with this module at hand and `failpoints` installed."""
    head = (
        "import sys, anyio\n"
        "from pathlib import Path\n"
        "from conformance.sqlite_journals import *\n"
        "from counterfoil.store.failpoints import install_from\n"
        f"install_from({failpoints!r})\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", head + code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )


def finish(child: "subprocess.Popen[str]", *, seconds: float = 20) -> tuple[int, str]:
    """Wait for `child`, at most `seconds`, and give its exit code and what it printed, errors last."""
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        out, err = child.communicate()
        raise AssertionError(f"still alive after {seconds} s; {out}{err}") from None
    return child.returncode, out + err


def damage(folder: Path, sql: str) -> None:
    """Change one row behind the journal's back, whatever the schema forbids."""
    with closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as raw:
        raw.execute("PRAGMA ignore_check_constraints = ON")
        assert raw.execute(sql).rowcount == 1


def damage_loosely(folder: Path, table: str, sql: str) -> None:
    """Change rows whatever the schema says of types and NULL; the schema itself stays as it was."""
    with closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as raw:
        ((made,),) = raw.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,))
    loose = re.sub("(TEXT|INTEGER|REAL) NOT NULL", r"\1", made)
    loose = loose.replace(") STRICT, WITHOUT", ") WITHOUT").replace(") STRICT", ")")
    _set_schema(folder, table, loose)
    try:
        with closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as raw:
            raw.execute("PRAGMA ignore_check_constraints = ON")
            assert raw.execute(sql).rowcount > 0
    finally:
        _set_schema(folder, table, made)


def _set_schema(folder: Path, table: str, sql: str) -> None:
    with closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as raw:
        raw.execute("PRAGMA writable_schema = ON")
        raw.execute("UPDATE sqlite_master SET sql = ? WHERE name = ? AND type = 'table'", (sql, table))
        ((version,),) = raw.execute("PRAGMA schema_version")
        raw.execute(f"PRAGMA schema_version = {version + 1}")
