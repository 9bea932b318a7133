"""A performing system with a memory of its own on disk, which answers, or fails to, as it is told.

It knows nothing of Counterfoil. What it accepted is in a database of its own before its answer is, so that
whoever is killed in between has had the effect; and it counts what it did, for the test alone.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LAG_SECONDS", "LATE_SECONDS", "Accepted", "Behaviour", "Lost", "Provider", "Refused"]

LATE_SECONDS = 200.0
"""How much later than its request a late effect takes place: within the default settle time (300 s)."""

LAG_SECONDS = 90.0
"""How much later than it takes place an effect shows in a lagging lookup: with the above, still within it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How it treats the first request for an effect, what it shows, and which repeats it drops.

    `first`: "answers"; "loses" (the answer, after the effect); "refuses" (no effect, and says so); "late"
    (no answer, the effect comes later); "accepts" (says that it will, and does later). `lookup`: "none",
    "at once", "lagging" or "conclusive" (at once, and nothing is ever under way). `drops`: "nothing"; "keys",
    for `key_ttl_seconds` after a key's first request; "states", for an effect that merely sets a value.
    """

    first: str
    lookup: str
    drops: str
    key_ttl_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """Its answer: a reference of its own, and whether the effect has taken place."""

    reference: str
    is_final: bool


class Refused(Exception):
    """It answered that it did nothing, and will not."""

    def __init__(self) -> None:
        super().__init__("no such account")
        self.evidence = {"status": 422, "reply": "no such account"}


class Lost(Exception):
    """No answer came."""


_SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (number INTEGER PRIMARY KEY, mark TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS effects (
  number INTEGER PRIMARY KEY, mark TEXT NOT NULL, key TEXT NOT NULL, asked_at REAL NOT NULL, at REAL NOT NULL
) STRICT;
"""


class Provider:
    """The system behind the file at `path`; `now` gives its clock in seconds."""

    def __init__(self, path: Path, behaviour: Behaviour, now: Callable[[], float]) -> None:
        self._path = path
        self._behaviour = behaviour
        self._now = now

    def send(self, mark: str, *, key: str) -> Accepted:
        """Ask for the effect named `mark` under an idempotency key.

        Raises:
            Refused: it did not and will not take place.
            Lost: nobody knows.
        """
        with self._open() as database:
            database.execute("BEGIN IMMEDIATE")
            now = self._now()
            database.execute("INSERT INTO requests (mark) VALUES (?)", (mark,))
            (requests,) = database.execute("SELECT count(*) FROM requests WHERE mark = ?", (mark,)).fetchone()
            first = self._behaviour.first if requests == 1 else "answers"
            known = self._known(database, mark, key, now)
            if first == "refuses":
                database.execute("COMMIT")
                raise Refused
            if known is None:
                at = now + (LATE_SECONDS if first in ("late", "accepts") else 0.0)
                cursor = database.execute(
                    "INSERT INTO effects (mark, key, asked_at, at) VALUES (?, ?, ?, ?)", (mark, key, now, at)
                )
                known = (cursor.lastrowid or 0, at)
            database.execute("COMMIT")
        if first in ("loses", "late"):
            raise Lost
        number, at = known
        return Accepted(reference=f"ref-{number}", is_final=at <= now)

    def _known(
        self, database: sqlite3.Connection, mark: str, key: str, now: float
    ) -> tuple[int, float] | None:
        """Give the effect that this request would only repeat."""
        kept = self._behaviour.key_ttl_seconds or 0.0
        rows = database.execute("SELECT number, mark, key, asked_at, at FROM effects").fetchall()
        for number, known_mark, known_key, asked_at, at in rows:
            if self._behaviour.drops == "states" and known_mark == mark:
                return number, at
            if self._behaviour.drops == "keys" and known_key == key and now < asked_at + kept:
                return number, at
        return None

    @property
    def can_be_looked_up(self) -> bool:
        """Tell whether it shows what it did."""
        return self._behaviour.lookup != "none"

    def look_up(self, mark: str) -> str | None:
        """Give the reference of an effect that shows by now."""
        shown = self._now() - (LAG_SECONDS if self._behaviour.lookup == "lagging" else 0.0)
        with self._open() as database:
            row = database.execute(
                "SELECT number FROM effects WHERE mark = ? AND at <= ? ORDER BY number", (mark, shown)
            ).fetchone()
        return None if row is None else f"ref-{row[0]}"

    def effects(self, mark: str) -> list[str]:
        """Give the references of every effect of that name that took place or will: for the test alone."""
        with self._open() as database:
            rows = database.execute("SELECT number FROM effects WHERE mark = ?", (mark,)).fetchall()
        return [f"ref-{number}" for (number,) in rows]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        database = sqlite3.connect(self._path, isolation_level=None, timeout=30)
        try:
            database.execute("PRAGMA synchronous = FULL")
            database.executescript(_SCHEMA)
            yield database
        finally:
            database.close()
