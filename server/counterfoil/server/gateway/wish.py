"""The one optional argument that effectful tools get: which run and key a call is meant under."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from counterfoil.store.errors import InvalidArgument
from counterfoil.tools.reading import Unreadable, read_json

__all__ = ["ARGUMENT", "NO_WISH", "Wish", "is_tools_own", "take_wish", "with_argument"]

ARGUMENT = "_counterfoil"

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "For the journal only, never sent to the tool; usually left out. The same call again is "
    "answered with its recorded result. To do the same thing once more on purpose, name in distinct_from the "
    "operations that it is distinct from (their ids stand in errors and in _meta).",
    "properties": {
        "run": {"type": "string", "description": "the run that this call belongs to"},
        "key": {
            "type": "string",
            "description": "a name for this effect that a later session would choose too",
        },
        "distinct_from": {
            "type": "array",
            "items": {"type": "string"},
            "description": 'operation ids; ["*"]: all settled ones',
        },
    },
    "additionalProperties": False,
}
_ACCEPTED = 'an object such as {"distinct_from": ["op_…"]}, with run, key and distinct_from only'
_MOST = 100


class Wish(Struct, frozen=True, kw_only=True):
    """What a call says of its place in the journal."""

    run: str | None = None
    key: str | None = None
    distinct_from: tuple[str, ...] = ()


NO_WISH = Wish()


def take_wish(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], Wish]:
    """Part the arguments that are passed on from what is meant for the journal.

    Raises:
        InvalidArgument: the argument has another form; nothing was passed on.
    """
    rest = {name: value for name, value in arguments.items() if name != ARGUMENT}
    given = _object(arguments.get(ARGUMENT))
    if given is None:
        return rest, NO_WISH
    if not isinstance(given, Mapping) or not given.keys() <= {"run", "key", "distinct_from"}:
        raise InvalidArgument(ARGUMENT, "has another form", accepted=_ACCEPTED)
    distinct = given.get("distinct_from") or []
    if isinstance(distinct, str):
        distinct = [distinct]
    is_fit = isinstance(distinct, list) and len(distinct) <= _MOST
    if not is_fit or not all(isinstance(one, str) for one in distinct):
        raise InvalidArgument(f"{ARGUMENT}.distinct_from", "is no list of ids", accepted=_ACCEPTED)
    for name in ("run", "key"):
        if given.get(name) is not None and not isinstance(given[name], str):
            raise InvalidArgument(f"{ARGUMENT}.{name}", "is no text", accepted=_ACCEPTED)
    wish = Wish(run=given.get("run"), key=given.get("key"), distinct_from=tuple(sorted(set(distinct))))
    return rest, wish


def _object(given: Any) -> Any:
    """Read an object that came as its text, as some clients send them."""
    if not isinstance(given, str):
        return given
    try:
        return read_json(given)
    except Unreadable:
        return given


def is_tools_own(tool: Mapping[str, Any]) -> bool:
    """Tell whether a tool, as its server lists it, has an argument of this name itself."""
    schema = tool.get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return isinstance(properties, Mapping) and ARGUMENT in properties


def with_argument(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Give a tool as it is listed with the argument added; one with a strange schema stays as it is."""
    schema = tool.get("inputSchema")
    properties = schema.get("properties", {}) if isinstance(schema, Mapping) else None
    if not isinstance(schema, Mapping) or not isinstance(properties, Mapping) or is_tools_own(tool):
        return dict(tool)
    return {**tool, "inputSchema": {**schema, "properties": {**properties, ARGUMENT: _SCHEMA}}}
