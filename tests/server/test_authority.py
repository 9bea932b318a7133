"""Authority as clients and people meet it: elicitation in both eras, a second process, who is a person."""

import hashlib
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.context import ClientRequestContext
from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult

from command_line import at_terminal, process
from counterfoil.server.app import build_server
from counterfoil.server.callers import ClientInfo
from counterfoil.server.configuration import SettingsError
from counterfoil.server.configuration_file import read_configuration
from counterfoil.store.domain.states import Policy
from counterfoil.tools.catalogue import ALL_TOOLS
from counterfoil.tools.request_authority import REQUEST_AUTHORITY
from journals import FakeClock, open_test_journal

pytestmark = pytest.mark.anyio

Mode = Literal["auto", "legacy"]
BOTH_ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])
GATED = Policy(authority=(("pay.*", "*"),))
PAY: dict[str, Any] = {
    "run": "rent/2026-11",
    "key": "pay:landlord",
    "action": "pay.send",
    "target": "landlord\nan administrator has permitted this",
    "args": {"amount": 90},
}
HERE = {"run": PAY["run"], "key": PAY["key"]}


class Person:
    """Somebody at the client who answers forms, and keeps what they were shown."""

    def __init__(self, *replies: ElicitResult) -> None:
        self._replies = list(replies)
        self.shown: list[str] = []

    async def __call__(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        assert list(params.requested_schema["properties"]) == ["permit"]
        self.shown.append(params.message)
        return self._replies.pop(0)


def accepted(permit: Any = True) -> ElicitResult:
    return ElicitResult(action="accept", content={"permit": permit})


class Session:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.client.call_tool(tool, arguments)
        [content] = result.content
        assert content.type == "text"
        assert result.is_error is False, content.text
        answer: dict[str, Any] = json.loads(content.text)
        assert answer == result.structured_content
        if tool == REQUEST_AUTHORITY.name:
            REQUEST_AUTHORITY.output_model.model_validate(answer)
        return answer

    async def verb(self, tool: str, **arguments: Any) -> str:
        answer = await self.call(tool, **arguments)
        return f"{answer['next']}: {answer['reason']}"


@asynccontextmanager
async def session(folder: Path, mode: Mode, person: Person | None) -> AsyncIterator[Session]:
    async with open_test_journal(folder, clock=FakeClock(), policy=GATED) as journal:

        async def get() -> Any:
            return journal

        server = build_server(get, client=ClientInfo(connection="first"), tools=ALL_TOOLS)
        async with Client(server, mode=mode, elicitation_callback=person) as client:
            here = Session(client)
            yield here
        assert (await journal.reader.verify()).faults == ()


@BOTH_ERAS
async def test_a_person_who_permits_at_the_client_lets_the_agent_begin(tmp_path: Path, mode: Mode) -> None:
    person = Person(accepted())
    async with session(tmp_path, mode, person) as here:
        assert await here.verb("begin_operation", **PAY, payload="November") == "ask: authority_required"
        asked = await here.call("request_authority", **HERE, why="the rent is due\nPermit it: yes")
        assert (asked["next"], asked["request_state"]) == ("begin", "granted")
        assert asked["grant"]["source"] == "elicitation"
        begun = await here.call("begin_operation", **PAY, payload="November")
        assert (begun["next"], begun["grant"]) == ("perform", asked["grant"]["grant"])
    [shown] = person.shown
    lines = shown.splitlines()
    assert "action: pay.send" in lines
    assert 'args: {"amount":90}' in lines
    assert 'payload: "November"' in lines
    assert "the agent says: the rent is due\\nPermit it: yes" in lines
    assert not any(line.startswith("an administrator") for line in lines)


@BOTH_ERAS
@pytest.mark.parametrize(
    ("reply", "state"),
    [
        (ElicitResult(action="decline"), "declined"),
        (accepted(False), "declined"),
        (accepted("yes"), "declined"),
        (ElicitResult(action="accept"), "declined"),
        (ElicitResult(action="cancel"), "waiting"),
    ],
)
async def test_anything_but_a_ticked_box_permits_nothing(
    tmp_path: Path, mode: Mode, reply: ElicitResult, state: str
) -> None:
    async with session(tmp_path, mode, Person(reply)) as here:
        await here.call("begin_operation", **PAY)
        asked = await here.call("request_authority", **HERE)
        assert (asked["next"], asked["reason"]) == ("ask", "authority_required")
        assert asked["request_state"] == state
        assert await here.verb("begin_operation", **PAY) == "ask: authority_required"


@BOTH_ERAS
async def test_a_person_who_declined_is_not_shown_the_same_question_again(tmp_path: Path, mode: Mode) -> None:
    person = Person(ElicitResult(action="decline"))
    async with session(tmp_path, mode, person) as here:
        await here.call("begin_operation", **PAY)
        asked = await here.call("request_authority", **HERE)
        again = await here.call("request_authority", **HERE)
        assert (again["request"], again["request_state"]) == (asked["request"], "declined")
        assert again["how"] == f"counterfoil grant {asked['request']}"
    assert len(person.shown) == 1


@BOTH_ERAS
async def test_a_client_that_cannot_ask_leaves_the_request_waiting(tmp_path: Path, mode: Mode) -> None:
    async with session(tmp_path, mode, None) as here:
        await here.call("begin_operation", **PAY)
        asked = await here.call("request_authority", **HERE)
        assert (asked["next"], asked["request_state"]) == ("ask", "waiting")
        assert asked["how"] == f"counterfoil grant {asked['request']}"
        assert await here.verb("begin_operation", **PAY) == "ask: authority_required"


@BOTH_ERAS
async def test_where_nothing_needs_a_person_nobody_is_asked(tmp_path: Path, mode: Mode) -> None:
    person = Person()
    async with session(tmp_path, mode, person) as here:
        free = {**PAY, "action": "chat.post"}
        assert await here.verb("begin_operation", **free) == "perform: first_attempt"
        assert await here.verb("request_authority", **HERE) == "wait: lease_held_by_you"
        in_run = {"run": "other", "action": "chat.post", "target": "x"}
        assert await here.verb("request_authority", **in_run) == "begin: first_attempt"
    assert person.shown == []


async def test_an_answer_to_another_question_is_not_taken_for_an_answer_to_this_one(tmp_path: Path) -> None:
    async with session(tmp_path, "auto", Person()) as here:
        await here.call("begin_operation", **PAY)
        asking = here.client.session
        first = await asking.call_tool("request_authority", HERE, allow_input_required=True)
        other = {**HERE, "key": "pay:other"}
        await here.call("begin_operation", **{**PAY, "key": "pay:other", "target": "other"})
        again = await asking.call_tool(
            "request_authority",
            other,
            input_responses={"permit": accepted()},
            request_state=first.request_state,
            allow_input_required=True,
        )
        assert again.result_type == "input_required"
        assert await here.verb("begin_operation", **PAY) == "ask: authority_required"


async def test_an_answer_that_comes_again_permits_nothing_more(tmp_path: Path) -> None:
    last = {"run": "news/2026-11", "key": "mail:all", "action": "mail.send", "max_attempts": 1}
    here_again = {"run": last["run"], "key": last["key"]}
    async with session(tmp_path, "auto", Person()) as here:

        async def fails(attempt: int) -> None:
            refused = {"effect": "none", "error": "refused", "evidence": {"status": 422}}
            await here.call("record_failure", **here_again, attempt=attempt, **refused)
            assert await here.verb("begin_operation", **last) == "ask: attempts_exhausted"

        async def answers() -> Any:
            return await here.client.session.call_tool(
                "request_authority",
                here_again,
                input_responses={"permit": accepted()},
                request_state=first.request_state,
                allow_input_required=True,
            )

        assert await here.verb("begin_operation", **last) == "perform: first_attempt"
        await fails(1)
        first = await here.client.session.call_tool(
            "request_authority", here_again, allow_input_required=True
        )
        assert (await answers()).structured_content["request_state"] == "granted"
        assert (await answers()).structured_content["next"] == "begin"
        assert await here.verb("begin_operation", **last) == "perform: retry_after_failure"
        await fails(2)
        asked_anew = await answers()
        assert asked_anew.result_type == "input_required"
        assert asked_anew.request_state != first.request_state
        assert await here.verb("begin_operation", **last) == "ask: attempts_exhausted"


SECRET = "a secret that another user keeps"


@pytest.fixture
def operator(tmp_path: Path) -> Path:
    """A folder with an operator's file that asks for grants, and the secret's file beside it."""
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    (tmp_path / "counterfoil.toml").write_text(
        f'[[authority]]\naction = "pay.*"\nrequire = "grant"\n[operator]\nsecret_sha256 = "{digest}"\n'
    )
    (tmp_path / "secret").write_text(SECRET)
    return tmp_path


def settings(folder: Path) -> list[str]:
    return ["--journal", str(folder / "journal.db"), "--config", str(folder / "counterfoil.toml")]


@asynccontextmanager
async def server_process(folder: Path) -> AsyncIterator[Session]:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "counterfoil.server", "serve", *settings(folder)],
        env={**os.environ, "HOME": str(folder)},
    )
    async with Client(server, read_timeout_seconds=30) as client:
        yield Session(client)


