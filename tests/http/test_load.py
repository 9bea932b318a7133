"""Workers over one journal at saturation, one of them killed again and again: nothing answered is lost.

By default for some seconds. Ten minutes with a kill every 30 s:

    COUNTERFOIL_LONG=1 uv run pytest tests/http/test_load.py
"""

import time
from pathlib import Path

import anyio
import pytest

from crash.sessions import LONG
from http_load import Load, Workers
from journals import journal_url, open_test_journal, plain_sql

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]

WORKERS, CALLERS = 2, 8
SECONDS, KILL_EVERY_SECONDS = (600.0, 30.0) if LONG else (5.0, 1.5)


async def test_what_was_answered_is_on_file_whoever_was_killed(tmp_path: Path) -> None:
    async with open_test_journal(tmp_path):
        pass
    workers = Workers(journal_url(tmp_path / "journal.db"), WORKERS, folder=tmp_path)
    load = Load(workers=workers.urls)
    try:
        until = time.monotonic() + SECONDS
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: load.journal(CALLERS, seconds=SECONDS))
            tasks.start_soon(lambda: workers.kill_every(KILL_EVERY_SECONDS, until=until))
    finally:
        workers.close()
    assert workers.kills >= 1
    assert load.retries.total() > 0, "no call met a killed worker"
    assert load.refused == []
    assert len(load.recorded) >= CALLERS
    path = tmp_path / "journal.db"
    states = dict(plain_sql(path, "SELECT id, state FROM operations"))
    attempts = {(row[0], row[1]) for row in plain_sql(path, "SELECT operation, number FROM attempts")}
    receipts = {(row[0], row[1]) for row in plain_sql(path, "SELECT operation, external_id FROM receipts")}
    assert load.permitted <= attempts
    assert load.recorded <= receipts
    assert {states[operation] for operation, _ in load.recorded} == {"succeeded"}
    # Whatever was sent again: one permission and one receipt for each effect.
    assert {number for _, number in attempts} == {1}
    assert len(receipts) == plain_sql(path, "SELECT COUNT(*) FROM receipts")[0][0]
    async with open_test_journal(tmp_path) as journal:
        assert (await journal.reader.verify()).faults == ()
