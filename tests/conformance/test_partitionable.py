"""The tables of PostgreSQL can be partitioned by namespace and run, and a journal works on them as before."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from conformance.test_copying import is_whole_after_copying
from conformance.test_export_and_import import another_journal, answers, fill, log_of, words
from journals import FakeClock, kept_at, open_desk
from postgres_cluster import Cluster

pytestmark = pytest.mark.anyio

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "partitions.sql"
BY_RUN = {"runs", "operations", "attempts", "receipts", "findings", "events", "bodies"}
ACROSS_RUNS = {"external_ids", "fingerprints", "compensations", "contexts", "grant_uses"}
"""Keyed by namespace and by what is compared: these alone may contend."""
OF_A_NAMESPACE = {
    "namespaces",
    "namespace_events",
    "grants",
    "authority_requests",
    "accepted_gaps",
    "namespace_restores",
    "tokens",
    "compactions",
}
OF_THE_JOURNAL = {"journal", "schema_version", "restores"}

UNIQUE_KEYS = """
    SELECT relname::text, array_agg(attname::text)
    FROM pg_index
    JOIN pg_class ON pg_class.oid = indrelid
    JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
    WHERE relnamespace = 'counterfoil'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
        AND indisunique
    GROUP BY indexrelid, relname
"""


@pytest.fixture
def url(cluster: Cluster) -> Iterator[str]:
    """The URL of a database of its own, which may be rebuilt."""
    name = cluster.new_database()
    yield cluster.url(name)
    cluster.drop_database(name)


def unique_keys(url: str) -> dict[str, list[set[str]]]:
    """Give the columns of every unique index, by table."""
    found: dict[str, list[set[str]]] = {}
    with psycopg.connect(url) as connection:
        for table, columns in connection.execute(UNIQUE_KEYS).fetchall():
            found.setdefault(table, []).append(set(columns))
    return found


async def test_every_key_of_what_is_kept_by_run_holds_namespace_and_run(url: str, tmp_path: Path) -> None:
    with kept_at(lambda _: url):
        async with open_desk(tmp_path):
            pass
    keys = unique_keys(url)
    assert set(keys) == BY_RUN | ACROSS_RUNS | OF_A_NAMESPACE | OF_THE_JOURNAL
    for table in BY_RUN:
        assert all({"namespace", "run"} <= columns for columns in keys[table]), table
    for table in ACROSS_RUNS | OF_A_NAMESPACE - {"tokens"}:
        assert all("namespace" in columns for columns in keys[table]), table


async def test_a_journal_goes_on_on_partitioned_tables(url: str, tmp_path: Path) -> None:
    clock = FakeClock()
    with kept_at(lambda _: url):
        async with open_desk(tmp_path, clock=clock) as desk:
            await fill(desk, clock)
            before, log = await answers(desk), await log_of(desk)
        keys = unique_keys(url)
        with psycopg.connect(url) as connection:
            connection.execute(SCRIPT.read_bytes())
        assert unique_keys(url) == keys
        async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as file:
            assert (await desk.journal.reader.verify()).faults == ()
            assert (await answers(desk), await log_of(desk)) == (before, log)
            for number in range(8):
                new = desk.at("key-1", run=f"new-{number}")
                assert words(await new.begin()) == "perform first_attempt"
                assert words(await new.receipt(external_id=f"m-new-{number}")) == "continue recorded"
            assert (await desk.at("key-1", run="new-1").receipt(external_id="m-new-0"))["next"] == "continue"
            assert (await desk.journal.reader.verify()).faults == ()
            await is_whole_after_copying(desk, file)
    assert partitions_with_rows(url, "operations") > 3
    with psycopg.connect(url) as connection:
        plan = connection.execute(
            "EXPLAIN SELECT * FROM counterfoil.operations "
            "WHERE namespace = 'default' AND run = 'new-1' AND key = 'k'"
        ).fetchall()
    assert sum("operations_p" in line for (line,) in plan) == 1, plan


def partitions_with_rows(url: str, table: str) -> int:
    """Count the partitions of a table that hold something."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            f"SELECT COUNT(DISTINCT tableoid) FROM counterfoil.{table}".encode()
        ).fetchall()
    return int(rows[0][0])
