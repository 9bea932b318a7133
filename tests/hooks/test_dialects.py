"""Gemini CLI and Letta Code tell of the same events in other words; these are the forms that they sent."""

import json
from typing import Any

import pytest

from counterfoil.server.hooks.dialects import GeminiDialect, LettaDialect, dialect_of
from counterfoil.server.hooks.event import read_event
from counterfoil.server.hooks.saying import context_output, deny_output

CLAUDE = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "git push"}}
GEMINI = {
    "session_id": "s-1",
    "transcript_path": "/home/me/.gemini/tmp/chat.json",
    "cwd": "/work",
    "hook_event_name": "BeforeTool",
    "timestamp": "2026-11-29T02:00:00.000Z",
    "tool_name": "run_shell_command",
    "tool_input": {"command": "git push"},
}
LETTA = {
    "event_type": "PreToolUse",
    "working_directory": "/work",
    "tool_name": "Bash",
    "tool_input": {"command": "git push", "description": "push"},
    "tool_call_id": "call_0123456789abcdef",
    "agent_id": "agent-1",
}


def heard(event: str, told: Any) -> Any:
    """Read an event as a hook does, in whatever words it came."""
    _, raw = dialect_of(event, json.dumps(told).encode())
    return read_event(event, raw)


@pytest.mark.parametrize(
    "told", [CLAUDE, [], "BeforeTool", {"event_type": "Stop"}, {**CLAUDE, "event_type": "PreToolUse"}]
)
def test_what_is_in_the_hooks_own_words_or_in_nobodys_stays_as_it_came(told: Any) -> None:
    raw = json.dumps(told).encode()
    assert dialect_of("PreToolUse", raw) == (None, raw)


@pytest.mark.parametrize("raw", [b"", b"{", b'{"hook_event_name": "Before"', b"[" * 100_000])
def test_what_cannot_be_read_stays_as_it_came(raw: bytes) -> None:
    assert dialect_of("PreToolUse", raw) == (None, raw)


def test_what_cannot_be_read_is_answered_in_the_form_of_whoever_seems_to_send_it() -> None:
    for raw, kind in (
        (b'{"hook_event_name": "BeforeTool"', GeminiDialect),
        (b'{"event_type": "PreToolUse"', LettaDialect),
    ):
        dialect, left = dialect_of("PreToolUse", raw)
        assert isinstance(dialect, kind)
        assert left == raw


@pytest.mark.parametrize(("told", "session"), [(GEMINI, "s-1"), (LETTA, "agent-1")])
def test_a_command_is_heard_with_its_folder_and_its_session(told: Any, session: str) -> None:
    event = heard("PreToolUse", told)
    assert (event.is_shell, event.command) == (True, "git push")
    assert (event.folder, event.session) == ("/work", session)


def test_a_tool_of_a_server_is_heard_under_the_name_that_rules_know() -> None:
    told = {
        **GEMINI,
        "tool_name": "mcp_mail_send",
        "mcp_context": {"server_name": "mail", "tool_name": "send"},
    }
    assert heard("PreToolUse", told).tool == "mcp__mail__send"


def test_a_result_is_heard_as_the_text_that_the_model_is_shown() -> None:
    of_gemini = {
        **GEMINI,
        "hook_event_name": "AfterTool",
        "tool_response": {"llmContent": [{"text": "Output: done"}], "returnDisplay": "done"},
    }
    of_letta = {**LETTA, "event_type": "PostToolUse", "tool_result": {"status": "success", "output": "done"}}
    assert heard("PostToolUse", of_gemini).response == "Output: done"
    assert heard("PostToolUse", of_letta).response == "done"
    assert heard("PostToolUse", of_letta).call_id == "call_0123456789abcdef"


def test_a_failure_is_heard_with_its_words() -> None:
    told = {**LETTA, "event_type": "PostToolUseFailure", "error_message": "Exit code: 1", "error_type": "x"}
    assert heard("PostToolUseFailure", told).error == "Exit code: 1"


def test_gemini_hears_a_deny_as_a_decision() -> None:
    out, err, code = GeminiDialect().say(deny_output("not again"))
    assert (json.loads(out), err, code) == ({"decision": "deny", "reason": "not again"}, "", 0)


def test_letta_hears_a_deny_by_the_exit_code_and_stderr() -> None:
    assert LettaDialect().say(deny_output("not again")) == ("", "not again", 2)
    assert LettaDialect().say(json.dumps({"decision": "block", "reason": "open"})) == ("", "open", 2)


@pytest.mark.parametrize("dialect", [GeminiDialect(), LettaDialect()])
def test_what_denies_nothing_blocks_nothing(dialect: GeminiDialect | LettaDialect) -> None:
    said = context_output("PostToolUse", "kept")
    assert dialect.say(said) == (said, "", 0)
    assert dialect.say("plain words")[2] == 0


def test_letta_is_given_the_plan_as_plain_text() -> None:
    assert LettaDialect().say(context_output("SessionStart", "open: one")) == ("open: one", "", 0)
