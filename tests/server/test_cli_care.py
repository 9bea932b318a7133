"""Health: in order, wanting or unavailable, each told by words and by the exit code."""

import json
import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from command_line import RUN, CommandLine, cli, journal, process
from counterfoil.server.people import health

__all__ = ["cli", "journal"]

HEALTH = ("check", "doctor")
EVERY_COMMAND = [
    ("runs",),
    ("plan", RUN),
    ("show", RUN, "email:alice"),
    ("find",),
    ("tail",),
    ("check",),
    ("doctor",),
    ("verify",),
    ("prune", "--older-than", "1d"),
    ("export",),
    ("reconcile", RUN, "email:alice", "--finding", "inconclusive", "--checked-with", "x"),
    ("close", RUN, "email:alice", "--outcome", "cancelled", "--reason", "x"),
]


def empty(file: Path) -> None:
    file.write_bytes(b"")


def remove(file: Path) -> None:
    for left in file.parent.glob(f"{file.name}*"):
        left.unlink()


def leave_a_side_file(file: Path) -> None:
    file.rename(file.with_name("moved.db"))
    file.with_name(f"{file.name}-journal").touch()


def make_another_file(file: Path) -> None:
    file.write_bytes(b"this is no database, but a letter to nobody\n" * 100)


def make_a_folder(file: Path) -> None:
    remove(file)
    file.mkdir()


def come_from_the_future(file: Path) -> None:
    with sqlite3.connect(file) as raw:
        raw.execute("PRAGMA user_version = 999")


def lose_its_key(file: Path) -> None:
    with closing(sqlite3.connect(file)) as raw, raw:
        raw.execute("PRAGMA ignore_check_constraints = ON")
        raw.execute("UPDATE journal SET secret = ''")


@pytest.mark.parametrize(
    "damage",
    [
        empty,
        remove,
        leave_a_side_file,
        make_another_file,
        make_a_folder,
        come_from_the_future,
        lose_its_key,
    ],
)
@pytest.mark.parametrize("words", EVERY_COMMAND, ids=lambda words: words[0])
def test_a_journal_that_cannot_be_used_is_code_3_with_the_cause(
    cli: CommandLine, journal: Path, damage: Callable[[Path], None], words: tuple[str, ...]
) -> None:
    damage(journal)
    answer = cli(*words)
    told = answer.out + answer.err
    assert answer.code == 3
    assert str(journal) in "".join(told.split()) or str(journal) in told
    assert "Traceback" not in told
    document = json.loads(cli(*words, "--json").out)
    fault = document["fault"] if words[0] == "doctor" else document
    assert fault["code"] in ("journal_unavailable", "unsupported_version")
    assert fault["recorded"] is False
    assert document.get("status") in (None, "unavailable")


@pytest.mark.parametrize("words", EVERY_COMMAND, ids=lambda words: words[0])
def test_no_command_makes_a_journal(cli: CommandLine, journal: Path, words: tuple[str, ...]) -> None:
    remove(journal)
    cli(*words)
    assert list(journal.parent.iterdir()) == []


