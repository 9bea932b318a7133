"""Whatever comes in on stdin gets an answer where one is due, and the next call works."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from stdio_process import StdioProcess, call, modern_call

BEGIN = {"run": "weekly-report/2026-W48", "key": "email:alice", "action": "mail.send"}


@pytest.fixture(scope="module")
def server() -> Iterator[StdioProcess]:
    """Give one server of the handshake era; every test here must leave it working."""
    with StdioProcess() as process:
        process.initialize()
        yield process


@pytest.fixture
def works_after(server: StdioProcess) -> Iterator[None]:
    """Hold that a normal call works after the test."""
    yield
    answer = server.ask(call("after", **BEGIN))
    assert answer["id"] == "after"
    assert answer["result"]["structuredContent"]["next"] == "continue"


def fault(answer: dict[str, Any]) -> dict[str, Any]:
    """Give the fault that a tool's error result holds, and nothing but it."""
    assert answer["result"]["isError"] is True
    [content] = answer["result"]["content"]
    found = json.loads(content["text"])
    assert found["recorded"] is False
    return dict(found)


def line(arguments: bytes, request_id: bytes = b"7") -> bytes:
    """Give a call of begin_operation whose arguments are these bytes."""
    head = (
        b'{"jsonrpc":"2.0","id":' + request_id + b',"method":"tools/call","params":{"name":"begin_operation",'
    )
    return head + b'"arguments":' + arguments + b"}}"


@pytest.mark.usefixtures("works_after")
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (b'{"run":"\\ud800"}', "lone surrogate"),
        (b'{"run":"\xed\xa0\x80"}', "UTF-8"),
        (b'{"run":"\xff"}', "UTF-8"),
        (b'{"args":{"a":NaN}}', "NaN"),
        (b'{"args":{"a":-Infinity}}', "Infinity"),
        (b'{"args":{"a":1e400}}', "out of range"),
        (b'{"args":{"a":1,"a":2}}', "same member twice"),
        (b'{"args":' + b"[" * 5000 + b"]" * 5000 + b"}", "nested deeper"),
        (b'{"args":' + b"[" * 200 + b"]" * 200 + b"}", "nested deeper"),
        (b'{"args":{"a":' + b"9" * 70_000 + b"}}", "integer"),
    ],
    ids=lambda value: value[:24].decode("latin-1") if isinstance(value, bytes) else None,
)
def test_a_line_that_the_sdk_would_swallow_or_misread_is_a_fault_of_the_call(
    server: StdioProcess, arguments: bytes, problem: str
) -> None:
    """M-11: lone surrogates, numbers that are none, members twice, and what nests too deep.

    Reported: simonw/llm#546, frappe/frappe#41128.
    """
    answer = server.ask(line(arguments))
    assert answer["id"] == 7
    assert fault(answer)["code"] == "invalid_argument"
    assert problem in fault(answer)["message"]


@pytest.mark.usefixtures("works_after")
@pytest.mark.parametrize(
    "bad",
    [
        b'{"method":"tools/call","params":{"name":"x","arguments":{"a":' + b"[" * 3000 + b"]" * 3000 + b"}},"
        b'"jsonrpc":"2.0","id":"abc"}',
        b'{"id":"abc","method":"tools/call","params":{"a":"\\udc00"},"jsonrpc":"2.0"}',
    ],
    ids=["id-last", "id-first"],
)
def test_the_id_is_found_wherever_it_stands(server: StdioProcess, bad: bytes) -> None:
    answer = server.ask(bad)
    assert answer["id"] == "abc"
    assert fault(answer)["code"] == "invalid_argument"


@pytest.mark.usefixtures("works_after")
@pytest.mark.parametrize(
    ("bad", "code", "request_id"),
    [
        (b"junk", -32700, None),
        (b'{"jsonrpc":"2.0","id":3', -32700, None),
        (b"[]", -32600, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None),
        (b'"text"', -32600, None),
        (b'{"jsonrpc":"1.0","id":3,"method":"ping"}', -32600, 3),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":3,"method":7}', -32600, 3),
        (b'{"jsonrpc":"2.0","id":3}', -32600, 3),
        (b'{"jsonrpc":"2.0","id":3,"method":"ping","params":[]}', -32600, 3),
        (b'{"jsonrpc":"2.0","id":3,"id":4,"method":"tools/call"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"a":"\\ud800"}}', -32600, 3),
        (b'{"jsonrpc":"2.0","id":3,"result":{"a":NaN}}', -32600, None),
        (b'{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"\\ud800"}}', -32600, None),
    ],
    ids=lambda value: value.decode() if isinstance(value, bytes) else None,
)
def test_a_message_that_is_no_sound_request_gets_a_json_rpc_error(
    server: StdioProcess, bad: bytes, code: int, request_id: int | None
) -> None:
    answer = server.ask(bad)
    assert answer["error"]["code"] == code
    assert answer["id"] == request_id
    assert answer["error"]["message"] != "Invalid request", "it does not say why"


