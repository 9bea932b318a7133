"""Speaks JSON-RPC with a program over its pipes, one message a line, and ends it in order.

The SDK's own client of this kind hands each message through two tasks and two queues in either direction,
which costs more than the message itself. Here whoever sends writes, and whoever reads parses.
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from counterfoil.server.gateway.programs import Program
from counterfoil.server.logs import logger
from counterfoil.server.stdio import LineReader

__all__ = ["ended_in_order", "speaking"]

_FLUSHING_SECONDS = 0.5
"""How long what was sent last may take to get into the pipe."""
_ENDING_SECONDS = 2.0
"""How long a program may take to end once its stdin has, and once more after SIGTERM."""
_LOOKING_SECONDS = 0.01
_LONGEST_LINE = 1 << 40
"""A result of any size goes through: what bounds it is the server's own."""


class _Stream:
    """What both directions have in common, as the SDK's session uses them."""

    async def aclose(self) -> None:
        """Do nothing: the pipes are closed with the program."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


class _FromProgram(_Stream):
    """What the program says, message by message; a line that is none is given as the error that it is."""

    def __init__(self, descriptor: int, *, ended: anyio.Event) -> None:
        self._lines = LineReader(descriptor, longest=_LONGEST_LINE)
        self._ended = ended

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        line = await self._lines.next_line()
        if not isinstance(line, bytes):
            self._ended.set()
            raise StopAsyncIteration
        try:
            # What is not UTF-8 costs its letters, what is no JSON-RPC its line; neither costs the connection.
            return SessionMessage(
                jsonrpc_message_adapter.validate_json(line.decode(errors="replace"), by_name=False)
            )
        except ValueError as error:
            logger.info("a server said what is no JSON-RPC message")
            return error

    async def receive(self) -> SessionMessage | Exception:
        """Give the next message.

        Raises:
            EndOfStream: there is none any more.
        """
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None


class _ToProgram(_Stream):
    """What is said to the program. A message goes out whole or not at all, whoever is cancelled meanwhile."""

    def __init__(self, descriptor: int, tasks: TaskGroup, *, ended: anyio.Event) -> None:
        self._descriptor = descriptor
        self._tasks = tasks
        self._ended = ended
        self._rest = bytearray()
        self._is_written = anyio.Event()
        self._is_broken = self._is_closed = False

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message, and wait until it is in the pipe.

        Raises:
            ClosedResourceError: the connection has ended.
            BrokenResourceError: nobody reads it.
        """
        if self._is_closed:
            raise anyio.ClosedResourceError
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        is_first = not self._rest
        self._rest += line + b"\n"
        if is_first:
            self._write()
            if self._rest and not self._is_broken:
                self._is_written = anyio.Event()
                self._tasks.start_soon(self._keep_writing)
        if self._rest and not self._is_broken:
            await self._is_written.wait()
        if self._is_broken:
            raise anyio.BrokenResourceError

    async def aclose(self) -> None:
        """Take no more; what was sent still goes out."""
        self._is_closed = True

    async def flushed(self) -> None:
        """Wait until all is in the pipe, or nobody reads it."""
        if self._rest and not self._is_broken:
            await self._is_written.wait()

    async def _keep_writing(self) -> None:
        while self._rest and not self._is_broken:
            await anyio.wait_writable(self._descriptor)
            self._write()
        self._is_written.set()

    def _write(self) -> None:
        """Write as much as there is room for."""
        try:
            while self._rest:
                del self._rest[: os.write(self._descriptor, self._rest)]
        except BlockingIOError:
            return
        except OSError:
            self._is_broken = True
            self._ended.set()


@asynccontextmanager
async def speaking(start: Callable[[], Program], *, ended: anyio.Event) -> AsyncIterator[Any]:
    """Speak with the program that `start` gives, as long as the block lasts; `ended` is set when it goes.

    Raises:
        Unreachable, OSError: it cannot be started.
    """
    program = start()
    try:
        async with anyio.create_task_group() as tasks:
            to_program = _ToProgram(program.to_it, tasks, ended=ended)
            try:
                yield _FromProgram(program.from_it, ended=ended), to_program
            finally:
                with anyio.move_on_after(_FLUSHING_SECONDS, shield=True):
                    await to_program.flushed()
                tasks.cancel_scope.cancel()
    finally:
        await ended_in_order(program)


async def ended_in_order(*programs: Program) -> None:
    """End programs: the end of their stdin, then SIGTERM, then SIGKILL; whoever is cancelled. Idempotent."""
    with anyio.CancelScope(shield=True):
        async with anyio.create_task_group() as tasks:
            for program in programs:
                tasks.start_soon(_ended, program)


async def _ended(program: Program) -> None:
    program.close_stdin()
    if not await _comes_true(lambda: program.is_gone, program):
        program.terminate()
        if not await _comes_true(lambda: program.is_wholly_gone, program):
            program.kill()
            if not await _comes_true(lambda: program.is_gone, program):
                logger.warning("a server's program is left behind: it cannot be killed")
    program.close_stdout()


async def _comes_true(condition: Callable[[], bool], program: Program) -> bool:
    """Look until it is so, for as long as each step of ending may take."""
    deadline = anyio.current_time() + _ENDING_SECONDS
    while not condition():
        if anyio.current_time() >= deadline:
            return False
        program.drain()
        await anyio.sleep(_LOOKING_SECONDS)
    return True
