"""An effectful call through the gateway: on record before it is passed on, and never passed on twice."""

from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from counterfoil.store.domain.commands import OperationRef
from counterfoil.store.domain.model import State
from gateway.standing import Mail, said, standing, told

pytestmark = pytest.mark.anyio

ALICE = {"to": "alice", "body": "hello"}


@pytest.fixture(params=["auto", "legacy"])
def era(request: pytest.FixtureRequest) -> str:
    """The client's side of the protocol: with a handshake, and without."""
    return str(request.param)


async def test_a_call_is_passed_on_as_it_is_and_its_result_too(tmp_path: Path, era: str) -> None:
    async with standing(tmp_path) as stand, stand.client(mode=era) as client:
        result = await client.call_tool("send_mail", ALICE)

        assert stand.mail.sent == [ALICE]
        assert result.structured_content == {"id": "m-1"}
        assert [part.text for part in result.content] == ["sent 1"]
        assert told(result)["replayed"] is False
        recorded = await stand.journal.recorded(OperationRef(operation=told(result)["operation"]))
        assert (recorded.state, recorded.args) == (State.SUCCEEDED, ALICE)


async def test_the_same_call_again_is_answered_from_the_journal(tmp_path: Path, era: str) -> None:
    async with standing(tmp_path) as stand, stand.client(mode=era) as client:
        first = await client.call_tool("send_mail", ALICE)
        again = await client.call_tool("send_mail", dict(reversed(ALICE.items())))

        assert stand.mail.sent == [ALICE]
        assert again.structured_content == first.structured_content
        assert again.content == first.content
        assert told(again)["replayed"] is True
        assert told(again)["operation"] == told(first)["operation"]


async def test_a_session_that_comes_later_does_not_repeat_it_either(tmp_path: Path, era: str) -> None:
    mail = Mail()
    for _ in range(2):
        async with standing(tmp_path, mail) as stand, stand.client(mode=era) as client:
            result = await client.call_tool("send_mail", ALICE)

    assert (len(mail.sent), told(result)["replayed"]) == (1, True)


async def test_a_reading_tool_passes_untouched_and_unrecorded(tmp_path: Path, era: str) -> None:
    async with standing(tmp_path) as stand, stand.client(mode=era) as client:
        for _ in range(2):
            result = await client.call_tool("find_mail", {"to": "alice"})

        assert stand.mail.read == 2
        assert "counterfoil/gateway" not in (result.meta or {})
        assert await stand.journal.reader.find() == []


async def test_only_tools_that_act_get_the_one_optional_argument(tmp_path: Path, era: str) -> None:
    async with standing(tmp_path) as stand, stand.client(mode=era) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}

        assert set(tools["send_mail"].input_schema["properties"]) == {"to", "_counterfoil"}
        assert tools["find_mail"].input_schema == {"type": "object"}


async def test_a_deliberate_repeat_names_what_it_is_distinct_from(tmp_path: Path, era: str) -> None:
    async with standing(tmp_path) as stand, stand.client(mode=era) as client:
        first = told(await client.call_tool("send_mail", ALICE))
        wish = {"_counterfoil": {"distinct_from": [first["operation"]]}}
        second = await client.call_tool("send_mail", {**ALICE, **wish})
        resent = await client.call_tool("send_mail", {**ALICE, **wish})

        assert stand.mail.sent == [ALICE, ALICE]
        assert second.structured_content == {"id": "m-2"}
        assert (told(second)["replayed"], told(resent)["replayed"]) == (False, True)
        assert resent.structured_content == {"id": "m-2"}


