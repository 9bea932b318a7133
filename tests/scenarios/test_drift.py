"""Field reports about drift: what changed around the work never changes what is on record of it."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from journals import ANOTHER, open_desk

pytestmark = pytest.mark.anyio

CONTEXT: dict[str, Any] = {
    "model": {"id": "model-a", "version": "1"},
    "tools": {"mail": {"digest": "d1"}, "git": {"digest": "d2"}},
}


@pytest.mark.parametrize("today", [{**CONTEXT, "model": "model-b"}, {"tools": CONTEXT["tools"]}, None])
async def test_another_model_or_none_changes_no_identity_and_reopens_nothing(
    tmp_path: Path, today: dict[str, Any] | None
) -> None:
    """D-1: begun under model A; the session that resumes reports B, or nothing of its model."""
    async with open_desk(tmp_path) as desk:
        done, failed = desk.at("done"), desk.at("failed")
        first = await done.begin(context=CONTEXT)
        await done.receipt()
        again = await done.begin(context=today, caller=ANOTHER)
        assert (again["operation"], again["next"]) == (first["operation"], "skip")
        granted = await failed.begin(context=CONTEXT)
        await failed.failure("none", evidence={"status": 400})
        retry = await failed.begin(context=today, caller=ANOTHER)
        assert retry["next"] == "perform"
        contexts = [attempt.get("context") for attempt in (await failed.check())["attempts"]]
        assert contexts[0] is not None
        assert contexts[1] != contexts[0]
        assert granted["operation"] == retry["operation"]


async def test_a_renamed_step_is_recognised_by_its_effect(tmp_path: Path) -> None:
    """D-4: version 2 renames the step of a finished effect; the old one stays readable under its key."""
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


async def test_one_context_in_another_order_is_one_context(tmp_path: Path) -> None:
    """D-5: a warm and a cold process write the same facts in different orders."""
    cold = {name: deepcopy(CONTEXT[name]) for name in reversed(CONTEXT)}
    cold["tools"] = dict(reversed(cold["tools"].items()))
    async with open_desk(tmp_path) as desk:
        await desk.begin(context=CONTEXT)
        await desk.failure("none", evidence={"status": 400})
        await desk.begin(context=cold, caller=ANOTHER)
        first, second = (await desk.check())["attempts"]
        assert first["context"] == second["context"]
