"""Whole journal files: copied while they are in use, checked, given their name, moved aside.

Every copy is made under a temporary name, checked by opening it, synced, and only then linked to its name:
a kill at any moment leaves either no copy or a whole one.
"""

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from counterfoil.store.domain.instants import Instant
from counterfoil.store.errors import Forbidden, JournalUnavailable, NotFound
from counterfoil.store.sqlite.faults import fault_for, is_busy, is_corrupt
from counterfoil.store.sqlite.migrations import Migration, check_schema, migrate
from counterfoil.store.sqlite.opening import uri_of
from counterfoil.store.sqlite.place import SIDE_FILES, sync_folder
from counterfoil.store.sqlite.waiting import LockWait

__all__ = [
    "check_copy",
    "copied_in",
    "copy_out",
    "give_name",
    "move_aside",
    "refuse_taken",
    "temporary_beside",
]

_ROUND_SECONDS = 0.01


def refuse_taken(path: str) -> None:
    """Refuse a name under which something lies, or under which a side file was left.

    Raises:
        Forbidden: it is taken; nothing was changed.
    """
    taken = [name for name in (path, *(path + suffix for suffix in SIDE_FILES)) if os.path.lexists(name)]
    if taken:
        raise Forbidden(
            f"{taken[0]} is there already; nothing is overwritten",
            fix="give another name, or move that file away",
        )


@contextmanager
def temporary_beside(path: str) -> Iterator[str]:
    """Give the name of a new private file in the folder of `path`; whatever is left of it goes at the end.

    Raises:
        JournalUnavailable: the folder is not there or may not be written.
    """
    folder, name = os.path.split(path)
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".copy", dir=folder)
    except OSError as error:
        raise JournalUnavailable(
            f"no file can be made in {folder}: {error.strerror}",
            fix="name a folder that exists and that this user may write",
        ) from error
    os.close(descriptor)
    try:
        yield temporary
    finally:
        for suffix in ("", *SIDE_FILES):
            with suppress(FileNotFoundError):
                os.unlink(temporary + suffix)


def copy_out(raw: sqlite3.Connection, path: str, *, backed_up_at: Instant, known: int, wait: LockWait) -> int:
    """Copy the journal behind `raw`, as it is at one moment, to a new file at `path`; give its size.

    SQLite's online backup in one step: a consistent snapshot, whoever writes meanwhile. In rollback mode
    commits wait until the copy is made; in WAL mode nobody waits.

    Raises:
        JournalUnavailable: the name is taken, the journal is busy, or the copy is not whole.
    """
    refuse_taken(path)
    with temporary_beside(path) as temporary:
        try:
            with closing(sqlite3.connect(uri_of(temporary), uri=True, isolation_level=None)) as copy:
                _copy(raw, copy, wait)
                copy.execute("PRAGMA synchronous = FULL")
                # One file without side files, whatever mode the journal is in.
                copy.execute("PRAGMA journal_mode = DELETE").fetchall()
                copy.execute("UPDATE journal SET backed_up_at = ?", (backed_up_at,))
                check_copy(copy, path=path, known=known, wait=wait)
        except sqlite3.Error as error:
            raise fault_for(error, statement=f"copying to {path}") from error
        give_name(temporary, path)
    return os.stat(path).st_size


def _copy(source: sqlite3.Connection, target: sqlite3.Connection, wait: LockWait) -> None:
    rounds = max(1, int(wait.seconds / _ROUND_SECONDS))

    def bounded(status: int, _remaining: int, _total: int) -> None:
        nonlocal rounds
        rounds -= 1
        if rounds < 0 and status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise JournalUnavailable(
                "the journal is busy: another process holds its lock; nothing was copied",
                fix="try again in a moment",
                retryable=True,
            )

    source.backup(target, pages=-1, progress=bounded, sleep=_ROUND_SECONDS)


def check_copy(copy: sqlite3.Connection, *, path: str, known: int, wait: LockWait) -> int:
    """Make sure that a copy is a whole journal and nothing but one; give its schema version.

    Raises:
        JournalUnavailable, UnsupportedVersion: it is damaged, another program's, or of a newer version.
    """
    version = check_schema(copy, known=known, path=path, wait=wait)
    problems = _strangers(copy)
    problems += [str(row[0]) for row in copy.execute("PRAGMA integrity_check(3)") if row[0] != "ok"]
    problems += [f"{row[0]}: its {row[2]} is missing" for row in copy.execute("PRAGMA foreign_key_check")][:3]
    if problems:
        raise JournalUnavailable(
            f"{path} is damaged or no journal: {'; '.join(problems[:3])}",
            fix="use another backup; this file was left as it is",
        )
    return version


