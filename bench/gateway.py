"""What the gateway adds to a call over stdio, beside the direct call of the same server, in one run.

    uv run python bench/gateway.py [--folder DIR] [--calls N] [--work MS ...]

The server behind is a real process. Two kinds of tool are measured, unless `--work` says others: one that
works 0 ms, which shows what the gateway itself costs, and one that works 50 ms, as long as a mail or payment.
For each, in turn: the direct call; a reading tool through the gateway; an effectful one through it (two
durable commits: intent and receipt); the same call again, answered from the journal; one durable commit on
the same file system. Each is set against "1.3 times the direct call, and one commit".
"""

import argparse
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from stdio import Server

from counterfoil.store.sqlite import journal_mode_for

BEHIND = Path(__file__).with_name("working_server.py")
ROUNDS = 5
AIM = 1.3
COMMIT = "one commit"
DIRECT_START, GATEWAY_START = "started direct", "started through the gateway"


class Commits:
    """Durable commits of one row each, made as the journal makes its own."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        mode = journal_mode_for(sqlite3.sqlite_version_info)[0]
        self._connection.execute(f"PRAGMA journal_mode={mode}")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("CREATE TABLE rows (body TEXT NOT NULL) STRICT")

    def timed(self) -> float:
        """Commit once and give the seconds that it took."""
        began = time.perf_counter()
        self._connection.execute("INSERT INTO rows (body) VALUES (?)", ("x" * 1_000,))
        return time.perf_counter() - began


def timed(server: Server, tool: str, number: int) -> float:
    """Call a tool of the server behind and give the round trip in seconds."""
    arguments = {"to": f"user-{number}@example.org", "body": "Dear customer, please find enclosed …"}
    began = time.perf_counter()
    result = server.request("tools/call", {"name": tool, "arguments": arguments})
    took = time.perf_counter() - began
    assert not result.get("isError"), result
    return took


def measure(folder: Path, *, work_ms: float, calls: int) -> dict[str, list[float]]:
    """Give the round trips by way, the first round left out, and the two start-ups."""
    behind = [sys.executable, str(BEHIND), str(work_ms)]
    options = ["--journal", f"sqlite:///{folder}/journal-{work_ms:g}.db", "--run", "bench"]
    gateway = [sys.executable, "-m", "counterfoil.server", "gateway", *options, "--", *behind]
    direct, through = Server(behind), Server(gateway)
    commits = Commits(folder / f"bare-{work_ms:g}.db")
    ways: dict[str, Callable[[int], float]] = {
        "direct": lambda number: timed(direct, "send", number),
        "reading, through": lambda number: timed(through, "read", number),
        "effect, through": lambda number: timed(through, "send", number),
        "the same again": lambda number: timed(through, "send", number),
        COMMIT: lambda number: commits.timed(),
    }
    seen: dict[str, list[float]] = {way: [] for way in ways}
    for round_number in range(ROUNDS + 1):
        for way, call in ways.items():
            first = round_number * calls
            took = [call(first + number) for number in range(calls)]
            if round_number:  # the first round warms up
                seen[way] += took
    direct.end()
    through.end()
    return {**seen, DIRECT_START: [direct.started_in], GATEWAY_START: [through.started_in]}


def show(seen: dict[str, list[float]], *, work_ms: float, calls: int) -> None:
    """Print each way beside the direct call, and whether it keeps to the aim."""
    middle = {way: statistics.median(took) for way, took in seen.items()}
    bound = AIM * middle["direct"] + middle[COMMIT]
    print(f"\na tool that works {work_ms:g} ms: medians of {ROUNDS} rounds, {calls} calls each")
    one = middle[COMMIT] * 1_000
    print(f"{AIM} times the direct call and one commit of {one:.2f} ms: {bound * 1_000:.2f} ms")
    for way in ("direct", "reading, through", "effect, through", "the same again"):
        p99 = sorted(seen[way])[int(0.99 * len(seen[way]))]
        added = middle[way] - middle["direct"]
        holds = "" if way == "direct" else "holds" if middle[way] <= bound else "does not hold"
        print(
            f"{way:18} p50 {middle[way] * 1_000:7.2f} ms   p99 {p99 * 1_000:7.2f} ms   "
            f"added {added * 1_000:6.2f} ms   {middle[way] / middle['direct']:5.2f} times   {holds}"
        )


def main() -> None:
    """Measure one kind of tool after the other and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", help="where the journal lies: the file system that is measured")
    parser.add_argument("--calls", type=int, default=100, help="calls per round; fewer where they take long")
    parser.add_argument(
        "--work", type=float, nargs="+", default=[0, 50], help="milliseconds that a tool works, one or more"
    )
    given = parser.parse_args()
    starts: dict[str, list[float]] = {DIRECT_START: [], GATEWAY_START: []}
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        for work_ms in given.work:
            calls = max(5, round(given.calls / (1 + work_ms / 10)))
            seen = measure(folder, work_ms=work_ms, calls=calls)
            show(seen, work_ms=work_ms, calls=calls)
            for start, times in starts.items():
                times += seen[start]
    least = {start: f"{min(times) * 1_000:.0f} ms" for start, times in starts.items()}
    print(f"\ninitialize answered, the better of {len(given.work)}: {json.dumps(least)}")


if __name__ == "__main__":
    main()
