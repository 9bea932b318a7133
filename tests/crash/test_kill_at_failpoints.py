"""A session is killed at every named place; whoever resumes follows the plan, and the effects are counted.

Longer, with the same code: `COUNTERFOIL_LONG=1 uv run pytest tests/crash`.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from crash.sessions import (
    LATER_SECONDS,
    LONG,
    Died,
    Session,
    effects,
    follow_plan,
    look_up,
    perform_once,
)

RUN = "weekly-report/2026-W48"
KEY = "email:alice"
BEGIN = {
    "run": RUN,
    "key": KEY,
    "action": "email.send",
    "target": "alice@example.org",
    "lookup": {"tool": "mail.search", "instructions": "look for the key in the subject"},
}
WRITING = ("before_begin", "after_begin", "before_commit", "after_commit")
"""The failpoints of a write, in the order in which one write reaches them."""

CORES = ["all cores", "one core"] if LONG else ["all cores"]


def until_death(session: Session) -> dict[str, Any]:
    """Begin, have the effect, record: whatever of it is reached. Gives the last answer that was seen."""
    seen: dict[str, Any] = {}
    try:
        seen = session.ask("begin_operation", **BEGIN)
        session.ask("perform", mark=KEY)
        seen = session.ask(
            "record_receipt",
            operation=seen["operation"],
            attempt=seen["attempt"],
            kind="message",
            external_id=f"ref-{KEY}",
        )
    except (Died, BrokenPipeError):
        pass
    return seen


@pytest.fixture(params=CORES)
def cores(request: pytest.FixtureRequest) -> Any:
    """Let the children of the test run on all cores, or on one."""
    before = os.sched_getaffinity(0)
    if request.param == "one core":
        os.sched_setaffinity(0, {min(before)})
    yield request.param
    os.sched_setaffinity(0, before)


@pytest.mark.parametrize("place", WRITING)
def test_a_kill_while_beginning_leaves_all_of_the_begin_or_nothing(
    tmp_path: Path, place: str, cores: str
) -> None:
    """C-1: before the begin's commit the next session may act, after it must look first.

    Reported: langchain-ai/langgraph#8039.
    """
    with Session(tmp_path, failpoints=f"{place}=kill") as session:
        assert until_death(session) == {}
        assert session.was_killed()
    assert effects(tmp_path) == []
    with Session(tmp_path) as session:
        plan = session.ask("resume_plan", run=RUN)
        begun = session.ask("begin_operation", **BEGIN)
        if place == "after_commit":
            assert [(step["state"], step["next"]) for step in plan["steps"]] == [("in_progress", "wait")]
            assert (begun["next"], begun["reason"]) == ("wait", "lease_held")
        else:
            assert plan["reason"] == "no_history"
            assert (begun["next"], begun["reason"]) == ("perform", "first_attempt")
        session.kill()
    resume_and_count(tmp_path)


@pytest.mark.parametrize("place", WRITING)
def test_a_kill_while_recording_leaves_the_whole_receipt_or_a_question(
    tmp_path: Path, place: str, cores: str
) -> None:
    """C-1: the effect has happened; it is `succeeded` or in doubt, never torn and never to be done again.

    Reported: langchain-ai/langgraph#8039.
    """
    with Session(tmp_path, failpoints=f"{place}=kill@2") as session:
        assert until_death(session)["next"] == "perform"
        assert session.was_killed()
    assert effects(tmp_path) == [KEY]
    with Session(tmp_path, ahead_seconds=LATER_SECONDS) as session:
        (step,) = session.ask("resume_plan", run=RUN, include="all")["steps"]
        begun = session.ask("begin_operation", **BEGIN)
        if place == "after_commit":
            assert (step["state"], begun["next"]) == ("succeeded", "skip")
            assert [receipt["external_id"] for receipt in begun["receipts"]] == [f"ref-{KEY}"]
        else:
            assert (step["state"], begun["next"]) == ("in_doubt", "reconcile")
            assert "receipts" not in begun
    resume_and_count(tmp_path)


@pytest.mark.parametrize("has_performed", [False, True])
def test_a_kill_between_the_reply_and_the_record_is_held_until_somebody_looked(
    tmp_path: Path, has_performed: bool
) -> None:
    """C-1 and C-3: a bare claim is never a result, before the effect and after it.

    Reported: langchain-ai/langgraph#8039, crewAIInc/crewAI#5802, crewAIInc/crewAI#5822.
    """
    with Session(tmp_path) as session:
        assert session.ask("begin_operation", **BEGIN)["next"] == "perform"
        if has_performed:
            session.ask("perform", mark=KEY)
        session.kill()
    with Session(tmp_path, ahead_seconds=LATER_SECONDS) as session:
        begun = session.ask("begin_operation", **BEGIN)
        assert (begun["state"], begun["next"], begun["reason"]) == ("in_doubt", "reconcile", "in_doubt")
        assert begun["lookup"]["tool"] == "mail.search"
        found = look_up(session, RUN, KEY, as_of=begun["as_of"])
        assert found["state"] == ("succeeded" if has_performed else "failed")
    resume_and_count(tmp_path)


def test_a_step_killed_at_its_limit_three_times_has_its_effect_once(tmp_path: Path) -> None:
    """C-4: each session begins, acts if it may, and is killed before it can record.

    Reported: recoupable/app#1918.
    """
    answers = []
    for number in range(3):
        with Session(tmp_path, ahead_seconds=number * LATER_SECONDS) as session:
            answers.append(session.ask("begin_operation", **BEGIN))
            if answers[-1]["next"] == "perform":
                session.ask("perform", mark=KEY)
            session.kill()
    assert [(answer["next"], answer["attempt"]) for answer in answers] == [
        ("perform", 1),
        ("reconcile", 1),
        ("reconcile", 1),
    ]
    assert effects(tmp_path) == [KEY]
    with Session(tmp_path, ahead_seconds=3 * LATER_SECONDS) as session:
        check = session.ask("check_operation", run=RUN, key=KEY)
    assert (check["state"], check["attempts_in_all"]) == ("in_doubt", 1)
    assert "receipts" not in check


@pytest.mark.parametrize("passing", [1, 2, 3])
def test_a_kill_of_the_resuming_session_changes_nothing_of_the_promise(tmp_path: Path, passing: int) -> None:
    """C-1, twice in a row: killed after the effect, and again while beginning, looking or recording anew.

    Reported: langchain-ai/langgraph#8039.
    """
    with Session(tmp_path) as session:
        session.ask("begin_operation", **BEGIN)
        session.kill()
    with Session(tmp_path, ahead_seconds=LATER_SECONDS, failpoints=f"after_commit=kill@{passing}") as session:
        with pytest.raises((Died, BrokenPipeError)):
            follow_plan(session, RUN, [BEGIN])
        assert session.was_killed()
    resume_and_count(tmp_path, ahead_seconds=3 * LATER_SECONDS)


@pytest.mark.parametrize("place", ["during_migration", "before_begin"])
def test_a_kill_while_the_journal_is_made_leaves_none_or_a_whole_one(tmp_path: Path, place: str) -> None:
    """J-8 and C-1: the next session starts as if nothing had been, or goes on.

    Reported: simonw/sqlite-migrate#13, open-gsd/gsd-pi#1334, Untrivial-ai/agent-orchestrator#4503,
    langchain-ai/langgraph#8039.
    """
    with Session(tmp_path, failpoints=f"{place}=kill") as session:
        with pytest.raises((Died, BrokenPipeError)):
            session.ask("begin_operation", **BEGIN)
        assert session.was_killed()
    resume_and_count(tmp_path)


def test_every_step_of_a_workflow_is_had_once_wherever_its_sessions_are_killed(tmp_path: Path) -> None:
    """C-1 and C-8: three steps, a session killed at one write further each time, until one gets through.

    Reported: langchain-ai/langgraph#8039, Immersion-Facilitee/immersion-facile#5209, PostHog/posthog#66456.
    """
    steps = [{**BEGIN, "key": f"step-{n}", "target": f"{n}@example.org"} for n in range(3)]
    for number in range(40):
        with Session(
            tmp_path, ahead_seconds=number * LATER_SECONDS, failpoints=f"{WRITING[number % 4]}=kill@2"
        ) as session:
            try:
                follow_plan(session, RUN, steps)
            except (Died, BrokenPipeError):
                assert session.was_killed()
                continue
            break
    else:
        raise AssertionError("the workflow never got through")
    assert sorted(effects(tmp_path)) == ["step-0", "step-1", "step-2"]


def test_every_acknowledged_begin_is_there_after_a_kill_right_behind_the_reply(tmp_path: Path) -> None:
    """C-2: fifty times (two hundred in the long version).

    Reported: langchain-ai/langgraph#8764.
    """
    keys = [f"step-{number}" for number in range(200 if LONG else 50)]
    # Sessions start ahead of their turn, so that the test does not wait for fifty interpreters in a row.
    with Session(tmp_path) as first:
        first.wait_until_ready()
    waiting = [Session(tmp_path) for _ in range(4)]
    for number, key in enumerate(keys):
        with waiting.pop(0) as session:
            answer = session.ask("begin_operation", **{**BEGIN, "key": key, "target": f"{key}@example.org"})
            session.kill()
            assert answer["next"] == "perform"
        if number + 4 < len(keys):
            waiting.append(Session(tmp_path))
    with Session(tmp_path, ahead_seconds=LATER_SECONDS) as session:
        plan = session.ask("resume_plan", run=RUN)
        verified = session.ask("verify")
    assert plan["counts"] == {"in_doubt": len(keys)}
    assert verified == {"operations": len(keys), "faults": []}


def resume_and_count(folder: Path, *, ahead_seconds: float = 2 * LATER_SECONDS) -> None:
    """Let a session without memory finish the work, and hold that the effect took place once."""
    with Session(folder, ahead_seconds=ahead_seconds) as session:
        follow_plan(session, RUN, [BEGIN])
        again = perform_once(session, BEGIN)
        verified = session.ask("verify")
    assert effects(folder) == [KEY]
    assert (again["next"], again["reason"]) == ("skip", "already_succeeded")
    assert verified == {"operations": 1, "faults": []}