@pytest.mark.parametrize("words", EVERY_COMMAND, ids=lambda words: words[0])
def test_a_read_only_journal_is_code_3(
    cli: CommandLine, journal: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """O-1: every command says so.

    Reported: Gentleman-Programming/engram#1292.
    """

    def may_only_read(path: Any, mode: int, **options: Any) -> bool:
        return not mode & os.W_OK

    monkeypatch.setattr(os, "access", may_only_read)
    answer = cli(*words)
    assert answer.code == 3
    assert "read-only" in answer.out + answer.err


@pytest.mark.parametrize("command", HEALTH)
def test_a_good_journal_is_ok_and_says_what_is_in_doubt(
    cli: CommandLine, journal: Path, command: str
) -> None:
    answer = cli(command)
    assert answer.code == 0
    assert "1 disputed, 1 in_doubt, 1 in_progress" in answer.out
    assert "disputed 2 h: pay:rent in rent/2026-11" in answer.out
    told = json.loads(cli(command, "--json").out)
    assert (told["status"], told["problems"]) == ("ok", [])
    assert told["runs"] == 3
    assert told["counts"]["succeeded"] == 1
    assert [step["key"] for step in told["open_questions"]["oldest"]] == ["pay:rent", "email:alice"]


@pytest.mark.parametrize("command", HEALTH)
def test_a_corrupt_page_is_never_ok(cli: CommandLine, journal: Path, command: str) -> None:
    whole = bytearray(journal.read_bytes())
    for page in range(4_096 * 3, len(whole), 4_096):
        whole[page : page + 64] = b"\xff" * 64
    journal.write_bytes(whole)
    answer = cli(command)
    assert answer.code in (1, 3)
    assert "ok" not in answer.out.split()
    assert json.loads(cli(command, "--json").out).get("status") != "ok"


@pytest.mark.parametrize("command", HEALTH)
def test_what_only_a_look_at_every_page_shows_is_found(cli: CommandLine, journal: Path, command: str) -> None:
    with sqlite3.connect(journal) as raw:
        raw.execute("PRAGMA ignore_check_constraints = ON")
        raw.execute("UPDATE external_ids SET stands = 2")
    answer = cli(command, "--json")
    assert answer.code == 1
    problems = json.loads(answer.out)["problems"]
    assert any("the file is corrupt" in problem["problem"] for problem in problems)


@pytest.mark.parametrize("command", HEALTH)
def test_rows_that_cannot_be_read_are_found_wanting(cli: CommandLine, journal: Path, command: str) -> None:
    with sqlite3.connect(journal) as raw:
        raw.execute("UPDATE operations SET terms = 'no json'")
    answer = cli(command)
    assert answer.code == 1
    assert "wanting" in answer.out
    assert "cannot be read" in answer.out


@pytest.mark.parametrize("command", HEALTH)
def test_missing_operations_are_found_wanting(cli: CommandLine, journal: Path, command: str) -> None:
    with sqlite3.connect(journal) as raw:
        raw.execute("PRAGMA foreign_keys = OFF")
        raw.execute("DELETE FROM operations WHERE key = 'email:bob'")
    answer = cli(command)
    assert answer.code == 1
    assert "misses operations" in answer.out


def test_a_clock_behind_the_newest_event_is_found_wanting(cli: CommandLine, journal: Path) -> None:
    with sqlite3.connect(journal) as raw:
        raw.execute("UPDATE events SET at = at + 7200000000 WHERE run = 'live/1'")
    answer = cli("check")
    assert answer.code == 1
    assert "behind the newest event" in answer.out


def test_a_disk_that_is_nearly_full_is_found_wanting(
    cli: CommandLine, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_LEAST_FREE_BYTES", 2**62)
    assert cli("check").code == 1


def test_verify_replays_the_log(cli: CommandLine, journal: Path) -> None:
    answer = cli("verify")
    assert answer.code == 0
    assert answer.out.startswith("verify ok: ")
    told = json.loads(cli("verify", "--json").out)
    assert (told["status"], told["runs"], told["operations"], told["faults"]) == ("ok", 3, 5, [])


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE events SET data = '{}' WHERE seq = 2",
        "DELETE FROM events WHERE seq = 3",
        "UPDATE attempts SET outcome = 'refused' WHERE outcome = 'unknown'",
    ],
)
def test_verify_finds_what_was_changed_behind_its_back(cli: CommandLine, journal: Path, change: str) -> None:
    with sqlite3.connect(journal) as raw:
        raw.execute(change)
    answer = cli("verify")
    assert answer.code == 1
    assert answer.out.startswith("verify wanting: ")
    assert json.loads(cli("verify", "--json").out)["faults"]


def test_what_belongs_to_no_run_is_counted_by_itself(cli: CommandLine, journal: Path) -> None:
    before = json.loads(cli("verify", "--json").out)
    assert before["namespace_events"] == 0
    assert "of no run" not in cli("verify").out
    assert "request" in cli("grant", RUN, "email:alice", "--json").out
    after = json.loads(cli("verify", "--json").out)
    assert (after["events"], after["namespace_events"]) == (before["events"], 1)
    told = f"{before['events']} events of 5 operations in 3 runs and 1 of no run replayed"
    assert told in " ".join(cli("verify").out.split())
    copied = json.loads(cli("copy", str(journal), str(journal.parent / "copy.db"), "--json").out)
    assert sum(copy["events"] for copy in copied["copies"]) == before["events"]


@pytest.mark.parametrize("command", HEALTH)
def test_operations_are_counted_together_before_what_is_open_is(
    cli: CommandLine, journal: Path, command: str
) -> None:
    said = " ".join(cli(command).out.split())
    assert "operations 5 in all: 1 disputed, 1 in_doubt, 1 in_progress, 1 planned, 1 succeeded" in said
    assert "open 3 of these: disputed, in doubt or in progress" in said


