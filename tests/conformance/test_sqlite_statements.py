"""SQL by name, and failpoints by name: what is misspelt is refused, never passed over."""

import os
from collections.abc import Awaitable
from pathlib import Path

import pytest

from conformance.sqlite_journals import names, open_small, write_sql
from counterfoil.store import failpoints
from counterfoil.store.protocol import Connection
from counterfoil.store.sqlite import load_migrations
from counterfoil.store.sqlite.binding import bind
from counterfoil.store.sqlite.migrations import Migration
from counterfoil.store.statements import Statement, StatementRefused, load_statements

GOOD = """
-- Counterfoil's statements. A heading before the first name is a comment.

-- name: find
-- At most one row,
-- by its key.
SELECT a, -- a comment inside
       ';' AS b
FROM t WHERE a = :a;

-- A heading between statements belongs to neither.

-- name: put
-- Once.
INSERT INTO t (a) VALUES (:a)
"""


def load(folder: Path, queries: str, overrides: str | None = None) -> object:
    write_sql(folder, queries=queries)
    if overrides is not None:
        (folder / "sqlite" / "overrides.sql").write_text(overrides)
    return load_statements(dialect="sqlite", folder=folder)


def test_a_statement_has_a_name_a_guarantee_and_its_own_text(tmp_path: Path) -> None:
    statements = load_statements(dialect="sqlite", folder=write_sql(tmp_path, queries=GOOD))
    assert list(statements) == ["find", "put"]
    assert statements["find"].guarantee == "At most one row, by its key."
    assert statements["find"].sql == ("SELECT a, -- a comment inside\n       ';' AS b\nFROM t WHERE a = :a")
    assert statements["put"].sql == "INSERT INTO t (a) VALUES (:a)"


def test_an_override_replaces_a_statement_and_says_why(tmp_path: Path) -> None:
    write_sql(tmp_path, queries=GOOD)
    (tmp_path / "sqlite" / "overrides.sql").write_text(
        "-- name: put\n-- Differs because SQLite has OR IGNORE.\nINSERT OR IGNORE INTO t (a) VALUES (:a);\n"
    )
    statements = load_statements(dialect="sqlite", folder=tmp_path)
    assert statements["put"].sql == "INSERT OR IGNORE INTO t (a) VALUES (:a)"
    assert load_statements(dialect="postgres", folder=tmp_path)["put"].sql == "INSERT INTO t (a) VALUES (:a)"


