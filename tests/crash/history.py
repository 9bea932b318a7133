"""A recorded history of calls, and what must never be seen in one.

Each process notes a call before it makes it and its answer when it has it, with the times of the machine's
monotonic clock, which all processes share. A call that was never answered may have been carried out.
"""

import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from counterfoil.store.domain.identity import operation_id

__all__ = ["Call", "Recorder", "faults_in", "read_history"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call; `end` and `answer` are None where none came."""

    tool: str
    given: Mapping[str, Any]
    caller: str
    start: int
    end: int | None = None
    answer: Mapping[str, Any] | None = None
    unavailable: str | None = None
    """What was said to be recorded, where the journal was unavailable."""


class Recorder:
    """Notes the calls of one process in a file of its own."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / f"calls-{os.getpid()}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._calls = 0

    def begins(self, tool: str, given: Mapping[str, Any], *, caller: str) -> int:
        """Note a call that is about to be made, and give its number."""
        self._calls += 1
        self._note(number=self._calls, tool=tool, given=given, caller=caller, start=time.monotonic_ns())
        return self._calls

    def ends(self, number: int, answer: Mapping[str, Any]) -> None:
        """Note the answer of a call."""
        self._note(number=number, end=time.monotonic_ns(), answer=answer)

    def was_unavailable(self, number: int, *, recorded: bool | None) -> None:
        """Note that the journal could not take a call: it did nothing, or what it did nobody can tell."""
        if recorded is False:
            self._note(number=number, end=time.monotonic_ns(), answer={}, unavailable="nothing")
        else:
            self._note(number=number, unavailable="cannot be told")

    def _note(self, **members: Any) -> None:
        os.write(self._file, json.dumps(members).encode() + b"\n")


def read_history(folder: Path) -> list[Call]:
    """Put the calls of every process together."""
    calls = []
    for file in folder.glob("calls-*"):
        begun: dict[int, dict[str, Any]] = {}
        for line in file.read_text().splitlines():
            noted = json.loads(line)
            begun.setdefault(noted.pop("number"), {}).update(noted)
        calls += [Call(**noted) for noted in begun.values()]
    return sorted(calls, key=lambda call: call.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one answer says of one operation. `receipts` is None where it does not list them."""

    operation: str
    state: str
    attempt: int
    receipts: frozenset[str] | None = None

    @property
    def rank(self) -> tuple[bool, int, int]:
        """How far it is: settled, else by its newest attempt, which has failed after it was open.

        Nobody decides and nobody hands in claims in these histories: then none of these ever goes back.
        """
        if self.state in ("succeeded", "disputed", "compensated"):
            return (True, 0, 0)
        return (False, self.attempt, {"planned": 0, "failed": 2}.get(self.state, 1))


@dataclass(slots=True)
class Known:
    """What answers that were complete by some moment had said of one operation."""

    rank: tuple[bool, int, int] = (False, 0, 0)
    attempt: int = 0
    receipts: frozenset[str] = field(default_factory=frozenset)


def views(call: Call) -> Iterator[View]:
    """Give what an answer says of each operation."""
    answer = call.answer or {}
    if "operation" in answer and "state" in answer:
        lists = call.tool == "check_operation" or answer["next"] == "skip"
        shown = frozenset(_references(answer.get("receipts", ()))) if lists else None
        yield View(
            operation=answer["operation"],
            state=answer["state"],
            attempt=answer.get("attempt", 0),
            receipts=shown,
        )
    for step in answer.get("steps", ()):
        yield View(operation=step["operation"], state=step["state"], attempt=step.get("attempt", 0))


def acknowledged(call: Call) -> tuple[str, str] | None:
    """Give the operation and the reference of a receipt that was taken."""
    answer = call.answer or {}
    if call.tool in ("record_receipt", "reconcile_operation") and "receipt" in answer:
        reference = answer["receipt"].get("external_id")
        return None if reference is None else (answer["operation"], reference)
    return None


def _references(receipts: Iterable[Mapping[str, Any]]) -> list[str]:
    return [receipt["external_id"] for receipt in receipts if "external_id" in receipt]


def faults_in(calls: Iterable[Call]) -> list[str]:
    """Name everything in a history that must not be."""
    by_start = sorted(calls, key=lambda call: call.start)
    return [
        *_grants(by_start),
        *_leases(by_start),
        *_order(by_start),
        *_fencing(by_start),
        *_receipts(by_start),
        *_runs(by_start),
        *(f"a fault: {call.tool} {call.answer}" for call in by_start if "fault" in (call.answer or {})),
    ]


def _is_grant(call: Call) -> bool:
    return call.tool == "begin_operation" and (call.answer or {}).get("next") == "perform"


def _grants(calls: list[Call]) -> Iterator[str]:
    """Exactly one grant for each attempt, which only its own call may be given again."""
    granted: dict[tuple[str, int], list[Call]] = defaultdict(list)
    newest: Counter[str] = Counter()
    ids: dict[tuple[str, str], str] = {}
    for call in calls:
        for view in views(call):
            newest[view.operation] = max(newest[view.operation], view.attempt)
        answer = call.answer or {}
        if call.tool == "begin_operation" and "operation" in answer:
            ids[call.given["run"], call.given["key"]] = answer["operation"]
        if _is_grant(call):
            granted[answer["operation"], answer["attempt"]].append(call)
    for (operation, attempt), given in granted.items():
        first = [call for call in given if not (call.answer or {})["replayed"]]
        if len(first) > 1:
            yield f"attempt {attempt} of {operation} was granted {len(first)} times"
        if len({call.given.get("call_id") for call in given}) > 1:
            yield f"attempt {attempt} of {operation} was granted to two calls"
        if len({(call.answer or {})["idempotency_key"] for call in given}) > 1:
            yield f"attempt {attempt} of {operation} has two keys"
    # Of an operation that is there, nobody may ever have been told the id; its names give it as well.
    unanswered = Counter(
        ids.get((run, key)) or operation_id("default", run, key)
        for call in calls
        if call.tool == "begin_operation" and call.answer is None
        for run, key in ((call.given["run"], call.given["key"]),)
    )
    for operation, number in newest.items():
        missing = [attempt for attempt in range(1, number + 1) if (operation, attempt) not in granted]
        if len(missing) > unanswered[operation]:
            yield f"attempts {missing} of {operation} were granted to nobody"


def _leases(calls: list[Call]) -> Iterator[str]:
    """No attempt is granted while the one before it holds a lease that nobody ended."""
    leases: dict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)
    ending: dict[tuple[str, int], list[int]] = defaultdict(list)
    for call in calls:
        answer = call.answer or {}
        if (
            "lease_expires_at" in answer
            and answer["next"] in ("perform", "continue")
            and call.end is not None
        ):
            leases[answer["operation"], answer["attempt"]].append((call.end, answer["lease_expires_at"]))
        if call.tool in ("record_failure", "reconcile_operation", "record_receipt"):
            # Unanswered, it may have ended any attempt of its operation.
            ending[call.given["operation"], call.given.get("attempt", 0)].append(call.start)
    for call in filter(_is_grant, calls):
        answer = call.answer or {}
        operation, before = answer["operation"], answer["attempt"] - 1
        known = [until for end, until in leases[operation, before] if end < call.start]
        ended = [*ending[operation, before], *ending[operation, 0]]
        is_ended = any(start < (call.end or 0) for start in ended)
        if not answer["replayed"] and known and answer["as_of"] < max(known) and not is_ended:
            yield f"attempt {before + 1} of {operation} was granted while {before} was live"


def _order(calls: list[Call]) -> Iterator[str]:
    """No answer is older than one that was complete before its call began."""
    known: dict[str, Known] = defaultdict(Known)
    as_of = ""
    complete = sorted((call for call in calls if call.end is not None), key=lambda call: call.end or 0)
    place = 0
    for call in calls:
        while place < len(complete) and (complete[place].end or 0) < call.start:
            _learn(complete[place], known)
            as_of = max(as_of, (complete[place].answer or {}).get("as_of", ""))
            place += 1
        answer = call.answer or {}
        if "as_of" in answer and answer["as_of"] < as_of:
            yield f"{call.tool} was answered as of {answer['as_of']}, after {as_of} had been told"
        for view in views(call):
            earlier = known[view.operation]
            told = f"{call.tool} says {view.state}, attempt {view.attempt} of {view.operation}"
            if view.attempt < earlier.attempt:
                yield f"{told}, after attempt {earlier.attempt} had been told"
            elif view.rank < earlier.rank:
                yield f"{told}, after {earlier.rank} had been told"
            if view.receipts is not None and not earlier.receipts <= view.receipts:
                missing = sorted(earlier.receipts - view.receipts)
                yield f"{told}, without {missing}, which had been acknowledged"


def _learn(call: Call, known: dict[str, Known]) -> None:
    for view in views(call):
        earlier = known[view.operation]
        earlier.rank = max(earlier.rank, view.rank)
        earlier.attempt = max(earlier.attempt, view.attempt)
        earlier.receipts |= view.receipts or frozenset()
    taken = acknowledged(call)
    if taken is not None:
        known[taken[0]].receipts |= {taken[1]}


def _fencing(calls: list[Call]) -> Iterator[str]:
    """What an older attempt still says of itself counts for nothing once a newer one was told of."""
    grants: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for call in filter(_is_grant, calls):
        answer = call.answer or {}
        grants[answer["operation"]].append((call.end or 0, answer["attempt"]))
    for call in calls:
        if call.tool not in ("record_progress", "record_failure") or call.answer is None:
            continue
        given, answer = call.given, call.answer
        is_over = any(
            attempt > given["attempt"] and end < call.start for end, attempt in grants[given["operation"]]
        )
        if is_over and answer.get("next") == "continue":
            yield f"{call.tool} counted for attempt {given['attempt']} of {given['operation']}, which is over"


def _receipts(calls: list[Call]) -> Iterator[str]:
    """Whatever was acknowledged is there when all is over."""
    last: dict[str, frozenset[str]] = {}
    for call in calls:
        if call.tool == "check_operation":
            for view in views(call):
                last[view.operation] = view.receipts or frozenset()
    for operation, reference in sorted(set(filter(None, map(acknowledged, calls)))):
        if reference not in last.get(operation, ()):
            yield f"{reference} of {operation} was acknowledged, and is absent in the end"


def _runs(calls: list[Call]) -> Iterator[str]:
    """A run is started once."""
    started = Counter(
        call.given["run"]
        for call in calls
        if call.tool == "begin_run" and (call.answer or {}).get("reason") == "started"
    )
    yield from (f"{run} was started {count} times" for run, count in started.items() if count > 1)
