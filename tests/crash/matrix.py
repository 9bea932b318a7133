"""The crash matrix: every place to die, alone and twice, against every kind of performing system.

One scenario is three sessions. The first is killed, or its server, or both; the second, which recovers, may
be killed as well; the third follows the plan to its end. Then what the journal says is held against what the
performing system did. `PYTHONPATH=tests uv run python -m crash.matrix` runs the short choice, in which every
two values of two dimensions meet; with `--whole`, the whole product.
"""

import argparse
import ctypes
import json
import os
import select
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import combinations, cycle, product
from pathlib import Path
from typing import Any

from crash.agent import POINTS, Agent, Orders
from crash.nursery import run_and_exit, warm_up
from crash.provider import Behaviour, Provider
from crash.shared_clock import SharedClock

__all__ = ["PLACES", "Scenario", "Verdict", "carry_out", "judge", "server_kills", "short_choice", "systems"]

RUN, KEY = "weekly-report/2026-W48", "email:alice"
SESSION_SECONDS = 60
"""Bound on one session; a healthy one takes a fraction of a second."""

PLACES: Mapping[str, tuple[int, ...]] = {
    "during_migration": (1, 4),
    "before_begin": (1, 2, 3),
    "after_begin": (1, 2, 3),
    "before_commit": (1, 2, 3),
    "after_commit": (1, 2, 3),
}
"""Each failpoint of the journal, and at which passings a server is killed there.

A session writes at its begin, at its report, and where that leaves a doubt at its finding.
"""

LONG_KEY, SHORT_KEY = 100_000.0, 900.0
"""How long keys are kept. A short one permits repeats for the time less the settle time: 600 s."""

KEY_IS_ALIVE_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """Where a session dies: itself, its server, or both. `is_patient`: it gets over its server's death."""

    agent: str | None = None
    server: str | None = None
    is_patient: bool = False

    def __str__(self) -> str:
        how = ("patient " if self.is_patient else "") + f"server at {self.server}" if self.server else ""
        return " and ".join(filter(None, (how, self.agent and f"agent {self.agent}"))) or "none"


def server_kills() -> list[str]:
    """Give every failpoint with every passing."""
    return [f"{place}=kill@{passing}" for place, passings in PLACES.items() for passing in passings]


def single_kills() -> list[Kill]:
    """Give every death of one of both, and none."""
    return [
        Kill(),
        *(Kill(agent=point) for point in POINTS),
        *(Kill(agent=f"{moment} reconcile_operation@2") for moment in ("behind", "after")),
        *(Kill(server=place, is_patient=patient) for place in server_kills() for patient in (False, True)),
    ]


def both_kills() -> list[Kill]:
    """Give every death of a server that an agent gets over, to die itself later."""
    return [Kill(agent=point, server=place, is_patient=True) for place in server_kills() for point in POINTS]


SECOND_KILLS = (
    Kill(),
    Kill(agent="behind begin_operation"),
    Kill(agent="after the effect"),
    Kill(agent="behind reconcile_operation"),
    Kill(server="before_commit=kill@1", is_patient=True),
    Kill(server="after_commit=kill@1"),
    Kill(server="after_commit=kill@2", is_patient=True),
)
"""The second deaths of the short choice: around the effect, around a finding, and around a commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A kind of performing system, and when somebody comes back to the work."""

    first: str
    lookup: str
    repeat: str
    recovers: tuple[float, str]
    """After how many seconds, and how: "by the plan", or "from the top", beginning without a look at it."""

    def can_meet(self, kill: Kill) -> bool:
        """Tell whether a first session gets to the place of a death, as far as that is plain."""
        point = kill.agent or ""
        has_doubt = self.first in ("loses", "late", "accepts")
        if "record_receipt" in point:
            return self.first in ("answers", "accepts")
        if "record_failure" in point:
            return self.first in ("loses", "late", "refuses")
        if "check_operation" in point or "@2" in point:
            return has_doubt and self.lookup in ("at once", "lagging")
        if "reconcile" in point or "looking" in point or "@3" in (kill.server or ""):
            return has_doubt
        return True


