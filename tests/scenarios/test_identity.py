"""Field reports about identity: the same effect is recognised, another one is not taken for it."""

import json
import os
import shutil
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from counterfoil.store.errors import InvalidArgument, NotFound
from journals import ANOTHER, Desk, open_desk, plain_sql
from scenarios.servers import Server
from scenarios.tools import call_tool

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("store")]

ARGS: dict[str, Any] = {"a": 1, "b": {"c": [1, 2], "d": {"e": 1, "f": 2}}}
STORE = Path(__file__).parents[2] / "store"


async def attempts_and_state(desk: Desk) -> tuple[int, str]:
    """Give how often the operation was granted, and its state."""
    check = await desk.check()
    return check.get("attempts_in_all", 0), check["state"]


FINGERPRINT = r"""
import json, sys
from counterfoil.store.domain.canonical import fingerprint
from counterfoil.store.domain.identity import operation_id
given = json.loads(sys.stdin.read())
target, run = "r\u00e4ksm\u00f6rg\u00e5s", "k\u00f6rning"
print(fingerprint("pay.charge", target, given), operation_id("default", run, "nyckel"))
"""


async def test_the_order_of_members_does_not_count_and_that_of_items_does(tmp_path: Path) -> None:
    """I-3: reordered at three depths it is the same effect; an array in another order is another.

    Reported: mojaloop/project#2463, aws-powertools/powertools-lambda-python#638.
    """
    async with open_desk(tmp_path) as desk:
        first = await desk.begin(args=ARGS)
        reordered = {"b": {"d": {"f": 2, "e": 1}, "c": [1, 2]}, "a": 1}
        same = await desk.begin(args=reordered, caller=ANOTHER)
        assert (same["operation"], same["next"], same["reason"]) == (first["operation"], "wait", "lease_held")
        turned = await desk.begin(args={**ARGS, "b": {**ARGS["b"], "c": [2, 1]}}, caller=ANOTHER)
        assert (turned["next"], turned["reason"]) == ("stop", "identity_conflict")
        assert turned["operation"] == first["operation"]
        assert [(item["recorded"], item["given"]) for item in turned["conflict"]] == [(1, 2), (2, 1)]
        assert await attempts_and_state(desk) == (1, "in_progress")


def test_the_fingerprint_is_the_same_in_every_environment() -> None:
    """I-4 and I-11: whatever the locale, hash seed, Python, and whether sub-objects are shared or copies.

    Reported: apache/fineract#5674, antonio-ivanovski/spliit-cloud#68, pydantic/pydantic-ai#6907.
    """
    shared = {"x": [1, None]}
    warm = {"ä": 1, "Z": 2, "a": 3, "\ufffd": 4, "\U00010000": 5, "one": shared, "two": shared}
    cold = {name: deepcopy(warm[name]) for name in reversed(warm)}
    pythons = {sys.executable} | {
        found for minor in (11, 12, 13, 14) if (found := shutil.which(f"python3.{minor}", path="/usr/bin"))
    }
    environments = [
        {"LC_ALL": "C", "PYTHONHASHSEED": "1"},
        {"LC_ALL": "sv_SE.UTF-8", "PYTHONHASHSEED": "2"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONHASHSEED": "3"},
    ]
    printed = {
        subprocess.run(
            [python, "-c", FINGERPRINT],
            input=json.dumps(given),
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(STORE), **environment},
            stdout=subprocess.PIPE,
            encoding="ascii",
            check=True,
            timeout=60,
        ).stdout
        for python in pythons
        for environment in environments
        for given in (warm, cold)
    }
    assert len(printed) == 1
    assert printed.pop().startswith("v1:sha256:")


