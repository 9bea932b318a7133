"""Field reports about time-outs and late success: silence is neither a failure nor leave to repeat."""

import subprocess
from pathlib import Path
from threading import Event
from typing import Any

import anyio
import pytest

from counterfoil.store.domain.commands import Lookup
from counterfoil.store.errors import Ambiguous, InvalidArgument, NotFound
from counterfoil.store.failpoints import installed
from journals import AGENT, ANOTHER, as_caller, open_desk
from scenarios.servers import Server
from scenarios.tools import call_tool

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]

LOOKUP = Lookup(tool="mail.search", args={"subject": "invoice 42"}, settle_seconds=60)


async def test_a_timed_out_call_is_in_doubt_and_the_answer_says_what_to_look_up(tmp_path: Path) -> None:
    """T-1: the work was queued although the tool said that it had failed.

    Reported: Abilityai/trinity#914.
    """
    async with open_desk(tmp_path) as desk:
        await desk.begin(lookup=LOOKUP)
        reported = await desk.failure("unknown", error="timed out after 60 s")
        assert (reported["state"], reported["next"]) == ("in_doubt", "reconcile")
        again = await desk.begin(caller=ANOTHER)
        assert (again["next"], again["reason"]) == ("reconcile", "in_doubt")
        assert again["lookup"]["tool"] == "mail.search"
        assert again["lookup"]["args"] == {"subject": "invoice 42"}
        assert again["since"] < again["as_of"] < again["settle_until"]
        check = await desk.check()
        assert (check["attempts_in_all"], check["state"], check["next"]) == (1, "in_doubt", "reconcile")
        assert "receipts" not in check


async def test_a_receipt_that_names_no_operation_is_never_attached_by_guess(tmp_path: Path) -> None:
    """T-2: five operations that differ in their target only; the candidates are listed, nothing is stored.

    Reported: Abilityai/trinity#2675.
    """
    evidence: dict[str, Any] = {"kind": "message", "external_id": "m-7", "action": "email.send"}
    async with open_desk(tmp_path) as desk:
        begun = [await desk.at(f"email:{name}").begin(target=f"{name}@example.org") for name in "abcde"]
        for tool, given in (
            ("record_receipt", evidence),
            ("record_failure", {"attempt": 1, "effect": "unknown", "error": "x"}),
            ("reconcile_operation", {"finding": "performed", "checked_with": "mail.search", **evidence}),
            ("close_operation", {"outcome": "timed_out", "reason": "x"}),
            ("check_operation", {}),
        ):
            with pytest.raises(Ambiguous) as fault:
                await call_tool(desk.journal, tool, run=desk.run, **given)
            assert sorted(candidate.split()[0] for candidate in fault.value.candidates) == sorted(
                answer["operation"] for answer in begun
            )
            assert fault.value.recorded is False
        with pytest.raises(InvalidArgument):
            await call_tool(desk.journal, "record_receipt", **evidence)
        with pytest.raises(NotFound):
            await call_tool(desk.journal, "check_operation", external_id="m-7")
        plan = await desk.plan()
        assert plan["counts"] == {"in_progress": 5}
        assert not [step for step in plan["steps"] if "receipts" in step]
        named = await call_tool(desk.journal, "record_receipt", run=desk.run, key="email:c", **evidence)
        assert (named["state"], named["operation"]) == ("succeeded", begun[2]["operation"])
        settled = desk.at("only", run="run-2")
        done = await settled.begin()
        await settled.receipt(external_id="m-8")
        with pytest.raises(Ambiguous) as fault:
            await call_tool(desk.journal, "record_receipt", run="run-2", **evidence)
        assert fault.value.candidates == (f"{done['operation']} (succeeded): key only in run run-2",)
        with pytest.raises(NotFound) as unknown:
            await call_tool(desk.journal, "record_receipt", run="run-3", **evidence)
        assert (unknown.value.code, unknown.value.candidates) == ("not_found", ("run-2", "run-1"))