@pytest.mark.usefixtures("works_after")
def test_blank_lines_and_bad_notifications_get_no_answer(server: StdioProcess) -> None:
    server.send(b"")
    server.send(b"   \r")
    server.send(b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":NaN}}')
    assert server.ask(call("next", **BEGIN))["id"] == "next"


@pytest.mark.usefixtures("works_after")
@pytest.mark.parametrize("ends_with_id", [False, True])
def test_a_line_of_64_mb_is_too_large_and_is_not_kept(server: StdioProcess, ends_with_id: bool) -> None:
    """M-12: wherever its id stands.

    Reported: edxeth/pi-subagents#23.
    """
    before = peak_kilobytes(server.process.pid)
    body = b"x" * (64 * 1024 * 1024)
    if ends_with_id:
        head = b'{"method":"tools/call","params":{"name":"begin_operation","arguments":{"payload":"'
        answer = server.ask(head + body + b'"}},"jsonrpc":"2.0","id":"late"}')
        assert answer["id"] == "late"
    else:
        answer = server.ask(line(b'{"payload":"' + body + b'"}'))
        assert answer["id"] == 7
    assert fault(answer)["code"] == "too_large"
    assert peak_kilobytes(server.process.pid) - before < 40 * 1024


@pytest.mark.usefixtures("works_after")
def test_a_long_line_whose_id_cannot_be_found_is_an_error_without_id(server: StdioProcess) -> None:
    answer = server.ask(b"x" * (9 * 1024 * 1024))
    assert answer["id"] is None
    assert answer["error"]["code"] == -32600


@pytest.mark.usefixtures("works_after")
@pytest.mark.parametrize("size", [1, 8])
def test_a_body_of_megabytes_is_too_large(server: StdioProcess, size: int) -> None:
    answer = server.ask(call(7, **BEGIN, payload="x" * (size * 1024 * 1024 - 1000)))
    assert fault(answer)["code"] == "too_large"


@pytest.mark.usefixtures("works_after")
def test_an_unknown_parameter_and_a_wrong_type_are_faults(server: StdioProcess) -> None:
    assert "idempotancy_key" in fault(server.ask(call(7, **BEGIN, idempotancy_key="x")))["message"]
    assert "run" in fault(server.ask(call(7, run=5, key="k", action="a")))["message"]


def test_a_hostile_first_line_does_not_keep_a_client_of_either_era_from_connecting() -> None:
    for opening in (call(1, **BEGIN), modern_call(1, **BEGIN)):
        with StdioProcess() as process:
            process.send(b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"a":NaN}}')
            assert process.receive()["id"] == 9
            if "_meta" not in opening["params"]:
                process.initialize("2025-11-25")
            assert process.ask(opening)["result"]["structuredContent"]["next"] == "continue"


def test_a_refused_call_of_2026_07_28_carries_its_result_type() -> None:
    with StdioProcess() as process:
        message = json.dumps(modern_call(1, **BEGIN)).replace("email:alice", "\\ud800").encode()
        answer = process.ask(message)
        assert fault(answer)["code"] == "invalid_argument"
        assert answer["result"]["resultType"] == "complete"


@pytest.mark.usefixtures("works_after")
def test_calls_that_are_cancelled_at_any_moment_leave_the_server_working(server: StdioProcess) -> None:
    for number in range(200):
        server.send(call(f"c{number}", "check_operation", operation="op_x", wait_seconds=number % 3 / 1000))
        cancelled = {"requestId": f"c{number}", "reason": "no longer wanted"}
        server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled})
    server.send(call("last", **BEGIN))
    while server.receive()["id"] != "last":
        pass


@pytest.mark.usefixtures("works_after")
def test_calls_sent_together_or_twice_are_each_answered(server: StdioProcess) -> None:
    calls = [
        call(f"s{number}", tool, **arguments)
        for number in range(4)
        for tool, arguments in (("begin_operation", BEGIN), ("resume_plan", {}))
    ]
    server.send(b"\n".join(json.dumps(message).encode() for message in calls + calls))
    answered = sorted(server.receive()["id"] for _ in range(16))
    assert answered == sorted(message["id"] for message in calls + calls)


def peak_kilobytes(pid: int) -> int:
    """Give the peak resident memory of a process."""
    with open(f"/proc/{pid}/status") as status:
        [peak] = [entry for entry in status if entry.startswith("VmHWM")]
    return int(peak.split()[1])
