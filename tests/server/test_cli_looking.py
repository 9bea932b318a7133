"""What people look at: readable at 80 columns, whole as JSON, and inert whatever was stored."""

import json
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from rich.cells import cell_len

from command_line import (
    HOSTILE,
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
from counterfoil.server.people.operation_page import what
from counterfoil.server.people.rendering import counted, size
from counterfoil.store.domain.commands import (
    BeginRun,
    Caller,
    OperationRef,
    PlanStep,
    RecordProgress,
    ResumePlan,
)
from counterfoil.store.journal import Journal
from journals import AGENT, Desk, FakeClock, after, open_desk, plain_sql

__all__ = ["cli", "journal"]

ALICE = (RUN, "email:alice")
EVERY_LOOK = [
    ("runs",),
    ("plan", RUN, "--all"),
    ("show", *ALICE),
    ("find", "--text", "email"),
    ("tail", "-n", "50"),
    ("check",),
    ("doctor",),
    ("verify",),
]


def parsed(text: str) -> Any:
    """Give the one JSON document that `text` is."""
    return json.loads(text)


def test_runs_lists_the_open_runs_with_what_is_in_doubt_first(cli: CommandLine, journal: Path) -> None:
    answer = cli("runs")
    assert answer.code == 0
    line = next(line for line in answer.out.splitlines() if line.startswith(RUN))
    assert "1 in_doubt, 1 planned" in line
    assert "1 disputed" in answer.out


def test_runs_as_json_is_one_document_with_every_run(cli: CommandLine, journal: Path) -> None:
    answer = parsed(cli("runs", "--json").out)
    assert [run["run"] for run in answer["runs"]] == ["live/1", "rent/2026-11", RUN]
    assert answer["runs"][2]["counts"] == {"in_doubt": 1, "planned": 1, "succeeded": 1}
    assert answer["cut"] is False


def test_runs_over_the_limit_say_that_there_are_more(cli: CommandLine, journal: Path) -> None:
    assert "More than 1" in cli("runs", "-n", "1").out
    answer = parsed(cli("runs", "-n", "1", "--json").out)
    assert (len(answer["runs"]), answer["cut"], answer["complete"]) == (1, True, False)


def test_runs_that_move_while_they_are_read_are_told(
    cli: CommandLine, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fill() -> None:
        async with open_desk(journal.parent, name=journal.name) as desk:
            for number in range(25):
                await desk.at("k", run=f"many/{number:02}").begin()

    anyio.run(fill)
    assert "changed_meanwhile" not in parsed(cli("runs", "--json").out)
    listed = Journal.resume_plan

    async def busy(of: Journal, command: ResumePlan, caller: Caller) -> dict[str, Any]:
        answer = await listed(of, command, caller)
        await of.record_progress(RecordProgress(ref=OperationRef(run="many/00")), caller)
        return answer

    monkeypatch.setattr(Journal, "resume_plan", busy)
    assert "may be missing: ask again" in cli("runs").out
    assert parsed(cli("runs", "--json").out)["changed_meanwhile"] is True


def test_plan_says_what_is_next_and_settled_steps_only_with_all(cli: CommandLine, journal: Path) -> None:
    answer = parsed(cli("plan", RUN, "--json").out)
    assert [(step["key"], step["next"]) for step in answer["steps"]] == [
        ("email:alice", "reconcile"),
        ("email:[red]carol[/red]", "wait"),
    ]
    every = parsed(cli("plan", RUN, "--all", "--json").out)
    assert [step["next"] for step in every["steps"]] == ["reconcile", "wait", "skip"]
    shown = cli("plan", RUN).out
    assert "reconcile" in shown
    assert "email:bob" not in shown
    assert "It may have happened, and nobody knows" in shown


def test_the_reason_and_the_target_of_a_step_are_whole_at_80_columns(
    cli: CommandLine, tmp_path: Path
) -> None:
    async def fill() -> None:
        clock = FakeClock(time.time_ns() // 1_000, boot=None)
        async with open_desk(tmp_path, clock=clock) as desk:
            await desk.begin(target="alice@example.org")
            await desk.failure("none", evidence={"status": 402})
            await desk.at("another").begin(target="bob@example.org")

    anyio.run(fill)
    shown = cli("plan", "run-1", "--journal", str(tmp_path / "journal.db")).out.split()
    assert [word for word in ("retry_after_failure", "alice@example.org") if word not in shown] == []


def test_a_plan_of_many_steps_is_given_whole(cli: CommandLine, journal: Path) -> None:
    async def fill() -> None:
        clock = FakeClock(time.time_ns() // 1_000, boot=None)
        async with open_desk(journal.parent, clock=clock) as desk:
            for number in range(120):
                await Desk(desk.journal, clock, run="long/1", key=f"step-{number}").begin()

    anyio.run(fill)
    answer = parsed(cli("plan", "long/1", "--json").out)
    assert {step["key"] for step in answer["steps"]} == {f"step-{number}" for number in range(120)}
    assert answer["cut"] is False
    assert "next_cursor" not in answer


@pytest.mark.parametrize(
    "words", [("plan", "weekly-raport"), ("tail", "weekly-raport"), ("show", RUN, "emial:alice")]
)
def test_what_is_not_there_is_said_with_the_nearest_names(
    cli: CommandLine, journal: Path, words: tuple[str, ...]
) -> None:
    answer = cli(*words)
    assert (answer.code, answer.out) == (1, "")
    assert "near: " in answer.err
    fault = cli(*words, "--json")
    assert fault.code == 1
    assert parsed(fault.out)["code"] == "not_found"
    assert parsed(fault.out)["candidates"]


def test_only_what_is_near_is_called_near(cli: CommandLine, journal: Path) -> None:
    def listed(*words: str) -> list[str]:
        return [line.strip() for line in cli(*words).err.splitlines()[2:]]

    assert listed("plan", "WEEKLY-report/2026-w47") == [f"near: {RUN}"]
    assert listed("plan", "rent") == ["near: rent/2026-11"]
    assert listed("plan", "zzz") == []
    assert [line.partition(":")[0] for line in listed("show", "zzz", "k")] == ["touched last"] * 3
    keys = listed("show", RUN, "zzz")
    assert {line.partition(":")[0] for line in keys} == {"in this run"}
    assert len(keys) == 3
    unknown = listed("show", "op_aaaaaaaaaaaaaaaaaaaa")
    assert {line.partition(":")[0] for line in unknown} == {"changed last"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("op_4cmf3jvlp3", "operation: looks like an operation id that was cut or made up"),
        ("op_1cmf3jvlp3ym4lxh7y2q", "operation: looks like an operation id with a letter or digit mistyped"),
        ("1", "operation: is no operation id but a number, perhaps that of an attempt"),
    ],
)
def test_what_is_no_operation_id_is_not_said_to_be_one(
    cli: CommandLine, journal: Path, given: str, said: str
) -> None:
    answer = cli("show", given)
    assert answer.code == 2
    assert answer.err.splitlines()[0] == f"counterfoil: {said}"


def test_show_takes_an_id_or_run_and_key(cli: CommandLine, journal: Path) -> None:
    by_names = parsed(cli("show", *ALICE, "--json").out)
    by_id = parsed(cli("show", by_names["operation"], "--json").out)
    assert {**by_id, "as_of": ""} == {**by_names, "as_of": ""}
    assert cli("show", "email:alice").code == 2
    assert cli("show", "a", "b", "c").code == 2


def test_show_gives_every_attempt_receipt_finding_and_event(cli: CommandLine, journal: Path) -> None:
    async def fill() -> None:
        clock = FakeClock(time.time_ns() // 1_000 - 3_600_000_000, boot=None)
        async with open_desk(journal.parent, clock=clock) as desk:
            tried = Desk(desk.journal, clock, run="tries/1", key="k")
            for number in range(1, 8):
                await tried.begin()
                await tried.failure("none", attempt=number, evidence={"http_status": 400})
                clock.advance(1)
            for number in range(4):
                await tried.reconcile("inconclusive", as_of=clock.text)
                clock.advance(number + 1)
            await tried.begin(repeat="unsafe")
            for number in range(8):
                await tried.receipt(external_id=f"m-{number}", kind="message" if number == 0 else "other")

    anyio.run(fill)
    answer = parsed(cli("show", "tries/1", "k", "--json").out)
    assert [attempt["attempt"] for attempt in answer["attempts"]] == list(range(1, 9))
    assert len(answer["findings"]) == 4
    assert [receipt["receipt"] for receipt in answer["receipts"]] == list(
        range(1, len(answer["receipts"]) + 1)
    )
    assert len(answer["receipts"]) >= 6
    assert len(answer["history"]) == answer["history_in_all"]


def test_the_history_says_what_was_fixed_and_whose_numbers_it_shows(
    cli: CommandLine, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    page = " ".join(cli("show", *ALICE).out.split())
    assert "History (# is the number in the log of its run)" in page
    history = page.partition("History")[2]
    assert history.count("terms_fixed") == 1
    assert "repeat unsafe" in history
    assert "lookup by search_sent" in history
    assert "settle_seconds 300" in history


def test_show_says_where_to_look_only_while_that_is_open(cli: CommandLine, journal: Path) -> None:
    page = cli("show", RUN, "email:alice").out
    assert "look since" in page
    assert "settles at" in page
    page = cli("show", RUN, "email:bob").out
    assert "settled at" in page
    assert "look since" not in page
    assert "settles at" not in page


def test_show_gives_the_bodies_whole_as_json_and_begun_on_the_page(cli: CommandLine, journal: Path) -> None:
    async def fill() -> None:
        clock = FakeClock(time.time_ns() // 1_000, boot=None)
        async with open_desk(journal.parent, clock=clock) as desk:
            await Desk(desk.journal, clock, run="body/1", key="k").begin(payload="word " * 2_000)

    anyio.run(fill)
    body = parsed(cli("show", "body/1", "k", "--json").out)["payload"]
    assert body == {"format": "text", "characters": 10_000, "content": "word " * 2_000}
    assert "the first 600 of 10000 characters" in cli("show", "body/1", "k").out


def test_find_by_state_text_action_and_reference(cli: CommandLine, journal: Path) -> None:
    def keys(*words: str) -> list[str]:
        return [step["key"] for step in parsed(cli("find", *words, "--json").out)["operations"]]

    assert keys("--state", "in_doubt") == ["email:alice"]
    assert keys("--state", "disputed") == ["pay:rent"]
    assert keys("--action", "pay.send") == ["pay:rent"]
    assert keys("--run", RUN, "--text", "bob") == ["email:bob"]
    assert keys("--external-id", "<m-1@example.org>") == ["email:bob"]
    assert keys("--external-id", "nobody's") == []


def test_find_says_when_each_was_changed(cli: CommandLine, journal: Path) -> None:
    found = parsed(cli("find", "--json").out)["operations"]
    changed = [one["changed_at"] for one in found]
    assert (len(changed) > 1, changed) == (True, sorted(changed, reverse=True))
    shown = cli("find").out
    assert [at for at in changed if at[:10] not in shown or f"{at[11:19]}Z" not in shown] == []


def test_find_by_workflow_and_by_time(cli: CommandLine, tmp_path: Path) -> None:
    async def fill(clock: FakeClock) -> None:
        async with open_desk(tmp_path, clock=clock, name="timed.db") as desk:
            await desk.at("first").begin(workflow="nightly")
            clock.advance(60)
            await desk.at("second", run="run-2").begin(workflow="weekly")

    anyio.run(fill, FakeClock())

    def keys(*words: str) -> list[str]:
        answer = cli("--journal", f"sqlite:///{tmp_path / 'timed.db'}", "find", *words, "--json")
        return [step["key"] for step in parsed(answer.out)["operations"]]

    assert keys() == ["second", "first"]
    assert keys("--workflow", "nightly") == ["first"]
    assert keys("--since", after(60)) == ["second"]
    assert keys("--until", after(60)) == ["first"]
    assert keys("--since", after(0), "--until", after(61), "--workflow", "weekly") == ["second"]
    wrong = cli("find", "--since", "yesterday")
    assert (wrong.code, "since" in wrong.err) == (2, True)
    assert cli("find", "--external-id", "m-1", "--workflow", "nightly").code == 2


def test_a_word_to_find_without_its_option_is_told_the_option(cli: CommandLine, journal: Path) -> None:
    answer = cli("find", "alice", "in wonderland")
    assert (answer.code, answer.out) == (2, "")
    assert "counterfoil find --text 'alice in wonderland'" in answer.err


def test_finding_nothing_is_no_error_and_no_proof(cli: CommandLine, journal: Path) -> None:
    answer = cli("find", "--text", "nothing like it")
    assert answer.code == 0
    assert "does not prove that nothing was done" in answer.out


def test_tail_gives_the_newest_events_the_newest_last(cli: CommandLine, journal: Path) -> None:
    events = parsed(cli("tail", "-n", "3", "--json").out)["events"]
    assert [event["event"] for event in events][-1] == "attempt_granted"
    assert len(events) == 3
    assert all(event["run"] == "live/1" for event in events)
    of_run = parsed(cli("tail", RUN, "-n", "100", "--json").out)["events"]
    assert {event["run"] for event in of_run} == {RUN}


def test_tail_breaks_a_line_below_its_event_and_shows_no_digest(cli: CommandLine, journal: Path) -> None:
    lines = cli("tail", *ALICE[:1], "-n", "100").out.splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ  |\s{20}", line) for line in lines)
    assert "sha256:" not in "".join(lines)


def test_what_is_said_of_an_event_ends_with_a_mark_where_it_is_cut() -> None:
    said = what({"data": {"reason": "x" * 500}})
    assert (len(said), said[-2:]) == (160, " …")
    assert what({"data": {"at": "2026-11-29T12:00:00.000000Z"}}) == "at 2026-11-29 12:00:00Z"


def test_tail_follows_what_another_process_records_and_ends_at_ctrl_c(journal: Path) -> None:
    watcher = subprocess.Popen(
        program("tail", "--follow", "-n", "1", "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert watcher.stdout is not None
        assert json.loads(watcher.stdout.readline())["event"] == "attempt_granted"

        async def record() -> None:
            clock = FakeClock(time.time_ns() // 1_000, boot=None)
            async with open_desk(journal.parent, clock=clock) as desk:
                await Desk(desk.journal, clock, run="new/1", key="k").begin()

        anyio.run(record)
        event = json.loads(watcher.stdout.readline())
        assert (event["run"], event["event"]) == ("new/1", "operation_created")
        watcher.send_signal(signal.SIGINT)
        assert watcher.wait(WAIT_SECONDS) == 130
        assert watcher.stderr is not None
        assert watcher.stderr.read() == b""
    finally:
        watcher.kill()
        watcher.communicate()


@pytest.mark.parametrize("words", EVERY_LOOK)
def test_every_look_fits_80_columns_and_lets_nothing_stored_act(
    cli: CommandLine, journal: Path, words: tuple[str, ...]
) -> None:
    out = cli(*words).out
    assert out.strip()
    assert max(cell_len(line) for line in out.splitlines()) <= 80
    assert not [character for character in out if not (character.isprintable() or character == "\n")]


@pytest.mark.parametrize("words", EVERY_LOOK)
def test_every_look_as_json_is_one_inert_document_and_nothing_else(
    cli: CommandLine, journal: Path, words: tuple[str, ...]
) -> None:
    answer = cli(*words, "--json")
    assert isinstance(parsed(answer.out), dict)
    assert not [character for character in answer.out if not (character.isprintable() or character == "\n")]
    assert answer.err == ""


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_an_operation_id_is_never_broken_or_cut(
    cli: CommandLine, journal: Path, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    operation = state_of(journal, *ALICE)["operation"]
    assert operation in cli("plan", RUN).out
    assert operation in cli("find", "--state", "in_doubt").out


def test_the_name_of_a_conversations_run_is_whole_at_80_columns(
    cli: CommandLine, journal: Path, tmp_path: Path
) -> None:
    run, target = "conversation/0b1c2d3e-1234-5678-9abc-0123456789ab", "https://example.org/me/site.git main"

    async def fill() -> None:
        clock = FakeClock(time.time_ns() // 1_000, boot=None)
        async with open_desk(tmp_path, clock=clock) as desk:
            await Desk(desk.journal, clock, run=run, key="git.push:main").begin(target=target)

    anyio.run(fill)
    alone = ("--journal", str(tmp_path / "journal.db"))
    assert run in cli("runs", *alone).out
    found = cli("find", *alone).out
    assert [name for name in (run, "git.push:main", "email.send") if name not in found] == []


def test_a_table_fits_where_stdout_has_ascii_alone(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    out = process("runs").out
    assert "-----" in out
    assert max(map(len, out.splitlines())) <= 80


def test_stored_markup_is_shown_as_it_is(cli: CommandLine, journal: Path) -> None:
    out = cli("show", *ALICE).out
    assert "[bold red]x[/bold red]" in out
    assert r"\u001b[31mred" in out
    assert r"\u202eabc" in out
    assert HOSTILE not in out


def test_colours_stand_only_on_a_terminal_and_never_with_no_color(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b[" not in process("runs").out
    assert "\x1b[1;33min_doubt" in at_terminal(["runs"]).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert ";33m" not in at_terminal(["runs"]).out


def test_a_reader_that_goes_away_is_no_failure(journal: Path) -> None:
    for words in (
        ("runs",),
        ("doctor", "--json"),
        ("tail",),
        ("--help",),
        ("runs", "--help"),
        ("--version",),
    ):
        reading = subprocess.Popen(program(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert reading.stdout is not None
        assert reading.stderr is not None
        reading.stdout.close()
        assert reading.wait(WAIT_SECONDS) in (0, 1)
        assert reading.stderr.read() == b""
        reading.stderr.close()


@pytest.mark.parametrize(
    "words",
    [
        ("runs",),
        ("runs", "--json"),
        ("plan", "nope", "--json"),
        ("find", "--state", "x", "--json"),
        ("--help",),
    ],
)
def test_an_answer_that_cannot_be_written_is_told_in_a_sentence(
    journal: Path, words: tuple[str, ...]
) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(program(*words), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("counterfoil: the answer could not be written: No space left on device")
    assert len(done.stderr.splitlines()) == 2


def test_a_command_without_a_stdout_does_its_work(journal: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *program("runs")], stderr=subprocess.PIPE, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_export_whose_reader_goes_away_is_said_to_be_cut(journal: Path) -> None:
    exporting = subprocess.Popen(
        program("export"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=0
    )
    assert exporting.stdout is not None
    exporting.stdout.close()
    assert exporting.wait(WAIT_SECONDS) == 1
    assert exporting.stderr is not None
    assert exporting.stderr.read() == "counterfoil: whoever read this went away: the export is cut\n"
    exporting.stderr.close()


def test_no_newest_events_are_asked_for_and_none_are_shown(cli: CommandLine, journal: Path) -> None:
    assert (cli("tail", "-n", "0").code, cli("tail", "-n", "0").out) == (0, "")


def test_settings_count_before_the_command_and_after_it(
    cli: CommandLine, journal: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere.db"
    for words in (("--journal", str(elsewhere), "runs"), ("runs", "--journal", str(elsewhere))):
        assert cli(*words).code == 3
    assert cli("--namespace", "another", "runs", "--json").code == 0
    assert parsed(cli("--json", "runs", "--namespace", "another").out)["runs"] == []


def test_one_of_something_is_counted_as_one(cli: CommandLine, journal: Path, tmp_path: Path) -> None:
    async def fill() -> None:
        clock = FakeClock(time.time_ns() // 1_000, boot=None)
        async with open_desk(tmp_path, clock=clock) as desk:
            await Desk(desk.journal, clock, run="one/1", key="post").begin()

    anyio.run(fill)
    alone = str(tmp_path / "journal.db")
    assert "of 1 operation in 1 run replayed" in cli("verify", "--journal", alone).out
    assert "of 5 operations in 3 runs replayed" in cli("verify").out
    exported = cli("export", "-o", str(tmp_path / "one.jsonl"), "--journal", alone)
    assert "1 operation in 1 run, 3 events exported" in exported.out + exported.err
    copied = cli("copy", alone, str(tmp_path / "copy.db"))
    assert "1 operation and 0 references in 1 run, 1 with one log in both" in " ".join(copied.out.split())
    assert "FROM is in use: 1 live attempt, 0 runs held." in " ".join(copied.out.split())
    assert cli("backup", str(tmp_path / "backup.db"), "--journal", alone).code == 0
    restored = cli("restore", str(tmp_path / "backup.db"), "--journal", str(tmp_path / "restored.db"))
    assert "1 operation in 1 run" in restored.out
    assert (size(1), size(2), counted(2, "body", "bodies")) == ("1 byte", "2 bytes", "2 bodies")


def test_on_a_fresh_machine_it_is_said_what_makes_a_journal(
    cli: CommandLine, journal: Path, tmp_path: Path
) -> None:
    for name in journal.parent.glob("journal.db*"):
        name.unlink()
    for words in (("runs",), ("plan", RUN), ("check",), ("tail",)):
        answer = cli(*words)
        assert (answer.code, answer.out) == (3, "")
        assert answer.err.startswith(f"counterfoil: there is no journal at {journal} yet\n")
        assert "`counterfoil install CLIENT`" in answer.err
    assert not journal.exists()


def test_what_looks_like_another_effect_is_shown_with_it(
    cli: CommandLine, journal: Path, tmp_path: Path
) -> None:
    effect: dict[str, Any] = {"action": "email.send", "target": "bob@example.org", "args": {"n": 1}}

    async def fill() -> None:
        clock = FakeClock(time.time_ns() // 1_000, boot=None)
        async with open_desk(tmp_path, clock=clock) as desk:
            theirs = Desk(desk.journal, clock, run="one/1", key="K2")
            await theirs.begin(**effect)
            await theirs.receipt(external_id="m-1")
        clock.advance(1)
        async with open_desk(journal.parent, clock=clock) as desk:
            step = PlanStep(key="K1", **effect)
            await desk.journal.begin_run(BeginRun(run="one/1", plan=(step,)), AGENT)

    anyio.run(fill)
    assert (
        cli("export", "-o", str(tmp_path / "one.jsonl"), "--journal", str(tmp_path / "journal.db")).code == 0
    )
    assert cli("import", str(tmp_path / "one.jsonl")).code == 0
    page = " ".join(cli("show", "one/1", "K1").out.split())
    other = state_of(journal, "one/1", "K2")["operation"]
    assert "next stop: possible_duplicate" in page
    assert f"looks like K2 ({other}), succeeded: the same fingerprint" in page
    plan = " ".join(cli("plan", "one/1").out.split())
    assert "stop, possible_duplicate: It looks like an effect that is on file under another key" in plan


def test_a_context_that_is_damaged_is_told_to_whoever_looks(cli: CommandLine, journal: Path) -> None:
    async def write() -> None:
        async with open_desk(journal.parent, name=journal.name) as desk:
            await desk.at("key-1", run="under/1").begin(context={"model": "m-1"})

    anyio.run(write)
    plain_sql(journal, "UPDATE contexts SET body = 'null'")
    plan, found, shown = (
        cli("plan", "under/1"),
        cli("find", "--run", "under/1"),
        cli("show", "under/1", "key-1"),
    )
    assert (plan.code, found.code, shown.code) == (1, 0, 0)
    for answer in (plan, found, shown):
        assert "the context that this was made under" in " ".join(answer.out.split())
    assert "context sha256:" in " ".join(cli("verify").out.split())
    assert cli("plan", RUN).code == 0
