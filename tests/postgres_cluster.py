"""A throw-away PostgreSQL server for tests: made by `initdb`, reached through a socket, then gone."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import anyio
import psycopg
import pytest

from counterfoil.store.postgres.opening import open_postgres
from journals import SECRET, START

__all__ = [
    "MISSING",
    "Cluster",
    "binaries_or_skip",
    "cluster_or_skip",
    "installed_binaries",
    "new_cluster",
    "running_cluster",
    "skip_without",
]

MISSING = "PostgreSQL's initdb and pg_ctl are not installed (Debian: apt-get install postgresql)"

_START_SECONDS = 60
_SETTINGS = {
    "listen_addresses": "''",
    "max_connections": "160",
    "shared_buffers": "'32MB'",
    "autovacuum": "off",
    # What is tested here is what the journal asks for, so commits are durable as in earnest.
    "fsync": "on",
    # Nothing is left in the system where a server is killed.
    "dynamic_shared_memory_type": "mmap",
}


def installed_binaries() -> Path | None:
    """Give the folder of the server's programs, None where there is none; Debian has it outside the PATH."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    folders = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name.split(".")[0])
    )
    return folders[-1] if folders else None


def _signal(process: int, number: signal.Signals) -> None:
    # One that had just ended is gone as soon as its parent runs again.
    with suppress(ProcessLookupError):
        os.kill(process, number)


