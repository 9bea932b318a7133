"""Sessions that overlap where it hurts: held at failpoints until another one is done, or let go together."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from crash.race import PROCESSES
from crash.sessions import LATER_SECONDS, Barrier, Session

pytestmark = pytest.mark.usefixtures("store")

AFTER_THE_LEASE = 400
"""Past the default lease (300 s), within the time in which a key permits repeats."""

BEGIN: dict[str, Any] = {"run": "run-1", "key": "one", "action": "email.send", "target": "one@example.org"}
KEYED = {**BEGIN, "repeat": "keyed", "key_ttl_seconds": 100_000}
LOOKED_UP = {**BEGIN, "lookup": {"tool": "mail.search"}}
HOLDER = {"trace": {"conversation": "the holder"}}
RECEIPT = {"kind": "message", "system": "smtp", "external_id": "m-1"}


class Crowd:
    """Sessions that wait before their first transaction until all of them are there."""

    def __init__(self, sessions: list[Session], barriers: list[Barrier]) -> None:
        self.sessions = sessions
        self._barriers = barriers

    def ask(self, do: str, *given: dict[str, Any]) -> list[dict[str, Any]]:
        """Let each session make one call, `given` by turns; none begins before all stand at theirs."""
        for session, fields in zip(self.sessions, cycle(given), strict=False):
            session.send(do, **fields)
        for barrier in self._barriers:
            barrier.wait_until_reached()
        for barrier in self._barriers:
            barrier.let_go()
        return [session.receive() for session in self.sessions]


@contextmanager
def crowd(folder: Path, count: int, *, ahead_seconds: float = 0) -> Iterator[Crowd]:
    """Give so many sessions on one journal."""
    with ExitStack() as stack:
        # Made by one that nothing holds, since making a journal writes as well.
        with Session(folder) as maker:
            maker.wait_until_ready()
        barriers = [Barrier(folder / f"barrier-{number}") for number in range(count)]
        sessions = [
            stack.enter_context(
                Session(folder, ahead_seconds=ahead_seconds, failpoints=barrier.at("before_begin"))
            )
            for barrier in barriers
        ]
        for session in sessions:
            session.wait_until_ready()
        yield Crowd(sessions, barriers)


def test_a_grant_is_seen_by_others_before_its_own_caller_hears_of_it(tmp_path: Path) -> None:
    """Between commit and answer: nobody else is granted it, and the answer still comes."""
    barrier = Barrier(tmp_path / "barrier")
    with Session(tmp_path) as other, Session(tmp_path, failpoints=barrier.at("after_commit")) as slow:
        other.wait_until_ready()
        slow.send("begin_operation", **BEGIN)
        barrier.wait_until_reached()
        seen = other.ask("begin_operation", **BEGIN)
        barrier.let_go()
        granted = slow.receive()
    assert (seen["next"], seen["reason"], seen["attempt"]) == ("wait", "lease_held", 1)
    assert (granted["next"], granted["reason"], granted["attempt"]) == ("perform", "first_attempt", 1)


@pytest.mark.parametrize(
    ("do", "said"),
    [
        ("record_progress", {"message": "still at it"}),
        ("record_failure", {"effect": "unknown", "error": "no answer"}),
        ("record_failure", {"effect": "none", "error": "refused", "evidence": {"status": 422}}),
    ],
)
def test_a_word_that_comes_behind_a_takeover_is_superseded(
    tmp_path: Path, do: str, said: dict[str, Any]
) -> None:
    """Fencing: the old holder stands before its transaction while another one is granted attempt 2."""
    barrier = Barrier(tmp_path / "barrier")
    with Session(tmp_path) as first:
        assert first.ask("begin_operation", **KEYED, **HOLDER)["attempt"] == 1
    with (
        Session(tmp_path, ahead_seconds=AFTER_THE_LEASE) as taking,
        Session(tmp_path, ahead_seconds=AFTER_THE_LEASE, failpoints=barrier.at("before_begin")) as old,
    ):
        old.send(do, run="run-1", key="one", attempt=1, **said, **HOLDER)
        barrier.wait_until_reached()
        taken = taking.ask("begin_operation", **KEYED)
        barrier.let_go()
        fenced = old.receive()
        check = taking.ask("check_operation", run="run-1", key="one")
    assert (taken["next"], taken["reason"], taken["attempt"]) == ("perform", "repeat_keyed", 2)
    assert (fenced["next"], fenced["reason"], fenced["attempt"]) == ("stop", "superseded", 2)
    assert (check["state"], check["attempt"], check["attempts_in_all"]) == ("in_progress", 2, 2)


def test_a_heartbeat_before_a_takeover_keeps_the_lease(tmp_path: Path) -> None:
    """The other order: the one who would take over stands before its transaction, and then waits."""
    barrier = Barrier(tmp_path / "barrier")
    with Session(tmp_path) as first:
        first.ask("begin_operation", **KEYED, **HOLDER)
    with (
        Session(tmp_path, ahead_seconds=AFTER_THE_LEASE) as old,
        Session(tmp_path, ahead_seconds=AFTER_THE_LEASE, failpoints=barrier.at("before_begin")) as taking,
    ):
        old.wait_until_ready()
        taking.send("begin_operation", **KEYED)
        barrier.wait_until_reached()
        revived = old.ask("record_progress", run="run-1", key="one", attempt=1, message="alive", **HOLDER)
        barrier.let_go()
        waits = taking.receive()
    assert (revived["next"], revived["state"]) == ("continue", "in_progress")
    assert (waits["next"], waits["reason"], waits["attempt"]) == ("wait", "lease_held", 1)
    assert waits["retry_at"] == revived["lease_expires_at"]


def test_a_receipt_that_comes_behind_a_takeover_is_kept_and_steals_nothing(tmp_path: Path) -> None:
    """Attempt 1 had the effect: its receipt settles it, and the number of attempt 2 stays its holder's."""
    barrier = Barrier(tmp_path / "barrier")
    with Session(tmp_path) as first:
        first.ask("begin_operation", **KEYED, **HOLDER)
    with (
        Session(tmp_path, ahead_seconds=AFTER_THE_LEASE) as taking,
        Session(tmp_path, ahead_seconds=AFTER_THE_LEASE, failpoints=barrier.at("before_begin")) as old,
    ):
        old.send("record_receipt", run="run-1", key="one", attempt=1, **RECEIPT, **HOLDER)
        barrier.wait_until_reached()
        assert taking.ask("begin_operation", **KEYED)["attempt"] == 2
        barrier.let_go()
        kept = old.receive()
        same = taking.ask("record_receipt", run="run-1", key="one", attempt=2, **RECEIPT)
        check = taking.ask("check_operation", run="run-1", key="one")
    assert (kept["next"], kept["reason"], kept["state"]) == ("continue", "recorded", "succeeded")
    assert (same["next"], same["reason"], same["state"]) == ("continue", "duplicate", "succeeded")
    assert [(receipt["external_id"], receipt["attempt"]) for receipt in check["receipts"]] == [("m-1", 1)]


