"""Counts the requests under way, and knows whether the process is about to end."""

import anyio
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Drain"]


class Drain:
    """How far a graceful stop is: announced once, over when nothing is under way any more."""

    def __init__(self) -> None:
        self._announced = anyio.Event()
        self._under_way = 0

    @property
    def is_announced(self) -> bool:
        """Tell whether the process is ending: it still serves, and wants no new callers."""
        return self._announced.is_set()

    @property
    def under_way(self) -> int:
        """How many requests are being served now."""
        return self._under_way

    def announce(self) -> None:
        """Say that the process is ending."""
        self._announced.set()

    async def wait_until_announced(self) -> None:
        """Wait for the end to be announced."""
        await self._announced.wait()

    def counting(self, app: ASGIApp) -> ASGIApp:
        """Give an application that counts what it serves.

        Once the end is announced each answer asks for its connection to be closed, so that no proxy sends
        another request down one that is about to go.
        """

        async def counted(scope: Scope, receive: Receive, send: Send) -> None:
            async def send_last(message: Message) -> None:
                if message["type"] == "http.response.start" and self.is_announced:
                    MutableHeaders(raw=message["headers"])["connection"] = "close"
                await send(message)

            self._under_way += 1
            try:
                await app(scope, receive, send_last)
            finally:
                self._under_way -= 1

        return counted
