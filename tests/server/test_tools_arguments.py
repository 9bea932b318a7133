"""Arguments become commands exactly as they were meant, or are refused by name."""

import math
from typing import Any

import pytest

from counterfoil.store.domain.commands import (
    BeginOperation,
    Caller,
    CheckOperation,
    Lookup,
    OperationRef,
    ReceiptGiven,
    ReconcileOperation,
    RecordFailure,
    RecordReceipt,
    ResumePlan,
)
from counterfoil.store.errors import Fault, InvalidArgument, TooLarge
from counterfoil.store.limits import Limits
from counterfoil.tools.arguments import take_arguments
from counterfoil.tools.catalogue import ALL_TOOLS
from fake_journal import FakeJournal

pytestmark = pytest.mark.anyio

TOOLS = {tool.name: tool for tool in ALL_TOOLS}
BEGIN: dict[str, Any] = {"run": "weekly-report/2026-W48", "key": "email:alice", "action": "mail.send"}
CALLER = Caller(connection="c")


async def run(journal: FakeJournal, tool: str, given: Any) -> None:
    """Run a tool as the server does."""
    arguments = take_arguments(TOOLS[tool].input_model, given, limits=Limits())
    await TOOLS[tool].run(journal, arguments, CALLER)


async def command_of(tool: str, **given: Any) -> Any:
    """Give the command that these arguments become."""
    journal = FakeJournal()
    await run(journal, tool, given)
    [(command, _)] = journal.asked
    return command


async def fault_of(tool: str, given: Any) -> Fault:
    """Give the fault that these arguments are answered with."""
    with pytest.raises(Fault) as raised:
        await run(FakeJournal(), tool, given)
    return raised.value


async def test_what_is_not_given_has_the_defaults_of_the_contract() -> None:
    assert await command_of("begin_operation", **BEGIN) == BeginOperation(**BEGIN)
    operation = {"operation": "op_x"}
    ref = OperationRef(operation="op_x")
    assert await command_of("record_receipt", **operation) == RecordReceipt(ref=ref, receipt=ReceiptGiven())
    assert await command_of("check_operation", **operation) == CheckOperation(ref=ref)
    assert await command_of("resume_plan") == ResumePlan()
    assert await command_of(
        "record_failure", **operation, attempt=1, effect="none", error="e"
    ) == RecordFailure(ref=ref, attempt=1, effect="none", error="e")
    assert await command_of(
        "reconcile_operation", **operation, finding="performed", checked_with="t"
    ) == ReconcileOperation(
        ref=ref, finding="performed", checked_with="t", receipt=ReceiptGiven(source="lookup")
    )


async def test_every_argument_reaches_the_command() -> None:
    command = await command_of(
        "begin_operation",
        **BEGIN,
        target="alice@example.org",
        args={"n": 1},
        payload={"body": "hi"},
        repeat="keyed",
        key_ttl_seconds=86400,
        lookup={"tool": "mail.search", "args": {"q": "x"}, "conclusive": True, "settle_seconds": 0},
        undo={"instructions": "recall it"},
        depends_on=["a"],
        lease_seconds=1.5,
        deadline_seconds=60,
        max_attempts=3,
        grant="g",
        satisfies=["c1"],
        context={"model": "m"},
        distinct_from=["*"],
        compensates="op_y",
        workflow="w",
        workflow_version="1",
    )
    assert command.lookup == Lookup(tool="mail.search", args={"q": "x"}, conclusive=True, settle_seconds=0)
    assert command.undo.instructions == "recall it"
    assert (command.depends_on, command.satisfies, command.distinct_from) == (("a",), ("c1",), ("*",))
    assert (command.key_ttl_seconds, command.lease_seconds, command.max_attempts) == (86400, 1.5, 3)
    assert (command.payload, command.context, command.compensates) == ({"body": "hi"}, {"model": "m"}, "op_y")


