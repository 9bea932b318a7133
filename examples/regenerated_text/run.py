"""Kills the first session once its letter is posted, lets a second write it anew, and counts the letters."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from outside import PostOffice

HERE = Path(__file__).parent
BOUND_SECONDS = 60


def environment(folder: Path) -> dict[str, str]:
    """Give the environment without the settings and the conversation of whoever runs this."""
    own = ("COUNTERFOIL_", "CLAUDE_CODE_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return {**kept, "XDG_CONFIG_HOME": str(folder)}


def agent(part: str, folder: Path) -> subprocess.Popen:
    """Start a session, which ends at the latest when its time is over."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "agent.py"), part, str(folder / "journal.db"), str(folder / "post")],
        env=environment(folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(BOUND_SECONDS, process.kill)
    watchdog.daemon = True
    watchdog.start()
    return process


def main(folder: Path) -> None:
    post_office = PostOffice(folder / "post")

    first = agent("first", folder)
    said = first.stdout.readline().strip()
    assert said == "the letter is posted", f"the first session said {said!r}"
    first.kill()
    assert first.wait(BOUND_SECONDS) == -signal.SIGKILL
    assert len(post_office.letters()) == 1
    print("first session: posted its letter, then killed before any receipt")

    out, _ = agent("second", folder).communicate()
    print(*(f"second session: {line}" for line in out.splitlines()), sep="\n")
    for expected in (
        "apology-letter-alice: stop (possible_duplicate)",
        "letter:alice:late-delivery: perform (repeat_keyed)",
        "letter:alice:late-delivery: ended succeeded",
        "operations in the run: 1",
    ):
        assert expected in out.splitlines(), f"the second session did not say: {expected}"
    assert "the payload given differs from the recorded one" in out
    before, after = post_office.requests()
    assert before == after, "the second request was not the first one, key and bytes"
    assert len(post_office.letters()) == 1, f"{len(post_office.letters())} letters, not 1"
    print("2 requests, the same to the byte; 1 letter")


with tempfile.TemporaryDirectory() as name:
    main(Path(name))
