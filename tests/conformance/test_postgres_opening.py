"""Opening a journal in PostgreSQL: made once by many, refused with the reason, under the database's clock."""

import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from command_line import CommandLine, cli, process
from conformance.postgres_journals import SHORT, making, opened, runs
from counterfoil.server.opener import open_from
from counterfoil.server.settings import Settings
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import JournalUnavailable, UnsupportedVersion
from counterfoil.store.failpoints import installed
from counterfoil.store.opening import Fresh, open_journal
from counterfoil.store.postgres.migrations import load_steps
from counterfoil.store.postgres.translation import split, translate
from counterfoil.store.sqlite import load_migrations, open_sqlite
from counterfoil.store.statements import StatementRefused, load_statements
from journals import SECRET, Desk, FakeClock, kept_at, open_desk
from postgres_cluster import Cluster

__all__ = ["cli"]

pytestmark = pytest.mark.anyio

PASSWORD = "s3cret-word"


@pytest.fixture
def fresh(cluster: Cluster) -> Iterator[str]:
    """The URL of a database without a journal."""
    name = cluster.new_database()
    yield cluster.url(name)
    cluster.drop_database(name)


@pytest.fixture
def place(cluster: Cluster) -> Iterator[Callable[[Path], str]]:
    """Where journals lie: in databases of their own."""
    with cluster.lending() as lent, kept_at(lent):
        yield lent


async def test_servers_that_start_at_once_make_one_journal(fresh: str) -> None:
    async def start(number: int) -> None:
        given = {"journal_id": f"J-{number}", "secret": SECRET, "created_at": number}
        async with opened(fresh, fresh_values=given) as database:
            found.add((await database.read(_identity))["id"])
            await database.write(making(f"run-{number}"))

    found: set[str] = set()
    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(start, number)
    assert len(found) == 1
    async with opened(fresh) as database:
        assert len(await database.read(runs)) == 5


async def _identity(connection: Any) -> Any:
    return await connection.fetch_one("read_journal")


async def test_a_making_that_breaks_off_leaves_no_journal(fresh: str) -> None:
    def break_off(name: str) -> None:
        if name == "during_migration":
            raise KeyboardInterrupt

    with installed(break_off), pytest.raises(KeyboardInterrupt):
        async with opened(fresh):
            pass
    with pytest.raises(JournalUnavailable, match="there is no journal at"):
        async with opened(fresh, is_made=False):
            pass
    async with opened(fresh) as database:
        assert await database.read(runs) == []


async def test_a_user_who_may_not_change_tables_serves_what_an_operator_has_made(
    cluster: Cluster, fresh: str
) -> None:
    name = fresh.split("@/")[1].split("?")[0]
    limited = fresh.replace("counterfoil@", "limited@")
    cluster.run("DROP ROLE IF EXISTS limited; CREATE ROLE limited LOGIN")
    with pytest.raises(JournalUnavailable, match="this user may not do that in the database") as fault:
        async with opened(limited):
            pass
    assert "counterfoil migrate" in fault.value.fix
    async with opened(fresh):
        pass
    cluster.run(
        "GRANT USAGE ON SCHEMA counterfoil TO limited;"
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA counterfoil TO limited",
        database=name,
    )
    async with opened(limited) as database:
        await database.write(making("served"))
        assert await database.read(runs) == ["served"]


async def test_a_journal_of_a_newer_program_is_refused_at_opening_and_in_use(
    cluster: Cluster, fresh: str
) -> None:
    name = fresh.split("@/")[1].split("?")[0]
    async with opened(fresh) as database:
        cluster.run("UPDATE counterfoil.schema_version SET version = 99", database=name)
        with pytest.raises(UnsupportedVersion, match="schema version 99, this program knows up to"):
            await database.write(making("none"))
    with pytest.raises(UnsupportedVersion, match="schema version 99"):
        async with opened(fresh):
            pass


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{PASSWORD}@localhost:1/db",
        f"postgresql:///db?host=/nowhere&password={PASSWORD}",
        f"postgresql://me:{PASSWORD}@localhost:1/db?sslmode={PASSWORD}",
        f"postgresql://me:{PASSWORD}@localhost:99999/db",
    ],
)
async def test_what_cannot_be_reached_is_told_without_the_password(url: str) -> None:
    with pytest.raises(JournalUnavailable) as fault:
        async with opened(url, patience=SHORT):
            pass
    told = f"{fault.value.as_dict()}"
    assert PASSWORD not in told or f"sslmode={PASSWORD}" in told
    assert fault.value.recorded is False