async def test_an_object_given_as_json_text_is_taken_as_that_object() -> None:
    as_text = await command_of(
        "begin_operation", **BEGIN, args='{"n": 12345678901234567890}', lookup='{"args": "{\\"q\\": 1}"}'
    )
    as_object = await command_of(
        "begin_operation", **BEGIN, args={"n": 12345678901234567890}, lookup={"args": {"q": 1}}
    )
    assert as_text == as_object
    assert (await command_of("begin_operation", **BEGIN, depends_on='["a"]')).depends_on == ("a",)


async def test_one_name_where_a_list_of_names_is_meant_is_a_list_of_it() -> None:
    names = {"depends_on": "email:alice", "satisfies": "AC-1", "distinct_from": "*"}
    command = await command_of("begin_operation", **BEGIN, **names)
    assert (command.depends_on, command.satisfies, command.distinct_from) == (
        ("email:alice",),
        ("AC-1",),
        ("*",),
    )
    receipt = (await command_of("record_receipt", operation="op_x", satisfies="AC-1")).receipt
    assert receipt.satisfies == ("AC-1",)
    run = await command_of("begin_run", run="r", plan=[{"key": "b", "action": "x", "depends_on": "a"}])
    assert run.plan[0].depends_on == ("a",)


async def test_all_arguments_given_as_json_text_are_taken_as_that_object() -> None:
    arguments = take_arguments(TOOLS["resume_plan"].input_model, '{"run": "r"}', limits=Limits())
    assert arguments.model_dump(exclude_none=True)["run"] == "r"


@pytest.mark.parametrize("text", ["null", '{"id":1}', "[1]", "5", "true", '"quoted"', ""])
async def test_a_text_stays_a_text(text: str) -> None:
    command = await command_of("begin_operation", **{**BEGIN, "key": text}, payload=text, target=text)
    assert (command.key, command.payload, command.target) == (text, text, text)
    receipt = (await command_of("record_receipt", operation="op_x", external_id=text)).receipt
    assert receipt.external_id == text


@pytest.mark.parametrize("payload", [0, False, [], {}, [1, {"a": None}], 10**5000, 1.5], ids=type)
async def test_a_payload_is_any_json(payload: Any) -> None:
    assert (await command_of("begin_operation", **BEGIN, payload=payload)).payload == payload


async def test_a_null_counts_as_not_given() -> None:
    command = await command_of(
        "begin_operation", **BEGIN, target=None, args=None, lookup=None, depends_on=None
    )
    assert command == BeginOperation(**BEGIN)


@pytest.mark.parametrize(("given", "taken"), [(1, 1), (1.0, 1), ("1", 1), (7, 7)])
async def test_an_attempt_is_a_whole_number_from_1(given: Any, taken: int) -> None:
    command = await command_of("record_failure", operation="op_x", attempt=given, effect="unknown", error="e")
    assert command.attempt == taken
    assert type(command.attempt) is int


FAILURE = {"operation": "op_x", "effect": "unknown", "error": "e"}


