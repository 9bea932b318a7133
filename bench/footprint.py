"""What an operation leaves on disk: rows and bytes of each table, bytes written, commits; SQLite, PostgreSQL.

    uv run python bench/footprint.py [--operations N] [--callers N] [--folder DIR]

Each operation is begun (args, a lookup, a payload) and gets a receipt with evidence, through the journal's
own commands: what a careful agent does. The same operations go to a new SQLite file and a PostgreSQL server
of their own (made by `initdb`, as for the tests, thrown away), first by one caller, then by several at once.
Bytes are what the database itself counts (`dbstat`, `pg_table_size`, `pg_indexes_size`). `docs/scale.md`
calculates with them.
"""

import argparse
import secrets
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import psycopg
from msgspec.structs import replace

from counterfoil.server.clock import read_clock
from counterfoil.store.domain.commands import (
    BeginOperation,
    Caller,
    Lookup,
    OperationRef,
    ReceiptGiven,
    RecordReceipt,
)
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import JournalUnavailable
from counterfoil.store.journal import Journal
from counterfoil.store.opening import Fresh, open_journal

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from postgres_cluster import installed_binaries, running_cluster

RUN_SIZE = 20
"""Operations in a run; a run has rows of its own, which are spread over them."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """What one table holds after so many operations."""

    rows: int
    table_bytes: int
    index_bytes: int


@dataclass(frozen=True, kw_only=True)
class Written:
    """What writing took: bytes written to files or to the write-ahead log, commits, seconds."""

    log_bytes: int
    commits: int | None
    seconds: float


async def write(place: Path | str, operations: int, callers: int) -> None:
    """Begin operations and record their receipts, `callers` at a time, each in runs of its own."""
    fresh = Fresh(journal_id=secrets.token_hex(8), secret=secrets.token_hex(32))
    async with open_journal(
        place, fresh=fresh, namespace="default", policy=Policy(), clock=read_clock
    ) as journal:
        prefix = secrets.token_hex(4)
        async with anyio.create_task_group() as tasks:
            for number in range(callers):
                tasks.start_soon(_caller, journal, f"{prefix}/{number:04}", operations // callers)


async def _caller(journal: Journal, name: str, operations: int) -> None:
    caller = Caller(
        connection=name, conversation=f"conversation-of-{name}", client="bench", client_version="1"
    )
    for number in range(operations):
        run, key = f"invoices/{name}/{number // RUN_SIZE:06}", f"email:customer-{number:06}"
        ref = OperationRef(run=run, key=key)
        begin = BeginOperation(
            run=run,
            key=key,
            action="email.send",
            target=f"customer-{number:06}@example.org",
            args={"subject": "Your invoice", "invoice": f"{name}-{number}", "amount": 129.5},
            payload="Dear customer, please find enclosed the invoice of this month. " * 8,
            lookup=Lookup(tool="search_sent", args={"query": f"invoice {name}-{number}"}),
            workflow="invoices",
        )
        receipt = ReceiptGiven(
            kind="message",
            system="smtp",
            external_id=f"<{name}-{number}@mail.example.org>",
            evidence={"status": 250, "text": "queued as " + secrets.token_hex(8)},
        )
        await _until_recorded(journal.begin_operation, begin, caller)
        await _until_recorded(journal.record_receipt, RecordReceipt(ref=ref, receipt=receipt), caller)


async def _until_recorded(
    send: Callable[[Any, Caller], Awaitable[dict[str, Any]]], command: Any, caller: Caller
) -> None:
    """Send a call, and send it again where the journal is busy, as agents are told to."""
    call = replace(caller, call_id=f"toolu_{secrets.token_hex(12)}")
    for _ in range(20):
        try:
            answer = await send(command, call)
        except JournalUnavailable as fault:
            if not fault.retryable:
                raise
            continue
        assert answer["next"] in ("perform", "continue"), answer
        return
    raise RuntimeError("the journal stays busy")


@contextmanager
def sqlite_written(path: Path) -> Iterator[list[Written]]:
    """Measure what a block writes: bytes that this process gives to the system, and commits."""
    before, began, changes = _bytes_written(), time.perf_counter(), _changes(path)
    found: list[Written] = []
    yield found
    after = _changes(path)
    found.append(
        Written(
            log_bytes=_bytes_written() - before,
            commits=None if after is None or changes is None else after - changes,
            seconds=time.perf_counter() - began,
        )
    )


def _bytes_written() -> int:
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


def _changes(path: Path) -> int | None:
    """Give the file's change counter (one more with each commit), which WAL mode does not keep."""
    if not path.exists():
        return 0
    with path.open("rb") as file:
        header = file.read(100)
    return None if header[18] == 2 else int.from_bytes(header[24:28], "big")


