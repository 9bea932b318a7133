"""A server process spoken to over raw pipes, every wait bounded."""

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any, Self

WAIT_SECONDS = 20
"""Bound on waiting for an answer; a healthy server answers in milliseconds once it runs."""

FOLDER = Path(__file__).parent


class StdioProcess:
    """One running server. Lines go in as bytes, messages come out parsed."""

    program: tuple[str, ...] = (str(FOLDER / "fake_server.py"),)

    def __init__(self, *arguments: str, **environment: str) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("COUNTERFOIL_")}
        self.process = subprocess.Popen(
            [sys.executable, *self.program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**inherited, "HOME": "/nonexistent", "COUNTERFOIL_LOG": "debug", **environment},
        )
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        self.process.wait(WAIT_SECONDS)

    def send(self, message: bytes | dict[str, Any]) -> None:
        """Send one line."""
        assert self.process.stdin is not None
        self.process.stdin.write(
            (message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n"
        )
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """Give the next message.

        Raises:
            TimeoutError: none came within WAIT_SECONDS.
            EOFError: the server closed its stdout.
        """
        assert self.process.stdout is not None
        deadline = time.monotonic() + WAIT_SECONDS
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            chunk = os.read(self.process.stdout.fileno(), 65536)
            if not chunk:
                raise EOFError
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return dict(message)

    def wait_until_stdout_is_full(self) -> None:
        """Wait until what the server wrote all but fills the pipe, so that it cannot write much more.

        Raises:
            TimeoutError: that was not so within WAIT_SECONDS.
        """
        assert self.process.stdout is not None
        deadline = time.monotonic() + WAIT_SECONDS
        waiting = bytearray(4)
        while int.from_bytes(waiting, sys.byteorder) <= 40_000:
            if time.monotonic() > deadline:
                raise TimeoutError
            fcntl.ioctl(self.process.stdout, termios.FIONREAD, waiting)
            os.sched_yield()

    def ask(self, message: bytes | dict[str, Any]) -> dict[str, Any]:
        """Send one line and give the next message."""
        self.send(message)
        return self.receive()

    def initialize(self, version: str = "2025-06-18") -> dict[str, Any]:
        """Open a connection of the handshake era."""
        hello = {
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        answer = self.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def end_by(self, number: signal.Signals | None = None) -> tuple[int, float]:
        """End the server by a signal, or by closing its stdin; give its exit code and how long it took."""
        started = time.monotonic()
        if number is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
        else:
            self.process.send_signal(number)
        code = self.process.wait(WAIT_SECONDS)
        return code, time.monotonic() - started

    def errors(self) -> str:
        """Give all of stderr; the process must have ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()


class RealProcess(StdioProcess):
    """The program itself, on a real journal."""

    program = ("-m", "counterfoil.server")


def call(request_id: int | str, tool: str = "begin_operation", **arguments: Any) -> dict[str, Any]:
    """Give a tool call of the handshake era."""
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


def modern_call(request_id: int | str, tool: str = "begin_operation", **arguments: Any) -> dict[str, Any]:
    """Give a tool call of 2026-07-28, which carries its own envelope."""
    message = call(request_id, tool, **arguments)
    message["params"]["_meta"] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    return message