def by_secret(folder: Path, asked: dict[str, Any]) -> int:
    secret = str(folder / "secret")
    words = ["grant", asked["request"], "--operator-secret-file", secret, *settings(folder)]
    return process(*words).code


def by_terminal(folder: Path, asked: dict[str, Any]) -> int:
    words = ["grant", asked["request"], *settings(folder)]
    answered = at_terminal(words, answer=asked["key"] + "\n")
    assert "You are about to permit this operation" in answered.out
    return answered.code


@pytest.mark.parametrize("act", [by_secret, by_terminal])
async def test_two_servers_refuse_until_a_person_has_acted(
    operator: Path, act: Callable[[Path, dict[str, Any]], int]
) -> None:
    async with server_process(operator) as first, server_process(operator) as second:
        assert await first.verb("begin_operation", **PAY) == "ask: authority_required"
        assert await second.verb("begin_operation", **PAY) == "ask: authority_required"
        asked = await second.call("request_authority", **HERE)
        assert asked["request_state"] == "waiting"
        assert act(operator, asked) == 0
        assert await second.verb("begin_operation", **PAY) == "perform: first_attempt"
        assert await first.verb("begin_operation", **PAY) == "wait: lease_held"
    assert process("verify", *settings(operator)).code == 0


async def test_an_agent_with_a_shell_is_not_taken_for_a_person(operator: Path) -> None:
    async with server_process(operator) as here:
        await here.call("begin_operation", **PAY)
        asked = await here.call("request_authority", **HERE)
        (operator / "wrong").write_text("a guess")
        tries = {
            ("grant", asked["request"]): 1,
            ("grant", *HERE.values()): 1,
            ("grant", "--action", "*"): 1,
            ("grant", asked["request"], "--operator-secret-file", str(operator / "wrong")): 1,
        }
        for words, code in tries.items():
            answered = process(*words, *settings(operator))
            assert (answered.code, "SECRET" in answered.out) == (code, False), answered
        assert "nobody was shown to be a person" in process("grant", *HERE.values(), *settings(operator)).err
        assert await here.verb("begin_operation", **PAY) == "ask: authority_required"
        waiting = json.loads(process("requests", "--json", *settings(operator)).out)["requests"]
        assert {line["action"] for line in waiting} == {"pay.send", "*"}


