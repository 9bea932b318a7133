"""A session in a process of its own, which can be killed at a failpoint of the journal.

Its arguments are JOURNAL (a path or a URL) PROVIDER AHEAD_SECONDS FAILPOINTS; `nursery.py` starts it. It
opens the journal, says `ready`, and then takes one JSON line after the other: `{"do": "begin_operation", …}`
and so on, a tool with its arguments, `{"do": "perform", "mark": …}` for the outside effect (a line in the
append-only file PROVIDER). It answers each with one JSON line. `AHEAD_SECONDS` is how much later than now its
clocks say it is; both clocks agree, so for the journal that time has simply passed.
"""

import json
import os
import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from counterfoil.store.domain.instants import Reading
from counterfoil.store.domain.states import Policy
from counterfoil.store.errors import Fault
from counterfoil.store.failpoints import install_from
from counterfoil.store.journal import Journal
from counterfoil.store.opening import Fresh, open_journal
from crash.places import Place, place_named
from scenarios.tools import call_tool

__all__ = ["carry_out", "clock_ahead", "main", "serve", "serving"]


def perform(provider: Path, mark: str) -> None:
    """Have the outside effect: one more line."""
    descriptor = os.open(provider, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{mark}\n".encode())
    finally:
        os.close(descriptor)


def clock_ahead(ahead_seconds: float) -> Callable[[], Reading]:
    """Give the clocks of this machine, so many seconds ahead."""
    ahead = round(ahead_seconds * 1_000_000)

    def clock() -> Reading:
        return Reading(
            at=time.time_ns() // 1_000 + ahead,
            monotonic=time.monotonic_ns() // 1_000 + ahead,
            boot="this-boot",
        )

    return clock


async def carry_out(journal: Journal, given: dict[str, Any], *, connection: str) -> dict[str, Any]:
    """Call the tool that a line names, and give its answer or its fault.

    Who calls is a session with a conversation of its own, unless the line brings a `trace`.
    """
    do = given.pop("do")
    try:
        if do == "verify":
            found = await journal.reader.verify()
            return {"operations": found.operations, "faults": list(found.faults)}
        given.setdefault("trace", {"conversation": connection})
        return await call_tool(journal, do, connection=connection, **given)
    except Fault as fault:
        return {"fault": fault.as_dict()}


def serving(place: Place, clock: Callable[[], Reading], *, busy_timeout_seconds: float = 30) -> Any:
    """Open the journal of a session, under the session's clock wherever it lies."""
    return open_journal(
        place,
        fresh=Fresh(journal_id="crash", secret=secrets.token_hex(32)),
        namespace="default",
        policy=Policy(),
        clock=clock,
        busy_timeout_seconds=busy_timeout_seconds,
        has_own_clock=False,
    )


async def serve(place: Place, provider: Path, clock: Callable[[], Reading]) -> None:
    """Serve lines until stdin ends."""
    connection = f"child-{os.getpid()}"
    async with serving(place, clock) as journal:
        print("ready", flush=True)
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            given = json.loads(line)
            if given["do"] == "perform":
                perform(provider, given["mark"])
                answer: dict[str, Any] = {}
            else:
                answer = await carry_out(journal, given, connection=connection)
            print(json.dumps(answer), flush=True)


def main(arguments: list[str]) -> None:
    """Serve a journal as the arguments say."""
    place, provider, ahead_seconds, failpoints = arguments
    install_from(failpoints)
    anyio.run(serve, place_named(place), Path(provider), clock_ahead(float(ahead_seconds)))
