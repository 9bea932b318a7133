"""Ends connections on which no request comes: uvicorn's clock for them begins with the first answer only.

uvicorn closes a connection some time after an answer, unless a byte came since. One that never sends a whole
request, or goes on with the body of a request that was refused, is kept for ever, and holds a file
descriptor that others need.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Connection"]


class Connection(H11Protocol):
    """One connection. A whole head has to come within `timeout_keep_alive` s of its opening or last answer.

    What bounds the rest of a request is the application's. Bytes alone prolong nothing.
    """

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._wait_no_more()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Take what came; the head of a request ends the waiting."""
        before: Any = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._wait_no_more()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request, which may be there already."""
        self._wait()
        super().on_response_complete()

    def _wait(self) -> None:
        self._wait_no_more()
        self._waiting = self.loop.call_later(self.timeout_keep_alive, self._give_up)

    def _wait_no_more(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
