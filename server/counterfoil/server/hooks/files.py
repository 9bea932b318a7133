"""Digests of the files that a command sends: the state by which one call is told from the next."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence

from counterfoil.server.hooks.shell.words import Word

__all__ = ["digests_of"]

_MOST_FILES = 2_000
_MOST_BYTES = 64 * 1024 * 1024
"""Beyond these a file counts by its size and time: a call must not wait for a disk to be read through."""

_LEFT_OUT = frozenset((".git", "node_modules", ".terraform", "__pycache__", ".venv", "target"))


def digests_of(words: Iterable[Word], *, folder: str | None, patterns: Sequence[str] = ()) -> dict[str, str]:
    """Give the digest of each file that a word names, or a pattern matches, by its path as it was named.

    A folder counts with all that is in it. `@FILE` and `NAME=FILE` name files as well.
    """
    if folder is None:
        return {}
    room = _Room()
    found: dict[str, str] = {}
    for word in words:
        if word.is_static:
            for name in _names_in(word.text):
                for path in _paths(name, folder):
                    found[os.path.relpath(path, folder)] = room.digest(path)
    for pattern in patterns:
        for path in _matches(pattern, folder):
            found[os.path.relpath(path, folder)] = room.digest(path)
    return dict(sorted(found.items()))


def _names_in(text: str) -> Iterator[str]:
    if text and len(text) < 4_096 and "\0" not in text and "\n" not in text:
        yield text.removeprefix("@")
        for mark in ("=@", "=", "@"):
            _, is_there, rest = text.partition(mark)
            if is_there and rest:
                yield rest


def _paths(name: str, folder: str) -> list[str]:
    path = os.path.join(folder, os.path.expanduser(name))
    if os.path.exists(path):
        return [path] if name not in (".", "..", "/") else []
    return _matches(name, folder) if any(mark in name for mark in "*?[") else []


def _matches(pattern: str, folder: str) -> list[str]:
    import glob  # Loaded where a word or a rule has one.

    found = glob.iglob(os.path.join(glob.escape(folder), pattern), recursive=True)
    return sorted(path for _, path in zip(range(_MOST_FILES), found, strict=False))


class _Room:
    """How much may still be read for one call."""

    def __init__(self) -> None:
        self._files, self._bytes = _MOST_FILES, _MOST_BYTES

    def digest(self, path: str) -> str:
        if os.path.isdir(path):
            parts = hashlib.sha256()
            for inner in _all_in(path):
                parts.update(
                    f"{os.path.relpath(inner, path)}\0{self._file(inner)}\n".encode(errors="replace")
                )
            return f"sha256:{parts.hexdigest()}"
        return self._file(path)

    def _file(self, path: str) -> str:
        try:
            told = os.stat(path)
            if not os.path.isfile(path):
                return "not a file"
            if self._files <= 0 or told.st_size > self._bytes:
                return f"size {told.st_size}, changed {told.st_mtime_ns}"
            self._files -= 1
            self._bytes -= told.st_size
            with open(path, "rb") as file:
                return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        except OSError as error:
            return f"unreadable: {error.errno}"


def _all_in(folder: str) -> Iterator[str]:
    seen = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        for name in sorted(names):
            seen += 1
            if seen > 10 * _MOST_FILES:
                return
            yield os.path.join(place, name)
