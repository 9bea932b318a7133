"""One run of an export or of another journal, proved: its chain, its replay, its bodies, and their form.

Nothing of this touches the journal. Whoever wrote the file may have written anything, so every value is held
to what a journal could have written itself.
"""

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from msgspec import Struct, field
from msgspec.structs import fields

from counterfoil.store.chain import first_fault
from counterfoil.store.domain.canonical import digest, parse_json
from counterfoil.store.domain.events import Event, EventKind, evolve, evolve_run
from counterfoil.store.domain.identity import operation_id
from counterfoil.store.domain.instants import Instant, micros
from counterfoil.store.domain.json_numbers import Json
from counterfoil.store.domain.model import Operation, Run
from counterfoil.store.errors import Fault, InvalidArgument
from counterfoil.store.preparing import Preparer
from counterfoil.store.protocol import Row
from counterfoil.store.spool import Line, RunSpan, Spool, in_line

__all__ = ["GivenRun", "RunReader", "Standing", "read_given_run"]

_FUTURE_SECONDS = 86_400
"""How far another machine's clock may run ahead of this one's."""

_LARGEST_BODY_BYTES = 512 * 1024
_LONGEST_TEXT = 20_000
_LARGEST_NUMBER = 2**62
_DEEPEST = 64


class Standing(Struct, frozen=True, kw_only=True):
    """How far the log of a run is known already: its last number and hash, and the facts up to there.

    `operations` holds those of which more is told, no others.
    """

    seq: int
    head: str
    operations: Mapping[str, Operation]
    run: Run | None


class GivenRun(Struct, kw_only=True):
    """A run as the file gives it: `events` as stored, hashes included; `operations` follow from them."""

    namespace: str
    run: str
    where: str
    last_seq: int
    head: str
    workflow: str | None
    workflow_version: str | None
    events: list[Row] = field(default_factory=list)
    bodies: dict[str, tuple[str, Instant]] = field(default_factory=dict)
    contexts: dict[str, str] = field(default_factory=dict)
    operations: dict[str, Operation] = field(default_factory=dict)
    run_after: Run | None = None

    @property
    def created_at(self) -> Instant:
        """When its first event was."""
        return int(self.events[0]["at"])

    @property
    def touched_at(self) -> Instant:
        """When its latest event was."""
        return max(int(event["at"]) for event in self.events)


def read_given_run(spool: Spool, span: RunSpan, *, prepare: Preparer, now: Instant) -> GivenRun:
    """Read a run from the file and prove it.

    Raises:
        InvalidArgument: something is not as a journal would have written it, with the number of the line.
    """
    return RunReader(prepare, now).read(spool.lines_of(span))