async def test_times_are_the_databases_and_jumps_are_noticed_by_this_machines_clock(
    cluster: Cluster, fresh: str
) -> None:
    astray = FakeClock(1)
    before = cluster.run("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")[0][0]
    async with open_journal(
        fresh, fresh=Fresh(journal_id="J", secret=SECRET), namespace="default", policy=Policy(), clock=astray
    ) as journal:
        assert journal.identity.created_at >= before
        answer = await Desk(journal, astray).begin()
        row = (await journal.database.read(_operations))[0]
        after = cluster.run("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")[0][0]
        assert answer["next"] == "perform"
        assert before <= row["created_at"] <= after
        clock = json.loads(row["clock"])
        assert (clock["boot"], clock["offset"]) == ("boot-1", clock["at"] - astray.monotonic)


async def _operations(connection: Any) -> Any:
    return await connection.fetch_all("read_operations", {"namespace": "default", "run": "run-1"})


async def test_every_statement_is_one_that_postgresql_takes(
    place: Callable[[Path], str], tmp_path: Path
) -> None:
    """With NULL for every parameter, where PostgreSQL has least to guess their types by."""
    statements = load_statements(dialect="postgresql")
    async with opened(place(tmp_path / "journal.db")) as database:
        for name, statement in statements.items():
            given = dict.fromkeys(re.findall(r"(?<!:):([a-z0-9_]+)", statement.sql))

            async def work(connection: Any, name: str = name, given: Any = given) -> None:
                await connection.fetch_all(name, given)

            try:
                await database.write(work)
            except StatementRefused as error:
                # A key that must not be NULL is another matter than a statement that is none.
                if "violates not-null constraint" not in str(error):
                    raise