class Cluster:
    """One running server. Its databases are lent: each is empty, and is emptied again when it comes back."""

    def __init__(self, folder: Path, binaries: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.binaries = binaries
        self._numbers = count(1)
        self._free: list[str] = []
        self._journals: list[str] = []
        # PostgreSQL refuses root.
        self.user = _another_user() if os.geteuid() == 0 else None

    def start(self, **settings: str) -> None:
        """Make the cluster and start its server; `settings` are parameters of its own."""
        self._own_folder()
        self._run("initdb", "-D", self.data, "-U", "counterfoil", "-A", "trust", "-E", "UTF8", "--no-sync")
        self._configure(**settings)
        self.run_server()

    def follow(self, primary: "Cluster", *, name: str) -> None:
        """Make the cluster a copy of `primary`, and start its server as the standby that is `name` there.

        It can be read from, and replays what it receives; once `promoted`, it is a primary of its own.
        """
        self._own_folder()
        source = f"host={primary.folder} user=counterfoil dbname=postgres application_name={name}"
        self._run("pg_basebackup", "-D", self.data, "-d", source, "-R", "-c", "fast", "--no-sync")
        self._configure()
        self.run_server()

    def promote(self) -> None:
        """Make the standby the primary; returns when it takes writes."""
        self._run("pg_ctl", "-D", self.data, "-w", "-t", _START_SECONDS, "promote")

    def kill_server(self) -> None:
        """Kill every process of the server where it stands, as when its machine dies."""
        processes = self.processes()
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        deadline = time.monotonic() + _START_SECONDS
        while any(map(_is_alive, processes)):
            assert time.monotonic() < deadline, "a killed server does not end"
            time.sleep(0.01)
        # They name a process that is dead and, where nobody has waited for it yet, still in the table.
        for lock in (self.data / "postmaster.pid", *self.folder.glob(".s.PGSQL.*.lock")):
            lock.unlink()

    @property
    def is_running(self) -> bool:
        """Whether its server runs; the file of a dead one may name what is by now another process."""
        try:
            return Path(f"/proc/{self.postmaster}/cwd").readlink() == self.data
        except (FileNotFoundError, ProcessLookupError):
            return False

    def _own_folder(self) -> None:
        if self.user is not None:
            self.folder.chmod(0o777)

    def _configure(self, **settings: str) -> None:
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as configuration:
            for name, value in {
                **_SETTINGS,
                "unix_socket_directories": f"'{self.folder}'",
                **settings,
            }.items():
                configuration.write(f"{name} = {value}\n")

    def run_server(self) -> None:
        """Start the server of a cluster that is there."""
        log = self.folder / "log"
        self._run("pg_ctl", "-D", self.data, "-l", log, "-w", "-t", _START_SECONDS, "start")

    def stop_server(self) -> None:
        """Stop the server at once, as a crash would; what was committed stays."""
        self._run("pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop")

    def alter(self, name: str, value: str | None) -> None:
        """Set a parameter of the whole server, None for its default; transactions that follow have it."""
        self.run(f"ALTER SYSTEM RESET {name}" if value is None else f"ALTER SYSTEM SET {name} = '{value}'")
        self.reload()

    def until(self, question: str) -> list[tuple[Any, ...]]:
        """Ask the server until the answer has rows, and give them.

        Raises:
            AssertionError: it never had.
        """
        deadline = time.monotonic() + _START_SECONDS
        while not (rows := self.run(question)):
            assert time.monotonic() < deadline, f"never came true: {question}"
            time.sleep(0.01)
        return rows

    def reload(self) -> None:
        """Let the server read its configuration again."""
        self._run("pg_ctl", "-D", self.data, "reload")

    @property
    def postmaster(self) -> int:
        """The process id of the server's first process."""
        return int((self.data / "postmaster.pid").read_text(encoding="utf-8").split()[0])

    def processes(self) -> list[int]:
        """Give the process ids of the server: the postmaster and its children."""
        parent = self.postmaster
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split()
        return [parent, *map(int, children)]

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the server's processes where they are, as a host that hangs, for the length of a block."""
        stopped = self.processes()
        for process in stopped:
            _signal(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in stopped:
                _signal(process, signal.SIGCONT)

    def url(self, database: str) -> str:
        """Give the URL of a database."""
        return f"postgresql://counterfoil@/{database}?host={self.folder}"

    def run(self, sql: str, *, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run SQL as an operator would, and give the rows."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def new_database(self, *, template: str = "template1") -> str:
        """Make a database and give its name."""
        name = f"test_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    @contextmanager
    def lending(self) -> Iterator[Callable[[Path], str]]:
        """Give what gives a journal of its own for each path, the same one for the same path."""
        lent: dict[Path, str] = {}
        template = self._template()

        def place(path: Path) -> str:
            if path not in lent:
                lent[path] = self._free.pop() if self._free else self.new_database(template=template)
            return self.url(lent[path])

        try:
            yield place
        finally:
            for name in lent.values():
                self.run(_EMPTY, database=name)
                self._free.append(name)

    def _template(self) -> str:
        """Give a database with an empty journal, which is quicker copied than made."""
        if not self._journals:
            name = self.new_database()
            # In a thread of its own, since the first to need it may be a test whose loop runs already.
            with ThreadPoolExecutor(1) as thread:
                thread.submit(anyio.run, _make_journal, self.url(name)).result()
            self._journals.append(name)
        return self._journals[0]

    def drop_database(self, name: str) -> None:
        """Remove a database, whoever uses it."""
        self.run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def _run(self, program: str, *arguments: object) -> None:
        done = subprocess.run(
            [self.binaries / program, *map(str, arguments)],
            cwd=self.folder,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "errors").open("ab"),
            timeout=2 * _START_SECONDS,
            check=False,
            user=self.user,
        )
        if done.returncode != 0:
            said = [self.folder / name for name in ("errors", "log")]
            told = [file.read_text(encoding="utf-8")[-2000:] for file in said if file.exists()]
            raise RuntimeError("\n".join((program, *told)))


def _is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


_EMPTY = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid();
    SET search_path = counterfoil;
    UPDATE journal SET backed_up_at = NULL;
    TRUNCATE runs, operations, attempts, receipts, findings, events, bodies, contexts, external_ids,
        compensations, fingerprints, namespaces, namespace_events, grants, authority_requests, grant_uses,
        restores, accepted_gaps, namespace_restores, tokens, compactions
"""


async def _make_journal(url: str) -> None:
    fresh = {"journal_id": "J-test", "secret": SECRET, "created_at": START}
    async with await open_postgres(url, fresh_values=fresh, gives_time=False):
        pass


def _another_user() -> str:
    import pwd

    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


@contextmanager
def running_cluster(binaries: Path) -> Iterator[Cluster]:
    """Run a server of its own, in memory where the system has a folder there."""
    with new_cluster(binaries) as cluster:
        cluster.start()
        yield cluster


@contextmanager
def new_cluster(binaries: Path) -> Iterator[Cluster]:
    """Give a cluster that has yet to be started, and throw it away in the end, whatever became of it."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(prefix="counterfoil-pg-", dir=memory if memory.is_dir() else None) as folder:
        cluster = Cluster(Path(folder), binaries)
        try:
            yield cluster
        finally:
            if cluster.is_running:
                cluster.stop_server()


def binaries_or_skip() -> Path:
    """Give the folder of the server's programs; without it skip the test, or fail it in CI."""
    return installed_binaries() or skip_without(MISSING)


def skip_without(why: str) -> NoReturn:
    """Skip the test for want of a program; in CI, fail it."""
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


@contextmanager
def cluster_or_skip() -> Iterator[Cluster]:
    """Run a server; without PostgreSQL the test is skipped, except in CI, where that fails."""
    with running_cluster(binaries_or_skip()) as cluster:
        yield cluster