async def test_a_third_time_names_both_that_it_is_distinct_from(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand, stand.client() as client:
        ids = [told(await client.call_tool("send_mail", ALICE))["operation"]]
        wish = {"_counterfoil": {"distinct_from": ids}}
        ids.append(told(await client.call_tool("send_mail", {**ALICE, **wish}))["operation"])
        one = {"_counterfoil": {"distinct_from": ids[1:]}}
        refused = await client.call_tool("send_mail", {**ALICE, **one})
        both = {"_counterfoil": {"distinct_from": ids}}
        third = await client.call_tool("send_mail", {**ALICE, **both})

        assert '"possible_duplicate"' in refused.content[0].text
        assert ids[0] in refused.content[0].text
        assert (third.structured_content, len(stand.mail.sent)) == ({"id": "m-3"}, 3)


async def test_another_key_for_the_same_effect_is_no_way_around(tmp_path: Path, era: str) -> None:
    async with standing(tmp_path) as stand, stand.client(mode=era) as client:
        await client.call_tool("send_mail", ALICE)
        result = await client.call_tool("send_mail", {**ALICE, "_counterfoil": {"key": "second"}})

        assert result.is_error
        assert '"possible_duplicate"' in result.content[0].text
        assert len(stand.mail.sent) == 1


@pytest.mark.parametrize("wish", ["text", {"runn": "x"}, {"distinct_from": 7}, {"run": 1}, {"run": "\u202e"}])
async def test_a_strange_wish_is_refused_and_nothing_is_sent(tmp_path: Path, wish: Any) -> None:
    async with standing(tmp_path) as stand, stand.client() as client:
        result = await client.call_tool("send_mail", {**ALICE, "_counterfoil": wish})

        assert result.is_error
        assert "invalid_argument" in result.content[0].text
        assert stand.mail.sent == []


async def test_a_wish_may_come_as_the_text_of_its_object(tmp_path: Path) -> None:
    wish = '{"run": "another", "key": "mail:alice"}'
    async with standing(tmp_path) as stand, stand.client() as client:
        result = told(await client.call_tool("send_mail", {**ALICE, "_counterfoil": wish}))

        assert (result["run"], result["key"]) == ("another", "mail:alice")
        assert stand.mail.sent == [ALICE]


async def test_an_argument_that_is_the_tools_own_is_passed_on(tmp_path: Path) -> None:
    mail = Mail()
    schema = {"type": "object", "properties": {"_counterfoil": {"type": "string"}}}
    mail.tools = [types.Tool(name="send_mail", input_schema=schema)]
    async with standing(tmp_path, mail) as stand, stand.client() as client:
        [listed] = (await client.list_tools()).tools
        result = told(await client.call_tool("send_mail", {**ALICE, "_counterfoil": "mine"}))

        assert (listed.input_schema, result["state"]) == (schema, "succeeded")
        assert stand.mail.sent == [{**ALICE, "_counterfoil": "mine"}]


async def test_of_a_name_that_is_listed_twice_the_tool_that_acts_counts(tmp_path: Path) -> None:
    mail = Mail()
    mail.tools = [
        types.Tool(name="send_mail", input_schema={"type": "object"}, annotations=hints)
        for hints in (types.ToolAnnotations(read_only_hint=True), None)
    ]
    async with standing(tmp_path, mail) as stand, stand.client() as client:
        assert told(await client.call_tool("send_mail", ALICE))["state"] == "succeeded"


async def test_an_error_of_the_tool_leaves_the_call_in_doubt(tmp_path: Path, era: str) -> None:
    async def fails(arguments: dict[str, Any]) -> Any:
        return said("the SMTP server hung up", is_error=True)

    mail = Mail(handlers={"send_mail": fails})
    async with standing(tmp_path, mail) as stand, stand.client(mode=era) as client:
        first = await client.call_tool("send_mail", ALICE)
        mail.handlers.clear()
        again = await client.call_tool("send_mail", ALICE)

        assert first.content[0].text == "the SMTP server hung up"
        assert told(first)["state"] == "in_doubt"
        assert again.is_error
        assert '"next":"reconcile"' in again.content[0].text
        assert "where none is, it settles nothing and a person decides" in again.content[0].text
        assert mail.sent == []


async def test_what_the_operator_calls_a_refusal_lets_the_call_be_made_again(tmp_path: Path) -> None:
    async def fails(arguments: dict[str, Any]) -> Any:
        return said("quota exceeded, nothing sent", is_error=True)

    mail = Mail(handlers={"send_mail": fails})
    rules = [{"tool": "send_*", "refused": ["^quota exceeded"]}]
    async with standing(tmp_path, mail, rules=rules) as stand, stand.client() as client:
        first = await client.call_tool("send_mail", ALICE)
        mail.handlers.clear()
        again = await client.call_tool("send_mail", ALICE)

        assert told(first)["state"] == "failed"
        assert (again.is_error, told(again)["attempt"], mail.sent) == (False, 2, [ALICE])
