"""Which journal mode and which settings a SQLite connection must have, by SQLite's version.

The WAL-reset bug (sqlite.org/wal.html#walresetbug) can lose committed transactions where several
connections write and checkpoint one file in WAL mode, and several servers on one journal are the normal
case. It is mended in 3.51.3 and in the branches 3.50 (from .7) and 3.44 (from .6).
"""

from collections.abc import Mapping

__all__ = ["READER_SETTINGS", "VERSION_FLOOR", "journal_mode_for", "settings_for"]

VERSION_FLOOR = (3, 37, 0)
"""STRICT tables came with 3.37 and RETURNING with 3.35; an older SQLite cannot hold a journal."""

BUSY_ROUND_MILLISECONDS = 10
"""How long SQLite itself waits for a lock; longer waits are rounds of this, so that they can be ended."""

SIDE_FILE_LIMIT_BYTES = 16 * 1024 * 1024
"""A side file is cut back to this after a commit: larger than any batch of 128, small on any disk."""

AUTOCHECKPOINT_PAGES = 1000
"""SQLite's own default, about 4 MB of WAL: stated here because a build may have changed it."""


def journal_mode_for(version: tuple[int, ...]) -> tuple[str, str]:
    """Give the journal mode, `wal` or `persist`, for a SQLite of `version`, and the reason."""
    name = ".".join(map(str, version))
    major_minor, patch = version[:2], version[2:3] or (0,)
    mended = (
        version[:3] >= (3, 51, 3)
        or (major_minor == (3, 50) and patch >= (7,))
        or (major_minor == (3, 44) and patch >= (6,))
    )
    if mended:
        return "wal", f"SQLite {name} has the mended WAL"
    return "persist", (
        f"SQLite {name} has the WAL-reset bug, which can lose commits of several servers; "
        "WAL is used from 3.51.3, 3.50.7 and 3.44.6 on"
    )


def settings_for(mode: str) -> Mapping[str, int]:
    """Give each PRAGMA of a connection in `mode` with the value that has to be read back."""
    settings = {
        # An intent lost in a power cut, after its effect, is what this project exists to prevent.
        "synchronous": 2,
        "fullfsync": 1,
        "checkpoint_fullfsync": 1,
        "foreign_keys": 1,
        "busy_timeout": BUSY_ROUND_MILLISECONDS,
        # A read error in a mapped file is a SIGBUS that no code can answer.
        "mmap_size": 0,
        "trusted_schema": 0,
        "cell_size_check": 1,
        # Bodies do not leave the journal's own files, and a full /tmp stops nothing.
        "temp_store": 2,
        "journal_size_limit": SIDE_FILE_LIMIT_BYTES,
    }
    if mode == "wal":
        settings["wal_autocheckpoint"] = AUTOCHECKPOINT_PAGES
    return settings


READER_SETTINGS: Mapping[str, int] = {"query_only": 1}
"""What the connection that only reads has in addition."""
