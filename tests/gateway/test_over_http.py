"""A server behind the gateway that is reached over Streamable HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
import uvicorn
from mcp import Client, MCPError
from mcp.client._memory import InMemoryTransport

from counterfoil.server.callers import ClientInfo
from counterfoil.server.gateway.front import open_gateway
from counterfoil.server.gateway.servers import ServerSpec
from counterfoil.server.gateway.transports import transport_of
from gateway.standing import Mail, said, told
from journals import open_test_journal

pytestmark = pytest.mark.anyio

WAIT_SECONDS = 20


@asynccontextmanager
async def serving(mail: Mail, seen: list[dict[str, str]], *, port: int = 0) -> AsyncIterator[int]:
    """Serve a mail server over HTTP, and give its port."""
    app = mail.server().streamable_http_app()

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await app(scope, receive, send)

    config = uvicorn.Config(noting, host="127.0.0.1", port=port, log_level="error", lifespan="on")
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve)
        with anyio.fail_after(WAIT_SECONDS):
            while not server.started:  # noqa: ASYNC110 - uvicorn tells nobody
                await anyio.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
        server.should_exit = True
        server.force_exit = True


@asynccontextmanager
async def through_gateway(folder: Path, port: int, era: str) -> AsyncIterator[Client]:
    spec = ServerSpec(
        name="mail",
        url=f"http://127.0.0.1:{port}/mcp",
        headers={"Authorization": "Bearer {env.MAIL_TOKEN}"},
        start_seconds=WAIT_SECONDS,
    )
    async with open_test_journal(folder) as journal:

        async def journals() -> Any:
            return journal

        client = ClientInfo(connection="gateway-1", conversation="conversation-1")
        async with (
            open_gateway([(spec, transport_of(spec))], journals, client=client) as gateway,
            Client(InMemoryTransport(gateway.server), mode=era, cache=None) as connected,
        ):
            yield connected


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_call_goes_over_http_with_the_configured_headers(
    tmp_path: Path, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAIL_TOKEN", "t0ken")
    mail, seen = Mail(), list[dict[str, str]]()
    async with serving(mail, seen) as port, through_gateway(tmp_path, port, era) as client:
        first = await client.call_tool("send_mail", {"to": "alice"})
        again = await client.call_tool("send_mail", {"to": "alice"})
        found = await client.call_tool("find_mail", {"to": "alice"})

    assert (told(first)["state"], told(again)["replayed"]) == ("succeeded", True)
    assert found.structured_content["count"] == 1
    assert {headers["authorization"] for headers in seen} == {"Bearer t0ken"}


async def test_a_call_takes_as_long_as_its_tool_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_TOKEN", "t0ken")
    monkeypatch.setattr("mcp.shared._httpx_utils.MCP_DEFAULT_SSE_READ_TIMEOUT", 0.5)

    async def works(arguments: dict[str, Any]) -> Any:
        await anyio.sleep(1)
        return said("sent")

    mail = Mail(handlers={"send_mail": works})
    async with serving(mail, []) as port, through_gateway(tmp_path, port, "auto") as client:
        result = await client.call_tool("send_mail", {"to": "alice"})

    assert (result.content[0].text, told(result)["state"]) == ("sent", "succeeded")


async def test_a_server_that_is_away_costs_its_calls_and_they_can_be_made_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAIL_TOKEN", "t0ken")
    mail, seen = Mail(), list[dict[str, str]]()
    async with serving(mail, seen) as port:
        pass
    async with through_gateway(tmp_path, port, "auto") as client:
        refused = await client.call_tool("send_mail", {"to": "alice"})
        async with serving(mail, seen, port=port):
            result = await client.call_tool("send_mail", {"to": "alice"})

    assert refused.is_error
    assert "could not be reached" in refused.content[0].text
    assert (told(result)["attempt"], len(mail.sent)) == (1, 1)


async def test_a_header_whose_variable_is_not_set_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MAIL_TOKEN", raising=False)
    async with through_gateway(tmp_path, 9, "auto") as client:
        refused = await client.call_tool("send_mail", {"to": "alice"})

    assert "the environment variable MAIL_TOKEN is not set" in refused.content[0].text


async def test_a_session_that_the_server_no_longer_knows_is_made_anew(tmp_path: Path) -> None:
    opened: list[int] = []

    async def forget(arguments: dict[str, Any]) -> Any:
        raise MCPError(code=types.INVALID_REQUEST, message="Session terminated")

    mail = Mail(handlers={"find_mail": forget})

    def transport(ended: anyio.Event) -> Any:
        opened.append(1)
        return InMemoryTransport(mail.server())

    async with open_test_journal(tmp_path) as journal:

        async def journals() -> Any:
            return journal

        spec = ServerSpec(name="mail", url="http://127.0.0.1:9/mcp")
        client = ClientInfo(connection="gateway-1", conversation="conversation-1")
        async with (
            open_gateway([(spec, transport)], journals, client=client) as gateway,
            Client(InMemoryTransport(gateway.server), cache=None) as connected,
        ):
            with pytest.raises(MCPError, match="Session terminated"):
                await connected.call_tool("find_mail", {})
            mail.handlers.clear()
            found = await connected.call_tool("find_mail", {})

    assert (found.structured_content["count"], len(opened)) == (0, 2)
