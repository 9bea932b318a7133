"""A bad disk and bad files, told by the real server: no journal is made anew, nothing is said to be unknown.

Whatever the cause, each tool answers that the journal cannot be used, why, and what to do; the file is left
as it is; and the next call of the same server works once the cause is gone. What a single opening refuses is
in `tests/conformance/test_sqlite_place.py`, what one changed byte does in `test_flipped_bits.py` beside it.
"""

import ctypes
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from counterfoil.store import sqlite
from counterfoil.store.errors import JournalUnavailable
from counterfoil.store.sqlite import open_sqlite
from journals import open_desk
from scenarios.servers import Server, ServerFault, answer_of
from stdio_process import call

RUN = "weekly-report/2026-W48"
LARGE = {"text": "x" * 60_000}

Cause = Callable[[Path], Callable[[], None]]
"""Spoils the journal's file, and gives what makes it good again."""


def begin(key: str, **fields: Any) -> dict[str, Any]:
    """Give the arguments of a begin."""
    return {"run": RUN, "key": key, "action": "email.send", "target": f"{key}@example.org", **fields}


def receipt(key: str, **fields: Any) -> dict[str, Any]:
    """Give the arguments of a receipt."""
    return {"run": RUN, "key": key, "kind": "message", "external_id": f"m-{key}", **fields}


EVERY_CALL: list[tuple[str, dict[str, Any]]] = [
    ("begin_operation", begin("a")),
    ("begin_operation", begin("new")),
    ("record_receipt", receipt("a")),
    ("check_operation", {"run": RUN, "key": "a"}),
    ("resume_plan", {"run": RUN}),
    ("resume_plan", {}),
    ("find_operations", {"run": RUN}),
    ("begin_run", {"run": RUN}),
]


def deleted(file: Path) -> Callable[[], None]:
    """Move the file away; what lies beside it stays."""
    away = file.with_name("away")
    file.rename(away)
    return lambda: os.rename(away, file)


def _overwritten(file: Path, change: Callable[[bytearray], None]) -> Callable[[], None]:
    whole = file.read_bytes()
    changed = bytearray(whole)
    change(changed)

    def write(content: bytes | bytearray) -> None:
        with file.open("r+b") as raw:
            raw.truncate(len(content))
            raw.write(content)

    write(changed)
    return lambda: write(whole)


def emptied(file: Path) -> Callable[[], None]:
    """Leave nothing in the file."""
    return _overwritten(file, lambda content: content.clear())


