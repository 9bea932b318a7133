"""Several sessions on one journal at once: nothing acknowledged is lost, nothing is granted twice.

Longer, with the same code: `COUNTERFOIL_LONG=1 uv run pytest tests/crash`.
"""

import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from crash.sessions import LATER_SECONDS, LONG, Session, effects, follow_plan

pytestmark = pytest.mark.usefixtures("store")

PROCESSES = 8


@contextmanager
def sessions(folder: Path, count: int) -> Iterator[list[Session]]:
    """Give `count` running sessions on one journal, all ready."""
    with ExitStack() as stack:
        started = [stack.enter_context(Session(folder)) for _ in range(count)]
        for session in started:
            session.wait_until_ready()
        yield started


def begin(key: str, **fields: Any) -> dict[str, Any]:
    """Give the fields of a begin."""
    return {
        "run": "run-1",
        "key": key,
        "action": "email.send",
        "target": f"{key}@example.org",
        "lookup": {"tool": "mail.search"},
        **fields,
    }


def test_of_fifty_simultaneous_begins_over_eight_processes_one_is_granted(tmp_path: Path) -> None:
    """L-6: one `perform`, forty-nine `wait`, no error.

    Reported: anthropics/claude-code#91353, PrefectHQ/prefect#8880.
    """
    with sessions(tmp_path, PROCESSES) as running:
        asked = [running[number % PROCESSES] for number in range(50)]
        for session in asked:
            session.send("begin_operation", **begin("one"))
        answers = [session.receive() for session in asked]
    counted = Counter(answer.get("next", str(answer)) for answer in answers)
    assert counted == {"perform": 1, "wait": 49}
    assert {answer["operation"] for answer in answers} == {answers[0]["operation"]}
    assert {answer["attempt"] for answer in answers} == {1}
    assert {answer["reason"] for answer in answers if answer["next"] == "wait"} <= {
        "lease_held",
        "lease_held_by_you",
    }


def test_ids_that_fifty_begins_in_one_moment_are_given_are_fifty(tmp_path: Path) -> None:
    """I-7: the same key in fifty runs, over eight processes (fifty in the long version).

    Reported: hashicorp/terraform-provider-aws#39625.
    """
    with sessions(tmp_path, 50 if LONG else PROCESSES) as running:
        asked = [running[number % len(running)] for number in range(50)]
        for number, session in enumerate(asked):
            session.send("begin_operation", **begin("one", run=f"run-{number}"))
        answers = [session.receive() for session in asked]
        assert Counter(answer.get("next", str(answer)) for answer in answers) == {"perform": 50}
        for name in ("operation", "idempotency_key"):
            assert len({answer[name] for answer in answers}) == 50
        assert running[0].ask("verify") == {"operations": 50, "faults": []}


def test_two_processes_lose_none_of_each_others_begins(tmp_path: Path, store: str) -> None:
    """L-9: two hundred each (forty on PostgreSQL); every acknowledged one is there, and the log is whole.

    Reported: modelcontextprotocol/servers#4797, hivecommons/hive#4785.
    """
    count = 200 if store == "sqlite" or LONG else 40
    with sessions(tmp_path, 2) as running:
        for number in range(count):
            for name, session in zip("ab", running, strict=True):
                session.send("begin_operation", **begin(f"{name}-{number}"))
        answers = [session.receive() for session in running for _ in range(count)]
        assert Counter(answer.get("next", str(answer)) for answer in answers) == {"perform": 2 * count}
        assert len({answer["operation"] for answer in answers}) == 2 * count
        assert running[0].ask("verify") == {"operations": 2 * count, "faults": []}