def test_a_receipt_that_comes_behind_an_empty_look_is_a_dispute_and_not_lost(tmp_path: Path) -> None:
    """Found without effect, granted anew, then the first one's receipt: both stand, and somebody looks."""
    barrier = Barrier(tmp_path / "barrier")
    with Session(tmp_path) as first:
        first.ask("begin_operation", **LOOKED_UP, **HOLDER)
    with (
        Session(tmp_path, ahead_seconds=LATER_SECONDS) as taking,
        Session(tmp_path, ahead_seconds=LATER_SECONDS, failpoints=barrier.at("before_begin")) as old,
    ):
        old.send("record_receipt", run="run-1", key="one", attempt=1, **RECEIPT, **HOLDER)
        barrier.wait_until_reached()
        as_of = taking.ask("begin_operation", **LOOKED_UP)["as_of"]
        looked = {"finding": "not_performed", "checked_with": "mail.search", "as_of": as_of}
        assert taking.ask("reconcile_operation", run="run-1", key="one", **looked)["state"] == "failed"
        assert taking.ask("begin_operation", **LOOKED_UP)["attempt"] == 2
        barrier.let_go()
        late = old.receive()
        again = taking.ask("begin_operation", **LOOKED_UP)
        check = taking.ask("check_operation", run="run-1", key="one")
    assert (late["next"], late["reason"], late["state"]) == ("reconcile", "disputed", "disputed")
    assert (again["next"], again["reason"]) == ("reconcile", "disputed")
    assert [receipt["external_id"] for receipt in check["receipts"]] == ["m-1"]


