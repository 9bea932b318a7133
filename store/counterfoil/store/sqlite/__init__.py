"""SQLite below the seam: `open_sqlite` gives the `Database` of one file."""

from typing import TYPE_CHECKING, Any

from counterfoil.store.sqlite.migrations import APPLICATION_ID, Migration, load_migrations
from counterfoil.store.sqlite.modes import journal_mode_for

if TYPE_CHECKING:
    from counterfoil.store.sqlite.database import SqliteDatabase, open_sqlite

__all__ = [
    "APPLICATION_ID",
    "Migration",
    "SqliteDatabase",
    "journal_mode_for",
    "load_migrations",
    "open_sqlite",
]


def __getattr__(name: str) -> Any:
    """Load the database with its threads only when it is asked for: `direct` needs none."""
    if name in ("SqliteDatabase", "open_sqlite"):
        from counterfoil.store.sqlite import database

        return getattr(database, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
