"""Equal JSON values have one canonical form and fingerprint; what JSON should not carry is refused."""

import json
import os
import subprocess
import sys
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from counterfoil.store.domain.canonical import (
    ABSENT,
    args_digest,
    canonical_json,
    check_value,
    differences,
    digest,
    fingerprint,
    parse_json,
    plain_json,
)
from counterfoil.store.domain.json_numbers import integer_from_text, integer_text
from counterfoil.store.errors import InvalidArgument

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)

NESTED = {"b": {"d": [1, {"f": 1, "e": 2}], "c": None}, "a": "x"}
NESTED_REORDERED = {"a": "x", "b": {"c": None, "d": [1, {"e": 2, "f": 1}]}}
UNUSUAL_NAMES = {"ä": 1, "Z": 2, "a": 3, "\ufffd": 4, "\U00010000": 5}
UNUSUAL_FINGERPRINT = "v1:sha256:de51a586210c04e799045bd1c7f4167445261a289bfadcc8ed728f0004c25ca5"


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def refusal(text: str | bytes) -> str:
    with pytest.raises(InvalidArgument) as caught:
        parse_json(text, field="args")
    assert caught.value.field == "args"
    assert "nested at most 32 deep" in caught.value.fix
    return caught.value.message


def test_fingerprints_are_those_of_version_1() -> None:
    assert fingerprint("mail.send", "alice@example.com", {"amount": 10, "to": ["a", None]}) == (
        "v1:sha256:1174c79edb308b8aa6e64320c3d602dff1a72b8e221b3df1ba660486fbe633e2"
    )
    assert fingerprint("mail.send", None, None) == (
        "v1:sha256:09e6e3b1b3c2e0ce885ee2e6be28d3bd703774780e2f29dd6221695cc1e4d916"
    )
    assert fingerprint("send", "x", UNUSUAL_NAMES) == UNUSUAL_FINGERPRINT
    assert args_digest({"a": 1}) == "sha256:015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"
    assert args_digest(None) == args_digest({}) == digest("{}")
    assert digest("ä") == digest("ä".encode())


def test_the_order_of_members_does_not_count_and_the_order_of_arrays_does() -> None:
    assert canonical_json(NESTED) == canonical_json(NESTED_REORDERED)
    assert fingerprint("a", "t", NESTED) == fingerprint("a", "t", NESTED_REORDERED)
    assert fingerprint("a", "t", {"x": [1, 2]}) != fingerprint("a", "t", {"x": [2, 1]})


def test_members_are_sorted_by_code_point() -> None:
    assert canonical_json(UNUSUAL_NAMES) == '{"Z":2,"a":3,"ä":1,"\ufffd":4,"\U00010000":5}'


@pytest.mark.parametrize(
    "environment",
    [
        {"LANG": "C", "LC_ALL": "C", "PYTHONHASHSEED": "0", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LANG": "sv_SE.UTF-8", "LC_ALL": "sv_SE.UTF-8", "PYTHONHASHSEED": "1"},
        {"LANG": "C.UTF-8", "PYTHONHASHSEED": "4294967295", "PYTHONINTMAXSTRDIGITS": "640"},
    ],
    ids=lambda environment: environment["LANG"],
)
def test_another_process_locale_and_hash_seed_give_the_same_fingerprint(environment: dict[str, str]) -> None:
    program = (
        "import locale, sys\n"
        "try: locale.setlocale(locale.LC_ALL, '')\n"
        "except locale.Error: pass\n"
        "from counterfoil.store.domain.canonical import fingerprint\n"
        "names = {'\\xe4': 1, 'Z': 2, 'a': 3, '\\ufffd': 4, '\\U00010000': 5}\n"
        "print(fingerprint('send', 'x', dict(reversed(names.items()))))\n"
        "print(fingerprint('send', 'x', {'n': 10 ** 5000, 's': frozenset('abc') and 'abc'}))\n"
    )
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment, **path},
        capture_output=True,
        text=True,
        check=True,
    )
    long_integer = fingerprint("send", "x", {"n": 10**5000, "s": "abc"})
    assert ran.stdout.split() == [UNUSUAL_FINGERPRINT, long_integer]


def test_shared_and_copied_objects_have_the_same_fingerprint() -> None:
    part = {"id": 1}
    assert fingerprint("a", "t", {"x": part, "y": part}) == fingerprint(
        "a", "t", {"x": {"id": 1}, "y": {"id": 1}}
    )
    assert fingerprint("a", "t", MappingProxyType({"x": 1})) == fingerprint("a", "t", {"x": 1})


