"""Pushes of a real repository to a real remote, with the hooks around them."""

import os
import shutil
from pathlib import Path

import pytest

from hooks.client import Client, at_remote, claude_result, client, commit, git

__all__ = ["client"]


def test_a_push_is_begun_before_it_runs_and_its_commit_is_its_captured_receipt(client: Client):
    said = client.does("git push -u origin main")
    head = git(client, "rev-parse", "HEAD")
    (found,) = client.operations()
    assert (found["state"], found["action"]) == ("succeeded", "git.push")
    shown = client.ask("show", found["operation"])
    (receipt,) = shown["receipts"]
    assert (receipt["kind"], receipt["external_id"], receipt["assurance"]) == ("commit", head, "captured")
    assert head in said.context


def test_one_commit_pushed_twice_goes_once_however_the_push_is_spelled(client: Client):
    client.does("git push -u origin main")
    for spelling in (
        "git push",
        "git  push  'origin' \"main\"",
        "cd . && git push origin HEAD",
        "sudo git push",
    ):
        reason = client.before(spelling).reason
        assert reason is not None, spelling
        assert "on record as done" in reason
        assert git(client, "rev-parse", "HEAD") in reason


def test_two_commits_pushed_by_one_command_line_both_go_through(client: Client):
    client.does("git push -u origin main")
    second = commit(client, "two")
    client.does("git push -u origin main")
    assert at_remote(client) == second
    assert [one["state"] for one in client.operations()] == ["succeeded", "succeeded"]


def test_two_commits_go_through_also_where_only_the_shell_knows_the_folder(client: Client):
    client.environment["SITE"] = str(client.folder)
    command = 'cd "$SITE" && git push -u origin main'
    assert client.does(command).reason is None
    second = commit(client, "two")
    client.does(command)
    assert at_remote(client) == second
    assert client.before(command).reason is None
    client.tell("SessionStart", source="resume")
    assert "may already have happened" in str(client.before(command).reason)


def test_a_rejected_push_has_no_effect_and_goes_through_once_it_can(client: Client, tmp_path):
    client.does("git push -u origin main")
    other = Client(home=client.home, folder=tmp_path / "other")
    other.folder.mkdir()
    git(other, "clone", "-q", "../remote.git", ".")
    commit(other, "theirs")
    git(other, "push", "-q")
    git(client, "commit", "-q", "--allow-empty", "-m", "ours")
    said = client.does("git push")
    assert "had no effect" in said.context
    assert client.operations()[0]["state"] == "failed"
    client.does("git push --force")
    assert at_remote(client) == git(client, "rev-parse", "HEAD")
    assert client.operations()[0]["state"] == "succeeded"


def test_after_a_kill_between_the_hooks_the_resumed_session_must_look_first(client: Client):
    assert client.before("git push -u origin main").reason is None
    resumed = client.tell("SessionStart", source="resume")
    assert "may have happened, look it up first" in resumed.context
    reason = client.before("git push -u origin main").reason
    assert reason is not None
    assert "may already have happened" in reason
    (found,) = client.operations()
    assert found["state"] == "in_doubt"
    for data in (
        found["operation"],
        "reconcile_operation",
        "counterfoil reconcile",
        "as_of",
        "git ls-remote",
    ):
        assert data in reason


def test_without_a_word_of_the_resumption_the_same_call_is_not_repeated_either(client: Client):
    assert client.before("git push -u origin main").reason is None
    reason = client.before("git push -u origin main").reason
    assert reason is not None
    assert "was interrupted" in reason
    assert "git ls-remote" in reason


def test_the_same_call_told_twice_is_one(client: Client):
    call = client.new_call()
    assert client.before("git push -u origin main", call=call).reason is None
    assert client.before("git push -u origin main", call=call).reason is None
    assert len(client.operations()) == 1


def test_another_conversation_in_the_same_run_waits_for_the_one_that_pushes(client: Client):
    client.environment["COUNTERFOIL_RUN"] = "nightly/1"
    assert client.before("git push -u origin main").reason is None
    client.session = "99999999-2222-4333-8444-555555555555"
    reason = client.before("git push -u origin main").reason
    assert reason is not None
    assert "Another session is performing" in reason


