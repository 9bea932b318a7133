"""Questions to a client of the handshake era within a call: who is asked, and whose answer counts."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client.context import ClientRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    JSONRPCResponse,
    TextContent,
)
from msgspec.structs import replace
from starlette.types import ASGIApp

from counterfoil.server.access import Context
from counterfoil.server.asking import shows_forms
from counterfoil.server.http.draining import Drain
from counterfoil.server.http.principals import Principal
from counterfoil.server.http.questions import Asked, Questions
from counterfoil.server.http.sessions import HttpSession, new_session_id
from counterfoil.server.http.streams import AnswerStream
from http_exchanges import WAIT_SECONDS, Exchange, headers_of, sealed, serving, tool_call
from http_servers import TOKENS, HttpServer, connected, issue_token
from stdio_process import call

pytestmark = pytest.mark.anyio

ERA = "2025-11-25"
GATED = '[[authority]]\naction = "pay.*"\nrequire = "grant"\n'
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"permit": {"type": "boolean"}}}
TICKED = {"action": "accept", "content": {"permit": True}}


@pytest.mark.parametrize(
    ("sticky", "shown", "verb"),
    [("sticky = true\n", 1, "begin"), ("", 0, "ask")],
    ids=["sticky", "any worker"],
)
async def test_a_person_is_asked_within_the_call_only_where_a_session_stays_with_its_worker(
    tmp_path: Path, sticky: str, shown: int, verb: str
) -> None:
    place = tmp_path / "journal.db"
    token = await issue_token(place, "ops", "boss")
    questions = []

    async def person(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        questions.append(params.message)
        return ElicitResult(action="accept", content={"permit": True})

    step = {"run": "rent", "key": "pay"}
    with HttpServer(place, folder=tmp_path, configuration=TOKENS + sticky + GATED) as server:
        async with connected(server, mode="legacy", token=token, elicitation_callback=person) as client:
            await client.call_tool("begin_operation", {**step, "action": "pay.send"})
            asked = (await client.call_tool("request_authority", step)).structured_content
    assert asked is not None
    assert (len(questions), asked["next"]) == (shown, verb)
    if shown:
        assert asked["grant"]["source"] == "elicitation"


async def asking(context: Context, params: CallToolRequestParams) -> CallToolResult:
    """Ask the client, and tell what came of it."""
    told = f"nobody: {shows_forms(context.session.client_capabilities)}"
    if context.session.can_send_request:
        try:
            filled = await context.session.elicit_form(
                "May I?", SCHEMA, related_request_id=context.request_id
            )
            told = f"{filled.action} {filled.content}"
        except MCPError as error:
            told = error.message
    return CallToolResult(content=[TextContent(type="text", text=told)])


def worker() -> Server[Any]:
    """Give the server of a worker."""
    return Server("asking", on_call_tool=asking)


def session(capabilities: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Give the headers of a call in a new session."""
    shown = {"elicitation": {}} if capabilities is None else capabilities
    session_id = new_session_id({"capabilities": shown, "clientInfo": {"name": "c", "version": "1"}})
    return headers_of(ERA, "asking", **{"mcp-session-id": sealed(session_id)})


async def answered(app: ASGIApp, headers: Mapping[str, str], question: str, **answer: Any) -> Exchange:
    """Send an answer to a question."""
    content = answer or {"result": TICKED}
    return await Exchange(app, {"jsonrpc": "2.0", "id": question, **content}, headers).run()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"result": TICKED}, "accept {'permit': True}"),
        ({"error": {"code": -1, "message": "no user here"}}, "no user here"),
    ],
)
async def test_an_answer_counts_once_from_the_session_that_was_asked_at_the_worker_that_asked(
    answer: dict[str, Any], told: str
) -> None:
    mine = session()
    sessionless = {name: value for name, value in mine.items() if name != "mcp-session-id"}
    async with (
        serving(worker(), sticky=True) as app,
        serving(worker(), sticky=True) as other,
        anyio.create_task_group() as tasks,
    ):
        exchange = Exchange(app, tool_call(ERA, "asking"), mine)
        tasks.start_soon(exchange.run)
        await exchange.until(b"elicitation/create")
        [question] = exchange.events
        name = question["id"]
        elsewhere = await answered(other, mine, name, **answer)
        assert elsewhere.status == 421
        assert b"one Mcp-Session-Id to one worker" in elsewhere.body
        assert (await answered(app, session(), name)).status == 400
        assert (await answered(app, sessionless, name)).status == 400
        assert (await answered(app, mine, name[:-1] + "!")).status == 202
        assert not exchange.is_over
        assert (await answered(app, mine, name, **answer)).status == 202
    assert exchange.events[-1]["result"]["content"][0]["text"] == told
    assert len(exchange.events) == 2
    async with serving(worker(), sticky=True) as app:
        assert (await answered(app, mine, name)).status == 421