@pytest.mark.sqlite_only
def test_a_crowd_waits_for_a_lock_without_losing_a_begin(tmp_path: Path) -> None:
    """J-2: eight begin while another program holds the lock; each gets through or is told why not.

    Reported: mksglu/context-mode#218, kenn-io/msgvault#226, awslabs/mcp#3711,
    buildingjoshbetter/TrueMemory#401.
    """
    count = 100 if LONG else 25
    with sessions(tmp_path, PROCESSES) as running:
        blocker = sqlite3.connect(tmp_path / "journal.db", isolation_level=None, check_same_thread=False)
        blocker.execute("BEGIN IMMEDIATE")
        release = threading.Timer(20 if LONG else 1, blocker.execute, ["ROLLBACK"])
        release.start()
        for number in range(count):
            for place, session in enumerate(running):
                session.send("begin_operation", **begin(f"{place}-{number}"))
        answers = [session.receive() for session in running for _ in range(count)]
        release.join()
        blocker.close()
        refused = [answer["fault"] for answer in answers if "fault" in answer]
        granted = [answer for answer in answers if answer.get("next") == "perform"]
        assert len(refused) + len(granted) == PROCESSES * count
        for fault in refused:
            assert (fault["code"], fault["recorded"]) == ("journal_unavailable", False)
        assert running[0].ask("verify") == {"operations": len(granted), "faults": []}
    assert len(granted) > 0


def test_a_session_killed_among_others_holds_nobody_up(tmp_path: Path) -> None:
    """L-9 and C-1: one of four dies in the middle of a commit; each effect is had once.

    Reported: modelcontextprotocol/servers#4797, hivecommons/hive#4785, langchain-ai/langgraph#8039.
    """
    with ExitStack() as stack:
        dying = stack.enter_context(Session(tmp_path, failpoints="before_commit=kill@3"))
        others = [stack.enter_context(Session(tmp_path)) for _ in range(3)]
        for session in (dying, *others):
            session.wait_until_ready()
        for number in range(5):
            if number < 3:
                dying.send("begin_operation", **begin(f"dying-{number}"))
            for place, session in enumerate(others):
                session.send("begin_operation", **begin(f"{place}-{number}"))
        assert dying.was_killed()
        answers = [session.receive() for session in others for _ in range(5)]
        assert Counter(answer.get("next", str(answer)) for answer in answers) == {"perform": 15}
        verified = others[0].ask("verify")
        assert verified["faults"] == []
        assert 15 <= verified["operations"] <= 17
    with Session(tmp_path, ahead_seconds=LATER_SECONDS) as session:
        intended = [begin(f"{place}-{number}") for place in range(3) for number in range(5)]
        intended += [begin(f"dying-{number}") for number in range(3)]
        follow_plan(session, "run-1", intended)
    assert Counter(effects(tmp_path)) == {step["key"]: 1 for step in intended}


def test_two_sessions_that_resume_at_once_have_the_effect_once(tmp_path: Path) -> None:
    """C-4 and L-5: both read the same plan; the begin decides anew, and the second waits.

    Reported: recoupable/app#1918, dbos-inc/dbos-transact-java#491, dbos-inc/dbos-transact-py#742.
    """
    with Session(tmp_path) as session:
        session.ask("begin_operation", **begin("one"))
        session.kill()
    with (
        Session(tmp_path, ahead_seconds=LATER_SECONDS) as one,
        Session(tmp_path, ahead_seconds=LATER_SECONDS) as two,
    ):
        plans = [session.ask("resume_plan", run="run-1") for session in (one, two)]
        assert [plan["steps"][0]["next"] for plan in plans] == ["reconcile", "reconcile"]
        looked = {"finding": "not_performed", "checked_with": "mail.search"}
        for session, plan in zip((one, two), plans, strict=True):
            session.ask("reconcile_operation", run="run-1", key="one", as_of=plan["as_of"], **looked)
        for session in (one, two):
            session.send("begin_operation", **begin("one"))
        answers = [session.receive() for session in (one, two)]
    assert sorted(answer["next"] for answer in answers) == ["perform", "wait"]
    assert {answer["attempt"] for answer in answers} == {2}
