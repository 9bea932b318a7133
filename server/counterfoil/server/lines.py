"""Lines over a descriptor, read and written without ever blocking the event loop on it."""

import errno
import os
import select
from collections.abc import Callable

import anyio
from anyio.abc import TaskGroup

from counterfoil.server.logs import logger
from counterfoil.server.wire import LONGEST_LINE, Refusal, judge_long_line

__all__ = ["ClientGone", "LineReader", "LineWriter"]

_READ_BYTES = 64 * 1024
_ATOMIC_BYTES = 4096
"""A pipe that is ready takes this much without blocking (PIPE_BUF on Linux; larger than on others)."""


def _nothing() -> None:
    pass


class ClientGone(Exception):
    """Nobody reads stdout any more."""


class LineReader:
    """Reads lines from a descriptor without ever blocking on it, each of bounded length."""

    def __init__(self, descriptor: int, *, longest: int = LONGEST_LINE) -> None:
        self._descriptor = descriptor
        self._longest = longest
        self._buffer = bytearray()
        self._searched = 0
        self._is_pollable = True
        self._is_stopped = False

    def stop(self) -> None:
        """Let whoever waits for a line, now or later, see the end."""
        self._is_stopped = True
        anyio.notify_closing(self._descriptor)

    async def next_line(self) -> bytes | Refusal | None:
        """Give the next line that is not blank, the refusal of one that was too long, or None at the end.

        A last line without a line break counts: a client that writes once and closes means it.
        """
        while not self._is_stopped:
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
            if self._is_stopped:
                break
            if not chunk:
                line, self._buffer, self._searched = bytes(self._buffer), bytearray(), 0
                return line if line.strip() else None
            self._buffer += chunk
        return None

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
                except anyio.ClosedResourceError:
                    return b""
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
    """Writes whole lines to a descriptor in the order that they came in, without blocking the event loop.

    A line that was begun goes out whole, whoever is cancelled meanwhile: what finds no room at once is
    written in `tasks`. `on_gone` is called when nobody reads any more.
    """

    def __init__(
        self, descriptor: int, tasks: TaskGroup, *, on_gone: Callable[[], object] = _nothing
    ) -> None:
        self._descriptor = descriptor
        self._tasks = tasks
        self._on_gone = on_gone
        self._rest = bytearray()
        self._is_written = anyio.Event()
        self._is_gone = False
        self._room = select.poll()
        self._room.register(descriptor, select.POLLOUT)

    async def write_line(self, line: bytes) -> None:
        """Write `line` and a line break, and wait until they are out of our hands.

        Raises:
            ClientGone: nobody reads any more.
        """
        is_first = not self._rest
        self._rest += line
        self._rest += b"\n"
        if is_first:
            # Mostly there is room, and asking costs less than a turn of the event loop.
            self._write_what_fits()
            if self._rest and not self._is_gone:
                self._is_written = anyio.Event()
                self._tasks.start_soon(self._write_all)
        await self.flushed()
        if self._is_gone:
            raise ClientGone

    async def flushed(self) -> None:
        """Wait until all is written, or nobody reads any more."""
        if self._rest and not self._is_gone:
            await self._is_written.wait()

    async def _write_all(self) -> None:
        while self._rest and not self._is_gone:
            try:
                await anyio.wait_writable(self._descriptor)
            except OSError as error:
                if error.errno != errno.EPERM:  # A regular file always has room.
                    self._end()
            self._write_what_fits()
        self._is_written.set()

    def _write_what_fits(self) -> None:
        try:
            while self._rest and not self._is_gone and self._room.poll(0):
                del self._rest[: os.write(self._descriptor, self._rest[:_ATOMIC_BYTES])]
        except BlockingIOError:
            return
        except OSError:
            self._end()

    def _end(self) -> None:
        self._is_gone = True
        self._on_gone()
