"""Takes the raw arguments of a call into the tool's input model, or refuses them by name.

Whatever is refused names the field and the accepted form, and never repeats the value: it may be a secret.
"""

import difflib
import json
import math
import re
import types
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from counterfoil.store.errors import Fault, InvalidArgument, TooLarge
from counterfoil.tools.inputs import Closed, Input
from counterfoil.tools.limits import Limits
from counterfoil.tools.reading import LONGEST_INTEGER, Unreadable, depth_of, read_json

__all__ = ["DEEPEST_BODY", "take_arguments"]

DEEPEST_BODY = 32
"""Nesting that a body may have (CONTRACT.md, section 2)."""

MOST_NAMES = 500
"""Items in a list of names; far over any plan, and bounds what one call can make the journal compare."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_Model = TypeVar("_Model", bound=Input)


def take_arguments(model: type[_Model], given: Any, *, limits: Limits) -> _Model:
    """Give the arguments as `model`.

    Objects and lists given as JSON text are taken as what they denote, except where the field is a text or
    any JSON: there a text stays a text. A null counts as not given.

    Raises:
        InvalidArgument: an unknown name, a missing one, a wrong type or form, a number out of range or
            not finite, a lone surrogate, or nesting over DEEPEST_BODY.
        TooLarge: a text, list or body over its limit.
    """
    if isinstance(given, str):
        given = _from_text("arguments", given, dict, 'an object, like {"run": "weekly-report/2026-W48"}')
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise InvalidArgument(
            "arguments", f"is {_kind(given)}", accepted="an object with the tool's parameters"
        )
    prepared = _prepare(model, given, "", limits)
    try:
        return model.model_validate(prepared)
    except ValidationError as error:
        raise _as_fault(model, error) from None


def _prepare(model: type[BaseModel], given: Mapping[str, Any], path: str, limits: Limits) -> dict[str, Any]:
    """Give the members of `given` that count, with JSON text read where an object or list is meant."""
    prepared: dict[str, Any] = {}
    for name, value in given.items():
        field = f"{path}{_plain(name)}"
        if name not in model.model_fields:
            raise _unknown(field, name, model.model_fields)
        if value is None:
            continue
        annotation = model.model_fields[name].annotation
        kinds = set(_kinds(annotation))
        if dict in kinds or list in kinds:
            prepared[name] = _container(field, value, kinds, limits)
        elif nested := next(
            (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Closed)), None
        ):
            members = value
            if isinstance(value, str):
                members = _from_text(field, value, dict, "an object")
            if not isinstance(members, dict):
                raise InvalidArgument(field, f"is {_kind(value)}", accepted="an object")
            prepared[name] = _prepare(nested, members, f"{field}.", limits)
        elif annotation is Any:
            _check_body(field, value, limits)
            prepared[name] = value
        else:
            _check_scalar(field, value, limits)
            prepared[name] = value
    return prepared


def _container(field: str, value: Any, kinds: set[Any], limits: Limits) -> Any:
    wanted, accepted = (dict, "an object") if dict in kinds else (list, 'a list of strings, like ["a", "b"]')
    if isinstance(value, str):
        value = _from_text(field, value, wanted, accepted)
    if not isinstance(value, wanted):
        raise InvalidArgument(field, f"is {_kind(value)}", accepted=accepted)
    if isinstance(value, dict):
        _check_body(field, value, limits)
        return value
    if len(value) > MOST_NAMES:
        raise TooLarge(field, size=len(value), limit=MOST_NAMES, unit="items")
    for index, item in enumerate(value):
        if not isinstance(item, str):
            raise InvalidArgument(f"{field}[{index}]", f"is {_kind(item)}", accepted="a string")
        _check_scalar(f"{field}[{index}]", item, limits)
    return value


def _from_text(field: str, text: str, wanted: type, accepted: str) -> Any:
    try:
        value = read_json(text)
    except Unreadable as unreadable:
        raise InvalidArgument(
            field, f"is a string that cannot be read as JSON: {unreadable.problem}", accepted=accepted
        ) from None
    if not isinstance(value, wanted):
        raise InvalidArgument(field, f"is a string that denotes {_kind(value)}", accepted=accepted)
    return value


def _check_scalar(field: str, value: Any, limits: Limits) -> None:
    if isinstance(value, str):
        if len(value) > limits.text_characters:
            raise TooLarge(field, size=len(value), limit=limits.text_characters, unit="characters")
        _check_text(field, value)
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidArgument(field, "is not a finite number", accepted="a finite number")
    elif isinstance(value, int):
        _check_integer(field, value)


def _check_text(field: str, value: str) -> None:
    if _LONE_SURROGATE.search(value):
        raise InvalidArgument(
            field, "holds a lone surrogate (half of a character)", accepted="well-formed Unicode"
        )


def _check_integer(field: str, value: int) -> None:
    if value.bit_length() > LONGEST_INTEGER * 3:
        raise InvalidArgument(
            field,
            "holds an integer that is too long",
            accepted="integers of up to 3,600 digits; longer ones as text",
        )


def _check_body(field: str, value: Any, limits: Limits) -> None:
    """Refuse a body that cannot be kept exactly as it was given, or is too large."""
    if depth_of(value, DEEPEST_BODY) > DEEPEST_BODY:
        raise InvalidArgument(
            field, f"is nested deeper than {DEEPEST_BODY}", accepted=f"nesting of at most {DEEPEST_BODY}"
        )
    pending: list[tuple[str, Any]] = [(field, value)]
    while pending:
        path, item = pending.pop()
        if isinstance(item, str):
            _check_text(path, item)
        elif isinstance(item, dict):
            for name, member in item.items():
                _check_text(f"a member name in {path}", name)
                pending.append((f"{path}.{_plain(name)}", member))
        elif isinstance(item, list):
            pending.extend((f"{path}[{index}]", member) for index, member in enumerate(item))
        elif isinstance(item, float) and not math.isfinite(item):
            raise InvalidArgument(
                path, "is not a finite number", accepted="finite numbers; write others as text"
            )
        elif isinstance(item, int):
            _check_integer(path, item)
    size = len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
    limit = limits.of_body(field.rpartition(".")[2])
    if size > limit:
        raise TooLarge(field, size=size, limit=limit, unit="bytes")


def _unknown(field: str, name: str, names: Iterable[str]) -> InvalidArgument:
    accepted = list(names)
    near = difflib.get_close_matches(name, accepted, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}? Accepted are " if near else "accepted are "
    return InvalidArgument(field, "is not a parameter of this tool", accepted=hint + ", ".join(accepted))


def _as_fault(model: type[BaseModel], error: ValidationError) -> Fault:
    """Name the first thing that is wrong, and what would be right."""
    details = error.errors(include_url=False, include_input=True)[0]
    field = ".".join(str(part) for part in details["loc"] if isinstance(part, str) and not part.endswith("]"))
    problem, accepted = _words(details)
    if details["type"] == "missing" and "." not in field:
        description = model.model_fields[field].description
        accepted = f"it is required: {description}" if description else "it is required"
    return InvalidArgument(field or "arguments", problem, accepted=accepted)


def _words(details: ErrorDetails) -> tuple[str, str]:
    context = details.get("ctx", {})
    kind = _kind(details["input"])
    match details["type"]:
        case "form":
            return str(context["problem"]), str(context["accepted"])
        case "missing":
            return "is missing", "it is required"
        case "literal_error":
            return "is none of the accepted values", f"one of {context['expected']}"
        case "string_type":
            return f"is {kind}", "a string"
        case "int_from_float" | "int_parsing" | "int_type" | "int_parsing_size":
            return f"is {kind}, not a whole number", "a whole number"
        case "float_parsing" | "float_type" | "finite_number":
            return f"is {kind}, not a number", "a number"
        case _:
            return f"is {kind}", str(details["msg"])


def _kinds(annotation: Any) -> Iterable[Any]:
    """Give the plain types that `annotation` allows: dict, list, a model, …"""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        for branch in get_args(annotation):
            yield from _kinds(branch)
    else:
        yield origin or annotation


def _kind(value: Any) -> str:
    """Say in a word what JSON calls `value`."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return "of an unknown kind"


def _plain(name: str) -> str:
    """Give a member's name as it may stand in a message: short, printable."""
    short = name if len(name) <= 60 else name[:60] + "…"
    return "".join(character if character.isprintable() else "�" for character in short)
