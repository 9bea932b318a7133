"""Requests to the HTTP application within this process, so that a test holds both ends of a connection."""

import hashlib
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

import anyio
from mcp.server.lowlevel import Server
from starlette.types import ASGIApp, Message

from counterfoil.server.http.application import build_application
from counterfoil.server.http.draining import Drain
from counterfoil.server.http.health import Health
from counterfoil.server.http.metrics import Metrics
from counterfoil.server.http.principals import Principal
from counterfoil.server.http.rates import Rates
from counterfoil.server.http.scraping import Scraping
from counterfoil.server.http.session_seals import SessionSeals
from counterfoil.server.http.settings import HttpSettings
from counterfoil.server.http.surroundings import Surroundings
from counterfoil.server.scopes import SCOPES
from counterfoil.store.domain.canonical import canonical_json

__all__ = ["sealed", "BOTH", "ERAS", "WAIT_SECONDS", "Exchange", "headers_of", "serving", "tool_call"]

BOTH = "application/json, text/event-stream"
ERAS = ("2025-11-25", "2026-07-28")
WAIT_SECONDS = 10


def tool_call(era: str, tool: str, *, token: str | None = "p-1", **meta: Any) -> dict[str, Any]:
    """Give a call of a tool in the words of an era; `token` asks for progress."""
    if token is not None:
        meta["progressToken"] = token
    if era == "2026-07-28":
        meta["io.modelcontextprotocol/protocolVersion"] = era
        meta["io.modelcontextprotocol/clientCapabilities"] = {}
    params = {"name": tool, "arguments": {}, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}


def headers_of(era: str, tool: str, *, accept: str = BOTH, **others: str) -> dict[str, str]:
    """Give the headers that go with a call."""
    headers = {"accept": accept, "content-type": "application/json", "host": "test", **others}
    if era == "2026-07-28":
        headers |= {"mcp-method": "tools/call", "mcp-name": tool}
    return {**headers, "mcp-protocol-version": era}


class Exchange:
    """One POST whose answer is seen as it comes, and whose client may leave or not read."""

    def __init__(self, app: ASGIApp, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        self._app = app
        self._body = json.dumps(body).encode()
        self._headers = headers
        self._left = anyio.Event()
        self._changed = anyio.Event()
        self.reads = anyio.Event()
        self.reads.set()
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.is_over = False

    async def run(self) -> Self:
        """Carry it out, to its end."""
        asked = [{"type": "http.request", "body": self._body, "more_body": False}]

        async def receive() -> Message:
            if asked:
                return asked.pop()
            await self._left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            await self.reads.wait()
            if message["type"] == "http.response.start":
                self.status = message["status"]
                self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            else:
                self.body += message["body"]
            self._tell()

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "path": "/mcp",
            "raw_path": b"/mcp",
            "root_path": "",
            "query_string": b"",
            "scheme": "http",
            "state": {},
            "headers": [(name.encode(), value.encode()) for name, value in self._headers.items()],
        }
        await self._app(scope, receive, send)
        self.is_over = True
        self._tell()
        return self

    def leave(self) -> None:
        """Close the connection from the client's side."""
        self._left.set()

    async def until(self, text: bytes) -> None:
        """Wait until the answer holds a text."""
        with anyio.fail_after(WAIT_SECONDS):
            while text not in self.body:
                await self._changed.wait()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    @property
    def events(self) -> list[dict[str, Any]]:
        """The messages that came as events."""
        assert self.headers["content-type"] == "text/event-stream"
        blocks = [block for block in self.body.decode().split("\r\n\r\n") if not block.startswith(":")]
        assert blocks.pop() == ""
        return [json.loads(block.removeprefix("event: message\r\ndata: ")) for block in blocks]


async def _no_journal() -> Any:
    raise AssertionError("no journal is asked for here")


class _Vouching:
    """As much of a journal as vouches for what was written."""

    def vouch(self, text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()


async def _the_journal(namespace: str) -> _Vouching:
    return _Vouching()


def sealed(session_id: str) -> str:
    """Give the id of a session as `serving` gives it to its one principal."""
    seal = _Vouching().vouch(canonical_json(["http session", "local", session_id]))
    return f"{session_id}.{seal}"


@asynccontextmanager
async def serving(
    server: Server[Any], *, drain: Drain | None = None, **settings: Any
) -> AsyncIterator[ASGIApp]:
    """Give the application that serves `server`."""
    drain = drain or Drain()
    metrics = Metrics(_no_journal, drain, version="")
    application = build_application(
        server,
        tools=(),
        settings=HttpSettings(**settings),
        surroundings=Surroundings(hosts=frozenset({"test"}), origins=frozenset()),
        who=Principal(name="local", namespace="default", scopes=frozenset(SCOPES)),
        seals=SessionSeals(_the_journal),
        rates=Rates(per_second=0, burst=1, clock=time.monotonic),
        health=Health(_no_journal, drain),
        metrics=metrics,
        scraping=Scraping(metrics, token_sha256=None, is_open=False),
        drain=drain,
    )
    async with application.manager.run():
        yield application.asgi
