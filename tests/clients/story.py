"""The parts of every story: the journal, the spool, and what is asserted at its end."""

import hashlib
import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients.spool import Spool

__all__ = ["BEGIN", "KEY", "RUN", "World", "description_of"]

RUN, KEY = "letters/2026-W48", "letter:alice"
BEGIN: Mapping[str, Any] = {
    "run": RUN,
    "key": KEY,
    "action": "mail.send",
    "target": "alice@example.org",
    "args": {"subject": "Invoice 42"},
    "payload": "Please find enclosed invoice 42.",
    "lookup": {"tool": "find_letters", "instructions": "by reference, which is the operation id"},
    "lease_seconds": 3,
}
"""The one letter: its lease is short, so that nobody waits long for the end of a killed session's."""

_SECRET = "a long secret of the operator"
SPOOL = Path(__file__).parent / "spool.py"
WAIT_SECONDS = 30


def description_of(skill: str) -> str:
    """Give what a skill says of itself: all that a model is shown of it before it reads it."""
    [line] = [line for line in skill.splitlines() if line.startswith("description: ")]
    return line.removeprefix("description: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One folder with a journal and a spool, which outlive every client."""

    folder: Path

    @property
    def spool(self) -> Spool:
        """Give the spool."""
        return Spool(self.folder)

    @property
    def spool_server(self) -> list[str]:
        """Give the command that serves the spool over MCP."""
        return [sys.executable, str(SPOOL), str(self.folder), "serve"]

    @property
    def journal_options(self) -> list[str]:
        """Give the options that name the journal."""
        return ["--journal", f"sqlite:///{self.folder / 'journal.db'}"]

    def counterfoil(self, *words: str) -> list[str]:
        """Give a command line of the program under test, on this journal."""
        program = [str(Path(sys.executable).parent / "counterfoil")]
        command, *rest = words
        return [*program, command, *self.journal_options, *rest]

    def configure(self, work: Path) -> Path:
        """Write a configuration: a project's run, which command is an effect, and the operator's secret."""
        (self.folder / "operator.secret").write_text(_SECRET)
        for name, command in (("send-letter", "send"), ("find-letters", "find")):
            script = self.folder / name
            words = shlex.join([sys.executable, str(SPOOL), str(self.folder), command])
            script.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            script.chmod(0o755)
        file = self.folder / "counterfoil.toml"
        file.write_text(f"""\
journal = "sqlite:///{self.folder / "journal.db"}"
[operator]
secret_sha256 = "{hashlib.sha256(_SECRET.encode()).hexdigest()}"
[[hooks.projects]]
path = "{work}"
run = "{RUN}"
[[effects.commands]]
program = "send-letter"
action = "mail.send"
kind = "message"
found = ['"message_id": "(?P<id>[^"]+)"']
lookup = "find-letters REFERENCE"
[[tools]]
server = "spool"
tool = "send_letter"
lease_seconds = {BEGIN["lease_seconds"]}
[tools.receipt]
external_id = "$.message_id"
kind = "message"
[tools.lookup]
tool = "find_letters"
args = {{ reference = "{{args.reference}}" }}
found = "$.letters[0]"
external_id = "$.letters[0].message_id"
""")
        return file

    def gateway(self, work: Path) -> list[str]:
        """Give the command of a gateway before the spool's server."""
        options = ["--config", str(self.configure(work)), "--run", RUN, "--name", "spool"]
        return [*self.counterfoil("gateway"), *options, "--", *self.spool_server]

    def only_state(self) -> str:
        """Give the state of the only operation in the journal, whatever its key."""
        [operation] = self.ask("find", "--run", RUN)["operations"]
        state: str = operation["state"]
        return state

    def ask(self, *words: str) -> Any:
        """Run a person's command, and give its answer as JSON."""
        done = subprocess.run(
            [*self.counterfoil(*words), "--json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=WAIT_SECONDS,
            check=False,
            env={"HOME": str(self.folder)},
        )
        return json.loads(done.stdout)

    def decide(self, operation: str, external_id: str) -> None:
        """Settle an operation as a person who looked, and brings the operator's secret."""
        secret = [
            "--config",
            str(self.folder / "counterfoil.toml"),
            "--operator-secret-file",
            str(self.folder / "operator.secret"),
        ]
        seen = ["--finding", "performed", "--external-id", external_id, "--checked-with", "the spool"]
        told = self.ask("reconcile", operation, *seen, *secret)
        assert told["state"] == "succeeded", told

    def state(self, run: str = RUN, key: str = KEY) -> str | None:
        """Give the state of an operation, None where the journal does not know it."""
        state: str | None = self.ask("show", run, key).get("state")
        return state
