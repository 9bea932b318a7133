"""Reads an export that somebody hands in: the whole file is checked before any of it is taken.

A first walk proves the form of every line, the counts and the digest at the end, in bounded memory, and
notes where each run begins; then one run at a time is read again. Whoever made the file is not trusted.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, TypeGuard

from msgspec import Struct, field

from counterfoil.store.domain.canonical import parse_json
from counterfoil.store.domain.instants import Instant, parse_rfc3339
from counterfoil.store.errors import ExportDamaged, InvalidArgument
from counterfoil.store.exporting import FORMAT, VERSION, VERSION_THAT_LACKS
from counterfoil.store.lost_history import Lack

__all__ = ["Line", "RunSpan", "Spool", "in_line", "read_spool"]

_LONGEST_LINE_BYTES = 4 * 1024 * 1024
"""More than the largest body, escaped twice."""

_LARGEST_RUN_BYTES = 256 * 1024 * 1024
"""A run is taken whole, in one transaction, so it is held in memory."""

_LARGEST_NUMBER = 2**62

_WHOLE = "a whole export: copy the file again, or make the export again"

_MEMBERS: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    "header": {
        "format": str,
        "version": int,
        "journal": dict,
        "namespace": str,
        "exported_at": str,
        "counts": dict,
    },
    "run": {
        "run": str,
        "created_at": int,
        "last_seq": int,
        "head": str,
        "operations": int,
        "workflow": (str, type(None)),
        "workflow_version": (str, type(None)),
    },
    "body": {"digest": str, "body": str, "stored_at": int},
    "context": {"digest": str, "body": str},
    "event": {
        "seq": int,
        "operation": str,
        "kind": str,
        "at": int,
        "caller": str,
        "data": str,
        "hash": str,
    },
    "end": {"lines": int, "counts": dict, "digest": str},
}


class Line(Struct, frozen=True, kw_only=True):
    """One line of the file: its number, from 1, and what it says.

    What was read from another journal has no lines, and `place` says in words where it stands there.
    """

    number: int
    type: str
    value: Mapping[str, Any]
    place: str | None = None

    @property
    def where(self) -> str:
        """Where it stands, for whoever is told what is wrong with it."""
        return self.place or f"line {self.number}"


class RunSpan(Struct, frozen=True, kw_only=True):
    """Where a run lies in the file."""

    run: str
    number: int
    offset: int
    lines: int


class Spool(Struct, kw_only=True):
    """A file that was proved whole."""

    file: BinaryIO
    journal_id: str
    namespace: str
    exported_at: Instant
    lack: Lack | None = None
    spans: list[RunSpan] = field(default_factory=list)

    def lines_of(self, span: RunSpan) -> Iterator[Line]:
        """Read the lines of a run again."""
        self.file.seek(span.offset)
        for count in range(span.lines):
            yield _parsed(self.file.readline(_LONGEST_LINE_BYTES + 1), span.number + count)


def in_line(
    where: int | str, problem: str, *, accepted: str = "an export as `counterfoil export` writes it"
) -> ExportDamaged:
    """Make the fault for a line of the file, by its number or by words for where it stands."""
    return ExportDamaged(f"line {where}" if isinstance(where, int) else where, problem, accepted=accepted)


def read_spool(file: BinaryIO) -> Spool:
    """Prove that a seekable file is a whole export, and note where its runs lie.

    Raises:
        ExportDamaged: it is not, with the number of the line.
    """
    walk = _Walk(file)
    walk.run()
    return walk.spool


class _Walk:
    """The first walk through a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self._counts = dict.fromkeys(("runs", "operations", "events", "bodies", "contexts"), 0)
        self._names: set[str] = set()
        self._span: tuple[str, int, int] | None = None
        self._number = 0
        self._is_over = False
        self.spool: Spool

    def run(self) -> None:
        """Walk from the first line to the last."""
        self._file.seek(0)
        while True:
            offset = self._file.tell()
            raw = self._file.readline(_LONGEST_LINE_BYTES + 1)
            if not raw:
                break
            self._number += 1
            if self._is_over:
                raise in_line(self._number, "comes after the end line")
            line = _parsed(raw, self._number)
            if line.type != "end":
                self._hash.update(raw)
            self._take(line, offset)
        if not self._is_over:
            raise in_line(
                self._number + 1,
                "the end line is missing: the file was cut",
                accepted=_WHOLE,
            )

    def _take(self, line: Line, offset: int) -> None:
        if (line.number == 1) != (line.type == "header"):
            raise in_line(line.number, "the first line, and no other, is the header")
        match line.type:
            case "header":
                self._header(line)
            case "run":
                self._close(offset)
                name = line.value["run"]
                if name in self._names:
                    raise in_line(line.number, "this run came before")
                self._names.add(name)
                self._span = (name, line.number, offset)
                self._counts["runs"] += 1
            case "end":
                self._close(offset)
                self._end(line)
            case kind:
                if self._span is None:
                    raise in_line(line.number, f"a {kind} before any run")
                self._counts[{"body": "bodies", "context": "contexts", "event": "events"}[kind]] += 1
                if kind == "event" and line.value["kind"] == "operation_created":
                    self._counts["operations"] += 1
                if offset - self._span[2] > _LARGEST_RUN_BYTES:
                    raise in_line(
                        line.number,
                        "this run is too large to be taken in one transaction",
                        accepted=f"runs of at most {_LARGEST_RUN_BYTES // 2**20} MiB",
                    )

    def _header(self, line: Line) -> None:
        given = line.value
        if given["format"] != FORMAT:
            raise in_line(line.number, "this is no export of Counterfoil")
        if given["version"] not in (VERSION, VERSION_THAT_LACKS):
            raise in_line(
                line.number,
                f"the format has version {given['version']}, this program knows up to {VERSION_THAT_LACKS}",
                accepted="an export of a version that this program knows; update counterfoil",
            )
        journal_id = given["journal"].get("id")
        if not isinstance(journal_id, str) or not 1 <= len(journal_id) <= 200 or not journal_id.isprintable():
            raise in_line(line.number, "the journal has no id")
        try:
            exported_at = parse_rfc3339(given["exported_at"], field="exported_at")
        except InvalidArgument as fault:
            raise in_line(line.number, fault.message) from None
        self.spool = Spool(
            file=self._file,
            journal_id=journal_id,
            namespace=given["namespace"],
            exported_at=exported_at,
            lack=_lack(line),
        )

    def _close(self, _offset: int) -> None:
        if self._span is not None:
            run, number, offset = self._span
            span = RunSpan(run=run, number=number, offset=offset, lines=self._number - number)
            self.spool.spans.append(span)
        self._span = None

    def _end(self, line: Line) -> None:
        if line.value["digest"] != f"sha256:{self._hash.hexdigest()}":
            raise in_line(
                line.number,
                "the digest does not fit: the file was changed or damaged",
                accepted="the file as it was exported",
            )
        if line.value["lines"] != line.number - 1 or line.value["counts"] != self._counts:
            raise in_line(line.number, "the counts do not fit: the file was changed or damaged")
        self._is_over = True


