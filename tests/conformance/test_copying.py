"""Copies between journals of either kind: begun again at any point, there and back; nothing is set back."""

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from conformance.test_export_and_import import (
    IMPORTER,
    LOOKUP,
    another_journal,
    answers,
    fill,
    log_of,
    words,
)
from counterfoil.store import copied_parts, copying
from counterfoil.store.copy_check import Checked
from counterfoil.store.copying import Copied
from counterfoil.store.domain.commands import BeginRun, GrantAuthority, OperationRef, RecordProgress
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import Forbidden, JournalUnavailable
from counterfoil.store.opening import Fresh, open_journal
from journals import AGENT, ANOTHER, PERSON, Desk, FakeClock, as_caller, open_desk, plain_sql

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]

DIRECTIONS = pytest.mark.parametrize("is_back", [False, True], ids=["out of a file", "into a file"])
"""With the fixture `store`: between two files, and between a file and a database, either way."""


@asynccontextmanager
async def both(
    folder: Path, clock: FakeClock, *, is_back: bool = False, **options: Any
) -> AsyncIterator[tuple[Desk, Desk]]:
    """Open the two journals of a copy, FROM and TO: one in a file, the other in what the fixture says."""
    async with open_desk(folder, clock=clock, **options) as desk, another_journal(folder, clock) as file:
        yield (desk, file) if is_back else (file, desk)


async def copied(source: Desk, target: Desk) -> tuple[Copied, Checked]:
    return await target.journal.keeper.copy_from(source.journal.keeper, IMPORTER)


async def is_whole_after_copying(source: Desk, target: Desk) -> Copied:
    """Copy, and demand that nothing was found wanting, by the check and by verification."""
    taken, checked = await copied(source, target)
    assert (taken.refused, taken.conflicts, checked.differences) == ([], [], [])
    assert (await target.journal.reader.verify()).faults == ()
    return taken


@DIRECTIONS
async def test_a_copy_gives_the_same_answers_under_one_chain_and_copying_again_changes_nothing(
    tmp_path: Path, is_back: bool
) -> None:
    clock = FakeClock()
    async with both(tmp_path, clock, is_back=is_back) as (source, target):
        await fill(source, clock)
        taken, checked = await copied(source, target)
        assert (taken.runs, taken.runs_new, taken.live_attempts) == (4, 4, 1)
        assert (checked.runs, checked.same_logs, checked.operations) == (4, 4, 17)
        assert (checked.differences, taken.conflicts, taken.refused) == ([], [], [])
        assert await log_of(target) == await log_of(source)
        clock.advance(4_000)
        again = await is_whole_after_copying(source, target)
        assert (again.changed, again.runs_same) == (False, 4)
        assert await log_of(target) == await log_of(source)
        assert await answers(target) == await answers(source)
        for key in ("planned", "done", "in-doubt", "keyed", "safe", "failed", "given-up", "late", "twice"):
            assert words(await target.at(key).begin()) == words(await source.at(key).begin()), key


@DIRECTIONS
async def test_a_run_travels_out_goes_on_there_and_comes_back_as_one_log(
    tmp_path: Path, is_back: bool
) -> None:
    clock = FakeClock()
    async with both(tmp_path, clock, is_back=is_back) as (one, many):
        await fill(one, clock)
        await copied(one, many)
        clock.advance(4_000)
        await many.at("failed").begin()
        await many.at("failed").receipt(attempt=2, external_id="m-failed")
        await many.at("in-doubt").receipt(external_id="m-in-doubt")
        await many.at("new", run="new").begin()
        progress = RecordProgress(ref=OperationRef(run="run-1"), message="on", checkpoint={"page": 9})
        await many.journal.record_progress(progress, as_caller(AGENT))
        back = await is_whole_after_copying(many, one)
        assert (back.runs_new, back.runs_gone_on, back.runs_same) == (1, 1, 3)
        assert await log_of(one) == await log_of(many)
        assert (await is_whole_after_copying(one, many)).changed is False