def test_a_retry_under_another_locale_is_the_same_effect_under_the_same_assumptions(tmp_path: Path) -> None:
    """I-4, I-11 and D-5: begun in one process, and asked again in another with another order of everything.

    The algorithm's version lies in the row, so that a later one will not be taken for another effect.

    Reported: apache/fineract#5674, antonio-ivanovski/spliit-cloud#68, pydantic/pydantic-ai#6907,
    pydantic/pydantic-ai#5875, pydantic/pydantic-ai#5884.
    """
    args = {"ä": 1, "Z": [{"x": 1, "y": None}], "a": 3, "\ufffd": 4, "\U00010000": {"b": 1, "c": 2}}
    context = {
        "tools": {"mail": {"digest": "d1"}, "git": {"digest": "d2"}},
        "model": {"id": "m", "version": "1"},
    }
    step = {"run": "körning", "key": "nyckel", "action": "pay.charge", "target": "räksmörgås"}
    with Server(tmp_path, LC_ALL="C", PYTHONHASHSEED="1") as server:
        server.initialize()
        begun = server.call("begin_operation", **step, args=args, context=context)
        assert (begun["next"], begun["attempt"]) == ("perform", 1)
    with Server(tmp_path, LC_ALL="sv_SE.UTF-8", PYTHONHASHSEED="2") as server:
        server.initialize()
        again = server.call("begin_operation", **step, args=turned(args), context=turned(context))
        assert (again["operation"], again["reason"]) == (begun["operation"], "lease_held")
        assert "drift" not in again
        plan = server.call("resume_plan", run="körning", context=turned(context))
        assert "drift" not in plan
        assert plan["counts"] == {"in_progress": 1}
    ((fingerprint,),) = plain_sql(tmp_path / "journal.db", "SELECT fingerprint FROM operations")
    assert fingerprint.startswith("v1:sha256:")
    assert plain_sql(tmp_path / "journal.db", "SELECT count(*) FROM contexts") == [(1,)]


def turned(value: Any) -> Any:
    """Give a copy with the members of every object in the opposite order."""
    if isinstance(value, dict):
        return {name: turned(value[name]) for name in reversed(value)}
    return [turned(item) for item in value] if isinstance(value, list) else value


async def test_null_and_a_missing_member_are_two_effects(tmp_path: Path) -> None:
    """I-4: the rule is the contract's, and the answer shows which member it was.

    Reported: apache/fineract#5674, antonio-ivanovski/spliit-cloud#68.
    """
    async with open_desk(tmp_path) as desk:
        await desk.begin(args={"to": "alice", "cc": None})
        other = await desk.begin(args={"to": "alice"}, caller=ANOTHER)
        assert (other["next"], other["reason"]) == ("stop", "identity_conflict")
        assert [(item["path"], item["recorded"]) for item in other["conflict"]] == [("/args/cc", None)]
        assert await attempts_and_state(desk) == (1, "in_progress")


async def test_equal_numbers_are_one_effect_and_a_string_is_a_named_difference(tmp_path: Path) -> None:
    """I-5: 100, 100.0 and 1e2 are equal, "100" is not.

    Reported: stripe/ai#402.
    """
    async with open_desk(tmp_path) as desk:
        await desk.begin(args={"amount": 100})
        for equal in (100.0, 1e2):
            assert (await desk.begin(args={"amount": equal}, caller=ANOTHER))["reason"] == "lease_held"
        for written in ('{"amount": 100.0}', '{"amount": 1e2}', '{ "amount":\r\n 10.0E+1 }'):
            given = {"run": desk.run, "key": desk.key, "action": "email.send", "args": written}
            asked = await call_tool(
                desk.journal,
                "begin_operation",
                connection="connection-2",
                target=f"{desk.key}@example.org",
                **given,
            )
            assert asked["reason"] == "lease_held"
        text = await desk.begin(args={"amount": "100"}, caller=ANOTHER)
        assert (text["next"], text["reason"]) == ("stop", "identity_conflict")
        assert text["conflict"] == [{"path": "/args/amount", "recorded": 100, "given": "100"}]
        assert await attempts_and_state(desk) == (1, "in_progress")


