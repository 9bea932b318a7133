"""A long random run: eight processes and fifty agents on one journal, every call recorded.

Clocks run ahead so that leases end in the middle of things; processes are killed at failpoints and started
again; failpoints are passed at random paces, so that calls overlap in every way. Afterwards the history is
checked, and the effects are counted. `PYTHONPATH=tests uv run python -m crash.race --seconds 300` is the long
form, with `--journal postgresql` on a database; the seed that it prints repeats its choices, as far as the
machine's own scheduling lets it.
"""

import argparse
import fcntl
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from counterfoil.store.domain.instants import parse_rfc3339
from counterfoil.store.errors import JournalUnavailable
from counterfoil.store.failpoints import installed
from counterfoil.store.journal import Journal
from crash.child import carry_out, serving
from crash.history import Call, Recorder, faults_in, read_history
from crash.nursery import run_and_exit, warm_up
from crash.places import JOURNALS_HELP, Place, places
from crash.shared_clock import SharedClock

__all__ = ["PROCESSES", "TASKS", "Ground", "Result", "race"]

PROCESSES, TASKS = 8, 50
OPERATIONS = 12
"""How many are worked on at a time: few, so that agents meet."""

LEASE_SECONDS, SETTLE_SECONDS, KEY_SECONDS = 20.0, 30.0, 100_000.0
KINDS = ("unsafe", "keyed", "unsafe")
TWINS = 10
"""So many pairs of agents have one conversation."""

SENT_TWICE = 0.05
"""How often a call arrives a second time."""

KILLED_ONCE_IN = 300
"""How many passings of failpoints a process survives on average."""

