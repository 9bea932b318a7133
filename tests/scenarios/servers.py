"""The real server, as a client starts it: `counterfoil serve` over stdio, on the journal of a folder."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from journals import journal_url
from stdio_process import StdioProcess, call

__all__ = ["Server", "ServerFault", "server_command", "server_environment"]


def server_command(folder: Path, *, failpoints: str = "") -> list[str]:
    """Give the command that serves the journal in `folder`, and does at failpoints what `failpoints` says."""
    journal = journal_url(folder / "journal.db")
    program = ["-m", "counterfoil.server"]
    if failpoints:
        code = (
            "from counterfoil.server.main import main\n"
            "from counterfoil.store.failpoints import install_from\n"
            f"install_from({failpoints!r})\n"
            "main()\n"
        )
        program = ["-c", code]
    return [sys.executable, *program, "serve", "--journal", journal]


def server_environment(folder: Path, **more: str) -> dict[str, str]:
    """Give an environment in which nothing but the journal's folder is known."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("COUNTERFOIL_")}
    for name in ("CLAUDE_CODE_SESSION_ID", "TRACEPARENT", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        inherited.pop(name, None)
    return {**inherited, "HOME": str(folder), **more}


class ServerFault(Exception):
    """A tool error, with the JSON object that it carried."""

    def __init__(self, fault: dict[str, Any]) -> None:
        super().__init__(str(fault))
        self.fault = fault


class Server(StdioProcess):
    """One running server; its stderr goes to a file, so that no pipe can fill.

    `command` is another than `server_command`; `before_start` is called in the process before it starts.
    """

    def __init__(
        self,
        folder: Path,
        *,
        failpoints: str = "",
        command: list[str] | None = None,
        before_start: Callable[[], None] | None = None,
        **environment: str,
    ) -> None:
        self.log = folder / f"stderr-{len(list(folder.glob('stderr-*')))}"
        with self.log.open("wb") as stderr:
            self.process = subprocess.Popen(
                server_command(folder, failpoints=failpoints) if command is None else command,
                preexec_fn=before_start,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=server_environment(folder, **environment),
            )
        self._buffer = b""
        self._calls = 0

    def start(self) -> "Server":
        """Shake hands."""
        self.initialize()
        return self

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and give its answer.

        Raises:
            ServerFault: it answered with a tool error.
        """
        self._calls += 1
        return answer_of(self.ask(call(self._calls, tool, **arguments)))

    def errors(self) -> str:
        """Give all of stderr so far."""
        return self.log.read_text()


def answer_of(message: dict[str, Any]) -> dict[str, Any]:
    """Give the answer that a message carries, the same in text and in structured content.

    Raises:
        ServerFault: it carries a tool error.
    """
    result = message["result"]
    if result.get("isError"):
        raise ServerFault(json.loads(result["content"][0]["text"]))
    structured = dict(result["structuredContent"])
    assert json.loads(result["content"][0]["text"]) == structured
    return structured
