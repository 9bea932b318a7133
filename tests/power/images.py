"""The crash images of a recording, opened as a server would open them and held to the journal's promises."""

import os
import random
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import Fault
from counterfoil.store.opening import Fresh, open_journal
from journals import SECRET, FakeClock, folder_in_memory
from power.disk import SECTOR, Disk, File, Image
from power.recording import Recording

__all__ = ["Bounds", "Found", "search"]

JOURNAL = Path("data") / "counterfoil" / "journal.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How many images are made at each moment at which power may fail.

    Every subset of the changes that are not durable where they are at most `few`; where they are more, none
    and all, `sampled` subsets, and each alone, and all but each, of at most `singles` of them. And `torn`
    images in which sectors of one write are there and others are not.
    """

    few: int
    singles: int
    sampled: int
    torn: int


@dataclass(slots=True, kw_only=True)
class Found:
    """What the search looked at, and what did not hold."""

    moments: int = 0
    images: int = 0
    problems: list[str]

    @property
    def kinds(self) -> Counter[str]:
        """How many images failed in which way."""
        return Counter(problem.split(" (moment")[0].split(":")[0] for problem in self.problems)


async def search(recording: Recording, bounds: Bounds, *, seed: int, stop_at: int | None = None) -> Found:
    """Look at what a power loss at any moment can leave; at most `stop_at` problems are looked for.

    The moment just before a sync has every image of the moments since the sync before it, and all that was
    answered until then; so no other moments, but the last, have to be looked at.
    """
    chance = random.Random(seed)
    disk, marks = Disk(recording.folder), list[dict[str, Any]]()
    found, seen = Found(problems=[]), set[bytes]()
    for entry in (*recording.entries, None):
        if entry is None or entry.letter == "S":
            found.moments += 1
            for image in _images(disk, bounds, chance):
                identity = _identity(image, len(marks))
                if identity in seen:
                    continue
                seen.add(identity)
                found.images += 1
                problem = await _problem_of(image, marks)
                if problem is not None:
                    found.problems.append(f"{problem} (moment {found.moments}, after {len(marks)} answers)")
                    if len(found.problems) == stop_at:
                        return found
        if entry is not None:
            disk.apply(entry)
            if entry.letter == "M":
                marks.append(entry.mark)
    return found


def _images(disk: Disk, bounds: Bounds, chance: random.Random) -> Iterator[Image]:
    files = disk.pending_files()
    units: list[tuple[File | None, int]] = [(None, number) for number in range(len(disk.renamings))]
    units += [(file, number) for file in files for number in range(len(file.pending))]
    for chosen in _subsets(units, bounds, chance):
        kept: dict[File, list[Collection[int] | None]] = {
            file: [None if (file, number) in chosen else () for number in range(len(file.pending))]
            for file in files
        }
        renamings = {number for file, number in chosen if file is None}
        yield disk.survived(renamings, kept, rubbish=_rubbish(chance))
    for _ in range(bounds.torn if files else 0):
        share = chance.choice((0.1, 0.5, 0.9))
        torn: dict[File, list[Collection[int] | None]] = {
            file: [
                {sector for sector in change.sectors if chance.random() < share} for change in file.pending
            ]
            for file in files
        }
        renamings = {number for number in range(len(disk.renamings)) if chance.random() < share}
        yield disk.survived(renamings, torn, rubbish=_rubbish(chance))


def _rubbish(chance: random.Random) -> bytes:
    return bytes(SECTOR) if chance.random() < 0.5 else chance.randbytes(SECTOR)


def _subsets(
    units: list[tuple[File | None, int]], bounds: Bounds, chance: random.Random
) -> Iterator[set[tuple[File | None, int]]]:
    if len(units) <= bounds.few:
        sizes = range(len(units) + 1)
        yield from map(set, chain.from_iterable(combinations(units, size) for size in sizes))
        return
    yield set()
    yield set(units)
    for unit in chance.sample(units, min(bounds.singles, len(units))):
        yield {unit}
        yield set(units) - {unit}
    for _ in range(bounds.sampled):
        share = chance.random()
        yield {unit for unit in units if chance.random() < share}


def _identity(image: Image, answers: int) -> bytes:
    digest = sha256(str(answers).encode())
    for path, content in sorted(image.items()):
        digest.update(repr((path, type(content), len(content or ""))).encode())
        digest.update(content if isinstance(content, bytes) else str(content).encode())
    return digest.digest()


def _lay_out(image: Image, folder: Path) -> None:
    for path, content in image.items():
        place = folder / path
        if content is None:
            place.mkdir(mode=0o700)
        elif isinstance(content, str):
            os.link(folder / content, place)
        else:
            place.write_bytes(content)


async def _problem_of(image: Image, marks: list[dict[str, Any]]) -> str | None:
    """Open an image with the shipped code; tell what does not hold, if anything."""
    with folder_in_memory() as folder:
        _lay_out(image, folder)
        try:
            async with open_journal(
                folder / JOURNAL,
                fresh=Fresh(journal_id="J-anew", secret=SECRET),
                namespace="default",
                policy=Policy(),
                clock=FakeClock(),
            ) as journal:
                if marks and journal.identity.id == "J-anew":
                    return "a new journal took the place of the one that was there"
                verified = await journal.reader.verify()
        except Fault as fault:
            return f"it does not open: {fault.message}"
        except Exception as error:
            return f"a mistake of the program: {error!r}"
        if verified.faults:
            return f"verify does not hold: {verified.faults[:3]}"
        lost = _lost(folder / JOURNAL, marks)
        return f"answered and lost: {lost}" if lost else None


_OF_ATTEMPTS = "SELECT 1 FROM attempts JOIN operations ON id = operation WHERE key = :key AND "
_HELD = {
    "opened": "SELECT 1",
    "attempt": _OF_ATTEMPTS + "number = :attempt",
    "body": "SELECT 1 FROM bodies WHERE body LIKE '%' || :body || '%'",
    "receipt": "SELECT 1 FROM receipts JOIN operations ON id = operation "
    "WHERE key = :key AND external_id = :receipt AND state = 'succeeded'",
    "outcome": _OF_ATTEMPTS + "outcome = :outcome",
    "decision": "SELECT 1 FROM operations WHERE key = :key AND decision = :decision",
}


def _lost(path: Path, marks: list[dict[str, Any]]) -> list[str]:
    """Name what was answered and is not on record."""
    with closing(sqlite3.connect(path)) as raw:
        try:
            return [
                f"{name} of {mark.get('key')}"
                for mark in marks
                for name in mark
                if name != "key" and raw.execute(_HELD[name], mark).fetchone() is None
            ]
        except sqlite3.DatabaseError as error:
            return [f"all that cannot be read: {error}"]
