"""Opens a journal file, or makes a new one, and refuses what could not keep the journal's promises.

Everything here is synchronous and runs once, in a worker thread, before the two lasting connections are
made. A new journal appears under its name whole: it is made under a temporary name, migrated, synced and
then linked, so a kill at any moment leaves either no journal or a complete one, never an empty file that
the next start would have to guess about.
"""

import errno
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from counterfoil.store.errors import JournalUnavailable, UnsupportedVersion
from counterfoil.store.sqlite.faults import is_busy, opening_fault
from counterfoil.store.sqlite.migrations import Migration, check_schema, check_tables, migrate
from counterfoil.store.sqlite.modes import VERSION_FLOOR, journal_mode_for, settings_for
from counterfoil.store.sqlite.place import (
    SIDE_FILES,
    Identity,
    check_file,
    file_system_of,
    keep_private,
    make_folder,
    refuse_file_system,
    resolve,
    shares_memory,
    sync_folders,
)
from counterfoil.store.sqlite.waiting import LockWait

__all__ = ["Opened", "configure", "folder_locked", "prepare", "uri_of"]

_FOLDER_LOCK_ROUND_SECONDS = 0.01


class Opened(Struct, frozen=True, kw_only=True):
    """What is known of a journal that was found, or made, fit for use."""

    path: str
    identity: Identity
    file_system: str
    mode: str
    mode_reason: str
    wal_is_safe: bool
    schema_version: int
    """The schema version of the file, which is the newest that this program knows."""


def uri_of(path: str) -> str:
    """Give the URI with which SQLite opens `path` for writing and never creates it."""
    return f"file:{quote(os.fsencode(path))}?mode=rw"


def prepare(
    path: str | os.PathLike[str],
    *,
    migrations: Sequence[Migration],
    fresh_values: Mapping[str, Any],
    wait: LockWait,
    sqlite_version: tuple[int, ...],
    mounts: Path,
    is_thorough: bool = True,
) -> Opened:
    """Make sure that a journal of the newest known schema lies at `path`, in a mode that can be trusted.

    With `is_thorough` off its tables are not compared with the schema's, which takes longer than all the
    rest: where one was tampered with, the statement that needs it is refused.

    Raises:
        JournalUnavailable, UnsupportedVersion: it cannot be kept there, with the reason; nothing was changed.
    """
    if sqlite_version < VERSION_FLOOR:
        raise UnsupportedVersion(
            f"SQLite {'.'.join(map(str, sqlite_version))} is too old: no STRICT tables",
            fix=f"use a Python with SQLite {'.'.join(map(str, VERSION_FLOOR))} or newer",
        )
    path = resolve(path)
    file_system = file_system_of(path, mounts)
    refuse_file_system(file_system, path=path)
    wanted, reason = journal_mode_for(sqlite_version)
    wal_is_safe = wanted == "wal"
    if wal_is_safe and not shares_memory(file_system):
        wanted, reason = "persist", f"{file_system} does not share WAL's memory between machines"
    try:
        if not check_file(path):
            make_folder(os.path.dirname(path))
            with folder_locked(os.path.dirname(path), wait) as is_alone:
                if not check_file(path):
                    _create(path, migrations, fresh_values, mode=wanted, wait=wait, is_alone=is_alone)
        _drop_temporary_names(path)
        keep_private(path)
        identity = Identity.of(path)
        with closing(_connect(path)) as raw:
            check_schema(raw, known=len(migrations), path=path, wait=wait)
            mode, reason = _settle_mode(raw, wanted, reason, path=path, wait=wait)
            configure(raw, mode=mode, extra={}, wait=wait)
            migrate(raw, migrations, fresh_values, path=path, wait=wait)
            if is_thorough:
                check_tables(raw, migrations, fresh_values, path=path, wait=wait)
        keep_private(path)
        identity.check(path)
    except sqlite3.Error as error:
        raise opening_fault(error, path=path) from error
    except OSError as error:
        raise JournalUnavailable(
            f"{path} cannot be opened: {error.strerror or error}",
            fix="check the path, the disk and the folder",
        ) from error
    return Opened(
        path=path,
        identity=identity,
        file_system=file_system,
        mode=mode,
        mode_reason=reason,
        wal_is_safe=wal_is_safe,
        schema_version=len(migrations),
    )


def _connect(path: str) -> sqlite3.Connection:
    return sqlite3.connect(uri_of(path), uri=True, isolation_level=None, timeout=0.01)


def configure(raw: sqlite3.Connection, *, mode: str, extra: Mapping[str, int], wait: LockWait) -> None:
    """Set every PRAGMA of a connection and read each one back.

    Raises:
        JournalUnavailable: SQLite does not keep one of them.
    """
    found = wait.execute(raw, "PRAGMA journal_mode" if mode == "wal" else "PRAGMA journal_mode = PERSIST")
    if found != [(mode,)]:
        raise _not_kept("journal_mode", mode, found)
    for name, value in {**settings_for(mode), **extra}.items():
        wait.execute(raw, f"PRAGMA {name} = {value}")
        read = wait.execute(raw, f"PRAGMA {name}")
        # A SQLite built without mmap answers nothing, which is what is asked for.
        if read != [(value,)] and (read or value):
            raise _not_kept(name, value, read)


