"""`install` and `uninstall`: whatever else stands in a client's files stays, also what is changed later."""

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from command_line import CommandLine, cli, journal
from counterfoil.server.installing import work
from counterfoil.server.installing.files import ChangedMeanwhile, write_whole
from counterfoil.server.installing.json_text import value_at
from counterfoil.server.installing.placing import Placement
from counterfoil.server.installing.targets import TARGETS, skill_text

__all__ = ["cli", "journal"]

SETTINGS = '{\n  // mine\n  "model": "opus",\n  "hooks": {"Stop": [{"hooks": []}]},\n}\n'
AGENTS = '{\n  "agents": [\n    {"agentId": "agent-1"}\n  ]\n}\n'
TOML = "# mine\nmodel = \"x\" # y\n\n[mcp_servers.other]\ncommand = 'a'\n"


@pytest.fixture
def home(journal: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which each client has files of its own."""
    home = journal.parents[3]
    for name in ("CODEX_HOME", "LETTA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, text in {
        ".claude.json": '{"numStartups": 3, "mcpServers": {"other": {"command": "a"}}}',
        ".claude/settings.json": SETTINGS,
        ".codex/config.toml": TOML,
        ".codex/hooks.json": '{"hooks": {}}',
        ".gemini/settings.json": SETTINGS,
        ".letta/settings.json": AGENTS,
    }.items():
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(text)
    return home


def files_of(home: Path) -> dict[str, str]:
    """Give every file of the clients."""
    return {
        str(path.relative_to(home)): path.read_text()
        for path in sorted(home.rglob("*"))
        if path.is_file() and ".local" not in path.parts
    }


def words_of(client: str) -> list[str]:
    """Give the words that install into a client."""
    return ["install", client, *(["--agent", "agent-1"] if client == "letta-code" else [])]


@pytest.mark.parametrize("client", sorted(TARGETS))
def test_uninstalling_leaves_every_file_as_it_was(cli: CommandLine, home: Path, client: str) -> None:
    before = files_of(home)
    assert cli(*words_of(client)).code == 0
    assert files_of(home) != before
    assert cli("uninstall", client).code == 0
    assert files_of(home) == before


@pytest.mark.parametrize("client", sorted(TARGETS))
def test_installing_twice_changes_nothing_more(cli: CommandLine, home: Path, client: str) -> None:
    cli(*words_of(client))
    once = files_of(home)
    assert json.loads(cli(*words_of(client), "--json").out)["changes"] == []
    assert files_of(home) == once


@pytest.mark.parametrize("client", sorted(TARGETS))
def test_a_dry_run_shows_what_changes_and_changes_nothing(cli: CommandLine, home: Path, client: str) -> None:
    before = files_of(home)
    shown = cli(*words_of(client), "--dry-run")
    assert files_of(home) == before
    assert "+" in shown.out
    assert "counterfoil" in shown.out
    cli(*words_of(client))
    installed = files_of(home)
    cli("uninstall", client, "--dry-run")
    assert files_of(home) == installed


def test_the_server_the_hooks_and_the_skill_stand_where_claude_code_reads_them(
    cli: CommandLine, home: Path
) -> None:
    cli("install", "claude-code", "--tools", "core", "--journal", str(home / "other.db"))
    servers = json.loads((home / ".claude.json").read_text())["mcpServers"]
    assert servers["other"] == {"command": "a"}
    options = ["--journal", str(home / "other.db")]
    assert servers["counterfoil"]["args"][-5:] == ["serve", "--tools", "core", *options]
    text = (home / ".claude/settings.json").read_text()
    hooks = {"hooks": value_at(text, ("hooks",))}
    of_calls = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionDenied")
    assert all(hooks["hooks"][event][-1]["matcher"] == "Bash|mcp__.*" for event in of_calls)
    for event in (*of_calls, "SessionStart", "PreCompact", "Stop"):
        command = hooks["hooks"][event][-1]["hooks"][0]["command"]
        assert command.endswith(f"hook {event} --journal {home / 'other.db'}")
    assert hooks["hooks"]["Stop"][0] == {"hooks": []}
    assert (home / ".claude/skills/counterfoil/SKILL.md").read_text() == skill_text()


def test_codex_gets_a_table_beside_those_that_stand_there(cli: CommandLine, home: Path) -> None:
    cli("install", "codex")
    text = (home / ".codex/config.toml").read_text()
    assert text.startswith(TOML)
    assert tomllib.loads(text)["mcp_servers"]["counterfoil"]["required"] is True


def test_an_agent_that_letta_does_not_know_is_refused_and_nothing_is_written(
    cli: CommandLine, home: Path
) -> None:
    before = files_of(home)
    answer = cli("install", "letta-code", "--agent", "agent-2")
    assert answer.code == 1
    assert "no entry in it has the agentId agent-2" in answer.err
    assert files_of(home) == before


def test_what_a_person_changed_since_stays(cli: CommandLine, home: Path) -> None:
    cli("install", "claude-code")
    file = home / ".claude/settings.json"
    file.write_text(file.read_text().replace('"model": "opus"', '"model": "haiku", "theirs": true'))
    skill = home / ".claude/skills/counterfoil/SKILL.md"
    skill.write_text("my own words")
    answer = cli("uninstall", "claude-code")
    assert file.read_text() == SETTINGS.replace('"model": "opus"', '"model": "haiku", "theirs": true')
    assert skill.read_text() == "my own words"
    assert "was changed since, and is left" in answer.err


def test_an_entry_that_a_person_changed_since_is_left_and_named(cli: CommandLine, home: Path) -> None:
    cli("install", "claude-code")
    file = home / ".claude.json"
    servers = json.loads(file.read_text())
    servers["mcpServers"]["counterfoil"]["args"] = ["serve", "--tools", "core"]
    file.write_text(json.dumps(servers))
    answer = cli("uninstall", "claude-code")
    assert json.loads(file.read_text()) == servers
    assert "mcpServers.counterfoil was changed since, and is left" in answer.err


def test_an_entry_that_a_person_made_is_left_and_told(cli: CommandLine, home: Path) -> None:
    theirs = '{"mcpServers": {"counterfoil": {"command": "theirs"}}}'
    (home / ".claude.json").write_text(theirs)
    answer = cli("install", "claude-code")
    assert (home / ".claude.json").read_text() == theirs
    assert "mcpServers.counterfoil stands there already" in answer.err
    cli("uninstall", "claude-code")
    assert (home / ".claude.json").read_text() == theirs


def test_installing_with_other_options_replaces_what_was_installed(cli: CommandLine, home: Path) -> None:
    before = files_of(home)
    cli("install", "claude-code")
    cli("install", "claude-code", "--no-hooks", "--tools", "core")
    assert (home / ".claude/settings.json").read_text() == SETTINGS
    assert json.loads((home / ".claude.json").read_text())["mcpServers"]["counterfoil"]["args"][-2:] == [
        *("--tools", "core"),
    ]
    cli("uninstall", "claude-code")
    kept = {name: text for name, text in files_of(home).items() if ".before-counterfoil-" not in name}
    assert kept == before


def test_a_file_that_changes_is_kept_beside_it_with_its_mode(cli: CommandLine, home: Path) -> None:
    file = home / ".claude.json"
    was = file.read_text()
    file.chmod(0o640)
    told = json.loads(cli("install", "claude-code", "--json").out)
    [backup] = [Path(one["backup"]) for one in told["changes"] if one["file"] == str(file)]
    assert backup.read_text() == was
    assert (file.stat().st_mode & 0o777, backup.stat().st_mode & 0o777) == (0o640, 0o640)


def test_a_link_stays_a_link(cli: CommandLine, home: Path) -> None:
    kept = home / "dotfiles.json"
    (home / ".claude.json").rename(kept)
    (home / ".claude.json").symlink_to(kept)
    cli("install", "claude-code")
    assert (home / ".claude.json").is_symlink()
    assert "counterfoil" in json.loads(kept.read_text())["mcpServers"]


@pytest.mark.parametrize("text", ["{", "[]", '{"mcpServers": []}'])
def test_a_file_of_another_shape_is_refused_and_nothing_is_written(
    cli: CommandLine, home: Path, text: str
) -> None:
    (home / ".claude.json").write_text(text)
    before = files_of(home)
    answer = cli("install", "claude-code")
    assert answer.code == 1
    assert ".claude.json" in answer.err
    assert "Traceback" not in answer.err
    assert files_of(home) == before


@pytest.mark.parametrize("at", [".claude/settings.json", ".claude"])
def test_a_link_to_nothing_is_refused_by_name_and_nothing_is_written(
    cli: CommandLine, home: Path, at: str
) -> None:
    link = home / at
    link.rename(home / "elsewhere")
    link.symlink_to(home / "nothing")
    before = files_of(home)
    answer = cli("install", "claude-code")
    assert answer.code == 1
    assert f"{link} is a link to {home / 'nothing'}" in answer.err
    assert files_of(home) == before
    assert link.is_symlink()
    assert not (home / "nothing").exists()


def test_what_a_client_writes_while_it_is_installed_into_is_not_lost(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text("{}")
    wanted = {str(file): [Placement(kind="member", path=("ours",), value=1)]}
    changes = work.plan_install(str(tmp_path / "data"), "claude-code", wanted)
    file.write_text('{"theirs": 1}')
    with pytest.raises(work.NotInstallable, match="was changed while this ran"):
        work.install(str(tmp_path / "data"), "claude-code", changes)
    assert file.read_text() == '{"theirs": 1}'


def test_a_file_that_changes_meanwhile_is_not_written_over(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text("new")
    with pytest.raises(ChangedMeanwhile):
        write_whole(file, "ours", expected="old", is_checked=True)
    assert file.read_text() == "new"
    assert os.listdir(tmp_path) == ["settings.json"]


def test_a_key_that_stands_beside_it_is_not_shown(cli: CommandLine, home: Path) -> None:
    secret = "sk-ant-api03-" + "A1b2C3d4" * 8
    settings: dict[str, Any] = {"mcpServers": {}, "apiKey": secret}
    (home / ".claude.json").write_text(json.dumps(settings, indent=2))
    shown = cli("install", "claude-code", "--dry-run")
    assert '"apiKey"' in shown.out
    assert secret not in shown.out + shown.err


def test_taking_back_what_was_never_installed_says_so(cli: CommandLine, home: Path) -> None:
    answer = cli("uninstall", "gemini")
    assert answer.code == 0
    assert "nothing was installed" in answer.err


def test_the_copies_of_files_are_named_with_what_becomes_of_them(cli: CommandLine, home: Path) -> None:
    def copies() -> list[str]:
        return sorted(str(path) for path in home.rglob("*.before-counterfoil-*"))

    file = home / ".codex/config.toml"
    dry = cli("install", "codex", "--dry-run")
    assert f"{file} would be kept as it is, as {file}.before-counterfoil-TIME" in dry.err
    assert "until `counterfoil uninstall` puts it back" in dry.err
    assert copies() == []
    cli("install", "codex")
    [copy] = [name for name in copies() if "config.toml" in name]
    dry = cli("uninstall", "codex", "--dry-run")
    assert f"{copy} would be removed: {file} is what it was" in dry.err
    assert copy in copies()
    file.write_text(f"{file.read_text()}\n# mine too\n")
    for options, said in ((("--dry-run",), copy), ((), copy)):
        answer = cli("uninstall", "codex", *options)
        assert f"{said} stays: {file} as it was before an installation" in answer.err
    assert file.read_text() == f"{TOML}\n# mine too\n"
    assert copies() == [copy]


def test_a_copy_that_was_put_back_is_said_to_be_removed(cli: CommandLine, home: Path) -> None:
    cli("install", "gemini")
    [copy] = map(str, home.rglob(".gemini/*.before-counterfoil-*"))
    answer = cli("uninstall", "gemini")
    assert f"{copy} was removed: {home / '.gemini/settings.json'} is what it was" in answer.err
    assert not Path(copy).exists()