class RunReader:
    """Reads the lines of runs and proves them; nothing is believed that is not shown."""

    def __init__(self, prepare: Preparer, now: Instant) -> None:
        self._prepare = prepare
        self._latest = now + micros(_FUTURE_SECONDS)
        self._last_caller = ""

    def read(self, lines: Iterator[Line], *, known: Standing | None = None) -> GivenRun:
        """Read a `run` line and what follows it; with `known`, the events are those that come after.

        Raises:
            InvalidArgument: something is not as a journal would have written it, with its place.
        """
        given = self._run(next(lines))
        if known is not None:
            given.operations, given.run_after = dict(known.operations), known.run
        places: list[str] = []
        for line in lines:
            match line.type:
                case "body":
                    self._body(line, given)
                case "context":
                    self._check_body(line)
                    given.contexts[line.value["digest"]] = line.value["body"]
                case _:
                    self._event(line, given)
                    places.append(line.where)
        if not given.events:
            raise in_line(given.where, "a run without events")
        fault = first_fault(
            given.events,
            namespace=given.namespace,
            run=given.run,
            last_seq=given.last_seq,
            head=given.head,
            after=None if known is None else (known.seq, known.head),
        )
        if fault is not None:
            where = places[min(fault.seq - (0 if known is None else known.seq), len(places)) - 1]
            raise in_line(where, f"the run's chain is broken: {fault.problem}")
        self._replay(given, places)
        return given

    def _run(self, line: Line) -> GivenRun:
        value = line.value
        given = GivenRun(
            namespace=self._prepare.namespace,
            run=value["run"],
            where=line.where,
            last_seq=value["last_seq"],
            head=value["head"],
            workflow=value["workflow"],
            workflow_version=value["workflow_version"],
        )
        self._check_name(line.where, "run", given.run)
        for text in (given.workflow, given.workflow_version):
            self._check_texts(line.where, text)
        return given

    def _check_name(self, where: str, kind: str, name: str) -> None:
        try:
            normal = self._prepare.name(name, name=kind)
        except Fault as fault:
            raise in_line(where, fault.message) from None
        if normal != name:
            raise in_line(where, f"the name of the {kind} is not in its normal form")

    def _body(self, line: Line, given: GivenRun) -> None:
        self._check_body(line)
        given.bodies[line.value["digest"]] = (line.value["body"], min(line.value["stored_at"], self._latest))

    def _check_body(self, line: Line) -> None:
        text = line.value["body"]
        if line.value["digest"] != digest(text):
            raise in_line(line.where, "the digest does not fit the body")
        if len(text.encode()) > _LARGEST_BODY_BYTES:
            raise in_line(line.where, f"the body is larger than {_LARGEST_BODY_BYTES} bytes")
        value = _json(line.where, text)
        if self._prepare.redactor.redact(value) != value:
            raise _with_secret(line.where)

    def _event(self, line: Line, given: GivenRun) -> None:
        value = line.value
        if value["kind"] not in _KINDS:
            raise in_line(
                line.where,
                "an event of a kind that this program does not know",
                accepted="an export of a version that this program knows; update counterfoil",
            )
        if value["at"] > self._latest:
            raise in_line(line.where, "the event lies in the future; check the clocks of both machines")
        for text in (value["caller"], value["data"]):
            # The events of one call have one caller.
            if text != self._last_caller:
                content = _json(line.where, text)
                if not isinstance(content, dict):
                    raise in_line(line.where, "caller and data are objects")
                self._check_texts(line.where, content)
        self._last_caller = value["caller"]
        place = {"namespace": given.namespace, "run": given.run}
        names = ("seq", "operation", "kind", "at", "caller", "data", "hash")
        given.events.append({**place, **{name: value[name] for name in names}})

    def _check_texts(self, where: str, value: Json) -> None:
        """Hold every text and number inside a value to what a journal stores."""
        for part in _leaves(value):
            if isinstance(part, str):
                if len(part) > _LONGEST_TEXT:
                    raise in_line(where, f"holds a text of more than {_LONGEST_TEXT} characters")
                if self._prepare.redactor.redact_text(part) != part:
                    raise _with_secret(where)
            elif isinstance(part, int) and not -_LARGEST_NUMBER < part < _LARGEST_NUMBER:
                raise in_line(where, "holds a number out of range")

    def _replay(self, given: GivenRun, places: list[str]) -> None:
        latest: dict[str, str] = {}
        for row, where in zip(given.events, places, strict=True):
            event = Event(
                kind=EventKind(row["kind"]),
                operation=row["operation"],
                at=row["at"],
                data=json.loads(row["data"]),
            )
            try:
                if event.operation == "":
                    given.run_after = evolve_run(
                        given.run_after, event, namespace=given.namespace, name=given.run
                    )
                    changed: Operation | Run = given.run_after
                else:
                    changed = evolve(given.operations.get(event.operation), event)
                    given.operations[event.operation] = changed
            except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
                raise in_line(where, f"the event cannot follow ({type(error).__name__})") from error
            latest[event.operation] = where
            if event.kind is EventKind.OPERATION_CREATED and isinstance(changed, Operation):
                self._check_created(changed, given, where)

        facts: list[tuple[str, Operation | Run | None]] = [("", given.run_after), *given.operations.items()]
        for name, fact in facts:
            if fact is not None and not _is_of(fact, type(fact)):
                raise in_line(
                    latest.get(name, given.where), "the events up to here lead to facts of another form"
                )

    def _check_created(self, operation: Operation, given: GivenRun, where: str) -> None:
        if not _is_of(operation, Operation):
            raise in_line(where, "the event leads to facts of another form")
        self._check_name(where, "key", operation.key)
        if (operation.namespace, operation.run) != (given.namespace, given.run):
            raise in_line(where, "the operation is of another run or namespace")
        if operation.id != operation_id(given.namespace, given.run, operation.key):
            raise in_line(where, "the operation's id is not the one of its run and key")
        if operation.position < 1 or not operation.description.action:
            raise in_line(where, "the operation has no position or no action")


_KINDS = frozenset(kind.value for kind in EventKind)


def _with_secret(where: str) -> InvalidArgument:
    return in_line(
        where,
        "holds what looks like a secret, which no journal stores",
        accepted="an export of a journal with the same [redact] settings",
    )


def _json(where: str, text: str) -> Json:
    try:
        return parse_json(text, field="text", max_depth=_DEEPEST)
    except Fault as fault:
        raise in_line(where, f"holds a text that is no JSON: {fault.message}") from None


def _leaves(value: Json) -> Iterator[Json]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield name
            yield from _leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


def _is_of(value: Any, hint: Any) -> bool:
    """Tell whether a fact, and every fact inside it, has the type that it is declared with."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(_is_of(value, option) for option in get_args(hint))
    if origin is tuple:
        return isinstance(value, list | tuple) and all(_is_of(part, get_args(hint)[0]) for part in value)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(hint, type) and issubclass(hint, Struct):
        return isinstance(value, hint) and all(
            _is_of(getattr(value, name), part) for name, part in _hints(hint).items()
        )
    if isinstance(hint, type) and issubclass(hint, Enum):
        return isinstance(value, hint)
    return isinstance(value, hint)
