"""Callers that load workers over HTTP as hard as they can, and keep what they were answered.

Each caller begins an operation, records its receipt, and goes on with the next, each call to the next worker
in turn, as behind a load balancer. Where a call gets no answer, or one that says to send it again, it is sent
again with its call id, as agents are told to. Requests are plain JSON of protocol 2026-07-28, so that callers
cost little beside what they measure. Used by `http/test_load.py` and `bench/http.py`.
"""

import itertools
import json
import secrets
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2

from http_servers import HttpServer

__all__ = ["Load", "Workers"]

VERSION = "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_ANSWER_SECONDS = 30
_PAUSE_SECONDS = 0.1
_MOST_TRIES = 300
_NO_RATE = "[http]\ncalls_per_second = 0\n"


@dataclass(kw_only=True)
class Load:
    """What callers are sent against, and what came of it.

    `workers` may be changed at any time. `latencies` are those of the tries that were answered, by tool, in
    seconds; `retries` counts why calls were sent again.
    """

    workers: list[str]
    latencies: dict[str, list[float]] = field(default_factory=dict)
    retries: Counter[str] = field(default_factory=Counter)
    permitted: set[tuple[str, int]] = field(default_factory=set)
    recorded: set[tuple[str, str]] = field(default_factory=set)
    refused: list[Any] = field(default_factory=list)
    _turn: Iterator[int] = field(default_factory=itertools.count)

    async def journal(self, callers: int, *, seconds: float) -> None:
        """Let so many callers work for so long."""
        deadline = time.monotonic() + seconds
        async with anyio.create_task_group() as tasks:
            for number in range(callers):
                tasks.start_soon(self._work, f"load/{number:03}-{secrets.token_hex(3)}", deadline)

    async def echo(self, callers: int, *, seconds: float) -> None:
        """Let so many callers call a tool `echo` for so long."""
        deadline = time.monotonic() + seconds

        async def work() -> None:
            async with httpx2.AsyncClient(timeout=_ANSWER_SECONDS) as http:
                while time.monotonic() < deadline:
                    await self.call(http, "echo", {"text": "Dear customer, please find enclosed …"})

        async with anyio.create_task_group() as tasks:
            for _ in range(callers):
                tasks.start_soon(work)

    async def _work(self, name: str, deadline: float) -> None:
        async with httpx2.AsyncClient(timeout=_ANSWER_SECONDS) as http:
            for number in itertools.count():
                if time.monotonic() > deadline:
                    return
                await self._perform(http, run=f"{name}/{number // 50}", key=f"mail:{number}", caller=name)

    async def _perform(self, http: httpx2.AsyncClient, *, run: str, key: str, caller: str) -> None:
        trace = {"conversation": caller}
        begun = await self.call(
            http,
            "begin_operation",
            {
                "run": run,
                "key": key,
                "action": "mail.send",
                "target": f"{key}.{run}@example.org",
                "payload": "Dear customer, please find enclosed …",
                "call_id": f"begin-{secrets.token_hex(12)}",
                "trace": trace,
            },
        )
        if begun["next"] != "perform":
            self.refused.append(begun)
            return
        self.permitted.add((begun["operation"], begun["attempt"]))
        reference = f"<{run}-{key}@mail.example.org>"
        told = await self.call(
            http,
            "record_receipt",
            {
                "operation": begun["operation"],
                "attempt": begun["attempt"],
                "kind": "message",
                "system": "smtp",
                "external_id": reference,
                "call_id": f"receipt-{secrets.token_hex(12)}",
                "trace": trace,
            },
        )
        if told["state"] != "succeeded":
            self.refused.append(told)
            return
        self.recorded.add((begun["operation"], reference))

    async def call(self, http: httpx2.AsyncClient, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call a tool until it is answered, and give what it answered.

        Raises:
            RuntimeError: it stays unanswered, or the answer is one that no repeat mends.
        """
        for _ in range(_MOST_TRIES):
            worker = self.workers[next(self._turn) % len(self.workers)]
            began = time.perf_counter()
            try:
                answer = await http.post(worker, json=_request(tool, arguments), headers=_headers(tool))
            except httpx2.HTTPError as error:
                self.retries[type(error).__name__] += 1
            else:
                found = self._read(answer)
                if found is not None:
                    self.latencies.setdefault(tool, []).append(time.perf_counter() - began)
                    return found
            await anyio.sleep(_PAUSE_SECONDS)
        raise RuntimeError(f"{tool} stays unanswered: {dict(self.retries)}")

    def _read(self, answer: httpx2.Response) -> dict[str, Any] | None:
        """Give what a tool answered; None where the call is to be sent again."""
        if answer.status_code >= 500:
            self.retries[f"HTTP {answer.status_code}"] += 1
            return None
        told = answer.json()
        if "result" not in told:
            raise RuntimeError(f"the call was refused: {told}")
        result = told["result"]
        if result.get("isError"):
            fault = json.loads(result["content"][0]["text"])
            if fault["code"] != "journal_unavailable":
                raise RuntimeError(f"the call was refused: {fault}")
            self.retries[fault["message"]] += 1
            return None
        found: dict[str, Any] = result["structuredContent"]
        return found


class Workers:
    """Several workers over one journal; the oldest may be killed, and another takes its place.

    All callers are one principal here, so these workers set no rate.
    """

    def __init__(self, journal: str, number: int, *, folder: Path) -> None:
        """Start them; their configuration lies in `folder`."""
        self._journal = journal
        self._folder = folder
        self._running = [self._start() for _ in range(number)]
        self.urls = [worker.mcp for worker in self._running]
        self.kills = 0

    async def kill_every(self, seconds: float, *, until: float) -> None:
        """Kill one, start another, and wait, again and again."""
        while time.monotonic() + seconds < until:
            await anyio.sleep(seconds)
            number = self.kills % len(self._running)
            self._running[number].stop(signal.SIGKILL)
            self.kills += 1
            # Its address stays among the others meanwhile, as a balancer would have it for a while.
            killed = self._running[number]
            self._running[number] = await anyio.to_thread.run_sync(self._started)
            killed.__exit__()
            self.urls[number] = self._running[number].mcp

    def _started(self) -> HttpServer:
        """Start a worker as a supervisor does: once more where the machine was too busy for it to come up."""
        try:
            return self._start()
        except RuntimeError:
            return self._start()

    def _start(self) -> HttpServer:
        return HttpServer(self._journal, configuration=_NO_RATE, folder=self._folder)

    def close(self) -> None:
        """End them all."""
        for worker in self._running:
            worker.__exit__()


def _request(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments, "_meta": _META}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def _headers(tool: str) -> dict[str, str]:
    return {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": VERSION,
        "mcp-method": "tools/call",
        "mcp-name": tool,
    }
