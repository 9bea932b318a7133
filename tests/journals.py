"""A real journal in a file, a clock that stands still until it is moved, and those who call."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from msgspec.structs import replace

from counterfoil.store.domain.commands import (
    BeginOperation,
    Caller,
    CheckOperation,
    CloseOperation,
    OperationRef,
    ReceiptGiven,
    ReconcileOperation,
    RecordFailure,
    RecordProgress,
    RecordReceipt,
    ResumePlan,
)
from counterfoil.store.domain.instants import Reading, micros, rfc3339
from counterfoil.store.domain.states import Policy
from counterfoil.store.journal import Journal
from counterfoil.store.opening import Fresh, open_journal

__all__ = [
    "AGENT",
    "ANOTHER",
    "PERSON",
    "SECRET",
    "START",
    "Desk",
    "FakeClock",
    "after",
    "as_caller",
    "folder_in_memory",
    "journal_place",
    "journal_url",
    "kept_at",
    "open_desk",
    "open_test_journal",
    "plain_sql",
]

START = round(datetime(2026, 11, 29, 12, tzinfo=UTC).timestamp()) * 1_000_000
SECRET = "5e" * 32

AGENT = Caller(connection="connection-1", conversation="conversation-1", client="test")
"""The session that begins things, unless a test says otherwise."""

ANOTHER = Caller(connection="connection-2", conversation="conversation-2", client="test")
"""A second session of the same principal."""

PERSON = Caller(connection="terminal-1", client="counterfoil", is_person=True)
"""Somebody at a terminal."""

_call_numbers = count(1)


def as_caller(caller: Caller, *, call_id: str | None = None) -> Caller:
    """Give `caller` a call id: a new one of its own, unless one is named."""
    return replace(caller, call_id=call_id or f"toolu_call_{next(_call_numbers):08}")


class FakeClock:
    """A wall clock and a monotonic clock of one boot that move only when told to."""

    def __init__(self, at: int = START, *, boot: str | None = "boot-1") -> None:
        self.at = at
        self.monotonic = 1_000_000_000
        self.boot = boot

    def __call__(self) -> Reading:
        if self.boot is None:
            return Reading(at=self.at)
        return Reading(at=self.at, monotonic=self.monotonic, boot=self.boot)

    def advance(self, duration_seconds: float) -> None:
        """Let time pass: both clocks move."""
        self.at += micros(duration_seconds)
        self.monotonic += micros(duration_seconds)

    def jump(self, duration_seconds: float) -> None:
        """Set the wall clock, ahead or back, while no time passes."""
        self.at += micros(duration_seconds)

    def reboot(self) -> None:
        """Start another boot: monotonic readings can no longer be compared."""
        self.boot, self.monotonic = f"{self.boot}+", 5_000_000

    @property
    def text(self) -> str:
        """The wall clock as RFC 3339."""
        return rfc3339(self.at)


def after(seconds: float) -> str:
    """The time so many seconds after the tests' clocks start."""
    return rfc3339(START + micros(seconds))


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """Give a folder in memory where the system has one: for journals whose durability is not the point."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(prefix="counterfoil-", dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


Place = Callable[[Path], Path | str]
"""Gives where the journal that tests know by a path lies: there, or at a URL."""

_place: Place = Path


@contextmanager
def kept_at(place: Place) -> Iterator[None]:
    """Keep the journals that are opened inside the block where `place` says."""
    global _place
    before, _place = _place, place
    try:
        yield
    finally:
        _place = before


def journal_place(path: Path) -> Path | str:
    """Give where the journal that tests know by `path` lies: a file, or a database's URL."""
    return _place(path)


def journal_url(path: Path) -> str:
    """Give the URL of the journal that tests know by `path`, as a command takes it."""
    place = _place(path)
    return place if isinstance(place, str) else f"sqlite:///{place}"


def plain_sql(path: Path, *statements: str) -> list[tuple[Any, ...]]:
    """Run SQL past the journal, as whoever has the database at hand can; give the last statement's rows.

    The journal is the one that tests know by `path`, wherever it is kept.
    """
    place = _place(path)
    if isinstance(place, Path):
        with closing(sqlite3.connect(place)) as raw, raw:
            return [raw.execute(statement).fetchall() for statement in statements][-1]
    with psycopg.connect(place, options="-csearch_path=counterfoil") as connection:
        cursors = [connection.execute(statement.encode()) for statement in statements]
        return cursors[-1].fetchall() if cursors[-1].description else []


@asynccontextmanager
async def open_test_journal(
    folder: Path,
    *,
    clock: FakeClock | None = None,
    policy: Policy | None = None,
    namespace: str = "default",
    name: str = "journal.db",
    **options: Any,
) -> AsyncIterator[Journal]:
    """Open a journal in `folder` under a clock of its own; the same folder and name give the same journal."""
    place = _place(folder / name)
    async with open_journal(
        place,
        fresh=Fresh(journal_id="J-test", secret=SECRET),
        namespace=namespace,
        policy=policy or Policy(),
        clock=clock or FakeClock(),
        has_own_clock=False,
        **options,
    ) as journal:
        yield journal


