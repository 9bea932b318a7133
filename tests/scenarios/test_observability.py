"""Field reports about what is shown: nothing unknown passes for fine, and every answer has the one verb."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from counterfoil.store.domain.commands import BeginOperation, CheckOperation, Lookup, OperationRef, ResumePlan
from counterfoil.store.domain.instants import parse_rfc3339
from counterfoil.store.errors import Fault
from journals import AGENT, ANOTHER, PERSON, Desk, FakeClock, journal_url, open_desk
from scenarios.servers import server_environment
from scenarios.tools import call_tool

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]

VERBS = {
    "perform": {"first_attempt", "retry_after_failure", "repeat_safe", "repeat_keyed", "replayed"},
    "begin": {"first_attempt", "retry_after_failure", "repeat_safe", "repeat_keyed"},
    "skip": {"already_succeeded", "timed_out", "cancelled", "compensated"},
    "wait": {"lease_held", "lease_held_by_you", "settling", "dependency", "backoff", "run_held"},
    "reconcile": {"in_doubt", "disputed", "receipt_too_weak", "foreign_receipt"},
    "ask": {
        "authority_required",
        "authority_expired",
        "drift",
        "attempts_exhausted",
        "history_gap",
        "disputed",
        "unresolved",
        "dependency_unmet",
    },
    "stop": {"identity_conflict", "possible_duplicate", "superseded", "run_finished", "unmet"},
    "continue": {
        "recorded",
        "duplicate",
        "claimed",
        "started",
        "resumed",
        "finished",
        "listed",
        "no_history",
    },
}
"""CONTRACT.md, section 4, written down a second time."""


@pytest.mark.sqlite_only
async def test_health_fails_with_its_cause_where_the_journal_is_broken(tmp_path: Path) -> None:
    """O-1: fit for use, then with overwritten pages; the exit code tells as well as the words.

    Reported: Gentleman-Programming/engram#1292.
    """
    async with open_desk(tmp_path) as desk:
        for number in range(40):
            await desk.at(f"step-{number}").begin(args={"text": "x" * 500})
    code, healthy = await _health(tmp_path)
    assert (code, healthy["problems"]) == (0, [])
    _overwrite_pages(tmp_path / "journal.db")
    code, broken = await _health(tmp_path)
    assert code in (1, 3)
    assert "corrupt" in json.dumps(broken)


async def test_what_is_unknown_is_counted_apart_from_what_failed(tmp_path: Path) -> None:
    """O-2: five in doubt and none failed is neither "no problems" nor complete.

    Reported: open-gsd/gsd-pi#993.
    """
    async with open_desk(tmp_path) as desk:
        for number in range(5):
            await desk.at(f"step-{number}").begin()
        desk.clock.advance(301)
        plan = await desk.plan()
        assert (plan["counts"], plan["complete"]) == ({"in_doubt": 5}, False)
        runs = await desk.journal.resume_plan(ResumePlan(), ANOTHER)
        assert [(run["counts"], run["run"]) for run in runs["runs"]] == [({"in_doubt": 5}, desk.run)]
        assert runs["complete"] is False
        ended = await call_tool(desk.journal, "finish_run", run=desk.run, outcome="completed")
        assert (ended["next"], ended["reason"], ended["unmet_in_all"]) == ("stop", "unmet", 5)
    code, health = await _health(tmp_path)
    assert (code, health["counts"]) == (0, {"in_doubt": 5})
    assert health["open_questions"]["in_doubt"] == 5
    assert [step["state"] for step in health["open_questions"]["oldest"]] == ["in_doubt"] * 5


async def test_what_is_open_is_listed_for_ever_and_from_any_session(tmp_path: Path) -> None:
    """O-3: its session has been gone for three days; ten looks change nothing and add nothing.

    Reported: anthropics/claude-code#84284, anthropics/claude-code#29193, anthropics/claude-code#72171,
    stablyai/orca#21070.
    """
    clock = FakeClock()
    async with open_desk(tmp_path, clock=clock) as desk:
        await desk.begin(lookup=Lookup(tool="mail.search"))
        await desk.receipt(final=False)
    clock.advance(3 * 86_400)
    async with open_desk(tmp_path, clock=clock) as desk:
        events = await desk.journal.reader.tail()
        for _ in range(10):
            (step,) = (await desk.plan(caller=ANOTHER, include="open"))["steps"]
            assert (step["state"], step["next"]) == ("in_doubt", "reconcile")
            assert step["age_seconds"] == 3 * 86_400
            assert step["receipts"][0]["final"] is False
            (run,) = (await desk.journal.resume_plan(ResumePlan(), PERSON))["runs"]
            assert (run["counts"], run["age_seconds"]) == ({"in_doubt": 1}, 3 * 86_400)
        assert await desk.journal.reader.tail() == events
        found = await desk.reconcile("performed", caller=ANOTHER, external_id="m-1", kind="message")
        assert (found["state"], found["next"], found["reason"]) == ("succeeded", "continue", "recorded")
        settled = await desk.plan(caller=PERSON, include="open")
        assert (settled["steps"], settled["complete"]) == ([], True)


async def test_where_each_state_comes_from_is_shown(tmp_path: Path) -> None:
    """O-4: an agent's report, a lookup, a decision, a person's word and the mere passing of time differ.

    Reported: mikehasa/agentacct#92.
    """
    async with open_desk(tmp_path) as desk:
        reported, looked, decided, told, swept = (desk.at(name) for name in "abcde")
        for place in (reported, looked, decided, told, swept):
            await place.begin(lookup=Lookup(tool="mail.search", settle_seconds=0), deadline_seconds=7_200)
        await reported.receipt(external_id="m-a")
        desk.clock.advance(3_600)
        await looked.receipt(external_id="m-b", source="lookup", caller=ANOTHER)
        await decided.close("timed_out", caller=ANOTHER)
        await told.reconcile("not_performed", caller=PERSON, by="human")
        desk.clock.advance(3_600)
        sources = [(await place.check())["receipts"][0] for place in (reported, looked)]
        assert [(source["source"], source["assurance"]) for source in sources] == [
            ("response", "reported"),
            ("lookup", "reported"),
        ]
        assert (await decided.check())["decision"]["by"] == "agent"
        (finding,) = (await told.check())["findings"]
        assert finding["by"] == "person"
        told_of = [await swept.check()]
        late = await swept.progress()
        assert (late["next"], late["reason"]) == ("skip", "timed_out")
        told_of.append(await swept.check())
        # The same before anything was written after the deadline, and after.
        for shown in told_of:
            assert (shown["state"], shown["settled_at"]) == ("timed_out", shown["as_of"])
            assert (shown["decision"]["by"], shown["decision"]["at"]) == ("deadline", shown["as_of"])
            assert "receipts" not in shown
        callers = [entry["caller"] for entry in (await looked.check(detail="full"))["history"]]
        assert callers[0]["conversation"] == "conversation-1"
        assert callers[-1]["conversation"] == "conversation-2"


async def test_an_agent_that_says_it_is_a_person_is_kept_as_its_claim(tmp_path: Path) -> None:
    """O-4: only the caller's own standing makes a finding a person's.

    Reported: mikehasa/agentacct#92.
    """
    async with open_desk(tmp_path) as desk:
        await desk.begin(lookup=Lookup(tool="mail.search", settle_seconds=0))
        desk.clock.advance(301)
        said = await desk.reconcile("not_performed", as_of=desk.clock.text, by="human", caller=ANOTHER)
        assert (said["state"], said["next"]) == ("in_doubt", "reconcile")
        (finding,) = (await desk.check())["findings"]
        assert finding["by"] == "claim"
        *_, recorded = (await desk.check(detail="full"))["history"]
        assert (recorded["event"], recorded["data"]["by"]) == ("finding_recorded", "claim")


async def test_every_answer_begins_with_one_verb_that_means_the_same_everywhere(tmp_path: Path) -> None:
    """O-5: through most of what can be asked; only a begin ever says `perform`.

    Reported: FairladyZ625/harness-anything#1228.
    """
    async with open_desk(tmp_path) as desk:
        seen = [(name, answer) async for name, answer in _many_answers(desk)]
        for _, answer in seen:
            assert list(answer)[:4] == ["as_of", "next", "reason", "guidance"]
        # As the client sees it, the verb stands first.
        asked = [(name, answer) async for name, answer in _many_answers_of_tools(desk)]
        for _, answer in asked:
            assert list(answer)[:3] == ["next", "reason", "guidance"]
        seen += asked
        for name, answer in seen:
            assert answer["reason"] in VERBS[answer["next"]]
            assert answer["guidance"].endswith((".", ")."))
            assert answer["next"] != "perform" or name == "begin"
            # A request for authority that none is needed for sends to the begin as a plan does.
            assert answer["next"] != "begin" or name in ("plan", "check", "request_authority")
            json.dumps(answer, allow_nan=False)
        # What to do after `recorded` follows from the state that it led to, over a list from what is in it,
        # and from nothing else; but a failure that is final does not lead to another begin.
        said: dict[tuple[str, str, str], set[str]] = {}
        for _, answer in seen:
            state = answer.get("state", "") if answer["reason"] == "recorded" else ""
            if answer["reason"] in ("listed", "started", "resumed"):
                state = _what_is_listed(answer)
            said.setdefault((answer["next"], answer["reason"], state), set()).add(answer["guidance"])
        several = {at for at, words in said.items() if len(words) > 1}
        assert several <= {("continue", "recorded", "failed")}
        assert len(said) >= 20


def _what_is_listed(answer: dict[str, Any]) -> str:
    """Tell lists apart by what a caller can do with them: runs, what was found, or the steps of a run."""
    run = answer.get("run")
    if "runs" in answer or "operations" in answer or not isinstance(run, dict):
        return "runs" if "runs" in answer else "found"
    return f"complete {answer['complete']}, finished {run.get('finished_as')}"


async def test_a_fault_says_what_was_recorded_and_what_to_do(tmp_path: Path) -> None:
    """O-5: one JSON object with a code, never a bare message.

    Reported: FairladyZ625/harness-anything#1228.
    """
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        faults: list[Fault] = []
        for refused in (
            desk.journal.begin_operation(BeginOperation(run="", key="k", action="a"), AGENT),
            desk.journal.begin_operation(BeginOperation(run="r", key="k", action="a", repeat="keyed"), AGENT),
            desk.journal.check_operation(CheckOperation(ref=OperationRef(run="r", key="k")), AGENT),
            desk.plan(cursor="nonsense"),
        ):
            with pytest.raises(Fault) as raised:
                await refused
            faults.append(raised.value)
        for fault in faults:
            assert {"code", "message", "fix", "recorded"} <= set(fault.as_dict())
            assert fault.recorded is False
        assert [fault.code for fault in faults] == [
            "invalid_argument",
            "invalid_argument",
            "not_found",
            "invalid_argument",
        ]


async def test_the_history_gives_the_times_of_every_attempt(tmp_path: Path) -> None:
    """O-6: starts and evidence, so that a time-out of 30 s beside a repeat after 32 s can be seen.

    Reported: stripe/ai#402.
    """
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        desk.clock.advance(30)
        await desk.failure("none", error="refused", evidence={"status": 400})
        desk.clock.advance(2)
        await desk.begin(caller=ANOTHER)
        desk.clock.advance(5)
        await desk.receipt(attempt=2, performed_at=desk.clock.text)
        check = await desk.check(detail="full")
        first, second = check["attempts"]
        assert _seconds_between(first["granted_at"], first["ended_at"]) == 30
        assert _seconds_between(first["granted_at"], second["granted_at"]) == 32
        (receipt,) = check["receipts"]
        assert (receipt["attempt"], receipt["recorded_at"]) == (2, receipt["performed_at"])
        assert _seconds_between(second["granted_at"], receipt["recorded_at"]) == 5
        times = [entry["at"] for entry in check["history"]]
        assert times == sorted(times)


async def _health(folder: Path) -> tuple[int, dict[str, Any]]:
    """Ask `counterfoil check` as a monitor does; gives its exit code and what it printed."""
    command = [sys.executable, "-m", "counterfoil.server", "check", "--json"]
    ended = await anyio.run_process(
        [*command, "--journal", journal_url(folder / "journal.db")],
        check=False,
        env=server_environment(folder),
    )
    return ended.returncode, json.loads(ended.stdout)


def _overwrite_pages(path: Path) -> None:
    """Flip the first bytes of every page but the first four."""
    content = bytearray(path.read_bytes())
    page = int.from_bytes(content[16:18], "big")
    for start in range(4 * page, len(content), page):
        content[start : start + 64] = bytes(byte ^ 0xFF for byte in content[start : start + 64])
    path.write_bytes(content)


def _seconds_between(one: str, other: str) -> float:
    return (parse_rfc3339(other, field="x") - parse_rfc3339(one, field="x")) / 1_000_000


async def _many_answers(desk: Desk) -> Any:
    lookup = Lookup(tool="mail.search", settle_seconds=0)
    a, b, c, d = (desk.at(name) for name in "abcd")
    yield "plan", await desk.plan()
    yield "begin", await a.begin(lookup=lookup)
    yield "begin", await a.begin()
    yield "begin", await a.begin(caller=ANOTHER)
    yield "check", await a.check()
    yield "failure", await a.failure("unknown")
    yield "begin", await a.begin()
    yield "reconcile", await a.reconcile("inconclusive", as_of=desk.clock.text)
    yield "receipt", await a.receipt(external_id=None)
    yield "receipt", await a.receipt(external_id="m-a")
    yield "receipt", await a.receipt(external_id="m-a")
    yield "receipt", await a.receipt(external_id=None, evidence={"x": 1})
    yield "begin", await a.begin()
    yield "receipt", await a.receipt(external_id="m-b")
    yield "begin", await a.begin()
    yield "begin", await b.begin(max_attempts=1)
    yield "failure", await b.failure("none", evidence={"status": 400})
    yield "begin", await b.begin()
    yield "begin", await b.begin(args={"another": 1})
    yield "begin", await c.begin(target="b@example.org")
    yield "begin", await c.begin(depends_on=("b",))
    yield "check", await c.check()
    yield "close", await b.close("cancelled")
    yield "begin", await c.begin(depends_on=("b",))
    yield "begin", await d.begin()
    yield "failure", await d.failure("none", evidence={"status": 400}, retry_after_seconds=10)
    yield "begin", await d.begin()
    desk.clock.advance(10)
    yield "check", await d.check()
    yield "begin", await d.begin()
    yield "failure", await d.failure("none", attempt=1, evidence={"status": 400})
    yield "plan", await desk.plan()


async def _many_answers_of_tools(desk: Desk) -> Any:
    """Ask by the tools of runs, which have answers of their own."""
    step = {"key": "e", "action": "email.send", "target": "e@example.org"}
    asked: list[tuple[str, dict[str, Any]]] = [
        ("begin_run", {"plan": [step]}),
        ("begin_run", {}),
        ("resume_plan", {}),
        ("record_progress", {"message": "half"}),
        ("finish_run", {"outcome": "completed"}),
        ("request_authority", {"key": "e", "why": "it is due"}),
        ("begin_operation", step),
        ("record_progress", {"key": "e", "attempt": 1}),
        ("record_receipt", {"key": "e", "external_id": "m-e"}),
        ("close_operation", {"key": "e", "outcome": "cancelled", "reason": "x"}),
        ("finish_run", {"outcome": "completed"}),
        ("begin_run", {}),
        ("begin_operation", {**step, "key": "f", "target": "f@example.org"}),
    ]
    for tool, given in asked:
        answer = await call_tool(desk.journal, tool, run="run-2", **given)
        yield {"begin_operation": "begin", "resume_plan": "plan"}.get(tool, tool), answer
    yield "find", await call_tool(desk.journal, "find_operations", run="run-2")
    yield "begin_run", await call_tool(desk.journal, "begin_run", run="run-3")
    held = await call_tool(desk.journal, "begin_run", run="run-3", connection="connection-2")
    yield "begin_run", held
