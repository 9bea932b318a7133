"""Connections on which nothing comes, or not enough: each is closed, and none in the middle of an answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import anyio
import pytest
import uvicorn

from counterfoil.server.http.connections import Connection
from counterfoil.server.http.serving import worker_config

pytestmark = pytest.mark.anyio

WAIT_SECONDS = 20
IDLE_SECONDS = 1
HEAD = b"POST /slow HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n"


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Answer at once, or once a whole body came and more time went by than an idle connection has."""
    if scope["path"] == "/slow":
        while (await receive()).get("more_body"):
            pass
        await anyio.sleep(1.5 * IDLE_SECONDS)
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Serve, and connect to it."""
    config = worker_config(answer, keep_alive_seconds=IDLE_SECONDS, drain_seconds=1)
    config.host, config.port = "127.0.0.1", 0
    server = uvicorn.Server(config)
    server.capture_signals = nullcontext  # type: ignore[method-assign]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve)
        with anyio.fail_after(WAIT_SECONDS):
            while not server.started:  # noqa: ASYNC110 - uvicorn tells nobody
                await anyio.sleep(0.01)
        reader, writer = await asyncio.open_connection(*server.servers[0].sockets[0].getsockname()[:2])
        yield reader, writer
        writer.close()
        server.should_exit = True


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (b"", b""),
        (HEAD, b"X: y\r\n"),
        (b"GET / HTTP/1.1\r\nHost: test\r\n\r\n", b""),
        (b"GET / HTTP/1.1\r\nHost: test\r\n\r\n", b"G"),
        (b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 1000\r\n\r\n", b"x"),
    ],
    ids=[
        "nothing",
        "a head without end",
        "nothing more",
        "a next head without end",
        "a body that is refused",
    ],
)
async def test_a_connection_on_which_no_request_comes_is_closed(first: bytes, then: bytes) -> None:
    async with connected() as (reader, writer):
        writer.write(first)
        with anyio.fail_after(WAIT_SECONDS):
            async with anyio.create_task_group() as tasks:

                async def go_on() -> None:
                    while then:
                        writer.write(then)
                        await anyio.sleep(IDLE_SECONDS / 5)

                tasks.start_soon(go_on)
                answered = await reader.read()
                tasks.cancel_scope.cancel()
    assert answered.count(b"HTTP/1.1 ") == (0 if first in (b"", HEAD) else 1)


async def test_a_connection_is_not_closed_under_a_request() -> None:
    async with connected() as (reader, writer):
        for _ in range(2):
            writer.write(HEAD + b"\r\nhello")
            with anyio.fail_after(WAIT_SECONDS):
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204")


async def test_a_worker_takes_no_web_sockets_whatever_is_installed() -> None:
    config = worker_config(answer, keep_alive_seconds=IDLE_SECONDS, drain_seconds=1)
    config.load()
    assert (config.http_protocol_class, config.ws_protocol_class) == (Connection, None)