async def test_a_journal_that_is_further_on_is_left_as_it_is(tmp_path: Path) -> None:
    clock = FakeClock()
    async with both(tmp_path, clock) as (source, target):
        await source.begin()
        await source.receipt()
        await source.at("key-2").begin()
        await copied(source, target)
        await target.at("key-2").receipt(external_id="m-2")
        before = await log_of(target)
        taken = await is_whole_after_copying(source, target)
        assert (taken.runs_ahead, taken.changed) == (1, False)
        assert await log_of(target) == before


async def test_where_both_went_on_evidence_is_added_and_nothing_set_back(tmp_path: Path) -> None:
    clock = FakeClock()
    async with both(tmp_path, clock) as (source, target):
        for key in ("sent", "lost"):
            await source.at(key).begin(lookup=LOOKUP)
            await source.at(key).failure("unknown")
        await copied(source, target)
        await source.at("sent").receipt(external_id="m-sent")
        await target.at("lost").receipt(external_id="m-lost")
        taken, checked = await copied(source, target)
        assert (taken.runs_parted, taken.receipts, taken.conflicts) == (1, 1, [])
        assert await target.at("sent").state() == await target.at("lost").state() == "succeeded"
        # What only TO knows is no fault of the copy; that it stands otherwise there is told all the same.
        assert [(found.operation, found.source, found.target) for found in checked.differences] == [
            ("lost", "in_doubt", "succeeded")
        ]
        again, _ = await copied(source, target)
        assert again.changed is False
        assert (await target.journal.reader.verify()).faults == ()


