"""Puts a journal back from a backup, and marks what it cannot know; also where others put it back.

Between the backup and now the journal that was lost may have granted, finished and decided anything. So in
the file put back every lease is ended, and the moment is noted: from then on, begins answer
`ask: history_gap` for what had no outcome (`domain/gaps.py`), and earlier idempotency keys count as over.
"""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio.to_thread
from msgspec import Struct

from counterfoil.store.domain.commands import Caller
from counterfoil.store.domain.drafting import Draft, Situation
from counterfoil.store.domain.events import EventKind
from counterfoil.store.domain.instants import Instant, Reading
from counterfoil.store.domain.model import Operation, Outcome, Party, State
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import Forbidden
from counterfoil.store.journal import Journal
from counterfoil.store.opening import Fresh, open_journal
from counterfoil.store.own_history import OwnHistory
from counterfoil.store.preparing import Bodies
from counterfoil.store.protocol import Connection, Database, Row
from counterfoil.store.rows import load_operations, run_from_row
from counterfoil.store.sqlite import journal_mode_for, load_migrations
from counterfoil.store.sqlite.files import copied_in, give_name, move_aside, refuse_taken, temporary_beside
from counterfoil.store.sqlite.opening import folder_locked, uri_of
from counterfoil.store.sqlite.place import (
    SIDE_FILES,
    file_system_of,
    make_folder,
    refuse_file_system,
    resolve,
    shares_memory,
)
from counterfoil.store.sqlite.waiting import LockWait
from counterfoil.store.writing import Change, RunPlace, caller_text, carry_out

__all__ = ["Restored", "mark_restored", "restore_journal"]

_UNUSED = Fresh(journal_id="unused", secret="0" * 64)
"""No journal is made here: the copy is one."""


class Restored(Struct, frozen=True, kw_only=True):
    """What was put back. `moved` are the names of what lay there; `faults` what replaying the log showed."""

    path: str
    backed_up_at: Instant
    restored_at: Instant
    runs: int
    operations: int
    leases_ended: int
    moved: tuple[str, ...]
    faults: tuple[str, ...]


async def restore_journal(
    source: Path,
    target: Path,
    *,
    clock: Callable[[], Reading],
    policy: Policy,
    caller: Caller,
    aside: str | None = None,
    busy_timeout_seconds: float = 5.0,
) -> Restored:
    """Put the journal or backup at `source` back to `target`, marked as restored.

    With `aside`, a journal that lies there is moved to its name with that ending; without, it is refused.
    Nothing is changed at `target` before the new journal is whole.

    Raises:
        JournalUnavailable, UnsupportedVersion: the backup or the place is not fit, with the reason.
    """
    wait = LockWait(busy_timeout_seconds)
    path, is_there = await anyio.to_thread.run_sync(lambda: _check_place(source, target, aside))
    migrations = load_migrations()
    with temporary_beside(path) as temporary:
        await anyio.to_thread.run_sync(lambda: copied_in(source, temporary, migrations=migrations, wait=wait))
        async with open_journal(
            Path(temporary), fresh=_UNUSED, namespace="default", policy=policy, clock=clock
        ) as journal:
            verification = await journal.reader.verify()
            backed_up_at, restored_at = await _note(journal.history, clock)
            ended = await _end_all_leases(journal.history, clock, policy, caller)

        def put_in_place() -> list[str]:
            _take_mode(temporary, path)
            with folder_locked(os.path.dirname(path), wait):
                moved = [] if aside is None or not is_there else move_aside(path, suffix=aside, wait=wait)
                refuse_taken(path)
                give_name(temporary, path)
            return moved

        moved = await anyio.to_thread.run_sync(put_in_place)
    return Restored(
        path=path,
        backed_up_at=backed_up_at,
        restored_at=restored_at,
        runs=verification.runs,
        operations=verification.operations,
        leases_ended=ended,
        moved=tuple(moved),
        faults=verification.faults,
    )


async def mark_restored(
    journal: Journal, *, clock: Callable[[], Reading], policy: Policy, caller: Caller
) -> Restored:
    """Mark `journal` as put back by other means, such as a database's own tools; then open it anew.

    What was done between the newest that it holds and now counts as missing, as after `restore_journal`.

    Raises:
        JournalUnavailable: it cannot be used.
    """
    facts = await journal.database.facts()
    backed_up_at, restored_at = await _note(journal.history, clock)
    ended = await _end_all_leases(journal.history, clock, policy, caller)
    verification = await journal.reader.verify()
    return Restored(
        path=str(facts.get("path") or facts["location"]),
        backed_up_at=backed_up_at,
        restored_at=restored_at,
        runs=verification.runs,
        operations=verification.operations,
        leases_ended=ended,
        moved=(),
        faults=verification.faults,
    )


