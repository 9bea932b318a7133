"""A model of a disk under power loss: what a sync has made durable, and what may be on it of the rest.

The rules are those of POSIX and of SQLite's own assumptions, no kinder:

- a sync of a file makes its content and size durable, a sync of a folder the names in it; nothing else does;
- of what was written since, any part may be on the disk, in any order. A sector of 512 bytes is whole: it is
  as it was at some moment since the last sync, never half one moment and half another;
- a file may have its new size before its new content; what was never written there is zeros or rubbish;
- each change of names is there whole or not at all, a rename included, whatever else of its folder is there.
"""

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from power.recording import Entry

__all__ = ["SECTOR", "Disk", "Image"]

SECTOR = 512


@dataclass(slots=True)
class Change:
    """One write or cut that is not durable: the sectors that it leaves behind, and the size."""

    sectors: dict[int, bytes]
    size: int


@dataclass(slots=True, eq=False)
class File:
    """The content that is durable, the content as the session sees it, and the changes in between."""

    durable: bytes = b""
    content: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)

    def write(self, offset: int, data: bytes) -> None:
        """Write `data` at `offset`."""
        before = len(self.content)
        if offset > before:
            self.content += bytes(offset - before)
        self.content[offset : offset + len(data)] = data
        self._note(min(offset, before), offset + len(data))

    def cut(self, size: int) -> None:
        """Give the file that size, with zeros where it grows."""
        before = len(self.content)
        if size < before:
            del self.content[size:]
        else:
            self.content += bytes(size - before)
        self._note(min(size, before), max(size, before))

    def _note(self, start: int, end: int) -> None:
        numbers = range(start // SECTOR, -(-end // SECTOR))
        sectors = {
            number: bytes(self.content[number * SECTOR : (number + 1) * SECTOR]).ljust(SECTOR, b"\0")
            for number in numbers
        }
        self.pending.append(Change(sectors, len(self.content)))

    def sync(self) -> None:
        """Make everything durable."""
        self.durable, self.pending = bytes(self.content), []

    def survived(self, kept: list[Collection[int] | None], rubbish: bytes) -> bytes:
        """Give what is on the disk if of each pending change only the sectors in `kept` are (None: all).

        A change of which anything is kept, the empty collection apart, has its size on the disk too.
        """
        size = len(self.durable)
        sectors: dict[int, bytes] = {}
        for change, numbers in zip(self.pending, kept, strict=True):
            if numbers is None or len(numbers) > 0:
                size = change.size
            for number, content in change.sectors.items():
                if numbers is None or number in numbers:
                    sectors[number] = content
        found = bytearray(self.durable[:size])
        while len(found) < size:
            found += rubbish
        del found[size:]
        for number, content in sectors.items():
            start = number * SECTOR
            if start < size:
                found[start : min(start + SECTOR, size)] = content[: size - start]
        return bytes(found)


@dataclass(slots=True, eq=False)
class Folder:
    """The names in a folder, as the session sees them."""

    names: dict[str, "File | Folder"] = field(default_factory=dict)
    durable: dict[str, "File | Folder"] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Renaming:
    """One change of names that is not durable: each name's new owner, None where it is gone."""

    changes: list[tuple[Folder, str, "File | Folder | None"]]

    def take(self, names: "Names") -> None:
        """Let it be on the disk: `names` holds folders whose names differ from the durable ones."""
        for folder, name, owner in self.changes:
            found = names.setdefault(folder, dict(folder.durable))
            if owner is None:
                found.pop(name, None)
            else:
                found[name] = owner


Names = dict[Folder, dict[str, File | Folder]]

Image = dict[str, bytes | str | None]
"""Files by path below the root: their content; the path of another name of the same file; None: a folder."""


class Disk:
    """All that lies below one folder."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self.root = Folder()
        self._by_inode: dict[int, File | Folder] = {os.stat(root).st_ino: self.root}
        self.renamings: list[Renaming] = []

    def apply(self, entry: "Entry") -> None:
        """Let one recorded call take effect."""
        match entry.letter:
            case "C" | "D":
                made: File | Folder = File() if entry.letter == "C" else Folder()
                self._by_inode[entry.inode] = made
                self._rename((entry.names[0], made))
            case "U":
                self._rename((entry.names[0], None))
            case "R":
                moved, to = entry.names
                self._rename((to, self._at(moved)), (moved, None))
            case "L":
                known, new = entry.names
                self._rename((new, self._at(known)))
            case "W":
                self._file(entry.inode).write(entry.number, entry.content)
            case "T":
                self._file(entry.inode).cut(entry.number)
            case "S":
                self._sync(self._by_inode[entry.inode])
            case "M":
                pass
            case _:
                raise LookupError(entry.letter)

    def _file(self, inode: int) -> File:
        found = self._by_inode[inode]
        assert isinstance(found, File)
        return found

    def _folder(self, path: str) -> tuple[Folder, str]:
        assert path.startswith(self._root + "/"), path
        *above, name = path[len(self._root) + 1 :].split("/")
        folder = self.root
        for part in above:
            inner = folder.names[part]
            assert isinstance(inner, Folder)
            folder = inner
        return folder, name

    def _at(self, path: str) -> File | Folder:
        folder, name = self._folder(path)
        return folder.names[name]

    def _rename(self, *changes: tuple[str, File | Folder | None]) -> None:
        placed = [(*self._folder(path), owner) for path, owner in changes]
        for folder, name, owner in placed:
            if owner is None:
                folder.names.pop(name, None)
            else:
                folder.names[name] = owner
        self.renamings.append(Renaming(placed))

    def _sync(self, what: File | Folder) -> None:
        if isinstance(what, File):
            what.sync()
            return
        durable: Names = {}
        for renaming in [r for r in self.renamings if any(folder is what for folder, _, _ in r.changes)]:
            renaming.take(durable)
            self.renamings.remove(renaming)
        for folder, names in durable.items():
            folder.durable = names

    def files(self) -> dict[str, bytes]:
        """Give every file as the session sees it."""
        return {path: bytes(file.content) for path, file in _walk(self.root, None)}

    def pending_files(self) -> list[File]:
        """Give the files that have changes which are not durable, in an order of their own."""
        seen = dict.fromkeys(file for file in self._by_inode.values() if isinstance(file, File))
        return [file for file in seen if file.pending]

    def survived(
        self,
        renamings: Collection[int],
        kept: dict[File, list[Collection[int] | None]],
        *,
        rubbish: bytes = bytes(SECTOR),
    ) -> Image:
        """Give what a power loss leaves: the chosen changes of names, and of each file what `kept` says."""
        names: Names = {}
        for number, renaming in enumerate(self.renamings):
            if number in renamings:
                renaming.take(names)
        image: Image = {}
        first_names: dict[File, str] = {}
        for path, file in _walk(self.root, names, folders=image):
            if file in first_names:
                image[path] = first_names[file]
                continue
            first_names[file] = path
            image[path] = file.survived(kept.get(file) or [()] * len(file.pending), rubbish)
        return image


def _walk(
    folder: Folder, names: Names | None, *, folders: Image | None = None, above: str = ""
) -> Iterator[tuple[str, File]]:
    """Give every file that can be reached, by path: as the session sees it, or by `names`."""
    listed = folder.names if names is None else names.get(folder, folder.durable)
    for name, owner in sorted(listed.items()):
        if isinstance(owner, File):
            yield above + name, owner
            continue
        if folders is not None:
            folders[above + name] = None
        yield from _walk(owner, names, folders=folders, above=f"{above}{name}/")
