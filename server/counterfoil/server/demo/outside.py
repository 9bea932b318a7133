"""The outside systems of the demo: a git remote, a mail spool and a pager, each on disk, each countable.

They know nothing of Counterfoil. The remote and the spool can be looked up; the pager answers nothing and
shows nothing to whoever uses it, only to whoever owns it.
"""

import mailbox
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import Path

from msgspec import Struct

__all__ = ["Outside", "Pager", "Receipt", "Remote", "Spool", "git_is_missing"]

GIT_SECONDS = 20
"""Bound on one git command; each takes a few milliseconds on a local repository."""


class Receipt(Struct, frozen=True, kw_only=True):
    """What a system says of an effect that took place in it; `performed_at` is RFC 3339."""

    kind: str
    system: str
    external_id: str | None
    performed_at: str | None


def git_is_missing() -> bool:
    """Tell whether there is no git to push with."""
    return shutil.which("git") is None


class Remote:
    """A bare git repository, reached by clone and push as any other remote."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "remote.git"

    def make(self) -> None:
        """Make it, with one commit on main."""
        self._git("init", "--quiet", "--bare", str(self._path))
        self._git("symbolic-ref", "HEAD", "refs/heads/main", at=self._path)
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            work = Path(name)
            self._git("init", "--quiet", str(work))
            (work / "CHANGELOG.md").write_text("# Changelog\n", encoding="utf-8")
            self._git("add", "CHANGELOG.md", at=work)
            self._git("commit", "--quiet", "--message", "Start", at=work)
            self._git("push", "--quiet", str(self._path), "HEAD:refs/heads/main", at=work)

    def push(self, *, subject: str, line: str, key: str) -> Receipt:
        """Add `line` to the changelog of main in one commit that carries `key`, and push it."""
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            work = self._clone(Path(name))
            with (work / "CHANGELOG.md").open("a", encoding="utf-8") as changelog:
                changelog.write(f"{line}\n")
            message = f"{subject}\n\nIdempotency-Key: {key}\n"
            self._git("commit", "--quiet", "--all", "--message", message, at=work)
            commit, _, at = self._git("log", "-1", "--format=%H %cI", at=work).partition(" ")
            self._git("push", "--quiet", "origin", "HEAD:refs/heads/main", at=work)
        return Receipt(kind="commit", system="git", external_id=commit, performed_at=at)

    def look_up(self, *, key: str) -> Receipt | None:
        """Give the commit on main that carries `key`, if there is one."""
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            work = self._clone(Path(name))
            wanted = f"--grep=Idempotency-Key: {key}"
            found = self._git("log", "-1", "--fixed-strings", wanted, "--format=%H %cI", at=work)
        if not found:
            return None
        commit, _, at = found.partition(" ")
        return Receipt(kind="commit", system="git", external_id=commit, performed_at=at)

    def count(self, *, subject: str) -> int:
        """Count the commits on main with this subject."""
        subjects = self._git("log", "main", "--format=%s", at=self._path).splitlines()
        return subjects.count(subject)

    def _clone(self, folder: Path) -> Path:
        work = folder / "work"
        self._git("clone", "--quiet", "--branch", "main", str(self._path), str(work))
        return work

    def _git(self, *arguments: str, at: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=at or self._folder,
            env=self._environment(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=GIT_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"git {arguments[0]} failed: {done.stderr.strip()}")
        return done.stdout.strip()

    def _environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Leave the user's git alone: neither its settings nor a repository named around us count."""
        kept = {name: value for name, value in inherited.items() if not name.startswith("GIT_")}
        person = {"NAME": "Demo Agent", "EMAIL": "agent@example.org"}
        return {
            **kept,
            **{
                f"GIT_{role}_{name}": text
                for role in ("AUTHOR", "COMMITTER")
                for name, text in person.items()
            },
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            # git older than 2.32 knows no GIT_CONFIG_GLOBAL.
            "HOME": str(self._folder),
            "XDG_CONFIG_HOME": str(self._folder),
        }


class Spool:
    """An append-only mailbox. A message once in it is delivered; the spool drops no repeats."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "spool.mbox"

    def make(self) -> None:
        """Make it, empty."""
        self._path.touch()

    def send(self, *, to: str, subject: str, body: str, key: str) -> Receipt:
        """Append one message whose Message-Id carries `key`; it is on disk when this returns."""
        now = datetime.now(UTC)
        message = EmailMessage()
        message["From"] = "agent@example.org"
        message["To"] = to
        message["Subject"] = subject
        message["Date"] = format_datetime(now)
        message["Message-Id"] = f"<{key}@spool>"
        message.set_content(body)
        # In a mailbox a line that begins with "From " would begin the next message.
        text = message.as_bytes(policy=message.policy.clone(mangle_from_=True))
        _append(self._path, f"From agent@example.org {now:%a %b %d %H:%M:%S %Y}\n".encode() + text + b"\n")
        return _as_receipt(message)

    def look_up(self, *, key: str) -> Receipt | None:
        """Give the message whose Message-Id carries `key`, if there is one."""
        wanted = f"<{key}@spool>"
        with closing(mailbox.mbox(self._path)) as messages:
            found = [message for message in messages if message["Message-Id"] == wanted]
        return _as_receipt(found[0]) if found else None

    def count(self, *, to: str) -> int:
        """Count the messages to this address."""
        with closing(mailbox.mbox(self._path)) as messages:
            return sum(message["To"] == to for message in messages)


class Pager:
    """Takes a line and answers nothing. Who pages cannot ask what was paged; only its owner counts."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "pager"

    def make(self) -> None:
        """Make it, silent."""
        self._path.touch()

    def page(self, *, whom: str, text: str) -> None:
        """Page somebody."""
        _append(self._path, f"{whom}: {text}\n".encode())

    def count(self, *, whom: str) -> int:
        """Count how often somebody was paged."""
        lines = self._path.read_text(encoding="utf-8").splitlines()
        return sum(line.startswith(f"{whom}: ") for line in lines)


class Outside(Struct, frozen=True):
    """All three, in one folder."""

    folder: Path

    @property
    def remote(self) -> Remote:
        """The git remote."""
        return Remote(self.folder)

    @property
    def spool(self) -> Spool:
        """The mail spool."""
        return Spool(self.folder)

    @property
    def pager(self) -> Pager:
        """The pager."""
        return Pager(self.folder)

    def make(self) -> None:
        """Make all three in the folder."""
        self.folder.mkdir()
        self.remote.make()
        self.spool.make()
        self.pager.make()


def _append(path: Path, data: bytes) -> None:
    """Append in one write, and see it to the disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _as_receipt(message: "EmailMessage | mailbox.mboxMessage") -> Receipt:
    at = parsedate_to_datetime(str(message["Date"]))
    return Receipt(
        kind="message",
        system="spool",
        external_id=str(message["Message-Id"]),
        performed_at=at.isoformat(),
    )
