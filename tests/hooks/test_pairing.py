"""The two ends of a call: with an id and without, in parallel, after a resume, and when it was never run."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from counterfoil.store.domain.commands import BeginOperation, BeginRun
from hooks.client import Client, Said, claude_result, client, git
from hooks.test_calls import agent

__all__ = ["client"]

POST = "curl -f -d amount=5 https://example.org/charge"


@dataclass(kw_only=True)
class Nameless(Client):
    """A client that gives its calls no ids, or such as come again."""

    id: str | None = None

    def tell(self, name: str, *flags: str, **told: Any) -> Said:
        """Tell of an event without the id of its call."""
        told.pop("tool_use_id", None)
        return super().tell(name, *flags, **told, **({} if self.id is None else {"tool_use_id": self.id}))


@pytest.fixture
def nameless(client: Client) -> Nameless:
    return Nameless(home=client.home, folder=client.folder)


def states(client: Client) -> list[str]:
    return sorted(one["state"] for one in client.operations())


def test_the_end_of_a_call_without_an_id_goes_to_its_beginning(nameless: Nameless):
    assert nameless.before(POST).reason is None
    assert "under way" in str(nameless.before(POST).reason)
    assert "kept the receipt" in nameless.after(POST, claude_result("ok"), call="").context
    assert states(nameless) == ["succeeded"]
    assert "on record as done" in str(nameless.before(POST).reason)


def test_a_call_without_an_id_that_makes_what_it_sends_is_one_operation(nameless: Nameless):
    command = "cp file body && curl -f -d @body https://example.org/x"
    assert nameless.before(command).reason is None
    nameless.run("cp file body")
    nameless.after(command, claude_result("ok"), call="")
    assert states(nameless) == ["succeeded"]


@pytest.mark.parametrize("name", [None, "call_1"])
def test_without_ids_what_cannot_be_read_is_held_back_while_open_and_is_never_done(
    nameless: Nameless, name: str | None
):
    nameless.id = name
    command = 'curl -f -d "$AMOUNT" https://example.org/charge'
    assert nameless.before(command).reason is None
    assert "under way" in str(nameless.before(command).reason)
    nameless.after(command, claude_result("ok"), call="")
    assert nameless.before(command).reason is None
    nameless.after(command, claude_result("ok"), call="")
    assert states(nameless) == ["succeeded", "succeeded"]


def test_the_end_of_a_call_that_was_blocked_changes_nothing(nameless: Nameless):
    assert nameless.before(POST).reason is None
    reason = nameless.before(POST).reason
    assert nameless.after(POST, {"output": reason}, call="").out == ""
    assert nameless.failed(POST, str(reason), call="").out == ""
    assert states(nameless) == ["in_progress"]


def test_an_end_that_fits_two_open_calls_goes_to_neither(nameless: Nameless):
    command = "curl -f -d @file https://example.org/x"
    for text in ("one", "two"):
        (nameless.folder / "file").write_text(text)
        assert nameless.before(command).reason is None
    (nameless.folder / "file").write_text("three")
    nameless.failed(command, "Exit code 22", call="")
    assert states(nameless) == ["in_progress", "in_progress"]
    (nameless.folder / "file").write_text("two")
    nameless.after(command, claude_result("ok"), call="")
    assert states(nameless) == ["in_progress", "succeeded"]


def test_another_session_gets_no_end_of_a_call_without_an_id(nameless: Nameless):
    other = Nameless(
        home=nameless.home, folder=nameless.folder, session="22222222-2222-4333-8444-555555555555"
    )
    for one in (nameless, other):
        one.environment["COUNTERFOIL_RUN"] = "release/1"
    assert nameless.before(POST).reason is None
    assert "Another session" in str(other.before(POST).reason)
    other.failed(POST, "Exit code 22", call="")
    assert states(nameless) == ["in_progress"]


def test_after_a_resume_a_call_without_an_id_is_in_doubt_and_takes_no_later_end(nameless: Nameless):
    assert nameless.before(POST).reason is None
    nameless.tell("SessionStart", source="resume")
    assert states(nameless) == ["in_doubt"]
    assert "may already have happened" in str(nameless.before(POST).reason)


def test_stopping_names_a_call_without_an_id_whose_end_never_came(nameless: Nameless):
    assert nameless.before(POST).reason is None
    told = json.loads(nameless.tell("Stop", stop_hook_active=False).out)
    assert "without an outcome on record" in told["reason"]


def test_the_end_of_a_call_without_an_id_goes_to_the_agents_own_attempt(nameless: Nameless):
    begin = BeginOperation(run="release/1", key="push:main", action="git.push", target="origin/main")
    agent(nameless, BeginRun(run="release/1"), begin)
    nameless.does("git push -u origin main")
    (found,) = nameless.operations()
    assert (found["key"], found["state"]) == ("push:main", "succeeded")


def denied(client: Client, command: str, *, call: str, reason: str = "not now") -> Said:
    given = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": call}
    return client.tell("PermissionDenied", **given, reason=reason)


def test_a_call_that_the_client_denied_never_ran_and_may_be_begun_again(client: Client):
    call = client.new_call()
    client.before(POST, call=call)
    said = denied(client, POST, call=call, reason="no: token=hunter2xyz")
    assert (said.out, said.err) == ("", "")
    assert states(client) == ["failed"]
    assert client.before(POST).reason is None
    assert b"hunter2xyz" not in (client.home / ".local/share/counterfoil/journal.db").read_bytes()


def test_a_denial_of_another_call_changes_nothing(client: Client):
    client.before(POST)
    denied(client, POST, call=client.new_call())
    assert states(client) == ["in_progress"]
    call = client.new_call()
    client.before("npm publish", call=call)
    client.after("npm publish", claude_result("+ a@1.0.0"), call=call)
    denied(client, "npm publish", call=call)
    assert states(client) == ["in_progress", "succeeded"]


def test_a_list_is_judged_by_each_of_its_effects(client: Client):
    create = "gh pr create --title x --body y"
    call = client.new_call()
    client.before(create, call=call)
    client.after(create, claude_result("https://github.com/a/b/pull/12"), call=call)
    reason = client.before(f"{create} && git push -u origin main").reason
    assert reason is not None
    assert "none of them was run" in reason
    assert "stands in the way: github.pr.create" in reason
    assert "not run: git.push" in reason
    assert client.does("git push -u origin main").context.startswith("Counterfoil kept the receipt")
    reason = client.before(f"{create} && git push -u origin main").reason
    assert "each of them is on record by itself" in str(reason)
    git(client, "commit", "-q", "--allow-empty", "-m", "two")
    assert client.before("gh pr create --title z --body y && git push").reason is None


def test_the_end_of_a_call_goes_to_no_attempt_of_another_call(client: Client):
    first, blocked, stranger = client.new_call(), client.new_call(), client.new_call()
    assert client.before(POST, call=first).reason is None
    assert client.before(POST, call=blocked).reason is not None
    for call in (blocked, stranger):
        assert "did NOT record the result" in client.after(POST, claude_result("77"), call=call).context
        assert client.failed(POST, "Exit code 22", call=call).out == ""
        both = f"{POST} && git push"
        assert "did NOT record the result" in client.after(both, claude_result(""), call=call).context
    assert states(client) == ["in_progress"]
    assert "kept the receipt" in client.after(POST, claude_result("1"), call=first).context
    assert client.after(POST, claude_result("77"), call=blocked).out
    assert states(client) == ["succeeded"]


def test_the_late_end_of_an_earlier_attempt_is_evidence_about_that_one(client: Client):
    first, second = client.new_call(), client.new_call()
    refused = "Exit code 7\ncurl: (7) Failed to connect to example.org"
    client.before(POST, call=first)
    client.failed(POST, refused, call=first)
    assert client.before(POST, call=second).reason is None
    assert client.failed(POST, refused, call=first).out == ""
    assert states(client) == ["in_progress"]
    client.after(POST, claude_result("1"), call=first)
    (found,) = client.operations()
    assert found["state"] == "disputed"
    (receipt,) = client.ask("show", found["operation"])["receipts"]
    assert receipt["attempt"] == 1
