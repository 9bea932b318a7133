"""Starts the sessions of `child.py`, and plays the agent that follows `next` and nothing else."""

import json
import os
import select
import signal
import time
from pathlib import Path
from typing import Any, Self

from crash.nursery import start
from journals import journal_place

WAIT_SECONDS = 60
"""Bound on every wait; a healthy child answers in milliseconds once it runs."""

LATER_SECONDS = 1_000
"""Past the default lease (300 s) and the default settle time (300 s)."""

LONG = bool(os.environ.get("COUNTERFOIL_LONG"))
"""The same tests with larger counts: `COUNTERFOIL_LONG=1 uv run pytest tests/{crash,scenarios,stateful}`."""


class Died(Exception):
    """The child ended before it answered."""


class Session:
    """One running child."""

    def __init__(
        self, folder: Path, *, ahead_seconds: float = 0, failpoints: str = "", journal: str = "journal.db"
    ) -> None:
        self.provider = folder / "provider"
        self.process = start(
            [str(journal_place(folder / journal)), str(self.provider), str(ahead_seconds), failpoints],
        )
        self._buffer = b""
        self.is_ready = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout):
            stream.close()
        self.process.wait(WAIT_SECONDS)

    def wait_until_ready(self) -> Self:
        """Wait until the journal is open."""
        if not self.is_ready:
            assert self._line() == "ready"
            self.is_ready = True
        return self

    def send(self, do: str, **given: Any) -> None:
        """Send one command and do not wait."""
        self.process.stdin.write(json.dumps({"do": do, **given}).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """Give the next answer.

        Raises:
            Died: there is none, the child is dead.
        """
        self.wait_until_ready()
        return dict(json.loads(self._line()))

    def ask(self, do: str, **given: Any) -> dict[str, Any]:
        """Send one command and give its answer."""
        self.send(do, **given)
        return self.receive()

    def kill(self) -> None:
        """Kill the child where it stands."""
        self.process.send_signal(signal.SIGKILL)
        assert self.process.wait(WAIT_SECONDS) == -signal.SIGKILL

    def was_killed(self) -> bool:
        """Tell whether the child died of SIGKILL; it must be dying."""
        return self.process.wait(WAIT_SECONDS) == -signal.SIGKILL

    def _line(self) -> str:
        deadline = time.monotonic() + WAIT_SECONDS
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            assert ready, "the child neither answered nor died"
            chunk = os.read(self.process.stdout.fileno(), 65536)
            if not chunk:
                raise Died
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()


class Barrier:
    """A place at which sessions wait until they are let go."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def at(self, place: str) -> str:
        """Give what makes a session wait at a failpoint, each time it comes by until it is let go."""
        return f"{place}=barrier:{self._path}"

    def wait_until_reached(self) -> None:
        """Wait until a session waits there."""
        reached = Path(f"{self._path}.reached")
        deadline = time.monotonic() + WAIT_SECONDS
        while not reached.exists():
            assert time.monotonic() < deadline, f"nobody came to {self._path}"
            time.sleep(0.002)

    def let_go(self) -> None:
        """Let whoever waits there, or comes later, go on."""
        Path(f"{self._path}.go").touch()


def effects(folder: Path) -> list[str]:
    """Give the effects that took place outside, in their order."""
    provider = folder / "provider"
    return provider.read_text().split() if provider.exists() else []


def follow_plan(session: Session, run: str, intended: list[dict[str, Any]], *, most: int = 20) -> None:
    """Be an agent with no memory but its task: ask for the plan, act on `next` alone, until nothing is left.

    `intended` are the effects of the workflow, as it would begin them. Each leaves its key as its mark
    outside, which is also how it is looked up.
    """
    by_key = {begin["key"]: begin for begin in intended}
    for _ in range(most):
        plan, steps = whole_plan(session, run)
        waiting = [key for key in by_key if key not in steps or steps[key]["next"] != "skip"]
        if not waiting:
            return
        for key in waiting:
            if key in steps and steps[key]["next"] == "reconcile":
                look_up(session, run, key, as_of=plan["as_of"])
            elif key not in steps or steps[key]["next"] == "begin":
                perform_once(session, by_key[key])
            else:
                raise AssertionError(f"an agent would be stuck: {steps[key]}")
    raise AssertionError("an agent would go round in a circle")


def whole_plan(session: Session, run: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Ask for every page of the plan; gives the first, and all steps by key."""
    page = first = session.ask("resume_plan", run=run, include="all")
    steps = {step["key"]: step for step in first["steps"]}
    while page["cut"]:
        page = session.ask("resume_plan", run=run, include="all", cursor=page["next_cursor"])
        steps |= {step["key"]: step for step in page["steps"]}
    return first, steps


def look_up(session: Session, run: str, key: str, *, as_of: str) -> dict[str, Any]:
    """Look for the mark outside, and report what was found."""
    if key in effects(session.provider.parent):
        return session.ask(
            "reconcile_operation",
            run=run,
            key=key,
            finding="performed",
            checked_with="the provider's list",
            as_of=as_of,
            kind="message",
            external_id=f"ref-{key}",
        )
    return session.ask(
        "reconcile_operation",
        run=run,
        key=key,
        finding="not_performed",
        checked_with="the provider's list",
        as_of=as_of,
    )


def perform_once(session: Session, begin: dict[str, Any]) -> dict[str, Any]:
    """Begin; on `perform` have the effect and record its receipt. Gives the last answer."""
    answer = session.ask("begin_operation", **begin)
    if answer.get("next") != "perform":
        return answer
    session.ask("perform", mark=begin["key"])
    return session.ask(
        "record_receipt",
        operation=answer["operation"],
        attempt=answer["attempt"],
        kind="message",
        external_id=f"ref-{begin['key']}",
    )
