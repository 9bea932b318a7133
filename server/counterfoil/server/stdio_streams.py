"""The two directions of a stdio connection, as the SDK's loop uses them.

Whoever waits for a message reads and judges it, and whoever answers writes: a task and a queue between them
for each direction would cost more turns of the event loop than there is work in a message.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from counterfoil.server.lines import ClientGone, LineReader, LineWriter
from counterfoil.server.logs import logger
from counterfoil.server.wire import Message, Refusal, judge_line, sdk_message
from counterfoil.tools.text import written

__all__ = ["ANSWERING_SECONDS", "Answers", "Incoming", "MessageStream", "Requests", "Unanswered"]

ANSWERING_SECONDS = 0.8
"""How long calls under way may still answer once stdin has ended; the process is gone within two."""


class Unanswered:
    """The requests that were passed on and not answered yet."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._none: anyio.Event | None = None
        """Made for whoever waits, which is nobody before the end."""

    def add(self, request_id: str | int) -> None:
        self._ids.add(str(request_id))

    def discard(self, request_id: Any) -> None:
        self._ids.discard(str(request_id))
        if self._none is not None and not self._ids:
            self._none.set()

    async def wait_until_none(self) -> None:
        if self._ids:
            self._none = anyio.Event()
            await self._none.wait()


class MessageStream:
    """What both directions have in common: nothing is closed, since the descriptors are somebody else's."""

    async def aclose(self) -> None:
        """Do nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


class Incoming(MessageStream):
    """Messages that come in, one by one; `__anext__` is what differs."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        raise NotImplementedError

    async def receive(self) -> SessionMessage | Exception:
        """Give the next message.

        Raises:
            EndOfStream: there is none any more.
        """
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None


class Answers(MessageStream):
    """What is said to the client. `on_first` is called once the first message is written."""

    def __init__(self, writer: LineWriter, unanswered: Unanswered, *, on_first: Callable[[], None]) -> None:
        self._writer = writer
        self._unanswered = unanswered
        self._on_first: Callable[[], None] | None = on_first

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message.

        Raises:
            BrokenResourceError: nobody reads any more.
        """
        try:
            await self._writer.write_line(_encoded(item))
        except ClientGone:
            raise anyio.BrokenResourceError from None
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self._unanswered.discard(item.message.id)
        if self._on_first is not None:
            on_first, self._on_first = self._on_first, None
            on_first()


class Requests(Incoming):
    """What the client says, each message judged before the SDK sees it; what is not sound is answered here.

    `on_end` is called at the end of stdin. The stream then stays open for as long as calls that are under way
    may still answer, since its end cancels them. `is_passed_on` says that another server gets what comes.
    """

    def __init__(
        self,
        reader: LineReader,
        writer: LineWriter,
        unanswered: Unanswered,
        *,
        on_end: Callable[[], None],
        is_passed_on: bool,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._unanswered = unanswered
        self._on_end = on_end
        self._is_passed_on = is_passed_on
        self._is_gone = False

    async def __anext__(self) -> SessionMessage:
        while not self._is_gone and (line := await self._reader.next_line()) is not None:
            is_passed_on = self._is_passed_on
            judged = judge_line(line, is_passed_on=is_passed_on) if isinstance(line, bytes) else line
            message = sdk_message(judged) if isinstance(judged, Message) else judged
            if isinstance(message, Refusal):
                await self._refuse(message)
                continue
            if isinstance(message, JSONRPCRequest):
                self._unanswered.add(message.id)
            elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
                # A request that its caller cancelled is never answered.
                self._unanswered.discard((message.params or {}).get("requestId"))
            return SessionMessage(message)
        self._on_end()
        with anyio.move_on_after(ANSWERING_SECONDS):
            await self._unanswered.wait_until_none()
        raise StopAsyncIteration

    async def _refuse(self, refusal: Refusal) -> None:
        if refusal.answer is None:
            return
        logger.info("a message was refused before it was served")
        try:
            await self._writer.write_line(written(refusal.answer).encode())
        except ClientGone:
            self._is_gone = True


def _encoded(message: SessionMessage) -> bytes:
    """Give a message as it goes on the wire; one that cannot be written becomes an error with its id."""
    try:
        return message.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except ValueError as error:
        logger.error("an answer could not be written: %s", type(error).__name__)
        request_id = getattr(message.message, "id", None)
        problem = {"code": -32603, "message": "Internal error: the answer could not be written; ask again"}
        return written({"jsonrpc": "2.0", "id": request_id, "error": problem}).encode()
