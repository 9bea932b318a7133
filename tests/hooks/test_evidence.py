"""What came of a call is told only where its end and its output prove it; else nobody knows."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from counterfoil.server.hooks.call import call_of
from counterfoil.server.hooks.event import HookEvent, read_event
from counterfoil.server.hooks.outcome import Outcome, outcome_of
from counterfoil.server.hooks.rules.defaults import merged
from counterfoil.server.hooks.rules.reading import read_rules
from counterfoil.server.hooks.rules.rule import NO_RULES
from hooks.client import Client, at_remote, claude_result, client, commit, git

__all__ = ["client"]

U = "https://example.org/charge"
PR = "https://github.com/o/r/pull/"
MOVED = "To ../remote.git\n   0123456..89abcde  main -> main\n"
REJECTED = "To ../remote.git\n ! [rejected]        dev -> dev (fetch first)\nerror: failed to push\n"


def event(tool: str, given: Any, **told: Any) -> HookEvent:
    """Give the event of a call that is over."""
    name = "PostToolUseFailure" if "error" in told else "PostToolUse"
    return read_event(name, json.dumps({"cwd": "/", "tool_name": tool, "tool_input": given, **told}).encode())


def came(command: str, **told: Any) -> str:
    """Tell what came of a command, by a failure (`error`) or by a result."""
    return outcome(command, **told).came


def outcome(command: str, **told: Any) -> Outcome:
    """Give all that is known of the end of a command."""
    heard = event("Bash", {"command": command}, **told)
    call = call_of(heard, merged(NO_RULES))
    assert call is not None, command
    return outcome_of(heard, call)


def ended(stdout: str, stderr: str = "") -> dict[str, Any]:
    """Give a result of a command that ended with status 0."""
    return {"tool_response": claude_result(stdout, stderr)}


def failed(status: int, text: str = "") -> dict[str, Any]:
    """Give a failure with an exit status and what was printed."""
    return {"error": f"Exit code {status}\n{text}"}


REFUSED = [
    (f"curl -sS -d a=1 {U}", failed(7, "curl: (7) Failed to connect")),
    (f"curl -fsS -d a=1 {U}", failed(22, "curl: (22) The requested URL returned error: 422")),
    (f"cd /tmp && curl -d a=1 {U}", failed(6, "curl: (6) Could not resolve host")),
    ("npm publish", failed(127, "/bin/bash: line 1: npm: command not found")),
    ("npm publish", failed(1, "npm notice x\nnpm error code E403\nnpm error 403 Forbidden")),
    ("git push origin dev", failed(1, REJECTED)),
    ("kubectl create namespace a", failed(1, "Error from server (AlreadyExists): namespaces")),
    ("gh pr create --fill", failed(1, 'a pull request for branch "x" into branch "main" already exists:\nu')),
]
UNKNOWN = [
    (f"curl -s -d amount=5 {U} && jqq .", failed(127, "bash: line 1: jqq: command not found")),
    (f"set -o pipefail; curl -s -d a=1 {U} | jqq .id", failed(127, "bash: jqq: command not found")),
    ("npm publish", failed(127, "sh: 1: postpublish-script: not found")),
    ("npm publish", failed(127, "built\nbash: npm: command not found")),
    (f"curl -s -d a=1 {U}; curl -sS http://127.0.0.1:1/health", failed(7, "curl: (7) Failed to connect")),
    (f"curl -sS {U}; curl -sS -d a=1 {U}", failed(28, "curl: (7) Failed\ncurl: (28) Timeout")),
    (f"curl -sS -d a=1 {U}", failed(28, "curl: (7) Failed\ncurl: (28) Timeout")),
    (f"curl -d a=1 {U} http://localhost:1/x", failed(7, "curl: (7) Failed to connect")),
    (f"curl --retry 3 -d a=1 {U}", failed(7, "curl: (52) Empty reply\ncurl: (7) Failed to connect")),
    (f"curl -fsSL -d a=1 {U}", failed(22, "curl: (22) The requested URL returned error: 404")),
    (f"curl -d a=1 '{U}/{{a,b}}'", failed(7, "curl: (7) Failed to connect")),
    ("npm publish --silent; npm dist-tag add x@1 next", failed(1, "npm error code E403")),
    ("npm publish", failed(1, "npm error code E403\nnpm error code 1")),
    ("npm publish --workspaces", failed(1, "npm error code E403")),
    ("gh pr create >/dev/null && gh label create x", failed(1, "label already exists")),
    ("gh release create v1 a.zip", failed(1, "HTTP 422: already_exists")),
    ("kubectl create -f many.yaml", failed(1, "a created\nError from server (AlreadyExists): b")),
    ("twine upload dist/*", failed(1, "HTTPError: 400 File already exists")),
    ("git push origin main dev", failed(1, f"{MOVED}{REJECTED}")),
    ("git push origin main dev", failed(1, REJECTED)),
    ("git push -q", failed(1, REJECTED)),
    ("docker push -a x", failed(1, f"a: digest: sha256:{'0' * 64} size: 1\ndenied")),
    ("gh pr view --json url -q .url; gh pr create --fill", failed(1, f"{PR}7\nno")),
    ("git push --dry-run origin main && git push origin main", failed(1, MOVED + REJECTED)),
    ("gh pr create --fill", failed(1, f"{PR}8\ncould not add label")),
]


@pytest.mark.parametrize(("command", "told"), REFUSED)
def test_a_refusal_is_believed_of_one_simple_command_with_one_effect(command: str, told: dict[str, Any]):
    assert came(command, **told) == "refused"


@pytest.mark.parametrize(("command", "told"), UNKNOWN)
def test_a_failure_that_may_be_anothers_or_only_of_a_part_tells_nothing(command: str, told: dict[str, Any]):
    assert came(command, **told) == "unknown"


@pytest.mark.parametrize(
    ("command", "told", "expected"),
    [
        (f"curl -s -d a=1 {U}", ended("<html>503</html>"), "unknown"),
        (f"curl -s -d a=1 {U}", ended('{"error": "no", "id": "req_1"}'), "unknown"),
        (f"curl -s -d a=1 {U} -w '%{{http_code}}'", ended("no\n500"), "unknown"),
        (f"curl -s -d a=1 {U} -w '%{{http_code}}' && echo 200", ended("500\n200"), "unknown"),
        (f"curl -s -d a=1 {U} -w '\\n%{{http_code}}\\n'", ended("made\n201\n"), "succeeded"),
        (
            f"curl -si -d a=1 {U}",
            ended("HTTP/1.1 100 Go\r\n\r\nHTTP/1.1 201 Made\r\nA: b\r\n\r\n"),
            "succeeded",
        ),
        (f"curl -si -d a=1 {U}", ended("HTTP/2 302\r\nA: b\r\n\r\n"), "unknown"),
        (f"curl -fsS -d a=1 {U}", ended("made"), "succeeded"),
        (f"curl --fail-with-body -d a=1 {U} && echo made", ended("made"), "succeeded"),
        (f"curl -f -d a=1 {U} {U}2", ended("made"), "unknown"),
        (f"curl -X POST -sdfoo {U}", ended("<html>503</html>"), "unknown"),
        (f"wget --post-data a=1 {U}", ended(""), "succeeded"),
        (f"http POST {U} a=1", ended("no"), "unknown"),
        (f"http --check-status POST {U} a=1", ended("yes"), "succeeded"),
    ],
)
def test_the_end_of_a_request_proves_it_only_where_it_tells_of_the_answer(
    command: str, told: dict[str, Any], expected: str
):
    assert came(command, **told) == expected


@pytest.mark.parametrize(
    ("command", "printed", "expected"),
    [
        ("gh pr create --fill 2>&1 | tail -3", f"{PR}8\n", "succeeded"),
        ('npm publish; echo "ended: $?"', "+ x@1.0.0\nended: 0\n", "succeeded"),
        ("npm publish; echo '+ x@1.0.0'", "+ x@1.0.0\n", "unknown"),
        ("gh pr view 7; gh pr create --fill | tail -1", f"{PR}7\n", "unknown"),
        ("for x in a b; do npm publish; done; true", "+ x@1.0.0\n", "unknown"),
        ("docker push -a x | tail", f"a: digest: sha256:{'0' * 64} size: 1\n", "unknown"),
    ],
)
def test_a_reference_proves_an_effect_only_where_nobody_else_can_have_printed_it(
    command: str, printed: str, expected: str
):
    assert came(command, **ended(printed)) == expected


def test_a_reference_that_another_program_printed_is_not_the_receipt():
    assert outcome("gh pr create --fill && gh pr view 7", **ended(f"{PR}8\n{PR}7\n")).found == (None,)
    (_, found) = outcome("git push -u origin x && gh pr create --fill", **ended(f"{PR}8\n")).found
    assert found is not None
    assert found.external_id == "8"


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ([{"type": "text", "text": "Error: timeout contacting bank"}], "unknown"),
        ('{"status": 500}', "unknown"),
        ('{"status": "failed", "id": "m-1"}', "unknown"),
        ('{"status": "sent", "id": "m-1"}', "succeeded"),
        ("No errors", "succeeded"),
    ],
)
def test_a_tools_result_that_tells_of_a_failure_is_no_success(response: Any, expected: str):
    heard = event("mcp__bank__charge", {"amount": 5}, tool_response=response)
    call = call_of(heard, merged(NO_RULES))
    assert call is not None
    assert outcome_of(heard, call).came == expected


def test_an_operators_pattern_is_believed_of_its_command_alone():
    rules = merged(read_rules({"commands": [{"program": "deploy.sh", "refused": ["quota exceeded"]}]}))
    for command, expected in (("./deploy.sh a", "refused"), ("./deploy.sh a && ./check.sh", "unknown")):
        heard = event("Bash", {"command": command}, **failed(1, "quota exceeded"))
        call = call_of(heard, rules)
        assert call is not None
        assert outcome_of(heard, call).came == expected


@pytest.mark.parametrize("line", ["To a\n", "To a\n\n \n", "https://x\n", "+ @@@@@@@@@@@@\n", "https://"])
def test_no_output_makes_the_patterns_slow(line: str):
    printed = line * (160_000 // len(line))
    for command in (
        "git push origin main",
        "gh pr comment 7",
        "glab mr create",
        "npm publish",
        "twine upload a",
    ):
        began = time.process_time()
        outcome(command, **ended(printed))
        assert time.process_time() - began < 1.5, command


def test_of_several_refs_that_were_partly_pushed_nobody_says_that_it_had_no_effect(
    client: Client, tmp_path: Path
):
    client.does("git push -u origin main main:dev")
    other = Client(home=client.home, folder=tmp_path / "other")
    other.folder.mkdir()
    git(other, "clone", "-q", "-b", "dev", "../remote.git", ".")
    commit(other, "theirs")
    git(other, "push", "-q")
    commit(client, "ours")
    said = client.does("git push origin main main:dev")
    assert "had no effect" not in said.context
    assert client.operations()[0]["state"] == "in_doubt"
    assert at_remote(client) == git(client, "rev-parse", "HEAD")


def test_a_push_on_top_of_which_somebody_pushed_is_done_where_that_is_known_and_never_absent(
    client: Client, tmp_path: Path
):
    call = client.new_call()
    command = "git push -q origin main && false"
    client.before(command, call=call)
    client.run(command)
    other = Client(home=client.home, folder=tmp_path / "other")
    other.folder.mkdir()
    git(other, "clone", "-q", "../remote.git", ".")
    commit(other, "theirs")
    git(other, "push", "-q")
    client.failed(command, "Exit code 1", call=call)
    assert client.operations()[0]["state"] == "in_doubt"
    git(client, "fetch", "-q")
    client.failed(command, "Exit code 1", call=call)
    assert client.operations()[0]["state"] == "succeeded"


def test_a_commit_that_the_push_does_not_wait_for_leaves_it_in_doubt(client: Client):
    command = "git commit -q -m nothing; git push -q -u origin main; false"
    client.does(command)
    assert at_remote(client) == git(client, "rev-parse", "HEAD")
    assert client.operations()[0]["state"] == "in_doubt"
