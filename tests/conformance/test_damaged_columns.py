"""Whatever one column of one table holds, every command answers, or tells in order what it cannot.

Each column is given something that it never holds, in turn; with COUNTERFOIL_LONG=1 each is given everything.
"""

import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from itertools import cycle
from pathlib import Path
from typing import Any

import anyio
import pytest

from conformance.sqlite_journals import damage_loosely
from counterfoil.store.domain.commands import (
    BeginRun,
    CheckOperation,
    Criterion,
    FindOperations,
    FinishRun,
    GrantAuthority,
    IssueToken,
    Lookup,
    OperationRef,
    PlanStep,
    RecordProgress,
    RequestAuthority,
    ResumePlan,
    Spec,
)
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import Fault
from crash.sessions import LONG
from journals import AGENT, ANOTHER, PERSON, Desk, FakeClock, as_caller, folder_in_memory, open_desk

pytestmark = pytest.mark.anyio

VALUES = (
    "NULL",
    "'garbage'",
    "''",
    "x'ff'",
    "'null'",
    "CAST(x'ff' AS TEXT)",
    str(2**62),
    "-1",
    "'[]'",
    "'{}'",
    "1.5",
    "7",
    "'['",
    "char(0)",
)
POLICY = Policy(authority=(("pay.send", "*"),))
KEYED = {"args": {"n": 4}, "payload": "a body", "repeat": "keyed", "key_ttl_seconds": 86_400.0}
PAYING = {"action": "pay.send"}
DIGEST = "0" * 64

TABLES = [
    "runs",
    "operations",
    "attempts",
    "receipts",
    "findings",
    "events",
    "bodies",
    "contexts",
    "external_ids",
    "compensations",
    "fingerprints",
    "namespaces",
    "namespace_events",
    "grants",
    "authority_requests",
    "grant_uses",
    "tokens",
    "compactions",
    "restores",
    "accepted_gaps",
    "namespace_restores",
]
UNWRITTEN = {
    "restores": "(2, 1)",
    "accepted_gaps": "('default', 'run-1', 2, 3, '{}')",
    "namespace_restores": "('default', 2, NULL, NULL)",
}
"""What only a restore writes: nothing is granted after one, so that the others are tried without it."""


async def write(folder: Path) -> None:
    """Write a journal that has a row in every table."""
    async with open_desk(folder, policy=POLICY) as desk:
        journal = desk.journal
        plan = (
            PlanStep(key="later", action="email.send"),
            PlanStep(key="after", action="email.send", target="after@example.org", depends_on=("later",)),
        )
        spec = Spec(criteria=(Criterion(id="c-1", text="it is sent"),))
        run = BeginRun(run=desk.run, workflow="report", spec=spec, context={"model": "m-1"}, plan=plan)
        await journal.begin_run(run, as_caller(AGENT))
        done = desk.at("done")
        begun = await done.begin(args={"n": 1}, payload="a body", satisfies=("c-1",))
        await done.receipt(evidence={"seen": True})
        await desk.at("undo").begin(action="email.recall", compensates=begun["operation"])
        doubt = desk.at("doubt")
        await doubt.begin(lookup=Lookup(tool="search", args={"a": 1}), **KEYED)
        await doubt.failure()
        await doubt.reconcile("inconclusive")
        await journal.record_progress(
            RecordProgress(ref=OperationRef(run=desk.run), checkpoint={"at": 1}), as_caller(AGENT)
        )
        for key in ("pay", "pay-later"):
            await desk.at(key).begin(**PAYING)
            wish = RequestAuthority(ref=desk.at(key).ref, why="to pay")
            asked = await journal.request_authority(wish, as_caller(AGENT))
            if key == "pay":
                await journal.grant(GrantAuthority(request=asked["request"], max_uses=3), as_caller(PERSON))
                await desk.at(key).begin(**PAYING)
        await journal.issue_token(IssueToken(name="t", sha256=DIGEST, scopes=("read",)), as_caller(PERSON))
        await journal.note_compaction(AGENT)
        await desk.at("done", run="run-2").begin()
        assert (await journal.reader.verify()).faults == ()


