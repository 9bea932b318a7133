"""Digests of the files that a command sends: the state by which one call is told from the next."""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence

from counterfoil.server.hooks.shell.words import Word

__all__ = [
    "blob_id",
    "digest_of_all",
    "digest_of_names",
    "digest_of_text",
    "digests_of",
    "matches",
    "names_any",
    "text_of",
]

_MOST_FILES = 2_000
_MOST_BYTES = 64 * 1024 * 1024
"""Beyond these a file counts by its size and time: a call must not wait for a disk to be read through."""

_CHANGED_BY_ITSELF = (".tfstate", ".tfstate.backup")
"""How files end in which a tool keeps what it has done."""

_LEFT_OUT = frozenset((".git", "node_modules", ".terraform", "__pycache__", ".venv", "target"))


_NOTHING_MADE: Mapping[str, str | None] = {}


def text_of(path: str, *, most_bytes: int = 1 << 20) -> str | None:
    """Give the text of a file; None where it is no plain file, cannot be read, or is longer.

    A project's files are another's word: a pipe, a device or a loop of links must not hold up a call.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        told = os.fstat(file)
        if not stat.S_ISREG(told.st_mode) or told.st_size > most_bytes:
            return None
        parts: list[bytes] = []
        left = most_bytes
        while left > 0 and (part := os.read(file, left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts).decode("utf-8", "replace").removeprefix("\ufeff")
    except OSError:
        return None
    finally:
        os.close(file)


def digest_of_text(text: str) -> str:
    """Give the digest that a file of this text has."""
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()}"


def names_any(words: Iterable[Word], paths: Iterable[str], *, folder: str) -> bool:
    """Tell whether a word names one of some files, by their whole paths, or a folder that holds one."""
    named = set()
    for word in words:
        for name in _names_in(word.text) if word.is_static else word.reads:
            named.add(os.path.normpath(os.path.join(folder, os.path.expanduser(name))))
    return any(path == name or path.startswith(f"{name}/") for path in paths for name in named)


def digests_of(
    words: Iterable[Word],
    *,
    folder: str | None,
    patterns: Sequence[str] = (),
    made: Mapping[str, str | None] = _NOTHING_MADE,
) -> dict[str, str]:
    """Give the digest of each file that a word names, or a pattern matches, by its path as it was named.

    A folder counts with all that is in it. `@FILE` and `NAME=FILE` name files as well. What stands in `made`
    by its whole path has this digest by then, whatever it is now.
    """
    if folder is None:
        return {}
    room = _Room()
    found: dict[str, str] = {}
    for word in words:
        names = _names_in(word.text) if word.is_static else word.reads
        for name in names:
            for path in _paths(name, folder, made):
                found[os.path.relpath(path, folder)] = _made(path, made) or room.digest(path)
    for pattern in patterns:
        for path in matches(pattern, folder):
            found[os.path.relpath(path, folder)] = room.digest(path)
    return dict(sorted(found.items()))


def digest_of_all(folder: str) -> str:
    """Give one digest of what is in a folder, but for folders that are hidden or made by tools."""
    room = _Room()
    listed = {os.path.relpath(path, folder): path for path in _all_in(folder)}
    return digest_of_names(
        {
            name: room.digest(path)
            for name, path in listed.items()
            if not name.startswith(".") and "/." not in name
        }
    )


def digest_of_names(contents: Mapping[str, str]) -> str:
    """Give one digest of files by their names and what stands for their content."""
    parts = hashlib.sha256()
    for name in sorted(contents):
        if not name.endswith(_CHANGED_BY_ITSELF):
            parts.update(f"{name}\0{contents[name]}\n".encode(errors="replace"))
    return f"sha256:{parts.hexdigest()}"


def blob_id(path: str) -> str | None:
    """Give the id that git would give a file's content; None where there is no file that can be read."""
    try:
        told = os.stat(path)
        if not os.path.isfile(path):
            return None
        if told.st_size > _MOST_BYTES:
            return f"size {told.st_size}, changed {told.st_mtime_ns}"
        with open(path, "rb") as file:
            content = file.read()
        return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    except OSError:
        return None


def _names_in(text: str) -> Iterator[str]:
    if text and len(text) < 4_096 and "\0" not in text and "\n" not in text:
        yield text.removeprefix("@")
        for mark in ("=@", "=<", "=", "@", "fileb://", "file://"):
            _, is_there, rest = text.partition(mark)
            if is_there and rest:
                yield rest
                if ";" in rest:
                    # curl's forms say there of what type a file is.
                    yield rest.partition(";")[0]
        if "," in text:
            yield from text.split(",")


def _made(path: str, made: Mapping[str, str | None]) -> str | None:
    return made.get(os.path.normpath(path)) if made else None


def _paths(name: str, folder: str, made: Mapping[str, str | None]) -> list[str]:
    path = os.path.join(folder, os.path.expanduser(name))
    if os.path.exists(path) or _made(path, made) is not None:
        return [path] if name not in (".", "..", "/") else []
    return matches(name, folder) if any(mark in name for mark in "*?[") else []


def matches(pattern: str, folder: str) -> list[str]:
    """Give the paths that a pattern matches, the first ones of very many."""
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
            if name.endswith(_CHANGED_BY_ITSELF):
                continue
            seen += 1
            if seen > 10 * _MOST_FILES:
                return
            yield os.path.join(place, name)
