"""A call cancelled at any of its awaits, or anywhere in its transaction, leaves the journal whole and of use.

What was cancelled is either recorded whole or not at all, and the same call sent again says which.
"""

import threading
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.trace import TracerProvider

from counterfoil.server.callers import ClientInfo, caller_of
from counterfoil.server.journals import Journals
from counterfoil.server.telemetry import Telemetry
from counterfoil.store.failpoints import installed
from counterfoil.store.limits import Limits
from counterfoil.store.probing import ProbeFinding, ProbeSubject
from counterfoil.tools.arguments import take_arguments
from hostile.fields import TOOLS, minimal
from journals import FakeClock, after, folder_in_memory, open_test_journal
from scenarios.tools import call_tool

pytestmark = pytest.mark.anyio

WAIT_SECONDS = 20
LEAST_AWAITS, MOST_AWAITS = 2, 60
"""The journal's opening and the transaction are two."""

TRACER = TracerProvider(shutdown_on_exit=False).get_tracer("tests")
REF: Mapping[str, Any] = {"key": "key-1", "action": "mail.send", "target": "alice@example.org"}
MORE: Mapping[str, Mapping[str, Any]] = {
    "record_receipt": {"kind": "message", "external_id": "m-1", "evidence": {"id": 1}},
    "begin_run": {"plan": [{"key": "key-2", "action": "post.send"}], "context": {"model": "m"}},
    "record_progress": {"message": "still at it", "checkpoint": {"page": 3}},
    "check_operation": {"wait_seconds": 0.02},
}
PLACES = ("before_begin", "after_begin", "before_commit", "after_commit")


class Outbox:
    """A probe that finds every message."""

    async def look(self, subject: ProbeSubject) -> ProbeFinding:
        """Find the message of the operation's run."""
        return ProbeFinding(
            probe="outbox", found=True, kind="message", system="smtp", external_id=f"m-{subject.run}"
        )


class CancelledAt:
    """Awaits a call, and cancels it at its await number `at`: while it waits there, or once that is ready.

    `is_late`: what is waited for has happened already, and the call has not been told yet.
    """

    def __init__(self, call: Awaitable[Any], at: int, *, is_late: bool) -> None:
        self._call = call
        self._at = at
        self._is_late = is_late
        self.scope = anyio.CancelScope()
        self.awaits = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._call.__await__()
        sent: Any = None
        error: BaseException | None = None
        while True:
            try:
                waited_for = steps.send(sent) if error is None else steps.throw(error)
            except StopIteration as end:
                return end.value
            if self.awaits == self._at:
                if self._is_late and hasattr(waited_for, "add_done_callback"):
                    waited_for.add_done_callback(lambda _: self.scope.cancel())
                else:
                    self.scope.cancel()
            self.awaits += 1
            try:
                sent, error = (yield waited_for), None
            except BaseException as raised:
                sent, error = None, raised


async def cancelled_at(call: Callable[[], Awaitable[Any]], at: int, *, is_late: bool) -> tuple[bool, Any]:
    """Carry a call out, cancelled at its await number `at`; tell whether it came to that, and its answer."""
    counted = CancelledAt(call(), at, is_late=is_late)
    answer = None
    with anyio.fail_after(WAIT_SECONDS), counted.scope:
        answer = await counted
    return counted.awaits > at, answer


def arguments_of(tool: str, run: str) -> dict[str, Any]:
    """Give a call of `tool` on the operation of `run` that records something, where the tool does."""
    known = TOOLS[tool].input_model.model_fields
    named = {name: value for name, value in REF.items() if name in known and tool != "find_operations"}
    given = minimal(tool, **named, **MORE.get(tool, {}))
    if "run" in known:
        given["run"] = run
    if tool == "record_receipt":
        given["external_id"] = f"m-{run}"
    if not TOOLS[tool].reads_only:
        given["call_id"] = f"the call of {run}"
    return given


NEEDS_NOTHING = ("begin_operation", "begin_run", "resume_plan", "find_operations")


async def prepare(journal: Any, tool: str, run: str) -> None:
    """Begin what a call of `tool` speaks of."""
    if tool not in NEEDS_NOTHING:
        lookup = {"tool": "mail.search", "probe": "outbox"}
        begun = await call_tool(
            journal, "begin_operation", run=run, **REF, lookup=lookup, call_id=f"begin {run} now"
        )
        assert begun["next"] == "perform"


async def check_whole_and_works(
    journal: Any, call: Callable[[], Awaitable[dict[str, Any]]], answer: Mapping[str, Any] | None, what: str
) -> None:
    """Hold that the cancelled call can be sent again, that it agrees with the answer, and all is whole."""
    again = await call()
    twice = await call()
    assert (again["next"], again.get("state")) == (twice["next"], twice.get("state")), what
    assert again.get("attempt", 1) == 1, what
    if what.startswith("begin_operation"):
        assert again["next"] == "perform", what
    if answer is not None:
        told = ("state", "attempt", "idempotency_key", "operation")
        assert {name: again.get(name) for name in told} == {name: answer.get(name) for name in told}, what
    assert (await journal.reader.verify()).faults == (), what