def commands(desk: Desk) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Give every command, those that read first; the last mends."""
    journal, doubt = desk.journal, desk.at("doubt")
    wish = RequestAuthority(ref=desk.at("pay-later").ref, why="to pay")
    return {
        "verify": journal.reader.verify,
        "tail": journal.reader.tail,
        "find": lambda: journal.reader.find(text="send"),
        "plan": desk.plan,
        "plan of what is open": lambda: desk.plan(include="open"),
        "runs": lambda: journal.resume_plan(ResumePlan(), AGENT),
        "find_operations": lambda: journal.find_operations(FindOperations(text="send"), AGENT),
        "check": desk.at("done").check,
        "check in full": lambda: doubt.check(detail="full"),
        "check what waits": desk.at("pay-later").check,
        "check by receipt": lambda: journal.check_operation(
            CheckOperation(ref=OperationRef(), external_id="m-1"), AGENT
        ),
        "requests": lambda: journal.list_requests(state=None),
        "grants": journal.list_grants,
        "tokens": journal.list_tokens,
        "bearer": lambda: journal.bearer(DIGEST),
        "count": journal.count_operations,
        "gap": lambda: journal.keeper.gap(None),
        "begin a repeat": lambda: doubt.begin(caller=ANOTHER, **KEYED),
        "begin an undoing": lambda: desk.at("undo").begin(caller=ANOTHER, action="email.recall"),
        "begin what waits": lambda: desk.at("after").begin(target="after@example.org"),
        "begin what needs a grant": lambda: desk.at("pay-later").begin(**PAYING),
        "request": lambda: journal.request_authority(wish, as_caller(AGENT)),
        "begin_run": lambda: journal.begin_run(
            BeginRun(run=desk.run, context={"model": "m-2"}), as_caller(ANOTHER)
        ),
        "progress": desk.at("pay").progress,
        "reconcile": lambda: doubt.reconcile("not_performed"),
        "receipt": lambda: desk.at("undo").receipt(external_id="m-9"),
        "finish": lambda: journal.finish_run(FinishRun(run=desk.run, outcome="failed"), as_caller(AGENT)),
        "another run": lambda: desk.at("new", run="run-2").begin(),
        "repair": journal.keeper.repair,
        "verify again": journal.reader.verify,
    }


async def unforeseen(folder: Path) -> list[str]:
    """Carry out every command, and name those that failed in a way that nobody foresaw."""
    clock = FakeClock()
    clock.advance(301)
    failed = []
    try:
        async with open_desk(folder, policy=POLICY, clock=clock) as desk:
            for name, command in commands(desk).items():
                try:
                    await command()
                except Fault:
                    continue
                except Exception as error:
                    failed.append(f"{name}: {type(error).__name__}: {error}")
    except Fault:
        return failed
    return failed


@pytest.fixture(scope="module")
def written() -> Iterator[Path]:
    """Give a journal that is written once, and copied for each change."""
    with folder_in_memory() as folder:
        anyio.run(write, folder)
        yield folder / "journal.db"


async def test_every_table_of_a_journal_is_tried(written: Path) -> None:
    with closing(sqlite3.connect(written)) as raw:
        rows = raw.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        tables = {name for (name,) in rows}
    # The journal's own row refuses the whole journal: test_damaged_journal_row.
    assert tables == {*TABLES, "journal"}


@pytest.mark.parametrize("table", TABLES)
async def test_no_value_of_a_column_makes_a_command_fail_unforeseen(written: Path, table: str) -> None:
    with closing(sqlite3.connect(written)) as raw:
        columns = [row[1] for row in raw.execute(f"PRAGMA table_info({table})")]
    turns = cycle(VALUES[TABLES.index(table) % len(VALUES) :] + VALUES[: TABLES.index(table) % len(VALUES)])
    failed = {}
    for column in columns:
        for value in VALUES if LONG else (next(turns),):
            with folder_in_memory() as folder:
                shutil.copy(written, folder)
                for name in UNWRITTEN if table in UNWRITTEN else ():
                    damage_loosely(folder, name, f"INSERT INTO {name} VALUES {UNWRITTEN[name]}")
                try:
                    damage_loosely(folder, table, f"UPDATE OR REPLACE {table} SET {column} = {value}")
                except sqlite3.IntegrityError:
                    continue  # A row's number is a number.
                if found := await unforeseen(folder):
                    failed[column, value] = found
    assert failed == {}
