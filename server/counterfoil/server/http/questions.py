"""Asks clients of the handshake era something within a call: on the call's stream, answered by another POST.

Which worker asked stands in the question's id, and only that one can take the answer, so questions are asked
only where the operator says that a session always reaches the same worker (`sticky`). An answer counts if it
comes from the same principal, with the same scopes, in the same session. A question is open as long as its
call is; none is asked, and open ones are given up, once the process is about to end.
"""

import re
import secrets
from collections.abc import Mapping
from typing import Any

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from msgspec import Struct, field
from starlette.requests import HTTPConnection
from starlette.responses import Response

from counterfoil.server.http.answers import no_such_question
from counterfoil.server.http.draining import Drain
from counterfoil.server.http.principals import Principal, principal_of
from counterfoil.server.http.sessions import SESSION_HEADER, HttpSession, session_of
from counterfoil.server.http.streams import AnswerStream
from counterfoil.server.logs import logger

__all__ = ["Asked", "Questions", "asked_by"]

_FORM = re.compile(r"cfq1\.(?P<worker>[A-Za-z0-9_-]{12})\.[A-Za-z0-9_-]{22}")
_LONGEST_GIVING_UP_SECONDS = 5
"""For telling the client that it need not answer any more."""


class Asked(Struct, frozen=True):
    """Who is asked, and so who may answer: a principal, in one of its sessions."""

    principal: Principal
    session: HttpSession


class _Open(Struct):
    asked: Asked
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: JSONRPCResponse | JSONRPCError | None = None


class Questions:
    """The questions of this worker that wait for an answer."""

    def __init__(self, drain: Drain) -> None:
        self._drain = drain
        self._worker = secrets.token_urlsafe(9)
        self._open: dict[str, _Open] = {}

    async def ask(
        self, stream: AnswerStream, asked: Asked, method: str, params: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Send a request to the client, and give its result.

        Raises:
            MCPError: the client answered with an error, or the process is about to end.
        """
        name = f"cfq1.{self._worker}.{secrets.token_urlsafe(16)}"
        question = JSONRPCRequest(jsonrpc="2.0", id=name, method=method, params=dict(params or {}))
        one = self._open[name] = _Open(asked)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._give_up, tasks.cancel_scope)
                await stream.say(question)
                await one.answered.wait()
                tasks.cancel_scope.cancel()
        finally:
            del self._open[name]
            if one.answer is None:
                await _withdraw(stream, name)
        if one.answer is None:
            raise MCPError(code=CONNECTION_CLOSED, message="The server is about to end")
        if isinstance(one.answer, JSONRPCError):
            error = one.answer.error
            raise MCPError(code=error.code, message=error.message, data=error.data)
        return one.answer.result

    def take(self, answer: JSONRPCResponse | JSONRPCError, asked: Asked | None) -> Response | None:
        """Take an answer, and say by a response whether it was; None where no worker asked such a thing."""
        name = answer.id if isinstance(answer.id, str) else ""
        match = _FORM.fullmatch(name)
        if match is None:
            return None
        one = self._open.get(name)
        if one is None or one.asked != asked or one.answered.is_set():
            logger.info("an answer was refused: no such question waits here")
            return no_such_question(is_elsewhere=match["worker"] != self._worker)
        one.answer = answer
        one.answered.set()
        return Response(status_code=202)

    async def _give_up(self, waiting: anyio.CancelScope) -> None:
        await self._drain.wait_until_announced()
        waiting.cancel()


def asked_by(connection: HTTPConnection) -> Asked | None:
    """Tell who is at the other end of a request; None outside any session of the handshake era."""
    session = session_of(connection.headers.get(SESSION_HEADER))
    return None if session is None else Asked(principal_of(connection), session)


async def _withdraw(stream: AnswerStream, name: str) -> None:
    """Tell the client that its answer is not waited for any more, so that it can close the form."""
    with anyio.move_on_after(_LONGEST_GIVING_UP_SECONDS, shield=True):
        await stream.say(
            JSONRPCNotification(
                jsonrpc="2.0", method="notifications/cancelled", params={"requestId": name, "reason": "over"}
            )
        )
