"""The page of field reports and the tests that cite them say the same: none is lost or only claimed."""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "field-reports.md"

IDS = {
    f"{group}-{number}"
    for group, numbers in {
        "I": range(3, 12),
        "T": range(1, 8),
        "C": range(1, 11),
        "L": range(4, 10),
        "S": range(1, 6),
        "D": (1, 2, 4, 5),
        "M": (2, 3, 4, 5, 7, 8, 9, 10, 11, 12),
        "J": (2, 3, 5, 6, 7, 8, 9),
        "X": (1, 2, 3, 4, 5, 7, 8),
        "G": range(1, 5),
        "O": range(1, 7),
    }.items()
    for number in numbers
}
"""Every report that was taken up. One is only taken off together with its line and its tests."""

WITHOUT_A_REPORT = {"M-5"}
"""Measured in the making; nobody reported it."""

_ID = r"[A-Z]-\d+"
_CITED = re.compile(rf"({_ID}(?:(?:, | and ){_ID})*)[:,] ")
_REPORT = re.compile(r"[\w.-]+/[\w.-]+#\d+")
_LINE = re.compile(rf"^\| ({_ID}) \| (.+) \| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Cited:
    """What a test's docstring cites."""

    ids: tuple[str, ...]
    reports: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of the page."""

    id: str
    reports: frozenset[str]
    tests: tuple[str, ...]


@cache
def cited() -> dict[str, Cited]:
    """Give the tests whose docstring begins with the ids of reports, by name."""
    found: dict[str, Cited] = {}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            words = " ".join((ast.get_docstring(node) or "").split())
            head = _CITED.match(words)
            if head and node.name.startswith("test_"):
                assert node.name not in found, f"two tests are called {node.name}"
                found[node.name] = Cited(
                    ids=tuple(re.findall(_ID, head[1])), reports=frozenset(_REPORT.findall(words))
                )
    return found


@cache
def lines() -> tuple[Line, ...]:
    """Give the lines of the page's tables that have a test."""
    return tuple(
        Line(
            id=line[1],
            reports=frozenset(_REPORT.findall(line[2])),
            tests=tuple(re.findall(r"`(test_\w+)`", line[5])),
        )
        for line in _LINE.finditer(PAGE.read_text(encoding="utf-8"))
    )


def test_every_report_that_was_taken_up_has_one_line():
    assert sorted(line.id for line in lines()) == sorted(IDS)


def test_every_line_names_where_it_was_reported_and_what_shows_the_answer():
    assert {line.id for line in lines() if not line.reports} == WITHOUT_A_REPORT
    assert [line.id for line in lines() if not line.tests] == []


def test_every_line_names_the_tests_that_cite_it_and_no_others():
    citing = {line.id: {name for name, known in cited().items() if line.id in known.ids} for line in lines()}
    assert {line.id: set(line.tests) for line in lines()} == citing


def test_every_test_cites_the_reports_of_its_lines_and_no_others():
    reports = {line.id: line.reports for line in lines()}
    assert {name: known.reports for name, known in cited().items()} == {
        name: frozenset().union(*(reports[id_] for id_ in known.ids)) for name, known in cited().items()
    }


def test_every_test_among_the_scenarios_cites_a_report():
    uncited = [
        node.name
        for file in sorted((ROOT / "tests" / "scenarios").glob("test_*.py"))
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and node.name not in cited()
    ]
    assert uncited == []
