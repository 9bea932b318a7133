"""Patterns that are compiled when they are first used: they are patterns, and all of them are right."""

import importlib
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from counterfoil.store.domain.patterns import lazy_pattern, matches_glob

ROOT = Path(__file__).resolve().parents[2]
LATE = type(lazy_pattern(""))


def users() -> list[str]:
    """Give the names of all modules that have such patterns."""
    return sorted(
        ".".join(path.relative_to(ROOT / floor).with_suffix("").parts)
        for floor in ("server", "tools", "store")
        for path in (ROOT / floor).rglob("*.py")
        if "lazy_pattern(" in path.read_text(encoding="utf-8") and path.name != "patterns.py"
    )


def test_it_is_used_as_a_compiled_one_is():
    late = lazy_pattern(r"(?P<word>[a-z]+)!", re.IGNORECASE)
    assert [found["word"] for found in late.finditer("Ay! caramba!")] == ["Ay", "caramba"]
    assert late.sub("?", "Ay! no") == "? no"
    assert (late.pattern, dict(late.groupindex)) == (r"(?P<word>[a-z]+)!", {"word": 1})


def test_nothing_is_compiled_before_the_first_use():
    late = lazy_pattern("(")
    with pytest.raises(re.error):
        late.search("(")


@pytest.mark.parametrize("module", users())
def test_each_pattern_of_the_program_compiles(module):
    values = vars(importlib.import_module(module)).values()
    flat = [value for one in values for value in (one if isinstance(one, tuple) else (one,))]
    late = [part for value in flat for part in (value if isinstance(value, tuple) else (value,))]
    patterns = [value for value in late if isinstance(value, LATE)]
    assert patterns
    for pattern in patterns:
        assert isinstance(pattern.search("some text"), re.Match | None)


@pytest.mark.parametrize("glob", ["", "*", "push", "pu*", "p?sh", "pus[gh]", "pus[!h]", "a.b", "[*]", "a\nb"])
@pytest.mark.parametrize("text", ["", "push", "pusg", "PUSH", "axb", "a.b", "*", "push\n", "a\nb"])
def test_a_glob_matches_what_it_matches_for_the_standard_library(text, glob):
    assert matches_glob(text, glob) is fnmatchcase(text, glob)
