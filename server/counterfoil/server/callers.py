"""Finds out who calls: from `_meta` first, then from the environment, then from what the call says itself."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.server.traceparent import traceparent_or_none
from counterfoil.store.domain.commands import Caller
from counterfoil.tools.inputs import SHORTEST_CALL_ID, Input, WritingInput

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

__all__ = ["ClientInfo", "caller_of", "known_client", "meta_of", "relayed_caller"]

_LONGEST_NAME = 200

_CALL_IDS = ("claudecode/toolUseId", "callId")
"""What Claude Code and Codex call a tool call's own id in `_meta`."""
_CONVERSATIONS = ("threadId", "sessionId")
"""What Codex calls a conversation; Claude Code tells it by the environment."""


class ClientInfo(Struct, frozen=True, kw_only=True):
    """What the transport knows: the connection, the client, and the environment that it was started in.

    `is_lasting`: later calls of the same caller come by the same connection.
    """

    connection: str
    is_lasting: bool = True
    principal: str = "local"
    client: str | None = None
    client_version: str | None = None
    conversation: str | None = None
    traceparent: str | None = None


def meta_of(context: "ServerRequestContext[Any, Any]") -> Mapping[str, Any]:
    """Give the `_meta` of a request, empty where it has none."""
    meta = (context.params or {}).get("_meta")
    return meta if isinstance(meta, Mapping) else {}


def known_client(context: "ServerRequestContext[Any, Any]", known: ClientInfo) -> ClientInfo:
    """Add who the client says it is, in either protocol era, to what is known of the connection."""
    hello = context.session.client_params
    if hello is None:
        return known
    info = hello.client_info
    return replace(known, client=_bearable(info.name), client_version=_bearable(info.version))


def _bearable(text: str) -> str | None:
    """Give a text as it is, or None where it is too long: half of a secret would not be known for one."""
    return text if len(text) <= _LONGEST_NAME else None


def caller_of(*, tool: str, meta: Mapping[str, Any], client: ClientInfo, arguments: Input) -> Caller:
    """Give the caller of one call.

    An explicit `call_id` goes before the client's own id, because whoever sends a call again names it
    there. A client's id that is too short to be unique, or is merely the run or the key, is ignored.
    """
    trace = arguments.trace
    own_call = _first(meta, _CALL_IDS)
    given = arguments.call_id if isinstance(arguments, WritingInput) else None
    names = (getattr(arguments, "run", None), getattr(arguments, "key", None))
    usable = own_call if own_call and len(own_call) >= SHORTEST_CALL_ID and own_call not in names else None
    return Caller(
        connection=client.connection,
        principal=client.principal,
        conversation=_first(meta, _CONVERSATIONS)
        or client.conversation
        or (trace and trace.conversation)
        or None,
        client=client.client,
        client_version=client.client_version,
        tool=tool,
        agent=trace.agent if trace else None,
        model=trace.model if trace else None,
        model_run=trace.model_run if trace else None,
        tool_call=own_call or (trace and trace.tool_call) or None,
        traceparent=traceparent_or_none(meta.get("traceparent"))
        or client.traceparent
        or traceparent_or_none(trace and trace.traceparent),
        call_id=given or usable,
    )


def relayed_caller(*, tool: str, meta: Mapping[str, Any], client: ClientInfo) -> Caller:
    """Give the caller whose tool call is recorded on its behalf.

    The client's own id of the call is kept for the trace and is no call id of the journal: a call that is
    sent again must not get the same permission again from whoever passes it on.
    """
    return Caller(
        connection=client.connection,
        principal=client.principal,
        conversation=_first(meta, _CONVERSATIONS) or client.conversation,
        client=client.client,
        client_version=client.client_version,
        tool=tool,
        tool_call=_first(meta, _CALL_IDS),
        traceparent=traceparent_or_none(meta.get("traceparent")) or client.traceparent,
    )


def _first(meta: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """Give the first of `names` that `meta` holds as a printable text of bearable length."""
    for name in names:
        value = meta.get(name)
        if isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME and value.isprintable():
            return value
    return None
