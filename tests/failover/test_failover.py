"""A primary dies and its synchronous standby takes over: what was answered is there, nothing else is claimed.

The long form of the race, with its seed: `PYTHONPATH=tests uv run python -m failover.race --seconds 120`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from conformance.postgres_journals import fault_of, fault_where_it_waits
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import JournalUnavailable
from counterfoil.store.postgres.session import Patience
from counterfoil.store.restoring import mark_restored
from failover.pair import Pair, running_pair
from failover.race import race_through_a_failover
from journals import ANOTHER, FakeClock, kept_at, open_desk, open_test_journal
from postgres_cluster import binaries_or_skip
from scenarios.servers import Server, ServerFault

pytestmark = pytest.mark.anyio

WAIT_SECONDS = 30
CLIENTS = "FROM pg_stat_activity WHERE application_name = 'counterfoil'"
BEGIN = {"run": "nightly", "action": "email.send", "lookup": {"tool": "mail.search"}}


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A primary with its synchronous standby."""
    with running_pair(binaries_or_skip()) as running:
        yield running


def test_a_failover_in_the_middle_of_a_race_loses_no_answer_and_grants_nothing_twice(
    pair: Pair, tmp_path: Path
) -> None:
    """Connections are cut and the primary is stopped before; some answers are given after the last replay."""
    failover = race_through_a_failover(pair, tmp_path, seed=2026, lasts_seconds=12, processes=3, tasks=12)
    assert failover.result.faults == []
    assert failover.unreplayed_grants > 0
    assert failover.unreplayed_bytes > 0
    assert failover.grants_after > 0
    assert failover.cuts > 0


def test_servers_go_on_with_the_standby_by_themselves(pair: Pair, tmp_path: Path) -> None:
    """Two servers as clients start them, with both hosts in their URL; neither is started again."""
    with kept_at(at(pair.new_database())), Server(tmp_path) as one, Server(tmp_path) as other:
        one.start()
        other.start()
        pair.pause_replay()
        begun = one.call("begin_operation", **BEGIN, key="done", target="alice@example.org")
        named = {"operation": begun["operation"], "attempt": 1, "kind": "message", "external_id": "m-1"}
        assert one.call("record_receipt", **named)["state"] == "succeeded"
        open_one = other.call("begin_operation", **BEGIN, key="open", target="bob@example.org")
        assert (open_one["next"], open_one["attempt"]) == ("perform", 1)
        pair.primary.kill_server()
        pair.standby.promote()
        again = answered(other, "begin_operation", **BEGIN, key="done", target="alice@example.org")
        assert (again["next"], again["reason"]) == ("skip", "already_succeeded")
        assert [receipt["external_id"] for receipt in again["receipts"]] == ["m-1"]
        waits = answered(one, "begin_operation", **BEGIN, key="open", target="bob@example.org")
        assert (waits["next"], waits["reason"], waits["attempt"]) == ("wait", "lease_held", 1)
        assert waits["retry_at"] == open_one["lease_expires_at"]


async def test_what_the_standby_never_had_was_answered_to_nobody_and_is_granted_anew(
    pair: Pair, tmp_path: Path
) -> None:
    """The wait was cancelled, the call sent again and again; then the one server that has it dies."""
    with kept_at(at(pair.new_database())):
        async with open_desk(tmp_path) as desk:
            await desk.at("before").begin()
            pair.standby.stop_server()
            for call in (desk.begin, desk.again, desk.again):
                fault = await fault_where_it_waits(pair.primary, call())
                assert (fault.retryable, fault.recorded) == (True, None)
            assert await desk.state() == "in_progress"  # here, and nobody was told
            pair.primary.kill_server()
            pair.standby.run_server()
            pair.standby.promote()
            granted = await answered_by(desk.at("key-1").begin, caller=ANOTHER)
            assert (granted["next"], granted["reason"], granted["attempt"]) == ("perform", "first_attempt", 1)
            late = await desk.again()
            assert (late["next"], late["attempt"]) == ("perform", 1)
            assert await desk.at("before").state() == "in_progress"


async def test_an_old_primary_that_comes_back_confirms_nothing(pair: Pair, tmp_path: Path) -> None:
    """It waits for the standby that has left it; whoever worked with the new one sees that it is behind."""
    url = pair.new_database()
    old = url.replace(f",{pair.standby.folder}", "")
    with kept_at(at(url)):
        async with open_desk(tmp_path) as desk:
            await desk.begin()
            pair.primary.kill_server()
            pair.standby.promote()
            assert (await answered_by(desk.receipt))["state"] == "succeeded"
            pair.primary.run_server()
            pair.standby.run(f"SELECT pg_terminate_backend(pid) {CLIENTS}")
            with pytest.raises(JournalUnavailable, match="lacks what it had confirmed"):
                await desk.check()
    with kept_at(at(old)):
        async with open_desk(tmp_path) as desk:
            database: Any = desk.journal.database
            database._patience = Patience(busy_seconds=1, silence_seconds=0.5)
            fault = await fault_of(desk.at("new").begin())
            assert (fault.retryable, fault.recorded) == (True, None)
            fault = await fault_of(desk.begin())
            assert (fault.retryable, fault.recorded) == (True, None)


async def test_a_standby_that_was_behind_is_noticed_by_whom_the_old_primary_had_answered(
    pair: Pair, tmp_path: Path
) -> None:
    """Commits did not wait for it. Who comes new cannot know, until an operator has marked what is left."""
    pair.primary.alter("synchronous_standby_names", None)
    pair.primary.until("SELECT 1 WHERE current_setting('synchronous_standby_names') = ''")
    clock = FakeClock()
    with kept_at(at(pair.new_database())):
        async with open_desk(tmp_path, clock=clock) as desk:
            await desk.at("before").begin()
            pair.catch_up()
            pair.standby.stop_server()
            assert (await desk.begin())["next"] == "perform"
            pair.primary.kill_server()
            pair.standby.run_server()
            pair.standby.promote()
            for method in (desk.check, desk.at("new").begin):
                with pytest.raises(JournalUnavailable, match="lacks what it had confirmed") as fault:
                    await answered_by(method)
                assert (fault.value.retryable, fault.value.recorded) == (False, False)
        async with open_desk(tmp_path, clock=clock) as desk:
            unknowing = await desk.at("another").begin(caller=ANOTHER)
            assert (unknowing["next"], unknowing["reason"]) == ("perform", "first_attempt")
        clock.advance(1)
        async with open_test_journal(tmp_path, clock=clock) as journal:
            await mark_restored(journal, clock=clock, policy=Policy(), caller=ANOTHER)
        async with open_desk(tmp_path, clock=clock) as desk:
            asked = await desk.begin(caller=ANOTHER)
            assert (asked["next"], asked["reason"]) == ("ask", "history_gap")


def at(url: str) -> Any:
    """Give a place that is this one wherever it is asked for."""
    return lambda _: url


def answered(server: Server, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool as often as the journal is unavailable."""
    for _ in range(WAIT_SECONDS):
        try:
            return server.call(tool, **arguments)
        except ServerFault as error:
            if error.fault["code"] != "journal_unavailable":
                raise
    raise AssertionError("the journal does not come back")


async def answered_by(method: Any, **arguments: Any) -> dict[str, Any]:
    """Send a command as often as the journal is unavailable."""
    with anyio.fail_after(WAIT_SECONDS):
        while True:
            try:
                answer: dict[str, Any] = await method(**arguments)
                return answer
            except JournalUnavailable as fault:
                if not fault.retryable:
                    raise
                await anyio.lowlevel.checkpoint()
