"""Serves the real tools over our own HTTP, and beside them the fixtures of the official conformance suite.

    uv run python tests/http/conformance_server.py HOST:PORT JOURNAL-URL

Only for tests. The fixtures are answered in a middleware of the SDK's server, so that every request takes the
way that requests take in earnest: Host and Origin, gate, transport, and then the handlers of the real server
where it is for no fixture.
"""

import base64
import hashlib
import hmac
import json
import re
import struct
import sys
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import anyio
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import SamplingMessage, TextContent
from mcp_types.version import is_version_at_least
from msgspec.structs import replace

from counterfoil.server.access import Context
from counterfoil.server.app import build_server
from counterfoil.server.http import serving
from counterfoil.server.http.settings import HttpSettings
from counterfoil.server.settings import load_settings

_INVALID_PARAMS, _MISSING_CAPABILITY = -32602, -32021
_KEY = b"of no secrecy: this process holds fixtures"


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png() -> str:
    """Give one red pixel."""
    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\0\xff\0\0")
    whole = _chunk(b"IHDR", header) + _chunk(b"IDAT", pixel) + _chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + whole).decode()


def _wav() -> str:
    """Give one silent sample."""
    form = (
        b"WAVEfmt "
        + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8)
        + b"data"
        + struct.pack("<I", 1)
        + b"\x80"
    )
    return base64.b64encode(b"RIFF" + struct.pack("<I", len(form)) + form).decode()


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _resource(uri: str, mime_type: str, text: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}}


_IMAGE = {"type": "image", "data": _png(), "mimeType": "image/png"}
_EMPTY = {"type": "object", "properties": {}}

_PLAIN: Mapping[str, list[dict[str, Any]]] = {
    "test_simple_text": [_text("This is a simple text response for testing.")],
    "test_image_content": [_IMAGE],
    "test_audio_content": [{"type": "audio", "data": _wav(), "mimeType": "audio/wav"}],
    "test_embedded_resource": [
        _resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": [
        _text("Multiple content types test:"),
        _IMAGE,
        _resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
}
"""Tools that always give the same content."""

_ADDRESS = {
    "$anchor": "addressDef",
    "type": "object",
    "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
}
_SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "json_schema_2020_12_tool": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": _ADDRESS},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
    "test_custom_header": {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    },
}
"""The tools whose arguments are what is tested."""


def _form(message: str, **properties: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def _sampling(text: str, tokens: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": _text(text)}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": tokens}}


_ROOTS = {"method": "roots/list", "params": {}}
_NAME = _form("What is your name?", name="string")

_ASKING: Mapping[str, list[dict[str, dict[str, Any]]]] = {
    "test_input_required_result_elicitation": [{"user_name": _NAME}],
    "test_input_required_result_sampling": [
        {"capital_question": _sampling("What is the capital of France?", 100)}
    ],
    "test_input_required_result_list_roots": [{"client_roots": _ROOTS}],
    "test_input_required_result_request_state": [{"confirm": _form("Please confirm", ok="boolean")}],
    "test_input_required_result_multiple_inputs": [
        {"user_name": _NAME, "greeting": _sampling("Generate a greeting", 50), "client_roots": _ROOTS}
    ],
    "test_input_required_result_multi_round": [
        {"step1": _form("Step 1: What is your name?", name="string")},
        {"step2": _form("Step 2: What is your favorite color?", color="string")},
    ],
    "test_input_required_result_tampered_state": [{"confirm": _form("Please confirm", ok="boolean")}],
    "test_input_required_result_capabilities": [{"question": _sampling("Anything?", 50), "user_name": _NAME}],
}
"""Tools that need something of the client first, by rounds."""

_CAPABILITY = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}

_SENDING = (
    "test_tool_with_logging",
    "test_tool_with_progress",
    "test_logging_tool",
    "test_streaming_elicitation",
)
"""Tools that send something before they answer."""

_NAME_AND_EMAIL = {
    "type": "object",
    "properties": {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    },
    "required": ["username", "email"],
}
_DEFAULTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
}


def _titled(prefix: str, titles: str) -> list[dict[str, str]]:
    return [
        {"const": f"{prefix}{number}", "title": f"{title} Choice"}
        for number, title in enumerate(titles.split(), 1)
    ]


_OPTIONS = ["option1", "option2", "option3"]
_ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": _OPTIONS},
        "titledSingle": {"type": "string", "oneOf": _titled("value", "First Second Third")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": _titled("value", "First Second Third")}},
    },
}

_FORMS: Mapping[str, dict[str, Any]] = {
    "test_elicitation": _NAME_AND_EMAIL,
    "test_elicitation_sep1034_defaults": _DEFAULTS,
    "test_elicitation_sep1330_enums": _ENUMS,
}
"""Tools that show a form within the call, in the handshake era."""