class Desk:
    """A journal with short words for what tests do most: one operation (`run`, `key`), many commands.

    Every command is given as AGENT with a call id of its own unless `caller` says otherwise; a caller with a
    call id keeps it.
    """

    def __init__(self, journal: Journal, clock: FakeClock, *, run: str = "run-1", key: str = "key-1") -> None:
        self.journal = journal
        self.clock = clock
        self.run = run
        self.key = key
        self._sent: list[tuple[str, Any, Caller]] = []

    def at(self, key: str, *, run: str | None = None) -> "Desk":
        """Give the desk of another operation of the same journal."""
        desk = Desk(self.journal, self.clock, run=run or self.run, key=key)
        desk._sent = self._sent
        return desk

    async def again(self) -> dict[str, Any]:
        """Send the last writing command once more, call id and all."""
        method, command, caller = self._sent[-1]
        return await self._send(method, command, caller)

    async def _send(self, method: str, command: Any, caller: Caller) -> dict[str, Any]:
        caller = caller if caller.call_id is not None else as_caller(caller)
        self._sent.append((method, command, caller))
        answer: dict[str, Any] = await getattr(self.journal, method)(command, caller)
        return answer

    @property
    def ref(self) -> OperationRef:
        """The operation by run and key."""
        return OperationRef(run=self.run, key=self.key)

    async def begin(self, *, caller: Caller = AGENT, **fields: Any) -> dict[str, Any]:
        """Begin the operation: by default `email.send` to a target of its own."""
        given = {"action": "email.send", "target": f"{self.key}@example.org", **fields}
        command = BeginOperation(**{"run": self.run, "key": self.key, **given})
        return await self._send("begin_operation", command, caller)

    async def receipt(self, *, caller: Caller = AGENT, **fields: Any) -> dict[str, Any]:
        """Record a receipt: by default message `m-1` of `smtp`."""
        command = RecordReceipt(ref=self.ref, receipt=_receipt(fields))
        return await self._send("record_receipt", command, caller)

    async def failure(
        self, effect: str = "unknown", *, caller: Caller = AGENT, attempt: int = 1, **fields: Any
    ) -> dict[str, Any]:
        """Record a failure of attempt 1."""
        given = {"error": "it broke", **fields}
        command = RecordFailure(ref=self.ref, attempt=attempt, effect=effect, **given)
        return await self._send("record_failure", command, caller)

    async def reconcile(
        self,
        finding: str,
        *,
        caller: Caller = AGENT,
        as_of: str | None = None,
        by: str = "lookup",
        end_lease: bool = False,
        receipt: ReceiptGiven | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        """Reconcile; `fields` are the receipt's, and without any there is none (but `attempt` names one)."""
        command = ReconcileOperation(
            ref=self.ref,
            finding=finding,
            checked_with="search_sent",
            as_of=as_of,
            by=by,
            receipt=receipt or ReceiptGiven(**fields),
            end_lease=end_lease,
        )
        return await self._send("reconcile_operation", command, caller)

    async def progress(
        self, *, caller: Caller = AGENT, attempt: int | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Record progress of the newest attempt, unless one is named."""
        command = RecordProgress(ref=self.ref, attempt=attempt, **{"message": "still at it", **fields})
        return await self._send("record_progress", command, caller)

    async def close(
        self, outcome: str, *, caller: Caller = AGENT, attempt: int | None = None
    ) -> dict[str, Any]:
        """Close."""
        command = CloseOperation(ref=self.ref, outcome=outcome, reason="decided", attempt=attempt)
        return await self._send("close_operation", command, caller)

    async def check(self, *, caller: Caller = AGENT, **fields: Any) -> dict[str, Any]:
        """Check."""
        return await self.journal.check_operation(CheckOperation(ref=self.ref, **fields), caller)

    async def plan(self, *, caller: Caller = AGENT, **fields: Any) -> dict[str, Any]:
        """Ask for the whole plan of the run."""
        command = ResumePlan(**{"run": self.run, "include": "all", **fields})
        return await self.journal.resume_plan(command, caller)

    async def state(self) -> str:
        """The state as a check gives it."""
        return str((await self.check())["state"])


@asynccontextmanager
async def open_desk(folder: Path, *, clock: FakeClock | None = None, **options: Any) -> AsyncIterator[Desk]:
    """Open a journal and give its desk."""
    clock = clock or FakeClock()
    async with open_test_journal(folder, clock=clock, **options) as journal:
        yield Desk(journal, clock)


def _receipt(fields: dict[str, Any]) -> ReceiptGiven:
    return ReceiptGiven(**{"kind": "message", "system": "smtp", "external_id": "m-1", **fields})