async def test_accepted_is_not_done_and_a_timeout_is_not_failed(tmp_path: Path) -> None:
    """T-3: accepted at 0 s, given up at 240 s, completed at 400 s; all three are on file.

    Reported: CALLE-AI/awesome-phone-call-agents#160, CALLE-AI/awesome-phone-call-agents#229.
    """
    async with open_desk(tmp_path) as desk:
        await desk.begin(lookup=LOOKUP)
        accepted = await desk.receipt(external_id="call-1", final=False, kind="transaction")
        assert (accepted["state"], accepted["next"]) == ("in_progress", "continue")
        desk.clock.advance(240)
        assert (await desk.failure("unknown", error="poll timed out"))["state"] == "in_doubt"
        desk.clock.advance(160)
        completed = await desk.receipt(external_id="call-1", kind="transaction")
        assert (completed["state"], completed["next"]) == ("succeeded", "continue")
        check = await desk.check(detail="full")
        assert check["attempts_in_all"] == 1
        assert [receipt.get("final", True) for receipt in check["receipts"]] == [False, True]
        assert [error for attempt in check["attempts"] if (error := attempt.get("error"))] == [
            "poll timed out"
        ]
        kinds = [entry["event"] for entry in check["history"]]
        assert kinds.count("receipt_recorded") == 2
        assert kinds.count("attempt_ended") == 1


@pytest.mark.parametrize("status", [500, "503", "HTTP/1.1 504 Gateway Timeout"])
async def test_an_error_after_sending_is_no_evidence_of_no_effect(tmp_path: Path, status: Any) -> None:
    """T-4: the server answered 5xx, and had created the comment.

    Reported: probot/probot#921, taylorwilsdon/google_workspace_mcp#997, MervinPraison/PraisonAI#4621.
    """
    async with open_desk(tmp_path) as desk:
        await desk.begin(action="comment.create", lookup=LOOKUP)
        reported = await desk.failure("none", error="503", evidence={"response": {"status": status}})
        assert (reported["state"], reported["next"]) == ("in_doubt", "reconcile")
        again = await desk.begin(action="comment.create")
        assert (again["next"], again["reason"]) == ("reconcile", "in_doubt")
        assert (await desk.check())["attempts_in_all"] == 1


async def test_an_error_after_sending_may_be_repeated_under_the_providers_key(tmp_path: Path) -> None:
    """T-4: with a recorded idempotency key, and the same one again.

    Reported: probot/probot#921, taylorwilsdon/google_workspace_mcp#997, MervinPraison/PraisonAI#4621.
    """
    async with open_desk(tmp_path) as desk:
        keyed = {"repeat": "keyed", "key_ttl_seconds": 86_400, "payload": "the first wording"}
        first = await desk.begin(**keyed)
        await desk.failure("unknown", error="503")
        again = await desk.begin(**{**keyed, "payload": "another wording"})
        assert (again["next"], again["reason"], again["attempt"]) == ("perform", "repeat_keyed", 2)
        assert again["idempotency_key"] == first["idempotency_key"]
        assert again["recorded"]["payload"] == "the first wording"
        await desk.receipt(attempt=2)
        done = await desk.begin(**keyed)
        assert (done["next"], done["reason"]) == ("skip", "already_succeeded")
        assert (await desk.check())["attempts_in_all"] == 2