@pytest.mark.parametrize(
    ("tool", "given", "field"),
    [
        ("record_failure", {**FAILURE, "attempt": True}, "attempt"),
        ("record_failure", {**FAILURE, "attempt": 0}, "attempt"),
        ("record_failure", {**FAILURE, "attempt": -1}, "attempt"),
        ("record_failure", {**FAILURE, "attempt": 1.5}, "attempt"),
        ("record_failure", {**FAILURE, "attempt": 10**30}, "attempt"),
        ("record_failure", {**FAILURE, "attempt": math.nan}, "attempt"),
        ("record_failure", {**FAILURE, "attempt": "one"}, "attempt"),
        ("record_failure", FAILURE, "attempt"),
        ("record_failure", {**FAILURE, "attempt": None}, "attempt"),
        ("record_failure", {**FAILURE, "attempt": 1, "effect": "maybe"}, "effect"),
        ("record_failure", {**FAILURE, "attempt": 1, "retryable": 1}, "retryable"),
        ("record_failure", {**FAILURE, "attempt": 1, "retry_after_seconds": -1}, "retry_after_seconds"),
        ("begin_operation", {**BEGIN, "lease_seconds": True}, "lease_seconds"),
        ("begin_operation", {**BEGIN, "lease_seconds": 0}, "lease_seconds"),
        ("begin_operation", {**BEGIN, "lease_seconds": math.inf}, "lease_seconds"),
        ("begin_operation", {**BEGIN, "lease_seconds": 1e300}, "lease_seconds"),
        ("begin_operation", {**BEGIN, "run": 5}, "run"),
        ("begin_operation", {**BEGIN, "run": None}, "run"),
        ("begin_operation", {**BEGIN, "args": [1]}, "args"),
        ("begin_operation", {**BEGIN, "args": "[1]"}, "args"),
        ("begin_operation", {**BEGIN, "args": "no json"}, "args"),
        ("begin_operation", {**BEGIN, "args": '{"a":1,"a":2}'}, "args"),
        ("begin_operation", {**BEGIN, "args": '{"a":NaN}'}, "args"),
        ("begin_operation", {**BEGIN, "args": {"a": math.nan}}, "args"),
        ("begin_operation", {**BEGIN, "args": {"a": {"b": "\ud800"}}}, "args"),
        ("begin_operation", {**BEGIN, "payload": "\udfff"}, "payload"),
        ("begin_operation", {**BEGIN, "payload": [math.inf]}, "payload"),
        ("begin_operation", {**BEGIN, "run": "\ud800"}, "run"),
        ("begin_operation", {**BEGIN, "depends_on": '["a"'}, "depends_on"),
        ("begin_operation", {**BEGIN, "depends_on": '"a"'}, "depends_on"),
        ("begin_operation", {**BEGIN, "depends_on": "7"}, "depends_on"),
        ("begin_operation", {**BEGIN, "depends_on": " "}, "depends_on"),
        ("begin_operation", {**BEGIN, "distinct_from": "op_a, op_b"}, "distinct_from"),
        ("begin_operation", {**BEGIN, "depends_on": [1]}, "depends_on[0]"),
        ("begin_operation", {**BEGIN, "lookup": "x"}, "lookup"),
        ("begin_operation", {**BEGIN, "lookup": {"tool": 1}}, "lookup.tool"),
        ("begin_operation", {**BEGIN, "lookup": {"conclusive": "perhaps"}}, "lookup.conclusive"),
        ("begin_operation", {**BEGIN, "lookup": {"tol": "x"}}, "lookup.tol"),
        ("begin_operation", {**BEGIN, "trace": {"session": "x"}}, "trace.session"),
        ("begin_operation", {**BEGIN, "call_id": "short"}, "call_id"),
        ("begin_operation", {**BEGIN, "call_id": BEGIN["run"]}, "call_id"),
        ("begin_operation", {**BEGIN, "idempotancy_key": "x"}, "idempotancy_key"),
        ("record_receipt", {"operation": "op_x", "recept": "x"}, "recept"),
        ("record_receipt", {"external_id": "x"}, "operation"),
        ("record_receipt", {"key": "k"}, "run"),
        ("check_operation", {"operation": "op_x", "wait_seconds": 51}, "wait_seconds"),
        ("check_operation", {"operation": "op_x", "offset": -1}, "offset"),
        ("check_operation", {"operation": "op_x", "call_id": "0123456789abcdef"}, "call_id"),
        ("resume_plan", {"limit": 0}, "limit"),
        ("resume_plan", [], "arguments"),
        ("resume_plan", "[]", "arguments"),
        ("resume_plan", 5, "arguments"),
    ],
    ids=lambda value: str(value)[:40].encode("ascii", "replace").decode(),
)
async def test_what_cannot_be_taken_is_refused_naming_the_field_and_the_accepted_form(
    tool: str, given: Any, field: str
) -> None:
    fault = await fault_of(tool, given)
    assert isinstance(fault, InvalidArgument)
    assert fault.field == field
    assert fault.recorded is False
    assert fault.fix.removeprefix(f"{field}: ")


async def test_a_near_miss_of_a_name_is_answered_with_the_name() -> None:
    assert "did you mean external_id" in (await fault_of("record_receipt", {"externalid": "x"})).fix
    fault = await fault_of("begin_operation", {**BEGIN, "keyy": "x"})
    assert "did you mean key" in fault.fix
    assert "run, key, action" in fault.fix


