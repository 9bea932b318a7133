"""The id of a session: its client's alone, and worth nothing without the journal's seal."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.types import Scope

from counterfoil.server.http.principals import Principal
from counterfoil.server.http.session_seals import SessionSeals
from counterfoil.server.http.sessions import SESSION_HEADER, new_session_id, session_of
from counterfoil.store.errors import JournalUnavailable
from http_servers import HttpServer
from stdio_process import call

pytestmark = pytest.mark.anyio

EFFECT = {"run": "weekly-report/2026-W48", "key": "email:alice", "action": "mail.send", "target": "alice"}
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}
NEVER_SENT = {"attempt": 1, "effect": "none", "error": "refused", "evidence": {"status": 400}}


def principal(name: str, namespace: str = "team") -> Principal:
    """Give somebody who acts in a namespace."""
    return Principal(name=name, namespace=namespace, scopes=frozenset())


class Keyed:
    """A journal that vouches by name, which no other journal's word equals."""

    def __init__(self, name: str) -> None:
        self.name = name

    def vouch(self, text: str) -> str:
        """Give the seal."""
        return f"{hash((self.name, text)) & (2**256 - 1):064x}"


async def keyed(namespace: str) -> Keyed:
    """Give the journal of a namespace."""
    return Keyed(namespace)


async def gone(namespace: str) -> Keyed:
    """Fail as a journal that is not there."""
    raise JournalUnavailable("gone", fix="wait")


async def admitted(seals: SessionSeals, who: Principal, *given: str) -> list[str]:
    """Give what is left of a request's ids once they were looked at."""
    scope: Scope = {"type": "http", "headers": [(SESSION_HEADER.encode(), one.encode()) for one in given]}
    await seals.admit(scope, who)
    return Headers(scope=scope).getlist(SESSION_HEADER)


async def test_an_id_counts_for_the_principal_that_it_was_given_to_and_as_it_was_given() -> None:
    seals = SessionSeals(keyed)
    mine = principal("token:mine")
    bare = new_session_id(HELLO)
    sealed = await seals.sealed(bare, mine)
    assert sealed is not None
    assert session_of(bare) is not None
    assert await admitted(seals, mine, sealed) == [bare]
    assert await admitted(seals, principal("token:theirs"), sealed) == []
    assert await admitted(seals, principal("token:mine", "other"), sealed) == []
    for wrong in (bare, f"{bare}.{'0' * 64}", sealed[:-1], f"{sealed[4:]}", sealed.upper(), "", "x" * 9000):
        assert await admitted(seals, mine, wrong) == []
    assert await admitted(seals, mine, sealed, sealed) == []
    assert await admitted(seals, mine) == []


async def test_no_id_is_given_or_counts_while_no_journal_can_vouch_for_it() -> None:
    sealed = await SessionSeals(keyed).sealed(new_session_id(HELLO), principal("mine"))
    assert sealed is not None
    assert await SessionSeals(gone).sealed(new_session_id(HELLO), principal("mine")) is None
    assert await admitted(SessionSeals(gone), principal("mine"), sealed) == []


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """Give a server that asks for no token, so that all callers are one principal."""
    with HttpServer(tmp_path_factory.mktemp("sessions") / "journal.db") as running:
        yield running


def opened(server: HttpServer) -> dict[str, str]:
    """Give the headers of a new session."""
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}
    return within(server.post(hello).headers[SESSION_HEADER])


def within(session_id: str) -> dict[str, str]:
    """Give the headers of a session."""
    return {"mcp_session_id": session_id, "mcp_protocol_version": "2025-06-18"}


def structured(server: HttpServer, body: Any, headers: dict[str, str]) -> dict[str, Any]:
    """Give the answer to a call."""
    content: dict[str, Any] = server.post(body, **headers).json()["result"]["structuredContent"]
    return content


async def test_what_an_answer_shows_of_a_holder_makes_nobody_the_holder(server: HttpServer) -> None:
    holders, others = opened(server), opened(server)
    assert structured(server, call(1, **EFFECT), holders)["next"] == "perform"
    where = {"run": EFFECT["run"], "key": EFFECT["key"]}
    history = server.post(call(2, "check_operation", **where, detail="full"), **others)
    session_id = holders["mcp_session_id"]
    _, name, client, seal = session_id.split(".")
    for part in (name, client, seal):
        assert part not in history.text
    [attempt] = history.json()["result"]["structuredContent"]["attempts"]
    shown = attempt["connection"].removeprefix("http-")
    for forged in (f"cf1.{shown[:22]}.{client}", f"cf1.{name}.{client}", f"cf1.{name}.{client}.{'0' * 64}"):
        told = structured(server, call(3, "record_failure", **where, **NEVER_SENT), within(forged))
        assert (told["state"], told["next"]) != ("failed", "perform")
        assert structured(server, call(4, **EFFECT), others)["reason"] == "lease_held"
    ended = structured(server, call(5, "record_failure", **where, **NEVER_SENT), holders)
    assert ended["state"] == "failed"


async def test_a_client_that_is_greeted_without_a_journal_gets_no_id_and_an_answer(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"no database at all" * 1000)
    with HttpServer(tmp_path / "journal.db") as broken:
        answer = broken.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO})
        assert answer.json()["result"]["serverInfo"]["name"] == "counterfoil"
        assert SESSION_HEADER not in answer.headers