def _check_place(source: Path, target: Path, aside: str | None) -> tuple[str, bool]:
    """Give where the journal is to lie, and whether one lies there that is to be moved aside."""
    path = resolve(target)
    refuse_file_system(file_system_of(path), path=path)
    make_folder(os.path.dirname(path))
    is_there = any(os.path.lexists(name) for name in (path, *(path + suffix for suffix in SIDE_FILES)))
    if is_there and aside is None:
        raise Forbidden(
            f"there is a journal at {path}; nothing was changed",
            fix="restore to another place with --journal, or give --force, which moves the one there aside",
        )
    if os.path.exists(path) and source.exists() and os.path.samefile(path, source):
        raise Forbidden(f"{source} is the journal itself; nothing was changed", fix="name a backup of it")
    return path, is_there


def _take_mode(temporary: str, path: str) -> None:
    """Give a finished copy the journal mode that a new journal would have there."""
    wanted, _reason = journal_mode_for(sqlite3.sqlite_version_info)
    mode = "WAL" if wanted == "wal" and shares_memory(file_system_of(path)) else "DELETE"
    with closing(sqlite3.connect(uri_of(temporary), uri=True, isolation_level=None)) as raw:
        raw.execute(f"PRAGMA journal_mode = {mode}").fetchall()


async def _note(history: OwnHistory, clock: Callable[[], Reading]) -> tuple[Instant, Instant]:
    """Note that the journal was put back; give the moments of the newest that it holds and of the note."""

    async def note(connection: Connection) -> tuple[Instant, Instant]:
        backup = await connection.fetch_one("read_backup")
        touch = await connection.fetch_one("latest_touch")
        before = await connection.fetch_one("newest_restore")
        if backup is None or touch is None:
            raise LookupError("a journal without its own row")
        latest = touch["touched_at"] or backup["created_at"]
        # Later than all that is on file, whatever the clock says: what comes after it is known by that.
        restored_at = max(
            connection.now(clock()).at, latest + 1, 0 if before is None else before["restored_at"] + 1
        )
        backed_up_at = backup["backed_up_at"] or latest
        await connection.execute("save_restore", {"restored_at": restored_at, "backed_up_at": backed_up_at})
        await connection.execute("end_backup")
        return backed_up_at, restored_at

    return await history.mark(note)


async def _end_all_leases(
    database: Database, clock: Callable[[], Reading], policy: Policy, caller: Caller
) -> int:
    """End every lease, so that no holder of before takes its attempt up again; give how many ended."""

    async def runs(connection: Connection) -> list[Row]:
        return list(await connection.fetch_all("all_runs"))

    ended = 0
    for run in await database.read(runs):

        async def work(connection: Connection, run: Row = run) -> int:
            return await _end_leases(connection, run, connection.now(clock()), policy, caller)

        ended += await database.write(work)
    return ended


async def _end_leases(connection: Connection, run: Row, now: Reading, policy: Policy, caller: Caller) -> int:
    """End the newest attempt of each operation that nobody ended, so that no holder can take it up again."""
    place = {"namespace": run["namespace"], "run": run["run"]}
    row = await connection.fetch_one("read_run", place)
    rows = await connection.fetch_all("undecided_operations", place)
    party = Party(principal=caller.principal, conversation=None, connection=caller.connection)
    situation = Situation(now=now, policy=policy, party=party, is_person=caller.is_person)
    changes = []
    for operation in await load_operations(connection, rows):
        ended = _ended(operation, situation)
        if ended is not None:
            changes.append(ended)
    if changes and row is not None:
        await carry_out(
            connection,
            place=RunPlace(namespace=run["namespace"], run=run["run"]),
            run=run_from_row(row),
            changes=changes,
            bodies=Bodies(),
            caller=caller_text(caller),
            now=now.at,
        )
    return len(changes)


def _ended(operation: Operation, situation: Situation) -> Change | None:
    draft = Draft(operation, operation_id=operation.id, situation=situation)
    newest = draft.operation.newest
    if (
        newest is None
        or operation.is_damaged
        or newest.ended_at is not None
        or newest.outcome not in (Outcome.OPEN, Outcome.UNKNOWN)
        or draft.state is State.TIMED_OUT
    ):
        return None
    draft.add(EventKind.LEASE_ENDED, attempt=newest.number)
    return Change(before=operation, after=draft.operation, events=draft.events)
