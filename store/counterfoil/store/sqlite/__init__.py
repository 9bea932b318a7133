"""SQLite below the seam: `open_sqlite` gives the `Database` of one file."""

from counterfoil.store.sqlite.database import SqliteDatabase, open_sqlite
from counterfoil.store.sqlite.migrations import APPLICATION_ID, Migration, load_migrations
from counterfoil.store.sqlite.modes import journal_mode_for

__all__ = [
    "APPLICATION_ID",
    "Migration",
    "SqliteDatabase",
    "journal_mode_for",
    "load_migrations",
    "open_sqlite",
]
