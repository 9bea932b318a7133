"""What is said before an answer, to whom it is said, and what becomes of a call whose client leaves."""

from typing import Any

import anyio
import pytest
from mcp.server.lowlevel import Server
from mcp_types import CallToolRequestParams, CallToolResult, TextContent
from starlette.datastructures import Headers

from counterfoil.server.access import Context
from counterfoil.server.http import streams
from counterfoil.server.http.draining import Drain
from counterfoil.server.http.streams import accepts_events
from http_exchanges import BOTH, ERAS, WAIT_SECONDS, Exchange, headers_of, serving, tool_call

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("era", ERAS),
    pytest.mark.filterwarnings("ignore:The logging capability is deprecated"),
]


class Tools:
    """Tools that are held up until the test lets them go on, and tell how they ended."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.may_go_on = anyio.Event()
        self.ended = anyio.Event()
        self.was_cancelled = False

    @property
    def server(self) -> Server[Any]:
        """A server of these tools."""
        return Server("tools", on_call_tool=self.call)

    async def call(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        """Say something where the tool's name asks for it, wait, say more, answer."""
        try:
            if params.name == "telling":
                await context.session.report_progress(1, 2, "half\r\n\r\ndata: {}")
                await context.session.send_log_message(
                    "info", {"at": None}, related_request_id=context.request_id
                )
            self.begun.set()
            await self.may_go_on.wait()
            if params.name == "failing":
                await context.session.report_progress(1)
                raise ValueError("within a stream")
        except anyio.get_cancelled_exc_class():
            self.was_cancelled = True
            raise
        finally:
            self.ended.set()
        return CallToolResult(content=[TextContent(type="text", text="done")])


@pytest.fixture
def tools() -> Tools:
    """Give the tools."""
    return Tools()


async def test_what_is_said_comes_as_it_is_said_and_the_answer_last(tools: Tools, era: str) -> None:
    drain = Drain()
    meta = {"io.modelcontextprotocol/logLevel": "info"} if era == "2026-07-28" else {}
    async with serving(tools.server, drain=drain) as app, anyio.create_task_group() as tasks:
        exchange = Exchange(app, tool_call(era, "telling", **meta), headers_of(era, "telling"))
        tasks.start_soon(exchange.run)
        await exchange.until(b"notifications/message")
        assert (exchange.status, drain.under_way) == (200, 1)
        assert exchange.headers["cache-control"] == "no-cache, no-transform"
        drain.announce()
        tools.may_go_on.set()
    half = {"progressToken": "p-1", "progress": 1, "total": 2, "message": "half\r\n\r\ndata: {}"}
    progress, log, answer = exchange.events
    assert (progress["method"], progress["params"]) == ("notifications/progress", half)
    assert (log["method"], log["params"]["data"]) == ("notifications/message", {"at": None})
    assert (answer["id"], answer["result"]["content"][0]["text"]) == (7, "done")
    assert drain.under_way == 0


@pytest.mark.parametrize("accept", ["application/json", "*/*", "application/json, text/event-stream;q=0"])
async def test_who_takes_no_events_gets_the_answer_alone(tools: Tools, era: str, accept: str) -> None:
    tools.may_go_on.set()
    async with serving(tools.server) as app:
        alone = await Exchange(
            app, tool_call(era, "telling"), headers_of(era, "telling", accept=accept)
        ).run()
        silent = await Exchange(app, tool_call(era, "silent"), headers_of(era, "silent")).run()
    assert (alone.status, alone.headers["content-type"]) == (200, "application/json")
    assert (alone.body, alone.headers) == (silent.body, silent.headers)


async def test_an_error_after_something_was_said_is_the_last_event(tools: Tools, era: str) -> None:
    tools.may_go_on.set()
    async with serving(tools.server) as app:
        exchange = await Exchange(app, tool_call(era, "failing"), headers_of(era, "failing")).run()
    assert exchange.status == 200
    progress, answer = exchange.events
    assert progress["params"] == {"progressToken": "p-1", "progress": 1}
    assert "error" in answer


@pytest.mark.parametrize(("tool", "is_cancelled"), [("telling", True), ("silent", False)])
async def test_leaving_cancels_a_call_only_once_something_was_said(
    tools: Tools, era: str, tool: str, is_cancelled: bool
) -> None:
    async with serving(tools.server) as app, anyio.create_task_group() as tasks:
        exchange = Exchange(app, tool_call(era, tool), headers_of(era, tool))
        tasks.start_soon(exchange.run)
        with anyio.fail_after(WAIT_SECONDS):
            await tools.begun.wait()
            exchange.leave()
            if not is_cancelled:
                await anyio.wait_all_tasks_blocked()
                tools.may_go_on.set()
            await tools.ended.wait()
    assert tools.was_cancelled is is_cancelled


async def test_a_silent_stream_is_kept_open_by_comments(
    tools: Tools, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "PING_SECONDS", 0.01)
    async with serving(tools.server) as app, anyio.create_task_group() as tasks:
        exchange = Exchange(app, tool_call(era, "telling"), headers_of(era, "telling"))
        tasks.start_soon(exchange.run)
        await exchange.until(b": ping\r\n\r\n: ping\r\n\r\n")
        tools.may_go_on.set()
    assert exchange.events[-1]["result"]["content"][0]["text"] == "done"


async def test_a_client_that_does_not_read_does_not_hold_its_call_open(
    tools: Tools, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "LONGEST_SEND_SECONDS", 0.01)
    async with serving(tools.server) as app:
        exchange = Exchange(app, tool_call(era, "telling"), headers_of(era, "telling"))
        exchange.reads = anyio.Event()
        with anyio.fail_after(WAIT_SECONDS):
            await exchange.run()
            await tools.ended.wait()
    assert (tools.was_cancelled, exchange.body) == (True, b"")


@pytest.mark.parametrize(
    ("accept", "takes"),
    [
        (BOTH, True),
        ("Text/Event-Stream ; q=0.1,application/json", True),
        ("text/event-stream;q=0", False),
        ("text/event-stream; q = 0.000, */*", False),
        ("text/*, application/json", False),
        ("", False),
        (",;,;;q=0" * 5_000, False),
        ("text/event-streams, x/text/event-stream", False),
    ],
)
async def test_events_go_to_whoever_names_them(era: str, accept: str, takes: bool) -> None:
    assert accepts_events(Headers({"accept": accept})) is takes
