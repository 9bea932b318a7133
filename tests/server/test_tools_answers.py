"""Answers come back whole, twice over and bounded; faults come back as one JSON object."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import anyio
import pytest
from mcp import Client, MCPError
from mcp_types import CallToolResult
from msgspec.structs import replace

from counterfoil.server.app import build_server
from counterfoil.server.callers import ClientInfo
from counterfoil.server.journals import Journals
from counterfoil.store.errors import Ambiguous, Fault, JournalUnavailable, NotFound
from counterfoil.tools.catalogue import ALL_TOOLS
from counterfoil.tools.text import bounded, written
from fake_journal import AS_OF, FakeJournal

pytestmark = pytest.mark.anyio

MOST_CHARACTERS = 10_000
BEGIN: dict[str, Any] = {"run": "weekly-report/2026-W48", "key": "email:alice", "action": "mail.send"}
REF = {"operation": "op_x"}
CALLS: dict[str, dict[str, Any]] = {
    "begin_operation": BEGIN,
    "record_receipt": {**REF, "external_id": "m-1"},
    "record_failure": {**REF, "attempt": 1, "effect": "unknown", "error": "timed out"},
    "reconcile_operation": {**REF, "finding": "performed", "checked_with": "mail.search"},
    "check_operation": REF,
    "resume_plan": {"run": BEGIN["run"]},
    "begin_run": {"run": BEGIN["run"]},
    "record_progress": {**REF, "attempt": 1},
    "close_operation": {**REF, "outcome": "cancelled", "reason": "given up"},
    "finish_run": {"run": BEGIN["run"], "outcome": "completed"},
    "request_authority": {**REF, "why": "the invoice is due"},
    "find_operations": {"text": "alice"},
    "verify_operation": REF,
}
CLIENT = ClientInfo(connection="stdio-1")


@asynccontextmanager
async def connected(
    journal: FakeJournal, client_info: ClientInfo = CLIENT, mode: Literal["auto", "legacy"] = "auto"
) -> AsyncIterator[Client]:
    """Connect the SDK's client to a server on `journal`."""

    async def get() -> Any:
        return journal

    async with Client(build_server(get, client=client_info), mode=mode) as client:
        yield client


def text_of(result: CallToolResult) -> str:
    """Give the one text of a result."""
    [content] = result.content
    assert content.type == "text"
    return content.text


def answer(**members: Any) -> dict[str, Any]:
    """Give an answer of the journal."""
    return {"as_of": AS_OF, "next": "continue", "reason": "recorded", "guidance": "Carry on."} | members


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("tool", CALLS)
async def test_text_and_structured_content_say_the_same_with_the_verb_first(
    tool: str, mode: Literal["auto", "legacy"]
) -> None:
    given = answer(operation="op_x", state="succeeded", receipts=[{"external_id": "ü\u2028"}], lookup=None)
    async with connected(FakeJournal(given), mode=mode) as client:
        result = await client.call_tool(tool, CALLS[tool])
    assert result.is_error is False
    assert result.structured_content == given
    assert json.loads(text_of(result)) == given
    assert text_of(result).startswith('{"next":"continue","reason":"recorded","guidance":"Carry on."')


@pytest.mark.parametrize(
    "fault",
    [
        NotFound("there is no such operation", fix="use one of candidates", candidates=["op_a"]),
        Ambiguous("two fit", fix="say which", candidates=["op_a", "op_b"]),
        JournalUnavailable("busy", fix="try again", retryable=True),
    ],
)
async def test_a_fault_is_a_tool_error_of_exactly_one_json_object(fault: Fault) -> None:
    async with connected(FakeJournal(fault)) as client:
        result = await client.call_tool("check_operation", REF)
    assert result.is_error is True
    said = json.loads(text_of(result))
    assert said.pop("fix").endswith(fault.fix)
    expected = fault.as_dict()
    del expected["fix"]
    assert said == expected


