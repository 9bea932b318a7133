"""`counterfoil copy`, as people and programs run it: between file and database, killed and begun again."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from command_line import (
    RUN,
    WAIT_SECONDS,
    CommandLine,
    at_terminal,
    cli,
    journal,
    process,
    program,
    state_of,
)
from journals import Desk, FakeClock, kept_at, open_desk, plain_sql
from postgres_cluster import Cluster

__all__ = ["cli", "journal"]

RUNS = 80


@pytest.fixture
def database(cluster: Cluster, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty journal in PostgreSQL, which `tmp_path / "database"` stands for."""
    with cluster.lending() as place:
        yield place(tmp_path / "database")


@pytest.fixture
def new_database(cluster: Cluster) -> Iterator[str]:
    """The URL of a database in which no journal is."""
    name = cluster.new_database()
    yield cluster.url(name)
    cluster.drop_database(name)


def counted(place: Path | str, table: str = "runs") -> int:
    """Count the rows of a table at a place: by default the runs that were copied."""
    with kept_at(lambda _: place):
        return int(plain_sql(Path(), f"SELECT COUNT(*) FROM {table}")[0][0])


def test_a_journal_is_copied_to_a_database_and_back_into_a_new_file(
    cli: CommandLine, journal: Path, database: str, tmp_path: Path
) -> None:
    told = cli("copy", str(journal), database)
    assert told.code == 0, told.out + told.err
    assert "3 new, 0 gone on with, 0 there already" in told.out
    assert "all of namespace default is in TO" in told.out
    assert "1 live attempt," in told.out
    back = tmp_path / "back" / "journal.db"
    answer = json.loads(cli("copy", database, str(back), "--json").out)
    assert (answer["status"], answer["changed"]) == ("ok", True)
    assert answer["copies"][0]["check"]["same_logs"] == 3
    again = json.loads(cli("copy", database, str(back), "--json").out)
    assert (again["status"], again["changed"]) == ("ok", False)
    assert cli("verify", "--journal", database).code == cli("verify", "--journal", str(back)).code == 0
    assert state_of(back, RUN, "email:bob")["state"] == "succeeded"


def test_other_namespaces_are_not_left_behind_without_a_word(
    cli: CommandLine, journal: Path, tmp_path: Path
) -> None:
    async def begin_in_another() -> None:
        async with open_desk(journal.parent, namespace="team") as desk:
            await desk.begin()

    anyio.run(begin_in_another)
    to = tmp_path / "to.db"
    told = cli("copy", str(journal), str(to))
    assert (told.code, to.exists()) == (1, False)
    assert "FROM has other namespaces than default (team); nothing was copied" in told.err
    assert cli("copy", str(journal), str(to), "--all-namespaces").code == 0
    shown = json.loads(cli("runs", "--journal", str(to), "--namespace", "team", "--json").out)
    assert [run["run"] for run in shown["runs"]] == ["run-1"]


def test_a_journal_is_not_copied_onto_itself(cli: CommandLine, journal: Path) -> None:
    told = cli("copy", str(journal), f"sqlite:///{journal}")
    assert told.code == 1
    assert "FROM and TO are one journal" in told.err


def test_a_difference_is_told_with_exit_code_1(
    cli: CommandLine, journal: Path, database: str, tmp_path: Path
) -> None:
    assert cli("copy", str(journal), database).code == 0
    with kept_at(lambda _: database):
        plain_sql(
            tmp_path, "UPDATE receipts SET external_id = 'other' WHERE external_id = '<m-1@example.org>'"
        )
    told = cli("copy", str(journal), database)
    assert told.code == 1
    assert "<m-1@example.org>, TO missing" in " ".join(told.out.split())
    answer = json.loads(cli("copy", str(journal), database, "--json").out)
    assert answer["status"] == "wanting"
    assert [found["what"] for found in answer["copies"][0]["check"]["differences"]] == ["reference"]


def test_the_key_goes_along_only_into_a_journal_that_is_made_for_it(
    cli: CommandLine, journal: Path, database: str, new_database: str
) -> None:
    with kept_at(lambda _: database):
        plain_sql(journal, "UPDATE journal SET secret = repeat('ab', 32)")
    refused = cli("copy", "--with-key", str(journal), database)
    assert refused.code == 1
    assert "has a key of its own" in refused.err
    made = json.loads(cli("copy", "--with-key", str(journal), new_database, "--json").out)
    assert made["copies"][0]["has_same_key"] is True
    # A copy that was broken off goes on in the same way.
    assert cli("copy", "--with-key", str(journal), new_database).code == 0
    shown = cli("doctor", "--journal", new_database).out + json.dumps(made)
    with kept_at(lambda _: new_database):
        key = plain_sql(journal, "SELECT secret FROM journal")[0][0]
    assert key not in shown


