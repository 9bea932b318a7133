"""Explores a world exhaustively, breadth first, so that the way to a violation is a shortest one."""

from collections import deque
from dataclasses import dataclass

from domain.search.deciding import Deciding, Violation
from domain.search.moves import Moves, Situation
from domain.search.rules import Rules
from domain.search.worlds import World

__all__ = ["Found", "explore"]


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a search came to: how much was explored, and the first violation with the way to it."""

    world: str
    situations: int
    transitions: int
    facts: int
    rule: str | None = None
    trace: tuple[str, ...] = ()

    def __str__(self) -> str:
        counted = (
            f"{self.world}: {self.situations} states, {self.transitions} transitions, "
            f"{self.facts} different facts of an operation"
        )
        if self.rule is None:
            return counted
        return "\n".join((counted, f"VIOLATED: {self.rule}", *(f"  {line}" for line in self.trace)))


def explore(world: World, rules: Rules) -> Found:
    """Visit everything that can be reached in `world` under `rules`, or stop at the first violation."""
    deciding = Deciding(rules, world)
    moves = Moves(world, deciding)
    came_from: dict[Situation, tuple[Situation, str] | None] = {moves.start: None}
    waiting = deque([moves.start])
    transitions = 0
    rule: str | None = None
    trace: tuple[str, ...] = ()
    while waiting and rule is None:
        situation = waiting.popleft()
        try:
            for words, after in moves.all(situation):
                transitions += 1
                if after not in came_from:
                    came_from[after] = (situation, words)
                    waiting.append(after)
        except Violation as violation:
            rule, trace = violation.rule, (*_way(came_from, situation), f"t={situation.clock} {violation}")
    return Found(
        world=world.name,
        situations=len(came_from),
        transitions=transitions,
        facts=deciding.different_facts,
        rule=rule,
        trace=trace,
    )


def _way(came_from: dict[Situation, tuple[Situation, str] | None], to: Situation) -> list[str]:
    """Tell how a situation came about, one move a line."""
    lines: list[str] = []
    step = came_from[to]
    while step is not None:
        before, words = step
        lines.append(f"t={before.clock} {words}")
        step = came_from[before]
    return lines[::-1]
