"""The processes of a story, each for a bound time: sessions of agents, and commands of people."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

BOUND_SECONDS = 120
"""Bound on one process; none of them takes more than a few seconds of one core."""


def environment(folder: Path) -> dict[str, str]:
    """Give the environment without the settings and the conversation of whoever runs the story."""
    own = ("COUNTERFOIL_", "CLAUDE_CODE_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return {**kept, "XDG_CONFIG_HOME": str(folder)}


def start(script: Path, *words: str, folder: Path) -> subprocess.Popen:
    """Start a session; its first argument is the story's folder."""
    return launch(sys.executable, str(script), str(folder), *words, environment=environment(folder))


def launch(*command: str, environment: Mapping[str, str]) -> subprocess.Popen:
    """Start a program that is killed when its time is over."""
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(BOUND_SECONDS, process.kill)
    watchdog.daemon = True
    watchdog.start()
    return process


def read_until(process: subprocess.Popen, last: str) -> list[str]:
    """Read what a session says, up to the line `last`."""
    said = []
    while not said or said[-1] != last:
        line = process.stdout.readline()
        assert line, f"the session ended before it said {last!r}; it said {said}"
        said.append(line.strip())
    return said


def kill(process: subprocess.Popen) -> None:
    """Kill a session, as a power cut would."""
    process.kill()
    assert process.wait(BOUND_SECONDS) == -signal.SIGKILL


def told(process: subprocess.Popen, typed: str = "") -> list[str]:
    """Let a session go on to its end, and give what it said since."""
    out, _ = process.communicate(typed, timeout=BOUND_SECONDS)
    assert process.returncode == 0, f"a session ended with {process.returncode} after {out!r}"
    return out.splitlines()


def command(folder: Path, *words: str, configuration: Path, secret: Path | None = None) -> tuple[int, dict]:
    """Give a command on the story's journal, as the person who has the secret or as anybody with a shell."""
    person = () if secret is None else ("--operator-secret-file", str(secret))
    place = ("--journal", str(folder / "journal.db"), "--config", str(configuration))
    done = subprocess.run(
        [sys.executable, "-m", "counterfoil.server", *words, *person, "--json", *place],
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)