def truncated(file: Path) -> Callable[[], None]:
    """Cut the second half of the file."""

    def cut(content: bytearray) -> None:
        del content[len(content) // 8192 * 4096 :]

    return _overwritten(file, cut)


def of_another_kind(file: Path) -> Callable[[], None]:
    """Put a text in the place of the journal."""
    return _overwritten(file, lambda content: content.__setitem__(slice(None), b"shopping list\n" * 900))


def with_another_header(file: Path) -> Callable[[], None]:
    """Flip the bits of the first bytes."""

    def flip(content: bytearray) -> None:
        content[:100] = bytes(byte ^ 0xFF for byte in content[:100])

    return _overwritten(file, flip)


def with_damaged_pages(file: Path) -> Callable[[], None]:
    """Flip the head of every page but the first four: tables and indexes."""

    def flip(content: bytearray) -> None:
        for start in range(4 * 4096, len(content), 4096):
            content[start : start + 16] = bytes(byte ^ 0xFF for byte in content[start : start + 16])

    return _overwritten(file, flip)


def from_the_future(file: Path) -> Callable[[], None]:
    """Give the journal the schema of a later program."""

    def set_version(change: int) -> None:
        with closing(sqlite3.connect(file)) as raw:
            ((version,),) = raw.execute("PRAGMA user_version").fetchall()
            raw.execute(f"PRAGMA user_version = {version + change}")

    set_version(1)
    return lambda: set_version(-1)


def _with_mode(place: Path, mode: int) -> Callable[[], None]:
    before = place.stat().st_mode & 0o777
    place.chmod(mode)
    return lambda: place.chmod(before)


def read_only(file: Path) -> Callable[[], None]:
    """Let nobody write the file."""
    return _with_mode(file, 0o400)


def in_a_read_only_folder(file: Path) -> Callable[[], None]:
    """Let nobody write the folder."""
    return _with_mode(file.parent, 0o500)


def not_permitted(file: Path) -> Callable[[], None]:
    """Let nobody use the file."""
    return _with_mode(file, 0o000)


def in_a_closed_folder(file: Path) -> Callable[[], None]:
    """Let nobody into the folder."""
    return _with_mode(file.parent, 0o000)


def be_held_by_permissions() -> None:
    """Give up what lets root pass over them; anybody else is held by them anyhow."""
    if os.geteuid() == 0:
        drop_from_bounding_set = 24
        for capability in (1, 2, 3):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER
            assert ctypes.CDLL(None).prctl(drop_from_bounding_set, capability, 0, 0, 0) == 0


def assert_unavailable(server: Server, words: str, *, code: str = "journal_unavailable") -> None:
    """Make sure that every tool says that and why the journal cannot be used."""
    for tool, given in EVERY_CALL:
        with pytest.raises(ServerFault) as raised:
            server.call(tool, **given)
        fault = raised.value.fault
        assert (fault["code"], fault["recorded"]) == (code, False), (tool, fault)
        assert words in fault["message"], (tool, fault)
        assert fault["fix"], tool


def assert_available(server: Server) -> None:
    """Make sure that the same server works, and that what was begun before is known."""
    plan = server.call("resume_plan", run=RUN)
    assert [(step["key"], step["state"]) for step in plan["steps"]] == [("a", "in_progress")]
    assert server.call("begin_operation", **begin("a"))["next"] == "wait"
    assert server.call("begin_operation", **begin("new"))["next"] == "perform"
    assert server.call("record_receipt", **receipt("a"))["state"] == "succeeded"


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder of a journal in which a first server has begun something."""
    folder = tmp_path_factory.mktemp("begun")
    with Server(folder).start() as server:
        assert server.call("begin_operation", **begin("a", lease_seconds=3_000))["next"] == "perform"
        server.end_by()
    return folder


def copied(begun: Path, folder: Path) -> Path:
    """Put that journal into `folder`, side files and all; gives its file."""
    for name in begun.glob("journal.db*"):
        shutil.copy(name, folder)
    return folder / "journal.db"


def content_of(folder: Path) -> dict[str, bytes]:
    """Give the files of the journal's folder as they are; what servers say on stderr apart."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if "stderr" not in path.name}


AT_THE_START = [
    (deleted, "a journal was deleted or moved"),
    (emptied, "is empty, which no journal ever is"),
    (truncated, "corrupt"),
    (of_another_kind, "no SQLite database"),
    (with_another_header, "no SQLite database"),
    (with_damaged_pages, "corrupt"),
]


@pytest.mark.parametrize(("cause", "words"), AT_THE_START)
def test_a_server_that_finds_a_bad_file_says_so_and_works_when_it_is_good(
    begun: Path, tmp_path: Path, cause: Cause, words: str
) -> None:
    file = copied(begun, tmp_path)
    mend = cause(file)
    before = content_of(tmp_path)
    with Server(tmp_path).start() as server:
        assert_unavailable(server, words)
        assert content_of(tmp_path) == before
        mend()
        assert_available(server)


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (deleted, "deleted or moved while it was in use"),
        (emptied, "emptied and is corrupt"),
        (truncated, "corrupt"),
    ],
)
def test_a_server_whose_file_goes_bad_says_so_and_works_when_it_is_good(
    begun: Path, tmp_path: Path, cause: Cause, words: str
) -> None:
    file = copied(begun, tmp_path)
    with Server(tmp_path).start() as server:
        assert server.call("begin_operation", **begin("a"))["next"] == "wait"
        mend = cause(file)
        before = content_of(tmp_path)
        assert_unavailable(server, words)
        assert content_of(tmp_path) == before
        mend()
        assert_available(server)