def systems() -> list[System]:
    """Give every kind; a conclusive lookup excludes an effect that comes later."""
    every = product(
        ("answers", "loses", "refuses", "late", "accepts"),
        ("none", "at once", "lagging", "conclusive"),
        ("unsafe", "keyed, long", "keyed, short", "safe"),
        ((0.0, "by the plan"), (0.0, "from the top"), (400.0, "from the top"), (1_500.0, "by the plan")),
    )
    return [
        System(first=first, lookup=lookup, repeat=repeat, recovers=recovers)
        for first, lookup, repeat, recovers in every
        if not (lookup == "conclusive" and first in ("late", "accepts"))
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One row of the matrix."""

    kill: Kill
    kill_again: Kill
    system: System

    @property
    def behaviour(self) -> Behaviour:
        """How the performing system behaves."""
        repeat = self.system.repeat
        kept = {"keyed, long": LONG_KEY, "keyed, short": SHORT_KEY}.get(repeat)
        drops = "states" if repeat == "safe" else "nothing" if kept is None else "keys"
        return Behaviour(
            first=self.system.first, lookup=self.system.lookup, drops=drops, key_ttl_seconds=kept
        )

    @property
    def task(self) -> dict[str, Any]:
        """What the agent begins."""
        kept = self.behaviour.key_ttl_seconds
        lookup = self.system.lookup
        task: dict[str, Any] = {
            "run": RUN,
            "key": KEY,
            "action": "email.send",
            "target": "alice@example.org",
            "repeat": self.system.repeat.partition(",")[0],
        }
        if kept is not None:
            task["key_ttl_seconds"] = kept
        if lookup != "none":
            task["lookup"] = {"tool": "mail.search", "conclusive": lookup == "conclusive"}
        return task


def short_choice() -> list[Scenario]:
    """Choose few scenarios in which every two values of two dimensions meet, where they can.

    Every death of one of both meets every second death of `SECOND_KILLS`, under a kind of system that it can
    be met in; the kinds are chosen so that most pairs are new. Deaths of both come once for each point.
    """
    values = [(system, [f"{name} {value}" for name, value in asdict(system).items()]) for system in systems()]
    seen: set[tuple[str, str]] = set()
    chosen = []
    places = cycle(server_kills())
    both = [Kill(agent=point, server=next(places), is_patient=True) for point in POINTS]
    for kill, again in [*product(single_kills(), SECOND_KILLS), *((kill, Kill()) for kill in both)]:
        best: tuple[System, set[tuple[str, str]]] | None = None
        for system, named in values:
            if system.can_meet(kill):
                new = set(combinations([f"1 {kill}", f"2 {again}", *named], 2)) - seen
                if best is None or len(new) > len(best[1]):
                    best = system, new
        assert best is not None
        chosen.append(Scenario(kill=kill, kill_again=again, system=best[0]))
        seen |= best[1]
        # Where several are as good, the next death does not fall to the same one.
        values = values[71:] + values[:71]
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a scenario ended, which deaths it really saw, and what was wrong with it."""

    end: str
    deaths: tuple[str, ...]
    faults: tuple[str, ...]
    passed: frozenset[str]
    """The points that the second session passed."""


def carry_out(scenario: Scenario, folder: Path) -> Verdict:
    """Run the three sessions in a folder of their own, and judge."""
    clock = SharedClock(folder / "clock")
    started_at = clock.now
    provider = Provider(folder / "provider.db", scenario.behaviour, lambda: clock.now / 1_000_000)
    kills = (scenario.kill, scenario.kill_again, Kill())
    after_seconds, way = scenario.system.recovers
    seen = []
    for number, kill in enumerate(kills):
        if number > 0:
            clock.advance(after_seconds)
        orders = Orders(
            task=scenario.task,
            dies_at=kill.agent,
            server_dies_at=kill.server,
            is_patient=kill.is_patient,
            reads_the_plan=way == "by the plan",
        )
        _run_session(folder, provider, clock, orders, is_last=number == 2)
        seen.append([json.loads(line) for line in (folder / "notes").read_text().splitlines()])
    notes = seen[2]
    faults, end = judge(
        scenario, notes, provider.effects(KEY), passed_seconds=(clock.now - started_at) / 1_000_000
    )
    passed = {note["passed"] for note in seen[1][len(seen[0]) :] if "passed" in note}
    return Verdict(end=end, deaths=_deaths(notes), faults=tuple(faults), passed=frozenset(passed))


def _run_session(
    folder: Path, provider: Provider, clock: SharedClock, orders: Orders, *, is_last: bool
) -> None:
    """Fork an agent, and wait until it and every server that it started have ended."""

    def main() -> None:
        agent = Agent(folder, provider, clock, orders)
        agent.work()
        if is_last:
            agent.ask_for_the_whole()

    ending, held = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ending)
        run_and_exit(main)
    os.close(held)
    deadline = time.monotonic() + SESSION_SECONDS
    readable, _, _ = select.select([ending], [], [], deadline - time.monotonic())
    os.close(ending)
    assert readable, f"a session did not end: {orders}"
    while True:  # the servers of a killed agent come to this process, see `adopt_orphans`
        try:
            if os.waitpid(-1, 0)[0] == 0:
                return
        except ChildProcessError:
            return


