"""The wire formats in which clients speak to a model: what they asked, and how an answer to it is written.

Each is read into the same `Conversation` and written from the same `Reply`, so that a script knows of none
of them. Only what the clients under test send and need is here.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

__all__ = ["FORMATS", "Conversation", "Entry", "Reply", "WireFormat"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that the model was shown: an instruction or a person's words, or what a tool answered."""

    text: str
    is_tool_answer: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What one request says: the tools that are offered, and everything so far, oldest first."""

    tools: Sequence[str]
    entries: Sequence[Entry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the model says: a text, or the call of one tool."""

    text: str = ""
    tool: str | None = None
    input: Mapping[str, Any]


class WireFormat(Protocol):
    """One provider's way to ask a model."""

    def is_asked(self, path: str) -> bool:
        """Tell whether a request to this path asks the model in this format."""
        ...

    def read(self, body: Mapping[str, Any]) -> Conversation:
        """Read what the request shows the model."""
        ...

    def write(self, reply: Reply, body: Mapping[str, Any], path: str) -> tuple[str, bytes]:
        """Write the answer to this request: its content type and its body."""
        ...


def _text(content: Any) -> str:
    """Join the texts of a content, which is a text itself or a list of blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in content or [] if isinstance(block, Mapping))


def _stream(events: Iterator[Mapping[str, Any]], *, ends_with: str = "") -> tuple[str, bytes]:
    lines = (f"event: {event.get('type', 'message')}\ndata: {json.dumps(event)}\n\n" for event in events)
    return "text/event-stream", ("".join(lines) + ends_with).encode()


class AnthropicMessages:
    """The Messages API, as Claude Code speaks it."""

    def is_asked(self, path: str) -> bool:
        return path.endswith("/messages")

    def read(self, body: Mapping[str, Any]) -> Conversation:
        entries = []
        for message in body["messages"]:
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            for block in blocks if message["role"] == "user" else ():
                if block["type"] == "tool_result":
                    entries.append(Entry(text=_text(block.get("content")), is_tool_answer=True))
                elif block["type"] == "text":
                    entries.append(Entry(text=block["text"], is_tool_answer=False))
        return Conversation(tools=[tool["name"] for tool in body.get("tools", ())], entries=entries)

    def write(self, reply: Reply, body: Mapping[str, Any], path: str) -> tuple[str, bytes]:
        usage = {"input_tokens": 10, "output_tokens": 5}
        message = {"id": f"msg_{uuid4().hex}", "type": "message", "role": "assistant", "model": body["model"]}
        block: dict[str, Any]
        if reply.tool is None:
            block, stop = {"type": "text", "text": reply.text}, "end_turn"
            opened, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": reply.text}
        else:
            call = {"type": "tool_use", "id": f"toolu_{uuid4().hex}", "name": reply.tool}
            block, stop = {**call, "input": reply.input}, "tool_use"
            opened = {**call, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(reply.input)}
        whole = {**message, "content": [block], "stop_reason": stop, "stop_sequence": None, "usage": usage}
        if not body.get("stream"):
            return "application/json", json.dumps(whole).encode()
        return _stream(
            iter(
                (
                    {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
                    {"type": "content_block_start", "index": 0, "content_block": opened},
                    {"type": "content_block_delta", "index": 0, "delta": delta},
                    {"type": "content_block_stop", "index": 0},
                    {
                        "type": "message_delta",
                        "delta": {"stop_reason": stop, "stop_sequence": None},
                        "usage": usage,
                    },
                    {"type": "message_stop"},
                )
            )
        )


class OpenAIResponses:
    """The Responses API, as Codex speaks it; tools of MCP servers are grouped in namespaces."""

    def is_asked(self, path: str) -> bool:
        return path.endswith("/responses")

    def read(self, body: Mapping[str, Any]) -> Conversation:
        entries = []
        for item in body["input"]:
            kind = item.get("type", "message")
            if kind in ("function_call_output", "custom_tool_call_output"):
                entries.append(Entry(text=_text(item["output"]), is_tool_answer=True))
            elif kind == "message" and item["role"] == "user":
                entries.append(Entry(text=_text(item["content"]), is_tool_answer=False))
        return Conversation(tools=list(self._spaces(body)), entries=entries)

    def write(self, reply: Reply, body: Mapping[str, Any], path: str) -> tuple[str, bytes]:
        item: dict[str, Any]
        if reply.tool is None:
            said = {"type": "output_text", "text": reply.text, "annotations": []}
            item = {
                "type": "message",
                "id": f"msg_{uuid4().hex}",
                "role": "assistant",
                "status": "completed",
                "content": [said],
            }
        else:
            item = {
                "type": "function_call",
                "id": f"fc_{uuid4().hex}",
                "call_id": f"call_{uuid4().hex}",
                "name": reply.tool.rpartition("/")[2],
                "arguments": json.dumps(reply.input),
                "status": "completed",
            }
            if space := self._spaces(body).get(reply.tool):
                item["namespace"] = space
        usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        head = {"id": f"resp_{uuid4().hex}", "object": "response"}
        done = {**head, "status": "completed", "output": [item], "usage": usage}
        return _stream(
            iter(
                (
                    {"type": "response.created", "response": {**head, "status": "in_progress", "output": []}},
                    {"type": "response.output_item.added", "output_index": 0, "item": item},
                    {"type": "response.output_item.done", "output_index": 0, "item": item},
                    {"type": "response.completed", "response": done},
                )
            )
        )

    @staticmethod
    def _spaces(body: Mapping[str, Any]) -> dict[str, str | None]:
        """Give each tool under the name `namespace/tool`, with its namespace where it has one."""
        spaces: dict[str, str | None] = {}
        for tool in body.get("tools", ()):
            if tool.get("type") == "namespace":
                spaces |= {f"{tool['name']}/{inner['name']}": tool["name"] for inner in tool["tools"]}
            elif "name" in tool:
                spaces[tool["name"]] = None
        return spaces


class OpenAIChat:
    """Chat Completions, as Letta Code speaks it to a server of one's own."""

    def is_asked(self, path: str) -> bool:
        return path.endswith("/chat/completions")

    def read(self, body: Mapping[str, Any]) -> Conversation:
        entries = [
            Entry(text=_text(message["content"]), is_tool_answer=message["role"] == "tool")
            for message in body["messages"]
            if message["role"] in ("user", "tool")
        ]
        return Conversation(
            tools=[tool["function"]["name"] for tool in body.get("tools") or ()], entries=entries
        )

    def write(self, reply: Reply, body: Mapping[str, Any], path: str) -> tuple[str, bytes]:
        base = {"id": f"chatcmpl-{uuid4().hex}", "created": 1, "model": body["model"]}
        message: dict[str, Any] = {"role": "assistant", "content": reply.text}
        finish = "stop"
        if reply.tool is not None:
            called = {"name": reply.tool, "arguments": json.dumps(reply.input)}
            call = {"index": 0, "id": f"call_{uuid4().hex}", "type": "function", "function": called}
            message, finish = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": finish}
            whole = {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
            return "application/json", json.dumps(whole).encode()
        chunk = {**base, "object": "chat.completion.chunk"}
        lines = (
            {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
            {**chunk, "choices": [], "usage": usage},
        )
        # No event names here: some readers of this format take an unknown one for a line to skip.
        text = "".join(f"data: {json.dumps(line)}\n\n" for line in lines)
        return "text/event-stream", f"{text}data: [DONE]\n\n".encode()


class GeminiContent:
    """generateContent and streamGenerateContent, as Gemini CLI speaks them."""

    def is_asked(self, path: str) -> bool:
        return path.lower().endswith("generatecontent")

    def read(self, body: Mapping[str, Any]) -> Conversation:
        entries = []
        for content in body["contents"]:
            for part in content["parts"] if content.get("role") != "model" else ():
                if "functionResponse" in part:
                    answer = part["functionResponse"]["response"]
                    text = answer.get("output", answer) if isinstance(answer, Mapping) else answer
                    shown = text if isinstance(text, str) else json.dumps(text)
                    entries.append(Entry(text=shown, is_tool_answer=True))
                elif "text" in part:
                    entries.append(Entry(text=part["text"], is_tool_answer=False))
        declared = [
            tool for group in body.get("tools") or () for tool in group.get("functionDeclarations", ())
        ]
        return Conversation(tools=[tool["name"] for tool in declared], entries=entries)

    def write(self, reply: Reply, body: Mapping[str, Any], path: str) -> tuple[str, bytes]:
        part: dict[str, Any] = {"text": reply.text}
        if reply.tool is not None:
            part = {"functionCall": {"id": uuid4().hex, "name": reply.tool, "args": reply.input}}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        said = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        whole = {"candidates": [said], "usageMetadata": usage, "modelVersion": "scripted"}
        if "stream" not in path.lower():
            return "application/json", json.dumps(whole).encode()
        return "text/event-stream", f"data: {json.dumps(whole)}\n\n".encode()


FORMATS: Sequence[WireFormat] = (AnthropicMessages(), OpenAIResponses(), OpenAIChat(), GeminiContent())