@pytest.mark.parametrize("is_running", [False, True])
def test_a_journal_of_a_newer_program_is_not_touched(begun: Path, tmp_path: Path, is_running: bool) -> None:
    file = copied(begun, tmp_path)
    with Server(tmp_path).start() as server:
        if is_running:
            assert server.call("begin_operation", **begin("a"))["next"] == "wait"
        mend = from_the_future(file)
        before = content_of(tmp_path)
        assert_unavailable(server, "an older program never writes", code="unsupported_version")
        assert content_of(tmp_path) == before
        mend()
        assert_available(server)


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (read_only, "is read-only for this user"),
        (in_a_read_only_folder, "is read-only for this user"),
        (not_permitted, "is read-only for this user"),
        (in_a_closed_folder, "cannot be reached"),
    ],
)
def test_a_journal_that_this_user_may_not_use_is_not_taken_for_none(
    begun: Path, tmp_path: Path, cause: Cause, words: str
) -> None:
    (tmp_path / "data").mkdir()
    file = copied(begun, tmp_path / "data")
    command = [sys.executable, "-m", "counterfoil.server", "serve", "--journal", f"sqlite:///{file}"]
    mend = cause(file)
    try:
        with Server(tmp_path, command=command, before_start=be_held_by_permissions).start() as server:
            assert_unavailable(server, words)
            mend()
            assert_available(server)
    finally:
        mend()


@contextmanager
def small_disk(place: Path, *, kibibytes: int) -> Iterator[None]:
    """Mount a disk of that size at `place`; skips where mounting is not allowed."""
    place.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", f"size={kibibytes}k,mode=0700", "tmpfs", str(place)]
    if mount is None or subprocess.run(command, capture_output=True, timeout=20).returncode != 0:
        pytest.skip(
            "a disk of its own needs the permission to mount; the limit of file sizes stands in for it"
        )
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True, timeout=20)


