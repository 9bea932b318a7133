"""An agent in a process of its own, which acts on `next` alone and can be killed around everything it does.

It starts its server by a fork, as a client starts one, and speaks with it over pipes. It knows its task and
nothing of what an earlier session did. What it passes and what it is answered it notes in a file, line by
line, before it goes on.
"""

import json
import os
import signal
import sys
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import anyio

from counterfoil.store.domain.instants import parse_rfc3339
from counterfoil.store.failpoints import install_from
from crash.child import serve
from crash.nursery import run_and_exit
from crash.places import Place
from crash.provider import Lost, Provider, Refused
from crash.shared_clock import SharedClock

__all__ = ["CALLS", "POINTS", "Agent", "Orders"]

Answer = dict[str, Any]
Server = tuple[int, IO[bytes], IO[bytes]]
"""Its process, and the pipes to and from it."""

CALLS = (
    "resume_plan",
    "begin_operation",
    "record_receipt",
    "record_failure",
    "reconcile_operation",
    "check_operation",
)
"""The tools that it calls."""

POINTS = (
    *(f"{moment} {tool}" for tool in CALLS for moment in ("before", "behind", "after")),
    "before the effect",
    "after the effect",
    "before looking",
    "after looking",
)
"""Where it can be killed: before a call, behind its sending, after its answer; around what is outside."""

MOST_STEPS = 60
"""Bound on what it does; a session takes some ten steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a session is told: its task (a begin), and where it or its server dies.

    `dies_at` is `POINT` or `POINT@N`, the Nth time. `server_dies_at` is for the first server that it starts;
    one that `is_patient` then starts another and sends its call again, with the same call id. Who does not
    read the plan begins from the top, as one that takes it for new work.
    """

    task: dict[str, Any]
    dies_at: str | None = None
    server_dies_at: str | None = None
    is_patient: bool = False
    reads_the_plan: bool = True


class ServerDied(Exception):
    """Its server ended before it answered."""


