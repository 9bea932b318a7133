"""Every tool, in every state that a begun operation can be in, sent twice: the second has no further effect.

Twice means the same bytes: the same request id and the same body, with a call id and without one.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from crash.sessions import LONG
from hostile.fields import TOOLS, choices, minimal
from hostile.house import House, open_house
from journals import FakeClock, after, folder_in_memory

pytestmark = pytest.mark.anyio

EFFECT: Mapping[str, Any] = {"key": "key-1", "action": "mail.send", "target": "alice@example.org"}
LOOKUP = {"lookup": {"tool": "mail.search", "settle_seconds": 60}}
RECEIPT: Mapping[str, Any] = {"key": "key-1", "kind": "message", "system": "smtp", "external_id": "m-1"}
REFUSED = {"status": 422}
FAILED: Mapping[str, Any] = {
    "key": "key-1",
    "attempt": 1,
    "effect": "none",
    "error": "no",
    "evidence": REFUSED,
}
CLOSED: Mapping[str, Any] = {"key": "key-1", "reason": "decided"}

Calls = tuple[tuple[str, Mapping[str, Any], float], ...]
"""A tool, its arguments without the run, and how much time passes before it."""

BEGUN: Calls = (("begin_operation", {**EFFECT, **LOOKUP}, 0),)
RECORDED: Calls = (*BEGUN, ("record_receipt", RECEIPT, 0))
REPORTED: Calls = (*BEGUN, ("record_failure", FAILED, 0))
SITUATIONS: Mapping[str, Calls] = {
    "nothing": (),
    "planned": (("begin_run", {"plan": [EFFECT]}, 0),),
    "in_progress": BEGUN,
    "in_doubt": (*BEGUN, ("check_operation", {"key": "key-1"}, 400)),
    "failed": REPORTED,
    "succeeded": RECORDED,
    "timed_out": (*BEGUN, ("close_operation", {**CLOSED, "outcome": "timed_out"}, 0)),
    "cancelled": (*REPORTED, ("close_operation", {**CLOSED, "outcome": "cancelled"}, 0)),
    "disputed": (*RECORDED, ("record_receipt", {**RECEIPT, "external_id": "m-2"}, 0)),
    "finished": (*RECORDED, ("finish_run", {"outcome": "completed"}, 0)),
}


def variants(tool: str) -> list[dict[str, Any]]:
    """Give the ways to call a tool: every option of what has to be chosen, bare and with more said."""
    known = TOOLS[tool].input_model.model_fields
    ref = {name: value for name, value in EFFECT.items() if name in known}
    more: dict[str, dict[str, Any]] = {
        "begin_operation": {"args": {"n": 1}, **LOOKUP, "context": {"model": "m"}},
        "record_receipt": RECEIPT | {"attempt": 1, "evidence": {"id": 1}, "satisfies": ["c1"]},
        "record_failure": {"evidence": REFUSED, "retry_after_seconds": 10},
        "reconcile_operation": RECEIPT | {"as_of": after(400), "evidence": {"found": []}},
        "begin_run": {"plan": [EFFECT], "context": {"model": "m"}, "goal": "a goal"},
        "record_progress": {"message": "still at it", "fraction": 0.5, "checkpoint": {"page": 3}},
        "request_authority": {"why": "it is urgent"},
    }
    bare = [minimal(tool, choice=choice, **ref) for choice in range(choices(tool))]
    return bare + [one | more[tool] for one in bare if tool in more]


WRITING = [tool for tool, specification in TOOLS.items() if not specification.reads_only]

HEARD_ANEW = ("record_progress", "begin_run")
"""Without an id of the call each is a word of its own: still at work, here again. It grants nothing."""


def of_run(run: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Put a run's name in, and into the references of performing systems, which are of one operation only."""
    named = {"run": run, **given}
    if "external_id" in named:
        named["external_id"] = f"{named['external_id']}-{run}"
    return named


BY_ANOTHER = tuple(SITUATIONS) if LONG else ("in_progress", "in_doubt", "failed")
"""Where it matters most who calls."""


@pytest.mark.parametrize(
    ("situation", "connection"),
    [*((name, "one") for name in SITUATIONS), *((name, "another") for name in BY_ANOTHER)],
)
async def test_a_call_sent_twice_has_no_further_effect(situation: str, connection: str) -> None:
    clock = FakeClock()
    with folder_in_memory() as folder:
        async with open_house(folder, clock=clock, connections=("one", "another")) as house:
            for tool in WRITING:
                for number, given in enumerate(variants(tool)):
                    ids = (None, f"call {tool} {number:08}")
                    for call_id in ids if LONG else (ids[number % 2],):
                        run = f"{tool}-{number}-{call_id is None}"
                        for before, arguments, passed_seconds in SITUATIONS[situation]:
                            clock.advance(passed_seconds)
                            assert "fault" not in await house.call(before, of_run(run, arguments))
                        arguments = of_run(run, given)
                        if call_id is not None:
                            arguments["call_id"] = call_id
                        await send_twice(house, connection, tool, arguments)
            await house.check_whole()


async def send_twice(house: House, connection: str, tool: str, arguments: dict[str, Any]) -> None:
    """Send one call twice, and hold that the second time changed nothing."""
    what, run = f"{tool} {arguments}", arguments["run"]
    first = await house.call(tool, arguments, connection=connection)
    events, seen = house.events(), await everything(house, run)
    again = await house.call(tool, arguments, connection=connection)
    has_id = "call_id" in arguments
    if has_id or tool not in HEARD_ANEW:
        assert house.events() == events, what
        assert await everything(house, run) == seen, what
    assert (again.get("state"), "fault" in again) == (first.get("state"), "fault" in first), what
    if first.get("next") == "perform":
        told = (again["next"], again["reason"], again.get("idempotency_key"))
        key = first["idempotency_key"]
        expected = ("perform", "replayed", key) if has_id else ("wait", "lease_held_by_you", key)
        assert told[: 3 if has_id else 2] == expected[: 3 if has_id else 2], what
    elif "fault" not in first:
        assert again["next"] != "perform", what


async def everything(house: House, run: str) -> dict[str, Any]:
    """Read what is on record, without the time of the reading."""
    checked = await house.call("check_operation", {"run": run, "key": "key-1", "detail": "full"})
    plan = await house.call("resume_plan", {"run": run, "include": "all"})
    for changing in ("as_of", "settle_until"):
        checked.pop(changing, None)
    return {
        "operation": checked,
        "counts": plan.get("counts"),
        "run": plan.get("run"),
    }
