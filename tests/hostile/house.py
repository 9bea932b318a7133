"""A whole server in this process, spoken to in bytes; every answer is held against what all promise."""

import json
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import anyio
from jsonschema import Draft202012Validator

from counterfoil.server.app import build_server
from counterfoil.server.callers import ClientInfo
from counterfoil.server.lines import LineReader, LineWriter
from counterfoil.server.stdio import serve_streams
from counterfoil.store.journal import Journal
from counterfoil.tools.schema import output_schema
from hostile.fields import TOOLS, minimal
from journals import FakeClock, open_test_journal
from stdio_process import modern_call

__all__ = ["FAULT_CODES", "MOST_CHARACTERS", "House", "Unforeseen", "Wire", "open_house"]

WAIT_SECONDS = 20

MOST_CHARACTERS = 10_000
FAULT_CODES = frozenset(
    ("invalid_argument", "not_found", "ambiguous", "forbidden", "too_large", "unsupported_version")
)
"""The faults that a caller can bring about on a sound journal."""


class Unforeseen(AssertionError):
    """The server met an exception that it did not foresee; it is the cause."""


class Wire:
    """One connection, as its client sees it."""

    def __init__(self, reader: LineReader, writer: LineWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._sent = 0

    async def request(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and give the message that answers it; nothing else is under way."""
        self._sent += 1
        line = json.dumps({**message, "id": self._sent}).encode()
        with anyio.fail_after(WAIT_SECONDS):
            await self._writer.write_line(line)
            answer = await self._reader.next_line()
        assert isinstance(answer, bytes)
        told: dict[str, Any] = json.loads(answer)
        assert told["id"] == self._sent
        return told


class House:
    """One journal and the connections to it."""

    def __init__(self, journal: Journal, wires: Mapping[str, Wire], file: Path) -> None:
        self.journal = journal
        self.wires = wires
        self._watching = sqlite3.connect(f"file:{file}?mode=ro", uri=True, isolation_level=None)

    def close(self) -> None:
        """Let go of the file."""
        self._watching.close()

    async def call(
        self, tool: str, arguments: Any, *, connection: str = "one", meta: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Call a tool; give its answer, or `{"fault": …}`. Whatever comes back is held to its promises."""
        before = self.version()
        message = modern_call(0, tool)
        message["params"]["arguments"] = arguments
        message["params"]["_meta"].update(meta or {})
        with _exceptions_raised():
            told = await self.wires[connection].request(message)
        assert "result" in told, told
        [content] = told["result"]["content"]
        assert len(content["text"]) <= MOST_CHARACTERS
        text = json.loads(content["text"])
        if told["result"].get("isError"):
            assert set(text) >= {"code", "message", "fix", "recorded"}
            assert text["code"] in FAULT_CODES, text
            assert text["recorded"] is False, text
            assert self.version() == before, "something was stored by a call that was refused"
            return {"fault": text}
        answer: dict[str, Any] = told["result"]["structuredContent"]
        assert answer == text, "text and structured content differ"
        assert list(answer)[:3] == ["next", "reason", "guidance"]
        _validator(tool).validate(answer)
        if TOOLS[tool].reads_only:
            assert self.version() == before, "a read stored something"
        return answer

    def version(self) -> int:
        """Give a number that changes whenever anybody commits."""
        [(number,)] = self._watching.execute("PRAGMA data_version")
        return int(number)

    def events(self) -> int:
        """Count what was ever recorded."""
        [(number,)] = self._watching.execute("SELECT count(*) FROM events")
        return int(number)

    async def check_whole(self) -> None:
        """Hold that the journal agrees with itself, down to its pages."""
        assert (await self.journal.reader.verify()).faults == ()
        assert await self.journal.database.integrity() == []  # type: ignore[attr-defined]

    async def check_works(self, run: str = "an ordinary run") -> None:
        """Hold that an ordinary effect can be begun and recorded."""
        ref = {"run": run, "key": f"the key after {self.events()}"}
        begun = await self.call(
            "begin_operation", minimal("begin_operation", **ref, args={"ref": ref["key"]})
        )
        assert begun.get("next") == "perform", begun
        stored = await self.call(
            "record_receipt", {**ref, "attempt": 1, "external_id": f"m-{ref['key']}", "kind": "message"}
        )
        assert stored.get("state") == "succeeded", stored


@asynccontextmanager
async def open_house(
    folder: Path,
    *,
    clock: FakeClock | None = None,
    connections: tuple[str, ...] = ("one",),
    **options: Any,
) -> AsyncIterator[House]:
    """Open the journal in `folder`, with a server of its own for each connection."""
    async with AsyncExitStack() as stack:
        journal = await stack.enter_async_context(open_test_journal(folder, clock=clock, **options))

        async def get() -> Any:
            return journal

        wires = {}
        for name in connections:
            server = build_server(get, client=ClientInfo(connection=name))
            wires[name] = await stack.enter_async_context(_wire(server))
        house = House(journal, wires, folder / "journal.db")
        stack.callback(house.close)
        yield house


@asynccontextmanager
async def _wire(server: Any) -> AsyncIterator[Wire]:
    """Let a server serve on two pipes; it ends when its stdin does."""
    stdin, to_server = os.pipe()
    from_server, stdout = os.pipe()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve_streams, server, stdin, stdout)
        try:
            yield Wire(LineReader(from_server), LineWriter(to_server, tasks))
        finally:
            os.close(to_server)
    for descriptor in (stdin, stdout, from_server):
        os.close(descriptor)


@cache
def _validator(tool: str) -> Draft202012Validator:
    # Every answer has these, though its schema does not ask for them, since a fault has to pass it as well.
    schema = {
        **output_schema(TOOLS[tool].output_model),
        "required": ["as_of", "next", "reason", "guidance"],
    }
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


class _Keeping(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.errors: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.errors.append(record.exc_info[1])


@contextmanager
def _exceptions_raised() -> Iterator[None]:
    """Raise what the server logged as unforeseen, with the place where it happened."""
    keeping, logger = _Keeping(), logging.getLogger("counterfoil")
    logger.addHandler(keeping)
    try:
        yield
    finally:
        logger.removeHandler(keeping)
    if keeping.errors:
        raise Unforeseen(type(keeping.errors[0]).__name__) from keeping.errors[0]
