"""Serving, connecting clients, help, and the usage errors."""

import json
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from command_line import WAIT_SECONDS, CommandLine, cli, journal, process, program
from counterfoil.server.clients import CLIENTS, server_command
from counterfoil.server.version import source_in
from stdio_process import call

__all__ = ["cli", "journal"]

COMMANDS = (
    *("runs", "plan", "show", "find", "tail", "reconcile", "close", "check", "doctor", "verify"),
    *("serve", "config", "hook", "gateway", "demo", "release", "finish", "install", "uninstall"),
    *("grant", "requests", "spec", "export", "import", "backup", "restore", "prune", "migrate"),
    *("copy", "token"),
)
LATER = ("console",)
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    },
}


def talk(words: list[str], *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """Start a server, send it messages, close its stdin, and give what it said."""
    lines = "".join(json.dumps(message) + "\n" for message in messages)
    done = subprocess.run(words, input=lines.encode(), capture_output=True, timeout=WAIT_SECONDS, check=False)
    assert done.returncode == 0
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    "words", [(), ("serve",), ("serve", "--tools", "core"), ("--tools=all",), ("--log", "error", "serve")]
)
def test_without_a_command_or_with_serve_it_serves_over_stdio(journal: Path, words: tuple[str, ...]) -> None:
    (answer,) = talk(program(*words), HELLO)
    assert answer["result"]["serverInfo"]["name"] == "counterfoil"


def test_a_server_makes_its_journal_and_people_see_what_it_recorded(journal: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "new" / "journal.db")
    begin = call(1, run="night/1", key="k", action="mail.send")
    started = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    answers = talk(program("serve", "--journal", file), HELLO, started, begin)
    assert answers[-1]["result"]["structuredContent"]["next"] == "perform"
    shown = process("show", "night/1", "k", "--journal", file, "--json")
    assert json.loads(shown.out)["state"] == "in_progress"


def test_serving_loads_nothing_that_only_people_need(journal: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "counterfoil.server"],
        input=json.dumps(HELLO).encode() + b"\n",
        capture_output=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    loaded = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.decode().splitlines()}
    assert "counterfoil.server.app" in loaded
    # click is loaded all the same, by the SDK.
    assert not [name for name in loaded if name.split(".")[0] == "rich"]
    assert not [name for name in loaded if name.startswith("counterfoil.server.people")]


@pytest.mark.parametrize(
    "words",
    [
        ("serve", "--tools", "some"),
        ("serve", "now"),
        ("--journal",),
        ("--namespace", "a b"),
        ("runs", "--limit", "0"),
        ("find", "--state", "unsure"),
        ("find", "--external-id", "x", "--text", "y"),
        ("find", "--system", "x"),
        ("plan",),
        ("show",),
        ("--json",),
        ("config", "emacs"),
        ("bogus",),
        *((name,) for name in LATER),
    ],
)
def test_a_usage_error_is_code_2_and_says_where_help_is(journal: Path, words: tuple[str, ...]) -> None:
    answer = process(*words)
    assert answer.code == 2
    assert "Traceback" not in answer.err
    assert answer.err.startswith("counterfoil: ") or "--json" in words


def test_help_names_every_command_once_and_none_that_is_not_there(cli: CommandLine) -> None:
    answer = cli("--help")
    assert answer.code == 0
    listed = [line.split()[0] for line in answer.out.splitlines() if line.startswith("  ") and line.split()]
    for name in COMMANDS:
        assert listed.count(name) == 1
    assert not set(LATER) & set(listed)
    assert "3 journal unavailable" in answer.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(cli: CommandLine, command: str) -> None:
    answer = cli(command, "--help")
    assert answer.code == 0
    assert f"counterfoil {command}" in answer.out.split("Examples:")[1] or command == "serve"
    assert "--json" in answer.out


@pytest.mark.parametrize("command", ["reconcile", "close", "release", "finish"])
def test_help_says_that_the_check_of_a_person_is_no_boundary(cli: CommandLine, command: str) -> None:
    assert "no security boundary" in " ".join(cli(command, "--help").out.split())


def test_the_version_is_that_of_the_distribution(cli: CommandLine) -> None:
    assert cli("--version").out == f"counterfoil {version('counterfoil')}\n"


