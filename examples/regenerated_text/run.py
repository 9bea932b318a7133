"""Kills the first session once its letter is posted, lets a second write it anew, and counts the letters."""

import sys
import tempfile
from pathlib import Path

from outside import PostOffice

sys.path.append(str(Path(__file__).parents[1]))
from shared.processes import kill, read_until, start, told

AGENT = Path(__file__).parent / "agent.py"


def main(folder: Path) -> None:
    post_office = PostOffice(folder / "post")

    first = start(AGENT, "first", folder=folder)
    read_until(first, "the letter is posted")
    kill(first)
    assert len(post_office.letters()) == 1
    print("first session: posted its letter, then killed before any receipt")

    out = told(start(AGENT, "second", folder=folder))
    print(*(f"second session: {line}" for line in out), sep="\n")
    for expected in (
        "apology-letter-alice: stop: possible_duplicate",
        "letter:alice:late-delivery: perform: repeat_keyed",
        "letter:alice:late-delivery: ended succeeded",
        "operations in the run: 1",
    ):
        assert expected in out, f"the second session did not say: {expected}"
    assert "the payload given differs from the recorded one" in " ".join(out)
    before, after = post_office.requests()
    assert before == after, "the second request was not the first one, key and bytes"
    assert len(post_office.letters()) == 1, f"{len(post_office.letters())} letters, not 1"
    print("2 requests, the same to the byte; 1 letter")


with tempfile.TemporaryDirectory() as name:
    main(Path(name))
