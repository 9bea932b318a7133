"""By tools alone: the model calls journal and spool itself, and its client is killed between the two."""

from collections.abc import Mapping
from typing import Any

from clients.driver import Driver, wait_for
from clients.scripted_model import Say, Script, ScriptedModel, Turn, prompt_of
from clients.story import BEGIN, RUN, World


def send(turn: Turn) -> Mapping[str, Any]:
    return {"to": BEGIN["target"], "text": BEGIN["payload"], "reference": turn[-1].at("operation")}


def find(turn: Turn) -> Mapping[str, Any]:
    return {"reference": turn[0].at("steps", 0, "operation")}


def reconcile(turn: Turn) -> Mapping[str, Any]:
    plan, found = turn[0], turn[1]
    return {
        "operation": plan.at("steps", 0, "operation"),
        "finding": "performed",
        "checked_with": "find_letters",
        "as_of": plan.at("as_of"),
        "kind": "message",
        "system": "spool",
        "external_id": found.at("letters", 0, "message_id"),
    }


def scripts_for(client: Driver) -> dict[str, Script]:
    """Give the two sessions: one that is killed after the letter, and one that takes the run up again."""
    return {
        "first": [
            client.call("counterfoil", "begin_operation", BEGIN),
            client.call("spool", "send_letter", send),
        ],
        "second": [
            client.call("counterfoil", "resume_plan", {"run": RUN}),
            client.call("spool", "find_letters", find),
            client.call("counterfoil", "reconcile_operation", reconcile),
            client.call("counterfoil", "begin_operation", BEGIN),
            Say("Nothing is left to do."),
        ],
    }


def test_a_letter_is_sent_once_when_its_client_is_killed_before_the_receipt(
    client: Driver, model: ScriptedModel, world: World
) -> None:
    client.configure({"counterfoil": world.counterfoil("serve"), "spool": world.spool_server})
    model.scripts |= scripts_for(client)
    world.spool.hold()
    first = client.start(prompt_of("first"))
    wait_for(lambda: bool(world.spool.letters()) or first.has_ended, "the letter")
    assert world.spool.letters(), (model.problems, client.told())
    client.kill(first)
    world.spool.let_go()
    assert world.state() in ("in_progress", "in_doubt")
    wait_for(lambda: world.state() == "in_doubt", "the end of the lease")

    client.run(prompt_of("second"), resumes=True)

    [letter] = world.spool.letters()
    assert world.state() == "succeeded"
    plan, found, reconciled, begun = model.shown("second")
    assert plan.at("steps", 0, "next") == "reconcile"
    assert found.at("letters", 0) == letter
    assert (reconciled.at("next"), reconciled.at("state")) == ("continue", "succeeded")
    assert (begun.at("next"), begun.at("reason")) == ("skip", "already_succeeded")
