"""One server behind the gateway: connected when it is needed, started again after it died, asked in raw JSON.

Requests and results pass as they are on the wire, so that nothing which the SDK's models do not know is lost;
the SDK still checks results against the revision that was agreed upon with the server.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import cache
from typing import Any

import anyio
import mcp_types as types
from anyio.abc import TaskGroup, TaskStatus
from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import Struct
from pydantic import TypeAdapter, ValidationError

from counterfoil.server.gateway.pipes import UNREADABLE
from counterfoil.server.gateway.servers import ServerSpec, Unreachable
from counterfoil.server.gateway.transports import Opened, Transport
from counterfoil.server.logs import logger

__all__ = ["BadAnswer", "Introduction", "Questions", "Upstream"]

_RAW: TypeAdapter[Any] = TypeAdapter(Any)
"""Takes a result as it is. The SDK declares models only, and does not mind."""


@cache
def _shape(method: str) -> TypeAdapter[Any] | None:
    model: Any = methods.MONOLITH_RESULTS.get(method)
    return None if model is None else TypeAdapter(model)


Notified = Callable[["Upstream", types.ServerNotification], Coroutine[Any, Any, None]]


class BadAnswer(Exception):
    """A result that does not fit the protocol: what the server did is not known."""


class Questions(Struct, frozen=True, kw_only=True):
    """How a server's own requests reach the client; None where the client does not take such."""

    elicit: Callable[[types.ElicitRequestParams], Awaitable[types.ElicitResult | types.ErrorData]] | None = (
        None
    )
    sample: Callable[[types.CreateMessageRequestParams], Awaitable[Any]] | None = None
    sampling: types.SamplingCapability | None = None
    list_roots: Callable[[], Awaitable[types.ListRootsResult | types.ErrorData]] | None = None


class Introduction(Struct, frozen=True, kw_only=True):
    """What a server said of itself when the connection was made."""

    capabilities: types.ServerCapabilities
    info: types.Implementation | None
    instructions: str | None


class _RawRequest(types.Request[dict[str, Any], str]):
    """A request that is sent as it is."""