def test_a_commit_made_by_the_call_that_pushes_it_is_its_receipt(client: Client):
    client.does("git push -u origin main")
    for text in ("two", "three"):
        (client.folder / "file").write_text(text)
        said = client.does("git add . && git commit -q -m more && git push")
        head = git(client, "rev-parse", "HEAD")
        assert at_remote(client) == head
        assert head in said.context
    assert len(client.operations()) == 3


def test_a_commit_that_failed_leaves_no_push_in_doubt(client: Client):
    client.does("git push -u origin main")
    said = client.does("git commit -q -m nothing && git push")
    assert "had no effect" in said.context
    (client.folder / "file").write_text("two")
    client.does("git commit -q -a -m nothing && git push")
    assert at_remote(client) == git(client, "rev-parse", "HEAD")


def test_a_push_whose_end_is_lost_in_the_command_is_looked_up_at_the_remote(client: Client):
    said = client.does("git push -q -u origin main; true")
    assert git(client, "rev-parse", "HEAD") in said.context
    (found,) = client.operations()
    assert found["state"] == "succeeded"


def test_a_push_that_was_interrupted_is_in_doubt(client: Client):
    call = client.new_call()
    client.before("git push -u origin main", call=call)
    said = client.failed("git push -u origin main", "interrupted", call=call, is_interrupt=True)
    assert "before you have looked" in said.context
    assert client.operations()[0]["state"] == "in_doubt"


def test_the_output_of_a_fetch_is_no_proof_of_a_push(client: Client):
    client.does("git push -u origin main")
    commit(client, "two")
    call = client.new_call()
    command = "git fetch; git push origin main:other; true"
    client.before(command, call=call)
    printed = "From ../remote\n   0123456..89abcde  main -> origin/main\n"
    client.after(command, claude_result("", printed), call=call)
    assert client.operations()[0]["state"] == "failed"


def test_a_name_in_front_of_the_command_makes_it_another_effect(client: Client):
    client.does("git push -u origin main")
    assert client.before("git push").reason is not None
    assert client.before("COUNTERFOIL_KEY=push-again git push").reason is None
    assert client.before("COUNTERFOIL_KEY=push-again git push").reason is not None


@pytest.mark.parametrize("answer", ["To ../remote.git\n * [new branch]      main -> main\n", ""])
def test_a_client_that_tells_no_exit_status_is_believed_by_the_output_alone(client: Client, answer: str):
    call = "call_0123456789abcdef0123"
    client.before("git push -u origin main", call=call)
    said = client.after("git push -u origin main", answer, call=call)
    (found,) = client.operations()
    if answer:
        assert found["state"] == "succeeded"
        assert git(client, "rev-parse", "HEAD") in said.context
    else:
        assert found["state"] == "in_doubt"


def test_a_push_that_the_remote_has_lost_goes_through_again(client: Client):
    command = "git push -u origin main"
    remote = f"{client.folder.parent}/remote.git"
    client.does(command)
    for _ in range(2):
        assert "on record as done" in str(client.before(command).reason)
        git(client, "--git-dir", remote, "update-ref", "-d", "refs/heads/main")
        assert client.does(command).context.startswith("Counterfoil kept the receipt")
        assert at_remote(client) == git(client, "rev-parse", "HEAD")
    assert [one["state"] for one in client.operations()] == ["succeeded"] * 3


def test_a_push_is_done_while_the_remote_holds_it_or_may_hold_it(client: Client, tmp_path: Path):
    command = "git push -u origin main"
    client.does(command)
    other = Client(home=client.home, folder=tmp_path / "other")
    other.folder.mkdir()
    git(other, "clone", "-q", "../remote.git", ".")
    commit(other, "theirs")
    git(other, "push", "-q")
    assert "on record as done" in str(client.before(command).reason)
    git(client, "fetch", "-q")
    assert "on record as done" in str(client.before(command).reason)
    assert "on record as done" in str(client.before(f"true && {command}; gh pr create --fill").reason)