def _strangers(copy: sqlite3.Connection) -> list[str]:
    """Name what no journal has, and what would do more than the journal asks for."""
    found = copy.execute("SELECT type, name FROM sqlite_master WHERE type IN ('trigger', 'view')")
    return [f"it holds a {kind} called {name}" for kind, name in found]


def give_name(temporary: str, path: str) -> None:
    """Sync a finished file and give it its name, which must be free; durable when this returns."""
    descriptor = os.open(temporary, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(temporary, path)
    except FileExistsError:
        refuse_taken(path)
    except OSError:
        # Some file systems know no links.
        refuse_taken(path)
        os.rename(temporary, path)
    sync_folder(os.path.dirname(path))


def copied_in(source: Path, temporary: str, *, migrations: Sequence[Migration], wait: LockWait) -> None:
    """Copy the journal or backup at `source` to `temporary`, bring the copy up to date, and check it.

    Raises:
        NotFound: it is not there.
        JournalUnavailable, UnsupportedVersion: it is not whole, or not a journal.
    """
    if not source.is_file():
        raise NotFound(f"there is no file {source}", fix="name the file that `backup` made")
    # A file that nothing lies beside is in use by nobody, and may lie where no side file can be made.
    has_side_files = any(os.path.exists(f"{source}{suffix}") for suffix in SIDE_FILES)
    uri = f"file:{quote(os.fsencode(source))}?mode=ro" + ("" if has_side_files else "&immutable=1")
    try:
        with (
            closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as given,
            closing(sqlite3.connect(uri_of(temporary), uri=True, isolation_level=None)) as copy,
        ):
            given.execute("PRAGMA trusted_schema = 0")
            known = len(migrations)
            check_schema(given, known=known, path=str(source), wait=wait)
            _copy(given, copy, wait)
            copy.execute("PRAGMA journal_mode = DELETE").fetchall()
            if not _strangers(copy):
                # First, as SQLite 3.40 reports NULLs that are not there in a file of version 1.
                migrate(copy, migrations, {}, path=str(source), wait=wait)
            check_copy(copy, path=str(source), known=known, wait=wait)
    except sqlite3.Error as error:
        if is_corrupt(error):
            # Not the journal that it is to take the place of, which may be whole.
            raise JournalUnavailable(
                f"{source} is damaged, or no journal at all; nothing was put back, and a journal that is in "
                "its place is as it was",
                fix="name another backup",
            ) from error
        raise fault_for(error, statement=f"reading {source}") from error


def move_aside(path: str, *, suffix: str, wait: LockWait) -> list[str]:
    """Move the journal at `path` and its side files to names that end in `suffix`; give the new names.

    The journal's lock is held meanwhile, so that no commit is under way; a journal that is damaged has none.
    Servers that have it open notice that it is gone.

    Raises:
        JournalUnavailable: in use at this moment, or the new name is taken.
    """
    aside = f"{path}.{suffix}"
    refuse_taken(aside)
    with _locked(path, wait):
        moved = []
        for side in ("", *SIDE_FILES):
            if os.path.lexists(path + side):
                os.rename(path + side, aside + side)
                moved.append(aside + side)
    sync_folder(os.path.dirname(path))
    return moved


@contextmanager
def _locked(path: str, wait: LockWait) -> Iterator[None]:
    end: Callable[[], None] = lambda: None  # noqa: E731
    if os.path.isfile(path):
        try:
            raw = sqlite3.connect(uri_of(path), uri=True, isolation_level=None, timeout=_ROUND_SECONDS)
            end = raw.close
            wait.execute(raw, "BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            if is_busy(error):
                end()
                raise JournalUnavailable(
                    f"{path} is in use at this moment; nothing was changed",
                    fix="stop the servers that use it, then try again",
                    retryable=True,
                ) from error
            if not is_corrupt(error):
                end()
                raise fault_for(error, statement=f"locking {path}") from error
    try:
        yield
    finally:
        end()
