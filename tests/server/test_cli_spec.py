"""`spec` reads criteria for people and programs, and gives them to a run; `doctor` shows the probes."""

import json
from pathlib import Path

import pytest

from command_line import HOSTILE, RUN, CommandLine, cli, journal
from counterfoil.store.limits import Limits
from counterfoil.tools.arguments import take_arguments
from counterfoil.tools.begin_run import BeginRunInput

__all__ = ["cli", "journal"]

TEXT = f"""# Albums
- **FR-001**: System MUST group photos by date {HOSTILE}
- **FR-002**: System SHOULD remember the last album
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A specification."""
    made = tmp_path / "spec.md"
    made.write_text(TEXT, encoding="utf-8")
    return made


def test_criteria_are_shown_as_a_table_and_nothing_in_them_acts(cli: CommandLine, file: Path) -> None:
    answer = cli("spec", str(file))
    assert answer.code == 0
    shown = " ".join(answer.out.split())
    assert "FR-001 yes System MUST group" in shown
    assert "FR-002 no System SHOULD remember" in shown
    assert "2, of which 1 required" in shown
    assert "spec-kit" in shown
    assert "\x1b" not in answer.out
    assert "\u202e" not in answer.out


def test_the_json_is_what_begin_run_takes(cli: CommandLine, file: Path) -> None:
    given = json.loads(cli("spec", str(file), "--json").out)
    assert given["uri"] == file.resolve().as_uri()
    assert given["digest"].startswith("sha256:")
    taken = take_arguments(BeginRunInput, {"run": "r", "spec": given}, limits=Limits())
    assert taken.spec is not None
    assert [one["id"] for one in given["criteria"]] == ["FR-001", "FR-002"]


def test_without_a_run_no_journal_is_needed(cli: CommandLine, journal: Path, file: Path) -> None:
    journal.unlink()
    assert cli("spec", str(file)).code == 0
    assert not journal.exists()
    assert cli("spec", str(file), "--run", RUN).code == 3


def test_a_run_is_held_against_a_file_and_its_plan_shows_where_each_criterion_stands(
    cli: CommandLine, journal: Path, file: Path
) -> None:
    answer = cli("spec", str(file), "--run", RUN)
    assert answer.code == 0
    assert "held against them from now on" in " ".join(answer.out.split())
    plan = json.loads(cli("plan", RUN, "--json").out)
    assert [one["id"] for one in plan["criteria"]["open"]] == ["FR-001", "FR-002"]
    again = json.loads(cli("spec", str(file), "--run", RUN, "--json").out)
    assert (again["next"], again["reason"], again["run"]) == ("continue", "duplicate", RUN)
    assert len(again["spec"]["criteria"]) == 2
    assert cli("verify").code == 0


def test_what_cannot_be_read_or_is_not_there_is_told(cli: CommandLine, journal: Path, file: Path) -> None:
    answer = cli("spec", str(file.with_name("none.md")))
    assert (answer.code, "cannot be read" in answer.err) == (2, True)
    answer = cli("spec", str(file), "--run", "weekly-report/2026-W49")
    assert answer.code == 1
    assert RUN in answer.err


def test_doctor_lists_the_probes_and_what_this_machine_lacks_for_them(
    cli: CommandLine, journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "counterfoil.toml"
    good = f'[probes.report]\ntype = "file"\naction = "report.*"\npath = "{tmp_path}/{{key}}"\n'
    config.write_text(good)
    monkeypatch.setenv("COUNTERFOIL_CONFIG", str(config))
    told = json.loads(cli("doctor", "--json").out)
    assert told["probes"] == [{"name": "report", "type": "file", "action": "report.*", "lacks": []}]
    assert told["status"] == "ok"
    config.write_text(
        good
        + '[probes.ledger]\ntype = "command"\ncommand = ["/no/such/program", "{key}"]\ncwd = "/no/such"\n'
        '[probes.web]\ntype = "http"\nurl = "https://x/{key}"\nheaders = { A = "{env.NO_SUCH_TOKEN}" }\n'
        '[probes.site]\ntype = "git_commit"\nrepository = "/no/such/site.git"\n'
    )
    answer = cli("doctor")
    shown = " ".join(answer.out.split())
    assert answer.code == 1
    told = json.loads(cli("doctor", "--json").out)
    assert told["status"] == "wanting"
    assert {probe["name"]: probe["lacks"] for probe in told["probes"]} == {
        "report": [],
        "ledger": ["there is no program /no/such/program", "there is no folder /no/such"],
        "web": ["the environment variable NO_SUCH_TOKEN is not set"],
        "site": ["there is no git repository at /no/such/site.git"],
    }
    assert "report file report.* nothing" in shown