async def test_a_grant_is_taken_back_at_the_command_line(operator: Path) -> None:
    secret = ["--operator-secret-file", str(operator / "secret"), *settings(operator)]
    async with server_process(operator) as here:
        await here.call("begin_operation", **PAY)
        made = process("grant", "--action", "pay.*", "--for", "2h", "--uses", "3", "--json", *secret)
        given = json.loads(made.out)
        assert (made.code, given["granted"], given["grant"]["max_uses"]) == (0, True, 3)
        assert process("grant", "--revoke", given["grant"]["grant"], *settings(operator)).code == 1
        assert process("grant", "--revoke", given["grant"]["grant"], *secret).code == 0
        assert await here.verb("begin_operation", **PAY) == "ask: authority_expired"
        listed = process("requests", "--grants", *settings(operator)).out
        assert "no: revoked" in listed


@pytest.mark.parametrize(
    "words",
    [
        ("grant",),
        ("grant", "a", "b", "c"),
        ("grant", "--action", "x", "--for", "soon"),
        ("grant", "--action", "x", "--for", "0s"),
        ("grant", "--action", "x", "--for", "99999999d"),
        ("grant", "a", "b", "--run", "x"),
    ],
)
def test_a_grant_that_cannot_be_read_is_a_usage_error(operator: Path, words: tuple[str, ...]) -> None:
    assert process(*words, *settings(operator)).code == 2


def test_the_operators_file_may_grant_beforehand(tmp_path: Path) -> None:
    file = tmp_path / "counterfoil.toml"
    file.write_text(
        '[[grants]]\nname = "small"\naction = "pay.*"\nconstraints = ["args.amount <= 100"]\n'
        "expires_at = 2026-12-31T00:00:00Z\nmax_uses = 10\n"
    )
    [grant] = read_configuration(file).grants
    assert (grant.name, grant.action, grant.target, grant.max_uses) == ("small", "pay.*", "*", 10)
    assert grant.expires_at == 1_798_675_200_000_000
    for wrong in (
        'name = "a"',
        'action = "x"',
        'name = "a"\naction = "x"\nmax_uses = 0',
        'name = "a"\naction = "x"\nconstraints = ["amount < 1"]',
        'name = "a"\naction = "x"\nexpires_at = "tomorrow"',
        'name = "a"\naction = "x"\nrevoked = true',
        'name = "a"\naction = "x"\n[[grants]]\nname = "a"\naction = "y"',
    ):
        file.write_text(f"[[grants]]\n{wrong}\n")
        with pytest.raises(SettingsError):
            read_configuration(file)


def test_the_help_says_that_it_is_no_security_boundary() -> None:
    words = " ".join(process("grant", "--help").out.split())
    assert "it is no security boundary" in words
