"""Knows the requests under way and whether the process is about to end, and cuts off what outlasts that."""

import anyio
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from counterfoil.server.http.answers import cut_off
from counterfoil.server.logs import logger

__all__ = ["REQUEST_ID", "Drain"]

REQUEST_ID = "request id"
"""Under which the state of a request has the id of its message, once that is known."""


class Drain:
    """How far a graceful stop is: announced once, over when nothing is under way any more."""

    def __init__(self) -> None:
        self._announced = anyio.Event()
        self._under_way: set[anyio.CancelScope] = set()

    @property
    def is_announced(self) -> bool:
        """Tell whether the process is ending: it still serves, and wants no new callers."""
        return self._announced.is_set()

    @property
    def under_way(self) -> int:
        """How many requests are being served now."""
        return len(self._under_way)

    def announce(self) -> None:
        """Say that the process is ending."""
        self._announced.set()

    def cut_off(self) -> None:
        """End what is still under way: whoever waits for it is told that nobody knows what became of it."""
        if self._under_way:
            logger.warning("%d requests were cut off", len(self._under_way))
        for serving in tuple(self._under_way):
            serving.cancel()

    async def wait_until_announced(self) -> None:
        """Wait for the end to be announced."""
        await self._announced.wait()

    def counting(self, app: ASGIApp) -> ASGIApp:
        """Give an application that counts what it serves.

        Once the end is announced each answer asks for its connection to be closed, so that no proxy sends
        another request down one that is about to go.
        """

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            state = scope.setdefault("state", {})
            is_answered = False

            async def send_last(message: Message) -> None:
                nonlocal is_answered
                is_answered = True
                if message["type"] == "http.response.start" and self.is_announced:
                    MutableHeaders(raw=message["headers"])["connection"] = "close"
                await send(message)

            serving = anyio.CancelScope()
            self._under_way.add(serving)
            try:
                with serving:
                    await app(scope, receive, send_last)
                if serving.cancelled_caught and not is_answered:
                    await cut_off(state.get(REQUEST_ID))(scope, receive, send_last)
            finally:
                self._under_way.discard(serving)

        return counted
