"""A call that both the agent and the gateway record is one operation."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from counterfoil.store.domain.commands import (
    BeginOperation,
    BeginRun,
    Caller,
    OperationRef,
    ReceiptGiven,
    RecordReceipt,
)
from gateway.standing import CONVERSATION, Mail, Stand, said, standing, told
from journals import AGENT, ANOTHER

pytestmark = pytest.mark.anyio

ALICE = {"to": "alice@example.com", "body": "hello"}
BEGIN = BeginOperation(run="run-1", key="email:alice", action="mail.send", target="alice@example.com")
REF = OperationRef(run="run-1", key="email:alice")
SAME: Caller = replace(AGENT, connection="stdio-7", conversation=CONVERSATION)


async def keys(stand: Stand) -> list[str]:
    return sorted(found["key"] for found in await stand.journal.reader.find())


@pytest.mark.parametrize(
    "begin",
    [
        BEGIN,
        replace(BEGIN, target=None, args={"to": "alice@example.com"}),
        replace(BEGIN, target=None, action="send_mail", args=ALICE),
        replace(BEGIN, target="mailto:Alice@Example.com", args={"recipient": "alice@example.com"}),
        replace(BEGIN, action="email.send"),
    ],
)
async def test_the_captured_receipt_goes_to_the_attempt_that_the_agent_began(
    tmp_path: Path, begin: BeginOperation
) -> None:
    async with standing(tmp_path) as stand, stand.client() as client:
        await stand.journal.begin_operation(begin, SAME)
        result = await client.call_tool("send_mail", ALICE)

        assert (told(result)["key"], told(result)["attached"]) == ("email:alice", True)
        assert (await stand.journal.recorded(REF)).state.value == "succeeded"
        assert await keys(stand) == ["email:alice"]
        assert stand.mail.sent == [ALICE]


async def test_the_agents_own_receipt_beside_it_is_no_second_effect(tmp_path: Path) -> None:
    receipt = {"external_id": "$.id", "kind": "message", "system": "smtp"}
    for at, rules in enumerate([[], [{"tool": "send_mail", "receipt": receipt}]]):
        folder = tmp_path / str(at)
        folder.mkdir()
        async with standing(folder, rules=rules) as stand, stand.client() as client:
            await stand.journal.begin_operation(BEGIN, SAME)
            await client.call_tool("send_mail", ALICE)
            given = ReceiptGiven(attempt=1, kind="message", external_id="m-1", system="smtp")
            answer = await stand.journal.record_receipt(RecordReceipt(ref=REF, receipt=given), SAME)

            assert (answer["next"], answer["state"]) == ("continue", "succeeded")


async def test_the_same_call_again_is_answered_from_the_agents_own_operation(tmp_path: Path) -> None:
    mail = Mail()
    async with standing(tmp_path, mail, run="run-1") as stand, stand.client() as client:
        await stand.journal.begin_operation(BEGIN, SAME)
        await client.call_tool("send_mail", ALICE)
    async with (
        standing(tmp_path, mail, run="run-1", conversation="conversation-9") as stand,
        stand.client() as client,
    ):
        again = await client.call_tool("send_mail", ALICE)

        assert (told(again)["replayed"], told(again)["key"]) == (True, "email:alice")
        assert again.structured_content == {"id": "m-1"}
        assert len(mail.sent) == 1


async def test_what_is_in_doubt_under_the_agents_key_is_not_done_under_the_gateways(
    tmp_path: Path,
) -> None:
    async def fail(arguments: dict[str, Any]) -> Any:
        return said("hung up", is_error=True)

    mail = Mail(handlers={"send_mail": fail})
    async with standing(tmp_path, mail, run="run-1") as stand, stand.client() as client:
        await stand.journal.begin_operation(BEGIN, SAME)
        await client.call_tool("send_mail", ALICE)
        mail.handlers.clear()
        again = await client.call_tool("send_mail", ALICE)

        assert again.is_error
        assert (told(again)["key"], told(again)["state"]) == ("email:alice", "in_doubt")
        assert mail.sent == []
        assert await keys(stand) == ["email:alice"]


@pytest.mark.parametrize(
    ("begin", "caller"),
    [
        (replace(BEGIN, target="bob@example.com"), SAME),
        (replace(BEGIN, target=None, args={"to": "bob@example.com"}), SAME),
        (replace(BEGIN, action="disk.format", target=None), SAME),
        (replace(BEGIN, action="disk.format", args=ALICE), SAME),
        (replace(BEGIN, action="mail.delete", args=ALICE), SAME),
        (replace(BEGIN, action="sms.send"), SAME),
        (replace(BEGIN, target=None, action="send_mail"), SAME),
        (replace(BEGIN, action="send_mail", target="bob@example.com"), SAME),
        (replace(BEGIN, args={"to": "alice@example.com", "subject": "x"}), SAME),
        (BEGIN, ANOTHER),
    ],
)
async def test_an_attempt_that_does_not_fit_is_left_alone(
    tmp_path: Path, begin: BeginOperation, caller: Caller
) -> None:
    async with standing(tmp_path) as stand, stand.client() as client:
        await stand.journal.begin_operation(begin, caller)
        result = await client.call_tool("send_mail", ALICE)

        assert "attached" not in told(result)
        assert (await stand.journal.recorded(REF)).state.value == "in_progress"


async def test_of_two_attempts_that_fit_alike_neither_is_taken(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand, stand.client() as client:
        for run in ("run-1", "run-2"):
            await stand.journal.begin_operation(replace(BEGIN, run=run), SAME)
        result = await client.call_tool("send_mail", ALICE)

        assert "attached" not in told(result)


async def test_an_attempt_can_be_named(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand, stand.client() as client:
        for run in ("run-1", "run-2"):
            await stand.journal.begin_operation(replace(BEGIN, run=run), SAME)
        named = {"_counterfoil": {"run": "run-2", "key": "email:alice"}}
        result = await client.call_tool("send_mail", {**ALICE, **named})

        assert (told(result)["run"], told(result)["attached"]) == ("run-2", True)
        assert stand.mail.sent == [ALICE]


async def test_the_run_is_the_one_that_the_agent_began(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand, stand.client() as client:
        await stand.journal.begin_run(BeginRun(run="weekly/W48"), SAME)
        result = await client.call_tool("send_mail", ALICE)

        assert told(result)["run"] == "weekly/W48"


@pytest.mark.parametrize(
    ("conversation", "run"),
    [
        (CONVERSATION, f"conversation/{CONVERSATION}"),
        (None, "connection/gateway-1"),
    ],
)
async def test_without_a_run_the_conversation_stands_for_one(
    tmp_path: Path, conversation: str | None, run: str
) -> None:
    async with standing(tmp_path, conversation=conversation) as stand, stand.client() as client:
        assert told(await client.call_tool("send_mail", ALICE))["run"] == run


async def test_codex_tells_its_conversation_with_each_call(tmp_path: Path) -> None:
    async with standing(tmp_path, conversation=None) as stand, stand.client() as client:
        result = await client.call_tool("send_mail", ALICE, meta={"threadId": "thread-5"})

        assert told(result)["run"] == "conversation/thread-5"
