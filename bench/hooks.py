"""What a hook costs: a call that is no effect beside a bare Python, an effect beside the least it needs.

    uv run python bench/hooks.py [ROUNDS]

Each round runs every kind once, one after the other, so that a busy machine is busy for all of them. Printed
are the median of the wall-clock times and of the processor's, in milliseconds, and the two ratios that count.
The commit is that of one row with `synchronous = FULL` in the journal mode that this SQLite gets.
"""

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from counterfoil.store.sqlite import journal_mode_for

ROUNDS = 15
CODE = [sys.executable, "-c"]
HOOK = [
    sys.executable,
    "-c",
    "import sys; from counterfoil.server.main import main; sys.exit(main())",
    "hook",
]


def event(command: str, number: int, *, name: str = "PreToolUse", **more: object) -> bytes:
    """Give what a client sends for a command of the shell."""
    return json.dumps(
        {
            "session_id": "11111111-2222-4333-8444-555555555555",
            "cwd": "/",
            "hook_event_name": name,
            "tool_name": "Bash",
            "tool_use_id": f"toolu_{number:022}",
            "tool_input": {"command": command},
            **more,
        }
    ).encode()


class Measured:
    """The times of one kind of run, in milliseconds."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.processor: list[float] = []

    def run(self, words: list[str], *, sent: bytes, environment: dict[str, str]) -> None:
        """Run a process once, to its end."""
        began = time.perf_counter()
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(sent)
        process.stdin.close()
        process.stdout.read()
        errors = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.wall.append((time.perf_counter() - began) * 1_000)
        self.processor.append((used.ru_utime + used.ru_stime) * 1_000)
        if process.returncode or errors:
            raise SystemExit(f"{words}: {process.returncode} {errors.decode()}")

    def time(self, work: Callable[[], None]) -> None:
        """Time some work of this process."""
        began, used = time.perf_counter(), time.process_time()
        work()
        self.wall.append((time.perf_counter() - began) * 1_000)
        self.processor.append((time.process_time() - used) * 1_000)

    def told(self) -> str:
        """Give both medians."""
        return f"{statistics.median(self.wall):8.1f} {statistics.median(self.processor):8.1f}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rounds", nargs="?", type=int, default=ROUNDS, help="how often each kind runs")
    rounds = parser.parse_args().rounds
    kinds = {
        name: Measured()
        for name in (
            "python -c pass",
            "a call that is no effect",
            "import asyncio, sqlite3",
            "one durable commit",
        )
    }
    before, after = Measured(), Measured()
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PATH": os.environ["PATH"], "HOME": folder}
        raw = sqlite3.connect(Path(folder) / "commits.db", isolation_level=None)
        raw.execute(f"PRAGMA journal_mode = {journal_mode_for(sqlite3.sqlite_version_info)[0]}")
        raw.execute("PRAGMA synchronous = FULL")
        raw.execute("CREATE TABLE t (n INTEGER) STRICT")
        plain, none, least, commit = kinds.values()
        # The first one makes the journal.
        Measured().run([*HOOK, "PreToolUse"], sent=event("npm publish", 0), environment=environment)
        for number in range(1, rounds + 1):
            plain.run([*CODE, "pass"], sent=b"", environment=environment)
            none.run([*HOOK, "PreToolUse"], sent=event("git status", number), environment=environment)
            least.run([*CODE, "import asyncio, sqlite3"], sent=b"", environment=environment)
            commit.time(lambda: raw.execute("INSERT INTO t VALUES (1)").close())
            command = f"curl -X POST https://example.org/{number} -d n={number}"
            before.run([*HOOK, "PreToolUse"], sent=event(command, number), environment=environment)
            result = {"stdout": '{"id": 1}', "stderr": "", "interrupted": False}
            sent = event(command, number, name="PostToolUse", tool_response=result)
            after.run([*HOOK, "PostToolUse"], sent=sent, environment=environment)
        raw.close()
    print(f"median of {rounds} rounds, ms         wall  processor")
    for name, measured in (
        *kinds.items(),
        ("an effect, before it runs", before),
        ("its result, after it", after),
    ):
        print(f"{name:28} {measured.told()}")
    for clock in ("wall", "processor"):
        plain_ms, none_ms, least_ms, commit_ms, before_ms, after_ms = (
            statistics.median(getattr(measured, clock))
            for measured in (plain, none, least, commit, before, after)
        )
        bound = 1.5 * least_ms + commit_ms
        print(
            f"{clock}: no effect {none_ms / plain_ms:.2f} x pass (at most 2); "
            f"an effect {before_ms:.0f} and {after_ms:.0f} ms where {bound:.0f} are aimed at"
        )


if __name__ == "__main__":
    main()
