"""An agent's process seen from outside: what it tells, how it is killed, and the proof that nothing is left.

The agent and every process that it starts hold the same pipe as stderr. When that pipe ends, all are gone.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["AgentProcess", "clean_environment"]

AGENT_SECONDS = 60
"""Bound on the life of one agent; a healthy one needs a few seconds, most of them waiting for a lease."""
GONE_SECONDS = 10
"""Bound on the end of what a killed agent had started; a server promises to be gone in two."""
STDERR_TAIL = 2_000


class AgentProcess:
    """One agent. To be used as a context: whatever happens, the process is gone at its end.

    Raises:
        RuntimeError: from any method: the agent did not do as expected, with what it said on stderr.
    """

    def __init__(self, *arguments: str, folder: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "counterfoil.server.demo.agent", *arguments],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._deadline = time.monotonic() + AGENT_SECONDS
        self._lines = b""
        self._errors = b""
        self._selector = selectors.DefaultSelector()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                self._selector.register(stream, selectors.EVENT_READ)

    def __enter__(self) -> "AgentProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(GONE_SECONDS)
        with suppress(RuntimeError):
            self._drain()
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def events(self) -> Iterator[dict[str, Any]]:
        """Give what the agent tells, as it tells it, until it and all that it started are gone."""
        while self._selector.get_map():
            self._read()
            *lines, self._lines = self._lines.split(b"\n")
            for line in lines:
                yield json.loads(line)

    def kill(self) -> None:
        """Kill the agent with SIGKILL, and see that what it had started is gone too."""
        os.kill(self._process.pid, signal.SIGKILL)
        code = self._process.wait(GONE_SECONDS)
        if code != -signal.SIGKILL:
            raise RuntimeError(f"the agent ended with {code} before it was killed; {self._said()}")
        self._drain()

    def check_end(self) -> None:
        """Hold that the agent ended by itself and well."""
        code = self._process.wait(GONE_SECONDS)
        if code != 0:
            raise RuntimeError(f"the agent ended with {code}; {self._said()}")

    def _drain(self) -> None:
        """Wait until nobody holds the pipes any more."""
        self._deadline = time.monotonic() + GONE_SECONDS
        while self._selector.get_map():
            self._read()

    def _read(self) -> None:
        """Take in what has come on either pipe."""
        ready = self._selector.select(max(0.0, self._deadline - time.monotonic()))
        if not ready:
            raise RuntimeError(f"the agent, or what it started, is not gone in time; {self._said()}")
        for key, _ in ready:
            chunk = os.read(key.fd, 65536)
            if not chunk:
                self._selector.unregister(key.fileobj)
            elif key.fileobj is self._process.stdout:
                self._lines += chunk
            else:
                self._errors += chunk

    def _said(self) -> str:
        text = self._errors[-STDERR_TAIL:].decode(errors="replace").strip()
        return f"it said: {text}" if text else "it said nothing on stderr"


def clean_environment(inherited: Mapping[str, str], *, folder: Path) -> dict[str, str]:
    """Give the environment of an agent: no setting and no session of the user's reaches it."""
    kept = {
        name: value
        for name, value in inherited.items()
        if not name.startswith(("COUNTERFOIL_", "GIT_"))
        and name not in ("CLAUDE_CODE_SESSION_ID", "TRACEPARENT")
    }
    home = str(folder)
    return {**kept, "XDG_CONFIG_HOME": home, "XDG_DATA_HOME": home}
