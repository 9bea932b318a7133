"""Takes the raw arguments of a call into the tool's input model, or refuses them by name.

Whatever is refused names the field and the accepted form, and never repeats the value: it may be a secret.
"""

import difflib
import math
import types
from collections.abc import Iterable, Mapping, Set
from functools import cache
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from msgspec import Struct
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from counterfoil.store.domain.canonical import check_value, parse_json, plain_json
from counterfoil.store.domain.characters import first_surrogate
from counterfoil.store.domain.untrusted import quoted_whole
from counterfoil.store.errors import Fault, InvalidArgument, TooLarge
from counterfoil.store.limits import Limits, body_bytes
from counterfoil.tools.inputs import Closed, Input

__all__ = ["take_arguments"]

MOST_NAMES = 500
"""Items in a list of names; far over any plan, and bounds what one call can make the journal compare."""

_LONGEST_NAME = 60
"""Characters of an unknown member's name that a refusal quotes."""

_OBJECT = "an object with this tool's parameters"
_Model = TypeVar("_Model", bound=Input)


def take_arguments(model: type[_Model], given: Any, *, limits: Limits) -> _Model:
    """Give the arguments as `model`.

    Objects and lists given as JSON text are taken as what they denote, except where the field is a text or
    any JSON: there a text stays a text. Where a list of names is meant, a text that can only be one name is
    a list of that name. A null counts as not given.

    Raises:
        InvalidArgument: an unknown name, a missing one, a wrong type or form, a number out of range or
            not finite, a lone surrogate, or nesting over 32.
        TooLarge: a text, list or body over its limit.
    """
    if isinstance(given, str):
        given = _from_text("arguments", given, dict, _OBJECT, limits)
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise InvalidArgument("arguments", f"is {_kind(given)}", accepted=_OBJECT)
    prepared = _prepare(model, given, "", limits)
    try:
        return model.model_validate(prepared)
    except ValidationError as error:
        raise _as_fault(model, error) from None


class _Form(Struct, frozen=True, kw_only=True):
    """What a member may be: a list of models, a model, any JSON, or else what `kinds` says."""

    kinds: frozenset[Any]
    item: type[Closed] | None
    nested: type[Closed] | None
    is_any: bool

    @property
    def is_container(self) -> bool:
        return dict in self.kinds or list in self.kinds


@cache
def _forms(model: type[BaseModel]) -> Mapping[str, _Form]:
    """Give the form of each member of `model`; a model never changes, and every call asks."""
    return {name: _form(field.annotation) for name, field in model.model_fields.items()}


def _form(annotation: Any) -> _Form:
    kinds = frozenset(_kinds(annotation))
    models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Closed)]
    return _Form(
        kinds=kinds,
        item=_item_model(annotation),
        nested=models[0] if models else None,
        is_any=annotation is Any,
    )


def _prepare(model: type[BaseModel], given: Mapping[str, Any], path: str, limits: Limits) -> dict[str, Any]:
    """Give the members of `given` that count, with JSON text read where an object or list is meant."""
    prepared: dict[str, Any] = {}
    forms = _forms(model)
    for name, value in given.items():
        form = forms.get(name)
        if form is None:
            raise _unknown(f"{path}{_plain(name)}", name, forms)
        if value is None:
            continue
        field = f"{path}{name}"
        if form.item is not None:
            prepared[name] = _objects(form.item, value, field, limits)
        elif form.is_container:
            prepared[name] = _container(field, value, form.kinds, limits)
        elif form.nested is not None:
            members = value
            if isinstance(value, str):
                members = _from_text(field, value, dict, "an object", limits)
            if not isinstance(members, dict):
                raise InvalidArgument(field, f"is {_kind(value)}", accepted="an object")
            prepared[name] = _prepare(form.nested, members, f"{field}.", limits)
        elif form.is_any:
            _check_body(field, value, limits)
            prepared[name] = value
        else:
            _check_scalar(field, value, limits)
            prepared[name] = value
    return prepared


def _item_model(annotation: Any) -> type[Closed] | None:
    """Give the model of the items where `annotation` is a list of objects with named members."""
    for branch in _branches(annotation):
        for item in get_args(branch) if get_origin(branch) is list else ():
            if isinstance(item, type) and issubclass(item, Closed):
                return item
    return None


