"""What the gateway adds to a call over stdio, beside the direct call of the same server, in one run.

    uv run python bench/gateway.py [--folder DIR] [--calls N] [--work MS]

The server behind is a real process whose tool waits for `--work` milliseconds, as a mail or a payment does.
Measured in turn: the direct call; a reading tool through the gateway; an effectful one through it (two
durable commits: intent and receipt); the same call again, answered from the journal. One durable commit on
the same file system is printed beside them, and the calls are set against "1.3 times the direct call, and
one commit".
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


def commit_seconds(folder: Path, calls: int) -> float:
    """Give the median of one durable commit, made as the journal makes its own."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute(f"PRAGMA journal_mode={journal_mode_for(sqlite3.sqlite_version_info)[0]}")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE rows (body TEXT NOT NULL) STRICT")
    took = []
    for _ in range(calls):
        began = time.perf_counter()
        connection.execute("INSERT INTO rows (body) VALUES (?)", ("x" * 1_000,))
        took.append(time.perf_counter() - began)
    connection.close()
    return statistics.median(took)


def timed(server: Server, tool: str, number: int) -> float:
    """Call a tool of the server behind and give the round trip in seconds."""
    arguments = {"to": f"user-{number}@example.org", "body": "Dear customer, please find enclosed …"}
    began = time.perf_counter()
    result = server.request("tools/call", {"name": tool, "arguments": arguments})
    took = time.perf_counter() - began
    assert not result.get("isError"), result
    return took


def main() -> None:
    """Measure in turn and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", help="where the journal lies: the file system that is measured")
    parser.add_argument("--calls", type=int, default=100, help="calls per round")
    parser.add_argument("--work", type=float, default=0, help="milliseconds that the tool takes")
    given = parser.parse_args()
    behind = [sys.executable, str(BEHIND), str(given.work)]
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        options = ["--journal", f"sqlite:///{folder}/journal.db", "--run", "bench"]
        gateway = [sys.executable, "-m", "counterfoil.server", "gateway", *options, "--", *behind]
        direct, through = Server(behind), Server(gateway)
        ways: dict[str, Callable[[int], float]] = {
            "direct": lambda number: timed(direct, "send", number),
            "reading, through": lambda number: timed(through, "read", number),
            "effect, through": lambda number: timed(through, "send", number),
            "the same again": lambda number: timed(through, "send", number),
        }
        seen: dict[str, list[float]] = {way: [] for way in ways}
        for round_number in range(ROUNDS + 1):
            for way, call in ways.items():
                first = round_number * given.calls
                took = [call(first + number) for number in range(given.calls)]
                if round_number:  # the first round warms up
                    seen[way] += took
        direct.end()
        through.end()
        commit = commit_seconds(folder, given.calls)
    middle = {way: statistics.median(took) for way, took in seen.items()}
    print(f"medians of {ROUNDS} rounds, {given.calls} calls each; the tool works for {given.work:g} ms")
    for way, took in seen.items():
        p99 = sorted(took)[int(0.99 * len(took))] * 1_000
        added = (middle[way] - middle["direct"]) * 1_000
        print(f"{way:18} p50 {middle[way] * 1_000:7.2f} ms   p99 {p99:7.2f} ms   added {added:6.2f} ms")
    print(f"{'one commit':18} p50 {commit * 1_000:7.2f} ms")
    bound = AIM * middle["direct"] + commit
    ratio = (middle["effect, through"] - commit) / middle["direct"]
    print(
        f"effect less one commit: {ratio:.2f} times the direct call (aim {AIM}); {AIM} times and one commit"
    )
    print(f"would be {bound * 1_000:.2f} ms, it is {middle['effect, through'] * 1_000:.2f} ms")
    started = {"direct": direct.started_in, "through the gateway": through.started_in}
    print(
        json.dumps({f"initialize answered, {way}, ms": round(took * 1_000) for way, took in started.items()})
    )


if __name__ == "__main__":
    main()