def _lack(line: Line) -> Lack | None:
    """Read what the journal lacks; the version says whether it lacks anything."""
    given = line.value.get("lacks")
    if line.value["version"] == VERSION and given is None:
        return None
    since, until = (given.get("since"), given.get("until")) if isinstance(given, dict) else (None, None)
    if line.value["version"] == VERSION or not (_is_moment(since) and _is_moment(until)):
        raise in_line(line.number, "what the journal lacks does not fit the version, or cannot be read")
    return Lack(backed_up_at=since, restored_at=until)


def _is_moment(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST_NUMBER


def _parsed(raw: bytes, number: int) -> Line:
    if len(raw) > _LONGEST_LINE_BYTES:
        raise in_line(number, f"is longer than {_LONGEST_LINE_BYTES} bytes")
    if not raw.endswith(b"\n"):
        raise in_line(number, "has no end: the file was cut", accepted=_WHOLE)
    try:
        value = parse_json(raw, field=f"line {number}")
    except InvalidArgument as fault:
        raise in_line(number, fault.message.partition(": ")[2]) from None
    kind = value.get("type") if isinstance(value, dict) else None
    members = _MEMBERS.get(kind) if isinstance(kind, str) else None
    if members is None or not isinstance(kind, str):
        raise in_line(number, "is no line of an export")
    for name, types in members.items():
        part = value.get(name)
        if name not in value or not isinstance(part, types) or isinstance(part, bool):
            raise in_line(number, f"{kind}.{name} is missing or of another type")
        if isinstance(part, int) and not 0 <= part < _LARGEST_NUMBER:
            raise in_line(number, f"{kind}.{name} is out of range")
    return Line(number=number, type=kind, value=value)
