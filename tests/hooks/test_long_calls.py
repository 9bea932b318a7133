"""Calls and results that are longer than the journal keeps: known again, bounded, nothing in plain."""

import json

import pytest

from counterfoil.server.hooks.call import call_of
from counterfoil.server.hooks.event import HookEvent, read_event
from counterfoil.server.hooks.identities import identity_of, payload_of
from counterfoil.server.hooks.long_input import MOST_CHARACTERS
from counterfoil.server.hooks.rules.defaults import merged
from counterfoil.server.hooks.rules.rule import EffectRules, ToolRule
from counterfoil.store.redact import Redactor
from hooks.client import Client, claude_result, client

__all__ = ["client"]

MAIL = "mcp__gmail__send_email"
LONG = "dear alice, " * 30_000
SECRET = "hunter2hunter2"
POST = "curl -fsS -d a=1 http://e.org"
RULES = merged(EffectRules(tools=(ToolRule(tool="mcp__wiki__save", payload=("text",)),)))


class Watched(Redactor):
    """A redactor that notes how many characters it searched."""

    searched = 0

    def redact_text(self, text: str) -> str:
        self.searched += len(text)
        return super().redact_text(text)


def identity(given: object, *, tool: str = MAIL):
    redactor = Watched(b"0123456789abcdef")
    call = call_of(HookEvent(name="PreToolUse", folder="/", tool=tool, input=given), RULES)
    assert call is not None
    key, mark, args = identity_of(call, redact=redactor.redact)
    kept = json.dumps([args, payload_of(call, redact=redactor.redact)])
    assert redactor.searched <= MOST_CHARACTERS
    assert len(kept) < 50_000
    return key, mark, kept


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        ({"to": "a@e.org", "body": LONG}, {"body": LONG, "to": "a@e.org"}, {"to": "b@e.org", "body": LONG}),
        ({"m": {"body": LONG, "n": 1}}, {"m": {"n": 1, "body": LONG}}, {"m": {"body": f"{LONG}!", "n": 1}}),
        ({"rows": [*range(99_999)]}, {"rows": [*range(99_999)]}, {"rows": [*range(100_000)]}),
        (
            {f"n{at}": "dear" for at in range(99_999)},
            {f"n{at}": "dear" for at in range(99_998, -1, -1)},
            {f"n{at}": "dear" for at in range(100_000)},
        ),
    ],
)
def test_a_long_call_is_known_by_all_of_it_and_searched_for_secrets_in_none(one, same, other):
    assert identity(one)[:2] == identity(same)[:2]
    assert identity(one)[:2] != identity(other)[:2]
    assert "dear" not in identity(one)[2]


def test_what_is_short_beside_what_is_long_is_shown_without_its_secrets():
    kept = identity({"to": "a@e.org", "api_key": SECRET, "body": LONG})[2]
    assert "a@e.org" in kept
    assert SECRET not in kept
    assert f'"characters": {len(LONG) + 2}' in kept


def test_a_long_payload_is_kept_by_its_digest_and_makes_no_other_effect():
    one = identity({"page": "x", "text": LONG}, tool="mcp__wiki__save")
    other = identity({"page": "x", "text": f"{LONG}!"}, tool="mcp__wiki__save")
    assert one[:2] == other[:2]
    assert one[2] != other[2]
    assert "dear" not in one[2]


def test_a_long_call_is_on_record_held_back_and_done(client: Client):
    call = client.new_call()
    mail = {"tool_name": MAIL, "tool_input": {"to": "a@e.org", "body": f"{LONG} {SECRET}"}}
    assert client.tell("PreToolUse", **mail, tool_use_id=call).reason is None
    assert client.tell("PreToolUse", **mail, tool_use_id=client.new_call()).reason is not None
    client.tell("PostToolUse", **mail, tool_use_id=call, tool_response={"id": "m-1"})
    assert [one["state"] for one in client.operations()] == ["succeeded"]
    journal = (client.home / ".local/share/counterfoil/journal.db").read_bytes()
    assert SECRET.encode() not in journal
    assert b"dear alice" not in journal


@pytest.mark.parametrize(
    ("printed", "is_shown"),
    [
        (f"made it\npassword={SECRET} {LONG}", True),
        (f"made it {LONG} password={SECRET}", True),
        (json.dumps({"made it": [SECRET], "rows": LONG, "password": [SECRET]}), False),
        (f"made it password={'A' * 262_110} ghp_{SECRET * 3}", False),
    ],
)
def test_a_long_result_is_a_receipt_of_which_no_secret_is_kept(client: Client, printed: str, is_shown: bool):
    call = client.new_call()
    client.before(POST, call=call)
    said = client.after(POST, {**claude_result(printed), "exit_code": 0}, call=call)
    assert "kept the receipt" in said.context
    assert [one["state"] for one in client.operations()] == ["succeeded"]
    journal = (client.home / ".local/share/counterfoil/journal.db").read_bytes()
    assert b"hunter2" not in journal
    assert (b"made it" in journal) == is_shown
    assert f"({len(printed)} characters in all)".encode() in journal


@pytest.mark.parametrize(
    "result", ["sent \ud83d", {"text": "\udcff"}, {"rate": float("nan")}, {"rate": 1e999}]
)
def test_half_a_character_or_no_number_loses_no_receipt(client: Client, result: object):
    call = client.new_call()
    mail = {"tool_name": MAIL, "tool_input": {"to": "a@e.org", "body": "cut \ud83d"}, "tool_use_id": call}
    client.tell("PreToolUse", **mail)
    assert "kept the receipt" in client.tell("PostToolUse", **mail, tool_response=result).context
    assert [one["state"] for one in client.operations()] == ["succeeded"]


def test_whole_characters_are_told_as_they_came():
    told = {"tool_input": {"한글": ["🙂", "\ud83d"]}, "tool_response": "🙂"}
    for raw in (
        json.dumps(told).encode(),
        json.dumps(told, ensure_ascii=False).encode("utf-8", "surrogatepass"),
    ):
        event = read_event("PostToolUse", raw)
        assert (event.input, event.response) == ({"한글": ["🙂", "\ufffd"]}, "🙂")
