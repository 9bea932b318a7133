"""Backups of a journal in use, and what a journal put back from one may not pretend to know."""

import json
import sqlite3
import stat
from pathlib import Path
from typing import Any

import anyio
import pytest

from counterfoil.store.domain.commands import BeginRun, GrantAuthority, Lookup, PlanStep, ResumePlan
from counterfoil.store.domain.instants import parse_rfc3339
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import Forbidden, InvalidArgument, JournalUnavailable
from counterfoil.store.restoring import Restored, restore_journal
from journals import AGENT, ANOTHER, PERSON, FakeClock, as_caller, open_desk

pytestmark = pytest.mark.anyio

AN_HOUR = 3_600
KEYED: dict[str, Any] = {"repeat": "keyed", "key_ttl_seconds": 86_400}
LOOKUP = Lookup(tool="search_sent")


def words(answer: dict[str, Any]) -> str:
    return f"{answer['next']} {answer['reason']}"


async def restore(folder: Path, clock: FakeClock, *, into: str = "restored", **options: Any) -> Restored:
    """Put the backup back into another folder, a minute after it was made."""
    clock.advance(60)
    return await restore_journal(
        folder / "backup.db",
        folder / into / "journal.db",
        clock=clock,
        policy=Policy(),
        caller=PERSON,
        **options,
    )


async def backed_up(folder: Path, clock: FakeClock) -> None:
    """Leave a backup of a journal with an operation in each of several states, and go on after it."""
    async with open_desk(folder, clock=clock) as desk:
        done = desk.at("done")
        await done.begin()
        await done.receipt(external_id="m-done")
        await desk.at("running").begin(lease_seconds=7_200)
        failed = desk.at("failed")
        await failed.begin()
        await failed.failure("none", evidence={"status": 401})
        for key, fields in (("unsafe", {"lookup": LOOKUP}), ("keyed", KEYED), ("safe", {"repeat": "safe"})):
            await desk.at(key).begin(**fields)
            await desk.at(key).failure("unknown")
        plan = (PlanStep(key="planned", action="email.send", target="planned@example.org"),)
        await desk.journal.begin_run(BeginRun(run="run-1", plan=plan), as_caller(AGENT))
        clock.advance(10)
        await desk.journal.keeper.backup(folder / "backup.db")


def names_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


OPEN_KEYS = ("running", "failed", "unsafe", "keyed", "safe", "planned", "never-seen")


async def test_a_backup_is_one_private_whole_file_and_its_journal_verifies(tmp_path: Path) -> None:
    clock = FakeClock()
    await backed_up(tmp_path, clock)
    assert stat.S_IMODE((tmp_path / "backup.db").stat().st_mode) == 0o600
    assert names_in(tmp_path) == ["backup.db", *(name for name in names_in(tmp_path) if "journal" in name)]
    async with open_desk(tmp_path, clock=clock, name="backup.db") as desk:
        assert (await desk.journal.reader.verify()).faults == ()
        assert await desk.at("done").state() == "succeeded"


