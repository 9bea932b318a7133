"""The README tells the truth: every guarantee names a test that exists, every command is one."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUARANTEES = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
GUARANTEE = re.compile(r"^\| .+ \| \[`(test_\w+)`\]\((tests/\S+\.py)\) \|$", re.MULTILINE)


def test_each_guarantee_names_a_test_that_is_there():
    named = GUARANTEE.findall(README)
    assert len(named) >= 15
    missing = [
        (name, file)
        for name, file in named
        if f"def {name}(" not in (ROOT / file).read_text(encoding="utf-8")
    ]
    assert missing == []


def test_the_page_of_guarantees_names_tests_that_are_there():
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", GUARANTEES))
    assert len(named) >= 10
    assert [name for name in named if f"def {name}(" not in tests] == []
    files = set(re.findall(r"`((?:tests|bench)/[\w/]+(?:\.py)?)`", GUARANTEES))
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_each_link_leads_to_a_file_of_this_project():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert [link for link in links if not link.startswith("http") and not (ROOT / link).exists()] == []


def test_each_command_that_is_shown_is_a_command():
    from counterfoil.server.people.cli import cli

    shown = set(re.findall(r"`?counterfoil ([a-z]+)\b", README)) - {"serve"}
    assert shown <= set(cli.commands) | {"serve"}


def test_the_calls_that_are_shown_are_answered_as_shown(tmp_path: Path):
    from scenarios.servers import Server

    (shown,) = re.findall(r"^```\n(begin_operation .+?)^```$", README, re.MULTILINE | re.DOTALL)
    calls = re.findall(r"^(\w+) +(\{.+?\})\n +→ +\{(.+?), …\}$", shown, re.MULTILINE | re.DOTALL)
    assert [tool for tool, _, _ in calls] == ["begin_operation", "record_receipt"]
    with Server(tmp_path).start() as server:
        for tool, given, told in calls:
            answer = server.call(tool, **json.loads(given))
            expected = json.loads("{" + told + "}")
            assert {name: answer[name] for name in expected if "…" not in str(expected[name])} == {
                name: value for name, value in expected.items() if "…" not in str(value)
            }
            assert set(expected) <= set(answer)