def test_a_push_that_was_set_back_at_the_remote_goes_through_in_every_composition(client: Client):
    first = git(client, "rev-parse", "HEAD")
    client.does("git push -u origin main")
    commit(client, "two")
    client.does("git push")
    git(client, "--git-dir", f"{client.folder.parent}/remote.git", "update-ref", "refs/heads/main", first)
    assert client.does("git push && true").context.startswith("Counterfoil kept the receipt")
    assert at_remote(client) == git(client, "rev-parse", "HEAD")


def test_a_push_that_is_named_stays_done_until_it_is_named_otherwise(client: Client):
    command = "git push -u origin main"
    client.does(f"COUNTERFOIL_KEY=first {command}")
    git(client, "--git-dir", f"{client.folder.parent}/remote.git", "update-ref", "-d", "refs/heads/main")
    assert "on record as done" in str(client.before(f"COUNTERFOIL_KEY=first {command}").reason)
    assert client.does(f"COUNTERFOIL_KEY=second {command}").context.startswith("Counterfoil kept")


def test_a_branch_that_came_back_is_deleted_again(client: Client):
    client.does("git push -u origin main")
    for _ in range(2):
        git(client, "push", "-q", "origin", "main:old")
        assert client.does("git push origin --delete old").context.startswith("Counterfoil kept")
        assert at_remote(client, "refs/heads/old") == ""
    assert "on record as done" in str(client.before("git push origin --delete old").reason)


WIDER = (
    "git push --all",
    "git push --branches origin",
    "git push --mirror",
    "git push origin main --tags",
    "git push --follow-tags",
    "git push origin main main",
    "git push origin main dev",
    "git push origin dev :old main",
    "git push origin :",
    "git push; git push origin main",
    "git push origin main && npm publish",
)


def with_more(client: Client) -> None:
    """Give the repository another branch and a tag; `main` follows the remote's."""
    for words in ("branch dev", "tag -a v1 -m v1", "config push.default current"):
        git(client, *words.split())


def test_a_wider_push_waits_for_a_part_of_it_that_is_not_settled(client: Client):
    with_more(client)
    assert client.before("git push origin main").reason is None
    for wider in WIDER:
        assert "under way" in str(client.before(wider).reason), wider
    assert len(client.operations()) == 1


def test_a_push_waits_for_a_wider_one_that_is_not_settled(client: Client):
    with_more(client)
    for run, wider in enumerate(WIDER):
        client.environment["COUNTERFOIL_RUN"] = f"run/{run}"
        assert client.before(wider).reason is None, wider
        assert "under way" in str(client.before("git push origin main").reason), wider
    assert len(client.operations()) == len(WIDER)


def test_all_of_a_push_is_done_once_each_ref_is_in_whatever_composition(client: Client):
    with_more(client)
    client.does("git push origin main --tags")
    assert "on record as done" in str(client.before("git push origin v1").reason)
    client.does("git push origin dev")
    for spelling in ("git push --all", "git push origin dev main --tags", "git push origin tag v1"):
        assert "on record as done" in str(client.before(spelling).reason), spelling


def test_what_is_done_and_stands_at_the_remote_holds_back_no_new_ref_beside_it(client: Client):
    client.does("git push -u origin main")
    for tag in ("v1", "v2"):
        git(client, "tag", tag)
        assert client.does("git push origin main --tags").reason is None
        assert at_remote(client, f"refs/tags/{tag}")
    assert "on record as done" in str(client.before("git push --tags").reason)
    git(client, "branch", "dev")
    assert client.does("git push --force --all").reason is None
    assert at_remote(client, "refs/heads/dev")