async def test_another_principal_with_the_same_session_id_cannot_answer() -> None:
    boss = Principal(name="token:boss", namespace="ops", scopes=frozenset(("counterfoil:approve",)))
    asked = Asked(boss, HttpSession(name="s"))
    questions = Questions(Drain())
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async with anyio.create_task_group() as tasks:
        stream = AnswerStream(anyio.sleep_forever, send, tasks)
        tasks.start_soon(questions.ask, stream, asked, "elicitation/create", {})
        await anyio.wait_all_tasks_blocked()
        name = sent[-1]["body"].decode().partition('"id":"')[2].partition('"')[0]
        answer = JSONRPCResponse(jsonrpc="2.0", id=name, result=dict(TICKED))
        for other in (
            replace(boss, name="token:asker"),
            replace(boss, namespace="team"),
            replace(boss, scopes=frozenset()),
        ):
            refused = questions.take(answer, Asked(other, asked.session))
            assert refused is not None
            assert refused.status_code == 400
        taken = questions.take(answer, asked)
        assert taken is not None
        assert taken.status_code == 202
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("why", ["the server is about to end", "the client leaves"])
async def test_a_question_that_is_over_is_withdrawn_and_its_answer_refused(why: str) -> None:
    mine, drain = session(), Drain()
    async with serving(worker(), drain=drain, sticky=True) as app, anyio.create_task_group() as tasks:
        exchange = Exchange(app, tool_call(ERA, "asking"), mine)
        tasks.start_soon(exchange.run)
        await exchange.until(b"elicitation/create")
        name = exchange.events[0]["id"]
        if why == "the client leaves":
            exchange.leave()
        else:
            drain.announce()
        await exchange.until(b"notifications/cancelled")
        assert exchange.events[1]["params"]["requestId"] == name
        assert (await answered(app, mine, name)).status == 400
        with anyio.fail_after(WAIT_SECONDS):
            while not exchange.is_over:
                await anyio.lowlevel.checkpoint()
    if why != "the client leaves":
        assert exchange.events[2]["result"]["content"][0]["text"] == "The server is about to end"


@pytest.mark.parametrize(
    ("sticky", "accept", "headers"),
    [
        (False, None, session()),
        (True, "application/json", session()),
        (True, None, session({"elicitation": {"url": {}}})),
        (True, None, session({"elicitation": 5})),
        (True, None, headers_of(ERA, "asking")),
    ],
    ids=["any worker", "no events", "no forms", "nonsense", "no session"],
)
async def test_who_cannot_be_asked_is_not(sticky: bool, accept: str | None, headers: dict[str, str]) -> None:
    given = headers if accept is None else {**headers, "accept": accept}

    async def call(context: Context, params: CallToolRequestParams) -> CallToolResult:
        shows = shows_forms(context.session.client_capabilities)
        return CallToolResult(content=[TextContent(type="text", text=f"forms: {shows}")])

    async with serving(Server("s", on_call_tool=call), sticky=sticky) as app:
        exchange = await Exchange(app, tool_call(ERA, "asking"), given).run()
    assert exchange.headers["content-type"] == "application/json"
    assert b"forms: False" in exchange.body


async def test_2026_07_28_is_never_asked_within_a_call() -> None:
    headers = {**headers_of("2026-07-28", "asking"), "mcp-session-id": session()["mcp-session-id"]}
    async with serving(worker(), sticky=True) as app:
        exchange = await Exchange(app, tool_call("2026-07-28", "asking"), headers).run()
    assert (exchange.status, exchange.headers["content-type"]) == (200, "application/json")
    assert b"nobody: False" in exchange.body


async def test_a_stop_gives_a_question_up_and_its_call_still_answers(tmp_path: Path) -> None:
    place = tmp_path / "journal.db"
    token = await issue_token(place, "ops", "boss")
    configuration = TOKENS + "sticky = true\n" + GATED
    with HttpServer(place, folder=tmp_path, configuration=configuration) as server:
        bearing = {"authorization": f"Bearer {token}"}
        hello = {
            "protocolVersion": ERA,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "c", "version": "1"},
        }
        opened = server.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}, **bearing)
        headers = {
            **headers_of(ERA, "request_authority"),
            **bearing,
            "mcp-session-id": opened.headers["mcp-session-id"],
        }
        del headers["host"]
        asked = call(1, "request_authority", run="rent", action="pay.send")
        with httpx2.stream("POST", server.mcp, json=asked, headers=headers, timeout=WAIT_SECONDS) as answer:
            lines = (line for line in answer.iter_lines() if line.startswith("data: "))
            assert "elicitation/create" in next(lines)
            server.stop()
            withdrawn, last = lines
        assert "notifications/cancelled" in withdrawn
        told = json.loads(last.removeprefix("data: "))["result"]["structuredContent"]
        assert (told["next"], told["reason"]) == ("ask", "authority_required")
        assert server.ended() == 0
