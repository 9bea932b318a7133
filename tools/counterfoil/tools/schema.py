"""Slims the JSON schemas that pydantic generates, since every byte of them is read by a model at each turn.

Generated titles, null branches, null defaults and references that are shorter written out are dropped.
None of it changes what is accepted: arguments that are null are taken as not given (`arguments.py`).
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

__all__ = ["input_schema", "output_schema"]

_LAST = ("call_id", "trace")
"""Members of every writing tool; they stand last so that a reader meets the tool's own first."""


@cache
def input_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Give the slim schema of `model` for `tools/list`; the caller does not change it.

    The members of `trace` are told in words, once, in the first tool: written out they would cost more
    than any field that matters. Unknown ones are refused all the same.
    """
    slim = _slim(model.model_json_schema(), {}, keep_null=False)
    slim.pop("description", None)
    properties = slim["properties"]
    for name in _LAST:
        if name in properties:
            properties[name] = properties.pop(name)
    trace = properties["trace"]
    for part in ("properties", "additionalProperties"):
        trace.pop(part)
    return slim


@cache
def output_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Give the schema of an answer: nulls and further members stay allowed, so that no answer fails it.

    Nor does a fault. Gemini CLI takes a fault's text for structured content and holds it against this schema;
    where it does not fit, its model is shown the mismatch in place of the fault. So nothing is required, and
    `recorded`, which in a fault says whether something was, may be a boolean.
    """
    slim = _slim(model.model_json_schema(), {}, keep_null=True)
    slim.pop("description", None)
    slim.pop("required", None)
    if "recorded" in slim["properties"]:
        slim["properties"]["recorded"]["anyOf"].append({"type": "boolean"})
    return slim


def _slim(schema: Mapping[str, Any], definitions: Mapping[str, Any], *, keep_null: bool) -> dict[str, Any]:
    definitions = schema.get("$defs", definitions)
    if "$ref" in schema:
        target = definitions[schema["$ref"].removeprefix("#/$defs/")]
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    if "anyOf" in schema and not keep_null:
        branches = [branch for branch in schema["anyOf"] if branch.get("type") != "null"]
        if len(branches) == 1:
            own = {key: value for key, value in schema.items() if key != "anyOf"}
            return _slim({**branches[0], **own}, definitions, keep_null=keep_null)
    slim: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("title", "$defs") or (
            key == "default" and (value in (None, [], ()) or not isinstance(value, str))
        ):
            continue
        if key == "additionalProperties" and value is True:
            continue
        if key == "properties":
            slim[key] = {name: _slim(part, definitions, keep_null=keep_null) for name, part in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, Mapping):
            if part := _slim(value, definitions, keep_null=keep_null):
                slim[key] = part
        elif key == "anyOf":
            slim[key] = [_slim(part, definitions, keep_null=keep_null) for part in value]
        else:
            slim[key] = value
    return slim
