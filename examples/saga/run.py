"""Kills the first session in the middle of undoing a trip, lets a second finish, and counts at the office."""

import sys
import tempfile
from pathlib import Path

from outside import Office

sys.path.append(str(Path(__file__).parents[1]))
from shared.processes import kill, read_until, start, told

AGENT = Path(__file__).parent / "agent.py"


def main(folder: Path) -> None:
    office = Office(folder)

    first = start(AGENT, "first", folder=folder)
    said = read_until(first, "the hotel is cancelled")
    kill(first)
    assert said[:-1] == [
        "book:flight: perform: first_attempt",
        "book:hotel: perform: first_attempt",
        "book:car: perform: first_attempt",
        "book:car: ask: attempts_exhausted",
        "undo:hotel: perform: first_attempt",
    ], said
    print("first session: flight and hotel booked, no car to be had; killed when the hotel was cancelled")

    out = told(start(AGENT, "second", folder=folder))
    print(*(f"second session: {line}" for line in out), sep="\n")
    for what, done in (("flight", ["booked", "cancelled"]), ("hotel", ["booked", "cancelled"]), ("car", [])):
        assert office.done(what) == done, f"{what}: {office.done(what)}"
    for expected in (
        "undo:hotel: reconcile: in_doubt",
        "undo:flight: begin: first_attempt",
        "book:flight: ended compensated",
        "book:hotel: ended compensated",
        "book:car: ended cancelled",
        "undo:hotel: ended succeeded",
        "undo:flight: ended succeeded",
        "undo:flight: skip: already_succeeded",
        "trip/alice-2027-02: continue: finished",
    ):
        assert expected in out, f"the second session did not say: {expected}"
    print("2 bookings, each made once and undone once")


with tempfile.TemporaryDirectory() as name:
    main(Path(name))
