"""A client as a hook sees it: events as JSON on the stdin of the real command line, in a home of its own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

WAIT_SECONDS = 60

_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a hook answered."""

    code: int
    out: str
    err: str

    @property
    def reason(self) -> str | None:
        """Why the call does not run; None where it may."""
        if not self.out.strip():
            return None
        told = json.loads(self.out)["hookSpecificOutput"]
        assert told.get("permissionDecision", "deny") == "deny"
        return told.get("permissionDecisionReason")

    @property
    def context(self) -> str:
        """What the model is shown."""
        return json.loads(self.out)["hookSpecificOutput"]["additionalContext"] if self.out.strip() else ""


@dataclass(kw_only=True)
class Client:
    """One session of one client in one project folder. Every call has an id of its own."""

    home: Path
    folder: Path
    session: str = "11111111-2222-4333-8444-555555555555"
    shell: str = "Bash"
    environment: dict[str, str] = field(default_factory=dict)
    calls: int = 0

    def environ(self) -> dict[str, str]:
        """Give the environment of the client's processes: nothing of this machine's."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), **_ENVIRONMENT, **self.environment}

    def send(self, event: str, raw: bytes, *flags: str) -> Said:
        """Run one hook with these bytes on its stdin."""
        ran = subprocess.run(
            [sys.executable, "-m", "counterfoil.server", "hook", event, *flags],
            input=raw,
            capture_output=True,
            env=self.environ(),
            cwd=self.folder,
            timeout=WAIT_SECONDS,
            check=False,
        )
        return Said(code=ran.returncode, out=ran.stdout.decode(), err=ran.stderr.decode())

    def tell(self, name: str, *flags: str, **told: Any) -> Said:
        """Tell of an event, with what every event has."""
        common = {
            "session_id": self.session,
            "transcript_path": f"{self.home}/transcript.jsonl",
            "cwd": str(self.folder),
            "hook_event_name": name,
        }
        said = self.send(name, json.dumps({**common, **told}).encode(), *flags)
        assert said.code == 0, said
        return said

    def new_call(self) -> str:
        """Give the id of a new call: a resumed model never uses an old one."""
        self.calls += 1
        return f"toolu_{int(self.session[:8], 16) % 10**8:08}{self.calls:016}"

    def before(self, command: str, *flags: str, call: str | None = None, **more: Any) -> Said:
        """Tell that a command is about to run."""
        given = {"tool_name": self.shell, "tool_input": {"command": command, **more}}
        return self.tell("PreToolUse", *flags, **given, tool_use_id=call or self.new_call())

    def after(self, command: str, response: Any, *, call: str) -> Said:
        """Tell what a command gave."""
        given = {"tool_name": self.shell, "tool_input": {"command": command}, "tool_use_id": call}
        return self.tell("PostToolUse", **given, tool_response=response)

    def failed(self, command: str, error: str, *, call: str, is_interrupt: bool = False) -> Said:
        """Tell that a command failed."""
        given = {"tool_name": self.shell, "tool_input": {"command": command}, "tool_use_id": call}
        return self.tell("PostToolUseFailure", **given, error=error, is_interrupt=is_interrupt)

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command as the client does."""
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            check=False,
        )

    def does(self, command: str) -> Said:
        """Do what the client does with a command: hook, command, hook; give what the last hook said."""
        call = self.new_call()
        said = self.before(command, call=call)
        if said.reason is not None:
            return said
        ran = self.run(command)
        if ran.returncode:
            error = f"Exit code {ran.returncode}\n{ran.stdout}{ran.stderr}"
            return self.failed(command, error, call=call)
        return self.after(command, claude_result(ran.stdout, ran.stderr), call=call)

    def ask(self, *words: str) -> Any:
        """Give the JSON that a person's command answers."""
        ran = subprocess.run(
            [sys.executable, "-m", "counterfoil.server", *words, "--json"],
            capture_output=True,
            env=self.environ(),
            cwd=self.folder,
            timeout=WAIT_SECONDS,
            check=False,
        )
        return json.loads(ran.stdout)

    def operations(self) -> list[dict[str, Any]]:
        """Give everything that the journal holds, one entry for each operation."""
        return self.ask("find")["operations"]


def claude_result(stdout: str, stderr: str = "") -> dict[str, Any]:
    """Give the result of a command as Claude Code tells it."""
    return {"stdout": stdout, "stderr": stderr, "interrupted": False, "isImage": False}


def git(client: Client, *words: str) -> str:
    """Run git in the client's folder."""
    ran = client.run("git " + " ".join(words))
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@pytest.fixture
def client(tmp_path: Path) -> Client:
    """A client in a repository with one commit and a bare remote."""
    home, folder = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    folder.mkdir()
    made = Client(home=home, folder=folder)
    git(made, "init", "-q", "--bare", "-b", "main", str(tmp_path / "remote.git"))
    git(made, "init", "-q", "-b", "main", ".")
    git(made, "remote", "add", "origin", str(tmp_path / "remote.git"))
    commit(made, "one")
    return made


def commit(client: Client, text: str) -> str:
    """Make a commit; give its hash."""
    (client.folder / "file").write_text(text)
    git(client, "add", ".")
    git(client, "commit", "-q", "-m", text)
    return git(client, "rev-parse", "HEAD")


def at_remote(client: Client, ref: str = "refs/heads/main") -> str:
    """Give the commit that a ref has at the remote."""
    return git(client, "ls-remote", "origin", ref).split("\t")[0]