async def test_a_backup_is_taken_while_servers_write_and_holds_what_was_answered_before(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk, open_desk(tmp_path, clock=clock) as elsewhere:
        for number in range(20):
            await desk.at(f"before-{number}").begin()
        is_over = False

        async def write() -> None:
            number = 0
            while not is_over:
                await elsewhere.at(f"during-{number}", run="other").begin()
                number += 1

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            await desk.journal.keeper.backup(tmp_path / "backup.db")
            is_over = True
        assert (await elsewhere.journal.reader.verify()).faults == ()
    async with open_desk(tmp_path, clock=clock, name="backup.db") as copy:
        assert (await copy.journal.reader.verify()).faults == ()
        assert len((await copy.plan(run="run-1"))["counts"]) == 1
        assert (await copy.plan(run="run-1"))["counts"] == {"in_progress": 20}


async def test_a_backup_overwrites_nothing(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        for name in ("letter.txt", "journal.db"):
            (tmp_path / "letter.txt").write_text("dear")
            with pytest.raises(Forbidden, match="there already"):
                await desk.journal.keeper.backup(tmp_path / name)
        assert (tmp_path / "letter.txt").read_text() == "dear"
        with pytest.raises(JournalUnavailable, match="no file can be made"):
            await desk.journal.keeper.backup(tmp_path / "nowhere" / "backup.db")


async def test_a_restored_journal_verifies_and_still_skips_what_was_settled(tmp_path: Path) -> None:
    clock = FakeClock()
    await backed_up(tmp_path, clock)
    restored = await restore(tmp_path, clock)
    assert (restored.runs, restored.operations, restored.faults, restored.moved) == (1, 7, (), ())
    assert restored.restored_at - restored.backed_up_at == 60 * 1_000_000
    async with open_desk(tmp_path / "restored", clock=clock) as desk:
        assert (await desk.journal.reader.verify()).faults == ()
        assert words(await desk.at("done").begin()) == "skip already_succeeded"
        shown = (await desk.journal.resume_plan(ResumePlan(run="elsewhere"), AGENT))["journal"]
        assert parse_rfc3339(shown["restored_at"], field="") == restored.restored_at


@pytest.mark.parametrize("key", OPEN_KEYS)
async def test_nothing_without_an_outcome_is_performed_after_a_restore(tmp_path: Path, key: str) -> None:
    clock = FakeClock()
    await backed_up(tmp_path, clock)
    await restore(tmp_path, clock)
    expected = "reconcile in_doubt" if key in ("running", "unsafe", "keyed") else "ask history_gap"
    async with open_desk(tmp_path / "restored", clock=clock) as desk:
        step = desk.at(key)
        assert words(await step.begin(caller=ANOTHER)) == expected
        # Plans and checks say what begin says.
        assert words(await step.check()) == expected
        plan = await step.plan()
        assert [words(entry) for entry in plan["steps"] if entry["key"] == key] == [expected]


async def test_a_run_that_nobody_knew_is_asked_about_as_well(tmp_path: Path) -> None:
    clock = FakeClock()
    await backed_up(tmp_path, clock)
    await restore(tmp_path, clock)
    async with open_desk(tmp_path / "restored", clock=clock) as desk:
        elsewhere = desk.at("key-1", run="begun-in-the-lost-time")
        assert words(await elsewhere.begin()) == "ask history_gap"
        assert await elsewhere.state() == "planned"


async def test_the_same_call_sent_again_after_a_restore_is_no_second_grant(tmp_path: Path) -> None:
    clock = FakeClock()
    caller = as_caller(AGENT)
    async with open_desk(tmp_path, clock=clock) as desk:
        assert words(await desk.begin(caller=caller, lease_seconds=7_200)) == "perform first_attempt"
        await desk.journal.keeper.backup(tmp_path / "backup.db")
        assert words(await desk.begin(caller=caller, lease_seconds=7_200)) == "perform replayed"
    await restore(tmp_path, clock)
    async with open_desk(tmp_path / "restored", clock=clock) as desk:
        assert words(await desk.begin(caller=caller, lease_seconds=7_200)) == "reconcile in_doubt"


@pytest.mark.parametrize("waited", [0, 400])
async def test_no_holder_of_before_a_restore_may_go_on(tmp_path: Path, waited: float) -> None:
    from counterfoil.store.domain.commands import RecordProgress

    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await desk.begin(lease_seconds=300)
        clock.advance(waited)
        await desk.journal.keeper.backup(tmp_path / "backup.db")
    await restore(tmp_path, clock)
    async with open_desk(tmp_path / "restored", clock=clock) as desk:
        going_on = RecordProgress(ref=desk.ref, attempt=1, message="still at it")
        answer = await desk.journal.record_progress(going_on, as_caller(AGENT))
        assert words(answer) == "reconcile in_doubt"


async def test_the_settle_time_starts_anew_with_a_restore(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await desk.begin(lookup=LOOKUP)
        clock.advance(AN_HOUR)
        await desk.journal.keeper.backup(tmp_path / "backup.db")
    await restore(tmp_path, clock)
    async with open_desk(tmp_path / "restored", clock=clock) as desk:
        early = await desk.reconcile("not_performed", as_of=clock.text)
        assert words(early) == "wait settling"
        clock.advance(301)
        assert words(await desk.reconcile("not_performed", as_of=clock.text)) == "continue recorded"
        # What an agent finds settles the state, and whether it may be attempted stays a person's question.
        assert await desk.state() == "failed"
        assert words(await desk.begin()) == "ask history_gap"


async def test_idempotency_keys_of_before_a_restore_count_as_over(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        first = await desk.begin(**KEYED)
        await desk.failure("unknown")
        await desk.journal.keeper.backup(tmp_path / "backup.db")
        assert words(await desk.begin(**KEYED)) == "perform repeat_keyed"
    await restore(tmp_path, clock)
    async with open_desk(tmp_path / "restored", clock=clock) as desk:
        await desk.journal.keeper.accept_gap("run-1", PERSON)
        assert words(await desk.begin(**KEYED)) == "reconcile in_doubt"
        await desk.reconcile("not_performed", caller=PERSON)
        again = await desk.begin(**KEYED)
        assert words(again) == "perform retry_after_failure"
        assert again["idempotency_key"] != first["idempotency_key"]
        # The new key is one of after the restore, and lives as any other does.
        await desk.failure("unknown", attempt=2)
        assert words(await desk.begin(**KEYED)) == "perform repeat_keyed"


async def test_a_person_accepts_the_gap_of_one_run_or_of_all(tmp_path: Path) -> None:
    clock = FakeClock()
    await backed_up(tmp_path, clock)
    await restore(tmp_path, clock)
    async with open_desk(tmp_path / "restored", clock=clock) as desk:
        keeper = desk.journal.keeper
        with pytest.raises(Forbidden):
            await keeper.accept_gap(None, AGENT)
        assert (await keeper.accept_gap("run-1", PERSON)).is_new
        assert not (await keeper.accept_gap("run-1", PERSON)).is_new
        assert words(await desk.at("planned").begin()) == "perform first_attempt"
        assert words(await desk.at("safe").check()) == "begin repeat_safe"
        elsewhere = desk.at("key-1", run="another")
        assert words(await elsewhere.begin()) == "ask history_gap"
        await keeper.accept_gap(None, PERSON)
        assert words(await elsewhere.begin()) == "perform first_attempt"


async def test_what_was_accepted_stands_in_the_namespaces_log(tmp_path: Path) -> None:
    clock = FakeClock()
    await backed_up(tmp_path, clock)
    await restore(tmp_path, clock)
    async with open_desk(tmp_path / "restored", clock=clock) as desk:
        await desk.journal.keeper.accept_gap("run-1", PERSON)
        clock.advance(60)
        assert not (await desk.journal.keeper.accept_gap("run-1", PERSON)).is_new
        await desk.journal.keeper.accept_gap(None, PERSON)
        await desk.journal.grant(GrantAuthority(action="pay.*"), as_caller(PERSON))
        assert (await desk.journal.reader.verify()).faults == ()
    with sqlite3.connect(tmp_path / "restored" / "journal.db") as raw:
        events = raw.execute("SELECT kind, at, caller, data FROM namespace_events ORDER BY seq").fetchall()
        rows = raw.execute("SELECT run, accepted_at, caller FROM accepted_gaps ORDER BY run DESC").fetchall()
        [(restored_at,)] = raw.execute("SELECT restored_at FROM restores").fetchall()
    assert [kind for kind, *_ in events] == ["gap_accepted", "gap_accepted", "grant_given"]
    assert [json.loads(data) for *_, data in events[:2]] == [
        {"run": "run-1", "restored_at": restored_at},
        {"run": "", "restored_at": restored_at},
    ]
    assert rows == [("run-1", *events[0][1:3]), ("", *events[1][1:3])]
    assert json.loads(rows[0][2])["person"] is True


@pytest.mark.parametrize(
    ("forgery", "told"),
    [
        ("UPDATE accepted_gaps SET run = ''", "accepted gaps that its events do not lead to"),
        ("UPDATE accepted_gaps SET accepted_at = accepted_at - 1", "accepted gaps that its events"),
        ("DELETE FROM accepted_gaps", "accepted gaps that its events do not lead to"),
        ("DELETE FROM namespaces", "the run's row says 0"),
        ("DELETE FROM namespace_events", "the log ends at 0"),
        (
            "INSERT INTO accepted_gaps SELECT 'other', '', restored_at, 1, '{}' FROM restores",
            "namespace other: there are accepted gaps that its events do not lead to",
        ),
    ],
)
async def test_a_gap_accepted_past_the_log_is_found(tmp_path: Path, forgery: str, told: str) -> None:
    clock = FakeClock()
    await backed_up(tmp_path, clock)
    await restore(tmp_path, clock)
    async with open_desk(tmp_path / "restored", clock=clock) as desk:
        await desk.journal.keeper.accept_gap("run-1", PERSON)
    with sqlite3.connect(tmp_path / "restored" / "journal.db") as raw:
        raw.execute(forgery)
    async with open_desk(tmp_path / "restored", clock=clock) as desk:
        faults = (await desk.journal.reader.verify()).faults
        assert any(told in fault for fault in faults), faults


async def test_a_gap_that_only_a_row_says_was_accepted_is_accepted_anew(tmp_path: Path) -> None:
    clock = FakeClock()
    await backed_up(tmp_path, clock)
    await restore(tmp_path, clock)
    with sqlite3.connect(tmp_path / "restored" / "journal.db") as raw:
        raw.execute("INSERT INTO accepted_gaps SELECT 'default', 'run-1', restored_at, 1, '{}' FROM restores")
    async with open_desk(tmp_path / "restored", clock=clock) as desk:
        [fault] = (await desk.journal.reader.verify()).faults
        assert "counterfoil restore --accept-gap" in fault
        assert (await desk.journal.keeper.accept_gap("run-1", PERSON)).is_new
        assert (await desk.journal.reader.verify()).faults == ()


async def test_a_second_restore_is_a_gap_of_its_own(tmp_path: Path) -> None:
    clock = FakeClock()
    await backed_up(tmp_path, clock)
    await restore(tmp_path, clock)
    async with open_desk(tmp_path / "restored", clock=clock) as desk:
        await desk.journal.keeper.accept_gap(None, PERSON)
        (tmp_path / "backup.db").unlink()
        await desk.journal.keeper.backup(tmp_path / "backup.db")
    await restore(tmp_path, clock, into="again")
    async with open_desk(tmp_path / "again", clock=clock) as desk:
        assert words(await desk.at("planned").begin()) == "ask history_gap"


async def test_a_journal_that_was_never_restored_has_no_gap_to_accept(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        with pytest.raises(InvalidArgument, match="never restored"):
            await desk.journal.keeper.accept_gap(None, PERSON)


async def test_what_a_person_found_since_the_restore_closes_the_gap_of_that_operation(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    await backed_up(tmp_path, clock)
    await restore(tmp_path, clock)
    async with open_desk(tmp_path / "restored", clock=clock) as desk:
        await desk.at("unsafe").reconcile("not_performed", caller=PERSON)
        assert words(await desk.at("unsafe").begin(lookup=LOOKUP)) == "perform retry_after_failure"
        assert words(await desk.at("failed").begin()) == "ask history_gap"


@pytest.mark.parametrize("key", ["planned", "failed", "safe"])
async def test_a_persons_grant_given_since_the_restore_closes_the_gap(tmp_path: Path, key: str) -> None:
    clock = FakeClock()
    await backed_up(tmp_path, clock)
    await restore(tmp_path, clock)
    clock.advance(60)
    async with open_desk(tmp_path / "restored", clock=clock) as desk:
        step = desk.at(key)
        answer = await step.journal.grant(GrantAuthority(ref=step.ref, why="looked"), PERSON)
        assert answer["next"] == "continue"
        assert (await step.check())["next"] == "begin"
        assert (await step.begin())["next"] == "perform"
        # It was given for this one operation.
        assert words(await desk.at("never-seen").begin()) == "ask history_gap"


async def test_a_grant_given_before_the_backup_closes_no_gap(tmp_path: Path) -> None:
    clock = FakeClock()
    plan = (PlanStep(key="key-1", action="email.send", target="key-1@example.org"),)
    async with open_desk(tmp_path, clock=clock) as desk:
        await desk.journal.begin_run(BeginRun(run="run-1", plan=plan), as_caller(AGENT))
        await desk.journal.grant(GrantAuthority(ref=desk.ref, why="looked"), PERSON)
        await desk.journal.keeper.backup(tmp_path / "backup.db")
    await restore(tmp_path, clock)
    async with open_desk(tmp_path / "restored", clock=clock) as desk:
        assert words(await desk.begin()) == "ask history_gap"


async def test_an_attempt_granted_since_the_restore_closes_the_gap_for_the_next(tmp_path: Path) -> None:
    clock = FakeClock()
    await backed_up(tmp_path, clock)
    await restore(tmp_path, clock)
    async with open_desk(tmp_path / "restored", clock=clock) as desk:
        failed = desk.at("failed")
        await failed.reconcile("not_performed", caller=PERSON)
        assert words(await failed.begin()) == "perform retry_after_failure"
        await failed.failure("none", attempt=2, evidence={"status": 401})
        assert words(await failed.begin()) == "perform retry_after_failure"


async def test_a_clock_set_back_before_the_restore_opens_nothing(tmp_path: Path) -> None:
    clock = FakeClock(boot=None)
    await backed_up(tmp_path, clock)
    clock.jump(-AN_HOUR)
    await restore(tmp_path, clock)
    async with open_desk(tmp_path / "restored", clock=clock) as desk:
        for key in OPEN_KEYS:
            assert (await desk.at(key).begin(caller=ANOTHER))["next"] in ("ask", "reconcile")
        # Not even a key whose grant lies ahead of the clock counts as alive once the gap is accepted.
        await desk.journal.keeper.accept_gap(None, PERSON)
        assert words(await desk.at("keyed").begin(caller=ANOTHER)) == "reconcile in_doubt"


async def test_a_restore_replaces_no_journal_unless_it_may_move_it_aside(tmp_path: Path) -> None:
    clock = FakeClock()
    await backed_up(tmp_path, clock)
    async with open_desk(tmp_path, clock=clock) as running:
        await running.at("done").check()
        with pytest.raises(Forbidden, match="there is a journal"):
            await restore(tmp_path, clock, into=".")
        restored = await restore(tmp_path, clock, into=".", aside="old")
        assert str(tmp_path / "journal.db.old") in restored.moved
        # A server that still has the old file open notices, and writes nothing.
        with pytest.raises(JournalUnavailable, match="replaced"):
            await running.at("late").begin()
    async with open_desk(tmp_path, clock=clock) as desk:
        assert words(await desk.at("late").begin()) == "ask history_gap"
        assert (await desk.journal.reader.verify()).faults == ()
    async with open_desk(tmp_path, clock=clock, name="journal.db.old") as old:
        assert (await old.journal.reader.verify()).faults == ()


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def scribbled_on(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[20_000:20_400] = b"\xff" * 400
    file.write_bytes(content)


def a_letter(file: Path) -> None:
    file.write_text("dear backup")


def with_a_trigger(file: Path) -> None:
    with sqlite3.connect(file) as raw:
        raw.execute("CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM receipts; END")


def of_the_future(file: Path) -> None:
    with sqlite3.connect(file) as raw:
        raw.execute("PRAGMA user_version = 999")


@pytest.mark.parametrize(
    "damage", [emptied, cut, scribbled_on, a_letter, with_a_trigger, of_the_future, Path.unlink]
)
async def test_a_backup_that_is_not_whole_is_refused_and_leaves_nothing(tmp_path: Path, damage: Any) -> None:
    from counterfoil.store.errors import Fault

    clock = FakeClock()
    await backed_up(tmp_path, clock)
    damage(tmp_path / "backup.db")
    with pytest.raises(Fault) as fault:
        await restore(tmp_path, clock)
    assert names_in(tmp_path / "restored") == []
    # The journal whose place it is to take may be whole: it is not the one that is told of.
    assert "backup.db" in fault.value.message


async def test_a_backup_whose_log_was_changed_is_told(tmp_path: Path) -> None:
    clock = FakeClock()
    await backed_up(tmp_path, clock)
    with sqlite3.connect(tmp_path / "backup.db") as raw:
        raw.execute("UPDATE events SET data = '{}' WHERE kind = 'receipt_recorded'")
    assert (await restore(tmp_path, clock)).faults != ()
