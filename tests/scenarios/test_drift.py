"""Field reports about drift: what changed around the work never changes what is on record of it."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from counterfoil.store.domain.states import Policy
from journals import ANOTHER, open_desk

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]

CONTEXT: dict[str, Any] = {
    "model": {"id": "model-a", "version": "1"},
    "tools": {"mail": {"digest": "d1"}, "git": {"digest": "d2"}},
}


MODEL_A = {"id": "model-a", "version": "1"}
UNKNOWN_TOOLS = {"component": "tools", "recorded": CONTEXT["tools"], "given": "unknown", "class": "note"}


@pytest.mark.parametrize(
    ("today", "told"),
    [
        (
            {**CONTEXT, "model": "model-b"},
            [{"component": "model", "recorded": MODEL_A, "given": "model-b", "class": "note"}],
        ),
        (
            {"tools": CONTEXT["tools"]},
            [{"component": "model", "recorded": MODEL_A, "given": "unknown", "class": "note"}],
        ),
        (
            None,
            [
                {"component": "model", "recorded": MODEL_A, "given": "unknown", "class": "note"},
                UNKNOWN_TOOLS,
            ],
        ),
    ],
    ids=["another model", "no model", "nothing"],
)
async def test_another_model_or_none_is_told_changes_no_identity_and_reopens_nothing(
    tmp_path: Path, today: dict[str, Any] | None, told: list[dict[str, Any]]
) -> None:
    """D-1: begun under model A; the session that resumes reports B, or nothing of its model.

    Reported: anthropics/claude-code#76363, github/copilot-cli#4645, diegopetrucci/the-last-harness#467.
    """
    async with open_desk(tmp_path) as desk:
        done, failed = desk.at("done"), desk.at("failed")
        first = await done.begin(context=CONTEXT)
        await done.receipt()
        granted = await failed.begin(context=CONTEXT)
        assert "drift" not in granted
        await failed.failure("none", evidence={"status": 400})
        if today is not None:
            assert (await desk.plan(context=today, caller=ANOTHER))["drift"] == told
        again = await done.begin(context=today, caller=ANOTHER)
        assert (again["operation"], again["next"], again["reason"]) == (
            first["operation"],
            "skip",
            "already_succeeded",
        )
        retry = await failed.begin(context=today, caller=ANOTHER)
        assert (retry["next"], retry["reason"], retry["attempt"]) == ("perform", "retry_after_failure", 2)
        assert retry["drift"] == told
        assert granted["operation"] == retry["operation"]
        contexts = [attempt.get("context") for attempt in (await failed.check())["attempts"]]
        assert contexts[0] is not None
        assert contexts[1] != contexts[0]
        check = await done.check()
        assert (check["state"], check["attempts_in_all"]) == ("succeeded", 1)


TOOL: dict[str, Any] = {
    "name": "send_mail",
    "description": "Sends one mail",
    "inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
    "annotations": {"destructiveHint": True},
}
OTHER_TOOL = {"name": "search_mail", "description": "Finds mails"}
WIDENED = {**TOOL["inputSchema"], "properties": {"to": {"type": "string"}, "bcc": {"type": "string"}}}


@pytest.mark.parametrize(
    ("today", "is_there"),
    [
        ([{**TOOL, "description": "Sends one mail, or many"}, OTHER_TOOL], True),
        ([{**TOOL, "inputSchema": WIDENED}, OTHER_TOOL], True),
        ([{**TOOL, "annotations": {"destructiveHint": False}}, OTHER_TOOL], True),
        ([OTHER_TOOL], False),
        ([OTHER_TOOL, dict(reversed(TOOL.items()))], None),
    ],
    ids=["another description", "a wider schema", "another hint", "removed", "another order"],
)
async def test_a_tool_that_changed_after_the_approval_is_named_and_its_order_is_none(
    tmp_path: Path, today: list[dict[str, Any]], is_there: bool | None
) -> None:
    """D-2: begun with the definitions that were approved; a later session lists its tools of today.

    Reported: vercel/ai#16902, IBM/mcp-context-forge#5471, luckyPipewrench/pipelock#1230.
    """
    async with open_desk(tmp_path, policy=Policy(drift={"tools": "block"})) as desk:
        await desk.at("done").begin(context={"tools": [TOOL, OTHER_TOOL]})
        await desk.at("done").receipt()
        plan = await desk.plan(context={"tools": today}, caller=ANOTHER)
        next_step = await desk.at("next").begin(context={"tools": today}, caller=ANOTHER)
        again = await desk.at("done").begin(context={"tools": today}, caller=ANOTHER)
        assert (again["next"], again["reason"]) == ("skip", "already_succeeded")
        if is_there is None:
            assert "drift" not in plan
            assert (next_step["next"], next_step["attempt"]) == ("perform", 1)
            return
        (drift,) = plan["drift"]
        assert (drift["component"], drift["class"]) == ("tools.send_mail", "block")
        assert drift["recorded"]["digest"].startswith("sha256:")
        assert drift["recorded"] != drift["given"]
        assert (drift["given"] == "not there") is not is_there
        assert (next_step["next"], next_step["reason"]) == ("ask", "drift")
        assert next_step["drift"] == [drift]
        assert (await desk.at("next").check())["state"] == "planned"
        assert plan["counts"] == {"succeeded": 1}


async def test_a_renamed_step_is_recognised_by_its_effect(tmp_path: Path) -> None:
    """D-4: version 2 renames the step of a finished effect; the old one stays readable under its key.

    Reported: coji/durably#95, itlackey/akm#919.
    """
    async with open_desk(tmp_path) as desk:
        effect = {"action": "email.send", "target": "alice@example.org", "args": {"invoice": 42}}
        old = await desk.at("send_mail").begin(workflow_version="1", **effect)
        await desk.at("send_mail").receipt()
        renamed = await desk.at("send_email").begin(workflow_version="2", caller=ANOTHER, **effect)
        assert (renamed["next"], renamed["reason"]) == ("stop", "possible_duplicate")
        (duplicate,) = renamed["duplicates"]
        assert (duplicate["operation"], duplicate["key"]) == (old["operation"], "send_mail")
        assert (duplicate["state"], duplicate["same"]) == ("succeeded", "fingerprint")
        again = await desk.at("send_mail").begin(workflow_version="2", caller=ANOTHER, **effect)
        assert (again["next"], again["reason"]) == ("skip", "already_succeeded")
        assert [receipt["external_id"] for receipt in again["receipts"]] == ["m-1"]
        (step,) = (await desk.plan(context={"workflow_version": "2"}))["steps"]
        assert (step["key"], step["state"], step["attempt"]) == ("send_mail", "succeeded", 1)
        assert (await desk.at("send_mail").check(detail="args"))["content"] == '{"invoice":42}'


async def test_one_context_in_another_order_is_one_context(tmp_path: Path) -> None:
    """D-5: a warm and a cold process write the same facts in different orders.

    Reported: pydantic/pydantic-ai#5875, pydantic/pydantic-ai#5884.
    """
    cold = {name: deepcopy(CONTEXT[name]) for name in reversed(CONTEXT)}
    cold["tools"] = dict(reversed(cold["tools"].items()))
    async with open_desk(tmp_path) as desk:
        await desk.begin(context=CONTEXT)
        await desk.failure("none", evidence={"status": 400})
        retry = await desk.begin(context=cold, caller=ANOTHER)
        assert (retry["next"], retry["attempt"]) == ("perform", 2)
        assert "drift" not in retry
        assert "drift" not in await desk.plan(context=cold)
        first, second = (await desk.check())["attempts"]
        assert first["context"] == second["context"]
