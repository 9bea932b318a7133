"""The place where a journal lies: its file, its folder, its file system, and what is refused about them.

No file of an open journal is ever opened here: closing any descriptor of a file drops every POSIX lock
that this process holds on it (fcntl(2)), and with them SQLite's. Everything is learnt by path.
"""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from counterfoil.store.errors import JournalUnavailable

__all__ = [
    "MOUNTS",
    "Identity",
    "check_file",
    "file_system_of",
    "keep_private",
    "make_folder",
    "refuse_file_system",
    "resolve",
    "shares_memory",
    "sync_folder",
    "sync_folders",
]

SIDE_FILES = ("-journal", "-wal", "-shm")
MOUNTS = Path("/proc/self/mountinfo")

# File systems whose locks may hold on one machine and not on another, or not at all. `fuse.x` is refused
# for every x; fuseblk (ntfs-3g) is a local disk.
_WITHOUT_LOCKS = frozenset(
    {
        "9p",
        "afpfs",
        "afs",
        "beegfs",
        "cifs",
        "coda",
        "davfs",
        "fakeowner",
        "fuse",
        "grpcfuse",
        "ncpfs",
        "nfs",
        "nfs4",
        "osxfs",
        "prl_fs",
        "smb2",
        "smb3",
        "smbfs",
        "vboxsf",
        "virtiofs",
        "vmhgfs",
        "webdav",
    }
)
# Their locks hold everywhere, but the memory that WAL shares between processes ends at the machine.
_WITHOUT_SHARED_MEMORY = frozenset({"ceph", "gfs", "gfs2", "glusterfs", "gpfs", "lustre", "ocfs2"})


class Identity(Struct, frozen=True):
    """Which file it is, so that one deleted or replaced behind our back is noticed."""

    device: int
    inode: int

    @classmethod
    def of(cls, path: str) -> "Identity":
        """Take the identity of the file now at `path`; it must be there."""
        found = os.stat(path)
        return cls(found.st_dev, found.st_ino)

    def check(self, path: str, *, recorded: bool | None = False) -> None:
        """Make sure that the journal is still the file that was opened.

        Raises:
            JournalUnavailable: deleted, replaced or emptied; never made anew.
        """
        try:
            found = os.stat(path)
        except OSError as error:
            problem = "deleted or moved" if isinstance(error, FileNotFoundError) else "out of reach"
            raise _gone(path, problem, recorded) from error
        if found.st_ino != self.inode or found.st_dev != self.device:
            raise _gone(path, "replaced by another file", recorded)
        if found.st_size == 0:
            raise _gone(path, "emptied and is corrupt", recorded)


def _gone(path: str, problem: str, recorded: bool | None) -> JournalUnavailable:
    return JournalUnavailable(
        f"the journal {path} was {problem} while it was in use",
        fix="stop; put the file back or restore a backup, and start the server again; no new journal is made",
        recorded=recorded,
    )


def resolve(path: str | os.PathLike[str]) -> str:
    """Follow symbolic links once, so that the journal and its side files lie in one folder for good."""
    return os.path.realpath(os.fspath(path))


