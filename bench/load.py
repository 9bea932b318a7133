"""The measuring behind `http.py`: callers against workers, on SQLite and PostgreSQL, beside a bare tool.

Everything is measured in one run, in turn. Each caller begins an operation and records its receipt, without a
pause; a call counts from its request to its answer. The bare tool is an `echo` of the SDK's `MCPServer`,
served by uvicorn without sessions and with JSON answers as ours, by as many processes: what the protocol
alone costs. The callers run in this process and share the machine with the workers. PostgreSQL is made by
`initdb`, as for the tests. With `--kill-every`, a worker of each is killed (SIGKILL) that often and another
started. All callers are one principal, so no rate is set.
"""

import argparse
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from http_load import Load, Workers
from postgres_cluster import installed_binaries, running_cluster

_BARE = """
import socket, sys, uvicorn
from mcp.server import MCPServer
server = MCPServer("bare", log_level="ERROR")

@server.tool()
async def echo(text: str) -> dict[str, str]:
    return {"text": text}

listener = socket.socket(fileno=int(sys.argv[1]))
app = server.streamable_http_app(stateless_http=True, json_response=True)
uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False)).run(sockets=[listener])
"""


@contextmanager
def bare_workers(number: int) -> Iterator[list[str]]:
    """Serve the bare tool by so many processes, and give their addresses."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    running = []
    for listener in listeners:
        command = [sys.executable, "-c", _BARE, str(listener.fileno())]
        running.append(subprocess.Popen(command, pass_fds=[listener.fileno()]))
    try:
        # Who connects before a worker serves waits for it in the listener's queue.
        yield [f"http://127.0.0.1:{listener.getsockname()[1]}/mcp" for listener in listeners]
    finally:
        for process, listener in zip(running, listeners, strict=True):
            process.kill()
            process.wait()
            listener.close()


def journal_load(
    journal: str, *, folder: Path, workers: int, callers: int, seconds: float, kill_every: float | None
) -> Load:
    """Load workers over a journal, killing them now and then, and give what came of it."""
    running = Workers(journal, workers, folder=folder)
    load = Load(workers=running.urls)

    async def work() -> None:
        until = time.monotonic() + seconds
        async with anyio.create_task_group() as tasks:
            if kill_every is not None:
                tasks.start_soon(lambda: running.kill_every(kill_every, until=until))
            await load.journal(callers, seconds=seconds)

    try:
        anyio.run(work)
    finally:
        running.close()
    return load


def echo_load(*, workers: int, callers: int, seconds: float) -> Load:
    """Load the bare tool."""
    with bare_workers(workers) as urls:
        load = Load(workers=urls)
        anyio.run(lambda: load.echo(callers, seconds=1))  # warms up
        load.latencies.clear()
        anyio.run(lambda: load.echo(callers, seconds=seconds))
    return load


def show(title: str, load: Load, seconds: float) -> None:
    """Print what one of them carried."""
    for tool, took in load.latencies.items():
        ranked = sorted(took)
        p99 = ranked[int(0.99 * len(ranked))] * 1000
        print(
            f"{title:12} {tool:16} {len(took) / seconds:8.1f} a second   p50 "
            f"{statistics.median(ranked) * 1000:8.1f} ms   p99 {p99:8.1f} ms"
        )
    wrong = f"{len(load.refused)} refused"
    again = ", ".join(f"{count} x {why}" for why, count in load.retries.most_common(5)) or "none"
    print(f"{title:12} errors: {wrong}; sent again: {again}")


def main(description: str | None) -> None:
    """Read the command line, measure in turn and print it."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--callers", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--kill-every", type=float)
    parser.add_argument(
        "--folder", type=Path, help="where the SQLite file lies (default: a temporary folder)"
    )
    given = parser.parse_args()
    how = {"workers": given.workers, "callers": given.callers, "seconds": given.seconds}
    print(f"{given.callers} callers, {given.workers} workers, {given.seconds:.0f} s each")
    show("bare echo", echo_load(**how), given.seconds)
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        more = {"folder": Path(name), "kill_every": given.kill_every, **how}
        show("SQLite", journal_load(f"sqlite:///{name}/journal.db", **more), given.seconds)
        binaries = installed_binaries()
        if binaries is None:
            sys.exit("PostgreSQL is not installed (Debian: apt-get install postgresql)")
        with running_cluster(binaries) as cluster:
            cluster.run("ALTER SYSTEM SET autovacuum = on")
            cluster.reload()
            load = journal_load(cluster.url(cluster.new_database()), **more)
            show("PostgreSQL", load, given.seconds)
