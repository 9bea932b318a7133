"""Probes of what is on this machine: files, programs, git repositories. Each against the real thing."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from probes import OPERATION, configured, look, subject

pytestmark = pytest.mark.anyio

DIGEST = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
"""Of the five bytes `hello`."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that a file probe may look into, beside a file that it may not."""
    (tmp_path / "outside.txt").write_text("hello")
    inside = tmp_path / "reports"
    inside.mkdir()
    return inside


async def test_a_file_is_found_by_its_digest_and_its_path_is_the_reference(
    tmp_path: Path, folder: Path
) -> None:
    (folder / "a.txt").write_text("hello")
    table = f'type = "file"\npath = "{folder}/{{args.name}}"\nsha256 = "{{args.sha256}}"'
    args = {"name": "a.txt", "sha256": f"sha256:{DIGEST.upper()}"}
    seen = await look(tmp_path, table, args=args)
    assert (seen.found, seen.kind, seen.system) == (True, "file", "probe:it")
    assert seen.external_id == f"{folder}/a.txt@sha256:{DIGEST}"
    assert seen.performed_at is None
    (folder / "a.txt").write_text("hello!")
    assert (await look(tmp_path, table, args=args)).found is False
    (folder / "a.txt").unlink()
    assert (await look(tmp_path, table, args=args)).found is False
    seen = await look(tmp_path, table, args={**args, "sha256": "hello"})
    assert (seen.found, seen.why) == (None, "what should be the digest is not a SHA-256 in hexadecimal")


async def test_a_reference_on_record_that_fits_is_repeated_as_it_was(tmp_path: Path, folder: Path) -> None:
    (folder / "a.txt").write_text("hello")
    table = f'type = "file"\npath = "{folder}/a.txt"\nsha256 = "{{external_id}}"'
    seen = await look(tmp_path, table, external_id=DIGEST, kind="record", system="files")
    assert (seen.external_id, seen.kind, seen.system) == (DIGEST, "record", "files")


async def test_a_file_that_is_only_to_be_there_is_dated_by_its_last_change(
    tmp_path: Path, folder: Path
) -> None:
    (folder / "old").touch()
    os.utime(folder / "old", (1_700_000_000, 1_700_000_000))
    seen = await look(tmp_path, f'type = "file"\npath = "{folder}/{{key}}"', key="old")
    assert (seen.found, seen.performed_at) == (True, "2023-11-14T22:13:20.000000Z")
    assert (await look(tmp_path, f'type = "file"\npath = "{folder}/{{key}}"')).found is False


@pytest.mark.parametrize("name", ["../outside.txt", "sub/../../outside.txt", "..", ".", "", "a//b", "link"])
async def test_no_value_leads_out_of_the_folder(tmp_path: Path, folder: Path, name: str) -> None:
    (folder / "sub").mkdir()
    (folder / "link").symlink_to(tmp_path / "outside.txt")
    seen = await look(tmp_path, f'type = "file"\npath = "{folder}/{{args.name}}"', args={"name": name})
    assert seen.found is None
    assert "outside.txt" not in str(seen.why)


async def test_a_missing_folder_a_pipe_and_a_file_that_is_too_large_tell_nothing(
    tmp_path: Path, folder: Path
) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "large").write_bytes(b"x" * 11)
    table = f'type = "file"\npath = "{folder}/{{key}}"\nsha256 = "{DIGEST}"\nmost_bytes = 10'
    assert (await look(tmp_path, table, key="pipe")).why == "it is no regular file"
    assert (await look(tmp_path, table, key="large")).why == "the file has more than 10 bytes"
    table = f'type = "file"\npath = "{folder}/gone/{{key}}"'
    assert (await look(tmp_path, table)).why == "the folder that is looked into is not there"


def script(tmp_path: Path, text: str) -> Path:
    """Make a Python program."""
    file = tmp_path / "looks"
    file.write_text(f"#!{sys.executable}\nimport os, sys, time\n{text}\n")
    file.chmod(0o755)
    return file


