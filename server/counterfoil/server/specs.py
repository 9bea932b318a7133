"""Reads criteria out of specification files: Spec Kit (`FR-001`, `SC-001` lines) and OpenSpec (requirements).

A file is text from outside: it is read as data, bounded, and nothing in it is followed.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from counterfoil.store.domain.canonical import digest
from counterfoil.store.domain.commands import Criterion, Spec
from counterfoil.store.errors import InvalidArgument, TooLarge

__all__ = ["SpecFile", "read_spec"]

LONGEST_FILE = 1024 * 1024
"""Bytes; a specification is read by people, and nobody reads more."""

_SPEC_KIT = re.compile(
    r"^\s*[-*+]\s+(?:\*\*|__)?((?:FR|SC|NFR)-\d{1,5}[a-z]?)(?:\*\*|__)?\s*:(?:\*\*)?\s*(.+)$"
)
_SECTION = re.compile(r"^##\s+(.+?)\s*$")
_REQUIREMENT = re.compile(r"^###\s+Requirement:\s*(.+?)\s*$", re.IGNORECASE)
_SCENARIO = re.compile(r"^####\s+Scenario:\s*(.+?)\s*$", re.IGNORECASE)
_HEADING = re.compile(r"^#{1,4}\s")
_OPTIONAL = re.compile(r"\b(?:SHOULD|MAY)\b")
_REQUIRED = re.compile(r"\b(?:MUST|SHALL)\b")
_FENCE = re.compile(r"^\s*(?:```|~~~)")


class SpecFile(Struct, frozen=True, kw_only=True):
    """A specification as `begin_run` takes it, and which format it was read as."""

    format: str
    spec: Spec


def read_spec(path: Path) -> SpecFile:
    """Read a specification: its URI, the digest of the whole file, and its criteria in order.

    A criterion whose words say MUST or SHALL, or neither SHOULD nor MAY, is required. The same id again takes
    the id `FR-001.2`, and so on, since Spec Kit numbers anew in each user story.

    Raises:
        InvalidArgument: there is no such file, it is no UTF-8 text, or it holds no criterion.
        TooLarge: more than a mebibyte.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidArgument(
            "FILE", f"cannot be read: {error.strerror}", accepted="a Markdown file"
        ) from None
    if len(content) > LONGEST_FILE:
        raise TooLarge("FILE", size=len(content), limit=LONGEST_FILE, unit="bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidArgument("FILE", "is no UTF-8 text", accepted="a Markdown file") from None
    lines = list(_outside_of_comments(text.splitlines()))
    found, name = list(_spec_kit(lines)), "spec-kit"
    if not found:
        found, name = list(_open_spec(lines)), "openspec"
    if not found:
        raise InvalidArgument(
            "FILE",
            "holds no criterion",
            accepted="lines such as `- **FR-001**: …` (Spec Kit), or `### Requirement: …` (OpenSpec)",
        )
    return SpecFile(
        format=name,
        spec=Spec(uri=path.resolve().as_uri(), digest=digest(content), criteria=tuple(_numbered(found))),
    )


def _outside_of_comments(lines: Iterable[str]) -> Iterator[str]:
    """Leave out code blocks and HTML comments: templates explain themselves in both."""
    in_code = in_comment = False
    for line in lines:
        if _FENCE.match(line):
            in_code = not in_code
            continue
        if in_code:
            continue
        if in_comment:
            in_comment = "-->" not in line
            continue
        if "<!--" in line:
            in_comment = "-->" not in line.split("<!--", 1)[1]
            continue
        yield line


def _spec_kit(lines: Iterable[str]) -> Iterator[Criterion]:
    for line in lines:
        match = _SPEC_KIT.match(line)
        if match is not None:
            yield _criterion(match[1], match[2])


def _open_spec(lines: Iterable[str]) -> Iterator[Criterion]:
    """Give each requirement, and each of its scenarios, as a criterion; what a delta removes is none."""
    section, name, scenario = "", "", ""
    words: list[str] = []

    def finished() -> Iterator[Criterion]:
        if name and not section.upper().startswith(("REMOVED", "RENAMED")):
            identity = f"{name} / {scenario}" if scenario else name
            yield _criterion(identity, " ".join(words), required=None if scenario == "" else True)

    for line in lines:
        requirement, opened = _REQUIREMENT.match(line), _SCENARIO.match(line)
        if _HEADING.match(line):
            yield from finished()
            words = []
            if opened and name:
                scenario = opened[1]
            else:
                name, scenario = (requirement[1] if requirement else ""), ""
            heading = _SECTION.match(line)
            section = heading[1] if heading else section
        elif line.strip():
            words.append(line.strip().lstrip("-*+ ").replace("**", ""))
    yield from finished()


def _criterion(identity: str, text: str, *, required: bool | None = None) -> Criterion:
    words = text.strip()
    if required is None:
        required = _REQUIRED.search(words) is not None or _OPTIONAL.search(words) is None
    return Criterion(id=identity[:200], text=words[:4_000], required=required)


def _numbered(criteria: Iterable[Criterion]) -> Iterator[Criterion]:
    seen: dict[str, int] = {}
    for criterion in criteria:
        seen[criterion.id] = times = seen.get(criterion.id, 0) + 1
        identity = criterion.id if times == 1 else f"{criterion.id[:195]}.{times}"
        yield Criterion(id=identity, text=criterion.text, required=criterion.required)
