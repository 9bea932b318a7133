"""Serves MCP over the process's stdin and stdout, one JSON-RPC message a line.

The SDK's own reader blocks a thread on stdin, which keeps a process alive past SIGINT, and drops lines that
it cannot parse. This one waits for readiness in the event loop, judges each line first (`wire.py`), and lets
calls that are under way when stdin ends still send their answers.
"""

import fcntl
import os
from collections.abc import Callable
from typing import Any

import anyio
from mcp.server.lowlevel import Server

from counterfoil.server.lines import LineReader, LineWriter
from counterfoil.server.logs import logger
from counterfoil.server.stdio_streams import Answers, Requests, Unanswered

__all__ = ["claim_standard_streams", "serve_streams"]

_FLUSHING_SECONDS = 0.2
"""How long the last answers may take to be written to a client that may no longer read."""


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
    is_passed_on: bool = False,
) -> None:
    """Serve one client until stdin ends, `stopping` is set or nobody reads stdout.

    `on_first_answer` is called once the first answer is written, `on_end` at the first sign of the end.
    `is_passed_on` says that what the client says goes on to other servers.
    Calls that are under way then get ANSWERING_SECONDS to answer; after that they are cancelled.
    """
    reader, unanswered = LineReader(stdin), Unanswered()

    def gone() -> None:
        logger.info("stdout ended")
        on_end()
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        writer = LineWriter(stdout, tasks, on_gone=gone)
        requests = Requests(reader, writer, unanswered, on_end=on_end, is_passed_on=is_passed_on)
        answers = Answers(writer, unanswered, on_first=on_first_answer)
        if stopping is not None:
            tasks.start_soon(_stop_when, stopping, reader)
        await server.run(requests, answers, server.create_initialization_options())
        with anyio.move_on_after(_FLUSHING_SECONDS):
            await writer.flushed()
        tasks.cancel_scope.cancel()


async def _stop_when(event: anyio.Event, reader: LineReader) -> None:
    await event.wait()
    reader.stop()
