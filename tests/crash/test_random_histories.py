"""Eight processes and fifty agents at random, on a file and on a database; the checker finds nothing.

The long form, with its seed printed: `PYTHONPATH=tests uv run python -m crash.race --seconds 300`, on a
database with `--journal postgresql`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from crash.race import PROCESSES, TASKS
from postgres_cluster import Cluster


def random_history(*arguments: str) -> dict[str, Any]:
    """Run a race of all processes and agents that may find no fault, and give its summary."""
    assert (PROCESSES, TASKS) == (8, 50)
    done = subprocess.run(
        [sys.executable, "-m", "crash.race", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        check=False,
    )
    summary: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, summary["faults"]) == (0, 0), done.stdout + done.stderr
    return summary


def test_a_random_history_of_eight_processes_and_fifty_agents_holds() -> None:
    """Every call with its answer and times: one grant an attempt, nothing older than told, nothing lost."""
    summary = random_history("--seconds", "12")
    assert summary["operations"] > 0
    assert summary["effects"] > 0


def test_a_random_history_holds_on_postgresql(cluster: Cluster) -> None:
    database = cluster.new_database()
    try:
        summary = random_history("--seconds", "8", "--journal", cluster.url(database))
    finally:
        cluster.drop_database(database)
    assert summary["operations"] > 0
    assert summary["effects"] > 0
