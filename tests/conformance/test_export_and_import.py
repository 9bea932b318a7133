"""Exports and imports: evidence moves, nothing is set back, and no file is believed."""

import hashlib
import io
import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from conformance.sqlite_journals import damage
from counterfoil.store.domain.commands import (
    BeginRun,
    Caller,
    CheckOperation,
    Criterion,
    FindOperations,
    FinishRun,
    Lookup,
    OperationRef,
    PlanStep,
    RecordProgress,
    ResumePlan,
    Spec,
    Undo,
)
from counterfoil.store.domain.instants import rfc3339
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import Forbidden, InvalidArgument, JournalUnavailable, NotFound
from counterfoil.store.importing import Importer, Taken
from counterfoil.store.opening import Fresh, open_journal
from counterfoil.store.restoring import mark_restored
from counterfoil.store.spool import read_spool
from journals import AGENT, ANOTHER, PERSON, SECRET, Desk, FakeClock, as_caller, open_desk

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]

LOOKUP = Lookup(tool="search_sent", args={"q": "subject:invoice"})
KEYED: dict[str, Any] = {"repeat": "keyed", "key_ttl_seconds": 86_400}
TOKEN = "ghp_" + "a1B2" * 9
IMPORTER = Caller(connection="cli-1", client="counterfoil", tool="cli import")
DETAILS = ("full", "args", "payload", "checkpoint", "lookup", "undo", "evidence")


def words(answer: dict[str, Any]) -> str:
    return f"{answer['next']} {answer['reason']}"


@asynccontextmanager
async def another_journal(folder: Path, clock: FakeClock, *, name: str = "another") -> AsyncIterator[Desk]:
    """Open a journal that was made elsewhere: another id, another key for secrets."""
    async with open_journal(
        folder / name / "journal.db",
        fresh=Fresh(journal_id=f"J-{name}", secret=hashlib.sha256(name.encode()).hexdigest()),
        namespace="default",
        policy=Policy(),
        clock=clock,
    ) as journal:
        yield Desk(journal, clock)


async def exported(desk: Desk, run: str | None = None) -> bytes:
    return "".join([line async for line in desk.journal.keeper.export(run=run)]).encode()


async def take(desk: Desk, file: bytes) -> Taken:
    return await desk.journal.keeper.take_in(read_spool(io.BytesIO(file)), IMPORTER)


async def log_of(desk: Desk) -> list[tuple[str, str]]:
    """Give the hash of every event of the journal."""
    lines = [json.loads(line) for line in (await exported(desk)).splitlines()]
    return [(line["operation"], line["hash"]) for line in lines if line["type"] == "event"]


async def fill(desk: Desk, clock: FakeClock) -> None:
    """Put something of everything into a journal: every state, bodies, secrets, contexts, runs that ended."""
    journal = desk.journal
    plan = (
        PlanStep(key="planned", action="email.send", target="planned@example.org", depends_on=("done",)),
        PlanStep(key="done", action="email.send", target="done@example.org", payload={"text": "ü\u0001"}),
    )
    spec = Spec(uri="spec.md", digest="sha256:1", criteria=(Criterion(id="FR-001", text="it works"),))
    await journal.begin_run(
        BeginRun(
            run="run-1",
            workflow="weekly",
            workflow_version="3",
            goal="invoices",
            plan=plan,
            spec=spec,
            context={"model": "m-1", "policy": {"id": "p", "version": "1"}},
        ),
        as_caller(AGENT),
    )
    done = desk.at("done")
    await done.begin(
        target="done@example.org", args=None, lookup=LOOKUP, undo=Undo(tool="unsend", args={"id": 1})
    )
    progress = RecordProgress(ref=done.ref, message="half", fraction=0.5, checkpoint={"page": 7})
    await journal.record_progress(progress, as_caller(AGENT))
    await done.receipt(external_id="m-done", evidence={"status": 200, "big": 10**30}, satisfies=("FR-001",))
    await desk.at("secret").begin(args={"token": TOKEN, "n": 1}, payload={"password": "hunter2hunter2"})
    await desk.at("secret").receipt(external_id="m-secret")
    for key, fields in (("in-doubt", {"lookup": LOOKUP}), ("keyed", KEYED), ("safe", {"repeat": "safe"})):
        await desk.at(key).begin(payload=f"text of {key}", **fields)
        await desk.at(key).failure("unknown")
    await desk.at("in-doubt").reconcile("inconclusive", as_of=clock.text)
    await desk.at("failed").begin()
    await desk.at("failed").failure("none", evidence={"status": 401}, retry_after_seconds=60)
    for key, outcome in (("given-up", "cancelled"), ("late", "timed_out")):
        await desk.at(key).begin()
        await desk.at(key).failure("none", evidence={"status": 401})
        await desk.at(key).close(outcome)
    await desk.at("twice").begin()
    await desk.at("twice").receipt(external_id="m-1")
    await desk.at("twice").receipt(external_id="m-2")
    await desk.at("contradicted").begin()
    await desk.at("contradicted").failure("none", evidence={"status": 401})
    await desk.at("contradicted").receipt(external_id="m-contradicted")
    await desk.at("unannounced").receipt(external_id="m-un", action="email.send", target="un@example.org")
    await desk.at("deadline").begin(deadline_seconds=600)
    paid = desk.at("pay", run="run-2")
    begun = await paid.begin(action="pay.send")
    await paid.receipt(external_id="t-1", kind="transaction", system="bank")
    undoing = desk.at("refund", run="run-3")
    await undoing.begin(action="pay.refund", compensates=begun["operation"])
    await undoing.receipt(external_id="t-2", kind="transaction", system="bank")
    ended = desk.at("key-1", run="ended")
    await ended.begin()
    await ended.receipt(external_id="m-ended")
    await journal.finish_run(FinishRun(run="ended", outcome="completed"), as_caller(AGENT))
    clock.advance(900)
    await desk.at("running").begin(lease_seconds=3_600, caller=ANOTHER)


async def answers(desk: Desk, *, but: tuple[str, ...] = ()) -> dict[str, Any]:
    """Ask a journal everything that can be asked without changing it."""
    journal = desk.journal
    found: dict[str, Any] = {}
    runs = await journal.resume_plan(ResumePlan(include="all"), AGENT)
    found["runs"] = {run["run"]: run for run in runs["runs"]}
    for name in found["runs"]:
        found[name] = page = await journal.resume_plan(ResumePlan(run=name, include="all"), AGENT)
        while page.get("next_cursor"):
            command = ResumePlan(run=name, include="all", cursor=page["next_cursor"])
            page = await journal.resume_plan(command, AGENT)
            found[name]["steps"] += page["steps"]
        for step in found[name]["steps"]:
            ref = OperationRef(operation=step["operation"])
            for detail in DETAILS:
                command = CheckOperation(ref=ref, detail=detail)
                found[step["operation"], detail] = await journal.check_operation(command, AGENT)
    for plan in found.values():
        for name in ("journal", "next_cursor", *but):
            plan.pop(name, None)
    return found


