"""Adding to a JSON text and taking it back: everything else stays as it stands, to the character."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.server.installing.json_text import (
    NotJSON,
    Where,
    add_item,
    add_member,
    cut_item,
    cut_member,
    value_at,
)

KEPT = """\
// of somebody else
{
  "model": "x", // why
  "hooks": {
    "PreToolUse": [
      {"matcher": "Edit"} /* theirs */
    ],
  },
  "agents": [{"agentId": "a-1"}, {"agentId": "a-2", "mcpServers": []}],
  "mcpServers": {}
}
"""
ADDED = {"command": "counterfoil", "args": ["serve"]}

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=3), values, max_size=4)
indents = st.sampled_from([None, 0, 2, 4, "\t"])


@pytest.mark.parametrize(
    "path",
    [("mcpServers", "counterfoil"), ("other",), ("permissions", "allow"), ("hooks", "Stop")],
)
def test_a_member_is_added_among_comments_and_taken_back_without_a_trace(path: tuple[str, ...]) -> None:
    text = add_member(KEPT, path, ADDED)
    assert value_at(text, path) == ADDED
    assert [line for line in KEPT.splitlines() if "//" in line or "/*" in line] == [
        line for line in text.splitlines() if "//" in line or "/*" in line
    ]
    back = cut_member(text, path)
    assert back == KEPT or cut_member(back, path[:-1]) == KEPT


def test_an_item_is_added_behind_those_of_others_and_taken_back() -> None:
    text = add_item(KEPT, ("hooks", "PreToolUse"), ADDED)
    assert value_at(text, ("hooks", "PreToolUse")) == [{"matcher": "Edit"}, ADDED]
    assert cut_item(text, ("hooks", "PreToolUse"), ADDED) == KEPT


def test_an_object_of_an_array_is_picked_by_what_it_says_of_itself() -> None:
    text = add_item(KEPT, ("agents", Where("agentId", "a-1"), "mcpServers"), ADDED)
    assert value_at(text, ("agents",)) == [
        {"agentId": "a-1", "mcpServers": [ADDED]},
        {"agentId": "a-2", "mcpServers": []},
    ]
    with pytest.raises(NotJSON, match="agentId a-3"):
        add_item(KEPT, ("agents", Where("agentId", "a-3"), "mcpServers"), ADDED)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1', "{'a': 1}", '{"a" 1}', "{} {}", '{"a": [1 2]}'])
def test_what_is_no_object_is_refused_and_never_mended(text: str) -> None:
    with pytest.raises(NotJSON):
        add_member(text, ("a", "b"), 1)


@given(kept=objects, indent=indents, value=values)
def test_of_any_object_what_was_added_is_read_back_and_taken_back(
    kept: dict[str, object], indent: int | str | None, value: object
) -> None:
    kept.pop("ours", None)
    text = json.dumps(kept, indent=indent)
    added = add_member(text, ("ours",), value)
    assert json.loads(added) == {**kept, "ours": value}
    assert json.loads(cut_member(added, ("ours",))) == kept
    if kept:
        assert cut_member(added, ("ours",)) == text


@given(kept=st.lists(values, max_size=4), indent=indents)
def test_of_any_array_only_the_item_that_is_meant_is_cut(
    kept: list[object], indent: int | str | None
) -> None:
    ours = {"ours": [1]}
    text = json.dumps({"list": [*kept, ours, *kept]}, indent=indent)
    assert json.loads(cut_item(text, ("list",), ours)) == {"list": [*kept, *kept]}


@pytest.mark.parametrize(
    "text",
    [
        '{\n  "a": 1 // about a\n}\n',
        '{\n  "a": 1, // about a\n}\n',
        '{\n  "a": 1 /* about a */, // and more\n}\n',
        '{\n  "a": 1 /* about a */ /* and more */\n}\n',
        '{\n  "a": 1 // about a  \n  // about nothing\n}\n',
        '{\n  "a": [\n    1\n  ] // about a\n}',
        '{\n  "a": "b // c"\n}',
    ],
)
def test_a_comment_stays_in_the_line_of_what_it_is_about(text: str) -> None:
    added = add_member(text, ("ours",), 1)
    assert value_at(added, ("ours",)) == 1
    (ours,) = (line for line in added.splitlines() if '"ours"' in line)
    assert ours.strip() in ('"ours": 1', '"ours": 1,')
    for line in text.splitlines():
        assert line.rstrip().replace(" /", ", /", 1) in added or line.rstrip() in added
    assert cut_member(added, ("ours",)) == text
