"""Registers resources, prompts and completions: each request on its way down, and faults as JSON-RPC errors.

Their words and texts are in the tools floor. Nothing depends on a client that supports any of them.
"""

import json
from collections.abc import Awaitable, Collection, Mapping
from typing import Literal, TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    PromptReference,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
)

from counterfoil.server.access import AccessOf, Context
from counterfoil.server.callers import caller_of, known_client, meta_of
from counterfoil.server.faults import fault_text, internal_fault
from counterfoil.server.logs import logger
from counterfoil.server.scopes import READ
from counterfoil.store.errors import Fault, Forbidden, InvalidArgument, NotFound, TooLarge
from counterfoil.store.redact import Redactor
from counterfoil.tools.inputs import Input
from counterfoil.tools.prompts import PROMPTS, prompt_text
from counterfoil.tools.resources import RESOURCES, TEMPLATES, Reading, read_resource

__all__ = ["Resources"]

_LONGEST_URI = 2_000
"""Characters of an address that an error repeats; none of ours is nearly so long."""

Given = TypeVar("Given")

_CALLERS_DOING = (Forbidden, InvalidArgument, NotFound, TooLarge)


class Resources:
    """Lists and reads resources, lists and gives prompts, completes names."""

    def __init__(
        self,
        *,
        access: AccessOf,
        tools: Collection[str],
        redactor: Redactor,
    ) -> None:
        self._access = access
        self._tools = tools
        self._redactor = redactor

    async def list_resources(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """Give the resources that are always there; a broken journal hides none of them."""
        return ListResourcesResult(
            resources=[
                Resource(
                    uri=words.uri,
                    name=words.name,
                    title=words.title,
                    description=words.description,
                    mime_type=words.mime_type,
                )
                for words in RESOURCES
            ]
        )

    async def list_templates(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """Give the resources that take a name."""
        return ListResourceTemplatesResult(
            resource_templates=[
                ResourceTemplate(
                    uri_template=words.uri,
                    name=words.name,
                    title=words.title,
                    description=words.description,
                    mime_type=words.mime_type,
                )
                for words in TEMPLATES
            ]
        )

    async def read(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        """Give the text of one resource.

        Raises:
            MCPError: there is none at this address, or the journal cannot be used.
        """

        async def read() -> Reading:
            access = self._access(context)
            access.require(READ)
            caller = caller_of(
                tool="resources/read",
                meta=meta_of(context),
                client=known_client(context, access.client),
                arguments=Input(),
            )
            return await read_resource(params.uri, access.journals, caller)

        reading = await self._or_error(read(), uri=params.uri)
        contents = TextResourceContents(uri=params.uri, mime_type=reading.mime_type, text=reading.text)
        return ReadResourceResult(contents=[contents])

    async def list_prompts(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        """Give all prompts, always in the same order."""
        return ListPromptsResult(
            prompts=[
                Prompt(
                    name=prompt.name,
                    title=prompt.title,
                    description=prompt.description,
                    arguments=[
                        PromptArgument(
                            name=argument.name,
                            description=argument.description,
                            required=argument.is_required,
                        )
                        for argument in prompt.arguments
                    ],
                )
                for prompt in PROMPTS
            ]
        )

    async def get_prompt(self, context: Context, params: GetPromptRequestParams) -> GetPromptResult:
        """Give the text of one prompt; it needs no journal.

        Raises:
            MCPError: there is no such prompt, or an argument does not fit.
        """

        async def words() -> str:
            # A client may keep a prompt in its history.
            return self._redactor.redact_text(prompt_text(params.name, params.arguments or {}, self._tools))

        content = TextContent(type="text", text=await self._or_error(words()))
        return GetPromptResult(messages=[PromptMessage(role="user", content=content)])

    async def complete(self, context: Context, params: CompleteRequestParams) -> CompleteResult:
        """Give names of runs, or ids of operations, that begin as the argument does.

        Raises:
            MCPError: there is no such prompt or template, or the journal cannot be used.
        """
        kind = await self._or_error(_kind_of(params))
        if kind is None:
            return CompleteResult(completion=Completion(values=[], has_more=False))

        async def names() -> tuple[list[str], bool]:
            access = self._access(context)
            access.require(READ)
            return await (await access.journals()).suggest(kind, params.argument.value)

        values, has_more = await self._or_error(names())
        return CompleteResult(completion=Completion(values=values, has_more=has_more))

    async def _or_error(self, given: Awaitable[Given], *, uri: str | None = None) -> Given:
        """Await, and tell faults as a JSON-RPC error that carries the same object as a tool error does.

        Where a resource was read, its `uri` as well, as the protocol has it.
        """
        more = {} if uri is None else {"uri": self._redactor.redact_text(uri[:_LONGEST_URI])}
        try:
            return await given
        except Fault as fault:
            logger.info("a request was answered with the fault %s", fault.code)
            code = INVALID_PARAMS if isinstance(fault, _CALLERS_DOING) else INTERNAL_ERROR
            raise _error(code, fault, self._redactor, more) from None
        except Exception:
            logger.exception("a request failed")
            raise _error(INTERNAL_ERROR, internal_fault(), self._redactor, more) from None


async def _kind_of(params: CompleteRequestParams) -> Literal["run", "operation"] | None:
    """Tell what an argument of a prompt or a template names; None where nothing can be proposed."""
    named: str | None
    if isinstance(params.ref, PromptReference):
        prompt = next((prompt for prompt in PROMPTS if prompt.name == params.ref.name), None)
        if prompt is None:
            raise InvalidArgument(
                "ref", "is no prompt of this server", accepted=", ".join(prompt.name for prompt in PROMPTS)
            )
        named = next((one.kind for one in prompt.arguments if one.name == params.argument.name), None)
    else:
        uri = params.ref.uri
        template = next((words for words in TEMPLATES if words.uri == uri), None)
        if template is None:
            raise InvalidArgument(
                "ref", "is no template of this server", accepted=", ".join(words.uri for words in TEMPLATES)
            )
        named = template.argument if template.argument == params.argument.name else None
    return "run" if named == "run" else "operation" if named == "operation" else None


def _error(code: int, fault: Fault, redactor: Redactor, more: Mapping[str, str]) -> MCPError:
    told = json.loads(fault_text(fault, redactor=redactor))
    return MCPError(code=code, message=f"{told['message']}. {told['fix']}", data={**told, **more})
