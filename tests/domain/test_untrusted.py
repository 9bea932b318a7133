"""Stored outside text is shown bounded, with everything escaped that could act on a reader."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.store.domain.untrusted import escape_untrusted, safe_value


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 周 \U0001f600 \\ <b>", "plain é 周 \U0001f600 \\ <b>"),
        ("\x1b[31mred", "\\u001b[31mred"),
        ("ok\nstatus: DONE\r\t", "ok\\nstatus: DONE\\r\\t"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
        ("\u2028\u2029\x85", "\\u2028\\u2029\\u0085"),
        ("\x9b31m\x7f\x00", "\\u009b31m\\u007f\\u0000"),
        ("\U000e0041\ufe0f", "\\U000e0041\\ufe0f"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_acts_instead_of_printing_is_escaped(text: str, shown: str) -> None:
    assert escape_untrusted(text, limit=100) == shown


def test_a_long_text_is_cut_and_says_how_long_it_was() -> None:
    assert escape_untrusted("x" * 1_000, limit=60) == "x" * 34 + "… (1000 characters in all)"
    assert escape_untrusted("\x1b" * 1_000, limit=60) == "\\u001b" * 5 + "… (1000 characters in all)"
    assert escape_untrusted("x" * 100, limit=3) == "xx…"
    assert escape_untrusted("xx", limit=0) == ""


@given(st.text(), st.integers(min_value=0, max_value=80))
def test_the_bound_holds_and_escaping_again_changes_nothing(text: str, limit: int) -> None:
    shown = escape_untrusted(text, limit=limit)
    assert len(shown) <= limit
    assert escape_untrusted(shown, limit=limit) == shown
    assert shown.encode().decode() == shown


def test_a_value_is_made_safe_throughout() -> None:
    value = {"a\x1b": ["\u202ex", 1, None, True, 2.5], "b": {"c": "\n"}}
    assert safe_value(value) == {"a\\u001b": ["\\u202ex", 1, None, True, 2.5], "b": {"c": "\\n"}}


def test_what_was_cut_from_a_value_is_counted() -> None:
    assert safe_value(list(range(5)), items=3) == [0, 1, 2, "… (2 more items)"]
    assert safe_value({"a": 1, "b": 2, "c": 3}, items=1) == {"a": 1, "…": "2 more members"}
    assert safe_value({"a": {"b": [1, 2]}, "e": [[]]}, depth=1) == {
        "a": "… (an object of 1 members)",
        "e": "… (an array of 1 items)",
    }


def test_no_member_hides_another_whose_name_is_shown_alike() -> None:
    assert safe_value({"\n": 1, "\\n": 2, "\\n #2": 3}) == {"\\n": 1, "\\n #2": 2, "\\n #2 #2": 3}


def test_a_depth_of_5000_and_a_huge_integer_are_shown_and_do_not_crash() -> None:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    assert safe_value(deep, depth=1) == ["… (an array of 1 items)"]
    assert safe_value(10**5_000, limit=50) == "1" + "0" * 23 + "… (5001 characters in all)"