def judge(
    scenario: Scenario, notes: list[dict[str, Any]], effects: list[str], *, passed_seconds: float
) -> tuple[list[str], str]:
    """Hold what the sessions were told against what the performing system did: what is wrong, and the end."""
    faults: list[str] = []
    last = notes[-1]
    checked = last.get("checked")
    if checked is None:
        return ["the last session did not get through"], "none"
    if last["verified"] != {"operations": 1, "faults": []}:
        faults.append(f"the journal does not verify: {last['verified']}")
    if len(effects) > 1:
        faults.append(f"{len(effects)} effects")
    answered = [note for note in notes if "tool" in note]
    kept = [receipt["external_id"] for receipt in checked.get("receipts", ())]
    acknowledged = [
        note["answer"]["receipt"]["external_id"] for note in answered if "receipt" in note["answer"]
    ]
    if not set(acknowledged) <= set(kept):
        faults.append(f"acknowledged {acknowledged}, kept {kept}")
    if not set(kept) <= set(effects):
        faults.append(f"receipts of no effect: {kept}")
    grants = Counter(
        note["answer"]["attempt"]
        for note in answered
        if note["answer"]["next"] == "perform" and not note["answer"]["replayed"]
    )
    if any(count > 1 for count in grants.values()):
        faults.append(f"an attempt was granted twice: {grants}")
    end = f"{checked['state']}, {checked['next']}: {checked['reason']}"
    if checked["state"] == "succeeded":
        if not effects or not kept:
            faults.append("reported as done, and nothing took place")
    elif end != "in_doubt, ask: unresolved":
        faults.append(f"neither settled nor flagged: {end}")
    else:
        faults += _wrongly_flagged(scenario, checked, answered, passed_seconds=passed_seconds)
    ends = [note["end"] for note in notes if note.get("end") in ("skip", "ask")]
    if ends[-1:] != [checked["next"]] or ("skip" in ends[:-1] and checked["state"] != "succeeded"):
        faults.append(f"told {ends}, and then {end}")
    return faults, end


