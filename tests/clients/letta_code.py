"""Letta Code, headless on its local backend; its model calls MCP tools by `letta mcp call` from its shell."""

import base64
import json
import os
import re
import shlex
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clients.driver import WAIT_SECONDS, Driver, Running, json_file, wait_for
from clients.scripted_model import Answer, Call, Input, Say, ScriptedModel, Turn, prompt_of

__all__ = ["LettaCode"]

_IN_BACKGROUND = re.compile(r"Command is still running.*?Output file: (\S+)", re.DOTALL)
_LISTENS = re.compile(r"ws://127\.0\.0\.1:(\d+)/ws")


class LettaCode(Driver):
    """Letta Code with one agent, whose MCP servers stand in the user's settings."""

    name = installed_as = "letta-code"
    tells_of_resumption = False

    def __init__(self, folder: Path, model: ScriptedModel) -> None:
        super().__init__(folder, model)
        self.agent = ""
        model.follow_up = _wait_for_background
        command = self.home / "bin" / "letta"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec {shlex.join(self.program)} "$@"\n')
        command.chmod(0o755)

    def own_environment(self) -> Mapping[str, str]:
        return {}

    @property
    def environment(self) -> dict[str, str]:
        given = super().environment
        return {**given, "PATH": f"{self.home / 'bin'}:{given['PATH']}"}

    def configure(self, servers: Mapping[str, Sequence[str]]) -> None:
        super().configure(servers)
        self.letta("backend", "local")
        base = ("--base-url", f"{self.model.url}/v1", "--api-key", "dummy")
        self.letta("connect", "openai-compatible", *base)
        # Servers stand at their agent, and an agent is made by a first run.
        self.model.scripts["made"] = [Say("Hello.")]
        self.run(prompt_of("made"))
        kept = json.loads(self._settings.read_text())
        entry = next(agent for agent in kept["agents"] if agent["agentId"] == self.agent)
        entry["mcpServers"] = [
            {"name": name, "transport": "stdio", "command": words[0], "args": words[1:]}
            for name, words in servers.items()
        ]
        json_file(self._settings, kept)

    def start_scheduler(self) -> Running:
        """Start the server that fires schedules: it looks for what is due at once, and each minute after.

        It does so from the moment that an app is connected to it, so one is.
        """
        told = len(_LISTENS.findall(self.told()))
        running = self.start_words([*self.program, "server", "--listen", "ws://127.0.0.1:0"])
        wait_for(lambda: len(_LISTENS.findall(self.told())) > told or running.has_ended, "the server")
        self._app = socket.create_connection(("127.0.0.1", int(_LISTENS.findall(self.told())[-1])))
        upgrade = ["GET /ws HTTP/1.1", "Host: 127.0.0.1", "Connection: Upgrade", "Upgrade: websocket"]
        key = base64.b64encode(os.urandom(16)).decode()
        upgrade += ["Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}", "", ""]
        self._app.sendall("\r\n".join(upgrade).encode())
        return running

    @property
    def _settings(self) -> Path:
        return self.home / ".letta" / "settings.json"

    def letta(self, *words: str) -> Any:
        """Run a command of Letta's own and give what it prints."""
        done = subprocess.run(
            [*self.program, *words],
            env=self.environment,
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=WAIT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout.decode()

    def words(self, prompt: str, *, resumes: bool) -> Sequence[str]:
        session = ["--agent", self.agent] if self.agent else ["--new-agent"]
        if resumes:
            [latest] = json.loads(self._settings.read_text())["sessionsByServer"].values()
            session = ["--conversation", latest["conversationId"]]
        return [
            *self.program,
            *session,
            *("--backend", "local", "-m", "openai-compatible/scripted"),
            *("-p", prompt, "--yolo", "--output-format", "json"),
        ]

    def run(self, prompt: str, *, resumes: bool = False) -> None:
        super().run(prompt, resumes=resumes)
        self.agent = re.findall(r'"agent_id":\s*"([^"]+)"', self.log.read_text())[-1]

    def call(self, server: str, tool: str, given: Input) -> Call:
        def command(turn: Turn) -> Mapping[str, Any]:
            arguments = given(turn) if callable(given) else given
            line = ["letta", "mcp", "call", f"mcp__{server}__{tool}", "--args", json.dumps(arguments)]
            return {"command": shlex.join(line), "description": f"call {tool}"}

        return Call("Bash", command)


def _wait_for_background(answer: Answer) -> Call | None:
    """Wait for a command that a server of Letta put into the background because it took over ten seconds."""
    found = _IN_BACKGROUND.search(answer.text)
    if found is None:
        return None
    # What `letta mcp call` prints ends with a brace on a line of its own.
    log = shlex.quote(found[1])
    wait = f"for _ in 1 2 3 4 5 6; do grep -qs '^}}$' {log} && exec cat {log}; sleep 1; done"
    again = f"printf 'Command is still running. Output file: %s' {log}"
    return Call("Bash", {"command": f"{wait}; {again}", "description": "wait for it"})
