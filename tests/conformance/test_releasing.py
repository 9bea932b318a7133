"""A person ends the hold that a session has on a run; leases, names and logs stay what they were."""

import io
from pathlib import Path
from typing import Any

import pytest

from counterfoil.store.domain.commands import BeginRun, Caller, FinishRun, OperationRef, RecordProgress
from counterfoil.store.domain.commands import ReleaseRun as Release
from counterfoil.store.errors import Forbidden, InvalidArgument, NotFound, TooLarge
from counterfoil.store.protocol import Connection
from counterfoil.store.spool import read_spool
from journals import AGENT, ANOTHER, PERSON, Desk, FakeClock, as_caller, open_desk

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]


async def begin(desk: Desk, *, caller: Caller = AGENT, **fields: Any) -> str:
    """Begin the desk's run, and give the answer's verb and reason."""
    answer = await desk.journal.begin_run(BeginRun(run=desk.run, **fields), as_caller(caller))
    return f"{answer['next']}: {answer['reason']}"


async def progress(desk: Desk, *, caller: Caller = AGENT) -> str:
    """Say that the run goes on."""
    command = RecordProgress(ref=OperationRef(run=desk.run))
    return str((await desk.journal.record_progress(command, as_caller(caller)))["reason"])


async def release(desk: Desk, *, caller: Caller = PERSON, **fields: Any) -> dict[str, Any]:
    """Release the desk's run."""
    caller = caller if caller.call_id else as_caller(caller)
    command = Release(**{"run": desk.run, "reason": "its terminal is gone", **fields})
    return await desk.journal.release_run(command, caller)


async def events(desk: Desk) -> list[str]:
    """Name the newest events of the run."""
    return [entry["event"] for entry in await desk.journal.reader.tail(run=desk.run)]


async def is_whole(desk: Desk) -> bool:
    """Prove the log, and that the rows are what it leads to."""
    return (await desk.journal.reader.verify()).faults == ()


async def test_who_begins_next_has_a_released_run_and_the_former_holder_is_told(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, holder="night shift", lease_seconds=600)
        assert await begin(desk, caller=ANOTHER) == "wait: run_held"
        told = await release(desk)
        assert (told["next"], told["reason"]) == ("continue", "recorded")
        assert (told["held_by"], told["held_until"]) == ("night shift", "2026-11-29T12:10:00.000000Z")
        assert told["session"]["conversation"] == AGENT.conversation
        assert "live_attempts" not in told
        assert "held_by" not in (await desk.plan())["run"]
        assert await begin(desk, caller=ANOTHER, holder="day shift") == "continue: resumed"
        assert await begin(desk) == "wait: run_held"
        assert await progress(desk) == "run_held"
        assert await progress(desk, caller=ANOTHER) == "recorded"
        assert (await desk.plan())["run"]["held_by"] == "day shift"
        assert await is_whole(desk)


async def test_a_former_holder_that_begins_first_has_the_run_again(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, holder="night shift")
        await release(desk)
        assert await begin(desk) == "continue: resumed"
        assert await begin(desk, caller=ANOTHER) == "wait: run_held"
        assert await is_whole(desk)


@pytest.mark.parametrize("caller", [AGENT, ANOTHER], ids=["the former holder", "who never began it"])
async def test_a_heartbeat_takes_no_run_that_was_released(tmp_path: Path, caller: Caller) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, holder="night shift")
        await release(desk)
        assert await progress(desk, caller=caller) == "recorded"
        assert (await events(desk))[-2:] == ["run_released", "run_progressed"]
        assert "held_by" not in (await desk.plan())["run"]
        third = Caller(connection="connection-3", conversation="conversation-3")
        assert await begin(desk, caller=third) == "continue: resumed"
        assert await progress(desk, caller=caller) == "run_held"
        assert await is_whole(desk)


async def test_a_live_attempt_outlives_the_hold_and_holds_the_run_no_longer(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, lease_seconds=60)
        begun = await desk.begin(lease_seconds=900)
        desk.clock.advance(120)
        assert await begin(desk, caller=ANOTHER) == "wait: run_held"
        told = await release(desk)
        assert told["held_until"] == begun["lease_expires_at"]
        assert told["live_attempts"] == [
            {
                "operation": begun["operation"],
                "key": desk.key,
                "attempt": 1,
                "lease_expires_at": begun["lease_expires_at"],
            }
        ]
        assert await begin(desk, caller=ANOTHER) == "continue: resumed"
        assert await desk.state() == "in_progress"
        assert (await desk.begin(caller=ANOTHER))["reason"] == "lease_held"
        assert (await desk.receipt())["state"] == "succeeded"
        assert await is_whole(desk)


async def test_releasing_twice_changes_nothing(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk)
        await release(desk)
        again = await release(desk)
        assert (again["next"], again["reason"]) == ("continue", "duplicate")
        assert again["guidance"] == "Nobody holds this run: nothing was changed."
        assert "held_by" not in again
        assert (await events(desk)).count("run_released") == 1


async def test_a_hold_that_ran_out_is_nobodys(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, lease_seconds=60)
        desk.clock.advance(60)
        assert (await release(desk))["reason"] == "duplicate"
        assert "run_released" not in await events(desk)


