"""The resources: what a client may show without a tool call. Their addresses, their words, and their text.

Nothing here permits anything, and nothing depends on a client that reads them. Stored text stands in code
spans or JSON strings only, escaped and bounded, so that it can be read and not act.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from counterfoil.store.domain.commands import Caller, CheckOperation, OperationRef, ResumePlan
from counterfoil.store.domain.untrusted import escape_untrusted
from counterfoil.store.errors import InvalidArgument, NotFound
from counterfoil.tools.guide import GUIDE
from counterfoil.tools.markdown import plan_markdown
from counterfoil.tools.paging import fitting_page
from counterfoil.tools.protocol import Journal
from counterfoil.tools.text import bounded, written

__all__ = ["RESOURCES", "TEMPLATES", "Reading", "ResourceWords", "read_resource"]

MARKDOWN, JSON, PLAIN = "text/markdown", "application/json", "text/plain"

LONGEST_PAGE = 10_000
"""Characters of a resource that is a page; the payload alone comes whole."""


class ResourceWords(Struct, frozen=True, kw_only=True):
    """A resource or a template of resources, as clients list it. `argument` is what is to be filled in."""

    uri: str
    name: str
    title: str
    description: str
    mime_type: str | None
    argument: str | None = None


class Reading(Struct, frozen=True, kw_only=True):
    """The text of one resource."""

    mime_type: str
    text: str


RESOURCES = (
    ResourceWords(
        uri="counterfoil://runs",
        name="runs",
        title="Runs",
        description="The runs that are not finished or have an open question, most recently touched first.",
        mime_type=JSON,
    ),
    ResourceWords(
        uri="counterfoil://guide",
        name="guide",
        title="Guide",
        description="How to work with this journal: names, verbs, receipts, reconciling.",
        mime_type=MARKDOWN,
    ),
)

TEMPLATES = (
    ResourceWords(
        uri="counterfoil://runs/{run}/plan",
        name="plan",
        title="Plan of a run",
        description="What is in doubt, open and allowed in a run. The run's name is percent-encoded.",
        mime_type=MARKDOWN,
        argument="run",
    ),
    ResourceWords(
        uri="counterfoil://operations/{operation}",
        name="operation",
        title="Operation",
        description="All that is known of one operation: state, attempts, receipts, findings, history.",
        mime_type=JSON,
        argument="operation",
    ),
    ResourceWords(
        uri="counterfoil://operations/{operation}/payload",
        name="payload",
        title="Payload of an operation",
        description="The recorded payload, whole: text as it is, anything else as JSON.",
        mime_type=None,
        argument="operation",
    ),
)

_SEGMENT = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+")
_ADDRESSES = ", ".join(words.uri for words in (*RESOURCES, *TEMPLATES))


async def read_resource(uri: str, journal: Callable[[], Awaitable[Journal]], caller: Caller) -> Reading:
    """Give the text of a resource. `journal` is asked for only where one is needed.

    Raises:
        InvalidArgument: the address is none of ours, or not encoded as it has to be.
        NotFound: there is no such run or operation.
        Fault: the journal cannot be used.
    """
    match _segments(uri):
        case ["guide"]:
            return Reading(mime_type=MARKDOWN, text=GUIDE)
        case ["runs"]:
            return await _runs(await journal(), caller)
        case ["runs", run, "plan"]:
            return await _plan(await journal(), run, caller)
        case ["operations", operation]:
            return await _operation(await journal(), operation, caller)
        case ["operations", operation, "payload"]:
            return await _payload(await journal(), operation, caller)
        case _:
            raise InvalidArgument("uri", "is no resource of this server", accepted=f"one of: {_ADDRESSES}")


def _segments(uri: str) -> list[str]:
    """Split an address and decode its parts, strictly: what two readers could take differently is refused."""
    scheme, separator, path = uri.partition("://")
    if scheme != "counterfoil" or not separator:
        raise InvalidArgument("uri", "is no resource of this server", accepted=f"one of: {_ADDRESSES}")
    parts = []
    for segment in path.split("/"):
        decoded = _decoded(segment) if _SEGMENT.fullmatch(segment) else None
        if decoded is None:
            raise InvalidArgument(
                "uri",
                "has a part that is not percent-encoded UTF-8",
                accepted="names percent-encoded, such as counterfoil://runs/weekly-report%2F2026-W48/plan",
            )
        parts.append(decoded)
    return parts


def _decoded(segment: str) -> str | None:
    try:
        return unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError:
        return None


async def _runs(journal: Journal, caller: Caller) -> Reading:
    async def page(limit: int | None) -> dict[str, Any]:
        return await journal.resume_plan(ResumePlan(limit=limit), caller)

    answer = bounded(await fitting_page(page, limit=None), way="resume_plan with next_cursor as cursor")
    return Reading(mime_type=JSON, text=written(answer))


async def _plan(journal: Journal, run: str, caller: Caller) -> Reading:
    limit = None
    while True:
        answer = await journal.resume_plan(ResumePlan(run=run, limit=limit), caller)
        if answer["reason"] == "no_history":
            raise NotFound(
                "the journal knows no run of this name; that proves nothing about the world",
                fix="take a name from counterfoil://runs, or begin the run",
                candidates=[escape_untrusted(name, limit=200) for name in answer.get("near_runs") or ()],
            )
        listed = len(answer.get("steps") or ())
        text = plan_markdown(bounded(answer, way="check_operation"))
        if len(text) <= LONGEST_PAGE or listed <= 1:
            return Reading(mime_type=MARKDOWN, text=text)
        limit = max(1, min(listed - 1, listed * LONGEST_PAGE * 9 // (len(text) * 10)))


async def _operation(journal: Journal, operation: str, caller: Caller) -> Reading:
    ref = OperationRef(operation=operation)
    answer = await journal.check_operation(CheckOperation(ref=ref, detail="full"), caller)
    way = 'check_operation with detail "full" and offset'
    return Reading(mime_type=JSON, text=written(bounded(answer, way=way)))


async def _payload(journal: Journal, operation: str, caller: Caller) -> Reading:
    """Put the payload together from all its stretches; it is at most as long as a payload may be."""
    ref = OperationRef(operation=operation)
    pieces: list[str] = []
    offset: int | None = 0
    page: Mapping[str, Any] = {}
    while offset is not None:
        page = await journal.check_operation(CheckOperation(ref=ref, detail="payload", offset=offset), caller)
        if not page.get("recorded"):
            raise NotFound(
                "no payload is on record for this operation",
                fix="read counterfoil://operations/{operation} for what is known of it",
            )
        pieces.append(page["content"])
        offset = page.get("next_offset")
    return Reading(mime_type=PLAIN if page["format"] == "text" else JSON, text="".join(pieces))
