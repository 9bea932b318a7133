"""The schema refuses rows that no history could lead to, whatever the code above it does."""

from collections.abc import Iterator
from pathlib import Path
from sqlite3 import IntegrityError, connect
from typing import Any

import anyio
import psycopg
import pytest

from conformance.states_reaching import REFUSED, UNDOING
from counterfoil.store.postgres.translation import translate
from journals import PERSON, kept_at, open_desk
from postgres_cluster import Cluster


class OnPostgresql:
    """The same tables in PostgreSQL, with SQLite's words for what may not be."""

    def __init__(self, url: str) -> None:
        self._raw = psycopg.connect(url, options="-csearch_path=counterfoil", autocommit=True)
        self.close = self._raw.close

    def execute(self, sql: str, parameters: Any = None) -> Any:
        given = {} if parameters is None else parameters
        try:
            return self._raw.execute(translate(sql).replace("?", "%s").encode(), given)
        except psycopg.IntegrityError as error:
            words = {"23505": "UNIQUE", "23503": "FOREIGN KEY"}
            raise IntegrityError(words.get(error.sqlstate or "", str(error))) from error
        except psycopg.DataError as error:
            raise IntegrityError(str(error)) from error


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def every_state(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A journal with one operation in each state, its run named after it."""
    folder = tmp_path_factory.mktemp("schema")
    if request.param == "postgresql":
        cluster: Cluster = request.getfixturevalue("cluster")
        with cluster.lending() as place:
            with kept_at(place):
                _fill(folder)
            yield place(folder / "journal.db")
    else:
        _fill(folder)
        yield folder / "journal.db"


def _fill(folder: Path) -> None:

    async def fill() -> None:
        async with open_desk(folder) as desk:
            first = desk.at("first", run="planned")
            await first.begin()
            await desk.at("key-1", run="planned").begin(depends_on=("first",))
            for state in ("in_doubt", "failed", "succeeded", "timed_out", "cancelled", "compensated"):
                await desk.at("key-1", run=state).begin()
            await desk.at("key-1", run="in_doubt").failure("unknown")
            for state in ("failed", "cancelled"):
                await desk.at("key-1", run=state).failure("none", evidence=REFUSED)
            for state in ("succeeded", "compensated"):
                await desk.at("key-1", run=state).receipt(external_id=f"m-{state}")
            await desk.at("key-1", run="timed_out").close("timed_out")
            await desk.at("key-1", run="cancelled").close("cancelled")
            await desk.at("key-1", run="compensated").reconcile("compensated", **UNDOING)
            disputed = desk.at("key-1", run="disputed")
            await disputed.begin()
            await disputed.receipt(external_id="m-disputed")
            await disputed.reconcile("not_performed", caller=PERSON)
            await desk.at("key-1", run="in_progress").begin()

    anyio.run(fill)


@pytest.fixture
def rows(every_state: Path | str) -> Iterator[Any]:
    """The journal's tables, with whatever a test does to them taken back."""
    connection: Any
    if isinstance(every_state, str):
        connection = OnPostgresql(every_state)
    else:
        connection = connect(every_state, isolation_level=None)
        connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("BEGIN")
    yield connection
    connection.execute("ROLLBACK")
    connection.close()


def test_every_state_is_on_file(rows: Any) -> None:
    found = rows.execute("SELECT run, state FROM operations WHERE key = 'key-1'").fetchall()
    assert len(found) == 9
    assert all(run == state for run, state in found)


IMPOSSIBLE_OPERATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "a state that does not exist": ("planned", {"state": "done"}),
    "no state": ("planned", {"state": None}),
    "succeeded without a standing receipt": ("succeeded", {"standing_receipts": 0}),
    "succeeded out of nothing": ("planned", {"state": "succeeded"}),
    "planned with attempts": ("planned", {"attempts": 1}),
    "planned with a receipt": ("planned", {"standing_receipts": 1}),
    "in progress without an attempt": ("in_progress", {"attempts": 0}),
    "in progress without a lease": ("in_progress", {"lease_until": None}),
    "in progress with a receipt that stands": ("in_progress", {"standing_receipts": 1}),
    "in doubt without an attempt": ("in_doubt", {"attempts": 0}),
    "in doubt with a receipt that stands": ("in_doubt", {"standing_receipts": 1}),
    "failed without an attempt": ("failed", {"attempts": 0}),
    "failed with a receipt that stands": ("failed", {"standing_receipts": 1}),
    "timed out without a decision": (
        "timed_out",
        {"decision": None, "decided_at": None, "decided_by": None},
    ),
    "cancelled without a decision": (
        "cancelled",
        {"decision": None, "decided_at": None, "decided_by": None},
    ),
    "compensated without a decision": (
        "compensated",
        {"decision": None, "decided_at": None, "decided_by": None},
    ),
    "cancelled by another decision": ("cancelled", {"decision": "timed_out"}),
    "failed in spite of a decision": ("cancelled", {"state": "failed"}),
    "succeeded in spite of a decision": ("compensated", {"state": "succeeded"}),
    "a decision that does not exist": ("cancelled", {"decision": "succeeded"}),
    "a decision of nobody": ("cancelled", {"decided_by": None}),
    "a decision without a time": ("cancelled", {"decided_at": None}),
    "disputed without a dispute": ("disputed", {"dispute": None, "disputed_at": None}),
    "a dispute that is not shown": ("disputed", {"state": "succeeded"}),
    "a dispute without a time": ("disputed", {"disputed_at": None}),
    "a dispute that does not exist": ("disputed", {"dispute": "taste"}),
    "attempts below none": ("in_doubt", {"attempts": -1}),
    "receipts below none": ("succeeded", {"standing_receipts": -1}),
    "an id of another form": ("planned", {"id": "op_1"}),
    "an empty action": ("planned", {"action": ""}),
    "a place before the first": ("planned", {"position": 0}),
    "a clock set back by less than nothing": ("planned", {"set_back": -1}),
    "a run that does not exist": ("planned", {"run": "elsewhere"}),
    "text for a time": ("planned", {"created_at": "yesterday"}),
}


