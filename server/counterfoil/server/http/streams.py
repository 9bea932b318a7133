"""Answers a request as a stream of events where something is said before its answer, else as one document.

The stream begins with the first thing that is said, so a request of which nothing is said is answered as if
there were no streams. It ends with the answer. Its events have no ids, since nothing of it is kept: a client
that lost its connection sends the request again.
"""

import re
from collections.abc import Mapping
from typing import Any

import anyio
from anyio.abc import TaskGroup
from mcp_types import JSONRPCNotification, JSONRPCRequest
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from counterfoil.server.logs import logger

__all__ = ["LONGEST_SEND_SECONDS", "PING_SECONDS", "AnswerStream", "accepts_events", "stream_of", "streaming"]

PING_SECONDS = 15
"""After so long a silence a comment is sent: proxies close what is silent for 30 to 60 s."""

LONGEST_SEND_SECONDS = 60
"""Within which a client has to take an event; whoever does not read is gone, or holds a call open."""

_EVENTS = "text/event-stream"
_HEADERS = (
    (b"content-type", _EVENTS.encode()),
    (b"cache-control", b"no-cache, no-transform"),
    # nginx else collects the events, and hands them on when it has some kilobytes.
    (b"x-accel-buffering", b"no"),
)
_PING = b": ping\r\n\r\n"
_STATE = "answer_stream"
_NEVER = re.compile(r"q\s*=\s*0(\.0*)?")


class AnswerStream:
    """What goes to a client in answer to one request. `tasks` hold the request, and end it where need be."""

    def __init__(self, receive: Receive, send: Send, tasks: TaskGroup) -> None:
        self._receive = receive
        self._send = send
        self._tasks = tasks
        self._turn = anyio.Lock()
        self._answer = bytearray()
        self._is_answered = False
        self._has_begun = False

    @property
    def has_begun(self) -> bool:
        """Whether something was said before the answer."""
        return self._has_begun

    async def say(self, message: JSONRPCNotification | JSONRPCRequest) -> None:
        """Send a message before the answer. What comes after the answer goes nowhere."""
        told = message.model_dump_json(by_alias=True, exclude_none=True).encode()
        async with self._turn:
            if self._is_answered:
                return
            if not self._has_begun:
                self._has_begun = True
                self._tasks.start_soon(self._attend)
                await self._within_bounds(
                    {"type": "http.response.start", "status": 200, "headers": list(_HEADERS)}
                )
            await self._body(_event(told))

    async def answer(self, message: Message) -> None:
        """Send a part of the answer, as an ASGI application does: as it is, or as the last event.

        A status other than 200 is told by the error that goes with it, once the stream has begun.
        """
        async with self._turn:
            self._is_answered = True
            if not self._has_begun:
                await self._send(message)
            elif message["type"] == "http.response.body":
                self._answer += message.get("body", b"")
                if not message.get("more_body", False):
                    await self._body(_event(bytes(self._answer)), is_last=True)

    async def _attend(self) -> None:
        """Break the silence of a stream that has begun, and end the request when its client leaves."""
        while True:
            message: Message | None = None
            with anyio.move_on_after(PING_SECONDS):
                message = await self._receive()
            if message is None:
                async with self._turn:
                    if not self._is_answered:
                        await self._body(_PING)
            elif message["type"] == "http.disconnect":
                if not self._is_answered:
                    logger.info("a client left before its answer; its call was cancelled")
                    self._tasks.cancel_scope.cancel()
                return

    async def _body(self, body: bytes, *, is_last: bool = False) -> None:
        await self._within_bounds({"type": "http.response.body", "body": body, "more_body": not is_last})

    async def _within_bounds(self, message: Message) -> None:
        with anyio.move_on_after(LONGEST_SEND_SECONDS) as bound:
            await self._send(message)
        if bound.cancelled_caught:
            logger.info("a client did not read its stream; its call was cancelled")
            self._tasks.cancel_scope.cancel()


def streaming(app: ASGIApp) -> ASGIApp:
    """Give an application that can say something before the answer to whoever takes events.

    A client that leaves before anything was said does not cancel its call: a receipt that was sent is kept.
    """

    async def streamed(scope: Scope, receive: Receive, send: Send) -> None:
        if not accepts_events(Headers(scope=scope)):
            await app(scope, receive, send)
            return
        async with anyio.create_task_group() as tasks:
            stream = AnswerStream(receive, send, tasks)
            scope.setdefault("state", {})[_STATE] = stream
            await app(scope, receive, stream.answer)
            if stream.has_begun:
                tasks.cancel_scope.cancel()

    return streamed


def stream_of(scope: Mapping[str, Any]) -> AnswerStream | None:
    """Give the stream of a request; None where its client takes none."""
    stream = scope.get("state", {}).get(_STATE)
    return stream if isinstance(stream, AnswerStream) else None


def accepts_events(headers: Headers) -> bool:
    """Tell whether a client takes events: it names them, as clients of MCP do.

    Wildcards do not count: they are what programs send that read no events, such as curl.
    """
    for part in ",".join(headers.getlist("accept")).split(","):
        media_type, *parameters = (each.strip().lower() for each in part.split(";"))
        if media_type == _EVENTS:
            return not any(_NEVER.fullmatch(parameter) for parameter in parameters)
    return False


def _event(document: bytes) -> bytes:
    """Give one event. JSON as it is written here has no line breaks, which would end the data."""
    return b"event: message\r\ndata: " + document + b"\r\n\r\n"