def command(program: Path, *arguments: str, more: str = "") -> str:
    """Give the table of a command probe."""
    words = ", ".join(f'"{word}"' for word in (program, *arguments))
    return f'type = "command"\ncommand = [{words}]\n{more}'


@pytest.mark.parametrize(("code", "found"), [(0, True), (1, False), (2, None), (127, None)])
async def test_the_exit_code_of_a_command_says_what_it_found(
    tmp_path: Path, code: int, found: bool | None
) -> None:
    program = script(tmp_path, f"print('m-1'); sys.exit({code})")
    seen = await look(tmp_path, command(program, "{key}", more='external_id = "first_line"'))
    assert seen.found is found
    assert seen.external_id == ("m-1" if found else None)


async def test_without_a_first_line_the_operation_is_the_reference_under_the_probes_own_name(
    tmp_path: Path,
) -> None:
    seen = await look(tmp_path, command(script(tmp_path, "print('m-1')"), "{key}"))
    assert (seen.external_id, seen.system) == (OPERATION, "probe:it")


async def test_a_value_is_one_argument_whatever_it_holds(tmp_path: Path) -> None:
    told = tmp_path / "told"
    program = script(tmp_path, f"open({str(told)!r}, 'w').write(repr(sys.argv[1:]))")
    hostile = f"a b; touch {tmp_path}/made $(touch {tmp_path}/made) `x` \"' *"
    seen = await look(tmp_path, command(program, "--q={args.q}", "{args.q}", "end"), args={"q": hostile})
    assert seen.found is True
    assert told.read_text() == repr([f"--q={hostile}", hostile, "end"])
    assert not (tmp_path / "made").exists()


async def test_an_option_in_place_of_a_value_is_not_passed_on(tmp_path: Path) -> None:
    told = tmp_path / "told"
    program = script(tmp_path, f"open({str(told)!r}, 'w')")
    seen = await look(tmp_path, command(program, "{args.q}"), args={"q": "--delete-all"})
    assert seen.found is None
    assert not told.exists()


