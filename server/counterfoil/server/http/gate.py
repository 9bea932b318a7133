"""Lets a request of `/mcp` in: one POST, a body within its limit, one sound message, a scope that covers it.

The body is judged as a line of stdin is (`wire.py`), and goes on to the SDK byte for byte as it was judged,
but for integers that the SDK cannot read (`exact_integers.py`).
"""

import re
from collections.abc import Sequence

import anyio
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from counterfoil.server.access import scope_of_method, scope_of_tool
from counterfoil.server.http.answers import insufficient_scope, rpc_answer, too_large
from counterfoil.server.http.draining import REQUEST_ID
from counterfoil.server.http.exact_integers import body_for_sdk
from counterfoil.server.http.principals import Principal, principal_of
from counterfoil.server.http.questions import Questions, asked_by
from counterfoil.server.http.session_seals import SessionSeals
from counterfoil.server.http.sessions import SESSION_HEADER, new_session_id
from counterfoil.server.logs import logger
from counterfoil.server.wire import Message as WireMessage
from counterfoil.server.wire import Refusal, judge_line, sdk_message
from counterfoil.tools.specification import ToolSpecification

__all__ = ["LONGEST_BODY_SECONDS", "Gate"]

LONGEST_BODY_SECONDS = 60
"""Within which a body has to be there: the largest one in that time is 70 kB a second."""

_BY_CONNECTION = ("tools/call", "resources/read")
"""The requests whose answer depends on the caller's connection; no other one need wait for a journal."""

_JSON = re.compile(r'application/json\s*(;\s*charset=("utf-8"|utf-8)\s*)?', re.IGNORECASE)


class Gate:
    """The ASGI application in front of the SDK's."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        tools: Sequence[ToolSpecification],
        longest_body: int,
        questions: Questions | None,
        seals: SessionSeals,
        metadata_url: str | None,
    ) -> None:
        self._app = app
        self._tools = {tool.name: tool for tool in tools}
        self._longest_body = longest_body
        self._questions = questions
        self._seals = seals
        self._metadata_url = metadata_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or say why not."""
        if scope["method"] != "POST":
            # There are no streams to open and no sessions to end: every request stands alone.
            await Response(status_code=405, headers={"Allow": "POST"})(scope, receive, send)
            return
        if not _is_json(Headers(scope=scope).getlist("content-type")):
            await Response(status_code=415)(scope, receive, send)
            return
        # The SDK knows no other spelling.
        MutableHeaders(scope=scope)["content-type"] = "application/json"
        try:
            with anyio.fail_after(LONGEST_BODY_SECONDS):
                body = await self._body(scope, receive)
        except TimeoutError:
            await Response(status_code=408, headers={"Connection": "close"})(scope, receive, send)
            return
        except ClientDisconnect:
            return
        if body is None:
            logger.info("a body over %d bytes was refused", self._longest_body)
            await too_large(self._longest_body)(scope, receive, send)
            return
        judged = judge_line(body)
        message = sdk_message(judged) if isinstance(judged, WireMessage) else judged
        if isinstance(message, Refusal):
            logger.info("a message was refused before it was served")
            await rpc_answer(message.answer)(scope, receive, send)
            return
        principal = principal_of(Request(scope))
        if isinstance(message, JSONRPCRequest) and message.method not in _BY_CONNECTION:
            self._seals.drop(scope)
        else:
            await self._seals.admit(scope, principal)
        if isinstance(message, JSONRPCRequest):
            if (missing := self._missing_scope(message, principal)) is not None:
                await insufficient_scope(message.id, missing, self._metadata_url)(scope, receive, send)
                return
            scope["state"][REQUEST_ID] = message.id
            if message.method == "initialize":
                session_id = await self._seals.sealed(new_session_id(message.params or {}), principal)
                # Without a journal it gets no id: each of its calls then stands alone.
                send = send if session_id is None else _naming_session(send, session_id)
        elif isinstance(message, JSONRPCResponse | JSONRPCError) and self._questions is not None:
            taken = self._questions.take(message, asked_by(Request(scope)))
            if taken is not None:
                await taken(scope, receive, send)
                return
        if isinstance(judged, WireMessage):
            body = body_for_sdk(scope, body, judged.content)
        await self._app(scope, _replayed(body, receive), send)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """Read the body; None where it is over the limit, of which no more than the limit is ever read."""
        declared = Request(scope).headers.get("content-length", "")
        if declared.isascii() and declared.isdigit() and int(declared[:20]) > self._longest_body:
            return None
        body = bytearray()
        async for chunk in Request(scope, receive).stream():
            if len(body) + len(chunk) > self._longest_body:
                return None
            body += chunk
        return bytes(body)

    def _missing_scope(self, message: JSONRPCRequest, principal: Principal) -> str | None:
        """Give the scope that the client should go and get, where it can.

        Only OAuth has a way to; whoever brings another token reads the refusal as the answer of the tool.
        """
        if not principal.is_from_oauth:
            return None
        name = (message.params or {}).get("name")
        needed = scope_of_method(message.method)
        if message.method == "tools/call" and isinstance(name, str) and name in self._tools:
            needed = scope_of_tool(self._tools[name])
        return needed if needed is not None and needed not in principal.scopes else None


def _is_json(content_types: Sequence[str]) -> bool:
    """Tell whether a body says that it is what it is judged as: JSON in UTF-8."""
    return len(content_types) == 1 and _JSON.fullmatch(content_types[0].strip()) is not None


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Give the body anew to whoever reads the request next."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _naming_session(send: Send, session_id: str) -> Send:
    """Add the session's id to an answer that is none of a refusal."""

    async def send_named(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 200:
            MutableHeaders(raw=message["headers"])[SESSION_HEADER] = session_id
        await send(message)

    return send_named
