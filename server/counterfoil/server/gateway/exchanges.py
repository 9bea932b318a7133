"""Holds a call open across the rounds of a client of 2026-07-28 while its server still thinks it is one call.

A server of the older era asks its client in the middle of a call. A client of the newer one is asked by the
result of the call, and calls again with what its user said. So the call goes on in a task of its own, and the
client's calls come and go beside it.
"""

import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
from anyio.abc import TaskGroup

__all__ = ["Exchange", "Exchanges"]

_ANSWERING_SECONDS = 600
"""How long a person may take; the server's call is then told that nobody answered."""
_MOST_HELD = 100
_QUESTION = "question"


class Exchange:
    """One call under way, and the question that it waits for, if any."""

    def __init__(self) -> None:
        self._one_at_a_time = anyio.Lock()
        self._changed = anyio.Event()
        self._answered = anyio.Event()
        self._answer: Any = None
        self._failure: BaseException | None = None
        self._result: dict[str, Any] | None = None
        self.question: dict[str, Any] | None = None
        self.scope = anyio.CancelScope()

    async def ask(self, request: types.InputRequest) -> Any:
        """Put the server's request to the client, and give its answer as raw JSON; None where none came."""
        async with self._one_at_a_time:
            self._answered, self._answer = anyio.Event(), None
            self.question = request.model_dump(by_alias=True, mode="json", exclude_none=True)
            self._changed.set()
            with anyio.move_on_after(_ANSWERING_SECONDS):
                await self._answered.wait()
            self.question = None
            return self._answer

    def answer(self, value: Any) -> None:
        """Hand the client's answer to the server's request."""
        self._changed, self._answer = anyio.Event(), value
        self._answered.set()

    async def run(self, work: Callable[["Exchange"], Awaitable[dict[str, Any]]]) -> None:
        """Do the work to its end and keep what it came to."""
        with self.scope:
            try:
                self._result = await work(self)
            except Exception as error:
                self._failure = error
        self._changed.set()

    async def outcome(self) -> dict[str, Any] | None:
        """Wait until the work is done or a question stands; give the result, or None for a question.

        Raises:
            Exception: what the work raised.
        """
        await self._changed.wait()
        if self._failure is not None:
            raise self._failure
        return self._result


class Exchanges:
    """The calls of one client that are under way in this manner."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._held: dict[str, Exchange] = {}

    async def carry_on(
        self,
        params: dict[str, Any],
        work: Callable[[Exchange], Awaitable[dict[str, Any]]],
    ) -> dict[str, Any]:
        """Begin a call, or go on with the one whose state the client brings; give what it came to."""
        state = params.get("requestState")
        exchange = self._held.pop(state, None) if isinstance(state, str) else None
        if exchange is None:
            exchange = Exchange()
            self._tasks.start_soon(exchange.run, work)
        else:
            responses = params.get("inputResponses")
            exchange.answer(responses.get(_QUESTION) if isinstance(responses, dict) else None)
        try:
            result = await exchange.outcome()
        except anyio.get_cancelled_exc_class():
            exchange.scope.cancel()
            raise
        if result is not None:
            return result
        if exchange.question is None or len(self._held) >= _MOST_HELD:
            exchange.scope.cancel()
            raise anyio.BrokenResourceError
        token = secrets.token_urlsafe(24)
        self._held[token] = exchange
        return {
            "resultType": "input_required",
            "inputRequests": {_QUESTION: exchange.question},
            "requestState": token,
        }
