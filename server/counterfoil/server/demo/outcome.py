"""What the demo showed: how often each effect took place, and which promise that breaks."""

from msgspec import Struct, field

from counterfoil.server.demo.job import JOB

__all__ = ["Effect", "Outcome", "broken_promises"]


class Effect(Struct, frozen=True, kw_only=True):
    """How often one effect took place, as the outside systems tell, and how its operation ended."""

    key: str
    label: str
    with_counterfoil: int
    naive_retry: int
    next: str
    state: str


class Outcome(Struct, frozen=True, kw_only=True):
    """What the demo showed. `problems` is empty if the promise was kept."""

    seconds: float
    effects: tuple[Effect, ...] = ()
    problems: tuple[str, ...] = field(default=())

    @property
    def is_kept(self) -> bool:
        """Whether every effect took place as often as it should."""
        return not self.problems


def broken_promises(effects: tuple[Effect, ...]) -> list[str]:
    """Tell which promise was not kept."""
    problems = []
    for step, effect in zip(JOB, effects, strict=True):
        times = effect.with_counterfoil
        if step.can_be_looked_up:
            if times != 1:
                problems.append(f"{effect.label}: took place {times} times, not once")
            if effect.state != "succeeded":
                problems.append(f"{effect.label}: ended {effect.state}, not succeeded")
        else:
            if times > 1:
                problems.append(f"{effect.label}: took place {times} times, not at most once")
            if effect.next != "ask":
                problems.append(f"{effect.label}: ended in {effect.next}, not in a question to a person")
    return problems
