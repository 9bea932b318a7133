"""The program itself, as a client starts it, killed around its commits; then the same is sent again."""

import signal
from pathlib import Path
from typing import Any

import pytest

from scenarios.servers import Server

BEGIN: dict[str, Any] = {
    "run": "weekly-report/2026-W48",
    "key": "email:alice",
    "action": "email.send",
    "target": "alice@example.org",
    "call_id": "toolu_begin_0123456789",
}
RECEIPT: dict[str, Any] = {
    "run": BEGIN["run"],
    "key": BEGIN["key"],
    "attempt": 1,
    "kind": "message",
    "external_id": "m-1",
    "call_id": "toolu_receipt_0123456789",
}


def killed_while(server: Server, tool: str, arguments: dict[str, Any]) -> None:
    """Make a call during which the server is to die."""
    with pytest.raises(EOFError):
        server.call(tool, **arguments)
    assert server.process.wait(20) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("place", "begun", "recorded"),
    [("before_commit", "first_attempt", "recorded"), ("after_commit", "replayed", "duplicate")],
)
def test_a_call_whose_answer_died_with_the_server_is_sent_again_and_counts_once(
    tmp_path: Path, place: str, begun: str, recorded: str
) -> None:
    """C-1: `recorded: null` means that; the begin is granted once, and the receipt is kept once.

    Reported: langchain-ai/langgraph#8039.
    """
    with Server(tmp_path, failpoints=f"{place}=kill").start() as dying:
        killed_while(dying, "begin_operation", BEGIN)
    with Server(tmp_path, failpoints=f"{place}=kill@2").start() as dying:
        granted = dying.call("begin_operation", **BEGIN)
        assert (granted["next"], granted["reason"], granted["attempt"]) == ("perform", begun, 1)
        killed_while(dying, "record_receipt", RECEIPT)
    with Server(tmp_path).start() as server:
        kept = server.call("record_receipt", **RECEIPT)
        assert (kept["next"], kept["reason"], kept["state"]) == ("continue", recorded, "succeeded")
        check = server.call("check_operation", run=BEGIN["run"], key=BEGIN["key"])
    assert (check["state"], check["attempts_in_all"]) == ("succeeded", 1)
    assert [receipt["external_id"] for receipt in check["receipts"]] == ["m-1"]