async def test_an_unavailable_journal_says_what_must_not_be_done_now() -> None:
    async with connected(FakeJournal(JournalUnavailable("full", fix="free space"))) as client:
        fixes = {
            tool: json.loads(text_of(await client.call_tool(tool, CALLS[tool])))["fix"] for tool in CALLS
        }
    assert fixes["begin_operation"] == "Do not perform the effect. free space"
    assert fixes["record_receipt"] == "The receipt is NOT stored: keep it and send it again. free space"
    assert "do not perform" in fixes["resume_plan"]


async def test_an_unknown_outcome_asks_for_the_same_call_again() -> None:
    fault = JournalUnavailable("lost", fix="try again", recorded=None)
    async with connected(FakeJournal(fault)) as client:
        said = json.loads(text_of(await client.call_tool("begin_operation", BEGIN)))
    assert said["recorded"] is None
    assert "same call again with the same call_id" in said["fix"]


async def test_an_unforeseen_error_tells_nothing_of_itself(caplog: pytest.LogCaptureFixture) -> None:
    async with connected(FakeJournal(RuntimeError("hunter2"))) as client:
        said = json.loads(text_of(await client.call_tool("begin_operation", BEGIN)))
    assert (said["code"], said["recorded"]) == ("internal", None)
    assert "Do not perform the effect." in said["fix"]
    assert "hunter2" not in str(said)
    assert "begin_operation failed" in caplog.text


async def test_an_unknown_tool_is_a_protocol_error_that_names_the_tools() -> None:
    async with connected(FakeJournal()) as client:
        with pytest.raises(MCPError, match="begin_operation, record_receipt"):
            await client.call_tool("begin", BEGIN)


@pytest.mark.parametrize("arguments", ["[]", 5, [1], "text"])
async def test_arguments_that_are_no_object_are_a_fault(arguments: Any) -> None:
    async with connected(FakeJournal()) as client:
        result = await client.call_tool("begin_operation", {"run": "r"})
        assert result.is_error is True
        params = {"name": "begin_operation", "arguments": arguments}
        raw = await raw_call(client, params)
    assert json.loads(raw["content"][0]["text"])["message"].startswith("arguments: ")


async def raw_call(client: Client, params: dict[str, Any]) -> dict[str, Any]:
    """Call a tool with params that the SDK's client would not let through."""
    return dict(await client.session._dispatcher.send_raw_request("tools/call", with_envelope(params), None))