_OTHER = (
    "test_error_handling",
    "test_missing_capability",
    "test_sampling",
    *_FORMS,
)

_TOOLS = (*_PLAIN, *_SCHEMAS, *_ASKING, *_SENDING, *_OTHER)

_PROMPTS: Mapping[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}
"""The prompts, and their arguments."""

_RESOURCES = {
    "test://static-text": {
        "mimeType": "text/plain",
        "text": "This is the content of the static text resource.",
    },
    "test://static-binary": {"mimeType": "image/png", "blob": _png()},
    "test://watched-resource": {"mimeType": "text/plain", "text": "watched"},
}
_TEMPLATE = re.compile(r"test://template/([^/]+)/data")


def _signed(told: Any) -> str:
    """Give a state that travels through the client, sealed."""
    text = json.dumps(told)
    return f"{text}.{hmac.new(_KEY, text.encode(), hashlib.sha256).hexdigest()}"


def _opened(state: str | None) -> Any:
    """Read a sealed state; None where there is none.

    Raises:
        MCPError: somebody changed it.
    """
    if state is None:
        return None
    text, _, _ = state.rpartition(".")
    if not hmac.compare_digest(state.encode(), _signed(json.loads(text or "null")).encode()):
        raise MCPError(code=_INVALID_PARAMS, message="The request state was changed")
    return json.loads(text)


def _capabilities(context: Context) -> Mapping[str, Any]:
    known = context.session.client_capabilities
    return {} if known is None else known.model_dump(by_alias=True, exclude_none=True)


def _ask(context: Context, name: str, rounds: list[dict[str, dict[str, Any]]]) -> HandlerResult | None:
    """Ask for what the next round needs; None where every round was answered."""
    params = context.params or {}
    answers = params.get("inputResponses") or {}
    state = _opened(params.get("requestState"))
    number = 0 if state is None else int(state["round"])
    if not (isinstance(answers, Mapping) and all(isinstance(answer, Mapping) for answer in answers.values())):
        raise MCPError(code=_INVALID_PARAMS, message="inputResponses holds what is no answer")
    has_answers = bool(rounds[number].keys() & answers.keys()) and rounds[number].keys() <= answers.keys()
    number += has_answers
    if number == len(rounds):
        return None
    declared = _capabilities(context)
    asked = {key: each for key, each in rounds[number].items() if _CAPABILITY[each["method"]] in declared}
    if not asked:
        missing = {_CAPABILITY[each["method"]]: {} for each in rounds[number].values()}
        raise MCPError(
            code=_MISSING_CAPABILITY,
            message="The client lacks a capability",
            data={"requiredCapabilities": missing},
        )
    return {
        "resultType": "input_required",
        "inputRequests": asked,
        "requestState": _signed({"tool": name, "round": number}),
    }


async def _call(context: Context) -> HandlerResult | None:
    """Carry out a fixture; None where the tool is none."""
    params = context.params or {}
    name = str(params.get("name"))
    if name in _PLAIN:
        return {"content": _PLAIN[name]}
    if name in _SCHEMAS:
        return {"content": [_text(json.dumps(params.get("arguments")))]}
    if name in _ASKING:
        asked = _ask(context, name, _ASKING[name])
        answers = json.dumps(params.get("inputResponses"))
        return asked or {"content": [_text(f"Hello, state-ok: {answers}")]}
    if name == "test_error_handling":
        return {"content": [_text("This tool intentionally returns an error for testing")], "isError": True}
    if name == "test_missing_capability":
        if "sampling" not in _capabilities(context):
            raise MCPError(
                code=_MISSING_CAPABILITY,
                message="The client has to sample",
                data={"requiredCapabilities": {"sampling": {}}},
            )
        return {"content": [_text("sampled")]}
    if name in _FORMS and context.session.can_send_request:
        message = str((params.get("arguments") or {}).get("message", "Please fill this in"))
        filled = await context.session.elicit_form(
            message, _FORMS[name], related_request_id=context.request_id
        )
        return {"content": [_text(f"User response: action={filled.action}, content={filled.content}")]}
    if name == "test_sampling" and context.session.can_send_request:
        prompt = TextContent(type="text", text=str((params.get("arguments") or {}).get("prompt")))
        sampled = await context.session.create_message(
            [SamplingMessage(role="user", content=prompt)],
            max_tokens=100,
            related_request_id=context.request_id,
        )
        return {"content": [_text(f"LLM response: {sampled.content}")]}
    if name == "test_tool_with_progress":
        for progress in (0, 50, 100):
            await context.session.report_progress(progress, 100)
            await anyio.sleep(0.05)
    elif name in _SENDING:
        for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await context.session.send_log_message(
                level="info", data=text, related_request_id=context.request_id
            )
            await anyio.sleep(0.05)
    elif name not in _OTHER:
        return None
    return {"content": [_text(f"{name} was carried out")]}


