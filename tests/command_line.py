"""The command line under test: a journal with something of everything, and three ways to run a command."""

import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from counterfoil.server.people.cli import run
from counterfoil.store.domain.commands import Lookup
from journals import AGENT, Desk, FakeClock, open_desk

RUN = "weekly-report/2026-W48"
HOSTILE = "[bold red]x[/bold red] \x1b[31mred\x1b[0m \u202eabc"
WAIT_SECONDS = 20


@dataclass(frozen=True, kw_only=True)
class Answered:
    """What a command came to."""

    code: int
    out: str
    err: str


async def _fill(folder: Path) -> None:
    clock = FakeClock(time.time_ns() // 1_000 - 7_200_000_000, boot=None)
    async with open_desk(folder, clock=clock) as desk:
        doubt = Desk(desk.journal, clock, run=RUN, key="email:alice")
        await doubt.begin(lookup=Lookup(tool="search_sent"), args={"n": 1}, payload=HOSTILE)
        await doubt.failure("unknown", error=HOSTILE)
        done = doubt.at("email:bob")
        await done.begin()
        await done.receipt(external_id="<m-1@example.org>")
        await doubt.at("email:[red]carol[/red]").begin(target=HOSTILE, depends_on=("email:alice",))
        twice = doubt.at("pay:rent", run="rent/2026-11")
        await twice.begin(action="pay.send")
        await twice.receipt(external_id="t-1", kind="transaction")
        await twice.receipt(external_id="t-2", kind="transaction")
        clock.advance(7_200)
        await doubt.at("post", run="live/1").begin(action="chat.post")


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A filled journal, in a home of its own; it is what every command finds without being told."""
    for name in list(os.environ):
        if name.startswith(("COUNTERFOIL_", "CLAUDE", "XDG_")):
            monkeypatch.delenv(name)
    for name, value in {"HOME": str(tmp_path), "COLUMNS": "80", "NO_COLOR": "", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / ".local/share/counterfoil"
    folder.mkdir(parents=True)
    anyio.run(_fill, folder)
    return folder / "journal.db"


class CommandLine:
    """Runs commands in this process."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *words: str) -> Answered:
        self._capture.readouterr()
        code = run(words)
        out, err = self._capture.readouterr()
        return Answered(code=code, out=out, err=err)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Runs a command in this process, where stdin is no terminal."""
    return CommandLine(capsys)


def program(*words: str) -> list[str]:
    """Give the words that start the program itself."""
    return [sys.executable, "-m", "counterfoil.server", *words]


def process(*words: str, **options: Any) -> Answered:
    """Run the program without a terminal."""
    done = subprocess.run(
        program(*words),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=WAIT_SECONDS,
        check=False,
        **options,
    )
    return Answered(code=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())


def at_terminal(
    words: Sequence[str],
    *,
    prompt: str = "> ",
    answer: str | None = None,
    ahead: str = "",
    redirected: str = "",
) -> Answered:
    """Run the program at a terminal of its own; type `ahead` at once, and `answer` when `prompt` comes.

    `redirected` is what a shell takes after the command.
    """
    child, screen = pty.fork()
    if child == 0:
        os.execv("/bin/sh", ["sh", "-c", f"exec {shlex.join(program(*words))} {redirected}"])
    seen, deadline, is_typed = b"", time.monotonic() + WAIT_SECONDS, answer is None
    os.write(screen, ahead.encode())
    try:
        while time.monotonic() < deadline:
            ready, _, _ = select.select([screen], [], [], 0.2)
            if not ready:
                continue
            try:
                chunk = os.read(screen, 65_536)
            except OSError:  # Linux: the other side is closed
                break
            if not chunk:
                break
            seen += chunk
            if not is_typed and seen.decode(errors="replace").endswith(prompt):
                is_typed = True
                os.write(screen, (answer or "").encode())
        else:
            os.kill(child, signal.SIGKILL)
    finally:
        _, status = os.waitpid(child, 0)
        os.close(screen)
    return Answered(code=os.waitstatus_to_exitcode(status), out=seen.decode(), err="")


def state_of(journal_file: Path, run_name: str, key: str, *, caller: Any = AGENT) -> dict[str, Any]:
    """Check an operation past the command line."""

    async def work() -> dict[str, Any]:
        clock = FakeClock(time.time_ns() // 1_000, boot=None)
        async with open_desk(journal_file.parent, clock=clock) as desk:
            return await Desk(desk.journal, clock, run=run_name, key=key).check(detail="full")

    return anyio.run(work)
