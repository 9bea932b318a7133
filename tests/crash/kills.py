"""What the crash matrix is made of: places to die, kinds of performing systems, and the choice of both."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import combinations, cycle, product
from typing import Any

from crash.agent import POINTS
from crash.provider import Behaviour

__all__ = [
    "KEY",
    "KEY_IS_ALIVE_SECONDS",
    "PLACES",
    "SECOND_KILLS",
    "Kill",
    "Scenario",
    "System",
    "both_kills",
    "server_kills",
    "short_choice",
    "single_kills",
    "systems",
]

RUN, KEY = "weekly-report/2026-W48", "email:alice"

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
        best: tuple[tuple[int, int], System, set[tuple[str, str]]] | None = None
        for system, named in values:
            if system.can_meet(kill):
                new = set(combinations([f"1 {kill}", f"2 {again}", *named], 2)) - seen
                # A death has few rows to meet everything in: its own pairs come first.
                gained = (sum(first.startswith("1 ") for first, _ in new), len(new))
                if best is None or gained > best[0]:
                    best = gained, system, new
        assert best is not None
        chosen.append(Scenario(kill=kill, kill_again=again, system=best[1]))
        seen |= best[2]
        # Where several are as good, the next death does not fall to the same one.
        values = values[71:] + values[:71]
    return chosen
