"""Serves MCP over the process's stdin and stdout, one JSON-RPC message a line.

The SDK's own reader blocks a thread on stdin, which keeps a process alive past SIGINT, and drops lines that
it cannot parse. This one waits for readiness in the event loop, judges each line first (`wire.py`), and lets
calls that are under way when stdin ends still send their answers.
"""

import errno
import fcntl
import os
import select
from collections.abc import Callable
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp_types import (
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from counterfoil.server.logs import logger
from counterfoil.server.wire import LONGEST_LINE, Message, Refusal, judge_line, judge_long_line, sdk_message
from counterfoil.tools.text import written

__all__ = [
    "ANSWERING_SECONDS",
    "ClientGone",
    "LineReader",
    "LineWriter",
    "claim_standard_streams",
    "serve_streams",
]

ANSWERING_SECONDS = 0.8
"""How long calls under way may still answer once stdin has ended; the process is gone within two."""

_FLUSHING_SECONDS = 0.2
"""How long the last answers may take to be written to a client that may no longer read."""

_READ_BYTES = 64 * 1024
_ATOMIC_BYTES = 4096
"""A pipe that is ready takes this much without blocking (PIPE_BUF on Linux; larger than on others)."""


class ClientGone(Exception):
    """Nobody reads stdout any more."""


def claim_standard_streams() -> tuple[int, int]:
    """Move stdin and stdout to descriptors of our own, and give these.

    Descriptor 0 then reads nothing and 1 writes to stderr, so that a stray print or a child process can
    neither eat a message nor put one on the wire.
    """
    stdin, stdout = _above_standard(0), _above_standard(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        os.dup2(nothing, 1)
    os.close(nothing)
    return stdin, stdout


def _above_standard(descriptor: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)


class LineReader:
    """Reads lines from a descriptor without ever blocking on it, each of bounded length."""

    def __init__(self, descriptor: int, *, longest: int = LONGEST_LINE) -> None:
        self._descriptor = descriptor
        self._longest = longest
        self._buffer = bytearray()
        self._searched = 0
        self._is_pollable = True

    async def next_line(self) -> bytes | Refusal | None:
        """Give the next line that is not blank, the refusal of one that was too long, or None at the end.

        A last line without a line break counts: a client that writes once and closes means it.
        """
        while True:
            found = self._buffer.find(b"\n", self._searched)
            if found >= 0:
                line = bytes(self._buffer[:found])
                del self._buffer[: found + 1]
                self._searched = 0
                if len(line) > self._longest:
                    return judge_long_line(line[:_READ_BYTES], line[-1024:], len(line))
                if line.strip():
                    return line
                continue
            self._searched = len(self._buffer)
            if len(self._buffer) > self._longest:
                return await self._skip_line()
            chunk = await self._read()
            if not chunk:
                line, self._buffer, self._searched = bytes(self._buffer), bytearray(), 0
                return line if line.strip() else None
            self._buffer += chunk

    async def _skip_line(self) -> Refusal:
        """Drop what is left of a line that is too long, keeping only its beginning and end."""
        head, tail, size = bytes(self._buffer[:_READ_BYTES]), bytes(self._buffer[-1024:]), len(self._buffer)
        self._buffer, self._searched = bytearray(), 0
        while chunk := await self._read():
            line, line_break, rest = chunk.partition(b"\n")
            size += len(line)
            tail = (tail + line)[-1024:]
            if line_break:
                self._buffer += rest
                break
        return judge_long_line(head, tail, size)

    async def _read(self) -> bytes:
        while True:
            if self._is_pollable:
                try:
                    await anyio.wait_readable(self._descriptor)
                except OSError as error:
                    if error.errno != errno.EPERM:  # A regular file or /dev/null is always ready.
                        raise
                    self._is_pollable = False
            try:
                return os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError:
                continue
            except (ConnectionResetError, OSError) as error:
                logger.info("stdin ended: %s", type(error).__name__)
                return b""


class LineWriter:
    """Writes whole lines to a descriptor, one at a time, without blocking the event loop."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = anyio.Lock(fast_acquire=True)
        self._is_pollable = True
        self._room = select.poll()
        self._room.register(descriptor, select.POLLOUT)

    async def write_line(self, line: bytes) -> None:
        """Write `line` and a line break; no other line comes in between.

        Raises:
            ClientGone: nobody reads any more.
        """
        async with self._lock:
            rest = memoryview(line + b"\n")
            while rest:
                await self._ready()
                try:
                    written_bytes = os.write(self._descriptor, rest[:_ATOMIC_BYTES])
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise ClientGone from error
                rest = rest[written_bytes:]

    async def _ready(self) -> None:
        # Mostly there is room at once, and asking costs less than a turn of the event loop.
        if not self._is_pollable or self._room.poll(0):
            return
        try:
            await anyio.wait_writable(self._descriptor)
        except OSError as error:
            if error.errno != errno.EPERM:
                raise ClientGone from error
            self._is_pollable = False


class _Unanswered:
    """The requests that were passed on and not answered yet."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._none = anyio.Event()
        self._none.set()

    def add(self, request_id: str | int) -> None:
        self._ids.add(str(request_id))
        if self._none.is_set():
            self._none = anyio.Event()

    def discard(self, request_id: Any) -> None:
        self._ids.discard(str(request_id))
        if not self._ids:
            self._none.set()

    async def wait_until_none(self) -> None:
        await self._none.wait()


def _nothing() -> None:
    pass


async def serve_streams(
    server: Server[Any],
    stdin: int,
    stdout: int,
    *,
    stopping: anyio.Event | None = None,
    on_first_answer: Callable[[], None] = _nothing,
    on_end: Callable[[], None] = _nothing,
) -> None:
    """Serve one client until stdin ends, `stopping` is set or nobody reads stdout.

    `on_first_answer` is called once the first answer is written, `on_end` at the first sign of the end.
    Calls that are under way then get ANSWERING_SECONDS to answer; after that they are cancelled.
    """
    reader, writer, unanswered = LineReader(stdin), LineWriter(stdout), _Unanswered()
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)

    all_written = anyio.Event()

    async def write_answers() -> None:
        is_first = True
        async with from_server:
            async for message in from_server:
                try:
                    await writer.write_line(_encoded(message))
                except ClientGone:
                    logger.info("stdout ended")
                    on_end()
                    tasks.cancel_scope.cancel()
                    return
                if isinstance(message.message, JSONRPCResponse | JSONRPCError):
                    unanswered.discard(message.message.id)
                if is_first:
                    is_first = False
                    on_first_answer()
        all_written.set()

    async def read_requests() -> None:
        async with to_server:
            async with anyio.create_task_group() as reading:
                if stopping is not None:
                    reading.start_soon(_cancel_when, stopping, reading.cancel_scope)
                try:
                    await _pass_on(reader, writer, to_server, unanswered)
                except ClientGone:
                    tasks.cancel_scope.cancel()
                on_end()
                reading.cancel_scope.cancel()
            with anyio.move_on_after(ANSWERING_SECONDS):
                await unanswered.wait_until_none()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write_answers)
        tasks.start_soon(read_requests)
        await server.run(from_client, to_client, server.create_initialization_options())
        with anyio.move_on_after(_FLUSHING_SECONDS):
            await all_written.wait()
        tasks.cancel_scope.cancel()


