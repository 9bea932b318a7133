"""Which tools act: by rule, by annotation, by name; and what of a call is its identity."""

from typing import Any

import pytest

from counterfoil.server.rules.call import describe_call
from counterfoil.server.rules.effects import has_effect
from counterfoil.server.rules.misfits import misfit
from counterfoil.server.rules.tool_rule import NO_RULE, ToolRule
from counterfoil.store.limits import Limits


@pytest.mark.parametrize(
    "tool",
    [
        "get_user",
        "listIssues",
        "search",
        "read-file",
        "describe.table",
        "fetch_URL",
        "countRows",
        "find_and_count",
    ],
)
def test_a_name_that_begins_with_a_reading_verb_reads(tool: str) -> None:
    assert not has_effect(NO_RULE, tool, None)


@pytest.mark.parametrize(
    "tool",
    [
        "send_mail",
        "get_or_create",
        "run_query",
        "fetchAndDelete",
        "check_out",
        "find_and_refund",
        "fetch_and_reply",
        "lookup_or_register",
        "view_and_approve",
        "search_and_notify",
        "get_and_frobnicate",
        "list_and",
        "checkout",
        "listen",
        "",
        "日本",
        "GET",
        "pay",
    ],
)
def test_any_other_name_may_act(tool: str) -> None:
    assert has_effect(NO_RULE, tool, None) is (tool != "GET")


@pytest.mark.parametrize(
    ("annotations", "acts"),
    [
        ({"readOnlyHint": True}, False),
        ({"readOnlyHint": True, "destructiveHint": True}, False),
        ({"readOnlyHint": False}, True),
        ({"destructiveHint": True}, True),
        ({"readOnlyHint": "true"}, False),
        ({"title": "Get"}, False),
    ],
)
def test_annotations_go_before_the_name(annotations: dict[str, Any], acts: bool) -> None:
    assert has_effect(NO_RULE, "get_user", annotations) is acts


def test_a_rule_goes_before_all() -> None:
    assert has_effect(ToolRule(effect=True), "get_user", {"readOnlyHint": True})
    assert not has_effect(ToolRule(effect=False), "pay", {"destructiveHint": True})


def described(arguments: dict[str, Any], **rule: Any) -> Any:
    return describe_call(
        ToolRule(**rule),
        server="bank",
        tool="pay",
        arguments=arguments,
        hide=lambda value: value,
        limits=Limits(),
    )


def test_a_call_is_known_by_its_values_and_not_by_how_they_are_written() -> None:
    first = described({"to": "alice", "cents": 10})
    assert described({"cents": 10.0, "to": "alice"}).key == first.key
    assert described({"to": "alice", "cents": "10"}).key != first.key
    assert described({"to": "alice", "cents": 10, "note": None}).key != first.key
    assert (first.action, first.key.startswith("pay:"), first.payload) == ("bank.pay", True, None)


def test_a_key_whose_argument_is_missing_falls_back_to_the_digest() -> None:
    assert described({"to": "alice"}, key="pay:{to}:{ref.id}").key.startswith("pay:")
    assert described({"to": "alice", "ref": {"id": 7}}, key="pay:{to}:{ref.id}").key == "pay:alice:7"
    assert described({"to": "\u202e"}, key="pay:{to}").key.startswith("pay:")
    assert described({"to": "x" * 500}, key="pay:{to}").key.startswith("pay:")
    assert len(described({"to": "x" * 500}, key="pay:{to}").key) < 100


def test_an_idempotency_argument_is_neither_identity_nor_payload() -> None:
    one = described({"to": "alice", "idem": "1"}, idempotency_argument="idem")
    two = described({"to": "alice", "idem": "2"}, idempotency_argument="idem")
    assert (one.key, one.args, one.payload) == (two.key, {"to": "alice"}, None)


@pytest.mark.parametrize(
    ("schema", "arguments", "fits"),
    [
        ({"required": ["to"]}, {}, False),
        ({"required": ["to"], "properties": {"to": {"type": "string"}}}, {}, False),
        ({"required": ["to"], "properties": {"to": {"default": "x"}}}, {}, True),
        ({"required": ["to"]}, {"to": None}, True),
        ({"properties": {"n": {"type": "integer"}}}, {"n": {"a": 1}}, False),
        ({"properties": {"n": {"type": "integer"}}}, {"n": "5"}, True),
        ({"properties": {"n": {"type": "integer"}}}, {"n": None}, True),
        ({"properties": {"to": {"type": "string"}}}, {"to": 1}, True),
        ({"properties": {"s": {"enum": ["a"]}}}, {"s": "b"}, True),
        ({"properties": {}, "additionalProperties": False}, {"s": 1}, True),
        ({"properties": {"s": {"$ref": "http://evil/"}}}, {"s": {}}, True),
        ({"properties": "strange", "required": "s"}, {"s": 1}, True),
        ("no schema", {"s": 1}, True),
        ({"properties": {"s": {"type": ["strange"]}}}, {"s": {}}, True),
    ],
)
def test_a_misfit_is_only_what_no_server_forgives(schema: Any, arguments: dict[str, Any], fits: bool) -> None:
    assert (misfit(schema, arguments) is None) is fits