async def test_names_that_print_the_same_are_one_name_or_refused(tmp_path: Path) -> None:
    """I-5: outer white space, CRLF and NFD fold; a zero-width character is refused by name.

    Reported: stripe/ai#402.
    """
    async with open_desk(tmp_path) as desk:
        first = await desk.at("email: caf\u00e9").begin(target="a@example.org")
        for same in (" email: caf\u00e9\r\n", "email:  cafe\u0301", "email:\tcaf\u00e9"):
            again = await desk.at(same).begin(target="a@example.org", caller=ANOTHER)
            assert (again["operation"], again["reason"]) == (first["operation"], "lease_held")
        for refused in ("email:\u200bcafe", "email:\u202ecafe", "email:\x1bcafe", "   "):
            with pytest.raises(InvalidArgument) as fault:
                await desk.at(refused).begin()
            assert fault.value.field == "key"
        assert len((await desk.plan())["steps"]) == 1


async def test_integers_are_exact_at_any_size(tmp_path: Path) -> None:
    """I-6: one that a client rounded is another effect; one beyond 64 bits is no crash; ids are text.

    Reported: anthropics/claude-code#78762, oceanbase/powercontext#1098.
    """
    exact, rounded = 725653563933458432, 725653563933458400
    async with open_desk(tmp_path) as desk:
        begun = await desk.begin(args={"chat_id": exact})
        assert isinstance(begun["operation"], str)
        assert len(begun["operation"]) == 23
        twin = await desk.begin(args={"chat_id": rounded}, caller=ANOTHER)
        assert (twin["next"], twin["reason"]) == ("stop", "identity_conflict")
        assert await attempts_and_state(desk) == (1, "in_progress")
        assert twin["conflict"] == [{"path": "/args/chat_id", "recorded": exact, "given": rounded}]
        huge = desk.at("huge")
        assert (await huge.begin(args={"n": 2**63, "m": -(2**200)}))["next"] == "perform"
        shown = await huge.check(detail="args")
        assert json.loads(shown["content"]) == {"n": 2**63, "m": -(2**200)}


async def test_fifty_operations_begun_at_one_instant_have_fifty_ids_and_keys(tmp_path: Path) -> None:
    """I-7: the clock stands still; nothing is made of the time.

    Reported: hashicorp/terraform-provider-aws#39625.
    """
    async with open_desk(tmp_path) as desk:
        answers = [await desk.at(f"step-{number}").begin() for number in range(50)]
        assert len({answer["as_of"] for answer in answers}) == 1
        assert len({answer["operation"] for answer in answers}) == 50
        assert len({answer["idempotency_key"] for answer in answers}) == 50


async def test_a_changed_argument_is_a_conflict_even_after_a_known_failure(tmp_path: Path) -> None:
    """I-8: no superseding; another effect gets another key.

    Reported: ubicloud/ubicloud#5898, rust-lang/bors#830.
    """
    async with open_desk(tmp_path) as desk:
        small, large = {"instance_type": "m5.large"}, {"instance_type": "m6.large"}
        await desk.begin(target=None, args=small)
        difference = {"path": "/args/instance_type", "recorded": "m5.large", "given": "m6.large"}
        for state in ("in_progress", "failed"):
            other = await desk.begin(target=None, args=large, caller=ANOTHER)
            assert (other["next"], other["reason"]) == ("stop", "identity_conflict")
            assert other["conflict"] == [difference]
            assert await attempts_and_state(desk) == (1, state)
            await desk.failure("none", evidence={"status": 400})
        another = await desk.at("key-2").begin(target=None, args=large)
        assert (another["next"], another["attempt"]) == ("perform", 1)
        again = await desk.begin(target=None, args=small)
        assert (again["next"], again["reason"], again["attempt"]) == ("perform", "retry_after_failure", 2)


async def test_two_namespaces_never_see_each_other(tmp_path: Path) -> None:
    """I-9: both use the key "1"; nothing of the one is shown to the other, nor its effects.

    Reported: kortix-ai/suna#5267, nensii21/devlink#773, nensii21/devlink#1200, RamaAditya49/titen#37.
    """
    async with open_desk(tmp_path) as one, open_desk(tmp_path, namespace="other", clock=one.clock) as two:
        mine = await one.at("1").begin(args={"note": "of the first"})
        await one.at("1").receipt(external_id="m-secret")
        with pytest.raises(NotFound) as fault:
            await call_tool(two.journal, "check_operation", external_id="m-secret")
        assert fault.value.candidates == ()
        theirs = await two.at("1").begin(args={"note": "of the second"})
        assert (theirs["next"], theirs["attempt"]) == ("perform", 1)
        assert theirs["operation"] != mine["operation"]
        assert "of the first" not in json.dumps(theirs)
        assert (await two.at("1").receipt(external_id="m-secret"))["state"] == "succeeded"
        assert [step["operation"] for step in (await two.plan())["steps"]] == [theirs["operation"]]