async def _cancel_when(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


async def _pass_on(
    reader: LineReader,
    writer: LineWriter,
    to_server: MemoryObjectSendStream[SessionMessage | Exception],
    unanswered: _Unanswered,
) -> None:
    """Pass sound messages on and answer the others, until stdin ends.

    Raises:
        ClientGone: nobody reads the answers any more.
    """
    while (line := await reader.next_line()) is not None:
        judged = judge_line(line) if isinstance(line, bytes) else line
        message = sdk_message(judged) if isinstance(judged, Message) else judged
        if isinstance(message, Refusal):
            if message.answer is not None:
                logger.info("a message was refused before it was served")
                await writer.write_line(written(message.answer).encode())
            continue
        if isinstance(message, JSONRPCRequest):
            unanswered.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            # A request that its caller cancelled is never answered.
            unanswered.discard((message.params or {}).get("requestId"))
        await to_server.send(SessionMessage(message))


def _encoded(message: SessionMessage) -> bytes:
    """Give a message as it goes on the wire; one that cannot be written becomes an error with its id."""
    try:
        return message.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except ValueError as error:
        logger.error("an answer could not be written: %s", type(error).__name__)
        request_id = getattr(message.message, "id", None)
        problem = {"code": -32603, "message": "Internal error: the answer could not be written; ask again"}
        return written({"jsonrpc": "2.0", "id": request_id, "error": problem}).encode()
