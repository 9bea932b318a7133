"""The commands that keep and move a journal, as people and programs run them."""

import json
import sqlite3
import stat
import subprocess
from pathlib import Path

import anyio
import pytest

from command_line import RUN, CommandLine, at_terminal, cli, journal, process, program, state_of
from journals import open_desk

__all__ = ["cli", "journal"]


def in_place(journal: Path) -> list[str]:
    return sorted(file.name for file in journal.parent.iterdir() if not file.name.startswith("journal.db-"))


def test_a_backup_is_made_privately_and_overwrites_nothing(
    cli: CommandLine, journal: Path, tmp_path: Path
) -> None:
    target = tmp_path / "backup.db"
    answer = json.loads(cli("backup", str(target), "--json").out)
    assert (answer["backup"], answer["size_bytes"]) == (str(target), target.stat().st_size)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert cli("verify", "--journal", str(target)).code == 0
    again = cli("backup", str(target))
    assert (again.code, again.out) == (1, "")
    assert "there already" in again.err


def test_a_journal_is_restored_only_where_none_is_lost(
    cli: CommandLine, journal: Path, tmp_path: Path
) -> None:
    backup = str(tmp_path / "backup.db")
    assert cli("backup", backup).code == 0
    refused = cli("restore", backup)
    assert (refused.code, in_place(journal)) == (1, ["journal.db"])
    assert "--force" in refused.err
    answer = json.loads(cli("restore", backup, "--force", "--json").out)
    assert (answer["status"], answer["faults"]) == ("ok", [])
    moved = [str(journal.parent / name) for name in in_place(journal) if name != "journal.db"]
    assert sorted(answer["moved"]) == moved
    assert Path(moved[0]).name.startswith("journal.db.replaced-")
    assert cli("verify").code == cli("verify", "--journal", moved[0]).code == 0


def test_a_journal_put_back_by_hand_is_marked_and_then_asked_about(cli: CommandLine, journal: Path) -> None:
    marked = json.loads(cli("restore", "--mark", "--json").out)
    assert (marked["status"], marked["journal"], marked["moved"]) == ("ok", str(journal), [])
    plan = json.loads(cli("plan", RUN, "--json").out)
    assert plan["journal"]["restored_at"] == marked["restored_at"]
    assert "history_gap" in {step["reason"] for step in plan["steps"]}


