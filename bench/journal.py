"""What the journal costs beside bare commits: begin + receipt pairs a second, against the same file system.

    uv run python bench/journal.py [--folder DIR] [--pairs N]

Everything is measured in one run, in turn, so that the ratios hold when the machine's speed drifts. The raw
figure is one-row commits through `sqlite3` with the pragmas that the journal's own file reports. A pair is
two commits, so the journal is compared with half the raw rate.
"""

import argparse
import secrets
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio

from counterfoil.server.clock import read_clock
from counterfoil.store.domain.commands import (
    BeginOperation,
    Caller,
    OperationRef,
    ReceiptGiven,
    RecordReceipt,
)
from counterfoil.store.domain.states import Policy
from counterfoil.store.journal import Journal
from counterfoil.store.opening import Fresh, open_journal
from counterfoil.store.sqlite import journal_mode_for

ROUNDS = 5


def raw_commits(folder: Path, count: int) -> float:
    """Commit one row at a time, as durably as the journal does; give commits a second."""
    mode, _why = journal_mode_for(sqlite3.sqlite_version_info)
    path = folder / f"raw-{secrets.token_hex(4)}.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA journal_mode={mode}")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT")
    body = "x" * 200
    began = time.perf_counter()
    for _ in range(count):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO rows (body) VALUES (?)", (body,))
        connection.execute("COMMIT")
    rate = count / (time.perf_counter() - began)
    connection.close()
    return rate


async def pair(journal: Journal, run: str, number: int, latencies: list[float]) -> None:
    """Begin one operation and record its receipt; note how long each call took, in seconds."""
    caller = Caller(connection=run, conversation=run)
    began = time.perf_counter()
    answer = await journal.begin_operation(
        BeginOperation(
            run=run,
            key=f"mail:{number}",
            action="mail.send",
            target=f"user-{number}@example.org",
            args={"subject": "Your invoice", "number": number},
            payload="Dear customer, please find enclosed …",
        ),
        caller,
    )
    between = time.perf_counter()
    await journal.record_receipt(
        RecordReceipt(
            ref=OperationRef(operation=answer["operation"]),
            receipt=ReceiptGiven(attempt=answer["attempt"], kind="message", external_id=f"<{run}-{number}>"),
        ),
        caller,
    )
    latencies += [between - began, time.perf_counter() - between]


async def journal_pairs(folder: Path, callers: int, pairs: int) -> tuple[float, list[float]]:
    """Run `pairs` pairs by `callers` at once on a fresh journal; give pairs a second and all latencies."""
    latencies: list[float] = []

    async def one_caller(journal: Journal, name: str, count: int) -> None:
        for number in range(count):
            await pair(journal, name, number, latencies)

    fresh = Fresh(journal_id=secrets.token_hex(8), secret=secrets.token_hex(32))
    path = folder / f"journal-{secrets.token_hex(4)}.db"
    async with open_journal(
        path, fresh=fresh, namespace="default", policy=Policy(), clock=read_clock
    ) as journal:
        await one_caller(journal, "warm-up", 20)
        latencies.clear()
        began = time.perf_counter()
        async with anyio.create_task_group() as tasks:
            for number in range(callers):
                tasks.start_soon(one_caller, journal, f"bench-{number}", pairs // callers)
        took = time.perf_counter() - began
    return (pairs // callers) * callers / took, latencies


def percentile(values: list[float], share: float) -> float:
    """Give the value below which `share` of the values lie."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure(work: Callable[[], Awaitable[tuple[float, list[float]]]]) -> tuple[float, list[float]]:
    """Run one measurement in an event loop of its own."""
    return anyio.run(work)


def main() -> None:
    """Measure in turn and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", help="where the files lie: the file system that is measured")
    parser.add_argument("--pairs", type=int, default=500, help="pairs per round")
    given = parser.parse_args()
    mode, why = journal_mode_for(sqlite3.sqlite_version_info)
    raw: list[float] = []
    rates: dict[int, list[float]] = {1: [], 50: []}
    ratios: dict[int, list[float]] = {1: [], 50: []}
    latencies: dict[int, list[float]] = {1: [], 50: []}
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        for _ in range(ROUNDS):
            bare = raw_commits(Path(name), given.pairs * 2)
            raw.append(bare)
            for callers in rates:
                rate, seen = measure(partial(journal_pairs, Path(name), callers, given.pairs))
                rates[callers].append(rate)
                ratios[callers].append(rate / (bare / 2))
                latencies[callers] += seen
    print(f"SQLite {sqlite3.sqlite_version}, journal mode {mode} ({why}), synchronous FULL")
    print(f"medians of {ROUNDS} rounds, {given.pairs} pairs each")
    print(f"raw one-row commits          {statistics.median(raw):9.0f} /s")
    for callers, seen in latencies.items():
        print(
            f"begin + receipt, {callers:2} caller(s) {statistics.median(rates[callers]):9.0f} pairs/s"
            f"   ratio to half the raw rate {statistics.median(ratios[callers]):5.2f}"
            f"   a call: p50 {percentile(seen, 0.5) * 1000:.2f}, p99 {percentile(seen, 0.99) * 1000:.2f} ms"
        )


if __name__ == "__main__":
    main()
