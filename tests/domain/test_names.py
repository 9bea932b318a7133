"""Names that print the same are one name or refused; folded targets find look-alikes."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from counterfoil.store.domain.names import (
    fold_spelling,
    fold_target,
    may_be_one_target,
    normalize_name,
    targets_overlap,
)
from counterfoil.store.errors import InvalidArgument


def refusal(text: str) -> str:
    with pytest.raises(InvalidArgument) as caught:
        normalize_name(text, field="key")
    assert "1 to 200 characters of visible text" in caught.value.fix
    return caught.value.message


@pytest.mark.parametrize(
    "text",
    [
        "email:alice invoice-42",
        "  email:alice invoice-42\t",
        "email:alice\r\ninvoice-42",
        "email:alice \u00a0\u2003 invoice-42\u3000",
        "email:alice\u2028invoice-42\x85",
        "\x0bemail:alice\x0cinvoice-42",
    ],
)
def test_white_space_of_any_kind_is_one_space_and_none_at_the_ends(text: str) -> None:
    assert normalize_name(text, field="key") == "email:alice invoice-42"


def test_composed_and_decomposed_letters_are_one_name() -> None:
    assert (
        normalize_name("re\u0301sume\u0301", field="run") == normalize_name("résumé", field="run") == "résumé"
    )
    assert normalize_name("\u212b", field="run") == "Å"
    assert normalize_name("ﬁ", field="run") == "ﬁ", "compatibility forms are other names"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a\u200bb", "U+200B (zero width space)"),
        ("a\u200db", "U+200D"),
        ("a\u202eb", "U+202E (right-to-left override)"),
        ("a\u2066b", "U+2066"),
        ("a\u061cb", "U+061C"),
        ("\ufeffa", "U+FEFF"),
        ("a\u00adb", "U+00AD (soft hyphen)"),
        ("a\ufe0f", "U+FE0F (variation selector-16)"),
        ("a\U000e0100", "U+E0100"),
        ("a\U000e0041", "U+E0041"),
        ("a\u180eb", "U+180E"),
        ("\u115f", "U+115F"),
        ("\u1160", "U+1160"),
        ("\u3164", "U+3164 (hangul filler)"),
        ("\uffa0", "U+FFA0"),
        ("a\u2800", "U+2800 (braille pattern blank)"),
        ("a\u034fb", "U+034F"),
        ("a\x00b", "U+0000 is a control character"),
        ("a\x1bb", "U+001B"),
        ("a\x1fb", "U+001F"),
        ("a\x7f", "U+007F"),
        ("a\x9bb", "U+009B"),
        ("a\ud800b", "U+D800 is a lone surrogate"),
        ("a\ue000", "U+E000 is a private-use character"),
        ("a\uffff", "U+FFFF is an unassigned character"),
        ("a\ufdd0", "U+FDD0 is an unassigned character"),
    ],
)
def test_a_character_that_does_not_print_is_refused_by_its_number(text: str, named: str) -> None:
    assert named in refusal(text)


def test_a_name_has_1_to_200_characters_after_normalising() -> None:
    assert "empty" in refusal("")
    assert "empty" in refusal(" \t\n")
    assert normalize_name("  " + "e\u0301" * 200 + "  ", field="key") == "é" * 200
    assert "201 characters" in refusal("x" * 201)
    assert "201 characters" in refusal("é" * 201)
    assert "1000000 characters" in refusal("a\u0315\u0300" * 333_333 + "a")


def test_visible_text_of_any_script_is_taken() -> None:
    for name in ("周报/2026-W48", "отчёт", "تقرير", "रिपोर्ट", "émoji \U0001f600", "\u0600١٢"):
        assert normalize_name(name, field="run") == unicodedata.normalize("NFC", name)


@given(st.text(" \t\u2003aé\u0301\u0327\u212b가\u1100\u1161\u0958周", max_size=60) | st.text(max_size=10))
@example("a \u0301")
@example(" \u0301a\t\u0301")
def test_normalising_again_changes_nothing(text: str) -> None:
    try:
        name = normalize_name(text, field="key")
    except InvalidArgument:
        return
    assert normalize_name(name, field="key") == name
    assert name == name.strip()
    assert "  " not in name


@pytest.mark.parametrize(
    ("target", "folded"),
    [
        ("Alice@Example.COM ", "alice@example.com"),
        ("mailto:alice@example.com", "alice@example.com"),
        ("Alice Example <ALICE@example.com>", "alice@example.com"),
        ('"Example, Alice" <mailto:alice@example.com>', "alice@example.com"),
        ("Alice <a@x>, Bob <b@y>", "a@x, b@y"),
        ("<https://example.com/a/>", "example.com/a"),
        ("https://Example.com/a//", "example.com/a"),
        ("git+ssh://host/repo", "host/repo"),
        ("ＡＢＣ", "abc"),
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("a\u200bb", "ab"),
        ("List<int>", "list<int>"),
        ("  ", ""),
        ("https://", ""),
        ("/", ""),
    ],
)
def test_a_target_folds_to_what_it_means(target: str, folded: str) -> None:
    assert fold_target(target) == folded


@given(st.text(max_size=40) | st.text("aA<>@/:;, ßİ\u0345\u0130ab+", max_size=30))
@example("mailto:mailto:https:///")
@example("a<b@c>;d")
@example("<a@<b@c>>")
def test_folding_again_changes_nothing(text: str) -> None:
    folded = fold_target(text)
    assert fold_target(folded) == folded
    assert fold_target(f" https://{text} ") in {folded, fold_target(f"https://{text}")}


def test_targets_overlap_where_one_is_missing_or_contains_the_other() -> None:
    assert targets_overlap(None, "alice")
    assert targets_overlap("", None)
    assert targets_overlap("https://Example.com/repo/", "example.com/repo/issues/1")
    assert targets_overlap("Alice <alice@x.org>", "alice@x.org")
    assert not targets_overlap("alice@x.org", "bob@x.org")


@pytest.mark.parametrize(
    "written", ["mail.send", " Mail.SEND ", "\uff4dail.send", "ma\u200bil.send", "mail.send\u2060"], ids=ascii
)
def test_an_action_that_looks_the_same_is_held_against_the_same_patterns(written):
    assert fold_spelling(written) == "mail.send"
    assert fold_spelling(fold_spelling(written)) == fold_spelling(written)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (None, "alice@x.org"),
        ("alice@x.org", " "),
        ("alice@x.org", "Alice@X.org"),
        ("alice@x.org", "mailto:alice@x.org?subject=hello"),
        ("alice@x.org", "Alice Doe <alice@x.org>, bob@x.org"),
        ("alice@x.org", "the mail to alice@x.org."),
        ("o/r", "https://forge.example/O/R/issues/1"),
        ("o/r", "git@forge.example:o/r.git"),
        ("r", "https://forge.example/o/r"),
        ("o/r#12", "o/r#12 (a pull request)"),
        ("project", "projects/group%2Fproject/merge_requests"),
        ("#general", "team#general"),
        ("C0123", "slack:C0123/p99"),
        ("42", "invoice42"),
        ("user-1", "tenant/user-1/orders"),
        ("user-1", "user-12 and user-1"),
        ("s3://bucket/key", "bucket/key?versionId=7"),
        ("prod", "production"),
        ("3f2a1bc", "3f2a1bc0d4e5f60718293a4b5c6d7e8f90a1b2c3"),
        ("1234567", "commit 12345670d4e5f60718293a4b5c6d7e8f90a1b2c3"),
        ("東京", "東京支店"),
        ("https://x.org/a/", "http://x.org/a"),
    ],
)
def test_a_longer_wording_of_a_target_is_not_another_target(one: str | None, other: str | None) -> None:
    assert may_be_one_target(one, other)
    assert may_be_one_target(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a@", "aa@"),
        ("alice@x.org", "malice@x.org"),
        ("alice@x.org", "bob@x.org"),
        ("алиса@x.org", "маалиса@x.org"),
        ("alice@x.or", "alice@x.org"),
        ("user-1", "user-12"),
        ("user-1", "superuser-1"),
        ("12", "112"),
        ("o/r", "o/repo"),
        ("o/r", "https://forge.example/foo/r"),
        ("o/r#1", "o/r#12"),
        ("1234567", "12345678"),
        ("/srv/a1", "/srv/a12/b"),
        ("alice", "malice"),
    ],
)
def test_letters_inside_another_word_or_number_are_no_wording_of_a_target(one: str, other: str) -> None:
    assert not may_be_one_target(one, other)
    assert not may_be_one_target(other, one)
