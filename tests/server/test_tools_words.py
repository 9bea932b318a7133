"""What a model sees of the tools: few bytes, slim, whole, the same each time."""

import json
from typing import Any

import pytest
from mcp import Client

from counterfoil.server.app import build_server
from counterfoil.server.callers import ClientInfo
from counterfoil.server.instructions import INSTRUCTIONS
from counterfoil.tools.catalogue import CORE_TOOLS
from counterfoil.tools.schema import input_schema, output_schema
from fake_journal import FakeJournal

pytestmark = pytest.mark.anyio

READING = {"check_operation", "resume_plan"}


def words(tool: Any) -> dict[str, Any]:
    """Give what counts against the budget."""
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": input_schema(tool.input_model),
    }


async def listed() -> list[dict[str, Any]]:
    """Give the tools as a client gets them."""

    async def journal() -> FakeJournal:
        return FakeJournal()

    async with Client(build_server(journal, client=ClientInfo(connection="c"))) as client:
        tools = (await client.list_tools()).tools
    return [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in tools]


def test_the_words_of_the_six_tools_fit_into_10_000_bytes() -> None:
    written = json.dumps([words(tool) for tool in CORE_TOOLS], ensure_ascii=False, separators=(",", ":"))
    assert len(written.encode()) <= 10_000


def test_the_instructions_stay_under_4_000_characters_and_say_first_when_to_call_what() -> None:
    assert len(INSTRUCTIONS) < 4_000
    first_three = ". ".join(INSTRUCTIONS.split(". ")[:3])
    for tool in ("begin_operation", "record_receipt", "record_failure", "resume_plan", "reconcile_operation"):
        assert tool in first_three


def test_every_word_of_next_is_explained() -> None:
    for word in ("perform", "begin", "skip", "wait", "reconcile", "ask", "stop", "continue"):
        assert f"\n- {word}: " in INSTRUCTIONS
    for word in ("perform", "skip", "wait", "reconcile", "ask", "stop"):
        assert f"{word}: " in CORE_TOOLS[0].description


@pytest.mark.parametrize("tool", CORE_TOOLS, ids=lambda tool: tool.name)
def test_an_input_schema_is_slim_and_closed(tool: Any) -> None:
    schema = input_schema(tool.input_model)
    written = json.dumps(schema)
    assert schema["additionalProperties"] is False
    for waste in ('"title"', '"null"', "null", "$defs", "$ref", "anyOf"):
        assert waste not in written
    assert set(schema["properties"]) == set(tool.input_model.model_fields)
    assert "trace" in schema["properties"]
    assert ("call_id" in schema["properties"]) is not tool.reads_only


@pytest.mark.parametrize("tool", CORE_TOOLS, ids=lambda tool: tool.name)
def test_an_output_schema_lets_further_members_and_nulls_through(tool: Any) -> None:
    schema = output_schema(tool.output_model)
    assert schema["type"] == "object"
    assert schema.get("additionalProperties", True) is not False
    assert set(schema["required"]) == {"as_of", "next", "reason", "guidance"}


async def test_the_tools_are_listed_in_one_order_with_title_annotations_and_schemas() -> None:
    tools = await listed()
    assert [tool["name"] for tool in tools] == [tool.name for tool in CORE_TOOLS]
    for tool in tools:
        assert tool["title"]
        assert tool["outputSchema"]["type"] == "object"
        assert tool["annotations"] == {
            "readOnlyHint": tool["name"] in READING,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        }
        assert tool["_meta"] == {"anthropic/alwaysLoad": True}
    assert await listed() == tools