FINISH_SECONDS = 60
"""Bound on the end of a process once the time is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a race is run on.

    `folder` holds the clock, the effects and the history. `mishap` befalls the database while all run: it is
    asked for its next step every few milliseconds, and agents then bear with a journal that is unavailable.
    """

    folder: Path
    journal: Place
    processes: int = PROCESSES
    tasks: int = TASKS
    busy_seconds: float = 30.0
    mishap: Callable[[Path], Iterator[None]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a run came to."""

    faults: list[str]
    calls: Counter[str]
    told: Counter[str]
    unanswered: int
    deaths: int
    operations: int
    effects: int
    unavailable: Counter[str]
    """How often the journal was, by what that says of `recorded`."""


class World:
    """What is outside: effects, each a line in a file, never sent once a lease is over."""

    def __init__(self, folder: Path, clock: SharedClock) -> None:
        self._clock = clock
        self._effects = folder / "effects"
        self._effects.touch()
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)

    @contextmanager
    def _held(self) -> Iterator[None]:
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def perform(self, key: str, *, idempotency_key: str, send_before: str) -> bool:
        """Have an effect, if it is not too late to; no clock moves meanwhile."""
        with self._held():
            if self._clock.now >= parse_rfc3339(send_before, field="send_before"):
                return False
            descriptor = os.open(self._effects, os.O_WRONLY | os.O_APPEND)
            try:
                os.write(descriptor, f"{key} {idempotency_key}\n".encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        return True

    def pass_time(self, duration_seconds: float) -> None:
        """Let the clocks run ahead."""
        with self._held():
            self._clock.advance(duration_seconds)

    def effects(self) -> dict[str, list[str]]:
        """Give the idempotency keys under which each effect was had."""
        found = defaultdict(list)
        for line in self._effects.read_text().splitlines():
            key, idempotency_key = line.split(" ")
            found[key].append(idempotency_key)
        return found


class Agent:
    """One of the fifty: does at random what an agent may do, and forgets as often as one."""

    def __init__(
        self,
        number: int,
        journal: Journal,
        world: World,
        recorder: Recorder,
        drawn: random.Random,
        *,
        is_patient: bool,
    ) -> None:
        """Act on `journal`; one that `is_patient` has calls sent again that it could not take."""
        self._is_patient = is_patient
        self._journal = journal
        self._world = world
        self._recorder = recorder
        self._drawn = drawn
        # The first ones are twins: two agents of one conversation.
        self._name = f"conversation-{number // 2 if number < 2 * TWINS else number}"
        self._grants: list[tuple[str, dict[str, Any]]] = []
        self._turns = [0] * OPERATIONS

    async def act(self) -> None:
        """Do one thing."""
        place = self._drawn.randrange(OPERATIONS)
        key = f"step-{place}-{self._turns[place]}"
        run = f"run-{place % 3}/{self._turns[place] // 4}"
        choice = self._drawn.random()
        if choice < 0.45:
            await self._begin(run, key, place)
        elif choice < 0.60 and self._grants:
            await self._report(*self._drawn.choice(self._grants))
        elif choice < 0.70:
            await self._look(run, key, await self.call("check_operation", run=run, key=key))
        elif choice < 0.95:
            plan = await self.call("resume_plan", run=run, include="all")
            for step in plan.get("steps", ()):
                if step["next"] == "reconcile":
                    await self._look(run, step["key"], {**step, "as_of": plan["as_of"]})
        else:
            await self.call(
                "begin_run",
                run=run,
                schedule={"name": "nightly", "occurrence": run},
                lease_seconds=LEASE_SECONDS,
            )

    async def call(self, tool: str, **given: Any) -> dict[str, Any]:
        """Make a recorded call; now and then the same one arrives twice."""
        if tool not in ("resume_plan", "check_operation"):
            given["call_id"] = f"call-{self._drawn.getrandbits(64):016x}"
        answer = await self._call_until_told(tool, given)
        if self._drawn.random() < SENT_TWICE:
            answer = await self._call_until_told(tool, given)
        return answer

    async def _call_until_told(self, tool: str, given: dict[str, Any]) -> dict[str, Any]:
        """Send a call again, call id and all, as long as it cannot be told whether it was recorded."""
        while True:
            answer = await self._call_once(tool, given)
            fault = answer.get("fault")
            if fault is None or fault["code"] != "journal_unavailable" or fault["recorded"] is False:
                return answer

    async def _call_once(self, tool: str, given: dict[str, Any]) -> dict[str, Any]:
        number = self._recorder.begins(tool, given, caller=self._name)
        line = {"do": tool, "trace": {"conversation": self._name}, **given}
        answer = await carry_out(self._journal, line, connection=f"process-{os.getpid()}")
        self._note(number, answer)
        return answer

    def _note(self, number: int, answer: dict[str, Any]) -> None:
        """Note what the call came to; one of which nobody can tell is one without an answer."""
        fault = answer.get("fault", {})
        if fault.get("code") == "not_found":
            self._recorder.ends(number, {})
        elif self._is_patient and fault.get("code") == "journal_unavailable":
            self._recorder.was_unavailable(number, recorded=fault["recorded"])
        else:
            self._recorder.ends(number, answer)

    async def _begin(self, run: str, key: str, place: int) -> None:
        kind = KINDS[place % len(KINDS)]
        answer = await self.call(
            "begin_operation",
            run=run,
            key=key,
            action="email.send",
            target=f"{key}@example.org",
            repeat=kind,
            lookup={"tool": "mail.search", "settle_seconds": SETTLE_SECONDS},
            lease_seconds=LEASE_SECONDS,
            **({"key_ttl_seconds": KEY_SECONDS} if kind == "keyed" else {}),
        )
        if answer.get("next") == "skip":
            self._turns[place] += 1
        if answer.get("next") == "perform":
            self._grants = [*self._grants[-4:], (key, answer)]
            if self._drawn.random() < 0.6:
                await self._report(key, answer)

    async def _report(self, key: str, grant: dict[str, Any]) -> None:
        """Send and report, or only one of both; long after it was granted it is too late to send."""
        named = {"operation": grant["operation"], "attempt": grant["attempt"]}
        has_sent, is_over = grant.get("has_sent", False), grant.get("is_over", False)
        match self._drawn.choice(("send", "send", "send", "say", "progress", "fail", "never sent")):
            case "send" if not (has_sent or is_over):
                grant["has_sent"] = self._world.perform(
                    key, idempotency_key=grant["idempotency_key"], send_before=grant["send_before"]
                )
                if grant["has_sent"] and self._drawn.random() < 0.7:
                    await self.call("record_receipt", **named, **_receipt(key))
            case "send" | "say" if has_sent:
                await self.call("record_receipt", **named, **_receipt(key))
            case "progress":
                await self.call("record_progress", **named, message="still at it")
            case "fail":
                grant["is_over"] = True  # whoever gave an attempt up sends nothing more
                await self.call("record_failure", **named, effect="unknown", error="no answer")
            case "never sent" if not has_sent:
                grant["is_over"] = True
                evidence = {"reply": "the connection was refused"}
                await self.call("record_failure", **named, effect="none", error="refused", evidence=evidence)
            case _:
                pass

    async def _look(self, run: str, key: str, place: dict[str, Any]) -> None:
        if place.get("next") != "reconcile":
            return
        is_there = key in self._world.effects()
        await self.call(
            "reconcile_operation",
            operation=place["operation"],
            finding="performed" if is_there else "not_performed",
            checked_with="mail.search",
            as_of=place["as_of"],
            **(_receipt(key) if is_there else {}),
        )


def _receipt(key: str) -> dict[str, Any]:
    return {"kind": "message", "system": "smtp", "external_id": f"ref-{key}"}


async def _work(ground: Ground, seed: str, agents: list[int], until: float) -> None:
    """Let the agents of one process act until the time is over."""
    folder = ground.folder
    clock = SharedClock(folder / "clock")
    world, recorder = World(folder, clock), Recorder(folder)
    drawn = random.Random(seed)

    def stumble(name: str) -> None:
        pace = drawn.random()
        if name != "during_migration" and pace < 1 / KILLED_ONCE_IN:
            os.kill(os.getpid(), 9)
        if pace > 0.9:
            # Not to wait for anything: so that others come in between.
            time.sleep((pace - 0.9) * 0.1)

    async with opened(ground, clock) as journal:
        with installed(stumble):
            async with anyio.create_task_group() as tasks:

                async def live(number: int) -> None:
                    own = random.Random(f"{seed}/{number}")
                    agent = Agent(number, journal, world, recorder, own, is_patient=ground.mishap is not None)
                    while time.monotonic() < until:
                        await agent.act()

                for number in agents:
                    tasks.start_soon(live, number)


@asynccontextmanager
async def opened(ground: Ground, clock: SharedClock) -> AsyncIterator[Journal]:
    """Open the journal, again where something befell it meanwhile."""
    async with AsyncExitStack() as stack:
        while True:
            opening = serving(ground.journal, clock, busy_timeout_seconds=ground.busy_seconds)
            try:
                journal = await stack.enter_async_context(opening)
                break
            except JournalUnavailable:
                if ground.mishap is None:
                    raise
        yield journal


async def _look_at_the_end(
    journal_at: Place, clock: SharedClock, calls: list[Call]
) -> tuple[list[Call], list[str]]:
    """Check every operation once more, as recorded calls, and the journal itself."""
    answers = [call.answer for call in calls if call.answer is not None]
    ids = sorted({answer["operation"] for answer in answers if "operation" in answer})
    looked = []
    async with serving(journal_at, clock) as journal:
        for operation in ids:
            start = time.monotonic_ns()
            given = {"operation": operation}
            answer = await carry_out(journal, {"do": "check_operation", **given}, connection="the end")
            looked.append(
                Call(
                    tool="check_operation",
                    given=given,
                    caller="the end",
                    start=start,
                    end=time.monotonic_ns(),
                    answer=answer,
                )
            )
        verified = await carry_out(journal, {"do": "verify"}, connection="the end")
    return looked, [f"the journal does not verify: {fault}" for fault in verified["faults"]]


def race(ground: Ground, *, seed: int, lasts_seconds: float) -> Result:
    """Run for so long on a ground of its own, and check what happened."""
    warm_up()
    folder = ground.folder
    clock = SharedClock(folder / "clock")
    world = World(folder, clock)
    drawn = random.Random(seed)
    until = time.monotonic() + lasts_seconds
    places = [list(range(place, ground.tasks, ground.processes)) for place in range(ground.processes)]
    mishap = iter(()) if ground.mishap is None else ground.mishap(folder)
    running: dict[int, int] = {}
    deaths = 0

    def start(place: int) -> None:
        pid = os.fork()
        if pid == 0:
            run_and_exit(anyio.run, _work, ground, f"{seed}/{place}/{deaths}", places[place], until)
        running[pid] = place

    for place in range(ground.processes):
        start(place)
    faults = []
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            assert time.monotonic() < until + FINISH_SECONDS, "a process does not end"
            next(mishap, None)
            world.pass_time(drawn.choice((0, 0, 0.1, 1, 5)))
            time.sleep(0.02)
            continue
        place = running.pop(pid)
        code = os.waitstatus_to_exitcode(status)
        if code == -9:
            deaths += 1
            if time.monotonic() < until:
                start(place)
        elif code != 0:
            faults.append(f"a process ended with {code}")
    calls = read_history(folder)
    looked, unverified = anyio.run(_look_at_the_end, ground.journal, clock, calls)
    effects = world.effects()
    faults += [*faults_in([*calls, *looked]), *unverified, *_twice(effects), *_invented(looked, effects)]
    return Result(
        faults=faults,
        calls=Counter(call.tool for call in calls),
        told=Counter(
            f"{answer['next']}: {answer['reason']}"
            for answer in (call.answer or {} for call in calls)
            if "next" in answer
        ),
        unanswered=sum(call.answer is None for call in calls),
        deaths=deaths,
        operations=len(looked),
        effects=sum(map(len, effects.values())),
        unavailable=Counter(call.unavailable for call in calls if call.unavailable is not None),
    )


def _twice(effects: dict[str, list[str]]) -> Iterator[str]:
    """A provider that knows keys has an effect once under one key; any other has one for each request."""
    for key, keys in effects.items():
        is_keyed = KINDS[int(key.split("-")[1]) % len(KINDS)] == "keyed"
        if len(set(keys) if is_keyed else keys) > 1:
            yield f"{key} was had {len(keys)} times"


def _invented(looked: list[Call], effects: dict[str, list[str]]) -> Iterator[str]:
    for call in looked:
        assert call.answer is not None
        if call.answer["state"] == "succeeded" and call.answer["key"] not in effects:
            yield f"{call.answer['key']} is reported as done, and nothing took place"
        if call.answer["state"] == "failed" and call.answer["key"] in effects:
            yield f"{call.answer['key']} is reported as without effect, and took place"


def main() -> None:
    """Run as the command line says; exits 1 where anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--folder", type=Path, help="where files lie; memory where there is some")
    parser.add_argument("--journal", default="sqlite", help=JOURNALS_HELP)
    given = parser.parse_args()
    memory = Path("/dev/shm")
    place = given.folder or (memory if memory.is_dir() else None)
    print(f"seed {given.seed}", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="counterfoil-", dir=place) as folder,
        places(given.journal) as journals,
    ):
        ground = Ground(folder=Path(folder), journal=journals.new(Path(folder)))
        result = race(ground, seed=given.seed, lasts_seconds=given.seconds)
    for fault in result.faults:
        print(fault)
    summary = {name: getattr(result, name) for name in Result.__slots__ if name != "faults"}
    print(json.dumps({"faults": len(result.faults), **summary}))
    sys.exit(1 if result.faults else 0)


if __name__ == "__main__":
    main()
