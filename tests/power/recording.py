"""Records a session's writes and syncs with `recorder.c`, and reads the record back."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from power.disk import Disk

__all__ = ["Entry", "Recording", "build_recorder", "record"]

HERE = Path(__file__).parent
WAIT_SECONDS = 120
"""Bound on the recorded session; a healthy one takes about two seconds."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One call: C create, W write, T cut, S sync, U unlink, R rename, L link, D make a folder, M mark."""

    letter: str
    inode: int
    number: int
    content: bytes

    @property
    def names(self) -> list[str]:
        """The paths that a call about names was given."""
        return [os.fsdecode(name) for name in self.content.split(b"\0")]

    @property
    def mark(self) -> dict[str, Any]:
        """What the session noted here."""
        return dict(json.loads(self.content))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Everything that a session did below `folder`, in the order in which it took effect."""

    folder: Path
    entries: tuple[Entry, ...]

    def without_syncs_of(self, kind: Literal["folder", "side file", "journal"]) -> "Recording":
        """Give what would have been recorded if the syncs of one kind of file were left out."""
        kinds = {os.stat(self.folder).st_ino: "folder"}
        kept = []
        for entry in self.entries:
            if entry.letter == "D":
                kinds[entry.inode] = "folder"
            elif entry.letter == "C":
                is_side_file = entry.names[0].endswith(("-journal", "-wal"))
                kinds[entry.inode] = "side file" if is_side_file else "journal"
            if entry.letter != "S" or kinds[entry.inode] != kind:
                kept.append(entry)
        assert len(kept) < len(self.entries)
        return Recording(folder=self.folder, entries=tuple(kept))


def build_recorder(folder: Path) -> Path:
    """Compile the recorder into `folder`.

    Without a compiler the calling test is skipped; in CI it fails, since a guarantee would go unshown there.
    """
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not sys.platform.startswith("linux"):
        why = "recording what reaches the disk needs Linux and a C compiler (cc, gcc or clang)"
        if os.environ.get("CI"):
            pytest.fail(f"{why}: .ci/run installs one")
        pytest.skip(why)
    library = folder / "recorder.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-o", str(library)]
    built = subprocess.run(
        [*command, str(HERE / "recorder.c"), "-ldl", "-pthread"],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
    )
    assert built.returncode == 0, built.stderr
    return library


def record(folder: Path, recorder: Path, *arguments: str) -> Recording:
    """Run `child.py` with `arguments` on a journal below `folder`, and give what it did there."""
    recorded = folder / "disk"
    recorded.mkdir()
    environment = {
        **os.environ,
        "LD_PRELOAD": str(recorder),
        "COUNTERFOIL_RECORDED": str(recorded),
        "COUNTERFOIL_RECORD": str(folder / "record"),
        "COUNTERFOIL_MARKS": str(folder / "marks"),
        "PYTHONPATH": str(HERE.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, str(HERE / "child.py"), str(recorded), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert done.returncode == 0, done.stderr
    recording = Recording(folder=recorded, entries=tuple(_entries((folder / "record").read_bytes())))
    _check_that_nothing_was_missed(recording)
    return recording


def _entries(content: bytes) -> Iterator[Entry]:
    at = 0
    while at < len(content):
        end = content.index(b"\n", at)
        letter, inode, number, length = content[at:end].split()
        body = content[end + 1 : end + 1 + int(length)]
        yield Entry(letter.decode(), int(inode), int(number), body)
        at = end + 1 + int(length) + 1


def _check_that_nothing_was_missed(recording: Recording) -> None:
    """Hold the files as the record gives them against the files as they are: a call unknown to it shows."""
    disk = Disk(recording.folder)
    for entry in recording.entries:
        disk.apply(entry)
    found = {
        str(path.relative_to(recording.folder)): path.read_bytes()
        for path in sorted(recording.folder.rglob("*"))
        if path.is_file()
    }
    replayed = disk.files()
    # The memory that WAL shares between processes is mapped and never meant to last.
    for name in [name for name in found if name.endswith("-shm")]:
        del found[name], replayed[name]
    assert replayed == found
