"""Calls whose end nobody saw: cancelled, timed out, answered with nonsense, or without a journal."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError

from counterfoil.store.domain.model import Assurance
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import InvalidArgument, JournalUnavailable
from gateway.standing import Handler, Mail, Stand, said, standing, told

pytestmark = pytest.mark.anyio

ALICE = {"to": "alice", "body": "hello"}
SECRET = f"ghp_{'a' * 36}"
WAIT_SECONDS = 20


def stuck() -> tuple[Mail, anyio.Event]:
    """A server whose tool begins and never ends, and the event that it began."""
    began = anyio.Event()

    async def hang(arguments: dict[str, Any]) -> Any:
        began.set()
        await anyio.sleep_forever()

    return Mail(handlers={"send_mail": hang}), began


def needing(argument: str, handler: Handler) -> Mail:
    """A server whose tool cannot do without an argument."""
    mail = Mail(handlers={"send_mail": handler})
    schema = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    mail.tools = [types.Tool(name="send_mail", input_schema=schema)]
    return mail


async def states(stand: Stand) -> list[str]:
    return [found["state"] for found in await stand.journal.reader.find()]


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(WAIT_SECONDS):
        while not await condition():  # noqa: ASYNC110 - the journal tells nobody of changes
            await anyio.sleep(0.01)


async def test_a_call_that_its_client_cancels_is_in_doubt_and_not_passed_on_again(tmp_path: Path) -> None:
    mail, began = stuck()
    async with standing(tmp_path, mail) as stand, stand.client(mode="legacy") as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "send_mail", ALICE)
            with anyio.fail_after(WAIT_SECONDS):
                await began.wait()
            tasks.cancel_scope.cancel()

        async def is_in_doubt() -> bool:
            return await states(stand) == ["in_doubt"]

        await until(is_in_doubt)
        mail.handlers.clear()
        again = await client.call_tool("send_mail", ALICE)

        assert again.is_error
        assert '"reason":"in_doubt"' in again.content[0].text
        assert mail.sent == []


async def test_a_cancelled_call_is_cancelled_at_the_server_as_well(tmp_path: Path) -> None:
    ended = anyio.Event()
    began = anyio.Event()

    async def hang(arguments: dict[str, Any]) -> Any:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    mail = Mail(handlers={"send_mail": hang, "find_mail": hang})
    async with standing(tmp_path, mail) as stand, stand.client(mode="legacy") as client:
        for tool in ("send_mail", "find_mail"):
            began, ended = anyio.Event(), anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, tool, ALICE)
                with anyio.fail_after(WAIT_SECONDS):
                    await began.wait()
                tasks.cancel_scope.cancel()
            with anyio.fail_after(WAIT_SECONDS):
                await ended.wait()


@pytest.mark.parametrize(("repeat", "may_be_made_again"), [(None, False), ("safe", True)])
async def test_a_call_that_was_passed_on_is_told_so_and_what_came_in_the_place_of_an_answer(
    tmp_path: Path, repeat: str | None, may_be_made_again: bool
) -> None:
    async def decline(arguments: dict[str, Any]) -> Any:
        raise MCPError(code=-32001, message=f"card declined\n\u202e for {SECRET}")

    rules = [{"tool": "send_mail", **({} if repeat is None else {"repeat": repeat})}]
    mail = Mail(handlers={"send_mail": decline})
    async with standing(tmp_path, mail, rules=rules) as stand, stand.client() as client:
        first = json.loads((await client.call_tool("send_mail", ALICE)).content[0].text)
        again = json.loads((await client.call_tool("send_mail", ALICE)).content[0].text)

    assert (first["next"], first["reason"], first["state"]) == ("reconcile", "in_doubt", "in_doubt")
    assert first["guidance"].startswith("This call was passed on")
    assert ("may be made again" in first["guidance"]) is may_be_made_again
    answered = first["answered"]["jsonrpc_error"]
    assert answered["code"] == -32001
    assert answered["message"].startswith("card declined\\n\\u202e for [redacted:")
    assert "was not passed on" not in first["guidance"]
    assert ("so this one was not passed on" in again["guidance"]) is not may_be_made_again
    assert ("answered" in again) is may_be_made_again


@pytest.mark.parametrize("why", ["receipt_too_weak", "foreign_receipt"])
async def test_a_call_whose_receipt_settles_nothing_is_over_and_not_said_to_be_under_way(
    tmp_path: Path, why: str
) -> None:
    async def answer(arguments: dict[str, Any]) -> Any:
        return said("sent", structured_content={"id": "always-the-same"})

    rules = [{"tool": "send_mail", "receipt": {"external_id": "$.id", "kind": "message"}}]
    policy = Policy(assurance=(("mail.*", Assurance.VERIFIED),)) if why == "receipt_too_weak" else Policy()
    mail = Mail(handlers={"send_mail": answer})
    async with standing(tmp_path, mail, rules=rules, policy=policy) as stand, stand.client() as client:
        if why == "foreign_receipt":
            await client.call_tool("send_mail", {"to": "bob"})
        first = await client.call_tool("send_mail", ALICE)
        again = await client.call_tool("send_mail", ALICE)

    assert first.content[0].text == "sent"
    assert (told(first)["next"], told(first)["reason"]) == ("reconcile", why)
    assert told(first)["state"] == "in_doubt"
    assert (told(again)["next"], told(again)["state"]) == ("reconcile", "in_doubt")


async def test_a_call_that_takes_longer_than_its_rule_allows_is_in_doubt(tmp_path: Path) -> None:
    mail, _ = stuck()
    rules = [{"tool": "send_mail", "timeout_seconds": 0.05}]
    async with standing(tmp_path, mail, rules=rules) as stand, stand.client() as client:
        result = await client.call_tool("send_mail", ALICE)

        assert result.is_error
        assert "not answered in time" in result.content[0].text
        assert await states(stand) == ["in_doubt"]


@pytest.mark.parametrize(
    ("code", "arguments", "state"),
    [
        (types.INVALID_PARAMS, {"body": "hello"}, "failed"),
        (types.INVALID_PARAMS, {"to": 7}, "in_doubt"),
        (types.INVALID_PARAMS, ALICE, "in_doubt"),
        (types.METHOD_NOT_FOUND, ALICE, "in_doubt"),
        (types.INTERNAL_ERROR, {"body": "hello"}, "in_doubt"),
        (types.CONNECTION_CLOSED, {"body": "hello"}, "in_doubt"),
    ],
)
async def test_a_refusal_is_believed_only_where_the_call_should_be_refused(
    tmp_path: Path, code: int, arguments: dict[str, Any], state: str
) -> None:
    async def refuse(given: dict[str, Any]) -> Any:
        raise MCPError(code=code, message="no")

    mail = needing("to", refuse)
    async with standing(tmp_path, mail) as stand, stand.client() as client:
        if state == "failed":
            with pytest.raises(MCPError) as raised:
                await client.call_tool("send_mail", arguments)
            assert (raised.value.error.code, raised.value.error.message) == (code, "no")
        else:
            assert (await client.call_tool("send_mail", arguments)).is_error

        assert await states(stand) == [state]


PYDANTIC = "1 validation error for {}\nto\n  Field required [type=missing]"


@pytest.mark.parametrize(
    ("text", "arguments", "state"),
    [
        (f"Error executing tool send_mail: {PYDANTIC.format('sendArguments')}", {}, "failed"),
        (PYDANTIC.format("call[send_mail]"), {}, "failed"),
        ("Input validation error: 'to' is a required property", {}, "failed"),
        ("MCP error -32602: Input validation error: Invalid arguments for tool send_mail: []", {}, "failed"),
        (f"Error executing tool send_mail: {PYDANTIC.format('Receipt')}", {}, "in_doubt"),
        (f"Error executing tool send_mail: {PYDANTIC.format('sendArguments')}", {"to": None}, "in_doubt"),
        (f"charged, then: {PYDANTIC.format('sendArguments')}", {}, "in_doubt"),
        (PYDANTIC.format("call[charge]"), {}, "in_doubt"),
    ],
)
async def test_an_error_text_is_believed_only_in_the_words_written_before_a_tool_runs(
    tmp_path: Path, text: str, arguments: dict[str, Any], state: str
) -> None:
    async def refuse(given: dict[str, Any]) -> Any:
        return said(text, is_error=True)

    async with standing(tmp_path, needing("to", refuse)) as stand, stand.client() as client:
        assert (await client.call_tool("send_mail", arguments)).is_error
        assert await states(stand) == [state]


@pytest.mark.parametrize(
    ("text", "structured", "state"),
    [
        ("Error: the card was declined", None, "in_doubt"),
        ("Failed to send", {"id": "m-1"}, "in_doubt"),
        ('{"status": 500, "message": "upstream"}', None, "in_doubt"),
        ("done", {"status": 503}, "in_doubt"),
        ("done", {"success": False}, "in_doubt"),
        ("done", {"error": {"code": 7}}, "in_doubt"),
        ("sent; the error rate is 0", {"status": 202, "error": None, "errors": []}, "succeeded"),
        ('{"status": "sent"}', None, "succeeded"),
        ("Error: over quota, nothing was sent", None, "failed"),
    ],
)
async def test_a_result_that_calls_itself_a_failure_is_no_success_though_it_is_not_marked_as_an_error(
    tmp_path: Path, text: str, structured: Any, state: str
) -> None:
    async def answer(given: dict[str, Any]) -> Any:
        return said(text, structured_content=structured)

    rules = [{"tool": "send_mail", "refused": ["^Error: over quota"]}]
    mail = Mail(handlers={"send_mail": answer})
    async with standing(tmp_path, mail, rules=rules) as stand, stand.client() as client:
        result = await client.call_tool("send_mail", ALICE)

        assert (result.is_error, result.content[0].text) == (False, text)
        assert told(result).get("reason") == {"in_doubt": "in_doubt"}.get(state, "recorded")
        assert await states(stand) == [state]


@pytest.mark.parametrize(
    "message", ["the ledger is invalid", "Unknown tool: charge", "Unknown tool: pay at 9"]
)
async def test_a_tool_that_is_not_listed_may_have_run_where_its_server_does_not_say_that_there_is_none(
    tmp_path: Path, message: str
) -> None:
    async def refuse(given: dict[str, Any]) -> Any:
        raise MCPError(code=types.INVALID_PARAMS, message=message)

    async with standing(tmp_path, Mail(handlers={"pay": refuse})) as stand, stand.client() as client:
        assert (await client.call_tool("pay", {})).is_error
        assert await states(stand) == ["in_doubt"]


async def test_a_tool_that_its_server_does_not_list_was_refused(tmp_path: Path) -> None:
    async def refuse(given: dict[str, Any]) -> Any:
        raise MCPError(code=types.INVALID_PARAMS, message="Unknown tool: pay")

    mail = Mail(handlers={"pay": refuse})
    async with standing(tmp_path, mail) as stand, stand.client() as client:
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("pay", {})

        assert await states(stand) == ["failed"]


async def broken() -> Any:
    raise JournalUnavailable("the journal is full", fix="make room")


async def test_without_a_journal_nothing_that_acts_is_passed_on_and_reading_is(tmp_path: Path) -> None:
    async with standing(tmp_path, journals=broken) as stand, stand.client() as client:
        refused = await client.call_tool("send_mail", ALICE)
        read = await client.call_tool("find_mail", {"to": "alice"})

        assert refused.is_error
        assert '"code":"journal_unavailable"' in refused.content[0].text
        assert "not passed on" in refused.content[0].text
        assert (stand.mail.sent, read.structured_content) == ([], {"items": [], "count": 0})


async def test_a_rule_may_let_a_call_pass_without_a_journal(tmp_path: Path) -> None:
    rules = [{"tool": "send_mail", "fail_open": True}]
    async with standing(tmp_path, journals=broken, rules=rules) as stand, stand.client() as client:
        result = await client.call_tool("send_mail", ALICE)

        assert stand.mail.sent == [ALICE]
        assert told(result) == {"recorded": False, "why": "journal_unavailable"}


async def full(*_: Any) -> Any:
    raise JournalUnavailable("the journal is full", fix="make room")


async def test_a_receipt_that_cannot_be_recorded_is_said_to_be_missing_and_leaves_the_call_in_doubt(
    tmp_path: Path,
) -> None:
    mail = Mail()
    async with standing(tmp_path, mail) as stand, stand.client() as client:
        stand.journal.record_receipt = full  # type: ignore[method-assign]
        result = await client.call_tool("send_mail", ALICE)
        refused = await client.call_tool("send_mail", {"to": "bob"})
    async with standing(tmp_path, mail) as stand, stand.client() as client:
        stand.clock.advance(301)
        again = await client.call_tool("send_mail", ALICE)

    assert (result.is_error, told(result)["reason"]) == (False, "journal_unavailable")
    assert (told(result)["recorded"], "next" in told(result)) == (False, False)
    assert [part.text[:30] for part in result.content] == ["sent 1", "[counterfoil: The call was pas"]
    assert "The effect HAPPENED, and its receipt is NOT stored" in result.content[1].text
    assert "tries again" in result.content[1].text
    assert told(result)["operation"] in result.content[1].text
    assert '"code":"journal_unavailable"' in refused.content[0].text
    assert '"reason":"in_doubt"' in again.content[0].text
    assert mail.sent == [ALICE]


async def test_a_receipt_that_the_journal_refuses_is_said_to_be_missing_for_good(tmp_path: Path) -> None:
    async def refuse(*_: Any) -> Any:
        raise InvalidArgument("receipt", "is none", accepted="another")

    async with standing(tmp_path) as stand, stand.client() as client:
        stand.journal.record_receipt = refuse  # type: ignore[method-assign]
        result = await client.call_tool("send_mail", ALICE)

        assert (told(result)["recorded"], told(result)["reason"]) == (False, "invalid_argument")
        assert "The effect HAPPENED, and its receipt is NOT stored" in result.content[1].text
        assert "does not try again" in result.content[1].text


async def test_an_error_that_could_not_be_recorded_is_not_said_to_be_an_effect(tmp_path: Path) -> None:
    async def fail(given: dict[str, Any]) -> Any:
        return said("no", is_error=True)

    mail = Mail(handlers={"send_mail": fail})
    async with standing(tmp_path, mail) as stand, stand.client() as client:
        stand.journal.record_failure = full  # type: ignore[method-assign]
        result = await client.call_tool("send_mail", ALICE)

        assert "What became of this call is NOT stored" in result.content[1].text
        assert "HAPPENED" not in result.content[1].text


async def test_a_receipt_that_could_not_be_recorded_is_recorded_once_the_journal_can(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand, stand.client() as client:
        stand.journal.record_receipt = full  # type: ignore[method-assign]
        await client.call_tool("send_mail", ALICE)
        del stand.journal.record_receipt  # type: ignore[attr-defined]

        async def is_recorded() -> bool:
            return await states(stand) == ["succeeded"]

        await until(is_recorded)
        again = await client.call_tool("send_mail", ALICE)

        assert (told(again)["replayed"], again.content[0].text) == (True, "sent 1")
        assert len(stand.mail.sent) == 1


async def test_the_next_call_begins_with_what_is_not_recorded(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand, stand.client() as client:
        stand.journal.record_receipt = full  # type: ignore[method-assign]
        await client.call_tool("send_mail", ALICE)
        del stand.journal.record_receipt  # type: ignore[attr-defined]
        again = await client.call_tool("send_mail", ALICE)

        assert (told(again)["replayed"], again.content[0].text) == (True, "sent 1")


async def test_a_call_under_way_is_not_passed_on_beside_itself(tmp_path: Path) -> None:
    began, may_end = anyio.Event(), anyio.Event()

    async def wait(arguments: dict[str, Any]) -> Any:
        began.set()
        await may_end.wait()
        return said("sent")

    mail = Mail(handlers={"send_mail": wait})
    results: list[Any] = []
    async with standing(tmp_path, mail) as stand, stand.client() as client:

        async def call() -> None:
            results.append(await client.call_tool("send_mail", ALICE))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            with anyio.fail_after(WAIT_SECONDS):
                await began.wait()
            beside = await client.call_tool("send_mail", ALICE)
            may_end.set()

        assert beside.is_error
        assert '"reason":"lease_held_by_you"' in beside.content[0].text
        assert [result.content[0].text for result in results] == ["sent"]


async def test_a_lease_is_prolonged_while_its_call_takes_longer(tmp_path: Path) -> None:
    may_end, began = anyio.Event(), anyio.Event()

    async def wait(arguments: dict[str, Any]) -> Any:
        began.set()
        await may_end.wait()
        return said("sent")

    mail = Mail(handlers={"send_mail": wait})
    rules = [{"tool": "send_mail", "lease_seconds": 3}]
    results: list[Any] = []
    async with standing(tmp_path, mail, rules=rules) as stand, stand.client() as client:

        async def call() -> None:
            results.append(await client.call_tool("send_mail", ALICE))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            with anyio.fail_after(WAIT_SECONDS):
                await began.wait()
            stand.clock.advance(2)
            (found,) = await stand.journal.reader.find()

            async def is_prolonged() -> bool:
                checked = await stand.checked(found["operation"])
                return str(checked["attempts"][0]["lease_expires_at"]) > "2026-11-29T12:00:03.000000Z"

            await until(is_prolonged)
            stand.clock.advance(2)
            assert await states(stand) == ["in_progress"]
            may_end.set()

    assert told(results[0])["state"] == "succeeded"
