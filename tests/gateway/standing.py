"""A server behind a gateway, in the same process: tools that count what they do, and whatever a test adds."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp import Client
from mcp.client._memory import InMemoryTransport
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_loop
from mcp.shared.memory import create_client_server_memory_streams

from counterfoil.server.callers import ClientInfo
from counterfoil.server.gateway.front import Gateway, open_gateway
from counterfoil.server.gateway.servers import ServerSpec
from counterfoil.server.rules.reading import read_tool_rule
from counterfoil.store.domain.commands import CheckOperation, OperationRef
from counterfoil.store.domain.states import Policy
from counterfoil.store.journal import Journal
from journals import AGENT, FakeClock, open_test_journal

__all__ = ["CONVERSATION", "Handler", "Mail", "Stand", "said", "standing", "told"]

CONVERSATION = "conversation-1"

Handler = Callable[[dict[str, Any]], Awaitable[Any]]


def said(text: str, **more: Any) -> types.CallToolResult:
    """Give a result that says a text."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], **more)


def told(result: Any) -> dict[str, Any]:
    """Give what the gateway says of a result in `_meta`."""
    meta = (result.meta or {}).get("counterfoil/gateway")
    assert isinstance(meta, dict)
    return meta


@dataclass
class Mail:
    """A mail server: `sent` is what it did, `read` how often somebody looked."""

    sent: list[dict[str, Any]] = field(default_factory=list)
    read: int = 0
    handlers: dict[str, Handler] = field(default_factory=dict)
    tools: list[types.Tool] = field(
        default_factory=lambda: [
            types.Tool(
                name="send_mail",
                input_schema={"type": "object", "properties": {"to": {"type": "string"}}},
                annotations=types.ToolAnnotations(destructive_hint=True),
            ),
            types.Tool(
                name="find_mail",
                input_schema={"type": "object"},
                annotations=types.ToolAnnotations(read_only_hint=True),
            ),
        ]
    )
    more: dict[str, Any] = field(default_factory=dict)

    def server(self) -> Server[Any]:
        """Give the server, as a transport runs it."""
        return Server(
            "mail",
            version="7",
            instructions="Mails people.",
            on_list_tools=self._list,
            on_call_tool=self._call,
            **self.more,
        )

    async def _list(self, ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self.tools)

    async def _call(self, ctx: Any, params: types.CallToolRequestParams) -> Any:
        arguments = dict(params.arguments or {})
        handler = self.handlers.get(params.name)
        if handler is not None:
            return await handler(arguments)
        if params.name == "find_mail":
            self.read += 1
            found = [mail for mail in self.sent if mail.get("to") == arguments.get("to")]
            return said("found", structured_content={"items": found, "count": len(found)})
        self.sent.append(arguments)
        number = len(self.sent)
        return said(f"sent {number}", structured_content={"id": f"m-{number}"})


@dataclass
class Stand:
    """A gateway before a mail server, on a journal of its own."""

    gateway: Gateway
    mail: Mail
    journal: Journal
    clock: FakeClock

    @asynccontextmanager
    async def client(self, *, mode: str = "auto", **options: Any) -> AsyncIterator[Client]:
        """Connect as a client does: "auto" speaks 2026-07-28, "legacy" has a handshake."""
        transport = InMemoryTransport(self.gateway.server)
        async with Client(transport, mode=mode, cache=None, **options) as client:
            yield client

    async def checked(self, operation: str) -> dict[str, Any]:
        """Look at an operation as its agent does."""
        ref = OperationRef(operation=operation)
        return await self.journal.check_operation(CheckOperation(ref=ref), AGENT)


@asynccontextmanager
async def standing(
    folder: Path,
    mail: Mail | None = None,
    *,
    rules: list[dict[str, Any]] | None = None,
    clock: FakeClock | None = None,
    conversation: str | None = CONVERSATION,
    journals: Callable[[], Awaitable[Any]] | None = None,
    upstream_era: str = "any",
    policy: Policy | None = None,
    **options: Any,
) -> AsyncIterator[Stand]:
    """Stand a gateway before a mail server; the same folder gives the same journal.

    `upstream_era` "older" makes the server refuse the era without a handshake.
    """
    mail, clock = mail or Mail(), clock or FakeClock()

    def transport(ended: anyio.Event) -> Any:
        return _older(mail.server()) if upstream_era == "older" else InMemoryTransport(mail.server())

    async with open_test_journal(folder, clock=clock, policy=policy or Policy()) as journal:

        async def open_one() -> Journal:
            return journal

        async with open_gateway(
            [(ServerSpec(name="mail", command=("mail",)), transport)],
            journals or open_one,
            rules=tuple(read_tool_rule(f"tools[{at}]", rule) for at, rule in enumerate(rules or ())),
            client=ClientInfo(connection="gateway-1", conversation=conversation),
            version="0",
            **options,
        ) as gateway:
            yield Stand(gateway, mail, journal, clock)


@asynccontextmanager
async def _older(server: Server[Any]) -> AsyncIterator[Any]:
    """Serve as servers before 2026-07-28 did: after a handshake, and only then."""
    async with (
        create_client_server_memory_streams() as (client_streams, server_streams),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(partial(serve_loop, server, *server_streams, lifespan_state={}))
        yield client_streams
        tasks.cancel_scope.cancel()
