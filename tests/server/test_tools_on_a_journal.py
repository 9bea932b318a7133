"""The six tools on a real journal, as the SDK's own client sees them, each answer held against its schema."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client

from counterfoil.server.app import build_server
from counterfoil.server.callers import ClientInfo
from counterfoil.tools.catalogue import ALL_TOOLS
from journals import FakeClock, open_test_journal

pytestmark = pytest.mark.anyio

MOST_CHARACTERS = 10_000
MODELS = {tool.name: tool.output_model for tool in ALL_TOOLS}
RUN = "weekly-report/2026-W48"
BEGIN: dict[str, Any] = {
    "run": RUN,
    "key": "email:alice",
    "action": "mail.send",
    "target": "alice@example.org",
}


class Session:
    """One connection of a client; each answer is held against what every answer promises."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and give its answer."""
        result = await self._client.call_tool(tool, arguments)
        [content] = result.content
        assert content.type == "text"
        assert result.is_error is False, content.text
        assert len(content.text) <= MOST_CHARACTERS
        answer = result.structured_content
        assert isinstance(answer, dict)
        assert json.loads(content.text) == answer
        assert list(answer)[:3] == ["next", "reason", "guidance"]
        MODELS[tool].model_validate(answer)
        return answer

    async def verb(self, tool: str, **arguments: Any) -> str:
        """Call a tool and give its verb and reason."""
        answer = await self.call(tool, **arguments)
        return f"{answer['next']}: {answer['reason']}"


@asynccontextmanager
async def session(
    folder: Path, clock: FakeClock, *, mode: Literal["auto", "legacy"] = "auto", connection: str = "first"
) -> AsyncIterator[Session]:
    """Open the journal in `folder` and connect a client to it."""
    async with open_test_journal(folder, clock=clock) as journal:

        async def get() -> Any:
            return journal

        async with Client(build_server(get, client=ClientInfo(connection=connection)), mode=mode) as client:
            yield Session(client)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_second_session_that_follows_next_settles_what_the_first_left_in_doubt(
    tmp_path: Path, mode: Literal["auto", "legacy"]
) -> None:
    clock = FakeClock()
    lookup = {"tool": "mail.search", "args": {"to": "alice"}, "settle_seconds": 60}
    async with session(tmp_path, clock, mode=mode) as first:
        granted = await first.call("begin_operation", **BEGIN, payload="Dear Alice", lookup=lookup)
        assert (granted["next"], granted["attempt"]) == ("perform", 1)
    clock.advance(301)
    async with session(tmp_path, clock, mode=mode, connection="second") as second:
        plan = await second.call("resume_plan", run=RUN)
        [step] = plan["steps"]
        assert (step["next"], step["state"], plan["complete"]) == ("reconcile", "in_doubt", False)
        assert await second.verb("begin_operation", **BEGIN, payload="Hi Alice") == "reconcile: in_doubt"
        found = {"operation": step["operation"], "external_id": "m-1", "kind": "message"}
        verb = await second.verb(
            "reconcile_operation",
            **found,
            finding="performed",
            checked_with="mail.search",
            as_of=plan["as_of"],
        )
        assert verb == "continue: recorded"
        assert await second.verb("record_receipt", **found) == "continue: duplicate"
        assert await second.verb("begin_operation", **BEGIN) == "skip: already_succeeded"
        who = await second.call("check_operation", external_id="m-1", detail="full")
        assert (who["operation"], who["state"]) == (step["operation"], "succeeded")
        assert (await second.call("resume_plan", run=RUN))["complete"] is True


async def test_every_refusal_of_a_begin_is_an_answer(tmp_path: Path) -> None:
    async with session(tmp_path, FakeClock()) as here:
        await here.call("begin_operation", **BEGIN, args={"n": 1}, call_id="call-0123456789abcdef")
        again = {**BEGIN, "args": {"n": 1.0}, "call_id": "call-0123456789abcdef"}
        assert await here.verb("begin_operation", **again) == "perform: replayed"
        assert await here.verb("begin_operation", **BEGIN, args='{"n": 1}') == "wait: lease_held_by_you"
        assert await here.verb("begin_operation", **BEGIN, args={"n": 2}) == "stop: identity_conflict"
        assert await here.verb("begin_operation", **{**BEGIN, "key": "other"}) == "stop: possible_duplicate"
        failed = {"run": RUN, "key": BEGIN["key"], "attempt": 1, "error": "refused"}
        evidence = {"status": 422}
        verb = await here.verb("record_failure", **failed, effect="none", evidence=evidence)
        assert verb == "continue: recorded"
        assert await here.verb("begin_operation", **BEGIN, args={"n": 1}) == "perform: retry_after_failure"
        assert await here.verb("resume_plan", run="unheard-of") == "continue: no_history"


async def test_a_long_body_comes_back_whole_page_by_page(tmp_path: Path) -> None:
    payload = "Grüße\n" * 8_000
    async with session(tmp_path, FakeClock()) as here:
        begun = await here.call("begin_operation", **BEGIN, payload=payload)
        read, offset = "", 0
        while offset is not None:
            page = await here.call(
                "check_operation", operation=begun["operation"], detail="payload", offset=offset
            )
            read += page["content"]
            offset = page.get("next_offset")
    assert payload == (read if page["format"] == "text" else json.loads(read))


async def test_a_plan_of_many_steps_is_paged_within_the_bounds(tmp_path: Path) -> None:
    async with session(tmp_path, FakeClock()) as here:
        for number in range(40):
            step = {
                "run": RUN,
                "key": f"step-{number}",
                "action": "mail.send",
                "target": f"{number}@example.org",
            }
            await here.call("begin_operation", **step, lookup={"instructions": "look " * 100})
        keys: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            plan = await here.call("resume_plan", run=RUN, **cursor)
            assert "shortened" not in plan
            keys += [step["key"] for step in plan["steps"]]
            if not plan["cut"]:
                break
            cursor = {"cursor": plan["next_cursor"]}
    assert sorted(keys) == sorted(f"step-{number}" for number in range(40))