class Agent:
    """One session, in `folder`, where the clock and the agent's notes lie; the journal is at `journal`."""

    def __init__(
        self, folder: Path, journal: Place, provider: Provider, clock: SharedClock, orders: Orders
    ) -> None:
        self._folder = folder
        self._journal = journal
        self._provider = provider
        self._clock = clock
        self._orders = orders
        self._notes = os.open(folder / "notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._server: Server | None = None
        self._failpoints = orders.server_dies_at or ""
        point, _, passing = (orders.dies_at or "").partition("@")
        assert not point or point in POINTS
        self._point, self._left = point, int(passing or 1)
        self._steps = 0

    def work(self) -> None:
        """Follow the plan until the task is settled or a person has to decide; notes which of both."""
        key = self._orders.task["key"]
        try:
            if not self._orders.reads_the_plan:
                self._begin()
            while True:
                plan = self.call("resume_plan", run=self._orders.task["run"], include="all")
                step = next((step for step in plan["steps"] if step["key"] == key), None)
                if step is None or step["next"] == "begin":
                    self._begin()
                elif step["next"] in ("skip", "ask"):
                    self.note(end=step["next"], reason=step["reason"])
                    return
                else:
                    self._follow({**step, "as_of": plan["as_of"]})
        except ServerDied:
            self.note(end="server died")

    def ask_for_the_whole(self) -> None:
        """Note all that the journal knows in the end."""
        task = self._orders.task
        checked = self.call("check_operation", run=task["run"], key=task["key"])
        self.note(checked=checked, verified=self._ask({"do": "verify"}))

    def call(self, tool: str, **given: Any) -> Answer:
        """Call a tool, over a new server where the old one died and the orders say so.

        Raises:
            ServerDied: it died, and the orders say nothing.
        """
        self._steps += 1
        assert self._steps < MOST_STEPS, "an agent would go round in a circle"
        if tool not in ("resume_plan", "check_operation"):
            given["call_id"] = f"call-{uuid.uuid4()}"
        self._pass(f"before {tool}")
        while True:
            try:
                answer = self._ask({"do": tool, **given})
                break
            except ServerDied:
                self._server = None
                if not self._orders.is_patient:
                    raise
        self.note(tool=tool, given=given, answer=answer)
        assert "fault" not in answer, answer
        self._pass(f"after {tool}")
        return answer

    def note(self, **members: Any) -> None:
        """Write down one line, for whoever holds the history against the world."""
        os.write(self._notes, json.dumps({"session": os.getpid(), **members}).encode() + b"\n")

    def _begin(self) -> None:
        self._follow(self.call("begin_operation", **self._orders.task))

    def _follow(self, answer: Answer) -> None:
        """Do what `next` says; nothing where the plan has to say more."""
        match answer["next"]:
            case "perform":
                self._act(answer)
            case "reconcile":
                self._look(answer)
            case "wait":
                self._clock.advance_to(parse_rfc3339(answer["retry_at"], field="retry_at"))
            case "skip" | "continue" | "ask":
                pass
            case other:
                raise AssertionError(f"an agent would be stuck at {other}: {answer}")

    def _act(self, granted: Answer) -> None:
        """Have the effect, and report what came of it."""
        named = {"operation": granted["operation"], "attempt": granted["attempt"]}
        assert self._clock.now < parse_rfc3339(granted["send_before"], field="send_before")
        self._pass("before the effect")
        try:
            accepted = self._provider.send(self._orders.task["key"], key=granted["idempotency_key"])
        except Refused as refused:
            self._pass("after the effect")
            answer = self.call(
                "record_failure", **named, effect="none", error="refused", evidence=refused.evidence
            )
        except Lost:
            self._pass("after the effect")
            answer = self.call("record_failure", **named, effect="unknown", error="no answer came")
        else:
            self._pass("after the effect")
            answer = self.call(
                "record_receipt", **named, **_receipt(accepted.reference), final=accepted.is_final
            )
        self._follow(answer)

    def _look(self, place: Answer) -> None:
        """Look as the recorded lookup says, and again where that was too early."""
        while True:
            self._pass("before looking")
            finding, receipt = "inconclusive", {}
            if "lookup" in place:
                reference = self._provider.look_up(self._orders.task["key"])
                finding = "not_performed" if reference is None else "performed"
                receipt = {} if reference is None else _receipt(reference)
            self._pass("after looking")
            answer = self.call(
                "reconcile_operation",
                operation=place["operation"],
                finding=finding,
                checked_with="the provider's list",
                as_of=place["as_of"],
                **receipt,
            )
            if answer["next"] != "wait":
                return
            self._follow(answer)
            place = self.call("check_operation", operation=place["operation"])
            if place["next"] != "reconcile":
                return

    def _ask(self, line: dict[str, Any]) -> Answer:
        if self._server is None:
            self._server = self._start_server()
        _, to_server, _ = self._server
        with suppress(BrokenPipeError):  # then it is dead, which reading from it shows
            to_server.write(json.dumps(line).encode() + b"\n")
            to_server.flush()
        if line["do"] in CALLS:
            self._pass(f"behind {line['do']}")
        return dict(json.loads(self._line(self._server)))

    def _start_server(self) -> Server:
        """Fork a server and wait until its journal is open.

        Raises:
            ServerDied: it died before.
        """
        in_read, in_write = os.pipe()
        out_read, out_write = os.pipe()
        pid = os.fork()
        if pid == 0:
            stderr = os.open(self._folder / "stderr", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            for given, own in ((in_read, 0), (out_write, 1), (stderr, 2)):
                os.dup2(given, own)
            for descriptor in (in_read, in_write, out_read, out_write, stderr):
                os.close(descriptor)
            sys.stdin, sys.stdout = os.fdopen(0, "r"), os.fdopen(1, "w")
            run_and_exit(self._serve)
        self._failpoints = ""
        os.close(in_read)
        os.close(out_write)
        server = (pid, os.fdopen(in_write, "wb"), os.fdopen(out_read, "rb"))
        assert self._line(server) == b"ready\n"
        return server

    def _line(self, server: Server) -> bytes:
        """Give the server's next line.

        Raises:
            ServerDied: it was killed before it said one.
        """
        pid, _, from_server = server
        text = from_server.readline()
        if not text.endswith(b"\n"):
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            assert code == -signal.SIGKILL, f"the server ended with {code}"
            self.note(server_killed_at=self._orders.server_dies_at)
            raise ServerDied
        return bytes(text)

    def _serve(self) -> None:
        install_from(self._failpoints)
        anyio.run(serve, self._journal, self._folder / "lines", self._clock)

    def _pass(self, point: str) -> None:
        self.note(passed=point)
        if point == self._point:
            self._left -= 1
            if self._left == 0:
                self.note(killed_at=self._orders.dies_at)
                os.kill(os.getpid(), signal.SIGKILL)


def _receipt(reference: str) -> dict[str, Any]:
    return {"kind": "message", "system": "provider", "external_id": reference}
