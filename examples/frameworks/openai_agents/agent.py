# /// script
# requires-python = ">=3.11"
# dependencies = ["openai-agents>=0.24,<0.25", "mcp>=2.3,<3"]
# ///
"""An agent in the OpenAI Agents SDK: its runner, MCP client and tools; a scripted model for a real one.

Usage: uv run --script agent.py PROMPT SERVER COMMAND…
"""

import asyncio
import json
import os
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agents import (
    Agent,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    Tool,
    TResponseInputItem,
    Usage,
    function_tool,
)
from agents.mcp import MCPServerStdio, MCPToolMetaContext
from agents.tool_context import ToolContext
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

sys.path.append(str(Path(__file__).parents[1] / "common"))
from outside import TOOLS
from scripted_model import Answered, Called, reply

ANSWER_SECONDS = 60
"""How long an answer of the server may take: longer than check_operation can be told to wait."""
MOST_TURNS = 40


class ScriptedModel(Model):
    """Takes the Responses items that a real model would get, and gives those that it would send."""

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],
        model_settings: Any,
        tools: list[Tool],
        *_: Any,
        **__: Any,
    ) -> ModelResponse:
        conversation: list[Called | Answered] = []
        for item in [] if isinstance(input, str) else input:
            match item:
                case {"type": "function_call", "call_id": id_, "name": tool, "arguments": arguments}:
                    conversation.append(Called(id=id_, tool=tool, arguments=json.loads(arguments)))
                case {"type": "function_call_output", "call_id": id_, "output": output}:
                    texts = [{"text": output}] if isinstance(output, str) else output
                    conversation.append(Answered(id=id_, text="".join(part["text"] for part in texts)))
        said = reply(
            prompt, conversation, tools=[tool.name for tool in tools], instructions=system_instructions
        )
        output = [_message(said)] if isinstance(said, str) else [_call(c.tool, c.arguments) for c in said]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError("this agent is not streamed")


def _message(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    id_ = f"msg_{uuid.uuid4().hex}"
    return ResponseOutputMessage(
        id=id_, type="message", role="assistant", status="completed", content=[content]
    )


def _call(tool: str, arguments: Any) -> ResponseFunctionToolCall:
    call_id = f"call_{uuid.uuid4().hex}"
    return ResponseFunctionToolCall(
        type="function_call", call_id=call_id, name=tool, arguments=json.dumps(arguments)
    )


def named(context: MCPToolMetaContext) -> dict[str, Any] | None:
    """Send the framework's id of a call along; a call that is tried again keeps it."""
    run_context = context.run_context
    return {"callId": run_context.tool_call_id} if isinstance(run_context, ToolContext) else None


async def main() -> None:
    async with MCPServerStdio(
        {"command": command[0], "args": command[1:], "env": dict(os.environ)},
        cache_tools_list=True,
        client_session_timeout_seconds=ANSWER_SECONDS,
        max_retry_attempts=1,
        retry_backoff_seconds_base=0.1,
        tool_meta_resolver=named,
    ) as server:
        agent = Agent(
            name="clerk",
            instructions=server.session.instructions,
            model=ScriptedModel(),
            tools=[function_tool(tool) for tool in TOOLS],
            mcp_servers=[server],
        )
        run_config = RunConfig(tracing_disabled=True)
        print((await Runner.run(agent, prompt, max_turns=MOST_TURNS, run_config=run_config)).final_output)


prompt, *command = sys.argv[1:]
asyncio.run(main())
