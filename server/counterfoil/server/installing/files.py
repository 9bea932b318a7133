"""Reads and writes the files of clients: whole or not at all, through links, with the mode that they had."""

import hashlib
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path

__all__ = [
    "ChangedMeanwhile",
    "back_up",
    "backups_of",
    "dangling_link",
    "digest_of",
    "missing_folders",
    "read_text",
    "write_whole",
]

_PRIVATE = 0o600
"""For what is made anew: such files hold keys sooner or later."""


_ENDING = ".before-counterfoil-"


class ChangedMeanwhile(Exception):
    """A file is not as it was when it was read."""


def digest_of(text: str) -> str:
    """Give the SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def read_text(path: str | Path) -> str | None:
    """Read a file as it is, line ends and all; None where there is none."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None


def dangling_link(path: str | Path) -> str | None:
    """Give the link at `path` or above it that points to nothing, None where there is none."""
    for one in (Path(path), *Path(path).parents):
        if one.is_symlink() and not one.exists():
            return str(one)
    return None


def missing_folders(path: str | Path) -> tuple[str, ...]:
    """Give the folders above a file that are not there, outermost first."""
    folders = []
    for folder in Path(path).parents:
        if folder.exists():
            break
        folders.append(str(folder))
    return tuple(reversed(folders))


def write_whole(
    path: str | Path, text: str, *, expected: str | None = None, is_checked: bool = False
) -> None:
    """Put `text` in a file's place at once; where the file is a link, in the place of what it points to.

    With `is_checked` only if the file still holds `expected`, None for no file.

    Raises:
        ChangedMeanwhile: it does not.
        OSError: it cannot be written.
    """
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    mode = target.stat().st_mode & 0o777 if target.exists() else _PRIVATE
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(handle, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        if is_checked and read_text(target) != expected:
            raise ChangedMeanwhile(str(path))
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def back_up(path: str | Path, text: str) -> str:
    """Keep `text`, which the file holds, beside it under a new name, and give that name."""
    target = Path(os.path.realpath(path))
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    number = 0
    while True:
        backup = target.with_name(f"{target.name}{_ENDING}{stamp}{f'-{number}' if number else ''}")
        if not backup.exists():
            break
        number += 1
    write_whole(backup, text)
    backup.chmod(target.stat().st_mode & 0o777)
    return str(backup)


def backups_of(path: str | Path) -> tuple[str, ...]:
    """Give the names under which `back_up` has kept a file, oldest first, as far as they are there."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        return ()
    beginning = f"{target.name}{_ENDING}"
    return tuple(sorted(str(one) for one in target.parent.iterdir() if one.name.startswith(beginning)))
