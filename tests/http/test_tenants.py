"""Two tenants in one journal: whatever one of them asks, it is answered as if the other were not there.

The same requests are sent twice: where another tenant has the same names everywhere, and where there is no
other. The answers are the same but for times. A tool, resource, prompt or completion that is new and is not
asked about here fails the test.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from counterfoil.store.domain.commands import GrantAuthority
from counterfoil.tools.catalogue import ALL_TOOLS
from counterfoil.tools.prompts import PROMPTS
from counterfoil.tools.resources import RESOURCES, TEMPLATES
from crash.sessions import LONG
from http_servers import TOKENS, HttpServer, connected, issue_token, operating
from journals import PERSON

pytestmark = pytest.mark.anyio

RUN = "weekly-report/2026-W48"
MARK = "alpha-only"
"""Stands in everything that the first tenant writes and that is no name."""

CALL = "toolu_call_of_alpha_1"
RUN_OF_ALPHA = {"run": RUN, "workflow": f"{MARK}-workflow", "goal": MARK, "lease_seconds": 3000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ids:
    """What the first tenant has, by the ids that only it was told."""

    done: str
    doubt: str
    planned: str
    grant: str


async def told(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool and give its answer, which is none of a fault."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


async def fill(client: Client, place: Path) -> Ids:
    """Let the first tenant have something of everything."""
    criteria = [{"id": "mailed", "text": MARK}]
    plan = [{"key": "email:carol", "action": "mail.send", "target": "carol", "payload": MARK}]
    await told(client, "begin_run", **RUN_OF_ALPHA, spec={"criteria": criteria}, plan=plan)
    mail = {"run": RUN, "action": "mail.send"}
    done = await told(
        client, "begin_operation", **mail, key="email:alice", target="alice", args={"n": 1}, call_id=CALL
    )
    kept = {"kind": "message", "external_id": "m-1", "system": "mail", "evidence": {"said": MARK}}
    await told(client, "record_receipt", operation=done["operation"], attempt=1, **kept)
    doubt = await told(client, "begin_operation", **mail, key="email:bob", target="bob", payload=MARK)
    await told(
        client, "record_failure", operation=doubt["operation"], attempt=1, effect="unknown", error=MARK
    )
    planned = await told(client, "check_operation", run=RUN, key="email:carol")
    async with operating(place, "alpha") as journal:
        given = await journal.grant(GrantAuthority(action="mail.*", why=MARK), PERSON)
    return Ids(
        done=done["operation"],
        doubt=doubt["operation"],
        planned=planned["operation"],
        grant=given["grant"]["grant"],
    )


def asked_of_tools(ids: Ids) -> dict[str, list[dict[str, Any]]]:
    """Give what the second tenant asks of each tool, by the same names and by the first's ids."""
    mail = {"run": RUN, "action": "mail.send"}
    each = [{"operation": one} for one in (ids.done, ids.doubt, ids.planned)]
    steps = [{"run": RUN, "key": key} for key in ("email:alice", "email:bob", "email:carol")]
    return {
        "check_operation": [
            *each,
            *steps,
            {"run": RUN},
            {"external_id": "m-1"},
            {"operation": ids.doubt, "detail": "payload"},
            {"operation": ids.done[:-1] + "a"},
        ],
        "resume_plan": [{}, {"run": RUN}, {"run": RUN, "include": "all"}, {"run": RUN[:-1]}],
        "find_operations": [
            {},
            {"text": "email"},
            {"run": RUN},
            {"workflow": f"{MARK}-workflow"},
            {"external_id": "m-1"},
            {"system": "mail"},
            {"state": "in_doubt"},
        ],
        "verify_operation": [*each, *steps],
        "record_failure": [{**one, "attempt": 1, "effect": "none", "error": "x"} for one in each + steps],
        "record_progress": [
            {**each[0], "attempt": 1},
            {"run": RUN, "message": "x"},
            {**steps[1], "attempt": 1},
        ],
        "close_operation": [{**one, "outcome": "cancelled", "reason": "x"} for one in each + steps],
        "reconcile_operation": [
            {**one, "finding": "performed", "checked_with": "x", "external_id": "z"} for one in each + steps
        ],
        "request_authority": [*each, {"run": RUN, "action": "mail.send", "target": "alice"}],
        "finish_run": [{"run": RUN, "outcome": "completed"}],
        "begin_operation": [
            {"run": "undoing", "key": "undo", "action": "mail.recall", "compensates": ids.done},
            {"run": RUN, "key": "late", "action": "x", "depends_on": ["email:alice"]},
            {
                **mail,
                "key": "email:another",
                "target": "alice",
                "args": {"n": 1},
                "distinct_from": [ids.done],
            },
            {**mail, "key": "email:granted", "target": "g", "grant": ids.grant},
            {**mail, "key": "email:alice", "target": "alice", "args": {"n": 2}, "call_id": CALL},
            {**mail, "key": "email:dan", "target": "dan"},
        ],
        "record_receipt": [
            *({**one, "external_id": "m-9", "kind": "message"} for one in each),
            {**mail, "key": "email:dan", "kind": "message", "external_id": "m-1", "system": "mail"},
        ],
        "begin_run": [{"run": RUN, "goal": "mine", "plan": [{"key": "email:bob", "action": "mail.send"}]}],
    }


