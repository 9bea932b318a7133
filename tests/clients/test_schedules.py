"""A schedule of Letta Code fires twice for one slot: its server is killed, and the next fires on starting."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from clients.conftest import require
from clients.driver import wait_for
from clients.letta_code import LettaCode
from clients.scripted_model import Call, Say, Script, ScriptedModel, Turn, prompt_of
from clients.story import BEGIN, World

pytestmark = pytest.mark.client

LATEST_START_SECONDS = 15
"""From so early in a minute on, both firings are for that minute: together they take about half of it."""


@pytest.fixture
def letta(tmp_path: Path, model: ScriptedModel) -> Iterator[LettaCode]:
    """Letta Code, in a home of its own."""
    require(LettaCode.name)
    client = LettaCode(tmp_path, model)
    yield client
    client.close()


def run_of(turn: Turn) -> str:
    """Name the run after the slot, to the minute, as the prompt of a firing tells it."""
    slot = turn.prompt.matching(r"Scheduled for: (\S{16})")
    return f"letters/{slot}Z"


def firing(letta: LettaCode) -> Script:
    """Give a session that does its slot's work where the journal permits it, and looks where it says so."""

    def begin(turn: Turn) -> Mapping[str, Any]:
        return {**BEGIN, "run": run_of(turn)}

    def next_step(turn: Turn) -> Call | Say:
        reference = {"reference": turn[0].at("operation")}
        match turn[0].at("next"):
            case "perform":
                letter = {"to": BEGIN["target"], "text": BEGIN["payload"], **reference}
                return letta.call("spool", "send_letter", letter)
            case "reconcile":
                return letta.call("spool", "find_letters", reference)
            case _:
                return Say("Nothing to do.")

    def reconcile(turn: Turn) -> Mapping[str, Any]:
        return {
            "operation": turn[0].at("operation"),
            "finding": "performed",
            "checked_with": "find_letters",
            "as_of": turn[0].at("as_of"),
            "kind": "message",
            "system": "spool",
            "external_id": turn[1].at("letters", 0, "message_id"),
        }

    return [
        letta.call("counterfoil", "begin_operation", begin),
        next_step,
        letta.call("counterfoil", "reconcile_operation", reconcile),
        Say("The slot is served."),
    ]


def test_a_slot_that_is_fired_twice_has_one_letter(
    letta: LettaCode, model: ScriptedModel, world: World
) -> None:
    letta.configure({"counterfoil": world.counterfoil("serve"), "spool": world.spool_server})
    model.scripts["firing"] = firing(letta)
    every_minute = ("--name", "letters", "--description", "letters", "--cron", "* * * * *")
    letta.letta("cron", "add", *every_minute, "--prompt", prompt_of("firing"), "--agent", letta.agent)

    wait_for(lambda: time.time() % 60 < LATEST_START_SECONDS, "a new minute")
    world.spool.hold()
    killed = letta.start_scheduler()
    wait_for(lambda: bool(world.spool.letters()) or killed.has_ended, "the letter")
    begun = model.shown("firing")[0]
    letta.kill(killed)
    world.spool.let_go()
    run = begun.at("run")
    wait_for(lambda: world.state(run) == "in_doubt", "the end of the lease")

    again = letta.start_scheduler()
    wait_for(lambda: world.state(run) == "succeeded" or again.has_ended, "the second firing")
    letta.kill(again)

    begun_again, found = model.shown("firing")[:2]
    assert begun_again.at("run") == run, "the machine was too slow: the second firing was for the next slot"
    assert (begun_again.at("next"), begun_again.at("reason")) == ("reconcile", "in_doubt")
    [letter] = world.spool.letters()
    assert found.at("letters", 0) == letter
    assert world.state(run) == "succeeded"