@pytest.mark.parametrize("client", sorted(CLIENTS))
def test_the_configuration_of_a_client_starts_this_server(
    cli: CommandLine, journal: Path, client: str
) -> None:
    answer = cli("config", client)
    assert answer.code == 0
    assert "goes into" in answer.err
    told = json.loads(cli("config", client, "--json").out)
    document = tomllib.loads(answer.out) if client == "codex" else json.loads(answer.out)
    entry = entry_of(client, document)
    assert (entry["command"], entry["args"]) == (told["command"], told["args"])
    assert Path(entry["command"]).is_absolute()
    if client == "codex":
        assert told["configuration"].strip() == answer.out.strip()
    else:
        assert told["configuration"] == document


def entry_of(client: str, document: dict[str, Any]) -> dict[str, Any]:
    """Give the server's own entry, from where each client looks for it."""
    match client:
        case "codex":
            return dict(document["mcp_servers"]["counterfoil"])
        case "vscode":
            assert document["servers"]["counterfoil"]["type"] == "stdio"
            return dict(document["servers"]["counterfoil"])
        case "letta-code":
            entry = document["agents"][0]["mcpServers"][0]
            assert (entry["name"], entry["transport"]) == ("counterfoil", "stdio")
            return dict(entry)
        case _:
            return dict(document["mcpServers"]["counterfoil"])


def test_the_command_in_a_configuration_really_serves(journal: Path) -> None:
    told = json.loads(process("config", "claude-code", "--json").out)
    (answer,) = talk([told["command"], *told["args"]], HELLO)
    assert answer["result"]["serverInfo"]["name"] == "counterfoil"
    assert shlex.split(told["add"])[-len(told["args"]) - 1 :] == [told["command"], *told["args"]]


def test_a_journal_that_is_set_here_is_written_into_the_configuration(
    cli: CommandLine, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERFOIL_NAMESPACE", "team")
    told = json.loads(cli("config", "cursor", "--journal", "~/other.db", "--tools", "core", "--json").out)
    home = journal.parents[3]
    journal_words = ["--journal", str(home / "other.db"), "--namespace", "team"]
    assert told["args"] == ["serve", "--tools", "core", *journal_words] or told["args"][2:] == [
        *("serve", "--tools", "core"),
        *journal_words,
    ]


@pytest.mark.parametrize(
    ("direct_url", "expected"),
    [
        (None, None),
        ({"url": "file:///home/me/a%20clone", "dir_info": {"editable": True}}, "/home/me/a clone"),
        ({"url": "https://host.example/c-1.whl", "archive_info": {}}, "https://host.example/c-1.whl"),
        (
            {"url": "https://host.example/c.git", "vcs_info": {"vcs": "git", "commit_id": "4be1c0e"}},
            "git+https://host.example/c.git@4be1c0e",
        ),
        ({"url": "file:///src", "dir_info": {}, "subdirectory": "py"}, "/src#subdirectory=py"),
    ],
)
def test_where_this_was_installed_from_is_told_as_an_installer_takes_it(
    direct_url: dict[str, Any] | None, expected: str | None
) -> None:
    assert source_in(None if direct_url is None else json.dumps(direct_url)) == expected


@pytest.mark.parametrize(
    ("origin", "before"), [(None, ()), ("/home/me/counterfoil", ("--from", "/home/me/counterfoil"))]
)
def test_uvx_is_named_where_asked_for_or_where_this_is_its_own_cache(
    monkeypatch: pytest.MonkeyPatch, origin: str | None, before: tuple[str, ...]
) -> None:
    monkeypatch.setattr("counterfoil.server.clients.source", lambda: origin)
    asked = server_command(with_uvx=True, arguments=[], argv0="/usr/bin/counterfoil")
    cached = server_command(
        with_uvx=False, arguments=[], argv0="/home/me/.cache/uv/archive-v0/x/bin/counterfoil"
    )
    assert asked == cached
    assert (asked.command, asked.args) == ("uvx", (*before, "counterfoil", "serve"))


def test_demo_is_run_and_its_exit_code_kept(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    import types

    fake = types.ModuleType("counterfoil.server.demo")
    fake.run_demo = lambda *, as_json: 7 if as_json else 0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "counterfoil.server.demo", fake)
    assert cli("demo").code == 0
    assert cli("demo", "--json").code == 7
