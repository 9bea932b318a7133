"""What a call costs over stdio: `begin_operation` beside a bare tool of the same SDK that commits one row.

    uv run python bench/stdio.py [--folder DIR] [--calls N] [--starts N]

Both servers are real processes, driven in turn by the same lines over pipes, with the protocol version that
most clients speak. Also prints how long each takes from its start to the answer to `initialize`.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BARE = Path(__file__).with_name("bare_server.py")
PROTOCOL = "2025-06-18"
ROUNDS = 5


class Server:
    """One server process and the lines that go to and fro."""

    def __init__(self, command: list[str]) -> None:
        """Start it and shake hands; `started_in` is the time to the answer to `initialize`, in seconds."""
        began = time.perf_counter()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._next_id = 0
        client = {"name": "bench", "version": "1"}
        self.request("initialize", {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client})
        self.started_in = time.perf_counter() - began
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        self._next_id += 1
        self._send({"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params})
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert answer["id"] == self._next_id, answer
        result: dict[str, Any] = answer["result"]
        return result

    def call(self, tool: str, number: int) -> float:
        """Call a tool and give the round trip in seconds."""
        arguments = {
            "run": "bench",
            "key": f"mail:{number}",
            "action": "mail.send",
            "target": f"user-{number}@example.org",
            "payload": "Dear customer, please find enclosed …",
        }
        began = time.perf_counter()
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        took = time.perf_counter() - began
        assert not result.get("isError"), result
        return took

    def end(self) -> None:
        """Close its stdin and wait for its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


def main() -> None:
    """Measure in turn and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", help="where the files lie: the file system that is measured")
    parser.add_argument("--calls", type=int, default=200, help="calls per round")
    parser.add_argument("--starts", type=int, default=7, help="starts of each server")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        journal = f"sqlite:///{folder}/journal.db"
        commands: dict[str, Callable[[], Server]] = {
            "begin_operation": lambda: Server(
                [sys.executable, "-m", "counterfoil.server", "serve", "--journal", journal]
            ),
            "commit": lambda: Server([sys.executable, str(BARE), f"{folder}/bare.db"]),
        }
        servers = {tool: start() for tool, start in commands.items()}
        seen: dict[str, list[float]] = {tool: [] for tool in commands}
        ratios: list[float] = []
        for round_number in range(ROUNDS + 1):
            medians = {}
            for tool, server in servers.items():
                first = round_number * given.calls
                took = [server.call(tool, first + number) for number in range(given.calls)]
                medians[tool] = statistics.median(took)
                if round_number:  # the first round warms up
                    seen[tool] += took
            if round_number:
                ratios.append(medians["begin_operation"] / medians["commit"])
        for server in servers.values():
            server.end()
        starts: dict[str, list[float]] = {tool: [] for tool in commands}
        for _ in range(given.starts):
            for tool, start in commands.items():
                server = start()
                starts[tool].append(server.started_in)
                server.end()
    print(f"medians of {ROUNDS} rounds, {given.calls} calls each, over stdio, protocol {PROTOCOL}")
    for tool, took in seen.items():
        label = "begin_operation" if tool == "begin_operation" else "bare tool, one raw commit"
        p99 = sorted(took)[int(0.99 * len(took))] * 1000
        print(f"{label:28} p50 {statistics.median(took) * 1000:6.2f} ms   p99 {p99:6.2f} ms")
    print(f"ratio of the round trips {statistics.median(ratios):.2f}")
    start_ratio = statistics.median(starts["begin_operation"]) / statistics.median(starts["commit"])
    for tool, times in starts.items():
        label = "counterfoil" if tool == "begin_operation" else "bare MCPServer"
        print(f"{label:28} initialize answered after {statistics.median(times) * 1000:6.0f} ms")
    print(f"ratio of the start-ups   {start_ratio:.2f}")


if __name__ == "__main__":
    main()