async def test_a_known_failure_is_retried_and_an_unknown_one_is_held(tmp_path: Path) -> None:
    """T-5: the retry is attempt 2 of the same operation; a replayed answer says that it is one.

    Reported: KeeperHub/keeperhub#1840, KeeperHub/keeperhub#1849.
    """
    async with open_desk(tmp_path) as desk:
        known, unknown = desk.at("known"), desk.at("unknown")
        first = await known.begin()
        failed = await known.failure("none", error="422", evidence={"status": 422, "body": "bad address"})
        assert (failed["state"], failed["reason"]) == ("failed", "recorded")
        call = as_caller(AGENT)
        retry = await known.begin(caller=call)
        assert (retry["next"], retry["reason"], retry["attempt"]) == ("perform", "retry_after_failure", 2)
        assert retry["replayed"] is False
        assert retry["operation"] == first["operation"]
        replay = await known.begin(caller=call)
        assert (replay["next"], replay["reason"], replay["attempt"]) == ("perform", "replayed", 2)
        assert replay["replayed"] is True
        await unknown.begin(lookup=LOOKUP)
        await unknown.failure("unknown", error="422?")
        held = await unknown.begin()
        assert (held["state"], held["next"], held["reason"]) == ("in_doubt", "reconcile", "in_doubt")
        assert [(await place.check())["attempts_in_all"] for place in (known, unknown)] == [2, 1]


@pytest.mark.sqlite_only
async def test_a_begin_that_commits_after_its_caller_gave_up_is_granted_once(tmp_path: Path) -> None:
    """T-6: the same call again gets its own grant back, another call waits; there is one attempt.

    Reported: modelcontextprotocol/typescript-sdk#245, modelcontextprotocol/python-sdk#212, ceph/ceph#67012.
    """
    mine = as_caller(AGENT)
    async with open_desk(tmp_path) as desk:

        async def asked_in_vain() -> None:
            with anyio.move_on_after(0.05):
                await desk.begin(caller=mine)

        held = _Held("before_commit")
        with installed(held):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(asked_in_vain)
                await anyio.to_thread.run_sync(held.wait_until_reached)
                held.let_go()
        same = await desk.begin(caller=mine)
        assert same["next"] == "perform"
        assert same["reason"] in ("replayed", "first_attempt")
        assert same["attempt"] == 1
        other = await desk.begin(caller=as_caller(ANOTHER))
        assert (other["next"], other["reason"]) == ("wait", "lease_held")
        mine_anew = await desk.begin(caller=as_caller(AGENT))
        assert (mine_anew["next"], mine_anew["reason"]) == ("wait", "lease_held_by_you")
        assert (await desk.check())["attempts_in_all"] == 1
        assert len((await desk.plan())["steps"]) == 1


def git(*words: str, at: Path) -> str:
    """Run git."""
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", *who, *words], cwd=at, check=True, capture_output=True, timeout=30)
    return done.stdout.decode().strip()


def test_the_servers_own_look_at_the_remote_decides_what_a_timed_out_push_did(tmp_path: Path) -> None:
    """T-7: a true remote and the operator's probe; the commit is there, or nothing moved, or another is.

    Reported: openclaw/openclaw#144878.
    """
    bare, work = tmp_path / "site.git", tmp_path / "work"
    git("init", "--quiet", "--bare", str(bare), at=tmp_path)
    git("clone", "--quiet", str(bare), str(work), at=tmp_path)
    commits = []
    for name in ("before", "pushed", "another"):
        git("commit", "--quiet", "--allow-empty", "-m", name, at=work)
        commits.append(git("rev-parse", "HEAD", at=work))
    before, pushed, another = commits
    (tmp_path / "counterfoil.toml").write_text(
        f'[probes.branch]\ntype = "git_ref"\naction = "git.push"\nremote = "{bare}"\n'
        'ref = "refs/heads/{target}"\nsha = "{args.commit}"\nbefore = "{args.before}"\n'
    )
    stands_at = {"exact": pushed, "unmoved": before, "other": another}
    for branch, commit in stands_at.items():
        git("push", "--quiet", "origin", f"{commit}:refs/heads/{branch}", at=work)
    answers = {}
    with Server(tmp_path, COUNTERFOIL_CONFIG=str(tmp_path / "counterfoil.toml")).start() as server:
        for branch in stands_at:
            named = {"run": "site/1", "key": f"push:{branch}"}
            step = {
                **named,
                "action": "git.push",
                "target": branch,
                "args": {"commit": pushed, "before": before},
                "lookup": {"probe": "branch", "settle_seconds": 0},
            }
            assert server.call("begin_operation", **step)["next"] == "perform"
            server.call("record_failure", **named, attempt=1, effect="unknown", error="timed out")
            looked = server.call("verify_operation", **named)
            begun = server.call("begin_operation", **step)
            check = server.call("check_operation", **named)
            receipts = [
                (receipt["external_id"], receipt["assurance"]) for receipt in check.get("receipts", [])
            ]
            answers[branch] = (
                looked["state"],
                begun["next"],
                begun["reason"],
                check["attempts_in_all"],
                receipts,
            )
    assert answers == {
        "exact": ("succeeded", "skip", "already_succeeded", 1, [(f"refs/heads/exact@{pushed}", "verified")]),
        "unmoved": ("failed", "perform", "retry_after_failure", 2, []),
        "other": ("in_doubt", "reconcile", "in_doubt", 1, []),
    }


