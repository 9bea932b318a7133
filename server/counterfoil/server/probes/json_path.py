"""Paths into a JSON document, such as `$.items[0].id`: members and positions, nothing that searches."""

import re

from msgspec import Struct

from counterfoil.store.domain.json_numbers import Json

__all__ = ["ABSENT_ITEM", "BadPath", "JsonPath", "NoSuchMember"]

_STEP = re.compile(r"\.([A-Za-z_][\w-]*)|\[(\d{1,6})\]|\['([^'\]]+)'\]")

ABSENT_ITEM = object()
"""What lies beyond the end of a list that is there: the honest answer of a search without finds."""


class BadPath(ValueError):
    """A text that is no path; its message says what one is."""


class NoSuchMember(LookupError):
    """The document has another shape than the path supposes."""


class JsonPath(Struct, frozen=True):
    """One place in a document."""

    source: str
    steps: tuple[str | int, ...]

    @classmethod
    def read(cls, source: str) -> "JsonPath":
        """Read a path.

        Raises:
            BadPath: it is none.
        """
        at, steps = 1, []
        while source.startswith("$") and at < len(source):
            match = _STEP.match(source, at)
            if match is None:
                break
            name, position, quoted = match.groups()
            steps.append(int(position) if position is not None else name or quoted)
            at = match.end()
        if not source.startswith("$") or at < len(source):
            raise BadPath("it is a JSON path such as $.items[0].id or $['a name']")
        return cls(source, tuple(steps))

    def of(self, document: Json) -> Json:
        """Give what stands there; `ABSENT_ITEM` where a list is shorter.

        Raises:
            NoSuchMember: the document is shaped otherwise.
        """
        value = document
        for step in self.steps:
            if isinstance(step, int):
                if not isinstance(value, list):
                    raise NoSuchMember(self.source)
                if step >= len(value):
                    return ABSENT_ITEM
                value = value[step]
            elif isinstance(value, dict) and step in value:
                value = value[step]
            else:
                raise NoSuchMember(self.source)
        return value