def test_of_those_who_take_over_together_one_may_act(tmp_path: Path) -> None:
    """Eight looked and found nothing; all begin in the same moment."""
    with Session(tmp_path) as first:
        first.ask("begin_operation", **LOOKED_UP)
    with Session(tmp_path, ahead_seconds=LATER_SECONDS) as looking:
        as_of = looking.ask("begin_operation", **LOOKED_UP)["as_of"]
        looked = {"finding": "not_performed", "checked_with": "mail.search", "as_of": as_of}
        assert looking.ask("reconcile_operation", run="run-1", key="one", **looked)["state"] == "failed"
    with crowd(tmp_path, PROCESSES, ahead_seconds=LATER_SECONDS) as running:
        answers = running.ask("begin_operation", LOOKED_UP)
    counted = Counter((answer["next"], answer["reason"], answer["attempt"]) for answer in answers)
    assert counted == {("perform", "retry_after_failure", 2): 1, ("wait", "lease_held", 2): PROCESSES - 1}


def test_of_twins_that_begin_together_one_may_act_and_the_other_is_told_that_it_holds(tmp_path: Path) -> None:
    """Two processes of one conversation: not two holders, and not two grants."""
    with crowd(tmp_path, 2) as twins:
        answers = twins.ask("begin_operation", {**BEGIN, **HOLDER})
        told = {(answer["next"], answer["reason"], answer["attempt"]) for answer in answers}
        assert told == {("perform", "first_attempt", 1), ("wait", "lease_held_by_you", 1)}
        waiting = twins.sessions[0 if answers[0]["next"] == "wait" else 1]
        recorded = waiting.ask("record_receipt", run="run-1", key="one", attempt=1, **RECEIPT, **HOLDER)
        assert (recorded["next"], recorded["state"]) == ("continue", "succeeded")


def test_one_call_delivered_twice_together_is_granted_once_and_given_again(tmp_path: Path) -> None:
    with crowd(tmp_path, 2) as twins:
        call = {**BEGIN, **HOLDER, "call_id": "toolu_0123456789abcdef"}
        answers = twins.ask("begin_operation", call)
    assert sorted(answer["reason"] for answer in answers) == ["first_attempt", "replayed"]
    assert [answer["next"] for answer in answers] == ["perform", "perform"]
    assert len({(answer["attempt"], answer["idempotency_key"]) for answer in answers}) == 1


def test_an_occurrence_started_by_many_together_is_started_once(tmp_path: Path) -> None:
    """A scheduler that fires twice: one works, the others are told who does."""
    slot = {"run": "nightly/2026-11-29", "schedule": {"name": "nightly", "occurrence": "2026-11-29"}}
    with crowd(tmp_path, PROCESSES) as running:
        answers = running.ask("begin_run", slot)
        begun = [
            session.ask("begin_operation", **{**BEGIN, "run": slot["run"]}) for session in running.sessions
        ]
    counted = Counter((answer["next"], answer["reason"]) for answer in answers)
    assert counted == {("continue", "started"): 1, ("wait", "run_held"): PROCESSES - 1}
    assert Counter(answer["next"] for answer in begun) == {"perform": 1, "wait": PROCESSES - 1}


def test_two_occurrences_started_together_each_have_their_own_work(tmp_path: Path) -> None:
    slots = [
        {"run": f"nightly/{day}", "schedule": {"name": "nightly", "occurrence": day}}
        for day in ("2026-11-28", "2026-11-29")
    ]
    with crowd(tmp_path, 4) as running:
        answers = running.ask("begin_run", *slots)
        assert sorted(answer["reason"] for answer in answers[::2]) == ["run_held", "started"]
        assert sorted(answer["reason"] for answer in answers[1::2]) == ["run_held", "started"]
        begun = [
            session.ask("begin_operation", **{**BEGIN, "run": slot["run"]})
            for session, slot in zip(running.sessions, slots * 2, strict=True)
        ]
    assert [answer["next"] for answer in begun] == ["perform", "perform", "wait", "wait"]
    assert len({answer["operation"] for answer in begun}) == 2
