"""What a model sees of the tools: few bytes, slim, whole, the same each time."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from mcp import Client

from counterfoil.server.app import build_server
from counterfoil.server.callers import ClientInfo
from counterfoil.server.instructions import instructions_for
from counterfoil.tools.catalogue import ALL_TOOLS, CORE_TOOLS, TOOL_SETS
from counterfoil.tools.schema import input_schema, output_schema
from fake_journal import FakeJournal

pytestmark = pytest.mark.anyio

READING = {"check_operation", "resume_plan", "find_operations"}

CORE = {tool.name for tool in CORE_TOOLS}


def words(tool: Any) -> dict[str, Any]:
    """Give what counts against the budget."""
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": input_schema(tool.input_model),
    }


async def listed(tools: Any = ALL_TOOLS) -> list[dict[str, Any]]:
    """Give the tools as a client gets them."""

    async def journal() -> FakeJournal:
        return FakeJournal()

    async with Client(build_server(journal, client=ClientInfo(connection="c"), tools=tools)) as client:
        found = (await client.list_tools()).tools
    return [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in found]


def bytes_of(tools: Any) -> int:
    """Count what a list of tools costs."""
    written = json.dumps([words(tool) for tool in tools], ensure_ascii=False, separators=(",", ":"))
    return len(written.encode())


def test_the_words_of_the_six_tools_fit_into_10_000_bytes() -> None:
    assert bytes_of(CORE_TOOLS) <= 10_000


def test_the_words_of_all_tools_fit_into_20_000_bytes() -> None:
    assert bytes_of(ALL_TOOLS) <= 20_000


def test_the_whole_set_begins_with_the_core() -> None:
    assert tuple(ALL_TOOLS[: len(CORE_TOOLS)]) == tuple(CORE_TOOLS)
    assert len({tool.name for tool in ALL_TOOLS}) == len(ALL_TOOLS)
    assert {"core": CORE_TOOLS, "all": ALL_TOOLS} == TOOL_SETS


@pytest.mark.parametrize("tools", TOOL_SETS.values(), ids=TOOL_SETS)
def test_the_instructions_stay_under_4_000_characters_and_say_first_when_to_call_what(tools: Any) -> None:
    instructions = instructions_for([tool.name for tool in tools])
    assert len(instructions) < 4_000
    first_three = ". ".join(instructions.split(". ")[:3])
    for tool in ("begin_operation", "record_receipt", "record_failure", "resume_plan", "reconcile_operation"):
        assert tool in first_three
    assert "{" not in instructions.replace("{code, message, fix, recorded}", "")


def test_the_instructions_name_a_tool_only_where_it_is_offered() -> None:
    further = {tool.name for tool in ALL_TOOLS} - CORE
    core, whole = (instructions_for([tool.name for tool in tools]) for tools in TOOL_SETS.values())
    assert [name for name in sorted(further) if name in core] == []
    assert "begin_run" in ". ".join(whole.split(". ")[:3])
    assert "record_progress" in whole
    assert "finish_run" in whole


def test_every_word_of_next_is_explained() -> None:
    instructions = instructions_for(CORE)
    for word in ("perform", "begin", "skip", "wait", "reconcile", "ask", "stop", "continue"):
        assert f"\n- {word}: " in instructions
    for word in ("perform", "skip", "wait", "reconcile", "ask", "stop"):
        assert f"{word}: " in CORE_TOOLS[0].description


@pytest.mark.parametrize("tool", ALL_TOOLS, ids=lambda tool: tool.name)
def test_an_input_schema_is_slim_and_closed(tool: Any) -> None:
    schema = input_schema(tool.input_model)
    written = json.dumps(schema)
    assert schema["additionalProperties"] is False
    for waste in ('"title"', '"null"', "null", "$defs", "$ref", "anyOf"):
        assert waste not in written
    assert set(schema["properties"]) == set(tool.input_model.model_fields)
    assert "trace" in schema["properties"]
    assert ("call_id" in schema["properties"]) is not tool.reads_only


@pytest.mark.parametrize("tool", ALL_TOOLS, ids=lambda tool: tool.name)
def test_an_output_schema_lets_further_members_and_nulls_through(tool: Any) -> None:
    schema = output_schema(tool.output_model)
    assert schema["type"] == "object"
    assert schema.get("additionalProperties", True) is not False
    assert {"as_of", "next", "reason", "guidance"} <= schema["properties"].keys()


_ANSWERED = {
    "begin_operation": "operation run key state attempt idempotency_key lease_expires_at send_before "
    "retry_at replayed receipts settled_at recorded conflict duplicates drift lookup since settle_until "
    "repeat_until checkpoint warnings",
    "check_operation": "operation state attempts receipts findings history",
    "resume_plan": "journal run runs counts drift criteria steps guidances complete cut next_cursor "
    "changed_meanwhile",
    "begin_run": "journal run counts drift criteria steps duplicates conflict warnings",
    "find_operations": "operations cut next_cursor",
}
"""What the contract says that these answer."""


@pytest.mark.parametrize("tool", ALL_TOOLS, ids=lambda tool: tool.name)
def test_an_output_schema_names_what_the_tool_answers(tool: Any) -> None:
    named = output_schema(tool.output_model)["properties"].keys()
    assert [name for name in _ANSWERED.get(tool.name, "").split() if name not in named] == []


@pytest.mark.parametrize("recorded", [True, False, None])
@pytest.mark.parametrize("tool", ALL_TOOLS, ids=lambda tool: tool.name)
def test_an_output_schema_lets_a_fault_through(tool: Any, recorded: bool | None) -> None:
    fault = {"code": "ambiguous", "message": "two", "fix": "one", "recorded": recorded, "candidates": ["a"]}
    Draft202012Validator(output_schema(tool.output_model)).validate(fault)


async def test_the_tools_are_listed_in_one_order_with_title_annotations_and_schemas() -> None:
    tools = await listed()
    assert [tool["name"] for tool in tools] == [tool.name for tool in ALL_TOOLS]
    for tool in tools:
        assert tool["title"]
        assert tool["outputSchema"]["type"] == "object"
        assert tool["annotations"] == {
            "readOnlyHint": tool["name"] in READING,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": tool["name"] == "verify_operation",
        }
        assert tool.get("_meta") == ({"anthropic/alwaysLoad": True} if tool["name"] in CORE else None)
    assert await listed() == tools


async def test_the_core_set_is_the_six() -> None:
    assert [tool["name"] for tool in await listed(CORE_TOOLS)] == [
        "begin_operation",
        "record_receipt",
        "record_failure",
        "reconcile_operation",
        "check_operation",
        "resume_plan",
    ]


def test_the_tools_say_what_a_red_check_and_a_denial_are() -> None:
    said = {tool.name: tool.description for tool in CORE_TOOLS}
    assert "check that came out red (tests) is no success: record_failure" in said["record_receipt"]
    assert "denied by the person, or a check that came out red" in said["record_failure"]
    assert "a check found red: not_performed" in said["reconcile_operation"]


def test_a_plan_says_how_to_see_what_is_done() -> None:
    [plan] = [input_schema(tool.input_model) for tool in CORE_TOOLS if tool.name == "resume_plan"]
    assert plan["properties"]["include"]["description"] == "all: also what is done"