def _objects(model: type[Closed], value: Any, field: str, limits: Limits) -> list[dict[str, Any]]:
    accepted = 'a list of objects, like [{"…": "…"}]'
    if isinstance(value, str):
        value = _from_text(field, value, list, accepted, limits)
    if not isinstance(value, list):
        raise InvalidArgument(field, f"is {_kind(value)}", accepted=accepted)
    if len(value) > MOST_NAMES:
        raise TooLarge(field, size=len(value), limit=MOST_NAMES, unit="items")
    prepared = []
    for index, item in enumerate(value):
        here = f"{field}[{index}]"
        if isinstance(item, str):
            item = _from_text(here, item, dict, "an object", limits)
        if not isinstance(item, dict):
            raise InvalidArgument(here, f"is {_kind(item)}", accepted="an object")
        prepared.append(_prepare(model, item, f"{here}.", limits))
    return prepared


def _container(field: str, value: Any, kinds: Set[Any], limits: Limits) -> Any:
    wanted, accepted = (dict, "an object") if dict in kinds else (list, 'a list of strings, like ["a", "b"]')
    if wanted is list and isinstance(value, str) and _is_one_name(field, value):
        value = [value]
    elif isinstance(value, str):
        value = _from_text(field, value, wanted, accepted, limits)
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


def _is_one_name(field: str, text: str) -> bool:
    """Tell whether `text`, given where a list of names is meant, can only be one name.

    JSON is none, not even where it is broken; nor is a text with a comma, which may be two names or one.
    """
    if not text.strip() or text.lstrip()[0] in '[{"' or "," in text:
        return False
    try:
        parse_json(text, field=field)
    except InvalidArgument:
        return True
    return False


def _from_text(field: str, text: str, wanted: type, accepted: str, limits: Limits) -> Any:
    # Escapes can make a text six times as long as what it denotes; a list holds many bodies.
    size = limits.payload_bytes if wanted is list else limits.of_body(field.rpartition(".")[2])
    most = 6 * size
    if len(text) > most:
        raise TooLarge(field, size=len(text), limit=most, unit="characters of JSON text")
    try:
        value = parse_json(text, field=field)
    except InvalidArgument as fault:
        raise InvalidArgument(
            field, f"is a string, read as JSON: {fault.message}", accepted=accepted
        ) from None
    if not isinstance(value, wanted):
        raise InvalidArgument(field, f"is a string that denotes {_kind(value)}", accepted=accepted)
    return value


def _check_scalar(field: str, value: Any, limits: Limits) -> None:
    if isinstance(value, str):
        if len(value) > limits.text_characters:
            raise TooLarge(field, size=len(value), limit=limits.text_characters, unit="characters")
        if first_surrogate(value) is not None:
            raise InvalidArgument(
                field, "holds a lone surrogate (half of a character)", accepted="whole characters"
            )
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidArgument(field, "is not a finite number", accepted="a finite number")


def _check_body(field: str, value: Any, limits: Limits) -> None:
    """Refuse a body that cannot be kept exactly as it was given, or is too large."""
    check_value(value, field=field)
    size = body_bytes(value, plain_json(value, is_checked=True))
    limit = limits.of_body(field.rpartition(".")[2])
    if size > limit:
        raise TooLarge(field, size=size, limit=limit, unit="bytes")


def _unknown(field: str, name: str, names: Iterable[str]) -> InvalidArgument:
    accepted = list(names)
    meant = _OTHER_WORDS.get(name.lower())
    near = [meant] if meant in accepted else difflib.get_close_matches(name, accepted, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}? Accepted are " if near else "accepted are "
    return InvalidArgument(field, "is not a parameter of this tool", accepted=hint + ", ".join(accepted))


_OTHER_WORDS = {
    "arguments": "args",
    "body": "payload",
    "content": "payload",
    "id": "operation",
    "message_id": "external_id",
    "operation_id": "operation",
    "params": "args",
    "recipient": "target",
    "reference": "external_id",
    "to": "target",
    "transaction_id": "external_id",
}
"""What callers call a parameter whose own name is spelt nothing like it."""


def _as_fault(model: type[BaseModel], error: ValidationError) -> Fault:
    """Name the first thing that is wrong, and what would be right."""
    details = error.errors(include_url=False, include_input=True)[0]
    field = ""
    for part in details["loc"]:
        if isinstance(part, int):
            field += f"[{part}]"
        elif not part.endswith("]"):
            field += f".{part}" if field else part
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
    for branch in _branches(annotation):
        yield get_origin(branch) or branch


def _branches(annotation: Any) -> Iterable[Any]:
    """Give the types that `annotation` allows, with their parameters."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        for branch in get_args(annotation):
            yield from _branches(branch)
    elif origin is Annotated:
        yield from _branches(get_args(annotation)[0])
    else:
        yield annotation


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
    """Give a member's name as it may stand in a message: whole or not at all, printable."""
    shown = quoted_whole(name, limit=_LONGEST_NAME)
    return "".join(character if character.isprintable() else "�" for character in shown)