def sqlite_tables(path: Path) -> dict[str, Table]:
    """Count each table of a SQLite file."""
    found: dict[str, Table] = {}
    with closing(sqlite3.connect(path)) as raw:
        names = raw.execute("SELECT name, tbl_name, type FROM sqlite_schema WHERE rootpage > 0").fetchall()
        sizes = dict(raw.execute("SELECT name, SUM(pgsize) FROM dbstat GROUP BY name").fetchall())
        for (table,) in raw.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            if table.startswith("sqlite_"):
                continue
            indexes = [name for name, of, kind in names if of == table and kind == "index"]
            found[table] = Table(
                rows=raw.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0],
                table_bytes=sizes.get(table, 0),
                index_bytes=sum(sizes.get(name, 0) for name in indexes),
            )
    return found


def postgres_tables(url: str) -> dict[str, Table]:
    """Count each table of a PostgreSQL journal."""
    found: dict[str, Table] = {}
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute("ANALYZE")
        rows = raw.execute(
            "SELECT relname, pg_table_size(c.oid), pg_indexes_size(c.oid) FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'counterfoil' AND relkind = 'r'"
        ).fetchall()
        for table, table_bytes, index_bytes in rows:
            (count,) = raw.execute(f"SELECT COUNT(*) FROM counterfoil.{table}".encode()).fetchone() or (0,)
            found[table] = Table(rows=count, table_bytes=table_bytes, index_bytes=index_bytes)
    return found


@contextmanager
def postgres_written(url: str) -> Iterator[list[Written]]:
    """Measure what a block writes into the write-ahead log, and how many transactions wrote."""
    began, before = time.perf_counter(), _positions(url)
    found: list[Written] = []
    yield found
    after = _positions(url)
    found.append(
        Written(
            log_bytes=after[0] - before[0],
            commits=after[1] - before[1],
            seconds=time.perf_counter() - began,
        )
    )


def _positions(url: str) -> tuple[int, int]:
    """Give the place in the write-ahead log, and the next transaction id: only writers take one."""
    with psycopg.connect(url, autocommit=True) as raw:
        row = raw.execute(
            "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint, "
            "pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
        ).fetchone()
    return row or (0, 0)


def show(title: str, tables: dict[str, Table], operations: int) -> None:
    """Print what lies on disk for each operation."""
    print(f"\n{title}: on disk for each of {operations} operations")
    print(f"  {'table':20} {'rows':>7} {'bytes':>8} {'index bytes':>12}")
    kept = {name: table for name, table in sorted(tables.items()) if table.rows > 5}
    for name, table in kept.items():
        print(
            f"  {name:20} {table.rows / operations:7.2f} {table.table_bytes / operations:8.0f} "
            f"{table.index_bytes / operations:12.0f}"
        )
    total = [
        sum(getattr(table, part) for table in tables.values()) / operations
        for part in ("rows", "table_bytes", "index_bytes")
    ]
    print(f"  {'all':20} {total[0]:7.2f} {total[1]:8.0f} {total[2]:12.0f}   {total[1] + total[2]:.0f} bytes")


def show_written(what: str, written: Written, operations: int) -> None:
    """Print what writing took for each operation."""
    commits = "not counted" if written.commits is None else f"{written.commits / operations:.2f}"
    print(
        f"  {what:32} {written.log_bytes / operations:8.0f} bytes, {commits} commits, "
        f"{operations / written.seconds:.0f} operations a second"
    )


def main() -> None:
    """Measure both, and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--operations", type=int, default=2_000)
    parser.add_argument("--callers", type=int, default=16)
    parser.add_argument(
        "--folder", type=Path, help="where the SQLite file is made (default: a temporary folder)"
    )
    given = parser.parse_args()
    operations, callers = given.operations, given.callers
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        path = Path(folder) / "journal.db"
        anyio.run(write, path, 2, 1)
        with sqlite_written(path) as alone:
            anyio.run(write, path, operations, 1)
        with sqlite_written(path) as together:
            anyio.run(write, path, operations, callers)
        show(f"SQLite {sqlite3.sqlite_version}", sqlite_tables(path), 2 * operations)
        print("written to files")
        show_written("one caller", alone[0], operations)
        show_written(f"{callers} callers at once", together[0], operations)
    binaries = installed_binaries()
    if binaries is None:
        sys.exit("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    with running_cluster(binaries) as cluster:
        url = cluster.url(cluster.new_database())
        # As a server has it: without statistics every search reads, and locks, a whole table.
        cluster.run("ALTER SYSTEM SET autovacuum = on")
        cluster.reload()
        anyio.run(write, url, 2, 1)
        with postgres_written(url) as alone:
            anyio.run(write, url, operations, 1)
        with psycopg.connect(url, autocommit=True) as raw:
            raw.execute("ANALYZE")
        with postgres_written(url) as together:
            anyio.run(write, url, operations, callers)
        version = cluster.run("SHOW server_version")[0][0]
        show(f"PostgreSQL {version}", postgres_tables(url), 2 * operations)
        print("written to the write-ahead log")
        show_written("one caller", alone[0], operations)
        show_written(f"{callers} callers at once", together[0], operations)


if __name__ == "__main__":
    main()