async def test_a_release_that_is_redelivered_leaves_the_next_holder_alone(tmp_path: Path) -> None:
    once = as_caller(PERSON, call_id="toolu_release_redelivered")
    async with open_desk(tmp_path) as desk:
        await begin(desk)
        await release(desk, caller=once)
        await begin(desk, caller=ANOTHER)
        assert (await release(desk, caller=once))["reason"] == "duplicate"
        assert await begin(desk) == "wait: run_held"


async def test_a_holder_that_the_person_was_not_shown_keeps_its_hold(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, holder="night shift")
        shown = await desk.journal.preview_release(desk.run)
        assert shown["held_by"] == "night shift"
        desk.clock.advance(301)
        assert "seen" not in await desk.journal.preview_release(desk.run)
        await begin(desk, caller=ANOTHER)
        for seen in (shown["seen"], ""):
            refused = await release(desk, seen=seen)
            assert (refused["next"], refused["reason"]) == ("stop", "unmet")
            assert refused["warnings"] == ["another session has taken the hold since it was shown"]
        assert await begin(desk) == "wait: run_held"
        now = await desk.journal.preview_release(desk.run)
        await progress(desk, caller=ANOTHER)
        assert (await release(desk, seen=now["seen"]))["reason"] == "recorded"


async def test_only_a_person_ends_a_hold(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk)
        for caller in (AGENT, ANOTHER):
            with pytest.raises(Forbidden, match="only a person"):
                await release(desk, caller=caller)
        assert "run_released" not in await events(desk)
        assert await begin(desk, caller=ANOTHER) == "wait: run_held"


async def test_a_run_that_is_over_is_held_by_nobody(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk)
        await desk.journal.finish_run(FinishRun(run=desk.run, outcome="completed"), as_caller(AGENT))
        assert (await release(desk))["reason"] == "duplicate"
        assert await begin(desk) == "skip: already_succeeded"
        assert await is_whole(desk)


async def test_what_is_not_there_or_not_said_releases_nothing(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk)
        with pytest.raises(NotFound) as refused:
            await release(desk, run="run-2")
        assert desk.run in str(refused.value.candidates)
        with pytest.raises(NotFound):
            await desk.journal.preview_release("run-2")
        with pytest.raises(InvalidArgument, match="reason"):
            await release(desk, reason=" ")
        with pytest.raises(TooLarge):
            await release(desk, reason="x" * 4_001)
        assert await events(desk) == ["run_begun", "run_held"]


async def test_a_run_of_that_name_in_another_namespace_keeps_its_holder(tmp_path: Path) -> None:
    clock = FakeClock()
    async with (
        open_desk(tmp_path, clock=clock) as desk,
        open_desk(tmp_path, clock=clock, namespace="other") as other,
    ):
        await begin(desk)
        with pytest.raises(NotFound):
            await release(other)
        await begin(other)
        assert (await release(other))["reason"] == "recorded"
        assert await begin(desk, caller=ANOTHER) == "wait: run_held"
        assert await begin(other, caller=ANOTHER) == "continue: resumed"
        assert await is_whole(desk)


async def test_a_hold_put_back_past_the_log_is_found(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk)
        before = await desk.journal.preview_release(desk.run)
        await release(desk)
        assert await is_whole(desk)

        async def put_back(connection: Connection) -> None:
            row = await connection.fetch_one("read_run", {"namespace": "default", "run": desk.run})
            assert row is not None
            columns = {name: row[name] for name in row if name not in ("created_at", "touched_at", "head")}
            for name in ("last_seq", "operations"):
                columns.pop(name)
            held = {"holder": before["seen"], "held_until": desk.clock.at + 60_000_000}
            await connection.execute("save_run", {**columns, **held})

        await desk.journal.database.write(put_back)
        [fault] = (await desk.journal.reader.verify()).faults
        said = "the run's row says what its events do not lead to (holder, held_until)"
        assert fault == f"{desk.run}: {said}; restore a backup"


async def test_a_released_run_is_released_where_it_is_imported(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, holder="night shift")
        await release(desk)
        lines = [line async for line in desk.journal.keeper.export()]
        async with open_desk(tmp_path, clock=desk.clock, name="another.db") as there:
            importer = Caller(connection="cli-1", tool="cli import")
            spool = read_spool(io.BytesIO("".join(lines).encode()))
            taken = await there.journal.keeper.take_in(spool, importer)
            assert (taken.runs_new, taken.conflicts) == (1, [])
            assert await events(there) == ["run_begun", "run_held", "run_released"]
            assert await is_whole(there)
            assert await begin(there, caller=ANOTHER) == "continue: resumed"


async def test_the_log_says_who_was_released_by_whom_and_why(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await begin(desk, holder="night shift", lease_seconds=600)
        await release(desk)
        entry = (await desk.journal.reader.tail(run=desk.run))[-1]
        assert entry["event"] == "run_released"
        assert entry["caller"]["person"] is True
        assert entry["data"] == {
            "holder": {
                "principal": "local",
                "conversation": AGENT.conversation,
                "connection": AGENT.connection,
            },
            "holder_name": "night shift",
            "until": "2026-11-29T12:10:00.000000Z",
            "reason": "its terminal is gone",
        }
