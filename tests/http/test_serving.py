"""MCP over HTTP: both protocol eras, any worker, and whatever comes in as a body gets an answer."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client

from counterfoil.server.http.listening import listen_address, listening_socket
from counterfoil.server.people.cli import run
from http_servers import HttpServer, connected
from stdio_process import call, modern_call

pytestmark = pytest.mark.anyio

EFFECT = {"run": "weekly-report/2026-W48", "key": "email:alice", "action": "mail.send", "target": "alice"}


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HttpServer, HttpServer]]:
    """Give two workers on one journal."""
    folder = tmp_path_factory.mktemp("http")
    with HttpServer(folder / "journal.db") as one, HttpServer(folder / "journal.db") as two:
        yield one, two


async def told(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool and give its answer, which is none of a fault."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


async def test_a_modern_client_whose_conversation_is_named_is_the_holder_on_every_worker(
    workers: tuple[HttpServer, HttpServer],
) -> None:
    one, two = workers
    who = {"trace": {"conversation": "modern"}}
    effect = {**EFFECT, "key": "modern", "target": "modern"}
    async with connected(one, mode="2026-07-28") as first, connected(two, mode="2026-07-28") as second:
        begun = await told(first, "begin_operation", **effect, **who)
        assert (begun["next"], "warnings" in begun) == ("perform", False)
        again = await told(second, "begin_operation", **effect, **who)
        assert again["reason"] == "lease_held_by_you"
        failed = await told(
            second,
            "record_failure",
            run=effect["run"],
            key="modern",
            attempt=1,
            effect="none",
            error="refused",
            evidence={"status": 400},
            **who,
        )
        assert failed["state"] == "failed"


async def test_requests_that_name_no_conversation_are_never_taken_for_one_holder(
    workers: tuple[HttpServer, HttpServer],
) -> None:
    effect = {**EFFECT, "key": "nameless", "target": "nameless"}
    async with connected(workers[0], mode="2026-07-28") as client:
        begun = await told(client, "begin_operation", **effect)
        assert begun["next"] == "perform"
        [warning] = begun["warnings"]
        assert "trace.conversation" in warning
        again = await told(client, "begin_operation", **effect)
    assert (again["next"], again["reason"]) == ("wait", "lease_held")


async def test_a_client_of_the_handshake_era_is_one_connection_on_every_worker(
    workers: tuple[HttpServer, HttpServer],
) -> None:
    one, two = workers
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "gemini", "version": "7"},
    }
    opened = one.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
    session = {"mcp_session_id": opened.headers["mcp-session-id"], "mcp_protocol_version": "2025-06-18"}
    effect = {**EFFECT, "key": "old", "target": "old"}
    begun = two.post(call(1, **effect), **session).json()["result"]["structuredContent"]
    assert begun["next"] == "perform"
    again = one.post(call(2, **effect), **session).json()["result"]["structuredContent"]
    assert again["reason"] == "lease_held_by_you"
    history = one.post(call(3, "check_operation", run=effect["run"], key="old", detail="full"), **session)
    [caller] = {
        (event["caller"]["client"], event["caller"]["client_version"], event["caller"]["principal"])
        for event in history.json()["result"]["structuredContent"]["history"]
    }
    assert caller == ("gemini", "7", "local")
    another = one.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
    other = {**session, "mcp_session_id": another.headers["mcp-session-id"]}
    theirs = two.post(call(4, **effect), **other).json()["result"]["structuredContent"]
    assert theirs["reason"] == "lease_held"


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_everything_that_stdio_offers_is_offered_over_http(
    workers: tuple[HttpServer, HttpServer], mode: str
) -> None:
    async with connected(workers[0], mode=mode) as client:
        assert len((await client.list_tools()).tools) == 13
        assert [str(one.uri) for one in (await client.list_resources()).resources] == [
            "counterfoil://runs",
            "counterfoil://guide",
        ]
        assert {one.name for one in (await client.list_prompts()).prompts} == {"resume", "reconcile", "start"}
        read = await client.read_resource("counterfoil://runs")
        assert read.contents


HOSTILE = [
    (b'{"args":{"a":NaN}}', "NaN"),
    (b'{"args":{"a":1,"a":2}}', "same member twice"),
    (b'{"run":"\\ud800"}', "lone surrogate"),
    (b'{"args":' + b"[" * 5000 + b"]" * 5000 + b"}", "nested deeper"),
]


@pytest.mark.parametrize(("arguments", "problem"), HOSTILE)
@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
async def test_a_body_is_judged_as_a_line_of_stdin_is(
    workers: tuple[HttpServer, HttpServer], arguments: bytes, problem: str, version: str
) -> None:
    body = (
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"begin_operation","arguments":'
        + arguments
        + b"}}"
    )
    answer = workers[0].post(body, mcp_protocol_version=version)
    assert answer.status_code == 200
    result = answer.json()["result"]
    assert result["isError"] is True
    fault = json.loads(result["content"][0]["text"])
    assert fault["recorded"] is False
    assert problem in fault["message"]


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
async def test_an_integer_is_taken_exactly_whatever_its_size(
    workers: tuple[HttpServer, HttpServer], version: str
) -> None:
    digits = "7" * 20_000
    make = call if version == "2025-06-18" else modern_call
    key = f"long {version}"
    body = make(1, **{**EFFECT, "key": key, "target": key}, args={"amount": "DIGITS"})
    sent = json.dumps(body).replace('"DIGITS"', digits).encode()
    headers = {**modern_headers("begin_operation"), "mcp_protocol_version": version}
    begun = workers[0].post(sent, **headers).json()["result"]["structuredContent"]
    assert begun["next"] == "perform"
    other = sent.replace(digits.encode(), digits[:-1].encode() + b"8")
    assert workers[0].post(other, **headers).json()["result"]["structuredContent"]["next"] == "stop"
    check = make(2, "check_operation", run=EFFECT["run"], key=key, detail="args")
    answer = workers[1].post(check, **{**headers, "mcp_name": "check_operation"})
    assert answer.status_code == 200
    assert "7" * 1_000 in answer.text
    too_long = sent.replace(digits.encode(), b"7" * 70_000)
    refused = workers[0].post(too_long, **headers).json()["result"]
    assert (refused["isError"], "65536 digits" in refused["content"][0]["text"]) == (True, True)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}', 400),
        (b'{"jsonrpc":"2.0","method":"notifications/initialized","params":{"a":NaN}}', 400),
        (b'{"jsonrpc":"2.0","method":"notifications/initialized"}', 202),
    ],
)
async def test_what_is_no_request_is_refused_by_its_status(
    workers: tuple[HttpServer, HttpServer], body: bytes, status: int
) -> None:
    assert workers[0].post(body, mcp_protocol_version="2025-06-18").status_code == status


async def test_a_body_over_the_limit_is_refused_before_it_is_read(tmp_path: Path) -> None:
    configuration = "[http]\nmax_body_bytes = 1000\n"
    with HttpServer(tmp_path / "journal.db", folder=tmp_path, configuration=configuration) as server:
        declared = server.post(call(1, **EFFECT, payload="x" * 1000))
        assert declared.status_code == 413
        assert declared.json()["error"]["data"]["code"] == "too_large"
        chunks = iter([b" "] * 1001)
        undeclared = httpx2.post(server.mcp, content=chunks, headers={"content-type": "application/json"})
        assert undeclared.status_code == 413
        begun = server.post(modern_call(2, **EFFECT), **modern_headers("begin_operation"))
        assert begun.json()["result"]["structuredContent"]["next"] == "perform"


async def test_a_load_balancer_that_names_an_address_as_host_is_told_of_health_and_of_nothing_else(
    workers: tuple[HttpServer, HttpServer],
) -> None:
    for path in ("/healthz", "/readyz"):
        answer = workers[0].get(path, host="10.0.0.7:8080")
        assert (answer.status_code, answer.text) == (200, "ok\n")
    for path in ("/mcp", "/metrics"):
        assert workers[0].get(path, host="10.0.0.7:8080").status_code == 421


async def test_no_page_is_given_leave_by_cors(workers: tuple[HttpServer, HttpServer]) -> None:
    for origin, status in (("http://localhost:3000", 405), ("https://evil.example", 403)):
        asked = {
            "origin": origin,
            "access-control-request-method": "POST",
            "access-control-request-headers": "content-type, authorization",
        }
        preflight = httpx2.options(workers[0].mcp, headers=asked, timeout=20)
        assert preflight.status_code == status
        ping = workers[0].post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, origin=origin)
        for answer in (preflight, ping):
            assert not [name for name in answer.headers if name.startswith("access-control-")]


async def test_only_a_host_and_an_origin_that_count_are_served(
    workers: tuple[HttpServer, HttpServer],
) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    for host in (
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example:80",
        "127.0.0.1:18080.evil.example",
        "127.0.0.1:",
        "127.0.0.1:1@evil.example:80",
    ):
        assert workers[0].post(ping, host=host).status_code == 421
    for origin in ("https://evil.example", "http://localhost:3000.evil.example", "https://localhost", "null"):
        assert workers[0].post(ping, origin=origin).status_code == 403
    assert workers[0].post(ping, origin="http://localhost:3000").status_code == 200
    for host in ("localhost:8080", "LOCALHOST:8080", "[::1]:8080"):
        assert workers[0].post(ping, host=host).status_code == 200


async def test_a_path_that_is_not_served_is_not_found_rather_than_redirected(
    workers: tuple[HttpServer, HttpServer],
) -> None:
    for path in ("/mcp/", "/healthz/", "/metrics/"):
        answer = workers[0].get(path, host="evil.example")
        assert (answer.status_code, answer.headers.get("location")) == (404, None)


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=UTF-8", 200),
        ('application/json;charset="utf-8"', 200),
        ("application/jsonx", 415),
        ("application/json; charset=utf-16", 415),
        ("application/json, text/plain", 415),
        ("text/plain", 415),
        ("", 415),
    ],
)
@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
async def test_only_what_calls_itself_json_is_read(
    workers: tuple[HttpServer, HttpServer], content_type: str, status: int, version: str
) -> None:
    headers = {"mcp_protocol_version": version, "content_type": content_type}
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": modern_call(1)["params"]}
    if version == "2026-07-28":
        headers["mcp_method"] = "tools/list"
    assert workers[0].post(listing, **headers).status_code == status


def test_an_answer_does_not_wait_for_an_acknowledgement() -> None:
    with listening_socket(listen_address("127.0.0.1:0")) as listener:
        assert listener.proto == socket.IPPROTO_TCP


async def test_there_is_no_stream_to_open_and_no_session_to_end(
    workers: tuple[HttpServer, HttpServer],
) -> None:
    answer = workers[0].get("/mcp", accept="text/event-stream")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("address", "configuration", "problem"),
    [
        ("0.0.0.0:0", "", "needs authentication"),
        ("0.0.0.0:0", '[http]\nurl = "https://counterfoil.example/mcp"\n', "needs authentication"),
        ("[::]:0", "[http]\ntokens = true\n", "http.url"),
        ("127.0.0.1", "", "HOST:PORT"),
        ("127.0.0.1:65536", "", "HOST:PORT"),
        ("nowhere.invalid:1", "", "does not resolve"),
        ("127.0.0.1:0", "[http]\ntoken = true\n", "http.token: it is not known"),
        (
            "127.0.0.1:0",
            '[http.oauth]\nissuer = "http://a.example"\njwks_url = "https://a.example"\n',
            "https",
        ),
        (
            "127.0.0.1:0",
            '[http]\nurl = "https://a.example/mcp"\n[http.oauth]\nissuer = "https://a.example"\n'
            'jwks_url = "https://a.example"\nalgorithms = ["HS256"]\n',
            "HS256",
        ),
        (
            "127.0.0.1:0",
            '[http.oauth]\nissuer = "https://a.example"\njwks_url = "https://a.example"\n',
            "OAuth needs it",
        ),
    ],
)
def test_what_may_not_be_served_like_this_is_refused_at_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str, configuration: str, problem: str
) -> None:
    (tmp_path / "counterfoil.toml").write_text(configuration, encoding="utf-8")
    place = ["--journal", str(tmp_path / "journal.db"), "--config", str(tmp_path / "counterfoil.toml")]
    assert run(["serve", "--http", address, *place]) == 2
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "journal.db").exists()


def modern_headers(tool: str) -> dict[str, str]:
    """Give the headers that a call of 2026-07-28 repeats from its body."""
    return {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "mcp_name": tool}