def _wrongly_flagged(
    scenario: Scenario,
    checked: Mapping[str, Any],
    answered: list[dict[str, Any]],
    *,
    passed_seconds: float,
) -> list[str]:
    """Say why a person need not have been asked, if that is so."""
    faults = []
    if scenario.system.lookup != "none":
        faults.append("flagged, though it can be looked up")
    if scenario.system.repeat in ("safe", "keyed, long"):
        faults.append("flagged, though it could be repeated")
    if scenario.system.repeat == "keyed, short" and passed_seconds < KEY_IS_ALIVE_SECONDS:
        faults.append("flagged while its key was alive")
    if any(receipt["accepted"] for receipt in checked.get("receipts", ())):
        faults.append("flagged with a receipt on file")
    settled = [
        note
        for note in answered
        if note["tool"] in ("record_receipt", "record_failure")
        and note["given"]["attempt"] == checked["attempt"]
        and note["answer"]["state"] in ("succeeded", "failed")
    ]
    if settled:
        faults.append("flagged though its newest attempt was reported")
    if not checked.get("attempts"):
        faults.append("flagged though nothing was ever granted")
    return faults


def _deaths(notes: list[dict[str, Any]]) -> tuple[str, ...]:
    """Name each death that was really met."""
    agents = [f"agent {note['killed_at']}" for note in notes if "killed_at" in note]
    servers = [f"server at {note['server_killed_at']}" for note in notes if "server_killed_at" in note]
    return tuple(agents + servers)


def adopt_orphans() -> None:
    """Make the servers of a killed agent children of this process, which then waits for them."""
    if sys.platform == "linux":
        set_child_subreaper = 36
        ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def run_in(place: Path | None, scenario: Scenario) -> Verdict:
    """Run one scenario in a new folder of `place`."""
    with tempfile.TemporaryDirectory(prefix="counterfoil-", dir=place) as folder:
        return carry_out(scenario, Path(folder))


def run_whole(place: Path | None, system: System) -> Iterator[tuple[Scenario, Verdict]]:
    """Run every death that a first session meets, and every one that a session recovering from it meets."""
    for kill in [*single_kills(), *both_kills()]:
        scenario = Scenario(kill=kill, kill_again=Kill(), system=system)
        verdict = run_in(place, scenario)
        yield scenario, verdict
        if (
            len(verdict.deaths) != (kill.agent is not None) + (kill.server is not None)
            or kill in both_kills()
        ):
            continue
        for again in single_kills()[1:]:
            if again.server is not None or again.agent in verdict.passed:
                scenario = Scenario(kill=kill, kill_again=again, system=system)
                yield scenario, run_in(place, scenario)


def main() -> None:
    """Run a share of the matrix; one JSON line for each scenario that was at fault, and one at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whole", action="store_true", help="the whole product instead of the short choice")
    parser.add_argument("--share", default="1/1", help="which of how many parts, such as 2/8")
    parser.add_argument("--folder", type=Path, help="where the journals lie; memory where there is some")
    given = parser.parse_args()
    part, parts = map(int, given.share.split("/"))
    memory = Path("/dev/shm")
    place = given.folder or (memory if memory.is_dir() else None)
    adopt_orphans()
    warm_up()
    deaths: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    faulty, started = 0, time.monotonic()
    runs = (
        (run for system in systems()[part - 1 :: parts] for run in run_whole(place, system))
        if given.whole
        else ((scenario, run_in(place, scenario)) for scenario in short_choice()[part - 1 :: parts])
    )
    for scenario, verdict in runs:
        deaths[" and ".join(verdict.deaths)] += 1
        ends[verdict.end] += 1
        if verdict.faults:
            faulty += 1
            print(json.dumps({"faults": verdict.faults, "scenario": asdict(scenario)}), flush=True)
    summary = {
        "scenarios": sum(ends.values()),
        "faulty": faulty,
        "seconds": round(time.monotonic() - started, 1),
        "ends": ends,
        "deaths": deaths,
    }
    print(json.dumps(summary), flush=True)
    sys.exit(1 if faulty else 0)


if __name__ == "__main__":
    main()
