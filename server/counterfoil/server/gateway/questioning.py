"""Takes what a server asks (a form, a sample, the roots) to the client, whatever era each of them is of."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.shared.message import ServerMessageMetadata
from pydantic import BaseModel, TypeAdapter, ValidationError

from counterfoil.server.gateway.eras import is_modern
from counterfoil.server.gateway.exchanges import Exchange
from counterfoil.server.gateway.holding import Holds, Lapsed
from counterfoil.server.gateway.upstream import Questions, Upstream

__all__ = ["Questioning"]

Context = ServerRequestContext[Any, Any]

_MOST_ROUNDS = 10
_REQUESTS: TypeAdapter[types.InputRequest] = TypeAdapter(types.InputRequest)
_ELICITED, _ROOTS = types.ElicitResult, types.ListRootsResult


class Questioning:
    """Whom a server's questions go to: the client's request that the server works on."""

    def __init__(self) -> None:
        self._capabilities: types.ClientCapabilities | None = None
        self._under_way: dict[str, list[tuple[Context, Exchange | None, Holds | None]]] = {}

    @property
    def takes_questions(self) -> bool:
        """True where the client takes any request of a server."""
        known = self._capabilities
        return known is not None and any((known.elicitation, known.sampling, known.roots))

    def meet(self, ctx: Context, upstreams: Iterable[Upstream]) -> None:
        """Take note of what the client takes, for connections that are made from now on."""
        found = ctx.session.client_capabilities
        if ctx.method == "initialize":
            found = _capabilities((ctx.params or {}).get("capabilities"))
        if found is None or self._capabilities is not None:
            return
        self._capabilities = found
        for upstream in upstreams:
            upstream.questions = self._questions(upstream, found)

    def _questions(self, upstream: Upstream, takes: types.ClientCapabilities) -> Questions:
        async def elicit(params: types.ElicitRequestParams) -> Any:
            return await self._asked(upstream, types.ElicitRequest(params=params), _ELICITED)

        async def sample(params: types.CreateMessageRequestParams) -> Any:
            wanted = types.CreateMessageResultWithTools if params.tools else types.CreateMessageResult
            return await self._asked(upstream, types.CreateMessageRequest(params=params), wanted)

        async def roots() -> Any:
            return await self._asked(upstream, types.ListRootsRequest(), _ROOTS)

        return Questions(
            elicit=None if takes.elicitation is None else elicit,
            sample=None if takes.sampling is None else sample,
            sampling=takes.sampling,
            list_roots=None if takes.roots is None else roots,
        )

    @contextmanager
    def under_way(
        self, ctx: Context, upstream: Upstream, exchange: Exchange | None, holds: Holds | None = None
    ) -> Iterator[None]:
        """Let a server's questions reach the request that it works on meanwhile."""
        requests, one = self._under_way.setdefault(upstream.name, []), (ctx, exchange, holds)
        requests.append(one)
        try:
            yield
        finally:
            requests.remove(one)

    async def _asked(self, upstream: Upstream, request: types.InputRequest, wanted: type[BaseModel]) -> Any:
        """Put a server's question to the client.

        A server says in no era which call it asks for. In the newer one the answer must go to a call of the
        client; where several are under way it cannot be told which, and the server is told so. For the same
        reason an answer goes to the server only while the permission of each call under way holds.
        """
        requests = self._under_way.get(upstream.name, [])
        if not requests:
            return _unasked("no call is under way")
        ctx, exchange, _ = requests[-1]
        if not is_modern(ctx.protocol_version):
            answer = await _ask_now(ctx, request, wanted)
        elif exchange is None or len(requests) > 1:
            return _unasked("it cannot be told which call the question belongs to")
        else:
            answer = _answer(await exchange.ask(request), wanted)
        for _, _, holds in tuple(requests):
            if holds is not None and not await holds():
                return _unasked("the call may not go on; it was settled while it waited for the answer")
        return answer

    async def driven(
        self,
        ctx: Context,
        result: dict[str, Any],
        params: Mapping[str, Any],
        ask: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]],
        *,
        holds: Holds | None = None,
    ) -> dict[str, Any]:
        """Ask the client of the older era what a server of the newer one wants to know, and call it again.

        Raises:
            MCPError: there is no end to it, or the server asks for what nobody knows.
            Lapsed: the call does not hold any more.
        """
        for _ in range(_MOST_ROUNDS):
            if result.get("resultType") != "input_required":
                return result
            responses = {}
            for name, question in (result.get("inputRequests") or {}).items():
                responses[name] = await self._response(ctx, question)
            state = {} if result.get("requestState") is None else {"requestState": result["requestState"]}
            if holds is not None and not await holds():
                raise Lapsed
            result = await ask({**params, "inputResponses": responses, **state})
        raise MCPError(code=types.INTERNAL_ERROR, message="The server asks for input without end")

    async def _response(self, ctx: Context, question: Any) -> dict[str, Any]:
        try:
            request = _REQUESTS.validate_python(question)
        except ValidationError:
            raise MCPError(
                code=types.INTERNAL_ERROR, message="The server asks for something that is not known"
            ) from None
        wanted: type[BaseModel] = _ROOTS
        if isinstance(request, types.ElicitRequest):
            wanted = _ELICITED
        elif isinstance(request, types.CreateMessageRequest):
            wanted = types.CreateMessageResultWithTools if request.params.tools else types.CreateMessageResult
        answer = await _ask_now(ctx, request, wanted)
        if isinstance(answer, types.ErrorData):
            raise MCPError.from_error_data(answer)
        return dict(answer.model_dump(by_alias=True, mode="json", exclude_none=True))


async def _ask_now(ctx: Context, request: Any, wanted: type[BaseModel]) -> Any:
    """Ask a client of the older era, on the way of its own request."""
    try:
        return await ctx.session.send_request(
            request, wanted, metadata=ServerMessageMetadata(related_request_id=ctx.request_id)
        )
    except MCPError as error:
        return error.error
    except ValidationError:
        return _unasked("the client's answer does not fit the protocol")


def _answer(raw: Any, wanted: type[BaseModel]) -> Any:
    if raw is None:
        return _unasked("nobody answered")
    try:
        return wanted.model_validate(raw, by_name=False)
    except ValidationError:
        return _unasked("the client's answer does not fit the protocol")


def _unasked(why: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message=f"The client was not asked: {why}")


def _capabilities(raw: Any) -> types.ClientCapabilities | None:
    try:
        return types.ClientCapabilities.model_validate(raw, by_name=False)
    except ValidationError:
        return None
