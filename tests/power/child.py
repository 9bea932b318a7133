"""The session whose writes are recorded: makes a journal, works, closes it, and works on.

Run as `python child.py FOLDER MODE SYNCHRONOUS`. It notes each answered call in COUNTERFOIL_MARKS, at the
moment at which it was answered. MODE is `persist` or `wal`; SYNCHRONOUS is `FULL`, as shipped, or a weaker
setting, with which the test shows that it would notice.
"""

import json
import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

import anyio

from journals import Desk, FakeClock, open_desk
from power.sqlite_of_mode import use_mode

MARKS = os.open(os.environ["COUNTERFOIL_MARKS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def note(**answered: Any) -> None:
    """Note what was answered, where the record is now."""
    os.write(MARKS, json.dumps(answered).encode())


async def weaken(desk: Desk, synchronous: str) -> None:
    """Set what the journal was opened with aside."""

    def pragma(raw: sqlite3.Connection) -> None:
        raw.execute(f"PRAGMA synchronous = {synchronous}")

    await desk.journal.database._writer.run(pragma)  # type: ignore[attr-defined]


async def begin(desk: Desk, **fields: Any) -> None:
    """Begin, and note the attempt and its body."""
    payload = f"payload of {desk.key}: " + "x" * 5_000
    answer = await desk.begin(payload=payload, **fields)
    assert answer["next"] == "perform", answer
    note(key=desk.key, attempt=answer["attempt"], body=payload[:40])


async def receipt(desk: Desk) -> None:
    """Record a receipt, and note it."""
    answer = await desk.receipt(external_id=f"m-{desk.key}", evidence={"log": "y" * 3_000})
    assert answer["state"] == "succeeded", answer
    note(key=desk.key, receipt=f"m-{desk.key}")


async def first_session(desk: Desk) -> None:
    """One effect after the other, and a few at once."""
    await begin(desk.at("one"))
    await receipt(desk.at("one"))
    await begin(desk.at("two"))
    answer = await desk.at("two").failure("none", evidence={"status": 422})
    assert answer["state"] == "failed", answer
    note(key="two", outcome="refused")
    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(begin, desk.at(f"together-{number}"))


async def second_session(desk: Desk) -> None:
    """What was begun before is finished, or found."""
    await begin(desk.at("two"))
    await receipt(desk.at("together-0"))
    await desk.at("together-1").reconcile("performed", external_id="m-found")
    note(key="together-1", receipt="m-found")
    await begin(desk.at("three"), target="three@example.org", args={"list": ["z" * 300] * 30})
    await desk.at("three").close("timed_out")
    note(key="three", decision="timed_out")


async def main(folder: Path, synchronous: str) -> None:
    """Work in two sessions, in a folder that is not there yet."""
    clock = FakeClock()
    for session in (first_session, second_session):
        async with open_desk(folder / "data" / "counterfoil", clock=clock) as desk:
            note(opened=True)
            if synchronous != "FULL":
                await weaken(desk, synchronous)
            await session(desk)


if __name__ == "__main__":
    use_mode(sys.argv[2])
    anyio.run(main, Path(sys.argv[1]), sys.argv[3])
