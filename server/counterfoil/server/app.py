"""Builds the MCP server: the tools as clients list them, and each call on its one way down and back.

It stands on the SDK's low-level `Server`: that takes schemas and results as they are written here, hands raw
arguments on, and loads no table printer, which `MCPServer` does to set up its logs.
"""

import dataclasses
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    Tool,
    ToolAnnotations,
)
from msgspec.structs import replace

from counterfoil.server.access import Access, AccessOf, Context, JournalProvider, scope_of_tool
from counterfoil.server.asking import ask
from counterfoil.server.callers import ClientInfo, caller_of, known_client, meta_of
from counterfoil.server.faults import fault_text, internal_fault
from counterfoil.server.instructions import instructions_for
from counterfoil.server.logs import logger
from counterfoil.server.resources import Resources
from counterfoil.server.scopes import APPROVE
from counterfoil.server.unseen_spans import without_unseen_spans
from counterfoil.store.errors import Fault
from counterfoil.store.limits import Limits
from counterfoil.store.redact import Redactor
from counterfoil.tools.arguments import take_arguments
from counterfoil.tools.begin_operation import BEGIN_OPERATION
from counterfoil.tools.begin_run import BEGIN_RUN
from counterfoil.tools.catalogue import ALL_TOOLS, CORE_TOOLS
from counterfoil.tools.schema import input_schema, output_schema
from counterfoil.tools.specification import ToolSpecification
from counterfoil.tools.text import told

if TYPE_CHECKING:
    from counterfoil.server.telemetry import Telemetry

__all__ = ["Heard", "JournalProvider", "build_server"]

_AS_GIVEN = "arguments as given"
"""The member under which arguments that are no object travel through the SDK, which knows only objects."""


_HOLDING = (BEGIN_OPERATION, BEGIN_RUN)
"""The tools by which a caller comes to hold something."""

_NAMELESS = (
    "No conversation is known of this call: send the same trace.conversation with every call, or your later "
    "ones (record_failure, record_progress) are not known to be the holder's."
)

Heard = Callable[[str, str, float], None]
"""Is told of a tool's call: the tool, the `next` of its answer or the code of its fault, and its seconds."""


def build_server(
    journals: JournalProvider,
    *,
    client: ClientInfo,
    limits: Limits | None = None,
    version: str = "",
    tools: Sequence[ToolSpecification] = ALL_TOOLS,
    telemetry: "Telemetry | None" = None,
    redactor: Redactor | None = None,
    access: AccessOf | None = None,
    heard: Heard | None = None,
) -> Server[Any]:
    """Give a server that offers `tools` on the journal that `journals` gives.

    `client` is what is known of every caller before it says a word: connection, principal, environment.
    `telemetry` tells of every call where somebody wants spans. `redactor` replaces secrets in what is told
    before, or without, a journal: faults, prompts. Where callers differ, `access` tells what a request
    reaches in place of these two. `heard` is told of each call that was answered.
    """
    names = [tool.name for tool in tools]
    redactor = redactor or Redactor(secrets.token_bytes(32))
    own = Access(journals=journals, client=client)
    access = access or (lambda _: own)
    calls = _ToolCalls(
        access=access,
        heard=heard,
        limits=limits or Limits(),
        tools=tools,
        telemetry=telemetry,
        redactor=redactor,
    )
    resources = Resources(access=access, tools=names, redactor=redactor)
    server: Server[Any] = Server(
        "counterfoil",
        title="Counterfoil",
        version=version,
        description="A journal of external effects: intent before each, receipt after it, and a resume plan.",
        instructions=instructions_for(names),
        get_tool_input_schema=calls.input_schema,
        on_list_tools=calls.list_tools,
        on_list_resources=resources.list_resources,
        on_list_resource_templates=resources.list_templates,
        on_read_resource=resources.read,
        on_list_prompts=resources.list_prompts,
        on_get_prompt=resources.get_prompt,
        on_completion=resources.complete,
    )
    # Not by the constructor, which knows results as models: the SDK turns them into members, checks those
    # and writes them, and these results are members from the start.
    server.add_request_handler("tools/call", CallToolRequestParams, calls.call_tool)
    if telemetry is None:
        server.middleware = without_unseen_spans(server.middleware)
    server.middleware.append(_let_any_arguments_through)
    return server


