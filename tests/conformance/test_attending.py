"""What a gateway and a hook ask of the journal: where a conversation stands, and what is on record whole."""

import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from counterfoil.store.domain.commands import (
    BeginOperation,
    BeginRun,
    FindOperations,
    OperationRef,
    ReceiptGiven,
    RecordReceipt,
)
from counterfoil.store.errors import InvalidArgument, TooLarge
from counterfoil.store.journal import Journal
from counterfoil.store.spool import read_spool
from journals import AGENT, ANOTHER, FakeClock, open_test_journal

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]

SEND = BeginOperation(run="run-1", key="email:alice", action="mail.send", target="alice", args={"n": 1})
REF = OperationRef(run="run-1", key="email:alice")
RESULT = {"content": [{"type": "text", "text": "sent"}], "isError": False}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def journal(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Journal]:
    async with open_test_journal(tmp_path, clock=clock) as journal:
        yield journal


def captured(result: object) -> RecordReceipt:
    """A receipt as the server takes it from a tool's answer."""
    given = ReceiptGiven(attempt=1, external_id="m-1", assurance="captured", result=result)
    return RecordReceipt(ref=REF, receipt=given)


async def test_a_live_attempt_is_known_to_its_own_conversation_only(journal: Journal) -> None:
    await journal.begin_operation(SEND, AGENT)
    same = replace(AGENT, connection="connection-9")

    (live,) = (await journal.attendance(same)).live

    assert (live.run, live.key, live.attempt, live.args) == ("run-1", "email:alice", 1, {"n": 1})
    assert (await journal.attendance(ANOTHER)).live == ()


async def test_an_attempt_whose_lease_ran_out_is_not_live(journal: Journal, clock: FakeClock) -> None:
    await journal.begin_operation(SEND, AGENT)
    clock.advance(301)

    assert (await journal.attendance(AGENT)).live == ()


async def test_the_run_of_a_conversation_is_the_one_that_it_began_last(
    journal: Journal, clock: FakeClock
) -> None:
    assert (await journal.attendance(AGENT)).run is None
    for name in ("run-2", "run-1"):
        clock.advance(1)
        await journal.begin_run(BeginRun(run=name), AGENT)

    assert (await journal.attendance(AGENT)).run == "run-1"
    assert (await journal.attendance(ANOTHER)).run is None


GATEWAY = replace(AGENT, connection="gateway-1")
MARK = ("counterfoil:gateway", "call:1")


async def unattended(journal: Journal, *, run: str | None = "run-1", key: str = "by-gateway") -> Any:
    """Begin another effect as whoever stands between the agent and its tools does."""

    def begin(held: str | None) -> BeginOperation:
        return BeginOperation(run=held or "fallback", key=key, action="note.write", args={"key": key})

    return await journal.begin_unattended(
        begin, GATEWAY, mark=lambda held: MARK, run=run, apart_from="gateway-"
    )


async def test_what_nobody_else_has_begun_is_begun_in_one_go(journal: Journal) -> None:
    first = await unattended(journal)
    other = await unattended(journal, key="another")

    assert (first["next"], first["run"], first["key"]) == ("perform", "run-1", "by-gateway")
    assert (other["next"], other["key"]) == ("perform", "another")


async def test_nothing_is_begun_while_the_agent_itself_holds_an_attempt(
    journal: Journal, clock: FakeClock
) -> None:
    await journal.begin_operation(SEND, AGENT)
    found = await unattended(journal)
    listed = await journal.find_operations(FindOperations(run="run-1"), AGENT)

    assert [one.key for one in found.live] == ["email:alice"]
    assert [operation["key"] for operation in listed["operations"]] == ["email:alice"]
    clock.advance(301)
    assert (await unattended(journal))["next"] == "perform"


async def test_nothing_is_begun_where_the_call_is_marked_at_an_operation(
    journal: Journal, clock: FakeClock
) -> None:
    begun = await journal.begin_operation(SEND, AGENT)
    mark = ReceiptGiven(attempt=1, system=MARK[0], external_id=MARK[1], final=False, assurance="captured")
    await journal.record_receipt(RecordReceipt(ref=REF, receipt=mark), AGENT)
    clock.advance(301)

    assert (await unattended(journal)).marked == begun["operation"]


async def test_an_operation_without_a_named_run_is_begun_in_the_run_that_the_caller_holds(
    journal: Journal,
) -> None:
    assert (await unattended(journal, run=None))["run"] == "fallback"
    await journal.begin_run(BeginRun(run="run-2"), AGENT)

    assert (await unattended(journal, run=None))["run"] == "run-2"


async def test_a_begin_that_cannot_be_taken_begins_nothing(journal: Journal) -> None:
    with pytest.raises(InvalidArgument, match="key"):
        await unattended(journal, run=None, key="\u202e")

    assert (await unattended(journal))["next"] == "perform"


async def test_what_a_tool_answered_is_given_back_whole_and_without_its_secrets(journal: Journal) -> None:
    await journal.begin_operation(SEND, AGENT)
    secret = "sk-ant-api03-" + "a1B2" * 20
    answered = {**RESULT, "structuredContent": {"z": 1, "api_key": secret, "a": "x" * 200_000}}

    await journal.record_receipt(captured(answered), AGENT)

    recorded = await journal.recorded(REF)
    assert recorded.result["structuredContent"]["a"] == "x" * 200_000
    assert list(recorded.result["structuredContent"]) == ["z", "api_key", "a"]
    assert recorded.result["structuredContent"]["api_key"].startswith("[redacted:")
    assert (recorded.was_result, recorded.args) == (True, {"n": 1})


async def test_a_result_over_its_limit_is_refused_and_nothing_is_stored(journal: Journal) -> None:
    await journal.begin_operation(SEND, AGENT)

    with pytest.raises(TooLarge, match="result"):
        await journal.record_receipt(captured({"text": "x" * 262_144}), AGENT)

    assert (await journal.recorded(REF)).was_result is False


async def test_a_pruned_result_is_gone_and_the_journal_holds(journal: Journal, clock: FakeClock) -> None:
    await journal.begin_operation(SEND, AGENT)
    await journal.record_receipt(captured(RESULT), AGENT)
    clock.advance(100)

    await journal.keeper.prune(older_than_seconds=50, is_dry=False)

    recorded = await journal.recorded(REF)
    assert (recorded.result, recorded.was_result) == (None, True)
    assert (await journal.reader.verify()).faults == ()


async def test_an_export_carries_the_result_into_another_journal(tmp_path: Path, journal: Journal) -> None:
    await journal.begin_operation(SEND, AGENT)
    await journal.record_receipt(captured(RESULT), AGENT)

    file = "".join([line async for line in journal.keeper.export(run=None)]).encode()

    async with open_test_journal(tmp_path, name="other.db") as other:
        await other.keeper.take_in(read_spool(io.BytesIO(file)), AGENT)

        assert (await other.recorded(REF)).result == RESULT
        assert (await other.reader.verify()).faults == ()
