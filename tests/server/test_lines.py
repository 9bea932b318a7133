"""Lines over descriptors: never half of one, whoever is cancelled; and an end that whoever waits sees."""

import os
from collections.abc import Iterator

import anyio
import pytest

from counterfoil.server.lines import ClientGone, LineReader, LineWriter
from stdio_process import WAIT_SECONDS

pytestmark = pytest.mark.anyio

LONG = b"x" * 1_000_000
"""Far more than a pipe holds."""


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in (reading, writing):
        try:
            os.close(descriptor)
        except OSError:
            continue


async def next_line(reader: LineReader) -> bytes | None:
    with anyio.fail_after(WAIT_SECONDS):
        line = await reader.next_line()
    assert line is None or isinstance(line, bytes)
    return line


async def test_lines_come_in_the_order_in_which_they_were_written(pipe: tuple[int, int]) -> None:
    reader = LineReader(pipe[0])
    async with anyio.create_task_group() as tasks:
        writer = LineWriter(pipe[1], tasks)
        tasks.start_soon(writer.write_line, LONG)
        tasks.start_soon(writer.write_line, b"second")
        tasks.start_soon(writer.write_line, b"third")
        lines = [await next_line(reader) for _ in range(3)]

    assert lines == [LONG, b"second", b"third"]


async def test_a_line_whose_writer_is_cancelled_in_the_middle_goes_out_whole(pipe: tuple[int, int]) -> None:
    reader = LineReader(pipe[0])
    async with anyio.create_task_group() as tasks:
        writer = LineWriter(pipe[1], tasks)
        with anyio.move_on_after(0) as scope:
            await writer.write_line(LONG)
        tasks.start_soon(writer.write_line, b"next")
        lines = [await next_line(reader) for _ in range(2)]

    assert scope.cancelled_caught
    assert lines == [LONG, b"next"]


async def test_a_reader_that_has_gone_is_told_to_whoever_writes(pipe: tuple[int, int]) -> None:
    gone = anyio.Event()
    os.close(pipe[0])
    async with anyio.create_task_group() as tasks:
        writer = LineWriter(pipe[1], tasks, on_gone=gone.set)
        for _ in range(2):
            with pytest.raises(ClientGone):
                await writer.write_line(b"anybody?")
        with anyio.fail_after(WAIT_SECONDS):
            await writer.flushed()

    assert gone.is_set()


async def test_a_reader_that_goes_in_the_middle_of_a_line_is_told_to_whoever_waits(
    pipe: tuple[int, int],
) -> None:
    async with anyio.create_task_group() as tasks:
        writer = LineWriter(pipe[1], tasks)

        async def write() -> None:
            with pytest.raises(ClientGone):
                await writer.write_line(LONG)

        tasks.start_soon(write)
        await anyio.wait_all_tasks_blocked()
        os.close(pipe[0])


@pytest.mark.parametrize("is_waiting", [True, False])
async def test_whoever_waits_for_a_line_sees_the_end_when_reading_is_stopped(
    pipe: tuple[int, int], is_waiting: bool
) -> None:
    reader, lines = LineReader(pipe[0]), []

    async def read() -> None:
        lines.append(await next_line(reader))

    async with anyio.create_task_group() as tasks:
        if is_waiting:
            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
        reader.stop()
        if not is_waiting:
            tasks.start_soon(read)

    assert lines == [None]