@pytest.mark.parametrize(
    ("queries", "overrides", "problem"),
    [
        ("-- name: a\nSELECT 1;", None, "a has no comment that gives its guarantee"),
        ("-- name: a\n-- One row.\n", None, "a has no text"),
        ("-- name: A-b\n-- One row.\nSELECT 1;", None, "'A-b' is no name"),
        ("-- name: a\n-- One.\nSELECT 1;\n-- name: a\n-- One.\nSELECT 2;", None, "a is named twice"),
        ("SELECT 1;\n-- name: a\n-- One.\nSELECT 1;", None, "text before the first"),
        (GOOD, "-- name: other\n-- Differs because x.\nSELECT 1;", "other overrides nothing"),
        (GOOD, "-- name: put\n-- Once.\nSELECT 1;", "put does not say 'Differs because'"),
    ],
)
def test_a_malformed_statement_is_refused(
    tmp_path: Path, queries: str, overrides: str | None, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        load(tmp_path, queries, overrides)


def test_an_unknown_statement_names_what_is_near(tmp_path: Path) -> None:
    statements = load_statements(dialect="sqlite", folder=write_sql(tmp_path, queries=GOOD))
    with pytest.raises(StatementRefused, match="statement fimd: there is none of that name; near: find"):
        statements["fimd"]
    assert "fimd" not in statements


@pytest.mark.parametrize(
    ("sql", "placed", "values"),
    [
        ("SELECT :a, :b, :a", "SELECT ?1, ?2, ?1", (1, None)),
        ("SELECT ':a', \":a\", :b -- :a\n", "SELECT ':a', \":a\", ?1 -- :a\n", (None,)),
        ("SELECT 'it''s :a' /* :a\n :b */, :a", "SELECT 'it''s :a' /* :a\n :b */, ?1", (1,)),
        ("SELECT 1", "SELECT 1", ()),
    ],
)
def test_a_parameter_is_bound_by_its_number_and_nothing_else_is_taken_for_one(
    sql: str, placed: str, values: tuple[object, ...]
) -> None:
    bound = bind(Statement(name="any", guarantee="One row.", sql=sql))
    assert bound.sql == placed
    assert tuple(bound.in_order({"a": 1, "b": None, "not_asked_for": 3})) == values


@pytest.mark.anyio
async def test_a_parameter_that_is_not_given_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    def one(connection: Connection) -> Awaitable[object]:
        return connection.execute("add_note", {"id": "one"})

    async def many(connection: Connection) -> None:
        await connection.execute_many("add_note", [{"id": "one", "body": "text"}, {"id": "two"}])

    async with await open_small(tmp_path / "j.db") as database:
        for work in (one, many):
            with pytest.raises(StatementRefused, match="add_note: the parameter 'body' is not given"):
                await database.write(work)
        assert await database.read(names) == []


def test_a_migration_is_parted_where_sqlite_sees_a_statements_end(tmp_path: Path) -> None:
    trigger = "CREATE TRIGGER t DELETE ON a BEGIN SELECT 1; END;"
    text = f"CREATE TABLE a (b TEXT DEFAULT ';'); -- c; d\n{trigger}\n-- e\n"
    write_sql(tmp_path, migrations={"0001_a.sql": text})
    assert load_migrations(tmp_path / "sqlite") == (
        Migration(
            1,
            "0001_a.sql",
            (
                "CREATE TABLE a (b TEXT DEFAULT ';');",
                "-- c; d\nCREATE TRIGGER t DELETE ON a BEGIN SELECT 1; END;",
            ),
        ),
    )


@pytest.mark.parametrize(
    ("migrations", "problem"),
    [
        ({"0002_a.sql": "SELECT 1;"}, "without a gap"),
        ({"0001_a.sql": "SELECT 1;", "0001_b.sql": "SELECT 1;"}, "without a gap"),
        ({"readme.txt": "x"}, "without a gap"),
        ({"0001_a.sql": "SELECT 1;\nSELECT 2"}, "no end: 'SELECT 2'"),
    ],
)
def test_malformed_migrations_are_refused(tmp_path: Path, migrations: dict[str, str], problem: str) -> None:
    write_sql(tmp_path, migrations=migrations)
    with pytest.raises(ValueError, match=problem):
        load_migrations(tmp_path / "sqlite")


@pytest.mark.parametrize(
    "spec",
    [
        "before_comit=kill",
        "before_commit",
        "before_commit=explode",
        "before_commit=kill@0",
        "before_commit=barrier:",
    ],
)
def test_a_misspelt_failpoint_is_refused(spec: str) -> None:
    with pytest.raises(ValueError, match="unknown"):
        failpoints.install_from(spec)


def test_a_failpoint_kills_the_third_time(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append(pid))
    monkeypatch.setattr(failpoints, "_hook", None)
    failpoints.install_from("before_commit=kill@3; after_commit=kill")
    for expected in (0, 0, 1, 1):
        failpoints.failpoint("before_commit")
        failpoints.failpoint("before_begin")
        assert len(killed) == expected


def test_a_failpoint_does_nothing_by_itself() -> None:
    failpoints.failpoint("before_commit")
    reached: list[str] = []
    with failpoints.installed(reached.append):
        failpoints.failpoint("before_commit")
    failpoints.failpoint("after_commit")
    assert reached == ["before_commit"]
