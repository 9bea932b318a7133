"""Runs one program for a probe: fixed arguments, no shell, no input, bounded output, gone when this ends."""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

import anyio
from anyio.abc import Process
from msgspec import Struct

from counterfoil.server.probes.probe import Inconclusive
from counterfoil.server.probes.table import from_environment

__all__ = ["Ended", "environment_of", "lacking_program", "run_program"]

_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "SSH_AUTH_SOCK")
"""What a program needs to find itself and its user; nothing else of the server's environment reaches it."""

_PATIENCE_SECONDS = 1


class Ended(Struct, frozen=True, kw_only=True):
    """How a program ended: its exit code, negative for a signal, and what it wrote to stdout."""

    code: int
    out: bytes


def environment_of(configured: Mapping[str, str]) -> dict[str, str]:
    """Give a program's whole environment: the few names that it needs, and the configured ones.

    Raises:
        Inconclusive: a variable that the configuration names is not set.
    """
    own = from_environment(configured)
    if own is None:
        raise Inconclusive("a variable of the environment that the probe needs is not set")
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {"LC_ALL": "C.UTF-8", **inherited, **own}


def lacking_program(program: str) -> list[str]:
    """Say if a program is not there."""
    return [] if shutil.which(program) else [f"there is no program {program}"]


async def run_program(
    arguments: Sequence[str], *, environment: Mapping[str, str], folder: str | None, most_bytes: int
) -> Ended:
    """Run a program to its end. Cancelled, it is killed with what it started, unless that left its session.

    Raises:
        Inconclusive: it cannot be started, or writes more than `most_bytes`.
    """
    try:
        process = await anyio.open_process(
            list(arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder or "/",
            env=dict(environment),
            start_new_session=True,
        )
    except OSError as error:
        raise Inconclusive(f"the program cannot be started: {error.strerror}") from None
    is_over = False
    out = bytearray()
    try:
        while chunk := await _next(process):
            out += chunk
            if len(out) > most_bytes:
                raise Inconclusive(f"the program wrote more than {most_bytes} bytes")
        code = await process.wait()
        is_over = True
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process, is_over=is_over)
    return Ended(code=code, out=bytes(out))


async def _next(process: Process) -> bytes:
    if process.stdout is None:
        return b""
    try:
        return await process.stdout.receive()
    except anyio.EndOfStream:
        return b""


async def _end(process: Process, *, is_over: bool) -> None:
    if not is_over:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with anyio.move_on_after(_PATIENCE_SECONDS):
            await process.wait()
    if process.stdout is not None:
        await process.stdout.aclose()
