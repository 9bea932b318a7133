"""Starts a real client in a home of its own, with nothing of this machine's environment, and kills it."""

import json
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, ClassVar

from clients.installed import program
from clients.scripted_model import Call, Input, ScriptedModel

__all__ = ["Driver", "Running", "wait_for"]

WAIT_SECONDS = 90
"""Bound on every wait for a client; a run takes two to ten seconds where nothing else runs."""


def wait_for(happened: Callable[[], bool], what: str) -> None:
    """Wait until something has happened.

    Raises:
        TimeoutError: it did not within WAIT_SECONDS.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.02)


class Running:
    """One run of a client, at the head of a process group of its own."""

    def __init__(
        self, words: Sequence[str], *, environment: Mapping[str, str], folder: Path, log: IO[bytes]
    ) -> None:
        self._process = subprocess.Popen(
            words,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def has_ended(self) -> bool:
        """Tell whether the client has ended by itself."""
        return self._process.poll() is not None

    def wait(self) -> int:
        """Wait for the client's end and give its exit code."""
        return self._process.wait(WAIT_SECONDS)

    def kill(self) -> None:
        """Kill the client and all of its process group with SIGKILL: nothing of it can tidy up."""
        if not self.has_ended:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(WAIT_SECONDS)


class Driver(ABC):
    """One client: how it is configured, started, resumed, and how its model calls a tool of a server."""

    name: ClassVar[str]
    installed_as: ClassVar[str]
    """What `counterfoil install` calls it."""
    tells_of_resumption: ClassVar[bool] = True
    """Whether its hooks hear that a session is resumed without a terminal."""

    def __init__(self, folder: Path, model: ScriptedModel) -> None:
        self.model = model
        self.home = folder / "home"
        self.work = folder / "work"
        self.log = folder / "client.log"
        self.home.mkdir()
        self.work.mkdir()
        self.program = program(self.name)
        self.servers: dict[str, list[str]] = {}
        self._runs: list[Running] = []

    @property
    def environment(self) -> dict[str, str]:
        """Give the environment of every run: a home, a path, dummy keys, and no way out."""
        return {
            "HOME": str(self.home),
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "HTTP_PROXY": self.model.url,
            "HTTPS_PROXY": self.model.url,
            "NO_PROXY": "127.0.0.1",
            **self.own_environment(),
        }

    @abstractmethod
    def own_environment(self) -> Mapping[str, str]:
        """Give what this client alone takes from its environment."""

    @abstractmethod
    def words(self, prompt: str, *, resumes: bool) -> Sequence[str]:
        """Give the command line of one run, which resumes the session before or begins one."""

    def configure(self, servers: Mapping[str, Sequence[str]]) -> None:
        """Connect the client to these servers, by name and command, before its first run."""
        self.servers = {name: list(command) for name, command in servers.items()}

    def call(self, server: str, tool: str, given: Input) -> Call:
        """Give the step by which the model calls a tool of a server."""
        return Call(f".*{server}.*{tool}", given)

    def shell(self, command: str) -> Call:
        """Give the step by which the model runs a command in its shell."""
        return Call("Bash", {"command": command, "description": "work"})

    def install(self, *options: str) -> None:
        """Let `counterfoil install` write into this client's files."""
        words = [str(Path(sys.executable).parent / "counterfoil"), "install", self.installed_as, *options]
        done = subprocess.run(
            words, env=self.environment, capture_output=True, timeout=WAIT_SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr

    def start(self, prompt: str, *, resumes: bool = False) -> Running:
        """Start a run and do not wait for it."""
        return self.start_words(self.words(prompt, resumes=resumes))

    def start_words(self, words: Sequence[str]) -> Running:
        """Start a command line of the client and do not wait for it."""
        with self.log.open("ab") as log:
            running = Running(words, environment=self.environment, folder=self.work, log=log)
        self._runs.append(running)
        return running

    def run(self, prompt: str, *, resumes: bool = False) -> None:
        """Make a whole run, which has to end well."""
        code = self.start(prompt, resumes=resumes).wait()
        assert code == 0, self.told()
        assert not self.model.problems, (self.model.problems, self.told())

    def is_on_file(self) -> bool:
        """Tell whether the session could be resumed now: some clients write it down behind their calls."""
        return True

    def kill(self, running: Running) -> None:
        """Kill a run with SIGKILL once its session is on file, so that a story can go on with it."""
        wait_for(lambda: running.has_ended or self.is_on_file(), "the session's file")
        self._kill(running)

    def _kill(self, running: Running) -> None:
        """Kill a run, and whatever it started: some clients give that a group of its own."""
        running.kill()
        for process in _left_behind(self.home):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def told(self) -> str:
        """Give the end of what the client printed."""
        return self.log.read_text(errors="replace")[-4_000:] if self.log.exists() else ""

    def close(self) -> None:
        """Kill what a story has left running."""
        for running in self._runs:
            self._kill(running)


def _left_behind(home: Path) -> list[int]:
    """Find the processes with this home: a client may start some in a group of their own."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if f"HOME={home}".encode() in variables:
            found.append(int(entry.parent.name))
    return found


def json_file(file: Path, value: Any) -> Path:
    """Write a file of JSON and give its place."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value, indent=2))
    return file