def fill_disk(server: Server, folder: Path) -> Callable[[], None]:
    """Leave no room on the disk that holds `folder`."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as raw:
        for size in (65_536, 4_096, 1):
            try:
                while raw.write(b"\0" * size) == size:
                    pass
            except OSError:
                continue
    return filler.unlink


def limit_files(server: Server, folder: Path) -> Callable[[], None]:
    """Let no file of the server grow beyond what the journal has now."""
    size = (folder / "journal.db").stat().st_size
    _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size, hard))

    def lift() -> None:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (hard, hard))

    return lift


@pytest.mark.parametrize(
    ("is_mounted", "exhaust", "words"),
    [(True, fill_disk, "the disk is full"), (False, limit_files, "the disk")],
    ids=["a full disk", "a limit of file sizes"],
)
def test_a_disk_without_room_grants_nothing_and_loses_no_receipt_silently(
    tmp_path: Path,
    is_mounted: bool,
    exhaust: Callable[[Server, Path], Callable[[], None]],
    words: str,
) -> None:
    with ExitStack() as stack:
        folder = tmp_path / "disk"
        if is_mounted:
            stack.enter_context(small_disk(folder, kibibytes=1_024))
        else:
            folder.mkdir()
        command = [
            *(sys.executable, "-m", "counterfoil.server", "serve"),
            *("--journal", f"sqlite:///{folder / 'journal.db'}"),
        ]
        server = stack.enter_context(Server(tmp_path, command=command).start())
        assert server.call("begin_operation", **begin("a", lease_seconds=3_000))["next"] == "perform"
        make_room = exhaust(server, folder)
        for _ in range(2):
            for tool, given in (
                ("begin_operation", begin("new", args=LARGE)),
                ("record_receipt", receipt("a", evidence=LARGE)),
            ):
                with pytest.raises(ServerFault) as raised:
                    server.call(tool, **given)
                fault = raised.value.fault
                assert (fault["code"], fault["recorded"]) == ("journal_unavailable", False), fault
                assert words in fault["message"], fault
                assert "space" in fault["fix"], fault
                if tool == "record_receipt":
                    assert "NOT stored" in fault["message"] + fault["fix"], fault
        plan = server.call("resume_plan", run=RUN)
        assert [(step["key"], step["state"]) for step in plan["steps"]] == [("a", "in_progress")]
        make_room()
        answer = server.call("record_receipt", **receipt("a", evidence=LARGE))
        assert (answer["reason"], answer["state"]) == ("recorded", "succeeded")
        assert server.call("begin_operation", **begin("new", args=LARGE))["next"] == "perform"
        assert server.end_by()[0] == 0


def test_a_disk_that_became_read_only_is_told_and_nothing_is_granted(begun: Path, tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    with small_disk(folder, kibibytes=4_096):
        file = copied(begun, folder)
        command = [sys.executable, "-m", "counterfoil.server", "serve", "--journal", f"sqlite:///{file}"]
        with Server(tmp_path, command=command).start() as server:
            for words in ("remount,ro", "remount,rw"):
                subprocess.run(["mount", "-o", words, str(folder)], check=True, timeout=20)
                if words == "remount,ro":
                    assert_unavailable(server, "is read-only for this user")
            assert_available(server)


LOCK = """
import sqlite3, sys
raw = sqlite3.connect(sys.argv[1], isolation_level=None)
raw.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
raw.execute("ROLLBACK")
"""


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Let another process hold the journal's lock for as long as the block lasts."""
    command = [sys.executable, "-c", LOCK, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        try:
            yield
        finally:
            holder.communicate(timeout=20)


@pytest.mark.parametrize("is_running", [False, True])
def test_a_journal_that_another_process_keeps_locked_is_busy_and_the_wait_is_bounded(
    begun: Path, tmp_path: Path, is_running: bool
) -> None:
    file = copied(begun, tmp_path)
    with Server(tmp_path).start() as server:
        if is_running:
            assert server.call("begin_operation", **begin("a"))["next"] == "wait"
        with locked(file):
            # At once, as each waits as long as a lock is waited for.
            server.send(call("one", "begin_operation", **begin("new")))
            server.send(call("two", "resume_plan", run=RUN))
            for _ in range(2):
                with pytest.raises(ServerFault) as raised:
                    answer_of(server.receive())
                fault = raised.value.fault
                assert (fault["code"], fault["recorded"]) == ("journal_unavailable", False), fault
                assert "busy" in fault["message"], fault
        assert_available(server)


@pytest.mark.parametrize("home", ["a file", "a folder that may not be written"])
def test_a_home_in_which_no_journal_can_lie_is_told_and_nothing_is_granted(tmp_path: Path, home: str) -> None:
    wrong = tmp_path / "home"
    if home == "a file":
        wrong.write_text("not a folder")
    else:
        wrong.mkdir(mode=0o500)
    command = [sys.executable, "-m", "counterfoil.server", "serve"]
    with Server(
        tmp_path, command=command, before_start=be_held_by_permissions, HOME=str(wrong)
    ).start() as server:
        assert_unavailable(server, str(wrong))


def test_another_home_holds_another_journal_and_says_that_it_is_new(tmp_path: Path) -> None:
    told = {}
    for home in ("right", "wrong"):
        (tmp_path / home).mkdir()
        command = [sys.executable, "-m", "counterfoil.server", "serve"]
        with Server(tmp_path, command=command, HOME=str(tmp_path / home)).start() as server:
            if home == "right":
                assert server.call("begin_operation", **begin("a"))["next"] == "perform"
            told[home] = server.call("resume_plan", run=RUN)
    assert told["right"]["reason"] == "listed"
    assert (told["wrong"]["reason"], told["wrong"]["journal"]["is_new"]) == ("no_history", True)
    assert told["wrong"]["journal"]["id"] != told["right"]["journal"]["id"]


@pytest.mark.anyio
async def test_a_journal_that_came_to_lie_on_a_network_is_refused_and_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin()
    before = content_of(tmp_path)
    mounts = tmp_path.parent / f"{tmp_path.name}-mounts"
    mounts.write_text(f"22 21 0:5 / {tmp_path} rw - nfs4 srv rw\n")

    async def on_that_disk(*arguments: Any, **options: Any) -> Any:
        return await open_sqlite(*arguments, **options, mounts=mounts)

    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "open_sqlite", on_that_disk)
        with pytest.raises(JournalUnavailable, match="lies on nfs4") as fault:
            async with open_desk(tmp_path):
                pass
        assert (fault.value.recorded, fault.value.retryable) == (False, False)
        assert content_of(tmp_path) == before
    async with open_desk(tmp_path) as desk:
        assert (await desk.plan())["counts"] == {"in_progress": 1}