async def test_one_key_for_two_actions_is_a_conflict_and_never_a_replay(tmp_path: Path) -> None:
    """I-9: "1" for a deployment, then "1" for a charge.

    Reported: kortix-ai/suna#5267, nensii21/devlink#773, nensii21/devlink#1200, RamaAditya49/titen#37.
    """
    async with open_desk(tmp_path) as desk:
        await desk.at("1").begin(action="deploy")
        await desk.at("1").receipt(kind="deployment", external_id="d-1")
        charge = await desk.at("1").begin(action="pay.charge")
        assert (charge["next"], charge["reason"]) == ("stop", "identity_conflict")
        assert charge["conflict"] == [{"path": "/action", "recorded": "deploy", "given": "pay.charge"}]
        assert "receipts" not in charge
        assert await attempts_and_state(desk.at("1")) == (1, "succeeded")


async def test_a_retry_under_an_invented_key_is_recognised_by_what_it_does(tmp_path: Path) -> None:
    """I-10: the first may have happened, so the second is stopped, also where it claims to be another.

    Reported: agentrust-io/cmcp#571, trustabl/trustabl-rulebook#29.
    """
    effect = {"target": "alice@example.org", "args": {"invoice": 42}}
    async with open_desk(tmp_path) as desk:
        first = await desk.at("6b1c9a1e-uuid-1").begin(**effect)
        desk.clock.advance(301)
        second = desk.at("f2f0cc44-uuid-2")
        for distinct_from in ((), (first["operation"],), ("*",)):
            again = await second.begin(distinct_from=distinct_from, caller=ANOTHER, **effect)
            assert (again["next"], again["reason"]) == ("stop", "possible_duplicate")
            assert again["duplicates"] == [
                {
                    "operation": first["operation"],
                    "key": "6b1c9a1e-uuid-1",
                    "state": "in_doubt",
                    "same": "fingerprint",
                }
            ]
        assert len((await desk.plan())["steps"]) == 1
        await desk.at("6b1c9a1e-uuid-1").receipt(external_id="m-1")
        settled = await second.begin(caller=ANOTHER, **effect)
        assert [(found["state"], found["same"]) for found in settled["duplicates"]] == [
            ("succeeded", "fingerprint")
        ]
        stated = await second.begin(distinct_from=(first["operation"],), caller=ANOTHER, **effect)
        assert (stated["next"], stated["reason"], stated["attempt"]) == ("perform", "first_attempt", 1)


@pytest.mark.parametrize("what", ["fingerprint", "target", "args"])
async def test_a_look_alike_is_found_among_hundreds_of_steps(tmp_path: Path, what: str) -> None:
    """I-10: two hundred letters with the same text, the last of which is begun under a new key.

    Reported: agentrust-io/cmcp#571, trustabl/trustabl-rulebook#29.
    """
    text = {"template": "reminder"}
    async with open_desk(tmp_path) as desk:
        for number in range(200):
            await desk.at(f"letter-{number}").begin(target=f"customer-{number:03}@example.org", args=text)
        again: dict[str, Any] = {
            "fingerprint": {"target": "customer-199@example.org", "args": text},
            "target": {"target": "Customer-199@example.org", "args": {"template": "reworded"}},
            "args": {"target": "mailto:customer-199@example.org?subject=x", "args": text},
        }[what]
        answer = await desk.at("invented").begin(caller=ANOTHER, **again)
        assert (answer["next"], answer["reason"]) == ("stop", "possible_duplicate")
        assert [(found["key"], found["same"]) for found in answer["duplicates"]] == [("letter-199", what)]
