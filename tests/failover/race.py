"""A race on a pair of servers of which the primary is killed: every call recorded, the history checked.

Agents in several processes act at random (`crash/race.py`). Their connections are cut in the middle of
transactions, the primary is stopped for a while; then the standby ceases to replay, goes on receiving, the
primary is killed, and the standby promoted. Agents send again what was not answered.
`PYTHONPATH=tests uv run python -m failover.race --seconds 120` is the long form.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crash.history import Call, read_history
from crash.race import Ground, Result, race
from failover.pair import Pair, running_pair
from postgres_cluster import MISSING, installed_binaries

__all__ = ["Failover", "race_through_a_failover"]

CUTS_EACH_SECOND = 4
PAUSED_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover:
    """What a race came to, and what was answered around the failover.

    `unreplayed_grants` were answered after the last replay and before the kill; `unreplayed_bytes` lay on the
    standby's disk, not replayed, when the primary was killed. `outage_seconds`: from the kill to the first
    grant of the new primary.
    """

    result: Result
    cuts: int
    unreplayed_grants: int
    unreplayed_bytes: int
    grants_after: int
    outage_seconds: float


class _Course:
    """What befalls a pair in so many seconds, one step after the other, and when it did."""

    def __init__(self, pair: Pair, *, lasts_seconds: float) -> None:
        self._pair = pair
        self._lasts_seconds = lasts_seconds
        self.cuts = self.unreplayed_bytes = 0
        self.replayed_until = self.killed_at = 0

    def steps(self, folder: Path) -> Iterator[None]:
        """Take the steps; each `yield` gives way to the race, whose history is in `folder`."""
        for _ in range(round(CUTS_EACH_SECOND * self._lasts_seconds / 4)):
            yield from _wait(1 / CUTS_EACH_SECOND)
            self.cuts += self._pair.cut_a_connection()
        with self._pair.primary.paused():
            yield from _wait(PAUSED_SECONDS)
        yield from _wait(self._lasts_seconds / 12)
        self._pair.pause_replay()
        self.replayed_until = time.monotonic_ns()
        while not any(call.start > self.replayed_until for call in _grants(folder)):
            yield
        yield from _wait(self._lasts_seconds / 12)
        self.unreplayed_bytes = self._pair.bytes_to_replay()
        self.killed_at = time.monotonic_ns()
        self._pair.primary.kill_server()
        self._pair.standby.promote()


def _wait(seconds: float) -> Iterator[None]:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        yield


def _grants(folder: Path) -> Iterator[Call]:
    """Give the calls that were answered with a new permission."""
    for call in read_history(folder):
        answer: Any = call.answer or {}
        if answer.get("next") == "perform" and not answer["replayed"]:
            yield call


def race_through_a_failover(
    pair: Pair, folder: Path, *, seed: int, lasts_seconds: float, processes: int, tasks: int
) -> Failover:
    """Race for so long in a folder of its own, and let the primary die on the way."""
    course = _Course(pair, lasts_seconds=lasts_seconds)
    ground = Ground(
        folder=folder,
        journal=pair.new_database(),
        processes=processes,
        tasks=tasks,
        busy_seconds=5.0,
        mishap=course.steps,
    )
    result = race(ground, seed=seed, lasts_seconds=lasts_seconds)
    grants = list(_grants(folder))
    ends = sorted(call.end for call in grants if call.end is not None and call.start > course.killed_at)
    return Failover(
        result=result,
        cuts=course.cuts,
        unreplayed_grants=sum(
            call.start > course.replayed_until and (call.end or 0) < course.killed_at for call in grants
        ),
        unreplayed_bytes=course.unreplayed_bytes,
        grants_after=len(ends),
        outage_seconds=round((ends[0] - course.killed_at) / 1e9, 2) if ends else float("inf"),
    )


def main() -> None:
    """Run as the command line says; exits 1 where anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--tasks", type=int, default=16)
    given = parser.parse_args()
    binaries = installed_binaries()
    if binaries is None:
        raise SystemExit(MISSING)
    print(f"seed {given.seed}", flush=True)
    with running_pair(binaries) as pair, tempfile.TemporaryDirectory(prefix="counterfoil-") as folder:
        failover = race_through_a_failover(
            pair,
            Path(folder),
            seed=given.seed,
            lasts_seconds=given.seconds,
            processes=given.processes,
            tasks=given.tasks,
        )
    result = failover.result
    for fault in result.faults:
        print(fault)
    summary = {name: getattr(failover, name) for name in Failover.__slots__ if name != "result"}
    raced = {name: getattr(result, name) for name in Result.__slots__ if name != "faults"}
    print(json.dumps({"faults": len(result.faults), **summary, **raced}))
    sys.exit(1 if result.faults else 0)


if __name__ == "__main__":
    main()
