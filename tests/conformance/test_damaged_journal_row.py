"""A journal whose own row, or whose marks of lost history, hold what no journal has is refused by name."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.sqlite_journals import damage_loosely
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


@pytest.mark.parametrize(("table", "column", "value"), DAMAGES)
async def test_what_no_journal_says_of_itself_is_named_and_the_journal_refused(
    folder: Path, table: str, column: str, value: str
) -> None:
    async with open_desk(folder):
        pass
    if table == "restores":
        plain_sql(folder / "journal.db", "INSERT INTO restores (restored_at, backed_up_at) VALUES (2, 1)")
    damage_loosely(folder, table, f"UPDATE {table} SET {column} = {value}")
    with pytest.raises(JournalUnavailable) as fault:
        async with open_desk(folder):
            pass
    assert f"table {table}" in fault.value.message
    assert f"{column} is no" in fault.value.message
    assert "restore a backup" in fault.value.fix
    assert "5e5e" not in fault.value.message