def test_after_a_restore_a_plan_asks_until_the_operator_accepts(
    cli: CommandLine, journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = str(tmp_path / "backup.db")
    assert cli("backup", backup).code == 0
    assert cli("restore", backup, "--force").code == 0
    step = next(
        step
        for step in json.loads(cli("plan", RUN, "--json").out)["steps"]
        if step["key"] == "email:[red]carol[/red]"
    )
    assert (step["next"], step["reason"]) == ("ask", "history_gap")
    refused = cli("restore", "--accept-gap", RUN)
    assert refused.code == 1
    assert "only a person" in refused.err
    secret = tmp_path / "secret"
    secret.write_text("sesame\n")
    import hashlib

    config = tmp_path / "counterfoil.toml"
    config.write_text(f'[operator]\nsecret_sha256 = "{hashlib.sha256(b"sesame").hexdigest()}"\n')
    monkeypatch.setenv("COUNTERFOIL_CONFIG", str(config))
    accepted = cli("restore", "--accept-gap", RUN, "--operator-secret-file", str(secret), "--json")
    assert (accepted.code, json.loads(accepted.out)["accepted"]) == (0, RUN)
    steps = json.loads(cli("plan", RUN, "--json").out)["steps"]
    assert all(step["reason"] != "history_gap" for step in steps)
    everything = cli("restore", "--accept-gap", "--all", "--operator-secret-file", str(secret), "--json")
    assert json.loads(everything.out) | {"restored_at": ""} == {
        "accepted": "all",
        "restored_at": "",
        "new": True,
    }


def test_whoever_looks_at_a_restored_journal_reads_what_is_missing_and_what_lifts_it(
    cli: CommandLine, journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(*words: str) -> str:
        return " ".join(cli(*words).out.split())

    for words in (("check",), ("plan", RUN), ("doctor",)):
        assert "is missing" not in told(*words)
    backup = str(tmp_path / "backup.db")
    assert cli("backup", backup).code == 0
    restored = json.loads(cli("restore", backup, "--force", "--json").out)
    at, as_of = (
        f"{restored[name][:10]} {restored[name][11:19]}Z" for name in ("restored_at", "backed_up_at")
    )
    missing = f"put back at {at} as it was at {as_of}: what was done in between is missing here."
    for words in (("check",), ("plan", RUN), ("doctor",)):
        assert missing in told(*words)
        assert "`counterfoil restore --accept-gap --all`" in told(*words)
    assert f"`counterfoil restore --accept-gap {RUN}`" in told("plan", RUN)
    yes = at_terminal(["restore", "--accept-gap", RUN], answer=f"{RUN}\n")
    assert yes.code == 0
    assert f"{missing} A person has accepted that for this run." in told("plan", RUN)
    assert "--accept-gap rent/2026-11`" in told("plan", "rent/2026-11")
    assert "`counterfoil restore --accept-gap RUN`" in told("check")
    assert at_terminal(["restore", "--accept-gap", "--all"], answer="every run\n").code == 0
    assert f"{missing} A person has accepted that for all runs." in told("check")


def test_a_copy_that_has_not_ended_is_told_as_one(cli: CommandLine, journal: Path) -> None:
    async def begin() -> str:
        async with open_desk(journal.parent) as source:
            async with open_desk(journal.parent, name="copy.db") as target:
                await target.journal.keeper.begin_copy_of(source.journal.keeper)
            return source.journal.identity.id

    copied = anyio.run(begin)
    said = " ".join(cli("check", "--journal", str(journal.with_name("copy.db"))).out.split())
    assert f"a copy of journal {copied} into this one began at" in said
    assert "The same `counterfoil copy` again ends it." in said


def test_at_a_terminal_the_gap_is_accepted_by_typing_what_it_is(
    cli: CommandLine, journal: Path, tmp_path: Path
) -> None:
    backup = str(tmp_path / "backup.db")
    assert cli("backup", backup).code == 0
    assert cli("restore", backup, "--force").code == 0
    no = at_terminal(["restore", "--accept-gap", RUN], answer="yes\n")
    assert (no.code, "not confirmed" in no.out) == (1, True)
    yes = at_terminal(["restore", "--accept-gap", RUN], answer=f"{RUN}\n")
    assert (yes.code, "accepted" in yes.out) == (0, True)


@pytest.mark.parametrize(
    "words",
    [
        ("restore",),
        ("restore", "--mark", "backup.db"),
        ("restore", "--mark", "--all"),
        ("restore", "--all"),
        ("restore", "--accept-gap"),
        ("restore", "--accept-gap", RUN, "--all"),
        ("restore", "x.db", "--accept-gap", RUN),
        ("prune",),
        ("prune", "--older-than", "soon"),
        ("prune", "--older-than", "0d"),
        ("backup",),
        ("import",),
    ],
    ids=" ".join,
)
def test_a_command_that_says_too_little_or_too_much_is_a_usage_error(
    cli: CommandLine, journal: Path, words: tuple[str, ...]
) -> None:
    assert cli(*words).code == 2


def test_pruning_is_told_before_it_is_done(cli: CommandLine, journal: Path) -> None:
    with sqlite3.connect(journal) as raw:
        raw.execute("UPDATE bodies SET stored_at = stored_at - 864000000000")
    told = json.loads(cli("prune", "--older-than", "1h", "--dry-run", "--json").out)
    assert told["dry_run"] is True
    done = json.loads(cli("prune", "--older-than", "1h", "--json").out)
    assert {**done, "dry_run": True, "reclaimed_bytes": 0} == told
    assert "0 bodies" in cli("prune", "--older-than", "1h").out
    assert cli("verify").code == 0


def test_an_export_goes_to_stdout_or_to_a_new_private_file(
    cli: CommandLine, journal: Path, tmp_path: Path
) -> None:
    target = tmp_path / "journal.jsonl"
    told = json.loads(cli("export", "-o", str(target), "--json").out)
    assert told["counts"]["runs"] == 3
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert cli("export", "-o", str(target)).code == 1
    piped = cli("export")
    lines, written = piped.out.splitlines(), target.read_text().splitlines()
    assert lines[1:-1] == written[1:-1]
    assert json.loads(lines[-1])["digest"].startswith("sha256:")
    assert "3 runs" in piped.err
    assert cli("export", "--run", "nowhere").code == 1


def test_an_import_makes_a_journal_elsewhere_that_verifies(
    cli: CommandLine, journal: Path, tmp_path: Path
) -> None:
    target, elsewhere = tmp_path / "journal.jsonl", tmp_path / "elsewhere" / "journal.db"
    assert cli("export", "-o", str(target)).code == 0
    taken = cli("import", str(target), "--journal", str(elsewhere), "--json")
    assert (taken.code, json.loads(taken.out)["runs_new"]) == (0, 3)
    assert cli("verify", "--journal", str(elsewhere)).code == 0
    again = json.loads(cli("import", str(target), "--journal", str(elsewhere), "--json").out)
    assert (again["changed"], again["runs_known"]) == (False, 3)
    here = state_of(journal, RUN, "email:bob")
    there = state_of(elsewhere, RUN, "email:bob")
    assert {**here, "as_of": 0} == {**there, "as_of": 0}


def test_an_import_reads_stdin(journal: Path, tmp_path: Path) -> None:
    whole = process("export")
    done = subprocess.run(
        program("import", "-", "--journal", str(tmp_path / "elsewhere" / "journal.db")),
        input=whole.out.encode(),
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert (done.returncode, b"3 taken over" in done.stdout) == (0, True)


def test_conflicts_are_told_and_are_code_1(cli: CommandLine, journal: Path, tmp_path: Path) -> None:
    target = tmp_path / "journal.jsonl"
    assert cli("export", "-o", str(target)).code == 0
    closed = cli("close", RUN, "email:[red]carol[/red]", "--outcome", "cancelled", "--reason", "no")
    assert closed.code == 0
    taken = cli("import", str(target))
    assert taken.code == 1
    assert "here cancelled, there" in " ".join(taken.out.split())
    assert json.loads(cli("import", str(target), "--json").out)["conflicts"][0]["kind"] == "state"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("without its end", "the end line is missing: the file was cut"),
        ("cut in a line", "has no end: the file was cut"),
        ("changed", "the digest does not fit: the file was changed or damaged"),
        ("a letter", "counterfoil: line 1: "),
    ],
)
def test_a_file_that_is_no_export_is_found_wanting_with_its_line(
    cli: CommandLine, journal: Path, tmp_path: Path, damage: str, said: str
) -> None:
    target = tmp_path / "journal.jsonl"
    assert cli("export", "-o", str(target)).code == 0
    whole = target.read_text()
    target.write_text(
        {
            "without its end": "".join(whole.splitlines(keepends=True)[:-1]),
            "cut in a line": whole[:-40],
            "changed": whole.replace("email:alice", "email:alicf", 1),
            "a letter": "dear journal\n",
        }[damage]
    )
    refused = cli("import", str(target))
    assert (refused.code, refused.out) == (1, "")
    told, mend = refused.err.splitlines()
    assert told.startswith("counterfoil: line ")
    assert said in told
    assert mend.startswith("  this takes ")
    assert ("make the export again" in mend) == ("cut" in said)
    assert json.loads(cli("import", str(target), "--json").out)["code"] == "invalid_argument"


@pytest.mark.parametrize("kind", ["missing", "folder"])
def test_a_file_that_is_not_there_is_a_usage_error(
    cli: CommandLine, journal: Path, tmp_path: Path, kind: str
) -> None:
    target = tmp_path / "journal.jsonl"
    if kind == "folder":
        target.mkdir()
    refused = cli("import", str(target))
    assert (refused.code, refused.out) == (2, "")
    assert "cannot be read" in refused.err


@pytest.mark.parametrize("words", [("backup", "b.db"), ("export",), ("prune", "--older-than", "1d")])
def test_where_there_is_no_journal_none_is_made(
    cli: CommandLine, journal: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    nowhere = tmp_path / "nowhere" / "journal.db"
    assert cli(*words, "--journal", str(nowhere)).code == 3
    assert not nowhere.exists()


@pytest.mark.parametrize("name", ["backup", "restore", "prune", "export", "import"])
def test_help_shows_how_it_is_used(cli: CommandLine, name: str) -> None:
    helped = cli(name, "--help")
    assert helped.code == 0
    assert f"counterfoil {name}" in helped.out.split("Examples:")[1]


def test_nobody_is_asked_to_accept_the_gap_of_a_journal_that_has_none(
    cli: CommandLine, journal: Path
) -> None:
    told = at_terminal(["restore", "--accept-gap", "--all"], answer="every run\n")
    assert told.code == 2
    assert "this journal was never restored" in told.out
    assert "To confirm" not in told.out


@pytest.mark.parametrize("words", [("backup",), ("export", "-o")])
@pytest.mark.parametrize("file", ["nowhere/new.file", ""])
def test_a_new_file_in_no_folder_is_a_usage_error_and_not_the_journals(
    cli: CommandLine, journal: Path, tmp_path: Path, words: tuple[str, ...], file: str
) -> None:
    answer = cli(*words, str(tmp_path / file) if file else "")
    assert (answer.code, answer.out) == (2, "")
    assert "in a folder that is there" in answer.err or "names no file" in answer.err
    assert "journal:" not in answer.err
