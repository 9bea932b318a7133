"""Ids follow from the names alone, and an id of another kind is told apart."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.store.domain.identity import idempotency_key, is_operation_id, kind_of_id, operation_id

OPERATION = "op_wnqyvqckfedcbjrguyrp"
KEY_NAMESPACE = uuid.UUID("5d0c9a7e-41b8-4f0f-a6d1-c7e2903b58f4")
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def test_ids_and_keys_are_those_of_version_1() -> None:
    assert operation_id("default", "weekly-report/2026-W48", "email:alice:invoice-42") == OPERATION
    assert operation_id("default", "周报", "résumé") == "op_67u7yd2qi5tzlszqi2cc"
    assert idempotency_key(OPERATION, 1) == "493eb308-cc5c-58d3-91a9-57afa98a0d53"
    assert idempotency_key(OPERATION, 2) == "2ea82f88-1d67-5d0d-ae84-b4ffa0e7147b"


def test_the_three_names_cannot_run_into_each_other() -> None:
    ids = {
        operation_id("a", "b", "c"),
        operation_id("ab", "", "c"),
        operation_id("a", "bc", ""),
        operation_id('a","b', "", "c"),
        operation_id("a", "c", "b"),
        operation_id("b", "a", "c"),
    }
    assert len(ids) == 6


@given(NAMES, NAMES, NAMES)
def test_every_id_has_the_form_of_one(namespace: str, run: str, key: str) -> None:
    operation = operation_id(namespace, run, key)
    assert is_operation_id(operation)
    assert operation == operation_id(namespace, run, key)


@given(st.integers(min_value=0, max_value=10**6))
def test_an_idempotency_key_is_a_uuid_that_any_library_derives(generation: int) -> None:
    key = uuid.UUID(idempotency_key(OPERATION, generation))
    assert key == uuid.uuid5(KEY_NAMESPACE, f"{OPERATION}/{generation}")
    assert (key.version, key.variant) == (5, uuid.RFC_4122)


@pytest.mark.parametrize(
    "text", ["", "op_", OPERATION[:-1], OPERATION + "a", OPERATION.upper(), OPERATION + "\n"]
)
def test_what_is_not_exactly_an_operation_id_is_none(text: str) -> None:
    assert not is_operation_id(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (OPERATION, "an operation id"),
        (f" {OPERATION.upper()} ", "an operation id in other letters or with white space around it"),
        ("op_" + "1" * 20, "an operation id with a letter or digit mistyped"),
        (OPERATION[:12], "an operation id that was cut or made up"),
        ("3f2b8c1e-9f0a-4b7e-8a55-0c1d2e3f4a5b", "a UUID, perhaps a session id or an idempotency key"),
        ("v1:sha256:" + "0" * 64, "a fingerprint"),
        ("sha256:" + "0" * 64, "a digest of content"),
        ("da39a3ee5e6b4b0d3255bfef95601890afd80709", "a commit hash or another digest"),
        ("2960bc0", "a short commit hash"),
        ("2", "a number, perhaps that of an attempt"),
        ("1732882345.000100", "a number, perhaps a time or an id of another system"),
        ("725653563933458432", "a number, perhaps an id of another system"),
        ("toolu_01A09q90qw90lq917835lq9", "a tool-call id"),
        ("call_abc123def456", "a tool-call id"),
        ("session-4711abcdef", "a session or run id"),
        ("<CAF=x@mail.example.com>", "a mail's message id"),
        ("https://example.com/1", "a URL"),
        ("alice@example.com", "a mail address"),
        ('{"operation": "x"}', "a JSON text"),
        ("ch_3MmlLrLkdIwHu7ix0snN0B15", "an id of another system, such as a receipt's external_id"),
        ("email:alice:invoice-42", "an operation's key"),
        ("weekly-report/2026-W48", "a run's name"),
        ("weekly report", "a name, perhaps of a run or a key"),
        (" ", "empty"),
        ("x" * 100_000, "a name, perhaps of a run or a key"),
    ],
)
def test_the_kind_of_a_wrong_id_is_named(text: str, kind: str) -> None:
    assert kind_of_id(text) == kind