async def test_an_export_taken_in_elsewhere_gives_the_same_answers_and_verifies(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        await fill(desk, clock)
        taken = await take(other, await exported(desk))
        assert (taken.runs_new, taken.runs_known, taken.conflicts) == (4, 0, [])
        assert taken.operations_new == 17
        assert (await other.journal.reader.verify()).faults == ()
        assert await answers(other) == await answers(desk)
        # Also once time has passed, and for what changes something: begins.
        clock.advance(4_000)
        assert await answers(other) == await answers(desk)
        for key in ("planned", "done", "in-doubt", "keyed", "safe", "failed", "given-up", "late", "twice"):
            assert words(await other.at(key).begin()) == words(await desk.at(key).begin()), key


async def test_the_chain_that_was_taken_over_is_the_same_and_goes_on(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        await fill(desk, clock)
        await take(other, await exported(desk))
        assert await log_of(other) == await log_of(desk)
        await other.at("failed").begin()
        assert (await other.journal.reader.verify()).faults == ()


async def test_an_export_holds_no_secret_and_not_the_key_that_hides_them(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await fill(desk, clock)
        file = await exported(desk)
    for secret in (TOKEN, "hunter2", SECRET):
        assert secret.encode() not in file
    assert file.isascii()


async def test_header_and_end_say_how_much_there_is(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await fill(desk, clock)
        lines = [json.loads(line) for line in (await exported(desk)).splitlines()]
        one = [json.loads(line) for line in (await exported(desk, "run-2")).splitlines()]
        with pytest.raises(NotFound):
            await exported(desk, "run-none")
    header, end = lines[0], lines[-1]
    assert (header["format"], header["version"], header["namespace"]) == ("counterfoil-export", 1, "default")
    assert header["journal"]["id"] == "J-test"
    assert header["counts"] == {name: end["counts"][name] for name in ("runs", "operations", "events")}
    assert end["lines"] == len(lines) - 1
    assert sum(line["type"] == "context" for line in lines) == end["counts"]["contexts"] == 1
    assert [line["run"] for line in one if line["type"] == "run"] == ["run-2"]


async def test_what_was_told_to_differ_goes_along_with_an_export(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        told = ({"model": "a", "policy": "p1"}, None), ({"policy": "p2"}, None), ({"model": "b"}, "fine")
        for context, reason in told:
            await desk.journal.begin_run(BeginRun(run=desk.run, context=context, accept_reason=reason), AGENT)
        here = (await desk.plan())["drift"]
        await take(other, await exported(desk))
        assert [one["component"] for one in here] == ["policy"]
        assert (await other.plan())["drift"] == here
        assert (await other.begin())["next"] == "perform"
        assert (await other.journal.reader.verify()).faults == ()


async def test_what_an_operation_undoes_is_taken_where_it_was_said_after_it_was_planned(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        original = await desk.begin()
        await desk.receipt()
        plan = (PlanStep(key="undo", action="email.recall", target="bob@example.org"),)
        await desk.journal.begin_run(BeginRun(run=desk.run, plan=plan), AGENT)
        await take(other, await exported(desk))
        undo = desk.at("undo")
        said = {"action": "email.recall", "target": "bob@example.org", "compensates": original["operation"]}
        await undo.begin(**said)
        await undo.receipt(external_id="u-1")

        taken = await take(other, await exported(desk))

        assert taken.conflicts == []
        assert await other.state() == await desk.state() == "compensated"
        second = await other.at("undo again", run="another-run").begin(**said)
        assert words(second) == "stop possible_duplicate"
        assert (await other.journal.reader.verify()).faults == ()


async def test_taking_the_same_file_again_changes_nothing(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        await fill(desk, clock)
        file = await exported(desk)
        await take(other, file)
        for journal in (other, desk):
            before = await log_of(journal)
            clock.advance(60)
            taken = await take(journal, file)
            assert not taken.changed
            assert taken.conflicts == []
            assert await log_of(journal) == before


async def test_what_is_done_stays_done_whatever_an_old_file_says(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await desk.begin()
        old = await exported(desk)
        clock.advance(400)
        await desk.receipt()
        before = await log_of(desk)
        taken = await take(desk, old)
        assert [(found.kind, found.journal, found.file) for found in taken.conflicts] == [
            ("state", "succeeded", "in_doubt")
        ]
        assert await log_of(desk) == before
        assert words(await desk.begin()) == "skip already_succeeded"


async def test_a_failure_that_was_established_is_not_set_back_into_doubt(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await desk.begin()
        old = await exported(desk)
        await desk.failure("none", evidence={"status": 401})
        assert (await take(desk, old)).conflicts_in_all == 1
        assert words(await desk.begin()) == "perform retry_after_failure"


@asynccontextmanager
async def two_journals(tmp_path: Path, clock: FakeClock, **begin: Any) -> AsyncIterator[tuple[Desk, Desk]]:
    """Give two journals that share the beginning of an operation and then part."""
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        await desk.begin(**begin)
        await take(other, await exported(desk))
        yield desk, other


async def test_a_receipt_that_is_missing_here_settles_what_is_in_doubt(tmp_path: Path) -> None:
    clock = FakeClock()
    async with two_journals(tmp_path, clock) as (desk, other):
        await desk.receipt(evidence={"seen": "it"})
        clock.advance(400)
        assert await other.state() == "in_doubt"
        taken = await take(other, await exported(desk))
        assert (taken.receipts, taken.conflicts) == (1, [])
        check = await other.check(detail="full")
        assert (check["state"], check["receipts"][0]["source"]) == ("succeeded", "import")
        assert '"seen"' in (await other.check(detail="evidence"))["content"]
        assert check["history"][-1]["caller"]["tool"] == "cli import"
        assert (await other.journal.reader.verify()).faults == ()
        assert not (await take(other, await exported(desk))).changed


async def test_a_receipt_against_a_failure_makes_it_disputed(tmp_path: Path) -> None:
    clock = FakeClock()
    async with two_journals(tmp_path, clock) as (desk, other):
        await desk.receipt()
        await other.failure("none", evidence={"status": 401})
        taken = await take(other, await exported(desk))
        assert words(await other.begin()) == "reconcile disputed"
        assert [(found.journal, found.file) for found in taken.conflicts] == [("disputed", "succeeded")]


async def test_a_second_effect_elsewhere_is_a_persons_question(tmp_path: Path) -> None:
    clock = FakeClock()
    async with two_journals(tmp_path, clock) as (desk, other):
        await desk.receipt(external_id="m-1")
        await other.receipt(external_id="m-2")
        await take(other, await exported(desk))
        assert words(await other.begin()) == "ask disputed"


async def test_a_timely_empty_look_elsewhere_counts_as_one_here(tmp_path: Path) -> None:
    clock = FakeClock()
    async with two_journals(tmp_path, clock, lookup=LOOKUP) as (desk, other):
        clock.advance(700)
        await desk.reconcile("not_performed", as_of=clock.text)
        taken = await take(other, await exported(desk))
        assert (taken.findings, await other.state()) == (1, "failed")
        assert not (await take(other, await exported(desk))).changed


async def test_a_persons_word_elsewhere_is_a_claim_here(tmp_path: Path) -> None:
    clock = FakeClock()
    async with two_journals(tmp_path, clock, lookup=LOOKUP) as (desk, other):
        clock.advance(700)
        await desk.reconcile("not_performed", caller=PERSON, as_of=clock.text)
        assert await desk.state() == "failed"
        taken = await take(other, await exported(desk))
        assert (await other.state(), taken.conflicts_in_all) == ("in_doubt", 1)


async def test_decisions_of_another_journal_decide_nothing_here(tmp_path: Path) -> None:
    clock = FakeClock()
    async with two_journals(tmp_path, clock) as (desk, other):
        clock.advance(400)
        await desk.close("timed_out")
        taken = await take(other, await exported(desk))
        assert (await other.state(), not taken.changed, taken.conflicts_in_all) == ("in_doubt", True, 1)


@pytest.mark.parametrize("key", ["planned", "failed"])
async def test_an_attempt_made_elsewhere_is_a_doubt_here(tmp_path: Path, key: str) -> None:
    clock = FakeClock()
    plan = (PlanStep(key="planned", action="email.send", target="planned@example.org"),)
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        await desk.journal.begin_run(BeginRun(run="run-1", plan=plan), as_caller(AGENT))
        await desk.at("failed").begin()
        await desk.at("failed").failure("none", evidence={"status": 401})
        await take(other, await exported(desk))
        await desk.at(key).begin()
        clock.advance(400)
        taken = await take(other, await exported(desk))
        assert (taken.doubts, taken.conflicts) == (1, [])
        assert words(await other.at(key).begin()) == "reconcile in_doubt"
        assert not (await take(other, await exported(desk))).changed


@pytest.mark.parametrize("key", ["planned", "failed", "in-doubt"])
async def test_a_lease_that_lives_elsewhere_is_waited_for_before_a_look_counts(
    tmp_path: Path, key: str
) -> None:
    clock = FakeClock()
    plan = (PlanStep(key="planned", action="email.send", target="planned@example.org", lookup=LOOKUP),)
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        await other.journal.begin_run(BeginRun(run="run-1", plan=plan), as_caller(AGENT))
        await other.at("failed").begin(lookup=LOOKUP)
        await other.at("failed").failure("none", evidence={"status": 401})
        await other.at("in-doubt").begin(lookup=LOOKUP)
        await other.at("in-doubt").failure("unknown")
        clock.advance(10)
        await desk.at(key).begin(lookup=LOOKUP, lease_seconds=600)
        ends = clock.at + 600_000_000
        assert (await take(other, await exported(desk))).doubts == 1
        assert not (await take(other, await exported(desk))).changed
        at = other.at(key)
        shown = await at.journal.check_operation(CheckOperation(ref=at.ref), as_caller(AGENT))
        assert shown["settle_until"] == rfc3339(ends + 300_000_000)
        clock.advance(800)
        assert words(await at.reconcile("not_performed", as_of=clock.text)) == "wait settling"
        clock.advance(101)
        assert words(await at.reconcile("not_performed", as_of=clock.text)) == "continue recorded"
        assert await at.state() == "failed"
        assert (await other.journal.reader.verify()).faults == ()


async def step_of(desk: Desk, key: str) -> dict[str, Any]:
    """Give the step of a plan of settled steps too, which is the same as in one of open steps."""
    (step,) = (step for step in (await desk.plan(include="open"))["steps"] if step["key"] == key)
    (same,) = (step for step in (await desk.plan(include="all"))["steps"] if step["key"] == key)
    assert same == step
    return step


async def found(desk: Desk, key: str) -> dict[str, Any]:
    """Give an operation as a search does."""
    search = FindOperations(run=desk.run)
    (entry,) = (
        each
        for each in (await desk.journal.find_operations(search, AGENT))["operations"]
        if each["key"] == key
    )
    return entry


@pytest.mark.parametrize("kind", ["planned", "failed"])
@pytest.mark.parametrize("there", ["in_progress", "in_doubt", "disputed", "succeeded"])
async def test_a_look_alike_that_an_import_brought_stops_what_was_planned_or_failed_here(
    tmp_path: Path, kind: str, there: str
) -> None:
    clock = FakeClock()
    effect: dict[str, Any] = {"action": "email.send", "target": "bob@example.org", "args": {"n": 1}}
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        here = other.at("K1")
        if kind == "planned":
            step = PlanStep(key="K1", **effect)
            await other.journal.begin_run(BeginRun(run="run-1", plan=(step,)), as_caller(AGENT))
        else:
            await here.begin(**effect)
            await here.failure("none", evidence={"status": 400})
        reason = "first_attempt" if kind == "planned" else "retry_after_failure"
        clock.advance(1)
        elsewhere = desk.at("K2")
        await elsewhere.begin(lookup=LOOKUP, **effect)
        if there == "in_doubt":
            await elsewhere.failure("unknown")
        elif there == "disputed":
            await elsewhere.failure("none", evidence={"status": 400})
        if there in ("disputed", "succeeded"):
            await elsewhere.receipt(external_id="m-2")
        assert words(await here.check()) == f"begin {reason}"
        await take(other, await exported(desk))
        before = await log_of(other)
        for look in (here.check, lambda: step_of(other, "K1"), lambda: found(other, "K1")):
            seen = await look()
            assert words(seen) == "stop possible_duplicate"
            named = [(each["key"], each["state"], each["same"]) for each in seen.get("duplicates", ())]
            assert named in ([("K2", there, "fingerprint")], [])
        stopped = await here.begin(**effect)
        assert words(stopped) == "stop possible_duplicate"
        assert [(each["key"], each["state"], each["same"]) for each in stopped["duplicates"]] == [
            ("K2", there, "fingerprint")
        ]
        assert await log_of(other) == before
        told_apart = await here.begin(distinct_from=(stopped["duplicates"][0]["operation"],), **effect)
        cannot_be_set_aside = there in ("in_doubt", "disputed")
        expected = "stop possible_duplicate" if cannot_be_set_aside else f"perform {reason}"
        assert words(told_apart) == expected
        if there == "in_doubt":
            clock.advance(301)
            await other.at("K2").reconcile("not_performed", as_of=clock.text)
            for look in (here.check, lambda: step_of(other, "K1"), lambda: found(other, "K1")):
                assert words(await look()) == f"begin {reason}"
            assert words(await here.begin(**effect)) == f"perform {reason}"


async def test_an_undoing_that_an_import_brought_stops_a_second_one_in_another_run(tmp_path: Path) -> None:
    clock = FakeClock()
    async with two_journals(tmp_path, clock) as (desk, other):
        for each in (desk, other):
            await each.receipt()
        undone = (await other.journal.check_operation(CheckOperation(ref=other.ref), as_caller(AGENT)))[
            "operation"
        ]
        here = other.at("undo-1", run="run-2")
        await here.begin(target="undo-1", compensates=undone)
        await here.failure("none", evidence={"status": 400})
        clock.advance(1)
        elsewhere = desk.at("undo-2", run="run-3")
        await elsewhere.begin(target="undo-2", compensates=undone)
        await elsewhere.failure("unknown")
        await take(other, await exported(desk))
        for look in (here.check, lambda: step_of(here, "undo-1")):
            seen = await look()
            assert words(seen) == "stop possible_duplicate"
            assert [each["same"] for each in seen["duplicates"]] == ["compensates"]
        stopped = await here.begin(target="undo-1", compensates=undone)
        assert words(stopped) == "stop possible_duplicate"
        assert [each["same"] for each in stopped["duplicates"]] == ["compensates"]


async def test_what_was_told_apart_or_planned_side_by_side_stops_nothing(tmp_path: Path) -> None:
    clock = FakeClock()
    effect: dict[str, Any] = {"action": "email.send", "target": "bob@example.org", "args": {"n": 1}}
    async with open_desk(tmp_path, clock=clock) as desk:
        plan = (PlanStep(key="K1", **effect), PlanStep(key="K2", **effect))
        await desk.journal.begin_run(BeginRun(run="run-1", plan=plan), as_caller(AGENT))
        clock.advance(1)
        first = await desk.at("K2").begin(**effect)
        await desk.at("K2").failure("unknown")
        assert words(await step_of(desk, "K1")) == "begin first_attempt"
        assert words(await desk.at("K1").check()) == "begin first_attempt"
        assert words(await desk.at("K1").begin(**effect)) == "perform first_attempt"
        await desk.at("K1").failure("none", evidence={"status": 400})
        assert words(await desk.at("K1").begin(**effect)) == "perform retry_after_failure"
        other = desk.at("L1", run="run-2")
        await other.begin(**effect)
        await other.failure("none", evidence={"status": 400})
        clock.advance(1)
        one = (await other.journal.check_operation(CheckOperation(ref=other.ref), as_caller(AGENT)))[
            "operation"
        ]
        await desk.at("L2", run="run-2").begin(distinct_from=(one,), **effect)
        assert words(await step_of(other, "L1")) == "begin retry_after_failure"
        assert words(await other.check()) == "begin retry_after_failure"
        assert words(await other.begin(**effect)) == "perform retry_after_failure"
        assert first["next"] == "perform"


def lacking(lines: list[dict[str, Any]], *, version: int, lacks: Any) -> bytes:
    """Give an export whose header says so, sealed anew."""
    return sealed([{**lines[0], "version": version, "lacks": lacks}, *lines[1:]])


async def restored(folder: Path, clock: FakeClock) -> bytes:
    """Give the export of a journal that was marked as put back from a backup."""
    async with open_desk(folder, clock=clock) as desk:
        await desk.begin()
        await desk.failure("none", evidence={"status": 401})
        clock.advance(60)
        await mark_restored(desk.journal, clock=clock, policy=Policy(), caller=IMPORTER)
    async with open_desk(folder, clock=clock) as desk:
        assert words(await desk.begin()) == "ask history_gap"
        return await exported(desk)


async def test_what_a_restored_journal_lacks_is_lacking_where_its_export_is_taken_in(tmp_path: Path) -> None:
    clock = FakeClock()
    file = await restored(tmp_path, clock)
    for _ in range(2):
        async with another_journal(tmp_path, clock) as other:
            assert (await take(other, file)).lacks_history
    async with another_journal(tmp_path, clock) as other:
        assert words(await other.begin()) == "ask history_gap"
        assert words(await other.at("unknown", run="unknown").begin()) == "ask history_gap"
        again = await exported(other)
    async with another_journal(tmp_path, clock, name="third") as third:
        assert (await take(third, again)).lacks_history
    async with another_journal(tmp_path, clock, name="third") as third:
        assert words(await third.begin()) == "ask history_gap"


@pytest.mark.parametrize("by_copy", [False, True])
@pytest.mark.parametrize("is_persons", [False, True])
@pytest.mark.parametrize("is_run_known", [False, True])
async def test_an_attempt_made_elsewhere_since_a_restore_hides_nothing_that_is_lacking_here(
    tmp_path: Path, *, by_copy: bool, is_persons: bool, is_run_known: bool
) -> None:
    """It was performed here in the lost time, perhaps: what another journal tried does not answer that."""
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        if is_run_known:
            await desk.at("known").begin()
        else:
            await desk.at("known", run="another run").begin()
        clock.advance(60)
        await mark_restored(desk.journal, clock=clock, policy=Policy(), caller=IMPORTER)
    clock.advance(60)
    async with (
        another_journal(tmp_path, clock) as other,
        open_desk(tmp_path, clock=clock) as desk,
    ):
        await other.begin()
        if is_persons:
            await other.failure("unknown")
            clock.advance(600)
            await other.reconcile("not_performed", caller=PERSON)
        else:
            await other.failure("none", evidence={"status": 401})
        await other.at("done").begin()
        await other.at("done").receipt(external_id="m-done")

        async def bring() -> list[str]:
            if not by_copy:
                return [conflict.kind for conflict in (await take(desk, await exported(other))).conflicts]
            copied, _ = await desk.journal.keeper.copy_from(other.journal.keeper, IMPORTER)
            return [*("gap" for _ in copied.refused), *(conflict.kind for conflict in copied.conflicts)]

        assert await bring() == ["gap"]
        assert words(await desk.begin()) == "ask history_gap"
        assert (await desk.journal.reader.verify()).faults == ()

    async with another_journal(tmp_path, clock) as other, open_desk(tmp_path, clock=clock) as desk:
        await desk.journal.keeper.accept_gap("run-1", as_caller(PERSON))
        assert "gap" not in await bring()
        assert words(await desk.at("done").begin()) == "skip already_succeeded"
        assert (await desk.begin())["next"] == "perform"


async def test_what_was_attempted_since_both_were_put_back_is_taken_along(tmp_path: Path) -> None:
    clock = FakeClock()
    await restored(tmp_path, clock)
    async with another_journal(tmp_path, clock) as other, open_desk(tmp_path, clock=clock) as desk:
        await take(other, await exported(desk))
    async with another_journal(tmp_path, clock) as other, open_desk(tmp_path, clock=clock) as desk:
        clock.advance(60)
        await desk.journal.keeper.accept_gap("tried", as_caller(PERSON))
        await desk.at("key-1", run="tried").begin()
        await desk.at("key-1", run="tried").failure("none", evidence={"status": 401})
        assert (await take(other, await exported(desk))).conflicts == []
        assert words(await other.at("key-1", run="tried").begin()) == "perform retry_after_failure"


async def test_an_export_that_lacks_history_is_not_taken_into_a_namespace_in_use(tmp_path: Path) -> None:
    clock = FakeClock()
    file = await restored(tmp_path, clock)
    async with another_journal(tmp_path, clock) as other:
        await other.at("mine", run="mine").begin()
        before = await log_of(other)
        with pytest.raises(Forbidden, match=r"lacks history; .* nothing was imported"):
            await take(other, file)
        assert await log_of(other) == before
    async with another_journal(tmp_path, clock) as other:
        assert words(await other.at("new").begin()) == "perform first_attempt"


async def broken_off(desk: Desk, file: bytes, *, after_runs: int) -> None:
    """Take in a file up to some run, as an import that is killed then does."""
    history, writes = desk.journal.history, 0

    class Killed(Exception): ...

    class Dying:
        def __getattr__(self, name: str) -> Any:
            return getattr(history, name)

        async def write(self, work: Any) -> Any:
            nonlocal writes
            writes += 1
            if writes > after_runs:
                raise Killed
            return await history.write(work)

    keeper = desk.journal.keeper
    view = replace(keeper._view, database=Dying())
    with pytest.raises(Killed):
        await Importer(view).take_in(read_spool(io.BytesIO(file)), IMPORTER)


async def three_runs(desk: Desk) -> None:
    for run in ("a", "b", "c"):
        await desk.at("key-1", run=run).begin(target=f"{run}@example.org")
        await desk.at("key-1", run=run).receipt(external_id=f"m-{run}")


@pytest.mark.parametrize("after_runs", [0, 1, 2])
async def test_until_an_import_has_ended_what_did_not_come_yet_is_not_permitted(
    tmp_path: Path, after_runs: int
) -> None:
    clock = FakeClock()
    async with another_journal(tmp_path, clock) as source:
        await three_runs(source)
        file = await exported(source)
    async with open_desk(tmp_path, clock=clock) as desk:
        await broken_off(desk, file, after_runs=after_runs)
    async with open_desk(tmp_path, clock=clock) as desk:
        last = desk.at("key-1", run="c")
        assert words(await last.begin(target="c@example.org")) == "ask history_gap"
        with pytest.raises(Forbidden, match="`counterfoil import` into it has still to bring"):
            await exported(desk)
    async with open_desk(tmp_path, clock=clock) as desk:
        await take(desk, file)
    async with open_desk(tmp_path, clock=clock) as desk:
        assert (
            words(await desk.at("key-1", run="c").begin(target="c@example.org")) == "skip already_succeeded"
        )
        assert words(await desk.at("new", run="new").begin()) == "perform first_attempt"
        assert (await desk.journal.keeper.gap())[0] is None


async def test_only_an_export_that_has_all_that_is_missing_ends_a_broken_import(tmp_path: Path) -> None:
    """An older one of the journal, one of a single run and one of another journal leave the gap."""
    clock = FakeClock()
    async with another_journal(tmp_path, clock) as source, another_journal(tmp_path, clock, name="b") as b:
        await source.at("key-1", run="x").begin()
        await source.at("key-1", run="y").begin()
        older = await exported(source)
        clock.advance(60)
        await three_runs(source)
        file, one = await exported(source), await exported(source, "c")
        await three_runs(b)
        unrelated = await exported(b)
        clock.advance(60)
        newer = await exported(source)
    for taken, is_whole in ((older, False), (one, False), (unrelated, False), (file, True), (newer, True)):
        folder = tmp_path / hashlib.sha256(taken).hexdigest()
        folder.mkdir()
        async with open_desk(folder, clock=clock) as desk:
            await broken_off(desk, file, after_runs=1)
        async with open_desk(folder, clock=clock) as desk:
            await take(desk, taken)
        async with open_desk(folder, clock=clock) as desk:
            expected = "perform first_attempt" if is_whole else "ask history_gap"
            assert words(await desk.at("new", run="new").begin()) == expected


async def test_an_import_ends_no_copy_and_a_copy_ends_an_import_of_that_journal(tmp_path: Path) -> None:
    clock = FakeClock()
    async with another_journal(tmp_path, clock) as source:
        await three_runs(source)
        file = await exported(source)
        async with open_desk(tmp_path, clock=clock) as desk:
            await desk.journal.keeper.begin_copy_of(source.journal.keeper)
        async with open_desk(tmp_path, clock=clock) as desk:
            await take(desk, file)
        async with open_desk(tmp_path, clock=clock) as desk:
            answer = await desk.at("new", run="new").begin()
            assert words(answer) == "ask history_gap"
            # Whoever accepts the gap of what has only not come yet permits what the file has as done.
            assert "import or copy into it has not ended" in answer["guidance"]
            await broken_off(desk, file, after_runs=1)
        async with open_desk(tmp_path, clock=clock) as desk:
            await desk.journal.keeper.copy_from(source.journal.keeper, IMPORTER)
            await desk.journal.keeper.end_copy_of(source.journal.keeper)
        async with open_desk(tmp_path, clock=clock) as desk:
            assert words(await desk.at("new", run="other").begin()) == "perform first_attempt"


async def test_an_import_into_a_namespace_in_use_or_of_a_single_run_marks_nothing(tmp_path: Path) -> None:
    clock = FakeClock()
    async with another_journal(tmp_path, clock) as source:
        await three_runs(source)
        file, one = await exported(source), await exported(source, "c")
    async with open_desk(tmp_path, clock=clock) as desk:
        await desk.at("mine", run="mine").begin()
        await broken_off(desk, file, after_runs=1)
        assert words(await desk.at("new", run="new").begin()) == "perform first_attempt"
    (tmp_path / "one").mkdir()
    async with open_desk(tmp_path / "one", clock=clock) as desk:
        await take(desk, one)
        assert words(await desk.at("new", run="new").begin()) == "perform first_attempt"


async def test_a_header_that_hides_or_garbles_what_is_lacking_is_refused(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (await restored(tmp_path, FakeClock())).splitlines()]
    assert lines[0]["version"] == 2
    lacks = lines[0]["lacks"]
    garbled = ({}, [], {**lacks, "until": "now"}, {**lacks, "since": True}, {**lacks, "since": -1})
    for version, said in ((1, lacks), (2, None), *((2, each) for each in garbled)):
        with pytest.raises(InvalidArgument, match="line 1"):
            read_spool(io.BytesIO(lacking(lines, version=version, lacks=said)))


async def test_a_lease_that_was_extended_elsewhere_is_waited_for(tmp_path: Path) -> None:
    clock = FakeClock()
    async with two_journals(tmp_path, clock, lookup=LOOKUP, lease_seconds=300) as (desk, other):
        clock.advance(250)
        await desk.journal.record_progress(
            RecordProgress(ref=desk.ref, attempt=1, message="on"), as_caller(AGENT)
        )
        ends = clock.at + 300_000_000
        assert (await take(other, await exported(desk))).doubts == 1
        assert not (await take(other, await exported(desk))).changed
        clock.advance(100)
        shown = await other.journal.check_operation(CheckOperation(ref=other.ref), as_caller(AGENT))
        assert (shown["state"], shown["settle_until"]) == ("in_doubt", rfc3339(ends + 300_000_000))


@pytest.mark.parametrize(
    ("there", "here"),
    [
        (KEYED, KEYED),
        ({"repeat": "unsafe"}, KEYED),
        ({"repeat": "unsafe"}, {"repeat": "safe"}),
        (KEYED, {"repeat": "safe"}),
    ],
)
async def test_an_attempt_elsewhere_stops_a_repeat_of_what_is_in_doubt_here(
    tmp_path: Path, there: dict[str, Any], here: dict[str, Any]
) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        await desk.begin(lookup=LOOKUP, **there)
        await desk.failure("none", evidence={"status": 400})
        await desk.begin(lookup=LOOKUP, **there)
        await desk.failure("unknown", attempt=2)
        await other.begin(lookup=LOOKUP, **here)
        await other.failure("unknown")
        taken = await take(other, await exported(desk))
        assert (taken.doubts, await other.state()) == (1, "in_doubt")
        assert words(await other.begin(**here)) == "reconcile in_doubt"
        assert not (await take(other, await exported(desk))).changed
        clock.advance(301)
        assert words(await other.reconcile("not_performed", as_of=clock.text)) == "continue recorded"
        assert words(await other.begin(**here)) == "perform retry_after_failure"
        assert (await other.journal.reader.verify()).faults == ()


async def test_a_key_lives_no_longer_than_its_first_grant_elsewhere_and_the_shorter_life_permit(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        await desk.begin(lookup=LOOKUP, repeat="keyed", key_ttl_seconds=3_000)
        first = clock.at
        await desk.failure("unknown")
        clock.advance(100)
        await other.begin(lookup=LOOKUP, **KEYED)
        await other.failure("unknown")
        await take(other, await exported(desk))
        clock.advance(301)
        await other.reconcile("not_performed", as_of=clock.text)
        again = await other.begin(**KEYED)
        assert words(again) == "perform retry_after_failure"
        assert again["repeat_until"] == rfc3339(first + 2_700_000_000)


async def test_an_attempt_elsewhere_that_may_be_repeated_safely_stops_no_safe_repeat(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        for each in (desk, other):
            await each.begin(repeat="safe")
            await each.failure("unknown")
            clock.advance(1)
        await take(other, await exported(desk))
        assert words(await other.begin(repeat="safe")) == "perform repeat_safe"


async def test_an_operation_unknown_here_is_taken_into_a_run_that_is_known(tmp_path: Path) -> None:
    clock = FakeClock()
    async with two_journals(tmp_path, clock) as (desk, other):
        await other.at("ours").begin()
        theirs = desk.at("theirs")
        await theirs.begin(payload="the text", lookup=LOOKUP)
        await theirs.failure("unknown", caller=AGENT)
        await theirs.reconcile("inconclusive", caller=PERSON)
        taken = await take(other, await exported(desk))
        assert (taken.operations_new, taken.conflicts) == (1, [])
        assert words(await other.at("theirs").begin()) == words(await theirs.begin())
        assert (await other.at("theirs").check(detail="payload"))["content"] == "the text"
        callers = [entry["caller"] for entry in (await other.at("theirs").check(detail="full"))["history"]]
        assert {caller.get("client") for caller in callers} == {"test", "counterfoil"}
        assert (await other.journal.reader.verify()).faults == ()
        assert not (await take(other, await exported(desk))).changed


async def test_an_undoing_elsewhere_is_an_undoing_here(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        begun = await desk.begin(action="pay.send")
        await desk.receipt(external_id="t-1", kind="transaction", system="bank")
        await take(other, await exported(desk))
        undoing = desk.at("refund", run="run-2")
        await undoing.begin(action="pay.refund", compensates=begun["operation"])
        await undoing.receipt(external_id="t-2", kind="transaction", system="bank")
        taken = await take(other, await exported(desk, "run-2"))
        assert taken.runs_new == 1
        assert await other.state() == "compensated"
        assert (await other.journal.reader.verify()).faults == ()


UNDOING: dict[str, Any] = {"external_id": "u-1", "kind": "record", "system": "crm"}


async def test_an_undoing_that_came_too_early_here_counts_once_it_counts_elsewhere(tmp_path: Path) -> None:
    """It was found while a lease was live: kept in both, and handed in again in one of them."""
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        await desk.begin(**KEYED)
        assert words(await desk.reconcile("compensated", **UNDOING)) == "wait lease_held"
        await desk.failure("unknown")
        await take(other, await exported(desk))
        assert words(await desk.reconcile("compensated", **UNDOING)) == "continue recorded"
        file = await exported(desk)
        taken = await take(other, file)
        assert (taken.receipts, taken.conflicts) == (1, [])
        assert words(await other.begin(**KEYED)) == "skip compensated"
        assert not (await take(other, file)).changed
        assert (await other.journal.reader.verify()).faults == ()


@pytest.mark.parametrize("has_failed", [False, True])
async def test_what_took_place_and_was_undone_elsewhere_is_undone_here_too(
    tmp_path: Path, has_failed: bool
) -> None:
    """Only its undoing has a reference: that the effect took place is what the attempt elsewhere may mean."""
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        plan = (PlanStep(key="key-1", action="email.send", target="key-1@example.org", args={"n": 1}),)
        await other.journal.begin_run(BeginRun(run=other.run, plan=plan), AGENT)
        if has_failed:
            await other.begin(args={"n": 1})
            await other.failure("none", evidence={"status": 401})
            clock.advance(1)
        await desk.begin(args={"n": 1})
        await desk.failure("unknown")
        await desk.reconcile("compensated", **UNDOING)
        file = await exported(desk)
        assert (await take(other, file)).conflicts == []
        assert words(await other.begin(args={"n": 1})) == "skip compensated"
        assert not (await take(other, file)).changed
        assert (await other.journal.reader.verify()).faults == ()


@pytest.mark.parametrize("by_copy", [False, True])
async def test_what_two_journals_have_undone_by_two_operations_is_told(
    tmp_path: Path, *, by_copy: bool
) -> None:
    """Money paid back twice is in nobody's state: each journal counts it as undone, and so it is."""
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        original = await desk.begin()
        await desk.receipt()
        await take(other, await exported(desk))
        undoings = []
        for place, run in ((desk, "here"), (other, "there")):
            undo = place.at("undo", run=run)
            begun = await undo.begin(action="email.recall", compensates=original["operation"])
            undoings.append(begun["operation"])
            await undo.receipt(external_id=f"u-{run}")
        for _ in range(2):
            if by_copy:
                copied, _checked = await desk.journal.keeper.copy_from(other.journal.keeper, IMPORTER)
                conflicts = copied.conflicts
            else:
                conflicts = (await take(desk, await exported(other))).conflicts
            told = [(each.kind, each.operation, each.journal, each.file) for each in conflicts]
            assert told == [("undone", original["operation"], *undoings)]
        assert await desk.state() == "compensated"


async def test_an_undoing_that_comes_without_what_it_undoes_is_told_until_that_has_come(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        original = await desk.at("key-1", run="z").begin()
        await desk.at("key-1", run="z").receipt()
        undo = desk.at("undo", run="a")
        begun = await undo.begin(action="email.recall", compensates=original["operation"])
        await undo.receipt(external_id="u-1")
        for _ in range(2):
            (told,) = (await take(other, await exported(desk, "a"))).conflicts
            assert (told.kind, told.operation) == ("original", begun["operation"])
            assert told.journal == f"{original['operation']} is unknown"
        # The undoing's run comes first in the whole file, its original after it.
        assert (await take(other, await exported(desk))).conflicts == []
        assert (await take(other, await exported(desk, "a"))).conflicts == []
        assert words(await other.at("key-1", run="z").begin()) == "skip compensated"


async def test_another_effect_under_the_same_key_is_a_conflict_and_adds_nothing(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        await desk.begin(args={"amount": 10})
        await desk.receipt()
        await other.begin(args={"amount": 20})
        before = await log_of(other)
        taken = await take(other, await exported(desk))
        assert [(found.kind, found.key) for found in taken.conflicts] == [("effect", "key-1")]
        assert await log_of(other) == before


async def test_a_secret_under_another_journals_key_is_no_conflict(tmp_path: Path) -> None:
    clock = FakeClock()
    secrets = {"args": {"token": TOKEN, "note": f"Bearer {TOKEN} it is", "amount": 10}}
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        await desk.begin(**secrets)
        await desk.receipt()
        await other.begin(**secrets)
        taken = await take(other, await exported(desk))
        assert (taken.receipts, taken.conflicts, await other.state()) == (1, [], "succeeded")


async def test_a_secret_that_came_from_another_journal_is_no_conflict_when_it_is_begun(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    args = {"token": TOKEN, "amount": 10}
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        await desk.at("done").begin(args=args)
        await desk.at("done").receipt()
        await desk.at("doubt").begin(args=args, **KEYED)
        await desk.at("doubt").failure("unknown")
        await take(other, await exported(desk))
        assert words(await other.at("done").begin(args=args)) == "skip already_succeeded"
        # Whether the caller has the very secret cannot be told here, so nothing is repeated.
        assert words(await other.at("doubt").begin(args=args, **KEYED)) == "reconcile in_doubt"
        for changed in ({"amount": 20}, {"token": None}, {"more": 1}):
            answer = await other.at("done").begin(args={**args, **changed})
            assert words(answer) == "stop identity_conflict"


async def test_a_difference_beside_a_secret_is_one_all_the_same(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        await desk.begin(args={"token": TOKEN, "amount": 10})
        await other.begin(args={"token": TOKEN, "amount": 20})
        taken = await take(other, await exported(desk))
        assert [found.kind for found in taken.conflicts] == ["effect"]


async def test_what_is_foreign_or_set_aside_there_proves_nothing_here(tmp_path: Path) -> None:
    clock = FakeClock()
    async with two_journals(tmp_path, clock) as (desk, other):
        await desk.receipt(external_id="m-old", performed_at="2020-01-01T00:00:00Z", attempt=None)
        await desk.receipt(external_id="m-1")
        await desk.reconcile("not_performed", caller=PERSON)
        await desk.reconcile("not_performed", caller=PERSON, as_of=clock.text)
        clock.advance(400)
        taken = await take(other, await exported(desk))
        assert taken.receipts == 0
        assert taken.not_taken >= 1
        assert await other.state() == "in_doubt"


async def test_a_pruned_operation_arrives_as_a_tombstone(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        await desk.begin(args={"n": 1}, payload="text")
        await desk.receipt()
        clock.advance(100 * 86_400)
        await desk.journal.keeper.prune(older_than_seconds=86_400)
        await take(other, await exported(desk))
        answer = await other.begin(args={"n": 1}, payload="text")
        assert words(answer) == "skip already_succeeded"
        assert answer["recorded"]["payload"]["pruned"] is True
        with sqlite3.connect(tmp_path / "another" / "journal.db") as raw:
            assert raw.execute("SELECT pruned_at FROM operations").fetchall() == [(clock.at,)]


@pytest.mark.sqlite_only
@pytest.mark.parametrize(
    ("damage_done", "said"),
    [
        ("UPDATE events SET data = '{' WHERE run = 'b' AND seq = 2", "event 2 was changed"),
        (
            "UPDATE events SET data = CAST(x'22ff22' AS TEXT) WHERE run = 'b' AND seq = 2",
            "event 2 cannot be read",
        ),
        ("DELETE FROM events WHERE run = 'b' AND seq = 2", "event 2 is missing"),
        (
            "DELETE FROM events WHERE run = 'b' AND seq = (SELECT last_seq FROM runs WHERE run = 'b')",
            "ends at",
        ),
        ("UPDATE runs SET head = 'x' WHERE run = 'b'", "another last hash"),
        (
            "UPDATE bodies SET body = '1' WHERE run = 'b' AND body LIKE '%\"n\"%'",
            "a body is not what was recorded",
        ),
        ("UPDATE contexts SET body = CAST(x'22ff22' AS TEXT)", "a context is not what was recorded"),
    ],
)
async def test_what_no_journal_would_take_in_is_not_exported_and_the_run_is_named(
    tmp_path: Path, damage_done: str, said: str
) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await three_runs(desk)
        await desk.at("key-2", run="b").begin(args={"n": 1}, context={"model": "m-1"})
    damage(tmp_path, damage_done)
    async with open_desk(tmp_path, clock=clock) as desk:
        with pytest.raises(JournalUnavailable, match=f"run b is damaged: .*{said}"):
            await exported(desk)
        file = await exported(desk, "c")
    async with another_journal(tmp_path, clock) as other:
        assert (await take(other, file)).runs_new == 1


async def test_nothing_crosses_namespaces(tmp_path: Path) -> None:
    clock = FakeClock()
    async with (
        open_desk(tmp_path, clock=clock) as desk,
        open_desk(tmp_path, clock=clock, namespace="tenant") as tenant,
    ):
        await desk.begin()
        await tenant.at("theirs").begin()
        file = await exported(desk)
        assert b"theirs" not in file
        with pytest.raises(InvalidArgument, match=r"line 1.*namespace"):
            await take(tenant, file)


# Files that were cut, damaged or made up


def sealed(lines: list[dict[str, Any]]) -> bytes:
    """Write lines as an export whose counts and digest fit, whatever the rest says."""
    kinds = {"run": "runs", "body": "bodies", "context": "contexts", "event": "events"}
    counts = dict.fromkeys(("runs", "operations", "events", "bodies", "contexts"), 0)
    for line in lines:
        if line["type"] in kinds:
            counts[kinds[line["type"]]] += 1
        counts["operations"] += line.get("kind") == "operation_created"
    text = "".join(json.dumps(line) + "\n" for line in lines)
    end = {"type": "end", "lines": len(lines), "counts": counts}
    digest = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    return (text + json.dumps({**end, "digest": digest}) + "\n").encode()


def rechained(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give the events hashes that fit, as somebody would who forges a log."""
    from counterfoil.store.chain import event_hash, genesis

    head, run = "", lines[0]
    for line in lines:
        if line["type"] == "run":
            run, head = line, genesis("default", line["run"])
        if line["type"] == "event":
            said = {name: line[name] for name in ("seq", "operation", "kind", "at", "caller", "data")}
            # One of the forgeries has a number where the text of a caller belongs.
            line["hash"] = head = event_hash(head, **{**said, "caller": str(said["caller"])})
            run["head"] = head
    return lines


def edit(kind: str, changes: dict[str, Any]) -> Callable[[list[dict[str, Any]]], None]:
    def change(lines: list[dict[str, Any]]) -> None:
        next(line for line in lines if line["type"] == kind).update(changes)

    return change


def edit_data(kind: str, changes: dict[str, Any]) -> Callable[[list[dict[str, Any]]], None]:
    def change(lines: list[dict[str, Any]]) -> None:
        line = next(line for line in lines if line.get("kind") == kind)
        line["data"] = json.dumps({**json.loads(line["data"]), **changes})

    return change


def rename_operation(lines: list[dict[str, Any]]) -> None:
    for line in lines:
        if line.get("operation"):
            line["operation"] = "op_" + "a" * 20


HOSTILE: dict[str, Callable[[list[dict[str, Any]]], None]] = {
    "another format": edit("header", {"format": "zip"}),
    "a later version": edit("header", {"version": 2}),
    "a run that is no name": edit("run", {"run": "a\u0000b"}),
    "a name not in normal form": edit("run", {"run": " run-1 "}),
    "a number for a text": edit("event", {"caller": 7}),
    "a time beyond all": edit("event", {"at": 2**62}),
    "a time of next year": edit("event", {"at": 2_000_000_000_000_000}),
    "a caller that is no JSON": edit("event", {"caller": "{"}),
    "a caller that is no object": edit("event", {"caller": "[]"}),
    "an event of no kind": edit("event", {"kind": "miracle"}),
    "a number that is missing": edit("event", {"seq": 2}),
    "a body under another digest": edit("body", {"body": '"another"'}),
    "an operation under another id": edit("event", {"operation": "op_" + "a" * 20}),
    "all of an operation under another id": rename_operation,
    "an operation of another run": edit_data("operation_created", {"run": "run-2"}),
    "a position before the first": edit_data("operation_created", {"position": 0}),
    "a position in words": edit_data("operation_created", {"position": "first"}),
    "a description that is none": edit_data("operation_created", {"description": {"action": 1}}),
    "a target that is an object": edit_data(
        "operation_created",
        {"description": {"action": "a", "target": {}, "fingerprint": "v1:sha256:" + "0" * 64}},
    ),
    "an attempt with an unknown field": edit_data("attempt_granted", {"hack": 1}),
    "an attempt without a number": edit_data("attempt_granted", {"number": None}),
    "a secret in a name": edit_data("operation_created", {"key": TOKEN}),
    "a secret": edit_data("attempt_granted", {"reason": f"because of {TOKEN}"}),
    "a text without end": edit_data("attempt_granted", {"reason": "x" * 30_000}),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
async def test_a_file_that_no_journal_wrote_is_refused_by_line_and_leaves_nothing(
    tmp_path: Path, change: Callable[[list[dict[str, Any]]], None]
) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        await desk.at("key-1", run="before").begin()
        await desk.begin(payload="text")
        lines = [json.loads(line) for line in (await exported(desk)).splitlines()][:-1]
        tail = next(number for number, line in enumerate(lines) if line.get("run") == "run-1")
        if lines[0]["type"] == "header" and change in (HOSTILE["another format"], HOSTILE["a later version"]):
            change(lines)
        else:
            change(lines[tail:])
        with pytest.raises(InvalidArgument, match=r"^line \d+: "):
            await take(other, sealed(rechained(lines)))
        assert await log_of(other) == []


async def test_a_forged_log_that_fits_by_itself_is_still_held_to_the_names(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk, another_journal(tmp_path, clock) as other:
        await desk.begin()
        lines = [json.loads(line) for line in (await exported(desk)).splitlines()][:-1]
        assert (await take(other, sealed(rechained(lines)))).runs_new == 1


@pytest.mark.parametrize("part", ["last line", "half a line", "middle", "everything"])
async def test_a_file_that_was_cut_is_noticed(tmp_path: Path, part: str) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        whole = await exported(desk)
        lines = whole.splitlines(keepends=True)
        cut = {
            "last line": b"".join(lines[:-1]),
            "half a line": whole[:-20],
            "middle": b"".join((*lines[:2], *lines[3:])),
            "everything": b"",
        }[part]
        with pytest.raises(InvalidArgument, match="line"):
            read_spool(io.BytesIO(cut))


@pytest.mark.parametrize(
    "file",
    [b"\n", b"{}\n", b"[1]\n", b"not json\n", b'{"type":"run"}\n', b"\xff\xfe\n", b'{"type":' + b"[" * 9_999],
)
async def test_a_file_of_another_kind_is_refused(file: bytes) -> None:
    with pytest.raises(InvalidArgument, match="line 1"):
        read_spool(io.BytesIO(file))


async def test_one_changed_byte_is_noticed(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        whole = await exported(desk)
    with pytest.raises(InvalidArgument, match="digest does not fit"):
        read_spool(io.BytesIO(whole.replace(b"email.send", b"email.sent", 1)))
