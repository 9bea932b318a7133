"""A server's program that cannot be started: the gateway says which, why, and what would be right."""

from pathlib import Path

import pytest

from command_line import CommandLine, cli, journal
from counterfoil.server.gateway.programs import Program, start_programs
from counterfoil.server.gateway.servers import ServerSpec, Unreachable

__all__ = ["cli", "journal"]


def executable(file: Path, text: str) -> str:
    file.write_text(text)
    file.chmod(0o700)
    return str(file)


def why(*command: str, folder: Path | None = None) -> str:
    spec = ServerSpec(name="mail", command=command, folder=None if folder is None else str(folder))
    with pytest.raises(Unreachable) as caught:
        Program(spec)
    assert start_programs([spec]) == {}
    return caught.value.why


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_a_command_that_is_on_no_path_is_a_usage_error_that_names_it(
    cli: CommandLine, journal: Path, words: tuple[str, ...]
) -> None:
    answer = cli("gateway", *words, "--", "nosuchprogram", "--stdio")
    assert answer.code == 2
    said = answer.out if words else answer.err
    assert "there is no program nosuchprogram in any folder of PATH" in said
    assert "Error" not in said
    assert "see `counterfoil gateway --help`" in said


def test_without_a_command_or_a_configured_server_both_ways_are_named(
    cli: CommandLine, journal: Path
) -> None:
    answer = cli("gateway")
    assert answer.code == 2
    assert "Give its command after --" in answer.err
    assert "[gateway.servers.NAME]" in answer.err
    assert "setting" not in answer.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--name", "a/b", "--", "cat"), "--name: it has 1 to 40 letters"),
        (("--run", "\u202e", "--", "cat"), "--run: 1 to 200 characters"),
        (("--", ""), "COMMAND: it begins with the server's program"),
    ],
)
def test_what_is_wrong_on_the_command_line_is_no_setting(
    cli: CommandLine, journal: Path, words: tuple[str, ...], said: str
) -> None:
    answer = cli("gateway", *words)
    assert answer.code == 2
    assert said in answer.err
    assert "setting" not in answer.err


def test_a_path_that_leads_nowhere_is_told_from_a_name_that_is_not_on_path(tmp_path: Path) -> None:
    assert why(str(tmp_path / "gone")) == f"there is no program {tmp_path / 'gone'}: check its path"


def test_a_script_whose_interpreter_is_gone_is_not_said_to_be_missing(tmp_path: Path) -> None:
    script = executable(tmp_path / "script", "#!/nowhere/interpreter\n")
    assert why(script) == f"{script} is a script, and what is to run it (its #! line) is not there"


def test_a_file_that_is_no_program_is_called_that(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    assert f"{tmp_path / 'text'} may not be executed" in why(str(tmp_path / "text"))
    broken = executable(tmp_path / "broken", "neither script nor program")
    assert why(broken) == f"{broken} cannot be started: Exec format error"


def test_a_folder_that_is_gone_is_not_taken_for_the_program(tmp_path: Path) -> None:
    assert why("cat", folder=tmp_path / "gone").endswith(f"is not there: {tmp_path / 'gone'}")
