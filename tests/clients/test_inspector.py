"""The MCP Inspector reads what the server offers, and its calls are guarded as those of any other client."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.conftest import require
from clients.driver import wait_for
from clients.inspector import Inspector, words_of
from clients.story import BEGIN, KEY, RUN, World
from counterfoil.tools.catalogue import ALL_TOOLS

pytestmark = pytest.mark.client


@pytest.fixture
def inspector(tmp_path: Path) -> Iterator[Inspector]:
    """The Inspector, in a home of its own."""
    require(Inspector.name)
    inspector = Inspector(tmp_path)
    yield inspector
    inspector.close()


def test_the_inspector_lists_the_tools_with_their_schemas(inspector: Inspector, world: World) -> None:
    listed = inspector.ask(world.counterfoil("serve"), "tools/list")["tools"]
    assert [tool["name"] for tool in listed] == [tool.name for tool in ALL_TOOLS]
    assert all(tool["inputSchema"] and tool["outputSchema"] and tool["annotations"] for tool in listed)


def test_a_letter_is_sent_once_when_the_inspector_is_killed_before_the_receipt(
    inspector: Inspector, world: World
) -> None:
    journal = world.counterfoil("serve", "--tools", "core")
    begun = inspector.call(journal, "begin_operation", BEGIN)
    world.spool.hold()
    letter = {"to": BEGIN["target"], "text": BEGIN["payload"], "reference": begun["operation"]}
    sending = inspector.start_call(world.spool_server, "send_letter", letter)
    wait_for(lambda: bool(world.spool.letters()) or sending.poll() is not None, "the letter")
    inspector.kill(sending)
    world.spool.let_go()
    wait_for(lambda: world.state() == "in_doubt", "the end of the lease")

    plan = inspector.call(journal, "resume_plan", {"run": RUN})
    [step] = plan["steps"]
    assert (step["next"], step["reason"], step["key"]) == ("reconcile", "in_doubt", KEY)
    found = inspector.call(world.spool_server, "find_letters", {"reference": step["operation"]})
    finding = {
        "operation": step["operation"],
        "finding": "performed",
        "checked_with": "find_letters",
        "as_of": plan["as_of"],
        "kind": "message",
        "system": "spool",
        "external_id": found["letters"][0]["message_id"],
    }
    assert inspector.call(journal, "reconcile_operation", finding)["state"] == "succeeded"
    again = inspector.call(journal, "begin_operation", BEGIN)
    assert (again["next"], again["reason"]) == ("skip", "already_succeeded")
    assert len(world.spool.letters()) == 1


def test_a_call_is_passed_on_once_when_the_inspector_is_killed_before_the_answer(
    inspector: Inspector, world: World, tmp_path: Path
) -> None:
    gateway = world.gateway(tmp_path)
    letter = {"to": BEGIN["target"], "text": BEGIN["payload"], "reference": "invoice-42"}
    world.spool.hold()
    sending = inspector.start_call(gateway, "send_letter", letter)
    wait_for(lambda: bool(world.spool.letters()) or sending.poll() is not None, "the letter")
    inspector.kill(sending)
    world.spool.let_go()
    wait_for(lambda: world.only_state() == "in_doubt", "the end of the lease")

    answer = inspector.ask(gateway, "tools/call", *words_of("send_letter", letter))

    [sent] = world.spool.letters()
    assert sent["message_id"] in json.dumps(answer)
    assert answer["_meta"]["counterfoil/gateway"]["replayed"] is True
    assert world.only_state() == "succeeded"