async def test_the_undoing_that_comes_with_another_run_reaches_an_operation_whose_log_has_parted(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    async with both(tmp_path, clock) as (source, target):
        pay, refund = source.at("pay", run="z-pay"), source.at("refund", run="a-refund")
        begun = await pay.begin(action="pay.send")
        await pay.receipt(external_id="t-1", kind="transaction", system="bank")
        await copied(source, target)
        await target.at("other", run="z-pay").begin()
        await refund.begin(action="pay.refund", compensates=begun["operation"])
        await refund.receipt(external_id="t-2", kind="transaction", system="bank")
        taken = await is_whole_after_copying(source, target)
        assert (taken.runs_new, taken.runs_parted) == (1, 1)
        assert await target.at("pay", run="z-pay").state() == "compensated"


@DIRECTIONS
async def test_a_long_run_comes_in_parts_that_end_where_calls_ended(
    tmp_path: Path, is_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    async with both(tmp_path, clock, is_back=is_back) as (source, target):
        await fill(source, clock)
        begun = {event["seq"]: event["caller"] for event in await events_of(source, "run-1")}
        ends: list[int] = []

        async def small(connection: Any, run: Any, **rest: Any) -> Any:
            part = await copied_parts.read_part(connection, run, after=rest["after"], most_bytes=1)
            if run["run"] == "run-1":
                ends.append(part.last_seq)
            return part

        monkeypatch.setattr(copying, "read_part", small)
        await is_whole_after_copying(source, target)
        assert await log_of(target) == await log_of(source)
        assert len(ends) > 20
        assert all(begun[end] != begun.get(end + 1) for end in ends)


async def events_of(desk: Desk, run: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) async for line in desk.journal.keeper.export(run=run)]
    return [line for line in lines if line["type"] == "event"]


@DIRECTIONS
async def test_a_copy_that_is_broken_off_after_any_commit_ends_the_same_when_it_is_begun_again(
    tmp_path: Path, is_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()

    async def small(connection: Any, run: Any, **rest: Any) -> Any:
        return await copied_parts.read_part(connection, run, after=rest["after"], most_bytes=4_000)

    monkeypatch.setattr(copying, "read_part", small)
    async with both(tmp_path, clock, is_back=is_back) as (source, target):
        await fill(source, clock)
        write, breaks = target.journal.database.write, 0

        async def write_and_die(work: Any) -> Any:
            await write(work)
            raise JournalUnavailable("cut", fix="again")

        while True:
            monkeypatch.setattr(target.journal.database, "write", write_and_die)
            try:
                await copied(source, target)
            except JournalUnavailable:
                breaks += 1
                continue
            finally:
                monkeypatch.undo()
                monkeypatch.setattr(copying, "read_part", small)
            break
        assert breaks > 10
        await is_whole_after_copying(source, target)
        assert await log_of(target) == await log_of(source)


async def test_a_commit_whose_answer_was_lost_is_looked_up_and_not_made_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    async with both(tmp_path, clock) as (source, target):
        await fill(source, clock)
        write, lost = target.journal.database.write, 0

        async def write_and_lose(work: Any) -> Any:
            nonlocal lost
            result = await write(work)
            lost += 1
            if lost == 2:
                raise JournalUnavailable("lost", fix="again", recorded=None)
            return result

        monkeypatch.setattr(target.journal.database, "write", write_and_lose)
        await is_whole_after_copying(source, target)
        assert await log_of(target) == await log_of(source)


async def test_an_attempt_that_is_live_is_copied_with_its_lease_and_told(tmp_path: Path) -> None:
    clock = FakeClock()
    async with both(tmp_path, clock) as (source, target):
        await source.begin(lookup=LOOKUP)
        await source.journal.begin_run(BeginRun(run="held", lease_seconds=600), as_caller(AGENT))
        taken = await is_whole_after_copying(source, target)
        assert (taken.live_attempts, taken.held_runs) == (1, 1)
        assert words(await target.begin(caller=ANOTHER)) == "wait lease_held"
        clock.advance(400)
        assert words(await target.begin(caller=ANOTHER)) == "reconcile in_doubt"


async def test_permissions_stay_where_they_were_given(tmp_path: Path) -> None:
    clock, policy = FakeClock(), Policy(authority=(("pay.*", "*"),))
    async with (
        open_journal(
            tmp_path / "from.db",
            fresh=Fresh(journal_id="J-from", secret="ab" * 32),
            namespace="default",
            policy=policy,
            clock=clock,
        ) as journal,
        open_desk(tmp_path, clock=clock, policy=policy) as target,
    ):
        source = Desk(journal, clock)
        asked = await source.begin(action="pay.send")
        assert words(asked) == "ask authority_required"
        await journal.grant(GrantAuthority(ref=OperationRef(run="run-1", key="key-1")), PERSON)
        taken = await is_whole_after_copying(source, target)
        assert taken.runs_new == 1
        assert words(await target.begin(action="pay.send")) == "ask authority_required"
        assert words(await source.begin(action="pay.send")) == "perform first_attempt"
        await source.receipt()
        await is_whole_after_copying(source, target)
        assert words(await target.begin(action="pay.send")) == "skip already_succeeded"


async def test_a_tombstone_stays_one(tmp_path: Path) -> None:
    clock = FakeClock()
    async with both(tmp_path, clock) as (source, target):
        await source.begin(args={"n": 1}, payload="long ago")
        await source.receipt()
        clock.advance(100 * 86_400)
        await source.journal.keeper.prune(older_than_seconds=90 * 86_400)
        await is_whole_after_copying(source, target)
        shown = await target.check(detail="payload")
        assert shown == await source.check(detail="payload")
        assert words(await target.begin(args={"n": 1})) == "skip already_succeeded"


async def test_what_was_pruned_here_does_not_come_back(tmp_path: Path) -> None:
    clock = FakeClock()
    async with both(tmp_path, clock) as (source, target):
        await source.begin(args={"n": 1}, payload="long ago")
        await source.receipt()
        await copied(source, target)
        clock.advance(100 * 86_400)
        await target.journal.keeper.prune(older_than_seconds=90 * 86_400)
        pruned = await target.check(detail="payload")
        await source.at("key-2").begin()
        await is_whole_after_copying(source, target)
        assert await target.check(detail="payload") == pruned


async def test_a_secret_of_another_key_is_no_conflict_and_one_of_the_same_key_is_the_same(
    tmp_path: Path,
) -> None:
    clock, secret = FakeClock(), {"token": "ghp_" + "a1B2" * 9}
    keyed = {"repeat": "keyed", "key_ttl_seconds": 86_400, "args": secret}
    async with both(tmp_path, clock) as (source, target):
        await source.begin(**keyed)
        await source.failure("unknown")
        assert (await is_whole_after_copying(source, target)).has_same_key is False
        assert words(await source.begin(**keyed)) == "perform repeat_keyed"
        # It is the same operation, and nothing is repeated on the strength of what cannot be compared.
        assert words(await target.begin(**keyed)) == "reconcile in_doubt"
        async with open_journal(
            tmp_path / "with-key.db",
            fresh=Fresh(journal_id="J-key", secret="cd" * 32),
            namespace="default",
            policy=Policy(),
            clock=clock,
            key_of=target.journal,
        ) as journal:
            third = Desk(journal, clock)
            assert (await is_whole_after_copying(target, third)).has_same_key is True
        with pytest.raises(Forbidden, match="key of its own"):
            async with open_journal(
                tmp_path / "with-key.db",
                fresh=Fresh(journal_id="J-key", secret="cd" * 32),
                namespace="default",
                policy=Policy(),
                clock=clock,
                key_of=source.journal,
            ):
                pass


RESTORES = "SELECT restored_at, backed_up_at FROM restores ORDER BY restored_at"


async def test_until_a_copy_has_ended_what_did_not_come_yet_is_not_permitted(tmp_path: Path) -> None:
    clock = FakeClock()
    async with another_journal(tmp_path, clock) as source:
        await source.begin()
        await source.receipt()
        async with open_desk(tmp_path, clock=clock) as target:
            await target.journal.keeper.begin_copy_of(source.journal.keeper)
        async with open_desk(tmp_path, clock=clock) as target:
            # Broken off here, whoever works in it is told to ask.
            assert words(await target.begin()) == "ask history_gap"
        async with open_desk(tmp_path, clock=clock, name="other.db") as target:
            with pytest.raises(Forbidden, match="`counterfoil copy` into it has still to bring"):
                async with open_desk(tmp_path, clock=clock) as unfinished:
                    await target.journal.keeper.begin_copy_of(unfinished.journal.keeper)
            await target.journal.keeper.begin_copy_of(source.journal.keeper)
        async with open_desk(tmp_path, clock=clock, name="other.db") as target:
            await target.journal.keeper.begin_copy_of(source.journal.keeper)
            await is_whole_after_copying(source, target)
            await target.journal.keeper.end_copy_of(source.journal.keeper)
        async with open_desk(tmp_path, clock=clock, name="other.db") as target:
            assert words(await target.begin()) == "skip already_succeeded"
            assert words(await target.at("key-2").begin()) == "perform first_attempt"
            # A later copy, into a journal that is in use, marks nothing.
            await target.journal.keeper.begin_copy_of(source.journal.keeper)
        assert plain_sql(tmp_path / "other.db", RESTORES) == []


async def begun(folder: Path, clock: FakeClock, desk: Desk, *, namespace: str = "default") -> str:
    """Begin what TO does not know, in a namespace of it, as a server that was started just now."""
    async with open_desk(folder, clock=clock, name="to.db", namespace=namespace) as target:
        return words(await target.at(desk.key, run=desk.run).begin())


async def test_the_mark_of_an_unfinished_copy_is_lifted_by_no_other_copy(tmp_path: Path) -> None:
    clock = FakeClock()
    async with (
        another_journal(tmp_path, clock) as source,
        another_journal(tmp_path, clock, name="unrelated") as unrelated,
    ):
        await source.begin()
        await source.receipt()
        await unrelated.at("other", run="other").begin()
        unknown = source.at("unknown", run="unknown")
        async with open_desk(tmp_path, clock=clock, name="to.db") as target:
            await target.journal.keeper.begin_copy_of(source.journal.keeper)
        async with open_desk(tmp_path, clock=clock, name="to.db") as target:
            await target.journal.keeper.begin_copy_of(unrelated.journal.keeper)
        async with open_desk(tmp_path, clock=clock, name="to.db") as target:
            await is_whole_after_copying(unrelated, target)
            await target.journal.keeper.end_copy_of(unrelated.journal.keeper)
        async with open_desk(tmp_path, clock=clock, name="to.db", namespace="team") as target:
            await target.journal.keeper.begin_copy_of(source.journal.keeper)
            await target.journal.keeper.end_copy_of(source.journal.keeper)
        assert await begun(tmp_path, clock, unknown) == "ask history_gap"
        async with open_desk(tmp_path, clock=clock, name="to.db") as target:
            await is_whole_after_copying(source, target)
            await target.journal.keeper.end_copy_of(source.journal.keeper)
        assert await begun(tmp_path, clock, unknown) == "perform first_attempt"


async def test_a_copy_marks_the_namespace_that_it_goes_into_whatever_the_others_hold(tmp_path: Path) -> None:
    clock = FakeClock()
    async with another_journal(tmp_path, clock) as source:
        await source.begin()
        assert await begun(tmp_path, clock, source, namespace="team") == "perform first_attempt"
        async with open_desk(tmp_path, clock=clock, name="to.db") as target:
            await target.journal.keeper.begin_copy_of(source.journal.keeper)
        assert await begun(tmp_path, clock, source) == "ask history_gap"
        other = source.at("other", run="other")
        assert await begun(tmp_path, clock, other, namespace="team") == "perform first_attempt"


async def test_a_copy_under_way_stops_the_servers_of_its_own_namespace_alone(tmp_path: Path) -> None:
    clock = FakeClock()
    async with (
        another_journal(tmp_path, clock) as source,
        open_desk(tmp_path, clock=clock, name="to.db") as server,
        open_desk(tmp_path, clock=clock, name="to.db", namespace="team") as other,
    ):
        await source.begin()
        assert words(await other.begin()) == "perform first_attempt"
        tenant = Desk(await server.journal.of_namespace("tenant"), clock)
        async with open_desk(tmp_path, clock=clock, name="to.db") as target:
            await target.journal.keeper.begin_copy_of(source.journal.keeper)

            assert words(await other.receipt()) == "continue recorded"
            assert words(await tenant.begin()) == "perform first_attempt"
            for call in (server.begin, server.at("key-2").begin, server.plan):
                with pytest.raises(JournalUnavailable, match="something is copied or imported into it"):
                    await call()

            await is_whole_after_copying(source, target)
            await target.journal.keeper.end_copy_of(source.journal.keeper)
        assert words(await server.begin(caller=ANOTHER)) == "wait lease_held"


async def test_a_process_of_many_namespaces_knows_what_each_of_them_lacks(tmp_path: Path) -> None:
    clock = FakeClock()
    async with another_journal(tmp_path, clock) as source:
        await source.begin()
        async with open_desk(tmp_path, clock=clock, name="to.db") as target:
            await target.journal.keeper.begin_copy_of(source.journal.keeper)
        async with open_desk(tmp_path, clock=clock, name="to.db") as server:
            assert words(await server.begin()) == "ask history_gap"
            team = Desk(await server.journal.of_namespace("team"), clock)
            assert words(await team.begin()) == "perform first_attempt"
        async with open_desk(tmp_path, clock=clock, name="to.db", namespace="team") as server:
            lacking = Desk(await server.journal.of_namespace("default"), clock)
            assert words(await lacking.at("key-2").begin()) == "ask history_gap"


async def test_a_gap_that_was_accepted_during_a_copy_is_over_when_it_ends(tmp_path: Path) -> None:
    clock = FakeClock()
    async with another_journal(tmp_path, clock) as source:
        await source.begin()
        async with open_desk(tmp_path, clock=clock, name="to.db") as target:
            await target.journal.keeper.begin_copy_of(source.journal.keeper)
        async with open_desk(tmp_path, clock=clock, name="to.db") as target:
            await target.journal.keeper.accept_gap("one", as_caller(PERSON))
            await is_whole_after_copying(source, target)
            await target.journal.keeper.end_copy_of(source.journal.keeper)
        unknown = source.at("unknown", run="unknown")
        assert await begun(tmp_path, clock, unknown) == "perform first_attempt"
        assert await begun(tmp_path, clock, unknown, namespace="team") == "perform first_attempt"


async def test_the_mark_of_lost_history_goes_along_into_an_empty_journal_and_into_no_other(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    async with another_journal(tmp_path, clock) as source:
        await source.begin()
        await source.failure("none", evidence={"status": 401})
    moments = [(clock.at - 60_000_000, clock.at - 120_000_000)]
    with sqlite3.connect(tmp_path / "another" / "journal.db") as raw:
        raw.executemany("INSERT INTO restores (restored_at, backed_up_at) VALUES (?, ?)", moments)
    clock.advance(60)
    async with both(tmp_path, clock) as (source, target):
        await target.at("mine").begin()
        with pytest.raises(Forbidden, match="lacks history"):
            await target.journal.keeper.begin_copy_of(source.journal.keeper)
        assert plain_sql(tmp_path / "journal.db", RESTORES) == []
    async with another_journal(tmp_path, clock) as source:
        for _ in range(2):
            async with open_desk(tmp_path, clock=clock, name="empty.db") as empty:
                await empty.journal.keeper.begin_copy_of(source.journal.keeper)
        assert plain_sql(tmp_path / "empty.db", RESTORES) == [*moments, (clock.at, clock.at)]
        async with open_desk(tmp_path, clock=clock, name="empty.db") as empty:
            await is_whole_after_copying(source, empty)
            await empty.journal.keeper.end_copy_of(source.journal.keeper)
        assert plain_sql(tmp_path / "empty.db", RESTORES) == moments
        async with open_desk(tmp_path, clock=clock, name="empty.db") as empty:
            await empty.journal.keeper.begin_copy_of(source.journal.keeper)
            assert words(await empty.at("unknown").begin()) == "ask history_gap"
        assert plain_sql(tmp_path / "empty.db", RESTORES) == moments


async def runs_of(desk: Desk) -> list[dict[str, Any]]:
    async def work(connection: Any) -> Any:
        return await connection.fetch_all("all_runs")

    return [dict(row) for row in await desk.journal.database.read(work)]


async def test_a_backup_is_not_copied_since_it_does_not_know_what_it_lacks(tmp_path: Path) -> None:
    clock = FakeClock()
    async with another_journal(tmp_path, clock) as source:
        await source.begin()
        (tmp_path / "backups").mkdir()
        await source.journal.keeper.backup(tmp_path / "backups" / "journal.db")
    async with (
        another_journal(tmp_path, clock, name="backups") as backup,
        open_desk(tmp_path, clock=clock) as target,
    ):
        with pytest.raises(Forbidden, match="is a backup"):
            await target.journal.keeper.begin_copy_of(backup.journal.keeper)
        assert await runs_of(target) == []


async def test_a_run_that_was_tampered_with_is_refused_and_the_others_are_copied(tmp_path: Path) -> None:
    clock = FakeClock()
    async with both(tmp_path, clock) as (source, target):
        for run in ("a", "b", "c"):
            await source.at("key-1", run=run).begin()
        with sqlite3.connect(tmp_path / "another" / "journal.db") as raw:
            raw.execute(
                "UPDATE events SET data = replace(data, 'email', 'e-mail') WHERE run = 'b' AND seq = 1"
            )
        taken, checked = await copied(source, target)
        assert [run for run, _ in taken.refused] == ["b"]
        assert "chain is broken" in taken.refused[0][1]
        assert [(found.run, found.what, found.target) for found in checked.differences] == [
            ("b", "run", "missing")
        ]
        assert [run["run"] for run in await runs_of(target)] == ["a", "c"]


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("DELETE FROM external_ids WHERE external_id = 'm-1'", "reference"),
        ("UPDATE operations SET fingerprint = 'v1:sha256:0' WHERE key = 'key-1'", "fingerprint"),
        ("UPDATE receipts SET external_id = 'm-9' WHERE external_id = 'm-1'", "reference"),
        ("UPDATE runs SET head = 'x' WHERE run = 'run-1'", None),
    ],
)
async def test_the_check_sees_what_a_copy_left_out(tmp_path: Path, statement: str, what: str | None) -> None:
    clock = FakeClock()
    async with both(tmp_path, clock) as (source, target):
        await source.begin()
        await source.receipt()
        await copied(source, target)
        plain_sql(tmp_path / "journal.db", statement)
        if what is None:
            _, checked = await copied(source, target)
            assert checked.same_logs == 0
            return
        _, checked = await copied(source, target)
        assert [found.what for found in checked.differences] == [what]
