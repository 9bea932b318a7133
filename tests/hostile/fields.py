"""Every field of every tool, found in the tools' own input models, so that a new one is covered by itself.

The models are walked and not the listed schemas: these leave out what is told in words (the members of
`trace`, a lookup inside a plan), and all of it is taken.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from counterfoil.tools.catalogue import ALL_TOOLS
from counterfoil.tools.specification import ToolSpecification

__all__ = ["REFERENCES", "TOOLS", "Field", "fields_of", "kinds_of", "minimal", "placed"]

TOOLS: Mapping[str, ToolSpecification] = {tool.name: tool for tool in ALL_TOOLS}
REFERENCES = ("run", "key")
"""What names the operation, wherever a tool takes it so."""

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One place of a tool's arguments. `kind` is text, choice, number, truth, object or any."""

    tool: str
    path: Path
    kind: str
    options: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Give it as a reader writes it."""
        return f"{self.tool}: {'.'.join(map(str, self.path))}"


def kinds_of(annotation: Any) -> Iterator[Any]:
    """Give the types that an annotation allows, None left out."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from kinds_of(get_args(annotation)[0])
    elif origin is Union or str(origin) == "<class 'types.UnionType'>":
        for branch in get_args(annotation):
            yield from kinds_of(branch)
    elif annotation is not type(None):
        yield annotation


def fields_of(tool: str) -> list[Field]:
    """Give every place of a tool's arguments."""
    return list(_fields(tool, TOOLS[tool].input_model, ()))


def _fields(tool: str, model: type[BaseModel], path: Path) -> Iterator[Field]:
    for name, info in model.model_fields.items():
        yield from _places(tool, info.annotation, (*path, name))


def _places(tool: str, annotation: Any, path: Path) -> Iterator[Field]:
    [kind] = kinds_of(annotation)
    origin = get_origin(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield from _fields(tool, kind, path)
    elif origin is list:
        yield from _places(tool, get_args(kind)[0], (*path, 0))
    elif origin is Literal:
        yield Field(tool=tool, path=path, kind="choice", options=get_args(kind))
    else:
        named = {str: "text", int: "number", float: "number", bool: "truth", Any: "any"}
        yield Field(tool=tool, path=path, kind="object" if origin is dict else named[kind])


def minimal(tool: str, *, choice: int = 0, **given: Any) -> dict[str, Any]:
    """Give the least arguments that `tool` takes; `choice` says which option of what has to be chosen."""
    return {**_minimal(TOOLS[tool].input_model, choice), **given}


def _minimal(model: type[BaseModel], choice: int) -> dict[str, Any]:
    return {
        name: _least(name, info, choice) for name, info in model.model_fields.items() if info.is_required()
    }


def _least(name: str, info: FieldInfo, choice: int) -> Any:
    [kind] = kinds_of(info.annotation)
    if get_origin(kind) is Literal:
        options = get_args(kind)
        return options[choice % len(options)]
    if kind is str:
        return f"the {name}"
    if kind in (int, float):
        return 1
    raise LookupError(f"{name} is required, and nothing is known that could stand there")


def choices(tool: str) -> int:
    """Tell in how many ways `minimal` has to be asked so that every option of what is required is seen."""
    counts = [
        len(get_args(kind))
        for info in TOOLS[tool].input_model.model_fields.values()
        if info.is_required()
        for kind in kinds_of(info.annotation)
        if get_origin(kind) is Literal
    ]
    return max(counts, default=1)


def placed(tool: str, path: Path, value: Any) -> dict[str, Any]:
    """Give the arguments that hold `value` at `path`, with what is required beside it on the way."""
    found: dict[str, Any] = _put(TOOLS[tool].input_model, path, value, is_top=True)
    return found


def _put(model: type[BaseModel], path: Path, value: Any, *, is_top: bool = False) -> dict[str, Any]:
    name, *rest = path
    if not isinstance(name, str):
        raise LookupError(f"{name} is no member")
    [kind] = kinds_of(model.model_fields[name].annotation)
    in_list = bool(rest) and rest[0] == 0
    if in_list:
        kind, rest = get_args(kind)[0], rest[1:]
    inner = _put(kind, tuple(rest), value) if rest else value
    beside = {} if is_top else _minimal(model, 0)
    return {**beside, name: [inner] if in_list else inner}
