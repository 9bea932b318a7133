"""What a JSON answer says: whether the effect is there, its reference, and when it was performed."""

import math
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from counterfoil.server.probes.json_path import ABSENT_ITEM, JsonPath, NoSuchMember
from counterfoil.server.probes.probe import Inconclusive, Seen
from counterfoil.server.probes.table import ProbeTable
from counterfoil.server.probes.template import Template, fill_json
from counterfoil.server.rules.failures import failure_marks
from counterfoil.store.domain.canonical import plain_json
from counterfoil.store.domain.instants import micros, parse_rfc3339, rfc3339
from counterfoil.store.domain.json_numbers import Json
from counterfoil.store.errors import InvalidArgument
from counterfoil.store.probing import ProbeSubject

__all__ = ["JsonReading", "read_reading"]

_LONGEST_REFERENCE = 500


class JsonReading(Struct, frozen=True, kw_only=True):
    """Where to look in a document. Nothing given reads nothing."""

    found: JsonPath | None = None
    equals: tuple[tuple[JsonPath, Any], ...] = ()
    external_id: JsonPath | None = None
    performed_at: JsonPath | None = None

    @property
    def reads(self) -> bool:
        """True where a document is needed at all."""
        return bool(self.found or self.equals or self.external_id or self.performed_at)

    @property
    def decides(self) -> bool:
        """True where the document says whether something was found."""
        return bool(self.found or self.equals)

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The placeholders that what is expected holds."""
        return tuple(
            name for _, wanted in self.equals if isinstance(wanted, Template) for name in wanted.names
        )

    def seen(self, document: Json, subject: ProbeSubject, evidence: Mapping[str, Json]) -> Seen:
        """Judge a document.

        Raises:
            Inconclusive: it is shaped otherwise, a field that has to be read cannot be, or it has nothing and
                says that it failed, in a member that is not read here.
        """
        try:
            if not self._is_there(document, subject):
                if failure_marks(document) - self._members:
                    raise Inconclusive("the answer has nothing, and tells of a failure")
                return Seen(found=False, evidence=evidence)
            return Seen(
                found=True,
                external_id=None if self.external_id is None else reference(self.external_id.of(document)),
                performed_at=None if self.performed_at is None else _moment(self.performed_at.of(document)),
                evidence=evidence,
            )
        except NoSuchMember as missing:
            raise Inconclusive(f"the answer has nothing at {missing}") from None

    @property
    def _members(self) -> frozenset[str | int]:
        """The top members that decide."""
        deciding = [path for path, _ in self.equals] + ([] if self.found is None else [self.found])
        return frozenset(path.steps[0] for path in deciding if path.steps)

    def _is_there(self, document: Json, subject: ProbeSubject) -> bool:
        if self.found is not None and not _says_yes(self.found.of(document)):
            return False
        return all(_is_equal(path.of(document), fill_json(wanted, subject)) for path, wanted in self.equals)


def read_reading(table: ProbeTable) -> JsonReading:
    """Take `found`, `equals`, `external_id` and `performed_at` out of a probe's table.

    Raises:
        ProbeProblem: naming the key.
    """
    found = table.path("found")
    equals = table.take("equals")
    if equals is not None and (not isinstance(equals, dict) or not equals):
        raise table.problem("equals", 'it is a table of JSON paths, such as { "$.state" = "sent" }')
    wanted = []
    for path, value in (equals or {}).items():
        if isinstance(value, dict | list):
            raise table.problem(f"equals.{path}", "it is a text, a number, true or false")
        wanted.append((table.as_path("equals", path), table.json_template(f"equals.{path}", value)))
    return JsonReading(
        found=found,
        equals=tuple(wanted),
        external_id=table.path("external_id"),
        performed_at=table.path("performed_at"),
    )


def reference(value: Json) -> str:
    """Give a reference of the performing system as text.

    Raises:
        Inconclusive: it is none.
    """
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST_REFERENCE:
        raise Inconclusive("what should be the reference is no short text")
    if not text.isprintable():
        raise Inconclusive("what should be the reference holds characters that do not print")
    return text.strip()


def _says_yes(value: Json) -> bool:
    return value is not ABSENT_ITEM and bool(value)


def _is_equal(value: Json, wanted: Json) -> bool:
    if value is ABSENT_ITEM:
        return False
    if isinstance(value, dict | list):
        raise Inconclusive("the answer holds no single value where one is to be compared")
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if isinstance(value, int | float) and isinstance(wanted, str):
        return plain_json(value) == wanted
    if isinstance(value, str) and isinstance(wanted, int | float):
        return value == plain_json(wanted)
    return bool(value == wanted)


def _moment(value: Json) -> str:
    """Read a time: RFC 3339, or seconds since 1970."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not (math.isfinite(value) and 0 < value < 10_000_000_000):
            raise Inconclusive("the time in the answer is no number of seconds since 1970")
        return rfc3339(micros(value))
    try:
        return rfc3339(parse_rfc3339(value if isinstance(value, str) else "", field="performed_at"))
    except InvalidArgument:
        raise Inconclusive("the time in the answer is not of RFC 3339") from None
