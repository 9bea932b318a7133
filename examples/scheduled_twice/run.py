"""Fires a slot twice, once in the middle of the other; later fires it again, and misses the slot after it."""

import sys
import tempfile
import time
from pathlib import Path

from outside import Feed

sys.path.append(str(Path(__file__).parents[1]))
from shared.processes import read_until, start, told

AGENT = Path(__file__).parent / "agent.py"
SLOT, NEXT = "2026-11-29T02:00Z", "2026-11-30T02:00Z"


def main(folder: Path) -> None:
    feed, began = Feed(folder), time.monotonic()

    first = start(AGENT, "fire", SLOT, "stop in the middle", folder=folder)
    read_until(first, "post:report: perform: first_attempt")
    second = told(start(AGENT, "fire", SLOT, folder=folder))
    first_ended = told(first, "go on\n")
    assert feed.posts() == [f"report of {SLOT}"], f"{len(feed.posts())} posts for one slot"
    assert second == [
        f"{SLOT}: wait: run_held",
        "held by the firing that came first",
        "post:report: wait: lease_held",
    ], second
    assert first_ended == [f"{SLOT}: continue: finished"], first_ended
    print("fired twice at once: the second sees the first at work and does nothing; 1 post")

    caught_up = told(start(AGENT, "catch-up", folder=folder))
    assert feed.posts() == [f"report of {SLOT}", f"report of {NEXT}"], feed.posts()
    missed, age = caught_up.pop(1).rsplit(maxsplit=1)
    assert missed == f"missed: {NEXT}, 1 planned, age", missed
    assert 0 <= int(age) <= time.monotonic() - began, f"the slot was declared {age} seconds ago"
    assert caught_up == [
        f"{SLOT}: skip: already_succeeded",
        f"{NEXT}: continue: resumed",
        "post:report: perform: first_attempt",
        f"{NEXT}: continue: finished",
        f"{NEXT}: skip: already_succeeded",
        "missed now: 0",
    ], caught_up
    print("fired again after an outage: the slot is done; the one that was missed shows, and is served late")
    print("2 slots, 2 posts")


with tempfile.TemporaryDirectory() as name:
    main(Path(name))
