"""Probes of services: a web service on this machine, and an MCP server over stdio."""

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from counterfoil.store.probing import ProbeFinding
from probes import look

pytestmark = pytest.mark.anyio


class Service:
    """Answers by path with (status, headers, body); `asked` keeps each path with its headers."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.ending = threading.Event()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                service.asked.append((self.path, {name.lower(): text for name, text in self.headers.items()}))
                status, headers, body = service.answers.get(self.path, (404, {}, b""))
                self.send_response(status)
                for name, text in headers.items():
                    self.send_header(name, text)
                self.end_headers()
                if body == b"drip":
                    while not service.ending.wait(0.05):
                        self.wfile.write(b"x")
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.host = f"127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def say(self, path: str, body: Any, *, status: int = 200, **headers: str) -> None:
        """Answer `path` with JSON."""
        self.answers[path] = (status, headers, json.dumps(body).encode())

    def redirect(self, path: str, to: str) -> None:
        """Send whoever asks `path` elsewhere."""
        self.answers[path] = (302, {"Location": to}, b"")

    def end(self) -> None:
        """Close it."""
        self.ending.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(10)

    @property
    def paths(self) -> list[str]:
        """The paths that were asked for."""
        return [path for path, _ in self.asked]


@pytest.fixture
def service() -> Iterator[Service]:
    """One service."""
    running = Service()
    yield running
    running.end()


@pytest.fixture
def another() -> Iterator[Service]:
    """Another service, on another port."""
    running = Service()
    yield running
    running.end()


async def ask(tmp_path: Path, service: Service, path: str, more: str = "", **given: Any) -> ProbeFinding:
    """Look with an http probe of a path of the service."""
    return await look(tmp_path, f'type = "http"\nurl = "http://{service.host}{path}"\n{more}', **given)


async def test_the_status_says_whether_it_is_there(tmp_path: Path, service: Service) -> None:
    service.say("/mails/m-1", {})
    service.say("/mails/m-3", {}, status=503)
    service.say("/mails/m-4", {}, status=401)
    path = "/mails/{external_id}"
    seen = await ask(tmp_path, service, path, external_id="m-1", kind="message", system="smtp")
    assert (seen.found, seen.external_id, seen.kind, seen.system) == (True, "m-1", "message", "smtp")
    assert (await ask(tmp_path, service, path, external_id="m-2")).found is False
    for name, status in (("m-3", 503), ("m-4", 401)):
        seen = await ask(tmp_path, service, path, external_id=name)
        assert (seen.found, seen.why) == (None, f"the service answered with status {status}")
    gone = await ask(tmp_path, service, path, "status = [200, 503]\nabsent = [401]", external_id="m-4")
    assert gone.found is False


async def test_a_search_gives_the_reference_and_the_time(tmp_path: Path, service: Service) -> None:
    service.say("/search?q=key-1", {"items": [{"id": 42, "at": "2026-11-29T13:00:00+01:00"}]})
    service.say("/search?q=none", {"items": []})
    service.say("/search?q=odd", {"error": "no such index"})
    more = 'found = "$.items[0]"\nexternal_id = "$.items[0].id"\nperformed_at = "$.items[0].at"\nsystem = "s"'
    seen = await ask(tmp_path, service, "/search?q={key}", more, key="key-1")
    assert (seen.found, seen.external_id, seen.kind, seen.system) == (True, "42", "http_response", "s")
    assert seen.performed_at == "2026-11-29T12:00:00.000000Z"
    assert (await ask(tmp_path, service, "/search?q={key}", more, key="none")).found is False
    seen = await ask(tmp_path, service, "/search?q={key}", more, key="odd")
    assert (seen.found, seen.why) == (None, "the answer has nothing at $.items[0]")


async def test_an_empty_answer_that_says_it_failed_tells_nothing(tmp_path: Path, service: Service) -> None:
    service.say("/search?q=down", {"items": [], "error": "no index"})
    service.say("/search?q=none", {"items": [], "error": None, "ok": True})
    service.say("/search?q=gone", {"ok": False})
    more = 'found = "$.items[0]"'
    seen = await ask(tmp_path, service, "/search?q={key}", more, key="down")
    assert (seen.found, seen.why) == (None, "the answer has nothing, and tells of a failure")
    assert (await ask(tmp_path, service, "/search?q={key}", more, key="none")).found is False
    read_by_the_operator = 'equals = { "$.ok" = true }'
    assert (await ask(tmp_path, service, "/search?q={key}", read_by_the_operator, key="gone")).found is False


@pytest.mark.parametrize(
    ("state", "amount", "found"),
    [("sent", 5, True), ("draft", 5, False), ("sent", 6, False), ("sent", "5", True), ("sent", [5], None)],
)
async def test_what_stands_in_the_answer_is_compared_with_what_is_on_record(
    tmp_path: Path, service: Service, state: str, amount: Any, found: bool | None
) -> None:
    service.say("/pay/key-1", {"state": state, "amount": amount})
    more = 'equals = { "$.state" = "sent", "$.amount" = "{args.amount}" }'
    assert (await ask(tmp_path, service, "/pay/{key}", more, args={"amount": 5})).found is found


async def test_a_field_that_has_to_be_read_and_cannot_be_tells_nothing(
    tmp_path: Path, service: Service
) -> None:
    service.say("/x/key-1", {"id": {"a": 1}, "at": "yesterday", "long": "x" * 501, "odd": "a\u202eb"})
    for more in (
        'external_id = "$.id"',
        'external_id = "$.long"',
        'external_id = "$.odd"',
        'performed_at = "$.at"',
    ):
        assert (await ask(tmp_path, service, "/x/{key}", more)).found is None
    service.answers["/x/key-1"] = (200, {}, b"<html>")
    assert (await ask(tmp_path, service, "/x/{key}", 'found = "$.id"')).why == "the answer is no JSON"


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("a/b", "/m/a%2Fb/end"),
        ("a?x=1&y=2#z", "/m/a%3Fx%3D1%26y%3D2%23z/end"),
        ("%2e%2e", "/m/%252e%252e/end"),
        ("@evil.example", "/m/%40evil.example/end"),
        ("ü \\", "/m/%C3%BC%20%5C/end"),
    ],
)
async def test_a_value_stays_one_piece_of_the_path(
    tmp_path: Path, service: Service, value: str, path: str
) -> None:
    await ask(tmp_path, service, "/m/{args.v}/end", args={"v": value})
    assert service.paths == [path]


@pytest.mark.parametrize("value", ["..", ".", "../admin", "a/../../admin", "a\\..\\b", "x\r\nHost: evil"])
async def test_a_value_that_leads_elsewhere_is_not_asked_for(
    tmp_path: Path, service: Service, value: str
) -> None:
    assert (await ask(tmp_path, service, "/m/{args.v}/end", args={"v": value})).found is None
    assert service.paths == []


@pytest.mark.parametrize(
    "target",
    [
        "http://other.example/x",
        "http://127.0.0.1:1/x",
        "http://u:p@HOST/x",
        "http://HOST@other.example/x",
        "http://other.example\\@HOST/x",
        "file:///etc/passwd",
        "//HOST/x",
        "HOST/x",
        "https://HOST.other.example/x",
    ],
)
async def test_a_url_on_record_leads_to_allowed_hosts_only(
    tmp_path: Path, service: Service, target: str
) -> None:
    table = f'type = "http"\nurl = "{{target}}"\nhosts = ["{service.host}"]'
    seen = await look(tmp_path, table, target=target.replace("HOST", service.host))
    assert seen.found is None
    assert service.paths == []
    service.say("/x", {})
    assert (await look(tmp_path, table, target=f"http://{service.host}/x")).found is True


async def test_a_redirect_to_another_host_is_not_followed(
    tmp_path: Path, service: Service, another: Service
) -> None:
    another.say("/x", {})
    service.redirect("/a/key-1", f"http://{another.host}/x")
    seen = await ask(tmp_path, service, "/a/{key}")
    assert (seen.found, seen.why) == (None, "the URL leads to a host that is not allowed")
    assert another.paths == []
    service.redirect("/a/key-1", "/b")
    service.say("/b", {})
    assert (await ask(tmp_path, service, "/a/{key}")).found is True
    service.redirect("/b", "/a/key-1")
    assert (await ask(tmp_path, service, "/a/{key}")).why == "the service redirects too often"


async def test_credentials_go_to_the_first_host_only_and_never_into_what_is_kept(
    tmp_path: Path, service: Service, another: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "t-0123456789")
    another.say("/x", {})
    service.redirect("/a/key-1", f"http://{another.host}/x")
    hosts = f'hosts = ["{service.host}", "{another.host}"]'
    more = hosts + '\nheaders = { Authorization = "Bearer {env.TOKEN}" }'
    seen = await ask(tmp_path, service, "/a/{key}", more)
    assert seen.found is True
    assert service.asked[0][1]["authorization"] == "Bearer t-0123456789"
    assert "authorization" not in another.asked[0][1]
    assert "t-0123456789" not in repr(seen)
    monkeypatch.delenv("TOKEN")
    assert "is not set" in str((await ask(tmp_path, service, "/a/{key}", more)).why)


async def test_a_proxy_of_the_environment_is_not_told(
    tmp_path: Path, service: Service, another: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://{another.host}")
    monkeypatch.setenv("http_proxy", f"http://{another.host}")
    service.say("/a/key-1", {})
    assert (await ask(tmp_path, service, "/a/{key}")).found is True
    assert another.paths == []


async def test_a_huge_a_compressed_and_a_slow_answer_tell_nothing(tmp_path: Path, service: Service) -> None:
    service.answers["/huge"] = (200, {}, b"[" + b" " * 2_000)
    service.answers["/zip"] = (200, {"Content-Encoding": "gzip"}, b"x")
    service.answers["/slow"] = (200, {}, b"drip")
    more = 'found = "$.x"\nmost_bytes = 1000\ntimeout_seconds = 1'
    assert (
        await ask(tmp_path, service, "/{key}", more, key="huge")
    ).why == "the answer has more than 1000 bytes"
    assert "compressed" in str((await ask(tmp_path, service, "/{key}", more, key="zip")).why)
    started = time.monotonic()
    seen = await ask(tmp_path, service, "/{key}", more.replace("1000", "100000"), key="slow")
    assert (seen.found, seen.why) == (None, "it was not done within 1 s")
    assert time.monotonic() - started < 10


async def test_a_service_that_is_not_there_tells_nothing(tmp_path: Path, service: Service) -> None:
    seen = await look(tmp_path, 'type = "http"\nurl = "http://127.0.0.1:1/{key}"')
    assert (seen.found, seen.why) == (None, "the service could not be asked (ConnectError)")


SERVER = '''
import os, sys, time
from mcp.server import MCPServer

server = MCPServer("mail")

@server.tool()
def search(query: str, most: int) -> dict:
    """Search."""
    if query == "slow":
        open(os.environ["MARK"], "w").write(str(os.getpid()) + ".")
        time.sleep(600)
    if query == "broken":
        raise ValueError("hunter2")
    found = [{"id": "m-1", "at": 1795950000}] if query == "key-1" and most == 5 else []
    return {"found": found, "count": len(found)}

server.run()
'''


def mcp_table(tmp_path: Path, more: str = 'found = "$.found[0]"') -> str:
    """Give the table of a probe that asks an MCP server of its own."""
    file = tmp_path / "server.py"
    file.write_text(SERVER)
    return (
        f'type = "mcp_tool"\ncommand = ["{sys.executable}", "{file}"]\ntool = "search"\n'
        f'args = {{ query = "{{key}}", most = "{{args.most}}" }}\n{more}\n'
        f'environment = {{ MARK = "{tmp_path}/mark" }}'
    )


async def test_a_tool_of_an_mcp_server_is_asked(tmp_path: Path) -> None:
    more = (
        'found = "$.found[0]"\nexternal_id = "$.found[0].id"\nperformed_at = "$.found[0].at"\n'
        'kind = "message"'
    )
    seen = await look(tmp_path, mcp_table(tmp_path, more), args={"most": 5})
    assert (seen.found, seen.external_id, seen.kind) == (True, "m-1", "message")
    assert seen.performed_at == "2026-11-29T11:00:00.000000Z"
    assert (await look(tmp_path, mcp_table(tmp_path, more), key="other", args={"most": 5})).found is False


async def test_a_tool_that_fails_or_is_not_there_tells_nothing(tmp_path: Path) -> None:
    seen = await look(tmp_path, mcp_table(tmp_path), key="broken", args={"most": 5})
    assert (seen.found, seen.why) == (None, "the tool answered with an error")
    none = mcp_table(tmp_path).replace('"search"', '"none"')
    assert (await look(tmp_path, none, args={"most": 5})).found is None
    gone = mcp_table(tmp_path).replace(sys.executable, "/nonexistent/python")
    assert (await look(tmp_path, gone, args={"most": 5})).found is None
    ends = mcp_table(tmp_path).replace("server.py", "none.py")
    assert (await look(tmp_path, ends, args={"most": 5})).found is None


async def test_a_slow_mcp_server_is_ended_in_time(tmp_path: Path) -> None:
    started = time.monotonic()
    table = mcp_table(tmp_path) + "\ntimeout_seconds = 4"
    seen = await look(tmp_path, table, key="slow", args={"most": 5})
    assert (seen.found, seen.why) == (None, "it was not done within 4 s")
    assert time.monotonic() - started < 20
    pid = int((tmp_path / "mark").read_text()[:-1])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