def check_file(path: str) -> bool:
    """Tell whether a journal may lie at `path` (True) or may be made there (False).

    Raises:
        JournalUnavailable: something else lies there, it is empty, or it may not be written.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        _check_nothing_left(path)
        return False
    except OSError as error:
        raise JournalUnavailable(
            f"{path} cannot be reached: {error.strerror}", fix="check the path and the folder's permissions"
        ) from error
    if not stat.S_ISREG(found.st_mode):
        raise JournalUnavailable(f"{path} is not a file", fix="name the journal's file with --journal")
    if found.st_size == 0:
        raise JournalUnavailable(
            f"{path} is empty, which no journal ever is",
            fix="restore a backup if it was a journal; remove the file to begin a new one",
        )
    folder = os.path.dirname(path)
    for place, access in ((path, os.R_OK | os.W_OK), (folder, os.R_OK | os.W_OK | os.X_OK)):
        if not _may(place, access):
            raise JournalUnavailable(
                f"{place} is read-only for this user",
                fix="make the journal's file and its folder writable, or name another with --journal",
            )
    return True


def _may(place: str, access: int) -> bool:
    return os.access(place, access, effective_ids=os.access in os.supports_effective_ids)


def _check_nothing_left(path: str) -> None:
    left = [path + suffix for suffix in SIDE_FILES if os.path.lexists(path + suffix)]
    if left:
        raise JournalUnavailable(
            f"{path} is missing but {', '.join(left)} is there: a journal was deleted or moved",
            fix="put the journal back or restore a backup; move the left-over files away to begin a new one",
        )


def keep_private(path: str) -> None:
    """Give the journal and its side files mode 0600, and read it back.

    Raises:
        JournalUnavailable: another user owns the file, or its file system keeps no modes.
    """
    for name in (path, *(path + suffix for suffix in SIDE_FILES)):
        try:
            if _others_may_use(name):
                os.chmod(name, 0o600)
                if _others_may_use(name):
                    raise JournalUnavailable(
                        f"the file system does not keep {name} private: mode 0600 was set and is not there",
                        fix="move the journal to a file system with file modes",
                    )
        except FileNotFoundError:
            continue
        except PermissionError as error:
            raise JournalUnavailable(
                f"{name} may be used by others and is not this user's to change",
                fix=f"let its owner run: chmod 600 {name}",
            ) from error


def _others_may_use(name: str) -> bool:
    return bool(stat.S_IMODE(os.stat(name).st_mode) & 0o177)


def make_folder(folder: str) -> None:
    """Make the journal's folder, and those above it, for this user alone; one that is there is left alone.

    Raises:
        JournalUnavailable: it cannot be made, or may not be written.
    """
    missing = []
    above = folder
    while not os.path.isdir(above) and above != os.path.dirname(above):
        missing.append(above)
        above = os.path.dirname(above)
    try:
        for name in reversed(missing):
            try:
                os.mkdir(name, 0o700)
            except FileExistsError:
                if not os.path.isdir(name):
                    raise
    except OSError as error:
        raise JournalUnavailable(
            f"the folder {folder} cannot be made: {error.strerror}", fix="name another place with --journal"
        ) from error
    if not _may(folder, os.W_OK | os.X_OK):
        raise JournalUnavailable(
            f"{folder} is read-only for this user",
            fix="make the folder writable, or name another place with --journal",
        )


def file_system_of(path: str, mounts: Path = MOUNTS) -> str:
    """Give the type of the file system that holds `path`, or `unknown` where the system does not tell."""
    try:
        text = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return "unknown"
    best = ("", "unknown")
    for line in text.splitlines():
        # proc(5): … mount-point is the fifth field; the type follows the separator " - ".
        head, separator, tail = line.partition(" - ")
        fields = head.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = _unescaped(fields[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        # A later line of the same mount point lies over the earlier one.
        if inside and len(point) >= len(best[0]):
            best = (point, tail.split(" ")[0])
    return best[1]


def _unescaped(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text


def refuse_file_system(kind: str, *, path: str) -> None:
    """Refuse a file system on which locks between processes cannot be trusted.

    Raises:
        JournalUnavailable: with the reason.
    """
    if kind in _WITHOUT_LOCKS or kind.startswith("fuse."):
        raise JournalUnavailable(
            f"{path} lies on {kind}, where locks between processes cannot be trusted: SQLite files were "
            "corrupted there within a minute",
            fix="put the journal on a local disk with --journal, or use PostgreSQL for several machines",
        )


def shares_memory(kind: str) -> bool:
    """Tell whether every process that can open a file on this file system shares WAL's memory with us."""
    return kind not in _WITHOUT_SHARED_MEMORY


def sync_folder(folder: str) -> None:
    """Make a new name in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def sync_folders(folder: str) -> None:
    """Make the names in `folder` durable, and its own name and those above it: they may be as new.

    One above that this user may not read was not made by this user, or can be told no better.
    """
    sync_folder(folder)
    while folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        with suppress(PermissionError):
            sync_folder(folder)