async def test_a_program_has_only_the_environment_and_the_folder_that_it_was_given(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SERVER", "x")
    monkeypatch.setenv("TOKEN", "t-1")
    program = script(
        tmp_path,
        "has = 'SECRET_OF_THE_SERVER' in os.environ\n"
        "print(os.environ['MAIL_TOKEN'], os.getcwd(), has, sys.stdin.read())",
    )
    table = command(
        program,
        "{key}",
        more=f'external_id = "first_line"\ncwd = "{folder}"\n'
        'environment = { MAIL_TOKEN = "x{env.TOKEN}" }',
    )
    assert (await look(tmp_path, table)).external_id == f"xt-1 {folder} False"
    monkeypatch.delenv("TOKEN")
    assert "is not set" in str((await look(tmp_path, table)).why)


async def test_a_slow_program_is_killed_with_its_children_in_time(tmp_path: Path) -> None:
    mark = tmp_path / "children"
    program = script(
        tmp_path,
        f"import subprocess\nchild = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(mark)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\ntime.sleep(600)",
    )
    started = time.monotonic()
    seen = await look(tmp_path, command(program, "{key}", more="timeout_seconds = 1.5"))
    assert time.monotonic() - started < 10
    assert (seen.found, seen.why) == (None, "it was not done within 1.5 s")
    await until(lambda: not any(is_running(int(pid)) for pid in mark.read_text().split()))


async def until(holds: Callable[[], bool]) -> None:
    """Wait, for 20 seconds at most, until something outside of this process holds."""
    with anyio.fail_after(20):
        while not holds():  # noqa: ASYNC110 - nobody tells us
            await anyio.sleep(0.02)


def is_running(pid: int) -> bool:
    """Tell whether a process is there and no mere remainder of one."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


async def test_a_call_that_is_cancelled_leaves_no_program_behind(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    program = script(tmp_path, f"open({str(mark)!r}, 'w').write(str(os.getpid()) + '.')\ntime.sleep(600)")
    prober = configured(tmp_path, "[probes.it]\n" + command(program, "{key}"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(prober.look, subject())
        await until(lambda: mark.exists() and mark.read_text().endswith("."))
        tasks.cancel_scope.cancel()
    await until(lambda: not is_running(int(mark.read_text()[:-1])))


async def test_a_program_that_writes_without_end_or_is_not_there_tells_nothing(tmp_path: Path) -> None:
    endless = script(tmp_path, "while True: sys.stdout.write('x' * 10_000)")
    seen = await look(tmp_path, command(endless, "{key}"))
    assert (seen.found, seen.why) == (None, "the program wrote more than 65536 bytes")
    seen = await look(tmp_path, command(tmp_path / "none", "{key}"))
    assert (seen.found, seen.why) == (None, "the program cannot be started: No such file or directory")


class Repository:
    """A bare repository with a clone that pushes into it."""

    def __init__(self, folder: Path) -> None:
        self.bare, self.work = folder / "bare.git", folder / "work"
        self.run("init", "--quiet", "--bare", "--initial-branch=main", str(self.bare), at=folder)
        self.run("clone", "--quiet", str(self.bare), str(self.work), at=folder)

    def run(self, *words: str, at: Path | None = None) -> str:
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        done = subprocess.run(
            ["git", *who, *words],
            cwd=at or self.work,
            check=True,
            capture_output=True,
            timeout=30,
            env={
                **os.environ,
                "GIT_COMMITTER_DATE": "2026-11-29T12:00:00+01:00",
                "HOME": str(self.bare.parent),
            },
        )
        return done.stdout.decode().strip()

    def commit(self, message: str, *, push: str | None = "main") -> str:
        self.run("commit", "--quiet", "--allow-empty", "-m", message)
        if push is not None:
            self.run("push", "--quiet", "--force", "origin", f"HEAD:refs/heads/{push}")
        return self.run("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """An empty one."""
    return Repository(tmp_path)


def git_table(type_: str, repository: Repository, more: str = "") -> str:
    """Give the table of a git probe of the bare repository."""
    return f'type = "{type_}"\nrepository = "{repository.bare}"\n{more}'


async def test_a_commit_is_found_by_its_hash_and_dated(tmp_path: Path, repository: Repository) -> None:
    sha = repository.commit("one")
    table = git_table("git_commit", repository, 'ref = "refs/heads/main"\ncommit = "{args.commit}"')
    seen = await look(tmp_path, table, args={"commit": sha[:10]})
    assert (seen.found, seen.external_id, seen.kind, seen.system) == (True, sha, "commit", None)
    assert seen.performed_at == "2026-11-29T11:00:00.000000Z"
    assert datetime.fromisoformat(seen.performed_at or "").timestamp() == 1_795_950_000
    later = await look(tmp_path, f'{table}\ntime = "none"', args={"commit": sha})
    assert later.performed_at is None


async def test_a_commit_that_is_not_there_or_not_reached_by_the_ref_is_not_found(
    tmp_path: Path, repository: Repository
) -> None:
    repository.commit("one")
    elsewhere = repository.commit("two", push="other")
    unpushed = repository.commit("three", push=None)
    table = git_table("git_commit", repository, 'ref = "refs/heads/main"\ncommit = "{args.commit}"')
    for sha in (elsewhere, unpushed, "0" * 40):
        assert (await look(tmp_path, table, args={"commit": sha})).found is False
    no_ref = git_table("git_commit", repository, 'commit = "{args.commit}"')
    assert (await look(tmp_path, no_ref, args={"commit": elsewhere})).found is True


@pytest.mark.parametrize("hostile", ["HEAD", "main~1", "--all", "-h", ":/one", "abc", "@{-1}", "g" * 40])
async def test_only_hexadecimal_digits_name_a_commit(
    tmp_path: Path, repository: Repository, hostile: str
) -> None:
    repository.commit("one")
    table = git_table("git_commit", repository, 'commit = "{args.commit}"')
    seen = await look(tmp_path, table, args={"commit": hostile})
    assert (seen.found, seen.why) == (
        None,
        "what should name the commit is not 7 to 64 hexadecimal digits",
    )


async def test_a_shortened_hash_on_record_stays_the_same_reference(
    tmp_path: Path, repository: Repository
) -> None:
    sha = repository.commit("one")
    table = git_table("git_commit", repository)
    seen = await look(tmp_path, table, external_id=sha[:8], kind="commit", system="git.push")
    assert (seen.found, seen.external_id, seen.system) == (True, sha[:8], "git.push")


async def test_a_commit_is_found_by_the_operation_in_its_message(
    tmp_path: Path, repository: Repository
) -> None:
    repository.commit("another")
    table = git_table("git_commit", repository, 'ref = "refs/heads/main"\nmessage = "{operation}"')
    assert (await look(tmp_path, table)).found is False
    sha = repository.commit(f"one\n\nOperation: {OPERATION}")
    seen = await look(tmp_path, table)
    assert (seen.found, seen.external_id) == (True, sha)
    repository.commit(f"again {OPERATION}")
    assert (await look(tmp_path, table)).why == "more than one commit has this message"


async def test_a_wrong_or_shallow_repository_tells_nothing(tmp_path: Path, repository: Repository) -> None:
    first = repository.commit("one")
    repository.commit("two")
    shallow = tmp_path / "shallow"
    repository.run("clone", "--quiet", "--bare", "--depth=1", f"file://{repository.bare}", str(shallow))
    table = 'type = "git_commit"\nref = "refs/heads/main"\ncommit = "{args.commit}"\nrepository = '
    for place in (shallow, tmp_path, tmp_path / "none"):
        assert (await look(tmp_path, f'{table}"{place}"', args={"commit": first})).found is None
    other = git_table("git_commit", repository, 'ref = "refs/heads/mian"\ncommit = "{args.commit}"')
    seen = await look(tmp_path, other, args={"commit": first})
    assert seen.why == "the repository has no such ref as the configuration names"


async def test_a_repositorys_own_configuration_runs_nothing(tmp_path: Path, repository: Repository) -> None:
    sha = repository.commit("one")
    signed = repository.run("cat-file", "commit", sha).replace(
        "\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----\n\n", 1
    )
    (tmp_path / "signed").write_text(signed)
    sha = repository.run("hash-object", "-t", "commit", "-w", str(tmp_path / "signed"), at=repository.bare)
    repository.run("update-ref", "refs/heads/main", sha, at=repository.bare)
    hostile = script(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w')")
    for name, value in {
        "log.showSignature": "true",
        "gpg.program": str(hostile),
        "core.fsmonitor": str(hostile),
        "core.pager": str(hostile),
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"file://{repository.bare}",
        "remote.origin.uploadpack": str(hostile),
        "protocol.file.allow": "always",
    }.items():
        repository.run("config", name, value, at=repository.bare)
    for more in ('commit = "{args.commit}"', 'ref = "refs/heads/main"\nmessage = "{args.word}"'):
        table = git_table("git_commit", repository, more)
        assert (await look(tmp_path, table, args={"commit": sha, "word": "one"})).found is True
        seen = await look(tmp_path, table, args={"commit": "1" * 40, "word": "two"})
        assert seen.found is not True
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("place", ["repository", "remote"])
async def test_a_ref_is_found_at_its_commit(tmp_path: Path, repository: Repository, place: str) -> None:
    sha = repository.commit("one", push="release-1")
    repository.commit("x", push="x/refs/heads/release-2")
    table = (
        f'type = "git_ref"\n{place} = "{repository.bare}"\n'
        'ref = "refs/heads/release-{args.version}"\nsha = "{args.sha}"'
    )
    seen = await look(tmp_path, table, args={"version": 1, "sha": sha})
    assert (seen.found, seen.external_id) == (True, f"refs/heads/release-1@{sha}")
    assert (seen.system, seen.performed_at) == ("probe:it", None)
    on_record = await look(
        tmp_path,
        table,
        args={"version": 1, "sha": sha},
        external_id=sha[:9],
        kind="commit",
        system="git.push",
    )
    assert (on_record.external_id, on_record.system) == (sha[:9], "git.push")
    assert (await look(tmp_path, table, args={"version": 2, "sha": sha})).found is False


@pytest.mark.parametrize("place", ["repository", "remote"])
async def test_a_tag_with_a_message_is_at_the_commit_that_it_names(
    tmp_path: Path, repository: Repository, place: str
) -> None:
    sha = repository.commit("one")
    repository.run("tag", "-a", "v1", "-m", "first")
    repository.run("push", "--quiet", "origin", "v1")
    table = (
        f'type = "git_ref"\n{place} = "{repository.bare}"\nref = "refs/tags/{{key}}"\nsha = "{{args.sha}}"'
    )
    assert (await look(tmp_path, table, key="v1", args={"sha": sha})).found is True


async def test_a_ref_that_moved_on_still_holds_the_commit_where_the_repository_is_at_hand(
    tmp_path: Path, repository: Repository
) -> None:
    before = repository.commit("before")
    sha = repository.commit("one")
    table = 'type = "git_ref"\nref = "refs/heads/main"\nsha = "{args.sha}"\nbefore = "{args.before}"\n'
    local, remote = f'{table}repository = "{repository.bare}"', f'{table}remote = "{repository.bare}"'
    args: dict[str, Any] = {"sha": sha, "before": before}
    repository.commit("two")
    assert (await look(tmp_path, local, args=args)).found is True
    seen = await look(tmp_path, remote, args=args)
    assert (seen.found, seen.why) == (
        None,
        "the ref stands at another commit, and may have been moved on since",
    )
    repository.run("push", "--quiet", "--force", "origin", f"{before}:refs/heads/main")
    assert (await look(tmp_path, remote, args=args)).found is False
    assert (await look(tmp_path, local, args=args)).found is False


async def test_a_ref_beside_a_commit_that_arrived_tells_nothing(
    tmp_path: Path, repository: Repository
) -> None:
    before = repository.commit("before")
    sha = repository.commit("one")
    table = git_table("git_ref", repository, 'ref = "refs/heads/main"\nsha = "{args.sha}"')
    repository.run("reset", "--quiet", "--hard", before)
    other = repository.commit("another", push="other")
    repository.run("push", "--quiet", "--force", "origin", f"{other}:refs/heads/main")
    seen = await look(tmp_path, table, args={"sha": sha})
    assert (seen.found, seen.why) == (None, "the ref stands at a commit beside this one")
    repository.run("push", "--quiet", "--force", "origin", f"{before}:refs/heads/main")
    assert (await look(tmp_path, table, args={"sha": sha})).found is False
    assert (await look(tmp_path, table, args={"sha": "1" * 40})).found is False


@pytest.mark.parametrize("hostile", ["../../config", "main..other", "--all", "a b", "*", "x.lock", "a//b"])
async def test_only_a_whole_ref_is_asked_for(tmp_path: Path, repository: Repository, hostile: str) -> None:
    sha = repository.commit("one")
    table = git_table("git_ref", repository, 'ref = "refs/heads/{target}"\nsha = "{args.sha}"')
    seen = await look(tmp_path, table, target=hostile, args={"sha": sha})
    assert (seen.found, seen.why) == (
        None,
        "what should name the ref is no whole ref such as refs/heads/main",
    )


async def test_a_remote_that_cannot_be_asked_tells_nothing(tmp_path: Path, repository: Repository) -> None:
    table = f'type = "git_ref"\nref = "refs/heads/{{key}}"\nsha = "{"a" * 40}"\nremote = "{tmp_path}/none"'
    assert (await look(tmp_path, table)).why == "git could not ask the remote"
