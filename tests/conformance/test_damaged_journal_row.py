"""A journal whose own row, or whose marks of lost history, hold what no journal has is refused by name."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.sqlite_journals import damage
from counterfoil.store.errors import JournalUnavailable
from journals import folder_in_memory, open_desk, plain_sql

pytestmark = pytest.mark.anyio

TIMES = ("NULL", "'soon'", "1.5", "x'ff'", "4611686018427387904", "-4611686018427387904")
TEXTS = ("NULL", "''", "x'ff'", "CAST(x'ff' AS TEXT)", "char(0)", "'a' || char(10) || 'b'")
KEYS = (*TEXTS, "'ab'", "'zz'", "substr(secret, 2)", "secret || '0'", "replace(secret, '5e', '5 ')", "'٣٣'")
"""Among them some that Python reads as bytes: an empty text, a short one, one with spaces in it."""

DAMAGES = [
    *(("journal", "id", value) for value in TEXTS),
    *(("journal", "created_at", value) for value in TIMES),
    *(("journal", "backed_up_at", value) for value in TIMES if value != "NULL"),
    *(("journal", "secret", value) for value in KEYS),
    *(("restores", "backed_up_at", value) for value in TIMES),
]


@pytest.fixture(name="folder")
def _folder() -> Iterator[Path]:
    with folder_in_memory() as folder:
        yield folder


def loosened(folder: Path, table: str, sql: str) -> None:
    """Change a row after the schema's types, and what it says of NULL, were taken off the table."""
    path = folder / "journal.db"
    ((made,),) = plain_sql(path, f"SELECT sql FROM sqlite_master WHERE name = '{table}'")
    ((version,),) = plain_sql(path, "PRAGMA schema_version")
    loose = str(made).replace(" NOT NULL", "").replace(") STRICT", ")")
    for text, number, changes in ((loose, version + 1, [sql]), (made, version + 2, [])):
        plain_sql(
            path,
            "PRAGMA writable_schema = ON",
            f"UPDATE sqlite_master SET sql = '{text.replace(chr(39), chr(39) * 2)}' WHERE name = '{table}'",
            f"PRAGMA schema_version = {number}",
        )
        for change in changes:
            damage(folder, change)


@pytest.mark.parametrize(("table", "column", "value"), DAMAGES)
async def test_what_no_journal_says_of_itself_is_named_and_the_journal_refused(
    folder: Path, table: str, column: str, value: str
) -> None:
    async with open_desk(folder):
        pass
    if table == "restores":
        plain_sql(folder / "journal.db", "INSERT INTO restores (restored_at, backed_up_at) VALUES (2, 1)")
    loosened(folder, table, f"UPDATE {table} SET {column} = {value}")
    with pytest.raises(JournalUnavailable) as fault:
        async with open_desk(folder):
            pass
    assert f"table {table}" in fault.value.message
    assert f"{column} is no" in fault.value.message
    assert "restore a backup" in fault.value.fix
    assert "5e5e" not in fault.value.message
