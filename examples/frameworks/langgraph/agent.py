# /// script
# requires-python = ">=3.11"
# dependencies = ["langgraph>=1.2,<2", "langchain-mcp-adapters>=0.3.2,<0.4"]
# ///
"""An agent in LangGraph: a graph, the MCP adapter and its tools; a scripted model for a real one.

The graph has two nodes for tools. `journal` calls the server and may be tried again; `world` performs effects
and never is: there, one grant is one request.

Usage: uv run --script agent.py PROMPT SERVER COMMAND…
"""

import asyncio
import os
import sys
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langchain_mcp_adapters.interceptors import MCPToolCallRequest
from langchain_mcp_adapters.sessions import StdioConnection, create_session
from langchain_mcp_adapters.tools import load_mcp_tools
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import RetryPolicy, Send

sys.path.append(str(Path(__file__).parents[1] / "common"))
from outside import TOOLS
from scripted_model import Answered, Called, reply

ANSWER_SECONDS = 60
"""How long an answer of the server may take: longer than check_operation can be told to wait."""
MOST_STEPS = 80


class ScriptedModel(BaseChatModel):
    """Takes the messages that a real chat model would get, and gives those that it would send."""

    offered: tuple[str, ...] = ()

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> "ScriptedModel":
        return ScriptedModel(offered=tuple(tool.name for tool in tools))

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        conversation: list[Called | Answered] = []
        for message in messages:
            if isinstance(message, AIMessage):
                calls = message.tool_calls
                conversation += [Called(id=c["id"], tool=c["name"], arguments=c["args"]) for c in calls]
            elif isinstance(message, ToolMessage):
                conversation.append(Answered(id=message.tool_call_id, text=message.text))
        said = reply(prompt, conversation, tools=self.offered, instructions=messages[0].text)
        if isinstance(said, str):
            answer = AIMessage(said)
        else:
            calls = [
                {"name": c.tool, "args": dict(c.arguments), "id": f"call_{uuid.uuid4().hex}"} for c in said
            ]
            answer = AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=answer)])


async def main() -> None:
    connection = StdioConnection(
        transport="stdio",
        command=command[0],
        args=command[1:],
        env=dict(os.environ),
        session_kwargs={"read_timeout_seconds": timedelta(seconds=ANSWER_SECONDS)},
    )
    async with create_session(connection) as session:
        instructions = (await session.initialize()).instructions
        writing = {
            tool.name
            for tool in (await session.list_tools()).tools
            if "call_id" in tool.inputSchema["properties"]
        }

        async def named(request: MCPToolCallRequest, handler: Any) -> Any:
            """Send the framework's id of a call along; a call that is tried again keeps it."""
            if request.name in writing:
                request = request.override(args={**request.args, "call_id": request.runtime.tool_call_id})
            return await handler(request)

        journal = await load_mcp_tools(session, tool_interceptors=[named])
        world = [StructuredTool.from_function(coroutine=tool) for tool in TOOLS]
        model = ScriptedModel().bind_tools([*journal, *world])
        places = {tool.name: "journal" for tool in journal} | {tool.name: "world" for tool in world}

        async def think(state: MessagesState) -> dict[str, Any]:
            return {"messages": [await model.ainvoke([SystemMessage(instructions), *state["messages"]])]}

        def act(state: MessagesState) -> list[Send] | str:
            """Send each call to its node by itself: what is tried again is one call."""
            calls = state["messages"][-1].tool_calls
            return [Send(places[call["name"]], [call]) for call in calls] or END

        graph = StateGraph(MessagesState)
        graph.add_node("model", think)
        graph.add_node("journal", ToolNode(journal), retry_policy=RetryPolicy(max_attempts=2))
        graph.add_node("world", ToolNode(world))
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", act, ["journal", "world", END])
        graph.add_edge("journal", "model")
        graph.add_edge("world", "model")
        done = await graph.compile().ainvoke({"messages": prompt}, {"recursion_limit": MOST_STEPS})
        print(done["messages"][-1].text)


prompt, *command = sys.argv[1:]
asyncio.run(main())
