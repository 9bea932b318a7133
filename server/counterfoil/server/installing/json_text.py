"""Adds to a JSON text and takes back from it, and leaves every other character as it stands.

Clients keep people's settings in these files, with comments and trailing commas in some. So a text is never
read, changed as a value and written anew: what is added is put into it, what is taken back is cut out of it.
A path is made of member names; `Where` picks the object of an array that has a member of this value.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, field

__all__ = ["NotJSON", "Path", "Where", "add_item", "add_member", "cut_item", "cut_member", "value_at"]


class NotJSON(ValueError):
    """The text is no JSON object, or does not have the shape that the path needs."""


class Where(Struct, frozen=True):
    """The object, in an array of objects, whose member `name` is `value`."""

    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.name} {self.value}"


Path = Sequence[str | Where]

_INDENT = "  "


class _Node(Struct):
    """A value in the text. `parts` are members with their key's start, or items."""

    start: int
    end: int = 0
    value: Any = None
    parts: list["_Part"] = field(default_factory=list)

    @property
    def is_object(self) -> bool:
        return isinstance(self.value, dict)

    def child(self, step: str | Where) -> "_Node | None":
        for part in self.parts:
            node = part.node
            if isinstance(step, str) and part.key == step:
                return node
            if isinstance(step, Where) and node.is_object and node.value.get(step.name) == step.value:
                return node
        return None


class _Part(Struct):
    start: int
    node: _Node
    key: str | None = None