async def as_the_server_does(journals: Journals, tool: str, run: str) -> dict[str, Any]:
    """Carry a call out on all of its way: the journal is opened first, and its spans are told last."""
    specification = TOOLS[tool]
    taken = take_arguments(specification.input_model, arguments_of(tool, run), limits=Limits())
    caller = caller_of(tool=tool, meta={}, client=ClientInfo(connection="connection-1"), arguments=taken)
    journal = await journals.get()
    with TRACER.start_as_current_span("a call"):
        return await Telemetry(TRACER).watched(tool, specification.run, journal, taken, caller)


@pytest.mark.parametrize("is_late", [False, True], ids=["while it waits", "once it is ready"])
@pytest.mark.parametrize("tool", TOOLS)
async def test_a_call_cancelled_at_any_await_is_recorded_whole_or_not_at_all(
    tool: str, is_late: bool
) -> None:
    clock, cancelled = FakeClock(), 0
    with folder_in_memory() as folder:
        for at in range(MOST_AWAITS):
            run = f"run cancelled at {at:04}"
            async with open_test_journal(folder, clock=clock) as journal:
                await prepare(journal, tool, run)
            async with Journals.holding(
                partial(open_test_journal, folder, clock=clock, prober=Outbox())
            ) as journals:
                call = partial(as_the_server_does, journals, tool, run)
                came_to_that, answer = await cancelled_at(call, at, is_late=is_late)
                cancelled += answer is None
                await check_whole_and_works(await journals.get(), call, answer, f"{tool} at {at}")
            if not came_to_that:
                assert answer is not None
                assert at >= LEAST_AWAITS
                assert is_late or cancelled > 0, "nothing was cancelled"
                return
    raise AssertionError(f"{tool} has more than {MOST_AWAITS} awaits")


@contextmanager
def stopped_at(place: str) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Stop the first transaction that reaches `place`: it tells, and waits to be let on."""
    reached, go = threading.Event(), threading.Event()

    def hook(name: str) -> None:
        if name == place and not reached.is_set():
            reached.set()
            assert go.wait(WAIT_SECONDS)

    with installed(hook):
        try:
            yield reached, go
        finally:
            go.set()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("tool", [tool for tool in TOOLS if not TOOLS[tool].reads_only])
async def test_a_call_cancelled_inside_its_transaction_is_recorded_once(tool: str, place: str) -> None:
    with folder_in_memory() as folder:
        async with open_test_journal(folder, clock=FakeClock(), prober=Outbox()) as journal:
            await prepare(journal, tool, "run cancelled inside")
            call = partial(call_tool, journal, tool, **arguments_of(tool, "run cancelled inside"))
            with anyio.fail_after(WAIT_SECONDS), stopped_at(place) as (reached, go):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(call)
                    assert await anyio.to_thread.run_sync(reached.wait, WAIT_SECONDS)
                    tasks.cancel_scope.cancel()
                go.set()
                await check_whole_and_works(journal, call, None, f"{tool} {place}")


async def test_of_many_calls_cancelled_together_each_is_whole(tmp_path: Path) -> None:
    """They share a commit: the ones that are withdrawn take none of the others with them."""
    clock = FakeClock()
    async with open_test_journal(tmp_path, clock=clock) as journal:
        answered: dict[str, dict[str, Any]] = {}

        async def begin(run: str) -> None:
            answered[run] = await call_tool(
                journal, "begin_operation", **arguments_of("begin_operation", run)
            )

        runs = [f"run together {number:03}" for number in range(30)]
        with anyio.fail_after(WAIT_SECONDS), stopped_at("before_begin") as (reached, go):
            async with anyio.create_task_group() as kept, anyio.create_task_group() as withdrawn:
                for number, run in enumerate(runs):
                    (withdrawn if number % 2 else kept).start_soon(begin, run)
                assert await anyio.to_thread.run_sync(reached.wait, WAIT_SECONDS)
                withdrawn.cancel_scope.cancel()
                go.set()
        assert [answered[run]["next"] for run in runs[::2]] == ["perform"] * 15
        for run in runs:
            again = await call_tool(journal, "begin_operation", **arguments_of("begin_operation", run))
            assert (again["next"], again["attempt"]) == ("perform", 1)
            if run in answered:
                assert (again["reason"], again["idempotency_key"]) == (
                    "replayed",
                    answered[run]["idempotency_key"],
                )
        assert (await journal.reader.verify()).faults == ()
        assert after(0) == clock.text
