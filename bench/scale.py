"""What calls cost in a journal of a million operations beside one of a thousand, measured in turn.

    uv run python bench/scale.py [--operations N] [--folder DIR] [--rounds N] [--verify]

Both journals are built first (`large_journal.py`; some minutes and about 14 GB for a million) and removed
afterwards. Then the same calls go to both by turns, so that the ratios hold when the machine's speed drifts:
in a run of a hundred operations, and in the largest run of each. Searches and lists of runs are timed on the
large one alone.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from large_journal import NAMESPACE, BuiltRun, build, effect_of

from counterfoil.server.clock import read_clock
from counterfoil.server.people.gathering import whole_runs
from counterfoil.store.domain.commands import (
    BeginOperation,
    Caller,
    CheckOperation,
    FindOperations,
    OperationRef,
    ReceiptGiven,
    RecordReceipt,
    ResumePlan,
)
from counterfoil.store.domain.states import Policy
from counterfoil.store.journal import Journal
from counterfoil.store.opening import Fresh, open_journal

SMALL = 1_000
CALLER = Caller(connection="bench", conversation="bench")
NEW = 500_000
"""The keys that are measured are numbered from here on."""

Timings = dict[str, list[float]]


@dataclass(kw_only=True)
class Side:
    """One of the journals that are compared, and the runs that are worked on."""

    operations: int
    path: Path
    runs: list[BuiltRun]
    places: dict[str, str] = field(default_factory=dict)
    timings: dict[str, Timings] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Choose the open run of a hundred, and the largest one."""
        hundred = next(run for run in self.runs[1:] if run.is_open and run.operations == 100)
        self.places = {"a run of 100": hundred.name, "its largest run": self.runs[0].name}
        self.timings = {place: {} for place in self.places}


async def timed(work: Awaitable[dict[str, Any]], into: list[float]) -> dict[str, Any]:
    """Wait for a call and note how long it took, in seconds."""
    began = time.perf_counter()
    answer = await work
    into.append(time.perf_counter() - began)
    return answer


async def one_round(journal: Journal, run: str, number: int, timings: Timings) -> None:
    """Begin an operation, record its receipt, check it, and ask for the plan."""
    effect = effect_of(run, NEW + number)
    ref = OperationRef(run=run, key=effect.key)
    begin = BeginOperation(
        run=run,
        key=effect.key,
        action=effect.action,
        target=effect.target,
        args=effect.args,
        payload=effect.payload,
    )
    answer = await timed(journal.begin_operation(begin, CALLER), timings.setdefault("begin", []))
    assert answer["next"] == "perform", answer
    given = ReceiptGiven(attempt=1, kind="message", system="smtp", external_id=effect.reference)
    receipt = RecordReceipt(ref=ref, receipt=given)
    answer = await timed(journal.record_receipt(receipt, CALLER), timings.setdefault("receipt", []))
    assert answer["state"] == "succeeded", answer
    check = CheckOperation(ref=ref)
    await timed(journal.check_operation(check, CALLER), timings.setdefault("check", []))
    await timed(journal.resume_plan(ResumePlan(run=run), CALLER), timings.setdefault("plan", []))


async def compare(sides: list[Side], rounds: int) -> None:
    """Send the same calls to every journal in turn."""
    async with AsyncExitStack() as stack:
        journals = [await stack.enter_async_context(opened(side.path)) for side in sides]
        for number in range(-3, rounds):
            for side, journal in zip(sides, journals, strict=True):
                for place, run in side.places.items():
                    # The first rounds warm up.
                    timings: Timings = side.timings[place] if number >= 0 else {}
                    await one_round(journal, run, number, timings)


def opened(path: Path) -> AbstractAsyncContextManager[Journal]:
    """Open a journal that was built."""
    fresh = Fresh(journal_id="never used", secret="00" * 32)
    return open_journal(path, fresh=fresh, namespace=NAMESPACE, policy=Policy(), clock=read_clock)


