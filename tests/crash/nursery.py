"""Forks sessions of `child.py` from one process that has imported everything once.

A session then starts in milliseconds instead of an interpreter's time, so that many can be killed. The
nursery runs one thread and opens nothing, so that a fork of it is as good as a process of its own.
"""

import gc
import json
import os
import select
import socket
import subprocess
import sys
import traceback
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any

__all__ = ["Forked", "run_and_exit", "start", "warm_up"]

WAIT_SECONDS = 60
"""Bound on every wait; a fork takes milliseconds, the nursery itself as long as its imports."""


class Forked:
    """One forked session: as much of `subprocess.Popen` as a test of crashes needs."""

    def __init__(self, pid: int, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        """Send a signal; nothing happens to a session that was waited for."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it where it stands."""
        self.send_signal(9)

    def wait(self, timeout_seconds: float) -> int:
        """Wait for its end and give its exit code, as `subprocess` counts them.

        Raises:
            TimeoutError: it was still alive then.
        """
        if self.returncode is None:
            self.returncode = _nursery().ask({"wait": self.pid, "seconds": timeout_seconds})["code"]
        if self.returncode is None:
            raise TimeoutError(f"session {self.pid} is alive after {timeout_seconds} s")
        return self.returncode


class _Nursery:
    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(2 * WAIT_SECONDS)
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        # It ends with this process: then its socket does.
        self.process = subprocess.Popen(
            [sys.executable, "-m", "crash.nursery", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=environment,
        )
        theirs.close()

    def ask(self, request: dict[str, Any], *descriptors: int) -> dict[str, Any]:
        socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
        answer = self._socket.recv(65536)
        assert answer, "the nursery is dead"
        return dict(json.loads(answer))


@cache
def _nursery() -> _Nursery:
    return _Nursery()


def start(arguments: list[str]) -> Forked:
    """Start `child.py` with `arguments`, on the cores that this process may use."""
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    request = {"start": arguments, "cores": sorted(os.sched_getaffinity(0))}
    try:
        pid = _nursery().ask(request, in_read, out_write)["pid"]
    finally:
        os.close(in_read)
        os.close(out_write)
    return Forked(pid, os.fdopen(in_write, "wb"), os.fdopen(out_read, "rb"))


def warm_up() -> None:
    """Import what a session would import only when it runs, and let no fork collect what is there."""
    import_module("anyio._backends._asyncio")
    import_module("importlib.readers")
    import_module("counterfoil.store.postgres.opening")
    gc.collect()
    gc.freeze()


def run_and_exit(main: Any, *arguments: Any) -> None:
    """Run `main` in a forked process and leave it without the parent's own clean-up."""
    code = 1
    try:
        main(*arguments)
        sys.stdout.flush()
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _tend(asked: socket.socket) -> None:
    from crash.child import main

    warm_up()
    while True:
        message, descriptors, _, _ = socket.recv_fds(asked, 65536, 2)
        if not message:
            return
        request = json.loads(message)
        if "start" in request:
            pid = os.fork()
            if pid == 0:
                asked.close()
                for own, given in enumerate(descriptors):
                    os.dup2(given, own)
                    os.close(given)
                os.sched_setaffinity(0, request["cores"])
                run_and_exit(main, request["start"])
            for descriptor in descriptors:
                os.close(descriptor)
            answer: dict[str, Any] = {"pid": pid}
        else:
            answer = {"code": _wait(request["wait"], request["seconds"])}
        asked.sendall(json.dumps(answer).encode())


def _wait(pid: int, seconds: float) -> int | None:
    handle = os.pidfd_open(pid)
    try:
        if not select.select([handle], [], [], seconds)[0]:
            return None
    finally:
        os.close(handle)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    _tend(socket.socket(fileno=int(sys.argv[1])))