def test_one_busy_timeout_is_told(cli: CommandLine, journal: Path) -> None:
    facts = json.loads(cli("doctor", "--json").out)["journal"]
    assert [(name, value) for name, value in facts.items() if "timeout" in name] == [
        ("busy_timeout_seconds", 5)
    ]
    assert cli("doctor").out.count("busy timeout") == 1


@pytest.mark.parametrize("command", ["check", "doctor", "migrate"])
def test_a_program_gets_no_number_in_quotes(cli: CommandLine, journal: Path, command: str) -> None:
    told = json.loads(cli(command, "--json").out)
    numbers_in_quotes = [text for text in _texts(told) if text.isdecimal()]
    assert numbers_in_quotes == ([] if command == "migrate" else [told["journal"]["file_mode"]])


def _texts(value: Any) -> Iterator[str]:
    """Give every text in a JSON document."""
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(part)


def test_a_program_gets_the_parts_of_the_file_as_numbers_and_a_person_in_words(
    cli: CommandLine, journal: Path, tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[defaults.limits]\nargs_bytes = 1000\n[[authority]]\naction = "*"\nrequire = "grant"\n')
    told = json.loads(cli("doctor", "--json", "--config", str(file)).out)["settings"]
    values = {setting["name"]: setting["value"] for setting in told}
    assert (values["authority"], values["limits"]) == (1, {"args_bytes": 1000})
    words = " ".join(cli("doctor", "--config", str(file)).out.split())
    assert "authority 1 in the file" in words
    assert "limits args_bytes 1000" in words


def test_a_file_that_there_is_not_is_none(cli: CommandLine, journal: Path) -> None:
    assert json.loads(cli("doctor", "--json").out)["settings"][0]["value"] is None
    assert "config none default" in " ".join(cli("doctor").out.split())


def test_doctor_says_what_is_used_and_why(cli: CommandLine, journal: Path) -> None:
    answer = cli("doctor")
    facts = json.loads(cli("doctor", "--json").out)
    assert facts["program"]["sqlite"] == sqlite3.sqlite_version
    assert facts["journal"]["journal_mode"] in ("wal", "persist")
    assert facts["journal"]["journal_mode_reason"]
    assert (facts["journal"]["file_mode"], facts["journal"]["synchronous"]) == ("0600", "FULL")
    assert "journal mode reason" in answer.out
    assert facts["journal"]["file_system"] in answer.out


def test_doctor_tells_a_variable_that_is_nearly_a_setting(
    cli: CommandLine, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("COUNTERFOIL_RUN", "COUNTERFOIL_LONG", "COUNTERFOIL_SEED", "COUNTERFOIL_MY_OWN"):
        monkeypatch.setenv(name, "1")
    assert cli("doctor").code == 0
    monkeypatch.setenv("COUNTERFOIL_SETTLE_SECOND", "3600")
    told = cli("doctor", "--json")
    assert (told.code, json.loads(told.out)["problems"]) == (
        1,
        [
            {
                "problem": "COUNTERFOIL_SETTLE_SECOND is set, and nothing reads it",
                "fix": "did you mean COUNTERFOIL_SETTLE_SECONDS?",
            }
        ],
    )


def test_doctor_says_where_each_setting_came_from(
    cli: CommandLine, journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('namespace = "team"\n[defaults]\nsettle_seconds = 60\nlease_seconds = 100\n')
    monkeypatch.setenv("COUNTERFOIL_CONFIG", str(file))
    monkeypatch.setenv("COUNTERFOIL_LEASE_SECONDS", "200")
    settings = json.loads(cli("doctor", "--json", "--journal", str(journal)).out)["settings"]
    assert {setting["name"]: (setting["value"], setting["from"]) for setting in settings} == {
        "config": (str(file), "COUNTERFOIL_CONFIG"),
        "journal": (str(journal), "--journal"),
        "namespace": ("team", str(file)),
        "log": ("warning", "default"),
        "tools": ("all", "default"),
        "lease_seconds": (200.0, "COUNTERFOIL_LEASE_SECONDS"),
        "longest_lease_seconds": (3600, "default"),
        "settle_seconds": (60, str(file)),
        "least_settle_seconds": (0, "default"),
    }


def test_the_secret_that_doctor_tells_how_to_make_is_the_one_that_counts(
    cli: CommandLine, journal: Path, tmp_path: Path
) -> None:
    (line,) = [line for line in cli("doctor").out.splitlines() if "sha256sum" in line]
    secret = tmp_path / "operator.secret"
    secret.write_text("5e" * 32 + "\n")
    summed = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, check=True).stdout
    folder = tmp_path / ".config/counterfoil"
    folder.mkdir(parents=True)
    (folder / "counterfoil.toml").write_text(f'[operator]\nsecret_sha256 = "{summed.decode().strip()}"\n')
    words = ("close", RUN, "email:alice", "--outcome", "cancelled", "--reason", "x")
    assert cli(*words, "--operator-secret-file", str(secret)).code == 0
    assert "configured" in cli("doctor").out


@pytest.mark.parametrize("words", EVERY_COMMAND, ids=lambda words: words[0])
def test_a_wrong_setting_is_a_usage_error(
    cli: CommandLine, journal: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERFOIL_LEASE_SECONDS", "soon")
    answer = cli(*words)
    assert (answer.code, answer.out) == (2, "")
    assert "lease_seconds" in answer.err
    assert json.loads(cli(*words, "--json").out)["code"] == "invalid_argument"


def test_a_plan_with_operations_that_cannot_be_read_does_not_pass_for_whole(
    cli: CommandLine, journal: Path
) -> None:
    with sqlite3.connect(journal) as raw:
        raw.execute("UPDATE operations SET terms = 'no json'")
    answer = cli("plan", RUN)
    assert answer.code == 1
    assert "2 of them cannot be read" in answer.out
    assert "Nothing is open" not in answer.out
    assert json.loads(cli("plan", RUN, "--json").out)["complete"] is False


def test_an_operation_that_cannot_be_read_is_shown_as_such_and_mended_from_the_log(
    cli: CommandLine, journal: Path
) -> None:
    with sqlite3.connect(journal) as raw:
        raw.execute("UPDATE operations SET terms = 'no json' WHERE key = 'email:alice'")
        ((operation,),) = raw.execute("SELECT id FROM operations WHERE key = 'email:alice'").fetchall()
    assert "cannot be read" in " ".join(cli("show", operation).out.split())
    wanting = cli("verify")
    assert wanting.code == 1
    assert "`counterfoil verify --repair` makes its rows anew" in " ".join(wanting.out.split())
    assert "Make a copy (counterfoil backup), then run counterfoil verify --repair." in wanting.out
    assert "restore a backup" not in wanting.out
    mended = json.loads(cli("verify", "--repair", "--json").out)
    assert (mended["status"], mended["repaired"], mended["faults"]) == ("ok", [operation], [])
    assert cli("verify").code == 0
    assert "cannot be read" not in cli("show", operation).out


def test_a_run_whose_row_is_gone_is_not_called_ok_and_needs_a_backup(cli: CommandLine, journal: Path) -> None:
    with sqlite3.connect(journal) as raw:
        raw.execute("DELETE FROM runs")
    for options in ((), ("--repair",)):
        wanting = cli("verify", *options)
        assert wanting.code == 1
        assert "the run's row is gone; restore a backup" in " ".join(wanting.out.split())
        assert "keep a copy of the file, and restore a backup." in wanting.out
        assert "in 0 runs" not in wanting.out


def test_what_nobody_foresaw_is_told_without_a_traceback(
    cli: CommandLine, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("a secret value")

    monkeypatch.setattr("counterfoil.server.people.request.open_from", fail)
    answer = cli("runs")
    assert (answer.code, answer.out) == (1, "")
    assert "RuntimeError" in answer.err
    assert "secret value" not in answer.err
    assert json.loads(cli("runs", "--json").out)["code"] == "internal"
    assert "Traceback" not in answer.err


def test_check_in_a_process_of_its_own(journal: Path) -> None:
    assert process("check").code == 0
    remove(journal)
    answer = process("check")
    assert (answer.code, answer.out) == (3, "")
    assert "there is no journal at" in answer.err


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o644])
def test_a_file_that_nobody_else_may_read_is_not_said_to_be_read_by_others(
    cli: CommandLine, journal: Path, mode: int
) -> None:
    journal.chmod(mode)
    assert "others may read it" not in cli("check").out
    assert journal.stat().st_mode & 0o077 == 0


def test_a_file_of_two_names_is_told(cli: CommandLine, journal: Path, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(journal)
    assert cli("check").code == 0
    (tmp_path / "other.db").hardlink_to(journal)
    checked = cli("check")
    assert checked.code == 1
    assert "a hard link" in " ".join(checked.out.split())
