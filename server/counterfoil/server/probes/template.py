"""Texts with placeholders: read once at the start, filled for each look, never twice over.

A value can end up nowhere but where its placeholder stands. One that is missing, empty, hidden by redaction,
too long or holds control characters makes the probe inconclusive; it is never an empty text.
"""

import re
from collections.abc import Callable, Mapping

from msgspec import Struct

from counterfoil.server.probes.probe import Inconclusive
from counterfoil.store.domain.canonical import plain_json
from counterfoil.store.domain.json_numbers import Json
from counterfoil.store.probing import ProbeSubject

__all__ = ["BadTemplate", "Template", "fill_json", "stands_alone"]

_NAMES = ("operation", "idempotency_key", "key", "run", "target", "external_id")
_ARGS = "args."
_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_LONGEST_VALUE = 2_000
_REDACTED = "[redacted:"


class BadTemplate(ValueError):
    """A text that is no template; its message says why."""


class _Placeholder(Struct, frozen=True):
    name: str


class Template(Struct, frozen=True):
    """A text with placeholders `{operation}`, `{args.NAME}`, …; `{{` and `}}` stand for braces."""

    source: str
    parts: tuple[str | _Placeholder, ...]

    @classmethod
    def read(cls, source: str) -> "Template":
        """Read a template.

        Raises:
            BadTemplate: an unknown placeholder, or a brace that belongs to none.
        """
        parts: list[str | _Placeholder] = []
        at = 0
        for token in _TOKEN.finditer(source):
            parts.append(source[at : token.start()])
            at = token.end()
            name = token[1]
            if token[0] in ("{{", "}}"):
                parts.append(token[0][0])
            elif name is None:
                raise BadTemplate("it has a brace that belongs to no placeholder; {{ and }} stand for braces")
            elif name in _NAMES or (name.startswith(_ARGS) and len(name) > len(_ARGS)):
                parts.append(_Placeholder(name))
            else:
                known = ", ".join(f"{{{known}}}" for known in _NAMES)
                raise BadTemplate(f"{{{name}}} is no placeholder; there are {known} and {{args.NAME}}")
        parts.append(source[at:])
        return cls(source, tuple(part for part in parts if part != ""))

    @property
    def names(self) -> tuple[str, ...]:
        """The placeholders in it, in order."""
        return tuple(part.name for part in self.parts if isinstance(part, _Placeholder))

    @property
    def only(self) -> str | None:
        """The placeholder that is all of it, if one is."""
        [part] = self.parts if len(self.parts) == 1 else [None]
        return part.name if isinstance(part, _Placeholder) else None

    @property
    def beginning(self) -> str:
        """The fixed text before the first placeholder."""
        before = []
        for part in self.parts:
            if isinstance(part, _Placeholder):
                break
            before.append(part)
        return "".join(before)

    def fill(self, subject: ProbeSubject, *, write: Callable[[str], str] = str) -> str:
        """Give the text with each value as `write` writes it.

        Raises:
            Inconclusive: a value cannot be used.
        """
        return "".join(
            write(_text_of(subject, part.name)) if isinstance(part, _Placeholder) else part
            for part in self.parts
        )


def stands_alone(template: Template, subject: ProbeSubject) -> str:
    """Fill a template that becomes one argument of a program: no value can make it an option.

    Raises:
        Inconclusive: a value cannot be used, or the argument would begin with a dash that the template lacks.
    """
    text = template.fill(subject)
    if text.startswith("-") and not template.beginning.startswith("-"):
        raise Inconclusive("a value on record begins with a dash and could be taken for an option")
    return text


def fill_json(value: Json, subject: ProbeSubject) -> Json:
    """Fill the templates inside a JSON value; a template that is one placeholder keeps the value's type.

    Raises:
        Inconclusive: a value cannot be used.
    """
    if isinstance(value, Template):
        if value.only is None:
            return value.fill(subject)
        _text_of(subject, value.only)
        return _value_of(subject, value.only)
    if isinstance(value, Mapping):
        return {name: fill_json(part, subject) for name, part in value.items()}
    if isinstance(value, list):
        return [fill_json(part, subject) for part in value]
    return value


def _text_of(subject: ProbeSubject, name: str) -> str:
    value = _value_of(subject, name)
    if value is None or value == "":
        raise Inconclusive(f"{{{name}}} is not on record")
    if isinstance(value, dict | list):
        raise Inconclusive(f"{{{name}}} is no single value")
    text = value if isinstance(value, str) else plain_json(value)
    if _REDACTED in text:
        raise Inconclusive(f"{{{name}}} is a secret, which is not kept and never sent")
    if len(text) > _LONGEST_VALUE:
        raise Inconclusive(f"{{{name}}} is too long")
    if any(character < " " or character == "\x7f" for character in text):
        raise Inconclusive(f"{{{name}}} holds control characters")
    return text


def _value_of(subject: ProbeSubject, name: str) -> Json:
    if not name.startswith(_ARGS):
        return getattr(subject, name)
    path = name.removeprefix(_ARGS)
    value: Json = subject.args
    if isinstance(value, Mapping) and path in value:
        return value[path]
    for step in path.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return None
        value = value[step]
    return value