class _Reader:
    """Reads JSON with comments and trailing commas, and remembers where everything stands."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0
        self._decoder = json.JSONDecoder()

    def read(self) -> _Node:
        try:
            self.skip()
            node = self._value()
            self.skip()
        except (ValueError, RecursionError, IndexError) as error:
            raise NotJSON(f"it cannot be read near character {self.at}") from error
        if self.at != len(self._text) or not node.is_object:
            raise NotJSON("it is not one JSON object")
        return node

    def skip(self) -> None:
        """Go over white space and comments."""
        text = self._text
        while self.at < len(text):
            if text[self.at] in " \t\r\n\ufeff":
                self.at += 1
            elif text.startswith("//", self.at):
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            elif text.startswith("/*", self.at):
                self.at = text.index("*/", self.at + 2) + 2
            else:
                return

    def _value(self) -> _Node:
        node = _Node(self.at)
        opening = self._text[self.at]
        if opening == "{":
            node.value = {}
            for part in self._parts("}", has_keys=True):
                node.parts.append(part)
                node.value[part.key] = part.node.value
        elif opening == "[":
            node.value = []
            for part in self._parts("]", has_keys=False):
                node.parts.append(part)
                node.value.append(part.node.value)
        else:
            node.value, self.at = self._decoder.raw_decode(self._text, self.at)
        node.end = self.at
        return node

    def _parts(self, closing: str, *, has_keys: bool) -> Iterator[_Part]:
        self.at += 1
        self.skip()
        while self._text[self.at] != closing:
            start, key = self.at, None
            if has_keys:
                key, self.at = self._decoder.raw_decode(self._text, self.at)
                self.skip()
                if not isinstance(key, str) or self._text[self.at] != ":":
                    raise NotJSON("a member without a name")
                self.at += 1
                self.skip()
            yield _Part(start, self._value(), key)
            self.skip()
            if self._text[self.at] == ",":
                self.at += 1
                self.skip()
            elif self._text[self.at] != closing:
                raise NotJSON("a comma is missing")
        self.at += 1


def value_at(text: str, path: Path) -> Any:
    """Give what stands at this path, None where nothing does.

    Raises:
        NotJSON: the text is no JSON object.
    """
    node: _Node | None = _Reader(text).read()
    for step in path:
        node = None if node is None else node.child(step)
    return None if node is None else node.value


def add_member(text: str, path: Path, value: Any) -> str:
    """Add a member at the path's end, and the objects on the way that are missing.

    Raises:
        NotJSON: something on the way is no object, is not there though it is picked by `Where`, or the
            member is there already.
    """
    node, rest = _nearest(text, path)
    if not rest:
        raise NotJSON("the member is there already")
    name, *inner = map(_name, rest)
    for step in reversed(inner):
        value = {step: value}
    if not node.is_object:
        raise NotJSON("no object stands where a member is to go")
    return _put(text, node, f"{json.dumps(name, ensure_ascii=False)}: ", value)


def add_item(text: str, path: Path, value: Any) -> str:
    """Add an item at the end of the array at this path, which is made where it is missing.

    Raises:
        NotJSON: something else stands there, or on the way.
    """
    node, rest = _nearest(text, path)
    if rest:
        return add_member(text, path, [value])
    if not isinstance(node.value, list):
        raise NotJSON("no array stands where an item is to go")
    return _put(text, node, "", value)


def cut_member(text: str, path: Path) -> str:
    """Cut out the member at this path; give the text as it is where there is none."""
    node, rest = _nearest(text, path[:-1])
    wanted = path[-1]
    for place, part in enumerate(node.parts):
        if not rest and part.key == wanted:
            return _cut(text, node, place)
    return text


def cut_item(text: str, path: Path, value: Any) -> str:
    """Cut the first item that equals `value` out of the array at this path, where there is one."""
    node, rest = _nearest(text, path)
    for place, part in enumerate(node.parts):
        if not rest and part.key is None and part.node.value == value:
            return _cut(text, node, place)
    return text


def _nearest(text: str, path: Path) -> tuple[_Node, Path]:
    """Give the deepest value on the path that is there, and the steps that are not."""
    node = _Reader(text).read()
    for done, step in enumerate(path):
        child = node.child(step)
        if child is None:
            return node, path[done:]
        node = child
    return node, ()


def _name(step: str | Where) -> str:
    if isinstance(step, Where):
        raise NotJSON(f"no entry in it has the {step}")
    return step


def _put(text: str, node: _Node, head: str, value: Any) -> str:
    is_inline = bool(node.parts) and "\n" not in text[node.start : node.end]
    if is_inline:
        last = node.parts[-1].node.end
        return f"{text[:last]}, {head}{json.dumps(value, ensure_ascii=False)}{text[last:]}"
    outer = _indent_of(text, node.start)
    inner = _indent_of(text, node.parts[0].start) if node.parts else outer + _INDENT
    step = inner[len(outer) :] if inner.startswith(outer) and inner != outer else _INDENT
    written = json.dumps(value, indent=step, ensure_ascii=False).replace("\n", f"\n{inner}")
    if not node.parts:
        # Comments in an empty object stay where they are, behind what is added.
        inside = text[node.start + 1 : node.end - 1]
        tail = inside if inside.strip() else f"\n{outer}"
        return f"{text[: node.start + 1]}\n{inner}{head}{written}{tail}{text[node.end - 1 :]}"
    last = node.parts[-1].node.end
    comma = _comma_after(text, last, node.end)
    if comma is not None:
        end = _end_of_comments(text, comma + 1)
        return f"{text[:end]}\n{inner}{head}{written},{text[end:]}"
    end = _end_of_comments(text, last)
    return f"{text[:last]},{text[last:end]}\n{inner}{head}{written}{text[end:]}"


def _cut(text: str, node: _Node, place: int) -> str:
    part = node.parts[place]
    if place > 0:
        # With the comma and the white space before it: what follows keeps its own comma.
        start = _comma_after(text, node.parts[place - 1].node.end, node.end)
        between = "" if start is None else text[start + 1 : part.start]
        if start is not None and not between.strip():
            return text[:start] + text[part.node.end :]
        comma = _comma_after(text, part.node.end, node.end)
        end = part.node.end if comma is None else comma + 1
        kept = text[: part.start].rstrip()
        if comma is None and start is not None:
            # A comment stands between the comma before it and the last one: the comma goes alone.
            kept = text[:start] + text[start + 1 : part.start].rstrip()
        return kept + text[end:]
    if len(node.parts) == 1:
        comma = _comma_after(text, part.node.end, node.end)
        end = part.node.end if comma is None else comma + 1
        rest = text[end : node.end - 1]
        before = text[node.start + 1 : part.start]
        inside = before.rstrip() + (rest if rest.strip() else "")
        return text[: node.start + 1] + inside + text[node.end - 1 :]
    comma = _comma_after(text, part.node.end, node.end)
    end = part.node.end if comma is None else comma + 1
    return text[: part.start].rstrip(" \t\r\n") + text[end:]


def _end_of_comments(text: str, start: int) -> int:
    """Give where the comments end that stand behind a value in its line: they are about that value."""
    end = at = start
    while at < len(text) and text[at] in " \t":
        at += 1
        if text.startswith("//", at):
            stop = text.find("\n", at)
            return at + len(text[at : stop if stop >= 0 else len(text)].rstrip())
        if text.startswith("/*", at):
            end = at = text.index("*/", at + 2) + 2
    return end


def _comma_after(text: str, start: int, end: int) -> int | None:
    """Give where the comma stands that follows a value, None where it is the last and has none."""
    reader = _Reader(text)
    reader.at = start
    reader.skip()
    return reader.at if reader.at < end and text[reader.at] == "," else None


def _indent_of(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip())]