def with_envelope(params: dict[str, Any]) -> dict[str, Any]:
    """Add what every request of 2026-07-28 carries."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    return {**params, "_meta": meta}


LONG_STEPS = [{"key": f"step-{number}", "lookup": {"instructions": "x" * 300}} for number in range(200)]


@pytest.mark.parametrize(
    "members",
    [
        {"history": [{"event": number, "text": "x" * 100} for number in range(1_000)]},
        {"receipts": [{"evidence": {"body": "y" * 60_000}}]},
        {"body": "z" * 300_000},
        {"recorded": {"args": {f"m{number}": number for number in range(10_000)}}},
        {"warnings": ["w" * 390] * 5_000},
        {"attempts": [[["deep" * 200] * 50] * 20]},
        {"number": 10**5_000, "surrogate": "\ud800", "infinite": float("inf")},
    ],
    ids=lambda members: next(iter(members)),
)
def test_every_answer_fits_and_says_what_was_cut(members: dict[str, Any]) -> None:
    given = answer(operation="op_x", idempotency_key="k" * 36, complete=True, **members)
    fitting = bounded(given, way="check_operation with offset")
    assert len(written(fitting)) <= MOST_CHARACTERS
    for kept in ("as_of", "next", "reason", "guidance", "operation", "idempotency_key"):
        assert fitting[kept] == given[kept]
    if "number" not in members:
        assert fitting["cut"] is True
        assert fitting["complete"] is False
        for cut in fitting["shortened"]:
            assert cut["shown"] < cut["of"]
            assert cut["rest"] == "check_operation with offset"


@pytest.mark.parametrize("drifts", [0, 25, 1_000])
def test_a_body_that_is_to_be_sent_is_whole_or_not_there_at_all(drifts: int) -> None:
    bodies = {"args": {"text": "x" * 1_900}, "payload": ["y" * 1_900], "note": "n"}
    beginning = {"cut": True, "characters": 9_000, "digest": "d", "beginning": "b" * 390, "whole": "w"}
    given = answer(
        recorded=dict(bodies),
        checkpoint="z" * 1_900,
        lookup={"args": {"q": "q" * 1_900}},
        effect={"payload": beginning},
        drift=[{"component": f"part-{number}", "recorded": "a" * 120} for number in range(drifts)],
    )
    fitting = bounded(given, way="check_operation")
    assert len(written(fitting)) <= MOST_CHARACTERS
    assert fitting["effect"] == given["effect"]
    cut = {one["path"] for one in fitting.get("shortened", ())}
    for path, body, whole in (
        ("recorded.args", fitting["recorded"]["args"], bodies["args"]),
        ("recorded.payload", fitting["recorded"]["payload"], bodies["payload"]),
        ("checkpoint", fitting["checkpoint"], given["checkpoint"]),
        ("lookup.args", fitting["lookup"]["args"], given["lookup"]["args"]),
    ):
        not_shown = {"cut": True, "characters": len(written(whole)), "whole": "check_operation"}
        assert body == (not_shown if path in cut else whole)
    assert not any(path.startswith(("recorded.args.", "recorded.payload[")) for path in cut)


def test_an_answer_that_fits_is_not_touched() -> None:
    given = answer(history=["x" * 100] * 80)
    assert bounded(given, way="") == given
    assert "cut" not in bounded(given, way="")


async def test_a_plan_that_is_too_long_is_paged_by_the_journal_so_that_its_cursor_is_true() -> None:
    def page(command: Any) -> dict[str, Any]:
        first = int(command.cursor or 0)
        shown = LONG_STEPS[first : first + (command.limit or 100)]
        end = first + len(shown)
        more = {"cut": True, "next_cursor": str(end)} if end < len(LONG_STEPS) else {"cut": False}
        return answer(reason="listed", steps=shown, complete=False, **more)

    seen: list[str] = []
    async with connected(FakeJournal(page)) as client:
        cursor: dict[str, str] = {}
        while True:
            result = await client.call_tool("resume_plan", {"run": "r", **cursor})
            assert len(text_of(result)) <= MOST_CHARACTERS
            plan = result.structured_content
            assert plan["steps"]
            assert "shortened" not in plan
            seen += [step["key"] for step in plan["steps"]]
            if not plan["cut"]:
                break
            cursor = {"cursor": plan["next_cursor"]}
    assert seen == [step["key"] for step in LONG_STEPS]


async def test_a_journal_that_heeds_no_limit_does_not_hang_the_plan() -> None:
    async with connected(FakeJournal(answer(steps=LONG_STEPS))) as client:
        result = await client.call_tool("resume_plan", {})
    assert result.structured_content["cut"] is True
    assert len(text_of(result)) <= MOST_CHARACTERS


async def test_a_journal_that_did_not_open_is_tried_again_at_the_next_call() -> None:
    journal, tries = FakeJournal(), []

    @asynccontextmanager
    async def opener() -> AsyncIterator[Any]:
        tries.append(1)
        if len(tries) == 1:
            raise JournalUnavailable("read-only", fix="make it writable")
        if len(tries) == 2:
            raise RuntimeError("hunter2")
        yield journal

    async with Journals.holding(opener) as journals:
        with pytest.raises(JournalUnavailable, match="read-only"):
            await journals.get()
        with pytest.raises(JournalUnavailable, match="RuntimeError"):
            await journals.get()
        assert await journals.get() is journal
        assert await journals.get() is journal
    assert len(tries) == 3


async def test_many_calls_open_one_journal_and_it_is_closed_at_the_end() -> None:
    opened: list[FakeJournal] = []
    closed: list[FakeJournal] = []

    @asynccontextmanager
    async def opener() -> AsyncIterator[Any]:
        journal = FakeJournal()
        opened.append(journal)
        await anyio.lowlevel.checkpoint()
        yield journal
        closed.append(journal)

    async with Journals.holding(opener) as journals:
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(journals.get)
        assert not closed
    assert len(opened) == 1
    assert closed == opened


async def test_a_caller_that_gives_up_does_not_break_off_the_opening() -> None:
    opening, may_open = anyio.Event(), anyio.Event()

    @asynccontextmanager
    async def opener() -> AsyncIterator[Any]:
        opening.set()
        await may_open.wait()
        yield FakeJournal()

    async with Journals.holding(opener) as journals:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(journals.get)
            await opening.wait()
            tasks.cancel_scope.cancel()
            may_open.set()
        assert await journals.get() is await journals.get()


async def test_a_journal_that_fails_to_close_does_not_fail_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @asynccontextmanager
    async def opener() -> AsyncIterator[Any]:
        yield FakeJournal()
        raise RuntimeError

    async with Journals.holding(opener) as journals:
        await journals.get()
    assert "could not be closed in order" in caplog.text


async def caller_of_call(
    meta: dict[str, Any] | None = None, client_info: ClientInfo = CLIENT, **given: Any
) -> Any:
    """Give the caller that the journal is told of."""
    journal = FakeJournal()
    async with connected(journal, client_info) as client:
        await client.call_tool("begin_operation", {**BEGIN, **given}, meta=meta)
    [(_, caller)] = journal.asked
    return caller


def traceparent(digit: str) -> str:
    """Give a traceparent whose ids are of one digit."""
    return f"00-{digit * 32}-{digit * 16}-01"


async def test_the_caller_is_filled_from_meta_then_environment_then_trace() -> None:
    trace = {
        "agent": "a",
        "conversation": "from-trace",
        "model": "m",
        "model_run": "r",
        "tool_call": "t",
        "traceparent": traceparent("c"),
    }
    environment = replace(CLIENT, conversation="from-environment", traceparent=traceparent("b"))
    meta = {"threadId": "from-meta", "traceparent": traceparent("a"), "callId": "call_0123456789abcdef"}

    caller = await caller_of_call(trace=trace)
    assert (caller.conversation, caller.tool_call) == ("from-trace", "t")
    assert caller.traceparent == traceparent("c")
    assert (caller.agent, caller.model, caller.model_run) == ("a", "m", "r")
    assert (caller.call_id, caller.tool, caller.connection) == (None, "begin_operation", "stdio-1")
    assert caller.client
    assert caller.is_person is False

    caller = await caller_of_call(client_info=environment, trace=trace)
    assert (caller.conversation, caller.traceparent) == ("from-environment", traceparent("b"))

    caller = await caller_of_call(meta, environment, trace=trace)
    assert (caller.conversation, caller.traceparent) == ("from-meta", traceparent("a"))
    assert caller.tool_call == caller.call_id == "call_0123456789abcdef"


@pytest.mark.parametrize("name", ["claudecode/toolUseId", "callId"])
async def test_the_clients_own_call_id_is_used_unless_it_is_too_short_or_a_name(name: str) -> None:
    assert (await caller_of_call({name: "toolu_0123456789"})).call_id == "toolu_0123456789"
    assert (await caller_of_call({name: "short"})).call_id is None
    assert (await caller_of_call({name: BEGIN["run"]})).call_id is None
    assert (await caller_of_call({name: 5})).call_id is None
    assert (await caller_of_call({name: "with\nline-break-0123456789"})).call_id is None


async def test_an_explicit_call_id_goes_before_the_clients_own() -> None:
    caller = await caller_of_call({"callId": "call_0123456789abcdef"}, call_id="my-own-0123456789")
    assert caller.call_id == "my-own-0123456789"
    assert caller.tool_call == "call_0123456789abcdef"


async def test_the_clients_name_is_known_in_both_eras() -> None:
    for mode in ("auto", "legacy"):
        journal = FakeJournal()
        async with connected(journal, mode=mode) as client:  # type: ignore[arg-type]
            await client.call_tool("begin_operation", BEGIN)
        [(_, caller)] = journal.asked
        assert caller.client == "mcp"


def test_every_tool_is_called_here() -> None:
    assert set(CALLS) == {tool.name for tool in ALL_TOOLS}