async def ask_everything(client: Client, ids: Ids) -> list[str]:
    """Give what the second tenant is answered, whatever it asks, without what differs from time to time."""
    answers: list[str] = []
    asked = asked_of_tools(ids)
    assert set(asked) == {tool.name for tool in ALL_TOOLS}, "a tool is not asked about"
    for tool, calls in asked.items():
        for arguments in calls:
            result = await client.call_tool(tool, arguments)
            answers.append(f"{tool} {arguments} => {result.content[0].text} {result.structured_content}")
    for words in (*RESOURCES, *TEMPLATES):
        places = [words.uri]
        if words.argument is not None:
            names = (RUN.replace("/", "%2F"), *vars_of(ids))
            places = [words.uri.replace(f"{{{words.argument}}}", name) for name in names]
        for uri in places:
            answers.append(f"{uri} => {await answer_or_error(client.read_resource(uri))}")
    for words in TEMPLATES:
        for beginning in ("", "w", ids.done[:6]):
            reference = ResourceTemplateReference(uri=words.uri)
            given = {"name": words.argument, "value": beginning}
            answers.append(
                f"{words.uri} {given} => {await answer_or_error(client.complete(reference, given))}"
            )
    for prompt in PROMPTS:
        values = {
            one.name: {"run": RUN, "operation": ids.doubt}.get(one.kind, "x") for one in prompt.arguments
        }
        answers.append(f"{prompt.name} => {await answer_or_error(client.get_prompt(prompt.name, values))}")
        for argument in prompt.arguments:
            given = {"name": argument.name, "value": ""}
            reference = PromptReference(name=prompt.name)
            answers.append(
                f"{prompt.name} {given} => {await answer_or_error(client.complete(reference, given))}"
            )
    return [without_time(answer) for answer in answers]


def vars_of(ids: Ids) -> Sequence[str]:
    """Give all the ids."""
    return [getattr(ids, name) for name in ids.__slots__]


async def answer_or_error(asked: Any) -> str:
    """Give an answer, or the error in its place, as text."""
    try:
        return str((await asked).model_dump())
    except MCPError as error:
        return f"{error.error.code} {error.error.message} {error.error.data}"


_CHANGING = re.compile(
    r"\d{4}-\d\d-\d\dT[0-9:.]+Z|\bjr_[0-9a-z]+|(?:request|grant)_[a-z2-7]{20}|age_seconds\W+[0-9.]+"
)


def without_time(text: str) -> str:
    """Replace times, what is drawn by lot, and ids that are derived from a moment."""
    return _CHANGING.sub("…", text)


async def state_of(client: Client, ids: Ids) -> list[str]:
    """Give all that a tenant sees of its own."""
    seen = [await told(client, "resume_plan", run=RUN, include="all")]
    for operation in (ids.done, ids.doubt, ids.planned):
        seen.append(await told(client, "check_operation", operation=operation, detail="full"))
    seen.append(await told(client, "find_operations"))
    return [without_time(json.dumps(one)) for one in seen]


@pytest.mark.parametrize("mode", ["2026-07-28", *(["legacy"] if LONG else [])])
async def test_a_tenant_is_answered_as_if_there_were_no_other(tmp_path: Path, mode: str) -> None:
    shared, alone = tmp_path / "shared.db", tmp_path / "alone.db"
    alpha = await issue_token(shared, "alpha", "agent")
    beta = await issue_token(shared, "beta", "agent")
    beta_alone = await issue_token(alone, "beta", "agent")
    with (
        HttpServer(shared, folder=tmp_path, configuration=TOKENS) as server,
        HttpServer(alone, folder=tmp_path, configuration=TOKENS) as empty,
    ):
        async with connected(server, mode=mode, token=alpha) as first:
            ids = await fill(first, shared)
            before = await state_of(first, ids)
            assert any(MARK in one for one in before)
            async with connected(server, mode=mode, token=beta) as second:
                beside = await ask_everything(second, ids)
            async with connected(empty, mode=mode, token=beta_alone) as second:
                by_itself = await ask_everything(second, ids)
            assert await state_of(first, ids) == before
    for one, other in zip(beside, by_itself, strict=True):
        assert one == other
        assert MARK not in one.partition(" => ")[2]
    async with operating(shared, "alpha") as journal:
        assert (await journal.reader.verify()).faults == ()
