"""HTTP servers as processes of their own, on a port that the system chose, and ways to speak to them."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from counterfoil.server.bearer_tokens import new_bearer_token, token_digest
from counterfoil.server.clock import read_clock
from counterfoil.server.scopes import SCOPES
from counterfoil.store.domain.commands import IssueToken
from counterfoil.store.domain.states import Policy
from counterfoil.store.journal import Journal
from counterfoil.store.opening import Fresh, open_journal
from journals import PERSON, SECRET

__all__ = ["TOKENS", "WAIT_SECONDS", "HttpServer", "connected", "issue_token", "operating", "wait_until"]

TOKENS = "[http]\ntokens = true\n"
"""The configuration of a server that asks for tokens of the journal."""

WAIT_SECONDS = 30
"""Bound on every wait; a healthy server is up in about a second."""

_SERVING = re.compile(rb"serving (http://\S+)/mcp\n")


class HttpServer:
    """One worker: `counterfoil serve --http`, with what it says on stderr."""

    def __init__(
        self,
        journal: Path | str,
        *,
        address: str = "127.0.0.1:0",
        configuration: str = "",
        folder: Path | None = None,
        **environment: str,
    ) -> None:
        """Start a worker and wait until it listens. `configuration` is the text of its counterfoil.toml."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("COUNTERFOIL_")}
        self.journal = journal
        arguments = ["serve", "--http", address, "--journal", str(journal)]
        if folder is not None:
            file = folder / f"counterfoil-{time.monotonic_ns()}.toml"
            file.write_text(configuration, encoding="utf-8")
            self.config = str(file)
            arguments += ["--config", self.config]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "counterfoil.server", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**inherited, "HOME": "/nonexistent", "COUNTERFOIL_LOG": "info", **environment},
        )
        self.said = b""
        try:
            self.url = self._address()
        except BaseException:
            self._end()
            raise

    def _address(self) -> str:
        assert self.process.stderr is not None
        deadline = time.monotonic() + WAIT_SECONDS
        while (found := _SERVING.search(self.said)) is None:
            ready, _, _ = select.select([self.process.stderr], [], [], max(0, deadline - time.monotonic()))
            chunk = os.read(self.process.stderr.fileno(), 65536) if ready else b""
            if not chunk:
                raise RuntimeError(f"the server does not serve: {self.said.decode()}")
            self.said += chunk
        return found[1].decode()

    @property
    def mcp(self) -> str:
        """The address of MCP."""
        return f"{self.url}/mcp"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        self.process.kill()
        self.process.wait(WAIT_SECONDS)
        if self.process.stderr is not None:
            self.process.stderr.close()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to stop."""
        self.process.send_signal(number)

    def ended(self) -> int:
        """Wait until it has ended and give its exit code; what it said on stderr is in `said` then."""
        assert self.process.stderr is not None
        self.said += self.process.stderr.read()
        return self.process.wait(WAIT_SECONDS)

    def get(self, path: str, **headers: str) -> httpx2.Response:
        """Get a page."""
        return httpx2.get(f"{self.url}{path}", headers=headers, timeout=WAIT_SECONDS)

    def post(self, body: bytes | Mapping[str, Any], **headers: str) -> httpx2.Response:
        """Post one body to MCP, as it is; a header's name is given with underscores."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        return httpx2.post(self.mcp, content=content, headers=given, timeout=WAIT_SECONDS)


@asynccontextmanager
async def connected(
    server: HttpServer | str, *, mode: str = "auto", token: str | None = None, **given: Any
) -> AsyncIterator[Client]:
    """Give the SDK's own client; `mode` is "legacy" (the handshake era), auto, or a version."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    url = server.mcp if isinstance(server, HttpServer) else server
    async with (
        httpx2.AsyncClient(headers=headers, timeout=WAIT_SECONDS) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, **given) as client,
    ):
        yield client


@asynccontextmanager
async def operating(place: Path | str, namespace: str) -> AsyncIterator[Journal]:
    """Give the journal at `place` as whoever operates it reaches it, past every server; made if need be."""
    async with open_journal(
        place,
        fresh=Fresh(journal_id="jr_test", secret=SECRET),
        namespace=namespace,
        policy=Policy(),
        clock=read_clock,
    ) as journal:
        yield journal


async def issue_token(
    place: Path | str,
    namespace: str,
    name: str,
    *scopes: str,
    lasts_seconds: float | None = None,
) -> str:
    """Give a new token, with all scopes where none is named."""
    token = new_bearer_token()
    command = IssueToken(
        name=name, sha256=token_digest(token), scopes=scopes or SCOPES, lasts_seconds=lasts_seconds
    )
    async with operating(place, namespace) as journal:
        await journal.issue_token(command, PERSON)
    return token


def wait_until(condition: Any, *, seconds: float = WAIT_SECONDS) -> None:
    """Wait until `condition()` holds.

    Raises:
        TimeoutError: it did not within `seconds`.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.01)