class Upstream:
    """The connection to one server. Everything is reached through `request`, which connects where needed."""

    def __init__(
        self,
        spec: ServerSpec,
        transport: Transport,
        tasks: TaskGroup,
        *,
        on_notification: Notified,
        version: str,
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self._transport = transport
        self._tasks = tasks
        self._on_notification = on_notification
        self._version = version
        self._lock = anyio.Lock()
        self._client: Client | None = None
        self._ended = anyio.Event()
        self._closing = anyio.Event()
        self.questions = Questions()
        self.log_level: str | None = None
        self.generation = 0
        self._in_flight = 0
        self._is_suspect = False
        self._was_away = False
        self.introduction: Introduction | None = None
        self._wanted: set[str] = set()
        self._wanted_changed = anyio.Event()

    async def connected(self) -> Client:
        """Give the open connection, making it where there is none.

        Raises:
            Unreachable: the server cannot be started or reached, or does not speak the protocol.
        """
        if self._is_suspect and self._in_flight == 0:
            self._is_suspect = False
            self._ended.set()
        if self._client is not None and not self._ended.is_set():
            return self._client
        async with self._lock:
            if self._client is not None and not self._ended.is_set():
                return self._client
            self._client, self._ended = None, anyio.Event()
            try:
                with anyio.fail_after(self.spec.start_seconds):
                    client: Client = await self._tasks.start(self._keep, self._ended)
            except TimeoutError:
                self._was_away = True
                raise Unreachable(f"it did not answer within {self.spec.start_seconds:g} s") from None
            except Unreachable:
                self._was_away = True
                raise
            except Exception as error:
                self._was_away = True
                logger.info("%s could not be reached: %s", self.name, _kind(error))
                raise Unreachable(f"it could not be started or reached ({_kind(error)})") from None
            self._client = client
            self.generation += 1
            self.log_level = None
            if self._was_away or self.generation > 1:
                # What the client knows of the server is of another process of it, or nothing.
                self._was_away = False
                self._tasks.start_soon(self._on_notification, self, types.ToolListChangedNotification())
            self.introduction = Introduction(
                capabilities=client.server_capabilities,
                info=client.server_info,
                instructions=client.instructions,
            )
            return client

    async def _keep(
        self, ended: anyio.Event, *, task_status: TaskStatus[Client] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Hold one connection from its opening to its end, in a task of its own."""
        is_open = False
        try:
            async with self._new_client(self._transport(ended)) as client:
                is_open = True
                task_status.started(client)
                async with anyio.create_task_group() as waiting:
                    for event in (ended, self._closing):
                        waiting.start_soon(_cancel_after, event, waiting.cancel_scope)
                    if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                        waiting.start_soon(self._listen, client)
        except Exception as error:
            if not is_open:
                raise
            logger.info("the connection to %s did not end in order: %s", self.name, _kind(error))
        finally:
            ended.set()

    def _new_client(self, transport: Opened) -> Client:
        questions = self.questions

        async def elicit(context: ClientRequestContext, params: types.ElicitRequestParams) -> Any:
            return _refused() if questions.elicit is None else await questions.elicit(params)

        async def sample(context: ClientRequestContext, params: types.CreateMessageRequestParams) -> Any:
            return _refused() if questions.sample is None else await questions.sample(params)

        async def roots(context: ClientRequestContext) -> Any:
            return _refused() if questions.list_roots is None else await questions.list_roots()

        async def notified(message: Any) -> None:
            if not isinstance(message, Exception):
                await self._on_notification(self, message)

        return Client(
            transport,
            cache=None,
            client_info=types.Implementation(name="counterfoil-gateway", version=self._version or "0"),
            message_handler=notified,
            elicitation_callback=None if questions.elicit is None else elicit,
            sampling_callback=None if questions.sample is None else sample,
            sampling_capabilities=questions.sampling,
            list_roots_callback=None if questions.list_roots is None else roots,
        )

    def listen_to(self, uri: str, *, is_wanted: bool) -> None:
        """Let a server of the newer era tell of changes of a resource, or no longer."""
        (self._wanted.add if is_wanted else self._wanted.discard)(uri)
        self._wanted_changed.set()

    async def _listen(self, client: Client) -> None:
        """Hold the stream of a server's news open; its events reach `on_notification` like all others."""
        told = client.server_capabilities
        kinds = {
            "tools_list_changed": told.tools is not None and told.tools.list_changed is True,
            "prompts_list_changed": told.prompts is not None and told.prompts.list_changed is True,
            "resources_list_changed": told.resources is not None and told.resources.list_changed is True,
        }
        while True:
            self._wanted_changed, wanted = anyio.Event(), sorted(self._wanted)
            if any(kinds.values()) or wanted:
                async with anyio.create_task_group() as stream:
                    stream.start_soon(_cancel_after, self._wanted_changed, stream.cancel_scope)
                    try:
                        async with client.listen(**kinds, resource_subscriptions=wanted) as subscription:
                            async for _ in subscription:
                                pass
                    except (MCPError, SubscriptionLost) as error:
                        logger.info("%s tells no news: %s", self.name, _kind(error))
            await self._wanted_changed.wait()

    async def close(self) -> None:
        """Begin to end the connection; the program gets the end of its stdin, and is killed if it stays."""
        self._closing.set()

    async def protocol_version(self) -> str:
        """Give the revision that was agreed upon with the server.

        Raises:
            Unreachable: there is no connection.
        """
        return (await self.connected()).protocol_version

    async def is_modern(self) -> bool:
        """Tell whether the server speaks the revisions without a handshake."""
        return await self.protocol_version() in MODERN_PROTOCOL_VERSIONS

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        on_progress: ProgressFnT | None = None,
        timeout_seconds: float | None = None,
    ) -> dict[str, Any]:
        """Send a request and give its result as it came. Cancelled, the server is told.

        Raises:
            MCPError: the server's error, a time-out (REQUEST_TIMEOUT), or the connection's end
                (CONNECTION_CLOSED).
            Unreachable: nothing was sent.
            BadAnswer: a result that does not fit the protocol, or an answer that cannot be read.
        """
        client = await self.connected()
        self._in_flight += 1
        try:
            result: dict[str, Any] = await client.session.send_request(
                _RawRequest.model_construct(method=method, params=dict(params or {})),
                _RAW,
                request_read_timeout_seconds=timeout_seconds,
                progress_callback=on_progress,
            )
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS and (shape := _shape(method)) is not None:
                # The SDK's own check lets a result of another shape pass where extensions may have theirs.
                shape.validate_python(result, by_name=False)
            return result
        except MCPError as error:
            if error.error.data is UNREADABLE:
                raise BadAnswer(f"the answer of {self.name} cannot be read") from None
            # Over HTTP a server that was started again knows nothing of the session: the next call makes one.
            self._is_suspect |= self.spec.url is not None and error.error.code == types.INVALID_REQUEST
            raise
        except (ValidationError, ValueError, RuntimeError) as error:
            logger.info("%s answered %s against the protocol: %s", self.name, method, _kind(error))
            raise BadAnswer(f"the answer of {self.name} does not fit the protocol") from None
        finally:
            self._in_flight -= 1

    async def notify(self, notification: types.ClientNotification) -> None:
        """Send a notification, if a connection stands."""
        if self._client is not None and not self._ended.is_set():
            await self._client.session.send_notification(notification)


async def _cancel_after(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def _refused() -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message="The client does not take such requests")


def _kind(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MCPError):
        return f"MCPError {error.error.code}"
    return type(error).__name__