@pytest.mark.parametrize(
    ("tool", "other", "own"),
    [
        ("begin_operation", "recipient", "target"),
        ("begin_operation", "arguments", "args"),
        ("begin_operation", "Body", "payload"),
        ("record_receipt", "message_id", "external_id"),
        ("check_operation", "operation_id", "operation"),
    ],
)
async def test_another_word_for_a_parameter_is_answered_with_its_name(
    tool: str, other: str, own: str
) -> None:
    given = BEGIN if tool == "begin_operation" else {}
    assert f"did you mean {own}? " in (await fault_of(tool, {**given, other: "x"})).fix
    # Where the tool has no such parameter, it is not suggested.
    assert "did you mean payload" not in (await fault_of("resume_plan", {"body": "x"})).fix


async def test_a_fault_never_repeats_the_value() -> None:
    for given in (
        {**BEGIN, "lease_seconds": "hunter2"},
        {**BEGIN, "repeat": "hunter2"},
        {**BEGIN, "args": "hunter2"},
        {**BEGIN, "args": '{"a": hunter2}'},
        {**BEGIN, "call_id": "hunter2"},
    ):
        fault = await fault_of("begin_operation", given)
        assert "hunter2" not in str(fault.as_dict())


async def test_nesting_of_32_is_taken_and_of_33_is_not() -> None:
    def nested(depth: int) -> Any:
        value: Any = 1
        for _ in range(depth):
            value = [value]
        return value

    assert (await command_of("begin_operation", **BEGIN, payload=nested(32))).payload == nested(32)
    assert isinstance(await fault_of("begin_operation", {**BEGIN, "payload": nested(33)}), InvalidArgument)
    assert isinstance(await fault_of("begin_operation", {**BEGIN, "payload": nested(5000)}), InvalidArgument)


@pytest.mark.parametrize(
    ("tool", "given", "field", "limit"),
    [
        ("begin_operation", {**BEGIN, "args": {"a": "x" * 65536}}, "args", 65536),
        ("begin_operation", {**BEGIN, "payload": "é" * 131072 + "x"}, "payload", 262144),
        ("begin_operation", {**BEGIN, "payload": ["x" * 262141]}, "payload", 262144),
        ("begin_operation", {**BEGIN, "target": "x" * 4001}, "target", 4000),
        ("begin_operation", {**BEGIN, "depends_on": ["a"] * 501}, "depends_on", 500),
        ("record_receipt", {"operation": "op_x", "evidence": {"a": "x" * 65536}}, "evidence", 65536),
    ],
)
async def test_what_is_over_its_limit_is_too_large(
    tool: str, given: dict[str, Any], field: str, limit: int
) -> None:
    fault = await fault_of(tool, given)
    assert isinstance(fault, TooLarge)
    assert fault.field == field
    assert str(limit) in fault.fix


@pytest.mark.parametrize(
    "payload", ["x" * 262144, "é" * 131072, "\n" * 262144, ["x" * 262140], {"body": "x" * 262133}]
)
async def test_a_payload_that_just_reaches_its_limit_is_taken(payload: Any) -> None:
    assert (await command_of("begin_operation", **BEGIN, payload=payload)).payload == payload


async def test_what_just_reaches_its_limit_is_taken() -> None:
    assert (await command_of("begin_operation", **BEGIN, target="x" * 4000)).target == "x" * 4000


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("tool", "given", "field"),
    [
        ("begin_operation", BEGIN, "lease_seconds"),
        ("begin_operation", BEGIN, "max_attempts"),
        ("check_operation", {"operation": "op_x"}, "wait_seconds"),
        ("check_operation", {"operation": "op_x"}, "offset"),
        ("record_progress", {"run": BEGIN["run"]}, "fraction"),
    ],
)
async def test_a_number_that_no_float_holds_is_out_of_range(
    tool: str, given: dict[str, Any], field: str, sign: int
) -> None:
    fault = await fault_of(tool, {**given, field: sign * 10**5_000})
    assert isinstance(fault, InvalidArgument)
    assert str(fault).startswith(f"{field}: is out of range")