def _get_prompt(context: Context) -> HandlerResult | None:
    params = context.params or {}
    name, given = str(params.get("name")), params.get("arguments") or {}
    if name not in _PROMPTS:
        return None
    if name == "test_input_required_result_prompt":
        asked = _ask(
            context, name, [{"user_context": _form("What context should the prompt use?", context="string")}]
        )
        if asked is not None:
            return asked
    parts = {
        "test_simple_prompt": [_text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments": [
            _text(f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'")
        ],
        "test_prompt_with_embedded_resource": [
            _resource(str(given.get("resourceUri")), "text/plain", "Embedded resource content for testing."),
            _text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image": [_IMAGE, _text("Please analyze the image above.")],
        "test_input_required_result_prompt": [_text(json.dumps(params.get("inputResponses")))],
    }
    return {"messages": [{"role": "user", "content": part} for part in parts[name]]}


def _read(context: Context) -> HandlerResult | None:
    uri = str((context.params or {}).get("uri"))
    if (found := _TEMPLATE.fullmatch(uri)) is not None:
        told = {"id": found[1], "templateTest": True, "data": f"Data for ID: {found[1]}"}
        content = {"mimeType": "application/json", "text": json.dumps(told)}
    elif uri in _RESOURCES:
        content = _RESOURCES[uri]
    else:
        return None
    return {"contents": [{"uri": uri, **content}], "ttlMs": 0, "cacheScope": "private"}


def _complete(context: Context) -> HandlerResult | None:
    ref = (context.params or {}).get("ref") or {}
    if ref.get("name") not in _PROMPTS:
        return None
    return {"completion": {"values": ["paris", "park", "party"], "total": 3, "hasMore": False}}


def _listed() -> Mapping[str, tuple[str, list[dict[str, Any]]]]:
    """Give what each list has besides the real ones."""
    tools = [
        {"name": name, "description": f"Fixture {name}", "inputSchema": _SCHEMAS.get(name, _EMPTY)}
        for name in _TOOLS
    ]
    resources = [
        {"uri": uri, "name": uri, "description": "Fixture", "mimeType": content["mimeType"]}
        for uri, content in _RESOURCES.items()
    ]
    template = {"uriTemplate": "test://template/{id}/data", "name": "template", "description": "Fixture"}
    prompts = [
        {
            "name": name,
            "description": f"Fixture {name}",
            "arguments": [{"name": each, "description": each, "required": True} for each in given],
        }
        for name, given in _PROMPTS.items()
    ]
    return {
        "tools/list": ("tools", tools),
        "resources/list": ("resources", resources),
        "resources/templates/list": ("resourceTemplates", [template]),
        "prompts/list": ("prompts", prompts),
    }


_ANSWERS: Mapping[str, Callable[[Context], HandlerResult | None]] = {
    "prompts/get": _get_prompt,
    "resources/read": _read,
    "completion/complete": _complete,
}


async def _fixtures(context: Context, call_next: CallNext) -> HandlerResult:
    """Answer for a fixture, and let all else go its way."""
    answer = None
    if context.method == "tools/call":
        answer = await _call(context)
    elif context.method in _ANSWERS:
        answer = _ANSWERS[context.method](context)
    elif context.method in _ACCEPTED and not is_version_at_least(context.protocol_version, _STATELESS_SINCE):
        return {}
    if isinstance(answer, dict):
        return {"resultType": "complete", **answer}
    result = await call_next(context)
    if context.method in _LISTED:
        name, more = _LISTED[context.method]
        told = (
            dict(result)
            if isinstance(result, Mapping)
            else result.model_dump(by_alias=True, exclude_none=True)
        )  # type: ignore[union-attr]
        return {**told, name: [*told[name], *more]}
    return result


_LISTED = _listed()
_STATELESS_SINCE = "2026-07-28"
_ACCEPTED = ("logging/setLevel", "resources/subscribe", "resources/unsubscribe")
"""What is taken, of no use to anybody here, up to the version that dropped it."""


def with_fixtures(*arguments: Any, **options: Any) -> Server[Any]:
    """Build the real server, and let it answer for the fixtures as well."""
    server = build_server(*arguments, **options)
    real = server.get_tool_input_schema
    server.get_tool_input_schema = lambda name: _SCHEMAS.get(name) or (real(name) if real else None)
    server.middleware.append(_fixtures)
    return server


if __name__ == "__main__":
    serving.build_server = with_fixtures
    settings = replace(load_settings(flags={"journal": sys.argv[2]}), http=HttpSettings(sticky=True))
    sys.exit(serving.serve_http(settings, sys.argv[1], version="fixtures"))
