"""Tells whether arguments plainly do not fit a tool's own schema: then a refusal for that reason is believed.

Only what can be seen at the first level is looked at (a missing argument, an unknown one, another type,
another value than the listed ones). A whole validator would follow a hostile server's references and run
its regular expressions; and a misfit that is not seen here merely leaves a call in doubt.
"""

from collections.abc import Mapping
from typing import Any

__all__ = ["misfit"]

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_SHOWN = 100


def misfit(schema: Any, arguments: Mapping[str, Any]) -> str | None:
    """Say what does not fit, or None where nothing is seen."""
    if not isinstance(schema, Mapping):
        return None
    required, properties = schema.get("required"), schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    for name in required if isinstance(required, list) else ():
        if isinstance(name, str) and name not in arguments:
            return f"the argument {name[:_SHOWN]} is missing"
    for name, value in arguments.items():
        if name not in properties:
            if schema.get("additionalProperties") is False and "patternProperties" not in schema:
                return f"the argument {name[:_SHOWN]} is not known"
        elif not _fits(properties[name], value):
            return f"the argument {name[:_SHOWN]} is of another type or value"
    return None


def _fits(schema: Any, value: Any) -> bool:
    if not isinstance(schema, Mapping):
        return True
    listed = schema.get("enum")
    if isinstance(listed, list) and not any(type(one) is type(value) and one == value for one in listed):
        return False
    named = schema.get("type")
    names = [named] if isinstance(named, str) else named
    if not isinstance(names, list) or not all(name in _TYPES for name in names):
        return True
    return any(_is_of(name, value) for name in names)


def _is_of(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])