async def test_the_tables_are_those_of_sqlite(
    cluster: Cluster, place: Callable[[Path], str], tmp_path: Path
) -> None:
    """Whatever migrations each took: the same columns, of the same kind, the same ones that may be empty."""
    async with await open_sqlite(
        tmp_path / "journal.db", fresh_values={"journal_id": "J", "secret": SECRET, "created_at": 1}
    ):
        pass
    raw = sqlite3.connect(tmp_path / "journal.db")
    kinds = {"INTEGER": "bigint", "TEXT": "text", "REAL": "double precision"}
    here = {
        (table, name, kinds[kind], bool(needed or key))
        for (table,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for _, name, kind, needed, _, key in raw.execute(f"PRAGMA table_info({table})").fetchall()
    }
    raw.close()
    database = place(tmp_path / "another").split("@/")[1].split("?")[0]
    there = cluster.run(
        "SELECT table_name, column_name, data_type, is_nullable = 'NO' FROM information_schema.columns"
        " WHERE table_schema = 'counterfoil' AND table_name <> 'schema_version' AND is_generated = 'NEVER'",
        database=database,
    )
    assert set(there) == here
    collations = cluster.run(
        "SELECT DISTINCT collation_name FROM information_schema.columns"
        " WHERE table_schema = 'counterfoil' AND data_type = 'text'",
        database=database,
    )
    assert collations == [("C",)]


def test_what_is_overridden_differs_in_nothing_else() -> None:
    """Whoever changes the one of them is told to change the other."""
    shared, here = load_statements(dialect="sqlite"), load_statements(dialect="postgresql")
    differing = {name for name in shared if shared[name].sql != here[name].sql}
    unsaid = {name: here[name].sql for name in differing}
    for name in ("read_journal", "read_backup", "end_backup"):
        unsaid[name] = unsaid[name].replace('"only"', "only")
    unsaid["save_external_id"] = unsaid["save_external_id"].replace(
        "(namespace, operation, reference)", "(namespace, external_id, kind, system, operation)"
    )
    unsaid["count_runs"] = unsaid["count_runs"].replace("::bigint", "")
    unsaid["look_alikes"] = (
        unsaid["look_alikes"].replace("= ANY (ARRAY(", "IN (").replace("\n    ))\n", "\n    )\n")
    )
    for name in differing:
        assert unsaid[name].split() == shared[name].sql.split(), name


def test_parameters_are_translated_and_nothing_else() -> None:
    sql = """SELECT ':a', "b:c", x::text, '%', $$ :d $$ -- :e 100%
        FROM t /* :f */ WHERE a = :a AND (:since IS NULL OR at >= :since) AND (:run IS NULL OR run = :run)"""
    assert (
        translate(sql) == """SELECT ':a', "b:c", x::text, '%%', $$ :d $$ -- :e 100%%
        FROM t /* :f */ WHERE a = %(a)s AND (%(since)s::bigint IS NULL OR at >= %(since)s) AND """
        """(%(run)s::text IS NULL OR run = %(run)s)"""
    )


def test_a_script_is_parted_where_its_statements_end() -> None:
    script = "CREATE TABLE a (b TEXT DEFAULT ';'); -- one; more\nSELECT $$ ; $$;\n-- the end\n"
    assert list(split(script)) == [
        "CREATE TABLE a (b TEXT DEFAULT ';')",
        "-- one; more\nSELECT $$ ; $$",
    ]
    with pytest.raises(ValueError, match="the last statement has no end"):
        list(split("SELECT 1; SELECT 2"))


def test_every_migration_is_numbered() -> None:
    assert len(load_steps()) >= 1
    assert len(load_migrations()) >= 5


async def test_people_and_servers_take_the_url_of_a_database(fresh: str) -> None:
    settings = Settings(journal=fresh, journal_path=None, journal_url=fresh)
    async with open_from(settings) as journal:
        assert (await Desk(journal, FakeClock()).begin())["next"] == "perform"


def test_the_commands_of_people_work_on_a_database(cli: CommandLine, fresh: str) -> None:
    refused = cli("runs", "--journal", fresh)
    assert (refused.code, "there is no journal at" in refused.err) == (3, True)
    made = cli("migrate", "--journal", fresh, "--json")
    assert (made.code, json.loads(made.out)["engine"]) == (0, "PostgreSQL")
    anyio.run(_begin_at, fresh)
    secret = fresh.replace("counterfoil@", f"counterfoil:{PASSWORD}@")
    for words in (
        ("runs",),
        ("plan", "run-1"),
        ("show", "run-1", "key-1"),
        ("find",),
        ("tail",),
        ("check",),
        ("doctor",),
        ("doctor", "--json"),
        ("verify",),
        ("prune", "--older-than", "1d"),
        ("export",),
        ("config", "claude-code"),
        ("config", "codex", "--json"),
    ):
        said = cli(*words, "--journal", secret)
        assert said.code == 0, (words, said)
        assert PASSWORD not in said.out + said.err
    for words in (("backup", "x.db"), ("restore", "x.db")):
        said = cli(*words, "--journal", secret)
        assert said.code in (1, 2, 3), words
        assert PASSWORD not in said.out + said.err


async def _begin_at(url: str) -> None:
    async with open_from(Settings(journal=url, journal_path=None, journal_url=url)) as journal:
        await Desk(journal, FakeClock()).begin()


def test_a_password_is_not_told_where_the_database_is_away(tmp_path: Path) -> None:
    url = f"postgresql://me:{PASSWORD}@localhost:1/db"
    environment = {**os.environ, "HOME": str(tmp_path), "COUNTERFOIL_JOURNAL": url}
    for words in (("runs",), ("doctor",), ("runs", "--log", "debug")):
        said = process(*words, env=environment)
        assert said.code == 3, said
        assert "postgresql://me@localhost:1/db" in said.out + said.err
        assert PASSWORD not in said.out + said.err


async def test_plain_desks_find_their_journal_again(place: Callable[[Path], str], tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin()
    async with open_desk(tmp_path) as desk:
        assert await desk.state() == "in_progress"