def test_what_is_done_and_grew_at_the_remote_is_not_set_back_beside_a_new_ref(client: Client, tmp_path: Path):
    client.does("git push -u origin main")
    other = Client(home=client.home, folder=tmp_path / "other")
    other.folder.mkdir()
    git(other, "clone", "-q", "../remote.git", ".")
    commit(other, "theirs")
    git(other, "push", "-q")
    git(client, "branch", "dev")
    reason = str(client.before("git push --force --all").reason)
    assert "One of them stands in the way" in reason
    assert "refs/heads/main" in reason.partition("stands in the way:")[2].partition("not run:")[0]
    assert "refs/heads/dev" in reason.partition("not run:")[2]
    assert client.does("git push origin dev").reason is None
    assert at_remote(client) == git(other, "rev-parse", "HEAD")


def test_a_mirror_deletes_what_is_not_here_and_so_is_another_push(client: Client):
    client.does("git push -u origin main")
    git(client, "push", "-q", "origin", "main:old")
    git(client, "update-ref", "-d", "refs/remotes/origin/old")
    assert client.does("git push --mirror").reason is None
    assert at_remote(client, "refs/heads/old") == ""
    assert "on record as done" in str(client.before("git push --mirror").reason)


def test_one_remote_is_one_however_its_address_is_spelled(client: Client):
    remote = f"{client.folder.parent}/remote.git"
    git(client, "config", f"url.{remote}.insteadOf", "mine:")
    git(client, "remote", "add", "other", f"file://{remote}/")
    assert client.before("git push origin main").reason is None
    for address in (remote, f"{remote}/", f"file://{remote}", "../remote.git", "../remote", "other", "mine:"):
        assert "under way" in str(client.before(f"git push {address} main").reason), address


def test_very_many_refs_overlap_with_each_ref_of_their_remote(client: Client):
    lines = "".join(f"create refs/tags/v{number} HEAD\n" for number in range(60))
    (client.folder / "refs").write_text(lines)
    git(client, "update-ref", "--stdin < refs")
    assert client.before("git push --tags").reason is None
    for narrower in ("git push origin v7", "git push origin main"):
        assert "under way" in str(client.before(narrower).reason)
    client.session = "99999999-2222-4333-8444-555555555555"
    client.environment["COUNTERFOIL_RUN"] = "another/run"
    assert client.before("git push origin v7").reason is None
    assert "may be this one" in str(client.before("git push --tags").reason)
    assert len(client.operations()) == 2


def test_a_push_that_makes_what_it_sends_waits_for_one_of_several_refs(client: Client):
    with_more(client)
    assert client.before("git push origin main dev").reason is None
    assert client.before("git commit --allow-empty -m x && git push origin main").reason is not None
    assert client.before("git commit --allow-empty -m x && git push origin main:other").reason is None


def test_git_is_asked_as_often_for_many_pushes_as_for_one(client: Client, tmp_path: Path):
    asked, real = tmp_path / "asked", shutil.which("git")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/git"
    program.write_text(f'#!/bin/sh\necho "$*" >> {asked}\nexec {real} "$@"\n')
    program.chmod(0o755)
    client.environment["PATH"] = f"{tmp_path}/bin:{os.environ['PATH']}"
    for command in ("git push origin main:b", "; ".join(f"git push origin main:b{one}" for one in range(50))):
        asked.write_text("")
        assert client.before(command).reason is None
        assert len(asked.read_text().splitlines()) == 2


@pytest.mark.parametrize("is_strict", [False, True])
def test_a_call_of_too_many_effects_is_told_to_the_model_or_held_back(client: Client, is_strict: bool):
    folder = client.home / ".config/counterfoil"
    folder.mkdir(parents=True)
    (folder / "counterfoil.toml").write_text(f"[effects]\nfail_closed = {str(is_strict).lower()}\n")
    command = "; ".join(f"git push origin main:b{one}" for one in range(101))
    said = client.before(command)
    assert (said.reason is not None) is is_strict
    assert "more than 100 effects" in (said.reason or said.context)
    assert "more than 100 effects" in client.after(command, claude_result(""), call=client.new_call()).context
    assert "more than 100 effects" in client.ask("hook", "explain", command)["why"]