def test_every_namespace_is_copied_when_that_is_asked_for(
    cli: CommandLine, journal: Path, tmp_path: Path
) -> None:
    async def add() -> None:
        async with open_desk(journal.parent, namespace="tenant", clock=FakeClock(boot=None)) as desk:
            await desk.begin()

    anyio.run(add)
    target = str(tmp_path / "copy.db")
    assert cli("copy", str(journal), target, "--namespace", "default").code == 0
    assert cli("runs", "--journal", target, "--namespace", "tenant", "--json").out.count('"run":') == 0
    answer = json.loads(cli("copy", "--all-namespaces", str(journal), target, "--json").out)
    assert [(each["namespace"], each["runs_new"]) for each in answer["copies"]] == [
        ("default", 0),
        ("tenant", 1),
    ]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("copy", "/nowhere/journal.db", "/tmp/x.db"), 3, "no journal at /nowhere/journal.db, which is FROM"),
        (("copy", "relative.db", "/tmp/x.db"), 3, "/relative.db"),
        (("copy", "/a.db", "/b.db", "--journal", "/c.db"), 2, "--journal has no meaning"),
        (("copy", "/a.db"), 2, "Missing argument 'TO'"),
    ],
)
def test_what_cannot_be_copied_is_said(
    cli: CommandLine, journal: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    answer = cli(*words)
    assert (answer.code, told in answer.err) == (code, True), answer.err
    assert not Path("/tmp/x.db").exists()


@pytest.mark.parametrize("make", [Path.symlink_to, Path.hardlink_to])
def test_a_journal_is_not_copied_into_itself_by_another_name(
    cli: CommandLine, journal: Path, tmp_path: Path, make: Callable[[Path, Path], None]
) -> None:
    make(tmp_path / "other.db", journal)
    answer = cli("copy", str(journal), str(tmp_path / "other.db"))
    assert (answer.code, "FROM and TO are one journal" in answer.err) == (1, True)


def test_a_bar_is_shown_at_a_terminal_and_nowhere_else(journal: Path, tmp_path: Path) -> None:
    target = str(tmp_path / "copy.db")
    shown = at_terminal(["copy", str(journal), target])
    assert shown.code == 0
    assert "check" in shown.out
    assert "5/5" in shown.out
    quiet = process("copy", str(journal), target)
    assert (quiet.code, quiet.err) == (0, "")


async def _add_runs(folder: Path) -> None:
    clock = FakeClock(time.time_ns() // 1_000 - 7_200_000_000, boot=None)
    async with open_desk(folder, clock=clock) as desk, anyio.create_task_group() as tasks:
        for number in range(RUNS):
            tasks.start_soon(_send, Desk(desk.journal, clock, run=f"many/{number:04}"), f"m-{number}")


async def _send(desk: Desk, message: str) -> None:
    await desk.begin(payload={"text": "x" * 2_000})
    await desk.receipt(external_id=message)


@pytest.mark.parametrize("is_back", [False, True], ids=["out of a file", "into a file"])
def test_a_copy_that_is_killed_again_and_again_goes_on_and_ends_the_same(
    journal: Path, database: str, tmp_path: Path, is_back: bool
) -> None:
    anyio.run(_add_runs, journal.parent)
    file = tmp_path / "back" / "journal.db"
    source, target = str(journal), database
    if is_back:
        assert process("copy", str(journal), database).code == 0
        source, target = database, str(file)

    def here() -> int:
        if is_back:
            return counted(file) if file.exists() and file.stat().st_size else 0
        return counted(database)

    kills, seen = 0, 0
    while kills < 2:
        with subprocess.Popen(
            program("copy", source, target), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as running:
            _wait_for(lambda before=seen: _more(here, before))
            os.kill(running.pid, signal.SIGKILL)
            assert running.wait(WAIT_SECONDS) == -signal.SIGKILL
        kills, seen = kills + 1, here()
        assert 0 < seen < RUNS + 3
        # Whoever works in it now is asked to wait for a person: what is missing may have been performed.
        assert counted(file if is_back else database, "restores") == 1
    ended = process("copy", source, target, "--json")
    answer = json.loads(ended.out)["copies"][0]
    assert (ended.code, answer["runs"], answer["check"]["same_logs"]) == (0, RUNS + 3, RUNS + 3)
    assert answer["runs_same"] >= seen - 1
    assert counted(file if is_back else database, "restores") == 0
    assert process("verify", "--journal", target).code == 0


def _more(here: Callable[[], int], before: int) -> bool:
    try:
        return here() > before + 2
    except Exception:  # the tables are not there yet, or the file is busy
        return False


def _wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)
