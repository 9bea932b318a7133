"""Tells whether arguments fit a tool's schema so little that no server would have run the tool with them.

A schema promises less than it seems to: SDKs make 5 of "5" and "5" of 5, drop what they do not know, and fill
in what has a default. So only what none of them forgives counts, at the first level: an argument that is
required and missing, and an object where a number belongs. A misfit that is not seen here merely leaves a
call in doubt.
"""

from collections.abc import Mapping
from typing import Any

__all__ = ["misfit"]

_NUMBERS = ("integer", "number")
_SHOWN = 100


def misfit(schema: Any, arguments: Mapping[str, Any]) -> str | None:
    """Say what surely does not fit, or None where nothing does."""
    if not isinstance(schema, Mapping):
        return None
    required, properties = schema.get("required"), schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    for name in required if isinstance(required, list) else ():
        if isinstance(name, str) and name not in arguments and not _has_default(properties.get(name)):
            return f"the argument {name[:_SHOWN]} is missing"
    for name, value in arguments.items():
        described = properties.get(name)
        wanted = described.get("type") if isinstance(described, Mapping) else None
        if isinstance(wanted, str) and wanted in _NUMBERS and isinstance(value, Mapping):
            return f"the argument {name[:_SHOWN]} is an object, and a number belongs there"
    return None


def _has_default(schema: Any) -> bool:
    """Tell whether a server may fill an argument in; some list such arguments as required."""
    return isinstance(schema, Mapping) and "default" in schema