async def search(side: Side) -> None:
    """Time the searches and the lists of runs."""
    middle = side.runs[len(side.runs) // 2]
    known = effect_of(middle.name, 3)
    searches: dict[str, dict[str, Any]] = {
        "nothing (the newest)": {},
        "text, found everywhere": {"text": "customer"},
        "text, of one run in the middle": {"text": known.target[-25:]},
        "text, nowhere": {"text": "zanzibar"},
        "state in_doubt": {"state": "in_doubt"},
        "state succeeded": {"state": "succeeded"},
        "state disputed, action given": {"state": "disputed", "action": "mail.send"},
        "state timed_out, of which there is none": {"state": "timed_out"},
        "action, used everywhere": {"action": "mail.send"},
        "action, used nowhere": {"action": "git.push"},
        "external_id": {"external_id": known.reference},
        "external_id and system": {"external_id": known.reference, "system": "smtp"},
        "external_id, unknown": {"external_id": "nobody's"},
        "system, of which there is none": {"system": "fax"},
        "run, in the middle": {"run": middle.name},
        "run, in the middle, and state": {"run": middle.name, "state": "cancelled"},
        "run, the largest": {"run": side.runs[0].name},
        "run, the largest, text nowhere": {"run": side.runs[0].name, "text": "zanzibar"},
        "workflow": {"workflow": "invoicing"},
        "workflow, unknown": {"workflow": "payroll"},
        "until long ago": {"until": "2001-01-01T00:00:00Z"},
    }
    async with opened(side.path) as journal:

        async def show(name: str, call: Callable[[], Awaitable[dict[str, Any]]], part: str) -> None:
            timings: list[float] = []
            for _ in range(3):
                answer = await timed(call(), timings)
            line = f"{statistics.median(timings) * 1000:10.1f} ms   first {timings[0] * 1000:8.1f} ms"
            print(f"{name:52}{line}   {len(answer[part])} shown", flush=True)

        for name, given in searches.items():
            command = FindOperations(**given)

            def find(command: FindOperations = command) -> Awaitable[dict[str, Any]]:
                return journal.find_operations(command, CALLER)

            await show(f"find: {name}", find, "operations")
        await show("runs, a page as agents get it", lambda: journal.resume_plan(ResumePlan(), CALLER), "runs")
        for include in ("open", "all"):

            def runs(include: str = include) -> Awaitable[dict[str, Any]]:
                return whole_runs(journal, CALLER, include=include, limit=50)

            await show(f"counterfoil runs ({include})", runs, "runs")


def percentile(values: list[float], share: float) -> float:
    """Give the value below which `share` of the values lie, in milliseconds."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] * 1000


def show_comparison(small: Side, large: Side) -> None:
    """Print p50 and p99 of each call in each journal, and the ratio of the medians."""
    print(f"{'':30}{small.operations:>12} operations{large.operations:>16} operations      ratio")
    for place in small.places:
        for call, few in small.timings[place].items():
            many = large.timings[place][call]
            halves = [
                percentile(few, 0.5),
                percentile(few, 0.99),
                percentile(many, 0.5),
                percentile(many, 0.99),
            ]
            print(
                f"{call + ', ' + place:30}{halves[0]:9.2f} / {halves[1]:8.2f} ms"
                f"{halves[2]:15.2f} / {halves[3]:8.2f} ms{halves[2] / halves[0]:11.2f}"
            )


async def verify(side: Side) -> None:
    """Replay the whole log, and say what it took."""
    began = time.perf_counter()
    async with opened(side.path) as journal:
        result = await journal.reader.verify()
    took = time.perf_counter() - began
    print(
        f"verify: {result.operations} operations, {result.events} events in {took:.1f} s", result.faults[:5]
    )
    assert result.faults == ()


def made(folder: Path, operations: int) -> Side:
    """Build a journal, and say what it takes."""
    path = folder / f"{operations}.db"
    began = time.perf_counter()
    side = Side(operations=operations, path=path, runs=build(path, operations))
    size = path.stat().st_size
    print(
        f"{operations} operations in {len(side.runs)} runs, the largest of {side.runs[0].operations}:"
        f" {size / 1e6:.0f} MB, {size / operations:.0f} bytes an operation;"
        f" built in {time.perf_counter() - began:.0f} s",
        flush=True,
    )
    return side


def main() -> None:
    """Build, measure, print, and remove what was built."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--operations", type=int, default=1_000_000, help="1,000 at the least")
    parser.add_argument("--folder", help="where the files lie: the file system that is measured")
    parser.add_argument("--rounds", type=int, default=200, help="how often each call is made")
    parser.add_argument("--verify", action="store_true", help="replay the whole log of the large one as well")
    given = parser.parse_args()
    if given.operations < SMALL:
        parser.error(f"--operations is {SMALL} at the least")
    with tempfile.TemporaryDirectory(dir=given.folder, prefix="counterfoil-scale-") as name:
        small, large = made(Path(name), SMALL), made(Path(name), given.operations)
        if given.verify:
            anyio.run(verify, large)
        anyio.run(compare, [small, large], given.rounds)
        print("each: p50 / p99")
        show_comparison(small, large)
        anyio.run(search, large)


if __name__ == "__main__":
    main()
