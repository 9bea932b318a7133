"""The crash matrix: every place to die, alone and twice, against every kind of performing system.

One scenario is three sessions. The first is killed, or its server, or both; the second, which recovers, may
be killed as well; the third follows the plan to its end. Then what the journal says is held against what the
performing system did. `PYTHONPATH=tests uv run python -m crash.matrix` runs the short choice, in which every
two values of two dimensions meet; with `--whole`, the whole product; with `--journal postgresql`, a database
holds the journals.
"""

import argparse
import ctypes
import json
import os
import select
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from crash.agent import Agent, Orders
from crash.kills import KEY, Kill, Scenario, System, both_kills, short_choice, single_kills, systems
from crash.nursery import run_and_exit, warm_up
from crash.places import JOURNALS_HELP, Place, Places, places
from crash.provider import Provider
from crash.shared_clock import SharedClock
from crash.verdicts import deaths_in, judge

__all__ = ["Verdict", "carry_out"]

SESSION_SECONDS = 60
"""Bound on one session; a healthy one takes a fraction of a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a scenario ended, which deaths it really saw, and what was wrong with it."""

    end: str
    deaths: tuple[str, ...]
    faults: tuple[str, ...]
    passed: frozenset[str]
    """The points that the second session passed."""


def carry_out(scenario: Scenario, folder: Path, journal: Place) -> Verdict:
    """Run the three sessions in a folder of their own, on one journal, and judge."""
    with closing(SharedClock(folder / "clock")) as clock:
        started_at = clock.now
        provider = Provider(folder / "provider.db", scenario.behaviour, lambda: clock.now / 1_000_000)
        after_seconds, way = scenario.system.recovers
        seen = []
        for number, kill in enumerate((scenario.kill, scenario.kill_again, Kill())):
            if number > 0:
                clock.advance(after_seconds)
            orders = Orders(
                task=scenario.task,
                dies_at=kill.agent,
                server_dies_at=kill.server,
                is_patient=kill.is_patient,
                reads_the_plan=way == "by the plan",
            )
            _run_session(folder, journal, provider, clock, orders, is_last=number == 2)
            seen.append([json.loads(line) for line in (folder / "notes").read_text().splitlines()])
        passed_seconds = (clock.now - started_at) / 1_000_000
    notes = seen[2]
    faults, end = judge(scenario, notes, provider.effects(KEY), passed_seconds=passed_seconds)
    passed = {note["passed"] for note in seen[1][len(seen[0]) :] if "passed" in note}
    return Verdict(end=end, deaths=deaths_in(notes), faults=tuple(faults), passed=frozenset(passed))


def _run_session(
    folder: Path, journal: Place, provider: Provider, clock: SharedClock, orders: Orders, *, is_last: bool
) -> None:
    """Fork an agent, and wait until it and every server that it started have ended."""

    def main() -> None:
        agent = Agent(folder, journal, provider, clock, orders)
        agent.work()
        if is_last:
            agent.ask_for_the_whole()

    ending, held = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ending)
        run_and_exit(main)
    os.close(held)
    readable, _, _ = select.select([ending], [], [], SESSION_SECONDS)
    os.close(ending)
    if not readable:
        os.kill(pid, signal.SIGKILL)
        raise AssertionError(f"a session did not end: {orders}")
    while True:  # the servers of a killed agent come to this process, see `adopt_orphans`
        try:
            if os.waitpid(-1, 0)[0] == 0:
                return
        except ChildProcessError:
            return


def adopt_orphans() -> None:
    """Make the servers of a killed agent children of this process, which then waits for them."""
    if sys.platform == "linux":
        set_child_subreaper = 36
        ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


class Ground:
    """Where scenarios are run: each in a new folder of `folder`, on a journal of its own."""

    def __init__(self, folder: Path | None, journals: Places) -> None:
        self._folder = folder
        self._journals = journals

    def run(self, scenario: Scenario) -> Verdict:
        """Run one scenario."""
        with tempfile.TemporaryDirectory(prefix="counterfoil-", dir=self._folder) as folder:
            return carry_out(scenario, Path(folder), self._journals.new(Path(folder)))


def run_whole(ground: Ground, system: System) -> Iterator[tuple[Scenario, Verdict]]:
    """Run every death that a first session meets, and every one that a session recovering from it meets."""
    for kill in [*single_kills(), *both_kills()]:
        scenario = Scenario(kill=kill, kill_again=Kill(), system=system)
        verdict = ground.run(scenario)
        yield scenario, verdict
        if (
            len(verdict.deaths) != (kill.agent is not None) + (kill.server is not None)
            or kill in both_kills()
        ):
            continue
        for again in single_kills()[1:]:
            if again.server is not None or again.agent in verdict.passed:
                scenario = Scenario(kill=kill, kill_again=again, system=system)
                yield scenario, ground.run(scenario)


class Tally:
    """Counts what scenarios came to, and tells of each that was at fault."""

    def __init__(self) -> None:
        self.ends: Counter[str] = Counter()
        self.deaths: Counter[str] = Counter()
        self.faulty = 0
        self._started = time.monotonic()

    def add(self, scenario: Scenario, verdict: Verdict) -> None:
        """Count one."""
        self.ends[verdict.end] += 1
        self.deaths[" and ".join(verdict.deaths)] += 1
        if verdict.faults:
            self.faulty += 1
            print(json.dumps({"faults": verdict.faults, "scenario": asdict(scenario)}), flush=True)

    def join(self, other: "Tally") -> None:
        """Count all that another one counted."""
        self.ends.update(other.ends)
        self.deaths.update(other.deaths)
        self.faulty += other.faulty

    def summary(self) -> dict[str, Any]:
        """Give the counts."""
        seconds = round(time.monotonic() - self._started, 1)
        return {
            "scenarios": self.ends.total(),
            "faulty": self.faulty,
            "seconds": seconds,
            "ends": self.ends,
        }


def main() -> None:
    """Run a share of the matrix; one JSON line for each scenario that was at fault, and one at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whole", action="store_true", help="the whole product instead of the short choice")
    parser.add_argument("--share", default="1/1", help="which of how many parts, such as 2/8")
    parser.add_argument("--folder", type=Path, help="where files lie; memory where there is some")
    parser.add_argument("--journal", default="sqlite", help=JOURNALS_HELP)
    given = parser.parse_args()
    part, parts = map(int, given.share.split("/"))
    memory = Path("/dev/shm")
    place = given.folder or (memory if memory.is_dir() else None)
    warm_up()
    total = Tally()
    with places(given.journal) as journals:
        adopt_orphans()
        ground = Ground(place, journals)
        if given.whole:
            for system in systems()[part - 1 :: parts]:
                tally = Tally()
                for scenario, verdict in run_whole(ground, system):
                    tally.add(scenario, verdict)
                print(json.dumps({"system": asdict(system), **tally.summary()}), flush=True)
                total.join(tally)
        else:
            for scenario in short_choice()[part - 1 :: parts]:
                total.add(scenario, ground.run(scenario))
    print(json.dumps({**total.summary(), "deaths": total.deaths}), flush=True)
    sys.exit(1 if total.faulty else 0)


if __name__ == "__main__":
    main()