@pytest.mark.parametrize("text", ["100", "100.0", "1e2", "1E+2", "1000e-1", "100.00"])
def test_equal_numbers_are_written_alike(text: str) -> None:
    assert canonical_json(parse_json(text)) == "100"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (-0.0, "0"),
        (0.1, "0.1"),
        (-2.5, "-2.5"),
        (1e-7, "1e-7"),
        (1.5e-10, "1.5e-10"),
        (5e-324, "5e-324"),
        (1e15, "1000000000000000"),
        (1e16, "10000000000000000"),
        (1e23, "100000000000000000000000"),
        (-1.2345678901234567e19, "-12345678901234567000"),
        (2**53 + 1, "9007199254740993"),
        (725653563933458432, "725653563933458432"),
        (2**63, "9223372036854775808"),
        (True, "true"),
        ("10", '"10"'),
        (None, "null"),
        ([], "[]"),
        ({}, "{}"),
        ('a"\\\n\x00\u2028é', '"a\\"\\\\\\n\\u0000\u2028é"'),
    ],
)
def test_each_value_has_its_canonical_text(value: Any, written: str) -> None:
    assert canonical_json(value) == written


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 100}, {"a": "100"}),
        ({"a": None}, {}),
        ({"a": 1}, {"a": True}),
        ({"a": 0}, {"a": False}),
        ({"a": 0}, {"a": None}),
        ({"a": 725653563933458432}, {"a": 725653563933458400}),
        ({"a": 2**53}, {"a": 2**53 + 1}),
        ({"a": "e\u0301"}, {"a": "é"}),
        ({"a": " x"}, {"a": "x"}),
        ({"a": "x\r\n"}, {"a": "x\n"}),
        ({"a": []}, {"a": {}}),
        ({"a": [[1], 2]}, {"a": [[1, 2]]}),
    ],
)
def test_different_args_have_different_fingerprints(one: Any, other: Any) -> None:
    assert fingerprint("a", "t", one) != fingerprint("a", "t", other)


def test_no_target_and_no_args_are_the_same_as_empty_ones() -> None:
    assert fingerprint("a", None, None) == fingerprint("a", "", {})
    assert fingerprint("a", "null", None) != fingerprint("a", None, None)
    assert fingerprint("a", "b", None) != fingerprint("b", "a", None)


@given(VALUES)
@example({"": [0, -0.0, 1e16, 10**400]})
def test_the_canonical_form_reads_back_as_an_equal_value(value: Any) -> None:
    text = canonical_json(value)
    again = parse_json(text)
    assert canonical_json(again) == text
    assert not differences(value, again)


@given(VALUES, VALUES)
def test_values_differ_exactly_where_their_canonical_forms_do(one: Any, other: Any) -> None:
    assert bool(differences(one, other)) is (canonical_json(one) != canonical_json(other))


@given(NUMBERS)
def test_a_number_is_written_as_the_decimal_of_its_shortest_text(number: int | float) -> None:
    assert Decimal(canonical_json(number)) == Decimal(str(number))


