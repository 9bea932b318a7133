# /// script
# requires-python = ">=3.11"
# dependencies = ["pydantic-ai-slim[mcp]>=2.68,<3", "mcp>=2.3,<3"]
# ///
"""An agent in Pydantic AI: its loop, MCP client and tools; a scripted model for a real one.

Usage: uv run --script agent.py PROMPT SERVER COMMAND…
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.mcp import CallToolFunc, MCPToolset
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

sys.path.append(str(Path(__file__).parents[1] / "common"))
from outside import TOOLS
from scripted_model import Answered, Called, reply

ANSWER_SECONDS = 60
"""How long an answer of the server may take: longer than check_operation can be told to wait."""


async def named(context: RunContext, call_tool: CallToolFunc, tool: str, arguments: dict[str, Any]) -> Any:
    """Send the framework's id of a call along, and the same call once more where no answer came.

    A fault that the server reports is not tried again: with `tool_error_behavior="failed"` the model sees it,
    and ModelRetry is raised only where the protocol itself failed.
    """
    metadata = {"callId": context.tool_call_id}
    try:
        return await call_tool(tool, arguments, metadata=metadata)
    except ModelRetry:
        return await call_tool(tool, arguments, metadata=metadata)


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    conversation: list[Called | Answered] = []
    for part in (part for message in messages for part in message.parts):
        if isinstance(part, ToolCallPart):
            called = Called(id=part.tool_call_id, tool=part.tool_name, arguments=part.args_as_dict())
            conversation.append(called)
        elif isinstance(part, ToolReturnPart):
            conversation.append(Answered(id=part.tool_call_id, text=part.model_response_str()))
        elif isinstance(part, RetryPromptPart):
            conversation.append(Answered(id=part.tool_call_id, text=part.model_response()))
    said = reply(
        prompt,
        conversation,
        tools=[tool.name for tool in info.function_tools],
        instructions=info.instructions,
    )
    if isinstance(said, str):
        return ModelResponse(parts=[TextPart(said)])
    return ModelResponse(parts=[ToolCallPart(call.tool, dict(call.arguments)) for call in said])


async def main() -> None:
    server = MCPToolset(
        StdioTransport(command[0], command[1:], env=dict(os.environ), keep_alive=False),
        include_instructions=True,
        tool_error_behavior="failed",
        process_tool_call=named,
        init_timeout=ANSWER_SECONDS,
        read_timeout=ANSWER_SECONDS,
    )
    agent = Agent(FunctionModel(model), tools=list(TOOLS), toolsets=[server], retries=0)
    async with agent:
        print((await agent.run(prompt)).output)


prompt, *command = sys.argv[1:]
asyncio.run(main())
