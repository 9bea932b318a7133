"""Any sequence of calls with any arguments: an answer or a fault each, and a whole journal after all of them.

Thousands of sequences, with the same code:
`COUNTERFOIL_LONG=1 uv run pytest tests/hostile/test_fuzz_tools.py`.
"""

from typing import Any

import anyio
from hypothesis import HealthCheck, given, settings

from crash.sessions import LONG
from hostile.fields import TOOLS
from hostile.fuzzing import CONNECTIONS, FROM_ANSWERS, Step, sequences
from hostile.house import House, open_house
from journals import FakeClock, folder_in_memory

MOST_CALLS = 24

PROFILE = settings(
    max_examples=3_000 if LONG else 100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    print_blob=True,
)


def filled(value: Any, known: dict[str, Any]) -> Any:
    """Put what earlier answers gave in the place of `<its name>`."""
    if isinstance(value, dict):
        return {name: filled(part, known) for name, part in value.items()}
    if isinstance(value, list):
        return [filled(part, known) for part in value]
    if isinstance(value, str) and value[:1] == "<" and value[1:-1] in FROM_ANSWERS:
        return known.get(value[1:-1], "nothing yet")
    return value


async def take(house: House, clock: FakeClock, step: Step, known: dict[str, Any]) -> None:
    """Carry one step out, twice where it is to be resent: the second time has no further effect."""
    clock.advance(step.passed_seconds)
    clock.jump(step.jump_seconds)
    arguments = filled(step.arguments, known)
    is_writing = not TOOLS[step.tool].reads_only
    if step.is_resent and is_writing and isinstance(arguments, dict):
        arguments = {**arguments, "call_id": f"a call sent twice, {house.events():08}"}
    answer = await house.call(step.tool, arguments, connection=step.connection)
    known.update({name: answer[name] for name in FROM_ANSWERS if isinstance(answer.get(name), str)})
    if step.is_resent:
        before = house.events()
        again = await house.call(step.tool, arguments, connection=step.connection)
        assert house.events() == before, f"sent twice, {step.tool} recorded something twice"
        if "fault" in answer or not is_writing:
            assert ("fault" in again) == ("fault" in answer)
        if "state" in answer:
            assert again.get("state") == answer["state"]


async def play(steps: list[Step]) -> None:
    """Carry the steps out on a new journal, and hold that it is whole and of use afterwards."""
    clock, known = FakeClock(), dict[str, Any]()
    with folder_in_memory() as folder:
        async with open_house(folder, clock=clock, connections=CONNECTIONS) as house:
            for step in steps:
                await take(house, clock, step, known)
            await house.check_whole()
            await house.check_works()


@PROFILE
@given(sequences(most=MOST_CALLS))
def test_any_calls_are_answered_and_leave_a_whole_journal(steps: list[Step]) -> None:
    anyio.run(play, steps)