def _not_kept(name: str, value: object, found: object) -> JournalUnavailable:
    return JournalUnavailable(
        f"SQLite {sqlite3.sqlite_version} does not keep {name} = {value} (it answers {found})",
        fix="use a Python with a standard build of SQLite",
    )


def _settle_mode(
    raw: sqlite3.Connection, wanted: str, reason: str, *, path: str, wait: LockWait
) -> tuple[str, str]:
    """Give the mode in which this file is used, and why.

    A file in rollback mode stays there, also under a SQLite with the mended WAL: a server with an older one
    may share it, and would write in WAL mode with the bug as soon as it was switched. A file in WAL mode is
    switched where this SQLite must not use WAL; that needs it alone, so servers that share one converge.
    """
    ((current,),) = wait.execute(raw, "PRAGMA journal_mode")
    if current == "wal" and wanted == "persist":
        try:
            switched = wait.execute(raw, "PRAGMA journal_mode = PERSIST")
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            switched = []
        if switched != [("persist",)]:
            raise JournalUnavailable(
                f"{path} is in WAL mode and in use by another process, and this server must not use WAL: "
                f"{reason}",
                fix="stop the other servers once, so that this one can switch the journal; or use a Python "
                "with a newer SQLite here too",
            )
    elif current != "wal" and wanted == "wal":
        return (
            "persist",
            "the journal was made in rollback mode, which servers with an older SQLite can share",
        )
    return wanted, reason


@contextmanager
def folder_locked(folder: str, wait: LockWait) -> Iterator[bool]:
    """Hold the lock of all who make a journal in `folder`; gives False where the file system has none.

    The kernel releases it when the process dies.

    Raises:
        JournalUnavailable: another process holds it for longer than a lock is waited for.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield _take(descriptor, folder, rounds=int(wait.seconds / _FOLDER_LOCK_ROUND_SECONDS))
    finally:
        os.close(descriptor)


def _take(descriptor: int, folder: str, *, rounds: int) -> bool:
    for remaining in range(rounds, -1, -1):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if remaining == 0:
                raise JournalUnavailable(
                    f"another process has been making a journal in {folder} for too long",
                    fix="try again in a moment",
                    retryable=True,
                ) from error
            time.sleep(_FOLDER_LOCK_ROUND_SECONDS)
        except OSError as error:
            if error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.EBADF):
                return False
            raise
        else:
            return True
    raise AssertionError("unreachable: the last round returns or raises")


def _create(
    path: str,
    migrations: Sequence[Migration],
    fresh_values: Mapping[str, Any],
    *,
    mode: str,
    wait: LockWait,
    is_alone: bool,
) -> None:
    folder, name = os.path.split(path)
    if is_alone:
        # Whoever made these was killed: a living one would hold the folder's lock.
        for left in os.listdir(folder):
            if left.startswith(f".{name}.") and (".new" in left):
                os.unlink(os.path.join(folder, left))
    import tempfile  # Loaded by the one process that makes a journal.

    descriptor, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".new", dir=folder)
    os.close(descriptor)
    try:
        with closing(_connect(temporary)) as raw:
            raw.execute(f"PRAGMA journal_mode = {'WAL' if mode == 'wal' else 'PERSIST'}").fetchall()
            configure(raw, mode=mode, extra={}, wait=wait)
            migrate(raw, migrations, fresh_values, path=path, wait=wait)
        _sync_file(temporary)
        _give_name(temporary, path, is_alone=is_alone)
    finally:
        for suffix in ("", *SIDE_FILES):
            with suppress(FileNotFoundError):
                os.unlink(temporary + suffix)


def _drop_temporary_names(path: str) -> None:
    """Remove the second name of a journal whose maker was killed between linking it and removing that.

    As long as it has that, its first name may not be durable; a living maker is about to make it so.
    """
    if os.stat(path).st_nlink == 1:
        return
    folder, name = os.path.split(path)
    sync_folders(folder)
    for left in os.listdir(folder):
        second = os.path.join(folder, left)
        if left.startswith(f".{name}.") and left.endswith(".new"):
            with suppress(FileNotFoundError):
                if os.path.samefile(second, path):
                    os.unlink(second)


def _sync_file(temporary: str) -> None:
    # Nobody else has this file and SQLite has closed it: closing a descriptor can drop no lock.
    descriptor = os.open(temporary, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _give_name(temporary: str, path: str, *, is_alone: bool) -> None:
    """Give the whole journal its name, durably; one that has come to lie there meanwhile stays."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return
    except OSError:
        # Some file systems and sandboxes know no links. Under the folder's lock a rename is as good.
        if not is_alone or os.path.lexists(path):
            raise
        os.rename(temporary, path)
    # The temporary name goes only after this: whoever finds one name alone finds a durable one.
    sync_folders(os.path.dirname(path))
