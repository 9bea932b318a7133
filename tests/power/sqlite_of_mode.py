"""Opens journals as if SQLite were of a version that gets one journal mode, or the other."""

from functools import partial
from typing import Final

from counterfoil.store import sqlite
from counterfoil.store.sqlite import load_migrations, open_sqlite
from counterfoil.store.statements import load_statements

__all__ = ["VERSIONS", "use_mode"]

VERSIONS: Final = {"persist": (3, 40, 1), "wal": (3, 51, 3)}


def use_mode(mode: str) -> None:
    """Let this process open its journals in `mode`; only one process writes: WAL's bug is out of reach."""
    sqlite.open_sqlite = partial(  # type: ignore[assignment]
        open_sqlite,
        sqlite_version=VERSIONS[mode],
        # Read once, as hundreds of journals are opened.
        statements=load_statements(dialect="sqlite"),
        migrations=load_migrations(),
    )
