"""Speaks JSON-RPC with a program over its pipes, one message a line, and ends it in order.

The SDK's own client of this kind hands each message through two tasks and two queues in either direction,
which costs more than the message itself. Here whoever sends writes, and whoever reads parses.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

from counterfoil.server.gateway.programs import Program
from counterfoil.server.lines import ClientGone, LineReader, LineWriter
from counterfoil.server.logs import logger
from counterfoil.server.stdio_streams import Incoming, MessageStream
from counterfoil.server.wire import answered_id

__all__ = ["UNREADABLE", "ended_in_order", "speaking"]

_FLUSHING_SECONDS = 0.5
"""How long what was sent last may take to get into the pipe."""
_ENDING_SECONDS = 2.0
"""How long a program may take to end once its stdin has, and once more after SIGTERM."""
_LOOKING_SECONDS = 0.01
UNREADABLE: Final = object()
"""The data of the error that ends a call whose answer cannot be read: no server can say this."""
_LONGEST_LINE = 1 << 40
"""A result of any size goes through: what bounds it is the server's own."""


class _FromProgram(Incoming):
    """What the program says, message by message; a line that is none is given as the error that it is.

    The SDK drops such an error. Where the line tells which call it answers, that call is ended instead: its
    effect may have happened, and nothing else will come.
    """

    def __init__(self, descriptor: int, *, ended: anyio.Event) -> None:
        self._lines = LineReader(descriptor, longest=_LONGEST_LINE)
        self._ended = ended

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
            answered = answered_id(line)
            if answered is None:
                logger.info("a server said what is no JSON-RPC message")
                return error
            logger.info("a server gave an answer that cannot be read")
            problem = ErrorData(code=INTERNAL_ERROR, message="its answer cannot be read", data=UNREADABLE)
            return SessionMessage(JSONRPCError(jsonrpc="2.0", id=answered, error=problem))


class _ToProgram(MessageStream):
    """What is said to the program."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer
        self._is_closed = False

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message, and wait until it is in the pipe.

        Raises:
            ClosedResourceError: the connection has ended.
            BrokenResourceError: nobody reads it.
        """
        if self._is_closed:
            raise anyio.ClosedResourceError
        try:
            await self._writer.write_line(
                item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
            )
        except ClientGone:
            raise anyio.BrokenResourceError from None

    async def aclose(self) -> None:
        """Take no more; what was sent still goes out."""
        self._is_closed = True


@asynccontextmanager
async def speaking(start: Callable[[], Program], *, ended: anyio.Event) -> AsyncIterator[Any]:
    """Speak with the program that `start` gives, as long as the block lasts; `ended` is set when it goes.

    Raises:
        Unreachable: it cannot be started.
    """
    program = start()
    try:
        async with anyio.create_task_group() as tasks:
            writer = LineWriter(program.to_it, tasks, on_gone=ended.set)
            try:
                yield _FromProgram(program.from_it, ended=ended), _ToProgram(writer)
            finally:
                with anyio.move_on_after(_FLUSHING_SECONDS, shield=True):
                    await writer.flushed()
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
