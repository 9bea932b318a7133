"""Asks the person at the client, in either protocol era, where the client says that it can.

Since 2026-07-28 the question is the result of the call, and the client calls again with the answer; before
that it is a request to the client while the call is under way. What comes back is the client's word that its
user answered: over stdio that guards against mistakes and is no security boundary.
"""

import hmac
from collections.abc import Callable, Mapping
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequestParams,
    ClientCapabilities,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types.version import is_version_at_least
from pydantic import ValidationError

from counterfoil.server.logs import logger
from counterfoil.store.domain.canonical import canonical_json
from counterfoil.tools.specification import Question

__all__ = ["LONGEST_ASKING_SECONDS", "ask", "shows_forms"]

LONGEST_ASKING_SECONDS = 240
"""Under the shortest time-out among clients that can ask (300 s); the request waits on after that."""

_INPUT_REQUIRED_SINCE = "2026-07-28"
_PERMIT = "permit"


async def ask(
    context: ServerRequestContext[Any, Any],
    params: CallToolRequestParams,
    question: Question,
    *,
    asker: str,
    vouch: Callable[[str], str],
) -> InputRequiredResult | bool | None:
    """Give what the person said, what the client has to bring first, or None where nobody answered.

    The state that travels through the client is what `vouch` gives for the question, the request that it is
    about, the principal `asker` that it goes through and the arguments of its call: an answer to anything
    else does not count, nor one to an earlier request in the same words, and whichever server of the journal
    gets the answer knows its own kind's question.
    """
    if not shows_forms(context.session.client_capabilities):
        return None
    form = ElicitRequestFormParams(message=question.text, requested_schema=_form(question))
    if not is_version_at_least(context.protocol_version, _INPUT_REQUIRED_SINCE):
        return await _ask_now(context, form)
    put = ["question", asker, params.arguments or {}, question.text, question.request]
    state = vouch(canonical_json(put))
    reply = (params.input_responses or {}).get(_PERMIT)
    if reply is not None and hmac.compare_digest(state.encode(), (params.request_state or "").encode()):
        return _reply(reply)
    return InputRequiredResult(input_requests={_PERMIT: ElicitRequest(params=form)}, request_state=state)


async def _ask_now(context: ServerRequestContext[Any, Any], form: ElicitRequestFormParams) -> bool | None:
    with anyio.move_on_after(LONGEST_ASKING_SECONDS):
        try:
            reply = await context.session.elicit_form(
                form.message, form.requested_schema, related_request_id=context.request_id
            )
        except (MCPError, ValidationError) as error:
            logger.info("the client did not ask its user: %s", type(error).__name__)
            return None
        return _reply(reply)
    return None


def shows_forms(capabilities: ClientCapabilities | None) -> bool:
    """Tell whether a client shows forms; `elicitation: {}` meant forms before there were other modes."""
    elicitation = None if capabilities is None else capabilities.elicitation
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def _form(question: Question) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {_PERMIT: {"type": "boolean", "title": question.label, "default": False}},
        "required": [_PERMIT],
    }


def _reply(result: Any) -> bool | None:
    """Read an answer: yes only where the box was ticked and sent; a form closed without one is no answer."""
    if isinstance(result, ElicitResult):
        result = {"action": result.action, "content": result.content}
    if not isinstance(result, Mapping):
        return None
    action, content = result.get("action"), result.get("content")
    if action == "accept":
        return isinstance(content, Mapping) and content.get(_PERMIT) is True
    return False if action == "decline" else None
