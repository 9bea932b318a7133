"""A journal that is opened without an event loop keeps what one with threads keeps."""

import threading
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from counterfoil.store.domain.commands import BeginOperation, CheckOperation, OperationRef
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import JournalUnavailable
from counterfoil.store.opening import Fresh, open_journal_directly
from counterfoil.store.sqlite.transaction import drive
from journals import AGENT, ANOTHER, SECRET, FakeClock, open_test_journal

BEGIN = BeginOperation(run="r", key="k", action="mail.send")
REF = OperationRef(run="r", key="k")


def opened(path: Path, clock: FakeClock):
    return open_journal_directly(
        path,
        fresh=Fresh(journal_id="jr_direct", secret=SECRET),
        namespace="default",
        policy=Policy(),
        clock=clock,
        busy_timeout_seconds=0.2,
    )


def test_what_is_begun_directly_is_held_against_whoever_comes_by_the_threads(tmp_path):
    clock = FakeClock()
    with opened(tmp_path / "journal.db", clock) as journal:
        assert drive(journal.begin_operation(BEGIN, AGENT))["next"] == "perform"
        assert threading.active_count() == 1

    async def another() -> dict:
        async with open_test_journal(tmp_path, clock=clock) as journal:
            return await journal.begin_operation(BEGIN, ANOTHER)

    assert (answer := anyio.run(another))["next"] == "wait", answer
    with opened(tmp_path / "journal.db", clock) as journal:
        shown = drive(journal.check_operation(CheckOperation(ref=REF), replace(AGENT, call_id=None)))
        assert shown["state"] == "in_progress"


def test_a_fault_in_one_command_leaves_the_next_one_well(tmp_path):
    with opened(tmp_path / "journal.db", FakeClock()) as journal:
        with pytest.raises(Exception, match="run"):
            drive(journal.begin_operation(replace(BEGIN, run=""), AGENT))
        assert drive(journal.begin_operation(BEGIN, AGENT))["next"] == "perform"


def test_a_file_that_is_no_journal_is_refused(tmp_path):
    (tmp_path / "journal.db").write_text("no database")
    with pytest.raises(JournalUnavailable), opened(tmp_path / "journal.db", FakeClock()):
        pass