@pytest.mark.parametrize("digits", [599, 600, 601, 1200, 4300, 4301, 65_536])
def test_integers_of_any_length_are_exact(digits: int) -> None:
    text = "-" + "1234567890" * (digits // 10) + "9" * (digits % 10)
    assert integer_text(integer_from_text(text)) == text
    assert canonical_json(parse_json(f'{{"n":{text}}}')) == f'{{"n":{text}}}'
    assert plain_json(parse_json(f'{{"n":[{text}, 1.0]}}')) == f'{{"n":[{text},1.0]}}'
    assert canonical_json(parse_json(text)) != canonical_json(parse_json(text[:-1] + "8"))


def test_plain_json_keeps_order_and_doubles() -> None:
    assert plain_json({"b": 10.0, "a": "é\n", "c": [True, None]}) == '{"b":10.0,"a":"é\\n","c":[true,null]}'


def test_what_json_should_not_carry_is_refused_with_its_place() -> None:
    assert refusal('{"a":[1,NaN]}') == (
        "args: a number that is not finite (NaN, Infinity or beyond a double) at /a/1"
    )
    assert "not finite" in refusal("[-Infinity]")
    assert "not finite" in refusal('{"x":1e999}')
    assert refusal('{"x":"\\ud800"}') == "args: the lone surrogate U+D800 in a string at /x"
    assert "lone surrogate U+DC00 in a member name at /\\udc00" in refusal('{"\\udc00":1}')
    assert refusal('{"a":{"b":1,"c":2,"b":3}}') == 'args: the member "b" is given twice'
    assert "not JSON at line 1, column 4" in refusal("[1,")
    assert "not JSON" in refusal("")
    assert "not JSON" in refusal("\ufeff1")
    assert "not UTF-8 at byte 1" in refusal(b'"\xff"')
    assert parse_json('"\\ud83d\\ude00"') == "\U0001f600"


def test_a_member_given_twice_is_refused_also_in_another_spelling() -> None:
    assert "given twice" in refusal('{"a":1,"\\u0061":1}')


def test_nesting_ends_at_32() -> None:
    deepest = parse_json("[" * 32 + "]" * 32)
    check_value(deepest, field="args")
    assert fingerprint("a", None, {"x": deepest[0]})
    assert "nested too deep" in refusal("[" * 33 + "]" * 33)
    assert "nested too deep" in refusal('{"a":' * 33 + "1" + "}" * 33)
    assert parse_json(json.dumps(["[{" * 500, '\\"[[[' * 100])) == ["[{" * 500, '\\"[[[' * 100]
    with pytest.raises(InvalidArgument, match="args: nested too deep at /x/0/0"):
        fingerprint("a", None, {"x": deepest})


def test_a_depth_of_5000_is_a_refusal_and_no_crash() -> None:
    assert "nested too deep" in refusal("[" * 5_000)
    assert "not JSON" in refusal('"' + '\\"' * 5_000 + "[" * 5_000)
    deep = nested(5_000)
    for use in (
        lambda: check_value(deep, field="args"),
        lambda: canonical_json(deep),
        lambda: plain_json(deep),
    ):
        with pytest.raises(InvalidArgument, match="nested too deep"):
            use()
    assert len(differences(deep, nested(4_999))) == 1


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"a": float("nan")}, "not finite"),
        ({"a": [float("inf")]}, "not finite"),
        ({"a": "\ud800"}, r"U\+D800 in a string at /a"),
        ({"\udfff": 1}, r"U\+DFFF in a member name"),
        ({1: 2}, "a member name that is not a string"),
        ({"a": 1, 2: 3}, "a member name that is not a string"),
        ({"a/b~": {"c": (1,)}}, "type tuple, which JSON does not have at /a~1b~0/c"),
        ({"a": b"x"}, "type bytes"),
        ({"a": Decimal(1)}, "type Decimal"),
    ],
)
def test_a_parsed_value_is_refused_alike(value: Any, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        check_value(value, field="args")
    with pytest.raises(InvalidArgument, match=problem):
        canonical_json(value, field="args")


def test_every_differing_path_is_listed_with_both_sides() -> None:
    recorded = {"to": "a", "amount": 100, "list": [1, 2, {"x": 1}], "gone": None, "same": 1, "a/b": {"~": 1}}
    given_now = {"to": "a", "amount": "100", "list": [1, 3], "same": 1.0, "a/b": {"~": True}, "new": []}
    found = differences(recorded, given_now, root="args")
    assert [tuple(difference) for difference in found] == [
        ("/args/a~1b/~0", 1, True),
        ("/args/amount", 100, "100"),
        ("/args/gone", None, ABSENT),
        ("/args/list/1", 2, 3),
        ("/args/list/2", {"x": 1}, ABSENT),
        ("/args/new", ABSENT, []),
    ]
    assert not found.cut
    assert str(ABSENT) == repr(ABSENT) == "absent"
    assert found[2].as_dict() == {"path": "/args/gone", "recorded": None}
    assert found[5].as_dict() == {"path": "/args/new", "given": []}
    assert [tuple(found) for found in differences(1, 2)] == [("", 1, 2)]


def test_a_long_list_of_differences_says_that_it_was_cut() -> None:
    found = differences({str(n): n for n in range(60)}, {}, limit=50)
    assert (len(found), found.cut) == (50, True)
    exact = differences({str(n): n for n in range(50)}, {}, limit=50)
    assert (len(exact), exact.cut) == (50, False)


def test_numbers_are_compared_as_they_are_written() -> None:
    assert not differences([1e23, 10, -0.0], [10**23, 10.0, 0])
    assert differences([1e308], [10**5000])
