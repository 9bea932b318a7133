"""A gateway before several servers: whose a name is, and that one of them costs none of the others."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client._memory import InMemoryTransport

from counterfoil.server.callers import ClientInfo
from counterfoil.server.gateway.front import open_gateway
from counterfoil.server.gateway.servers import ServerSpec, Unreachable
from gateway.standing import Mail, told
from journals import open_test_journal

pytestmark = pytest.mark.anyio


def _resources(name: str) -> dict[str, Any]:
    async def listed(ctx: Any, params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[types.Resource(uri=f"mail://{name}", name=name)])

    async def read(ctx: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        if str(params.uri) != f"mail://{name}":
            raise MCPError(code=types.INVALID_PARAMS, message="no such resource")
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text=name)])

    async def prompts(ctx: Any, params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name="greet")])

    async def prompt(ctx: Any, params: Any) -> types.GetPromptResult:
        content = types.TextContent(type="text", text=f"{name} {params.name}")
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content)])

    return {
        "on_list_resources": listed,
        "on_read_resource": read,
        "on_list_prompts": prompts,
        "on_get_prompt": prompt,
    }


@asynccontextmanager
async def before(
    folder: Path, mails: dict[str, Mail | None], *, era: str = "auto", **prefixes: bool
) -> AsyncIterator[Client]:
    """Connect to a gateway before these servers; None is one that cannot be reached."""

    def transport(mail: Mail | None) -> Any:
        @asynccontextmanager
        async def absent() -> AsyncIterator[Any]:
            raise Unreachable("it is switched off")
            yield

        return lambda ended: absent() if mail is None else InMemoryTransport(mail.server())

    specs = [
        (ServerSpec(name=name, command=(name,), is_prefixed=prefixes.get(name)), transport(mail))
        for name, mail in mails.items()
    ]
    async with open_test_journal(folder) as journal:

        async def journals() -> Any:
            return journal

        client = ClientInfo(connection="gateway-1", conversation="conversation-1")
        async with (
            open_gateway(specs, journals, client=client) as gateway,
            Client(InMemoryTransport(gateway.server), mode=era, cache=None) as connected,
        ):
            yield connected


async def everything(client: Client, method: str, member: str) -> list[Any]:
    """Give all that a list holds, page by page."""
    found: list[Any] = []
    cursor = None
    while True:
        page = await getattr(client, method)(cursor=cursor)
        found += getattr(page, member)
        cursor = page.next_cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_each_server_is_reached_under_its_own_name(tmp_path: Path, era: str) -> None:
    one, two = Mail(more=_resources("one")), Mail(more=_resources("two"))
    async with before(tmp_path, {"one": one, "two": two}, era=era) as client:
        tools = [tool.name for tool in await everything(client, "list_tools", "tools")]
        result = await client.call_tool("two__send_mail", {"to": "alice"})
        again = await client.call_tool("one__send_mail", {"to": "alice"})

        assert tools == ["one__send_mail", "one__find_mail", "two__send_mail", "two__find_mail"]
        assert (len(one.sent), len(two.sent)) == (1, 1)
        assert told(result)["operation"] != told(again)["operation"]


async def test_resources_and_prompts_go_to_whose_they_are(tmp_path: Path) -> None:
    servers = {name: Mail(more=_resources(name)) for name in ("one", "two")}
    async with before(tmp_path, dict(servers)) as client:
        unlisted = await client.read_resource("mail://two")
        listed = await everything(client, "list_resources", "resources")
        read = await client.read_resource("mail://two")
        greeted = await client.get_prompt("two__greet")

        assert (unlisted.contents[0].text, read.contents[0].text) == ("two", "two")
        assert [str(one.uri) for one in listed] == ["mail://one", "mail://two"]
        assert greeted.messages[0].content.text == "two greet"
        with pytest.raises(MCPError, match="no such resource"):
            await client.read_resource("mail://three")


async def test_names_may_be_left_alone_and_the_first_of_two_counts(tmp_path: Path) -> None:
    one, two = Mail(), Mail()
    async with before(tmp_path, {"one": one, "two": two}, one=False, two=False) as client:
        await client.call_tool("send_mail", {"to": "alice"})

        assert (len(one.sent), len(two.sent)) == (1, 0)


async def test_a_server_that_is_away_hides_none_of_the_others(tmp_path: Path) -> None:
    mail = Mail()
    async with before(tmp_path, {"away": None, "mail": mail}) as client:
        tools = [tool.name for tool in await everything(client, "list_tools", "tools")]
        result = await client.call_tool("mail__send_mail", {"to": "alice"})
        away = await client.call_tool("away__send_mail", {"to": "alice"})

        assert tools == ["mail__send_mail", "mail__find_mail"]
        assert told(result)["state"] == "succeeded"
        assert away.is_error
        assert "it is switched off" in away.content[0].text


@pytest.mark.parametrize("cursor", ["x", "7:", "-1:", "0", "999999999999999999999:"])
async def test_a_cursor_that_nobody_gave_is_refused(tmp_path: Path, cursor: str) -> None:
    async with before(tmp_path, {"one": Mail(), "two": Mail()}) as client:
        with pytest.raises(MCPError, match="cursor"):
            await client.list_tools(cursor=cursor)


async def test_a_name_that_is_nobodys_is_refused(tmp_path: Path) -> None:
    async with before(tmp_path, {"one": Mail(), "two": Mail()}) as client:
        with pytest.raises(MCPError, match="no server behind the gateway has it"):
            await client.call_tool("three__send_mail", {})


async def test_a_server_is_asked_again_and_its_tools_are_told_once_it_can_be_reached(tmp_path: Path) -> None:
    mail, is_away, heard = Mail(), [True], anyio.Event()

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            heard.set()

    @asynccontextmanager
    async def sometimes() -> AsyncIterator[Any]:
        if is_away[0]:
            raise Unreachable("not yet")
        async with InMemoryTransport(mail.server()) as streams:
            yield streams

    async with open_test_journal(tmp_path) as journal:

        async def journals() -> Any:
            return journal

        def transport(ended: anyio.Event) -> Any:
            return sometimes()

        spec = ServerSpec(name="mail", command=("mail",))
        client = ClientInfo(connection="gateway-1", conversation="conversation-1")
        async with (
            open_gateway([(spec, transport)], journals, client=client) as gateway,
            Client(
                InMemoryTransport(gateway.server), mode="legacy", cache=None, message_handler=on_message
            ) as connected,
        ):
            refused = await connected.call_tool("send_mail", {"to": "alice"})
            is_away[0] = False
            result = await connected.call_tool("send_mail", {"to": "alice"})

            with anyio.fail_after(20):
                await heard.wait()
            assert refused.is_error
            assert (told(result)["attempt"], len(mail.sent)) == (1, 1)