@pytest.mark.parametrize(("run", "changes"), IMPOSSIBLE_OPERATIONS.values(), ids=IMPOSSIBLE_OPERATIONS.keys())
def test_an_operation_cannot_be(rows: Any, run: str, changes: dict[str, Any]) -> None:
    assignments = ", ".join(f"{name} = :{name}" for name in changes)
    with pytest.raises(IntegrityError):
        rows.execute(
            f"UPDATE operations SET {assignments} WHERE run = :where AND key = 'key-1'",
            {**changes, "where": run},
        )


IMPOSSIBLE_ATTEMPTS: dict[str, dict[str, Any]] = {
    "an outcome that does not exist": {"outcome": "lost"},
    "open and ended": {"outcome": "open", "ended_at": 1},
    "a lease that ends before it was granted": {"lease_until": 1},
    "a number below none": {"number": -1},
    "a grant without a holder": {"principal": None},
    "a grant under no key": {"generation": 0},
    "an unannounced effect under a key": {"number": 0},
    "retryable by half": {"retryable": 2},
    "of an operation that does not exist": {"operation": "op_aaaaaaaaaaaaaaaaaaaa"},
}


@pytest.mark.parametrize("changes", IMPOSSIBLE_ATTEMPTS.values(), ids=IMPOSSIBLE_ATTEMPTS.keys())
def test_an_attempt_cannot_be(rows: Any, changes: dict[str, Any]) -> None:
    assignments = ", ".join(f"{name} = :{name}" for name in changes)
    with pytest.raises(IntegrityError):
        rows.execute(f"UPDATE attempts SET {assignments} WHERE run = 'in_doubt'", changes)


def copied(rows: Any, table: str, run: str, **changes: Any) -> None:
    """Insert a copy of a row with some columns changed."""
    cursor = rows.execute(f"SELECT * FROM {table} WHERE run = ?", (run,))
    names = [column[0] for column in cursor.description]
    row = {**dict(zip(names, cursor.fetchone(), strict=True)), **changes}
    marks = ", ".join(f":{name}" for name in names)
    rows.execute(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})", row)


def test_two_attempts_cannot_have_one_number(rows: Any) -> None:
    with pytest.raises(IntegrityError, match="UNIQUE"):
        copied(rows, "attempts", "in_doubt", call_id="another-call-id-1")


def test_one_call_cannot_have_two_grants(rows: Any) -> None:
    with pytest.raises(IntegrityError, match="UNIQUE"):
        copied(rows, "attempts", "in_doubt", number=2)


def test_a_second_attempt_of_another_call_can_be(rows: Any) -> None:
    copied(rows, "attempts", "in_doubt", number=2, call_id="another-call-id-1")


@pytest.mark.parametrize(
    "changes",
    [
        {"key": "another"},
        {"id": "op_aaaaaaaaaaaaaaaaaaaa"},
    ],
    ids=["one id under two keys", "two ids under one key"],
)
def test_an_operation_has_one_key_and_one_id(rows: Any, changes: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError, match="UNIQUE"):
        copied(rows, "operations", "in_doubt", **changes)


IMPOSSIBLE_RECEIPTS: dict[str, dict[str, Any]] = {
    "accepted though it is foreign": {"is_foreign": 1},
    "accepted though it is no final one": {"final": 0},
    "accepted though it is a claim": {"assurance": 0},
    "reported without a reference": {"external_id": None},
    "an assurance that does not exist": {"assurance": 4},
    "a number below the first": {"number": 0},
    "of an attempt below none": {"attempt": -1},
}


@pytest.mark.parametrize("changes", IMPOSSIBLE_RECEIPTS.values(), ids=IMPOSSIBLE_RECEIPTS.keys())
def test_a_receipt_cannot_be(rows: Any, changes: dict[str, Any]) -> None:
    assignments = ", ".join(f"{name} = :{name}" for name in changes)
    with pytest.raises(IntegrityError):
        rows.execute(f"UPDATE receipts SET {assignments} WHERE run = 'succeeded'", changes)


def test_two_events_cannot_have_one_place_in_the_log(rows: Any) -> None:
    with pytest.raises(IntegrityError, match="UNIQUE"):
        copied(rows, "events", "succeeded")


def test_an_operation_with_a_history_cannot_be_deleted(rows: Any) -> None:
    with pytest.raises(IntegrityError, match="FOREIGN KEY"):
        rows.execute("DELETE FROM operations WHERE run = 'succeeded'")