async def _let_any_arguments_through(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Let arguments that are no object reach the tool, which reads or refuses them by name."""
    params = ctx.params
    if ctx.method == "tools/call" and isinstance(params, Mapping):
        arguments = params.get("arguments")
        if arguments is not None and not isinstance(arguments, dict):
            ctx = dataclasses.replace(ctx, params={**params, "arguments": {_AS_GIVEN: arguments}})
    return await call_next(ctx)


class _ToolCalls:
    """Lists the tools and carries out their calls."""

    def __init__(
        self,
        *,
        access: AccessOf,
        heard: Heard | None,
        limits: Limits,
        tools: Sequence[ToolSpecification],
        telemetry: "Telemetry | None",
        redactor: Redactor,
    ) -> None:
        self._access = access
        self._heard = heard
        self._limits = limits
        self._tools = {tool.name: tool for tool in tools}
        self._telemetry = telemetry
        self._redactor = redactor

    @cached_property
    def _listed(self) -> ListToolsResult:
        return ListToolsResult(tools=[_listed(tool) for tool in self._tools.values()])

    def input_schema(self, name: str) -> Mapping[str, Any] | None:
        """Give the schema of a tool's arguments; over HTTP the SDK else lists all tools for each call."""
        return next((tool.input_schema for tool in self._listed.tools if tool.name == name), None)

    async def list_tools(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        """Give all tools at once, always in the same order."""
        return self._listed

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> HandlerResult:
        """Carry out one call: arguments in, one journal method, one answer out.

        Where the answer holds a question for a person, the client may be asked to put it first.

        Raises:
            MCPError: there is no such tool.
        """
        tool = self._tools.get(params.name)
        if tool is None:
            names = ", ".join(self._tools)
            raise MCPError(
                code=INVALID_PARAMS, message=f"Unknown tool; the tools of this server are: {names}"
            )
        started = time.perf_counter()
        result, outcome = await self._carry_out(tool, context, params)
        if self._heard is not None:
            self._heard(tool.name, outcome, time.perf_counter() - started)
        return result

    async def _carry_out(
        self, tool: ToolSpecification, context: Context, params: CallToolRequestParams
    ) -> tuple[HandlerResult, str]:
        """Give the result of a call, and what it came to: the answer's `next` or the fault's code."""
        given: Any = params.arguments or {}
        try:
            access = self._access(context)
            access.require(scope_of_tool(tool))
            if params.input_responses:
                access.require(APPROVE)
            arguments = take_arguments(tool.input_model, given.get(_AS_GIVEN, given), limits=self._limits)
            caller = caller_of(
                tool=tool.name,
                meta=meta_of(context),
                client=known_client(context, access.client),
                arguments=arguments,
            )
            journal = await access.journals()
            if self._telemetry is None:
                answer = await tool.run(journal, arguments, caller)
            else:
                answer = await self._telemetry.watched(tool.name, tool.run, journal, arguments, caller)
            question = None if tool.question is None else tool.question(answer)
            if question is not None and tool.settle is not None and APPROVE in access.scopes:
                reply = await ask(context, params, question, asker=caller.principal, vouch=journal.vouch)
                if isinstance(reply, InputRequiredResult):
                    return reply, "ask"
                if reply is not None:
                    person = replace(caller, is_person=True)
                    answer = await tool.settle(journal, arguments, person, answer, reply)
        except Fault as fault:
            logger.info("%s was answered with the fault %s", tool.name, fault.code)
            text = fault_text(fault, duty=tool.when_unavailable, redactor=self._redactor)
            return _error(text), fault.code
        except Exception:
            logger.exception("%s failed", tool.name)
            unforeseen = internal_fault()
            return _error(fault_text(unforeseen, duty=tool.when_unavailable)), unforeseen.code
        is_nameless = caller.conversation is None and not access.client.is_lasting
        if is_nameless and answer.get("next") in ("perform", "continue") and tool in _HOLDING:
            answer = {**answer, "warnings": [*(answer.get("warnings") or ()), _NAMELESS]}
        return _result(*told(answer, way=tool.way_to_rest)), str(answer.get("next"))


def _listed(tool: ToolSpecification) -> Tool:
    return Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=input_schema(tool.input_model),
        output_schema=output_schema(tool.output_model),
        annotations=ToolAnnotations(
            read_only_hint=tool.reads_only,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=tool.looks_outside,
        ),
        # Claude Code otherwise defers tools until they are searched for.
        _meta={"anthropic/alwaysLoad": True} if tool in CORE_TOOLS else None,
    )


def _result(answer: dict[str, Any], text: str) -> dict[str, Any]:
    """Say the answer twice: clients show either the text or the structured content."""
    return {**_said(text, is_error=False), "structuredContent": answer}


def _error(text: str) -> dict[str, Any]:
    return _said(text, is_error=True)


def _said(text: str, *, is_error: bool) -> dict[str, Any]:
    """Give the members of a result as protocol 2026-07-28 has them; the SDK drops what an older has not."""
    return {"content": [{"type": "text", "text": text}], "isError": is_error, "resultType": "complete"}