async def test_an_agents_look_at_the_remote_decides_what_a_timed_out_push_did(tmp_path: Path) -> None:
    """T-7: the same by an agent's own look, which counts once it can show what there was to see.

    Reported: openclaw/openclaw#144878.
    """
    async with open_desk(tmp_path) as desk:
        exact, unmoved, other = (desk.at(f"push:{name}") for name in ("exact", "unmoved", "other"))
        probe = Lookup(probe="remote-ref", instructions="git ls-remote", settle_seconds=60)
        for place in (exact, unmoved, other):
            await place.begin(action="git.push", lookup=probe)
            await place.failure("unknown", error="timed out")
        desk.clock.advance(301)
        as_of = (await exact.check())["as_of"]
        found = await exact.reconcile("performed", kind="commit", external_id="4f2a", as_of=as_of)
        assert found["state"] == "succeeded"
        done = await exact.begin(action="git.push")
        assert (done["next"], done["reason"]) == ("skip", "already_succeeded")
        assert (await unmoved.reconcile("not_performed", as_of=as_of))["state"] == "failed"
        retry = await unmoved.begin(action="git.push")
        assert (retry["next"], retry["reason"], retry["attempt"]) == ("perform", "retry_after_failure", 2)
        strange = await other.reconcile("inconclusive", as_of=as_of)
        assert (strange["state"], strange["next"]) == ("in_doubt", "reconcile")
        held = await other.begin(action="git.push")
        assert (held["next"], held["reason"]) == ("reconcile", "in_doubt")
        assert (await other.check())["attempts_in_all"] == 1


async def test_an_empty_look_before_the_effect_can_show_settles_nothing(tmp_path: Path) -> None:
    """T-7: the remote may still take it; the answer says from when a look counts.

    Reported: openclaw/openclaw#144878.
    """
    async with open_desk(tmp_path) as desk:
        await desk.begin(lookup=LOOKUP)
        failed = await desk.failure("unknown", error="timed out")
        early = await desk.reconcile("not_performed", as_of=failed["as_of"])
        assert (early["state"], early["next"], early["reason"]) == ("in_doubt", "wait", "settling")
        desk.clock.advance(60)
        check = await desk.check()
        assert check["as_of"] == early["retry_at"]
        assert (await desk.reconcile("not_performed", as_of=early["as_of"]))["reason"] == "settling"
        assert (await desk.reconcile("not_performed", as_of=check["as_of"]))["state"] == "failed"


class _Held:
    """A hook that holds the writing thread at a failpoint until it is let go."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._reached, self._go = Event(), Event()

    def __call__(self, name: str) -> None:
        if name == self._place and not self._go.is_set():
            self._reached.set()
            assert self._go.wait(20)

    def wait_until_reached(self) -> None:
        """Wait until the thread is held there."""
        assert self._reached.wait(20)

    def let_go(self) -> None:
        """Let the thread go on, now and later."""
        self._go.set()
