"""`file`: is a file there, and does it hold what it should?"""

import hashlib
import os
import re
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio.to_thread
from msgspec import Struct

from counterfoil.server.probes.probe import Inconclusive, Seen
from counterfoil.server.probes.table import ProbeTable
from counterfoil.server.probes.template import Template
from counterfoil.store.domain.instants import rfc3339
from counterfoil.store.probing import ProbeSubject

__all__ = ["FileLook", "read_file_probe"]

_CHUNK = 1024 * 1024
_SHA256 = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})")


class FileLook(Struct, frozen=True, kw_only=True):
    """Looks for a regular file below the folder that the fixed beginning of `path` names.

    With `has_time` the file's last change is when the effect was performed, so that an older file is not
    taken for it.
    """

    path: Template
    sha256: Template | None
    has_time: bool
    most_bytes: int
    kind: str = "file"

    @property
    def uses_external_id(self) -> bool:
        """True where path or digest is the reference on record."""
        digest = () if self.sha256 is None else self.sha256.names
        return "external_id" in (*self.path.names, *digest)

    @property
    def root(self) -> str:
        """The folder that no value leads out of."""
        return os.path.dirname(self.path.beginning)

    async def see(self, subject: ProbeSubject) -> Seen:
        """Read the file.

        Raises:
            Inconclusive: a value leads elsewhere, or the file cannot be read whole.
        """
        path = self.path.fill(subject)
        parts = path.removeprefix(self.root).split("/")
        if any(part in ("", ".", "..") for part in parts[1:]):
            raise Inconclusive("a value on record leads out of the folder that is looked into")
        wanted = None if self.sha256 is None else _digest(self.sha256.fill(subject))
        stopped = threading.Event()
        try:
            return await anyio.to_thread.run_sync(
                self._see, path, wanted, subject.external_id, stopped, abandon_on_cancel=True
            )
        finally:
            stopped.set()

    def _see(self, path: str, wanted: str | None, on_record: str | None, stopped: threading.Event) -> Seen:
        root = os.path.realpath(self.root)
        if not os.path.isdir(root):
            raise Inconclusive("the folder that is looked into is not there")
        if not Path(os.path.realpath(path)).is_relative_to(root):
            raise Inconclusive("the file lies outside of the folder that is looked into")
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return Seen(found=False, evidence={"path": path})
        except OSError as error:
            raise Inconclusive(f"the file cannot be read: {error.strerror}") from None
        with open(descriptor, "rb", buffering=0) as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise Inconclusive("it is no regular file")
            evidence: dict[str, object] = {"path": path, "size_bytes": status.st_size}
            reference = path
            if wanted is not None:
                if status.st_size > self.most_bytes:
                    raise Inconclusive(f"the file has more than {self.most_bytes} bytes")
                seen = _sha256(iter(lambda: file.read(_CHUNK), b""), stopped, most=self.most_bytes)
                evidence["sha256"] = seen
                if seen != wanted:
                    return Seen(found=False, evidence=evidence)
                reference = f"{path}@sha256:{seen}"
        is_on_record = on_record in (reference, path, *((wanted, f"sha256:{wanted}") if wanted else ()))
        return Seen(
            found=True,
            external_id=on_record if is_on_record else reference,
            is_own_form=not is_on_record,
            performed_at=rfc3339(status.st_mtime_ns // 1_000) if self.has_time else None,
            evidence=evidence,
        )

    def lacks(self) -> list[str]:
        """Say if the folder is not there."""
        return [] if os.path.isdir(self.root) else [f"there is no folder {self.root}"]


def _digest(text: str) -> str:
    match = _SHA256.fullmatch(text.strip())
    if match is None:
        raise Inconclusive("what should be the digest is not a SHA-256 in hexadecimal")
    return match[1].lower()


def _sha256(chunks: Iterator[bytes], stopped: threading.Event, *, most: int) -> str:
    sum_, read = hashlib.sha256(), 0
    for chunk in chunks:
        read += len(chunk)
        if stopped.is_set() or read > most:
            raise Inconclusive("the file could not be read to its end")
        sum_.update(chunk)
    return sum_.hexdigest()


def read_file_probe(table: ProbeTable) -> FileLook:
    """Read the keys of a `file` probe.

    Raises:
        ProbeProblem: naming the key.
    """
    path, sha256 = table.template("path"), table.template("sha256")
    time = table.one_of("time", ("modified", "none"))
    if path is None:
        raise table.problem("path", "it is missing")
    if not os.path.isabs(path.source) or ".." in path.source.split("/"):
        raise table.problem("path", "it is an absolute path without ..")
    if path.names and os.path.dirname(path.beginning) in ("", "/"):
        raise table.problem("path", "it begins with a folder, e.g. /srv/reports/{key}.pdf")
    if not (*path.names, *(() if sha256 is None else sha256.names)):
        raise table.problem("path", "it names no operation; a placeholder such as {args.name} does")
    return FileLook(
        path=path,
        sha256=sha256,
        has_time=time == "modified" or (time is None and sha256 is None),
        most_bytes=table.size("most_bytes", default=2**30, most=2**40),
    )
