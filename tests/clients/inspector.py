"""The MCP Inspector at the command line: each call connects anew; a session is what its user makes of it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clients.installed import program

__all__ = ["Inspector", "words_of"]

WAIT_SECONDS = 90


class Inspector:
    """Calls tools of servers that are given by command."""

    name = "inspector"

    def __init__(self, home: Path) -> None:
        self._program = program(self.name)
        self._environment = {
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
        }
        self._started: list[subprocess.Popen[bytes]] = []

    def ask(self, server: Sequence[str], method: str, *words: str) -> Any:
        """Ask a server, and give what the Inspector prints, which may be a tool's error."""
        with self._start(server, method, *words) as asked:
            out, err = asked.communicate(timeout=WAIT_SECONDS)
        assert out, err
        return json.loads(out)

    def call(self, server: Sequence[str], tool: str, given: Mapping[str, Any]) -> Any:
        """Call a tool and give its structured answer."""
        answer = self.ask(server, "tools/call", *words_of(tool, given))
        assert not answer.get("isError"), answer
        return answer["structuredContent"]

    def start_call(
        self, server: Sequence[str], tool: str, given: Mapping[str, Any]
    ) -> subprocess.Popen[bytes]:
        """Call a tool and do not wait for its answer."""
        return self._start(server, "tools/call", *words_of(tool, given))

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill an Inspector and all of its process group with SIGKILL."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(WAIT_SECONDS)
        # Not read to their ends: what the server started may outlive it, and holds them.
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()

    def close(self) -> None:
        """Kill what a story has left running."""
        for process in self._started:
            if process.poll() is None:
                self.kill(process)

    def _start(self, server: Sequence[str], method: str, *words: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [*self._program, "--cli", *server, "--method", method, *words],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._started.append(process)
        return process


def words_of(tool: str, given: Mapping[str, Any]) -> list[str]:
    """Give the words by which the Inspector calls a tool."""
    words = ["--tool-name", tool]
    for name, value in given.items():
        words += ["--tool-arg", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    return words
