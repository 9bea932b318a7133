"""How wide the columns of a table are: ids whole first, then names, and no column is ever lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from counterfoil.server.people.column_widths import column_widths

ID, KEY = "op_" + "a" * 20, "0b1c2d3e-1234-5678-9abc-0123456789ab"
NAME = "conversation/" + KEY


def test_what_fits_is_as_wide_as_it_is() -> None:
    assert column_widths([["state", "in_doubt"], [NAME]], room=80, narrow=[], whole=[]) == [8, 49]


def test_a_name_to_copy_takes_the_room_before_others_share_it() -> None:
    target = "https://example.org/me/site.git"
    widths = column_widths([["succeeded"], [NAME, ID], [target]], room=74, narrow=[0], whole=[1])
    assert widths == [9, 49, 16]
    assert column_widths([["succeeded"], [NAME, ID], [target]], room=69, narrow=[0], whole=[1]) == [9, 42, 18]
    assert column_widths([["succeeded"], [NAME, ID], ["a b"]], room=61, narrow=[0], whole=[1]) == [9, 49, 3]


@pytest.mark.parametrize("copied", [ID, KEY, f"grant {ID}, number 1"])
def test_an_id_is_kept_whole_where_anything_else_can_give_way(copied: str) -> None:
    words = "perhaps_a_long_word " * 4
    widths = column_widths([[words], [copied], [words]], room=50, narrow=[], whole=[])
    assert widths[1] >= (36 if copied is KEY else 23)
    assert sum(widths) == 50


def test_others_share_what_is_left_so_that_none_takes_all() -> None:
    assert column_widths([["a " * 50], ["b " * 50], ["ccc"]], room=43, narrow=[], whole=[]) == [20, 20, 3]


@given(
    st.lists(st.lists(st.text("ab _字", max_size=40), max_size=4), min_size=1, max_size=6),
    st.integers(6, 90),
    st.data(),
)
def test_no_column_is_lost_and_together_they_fit(
    columns: list[list[str]], room: int, data: st.DataObject
) -> None:
    some = st.lists(st.sampled_from(range(len(columns))), unique=True)
    widths = column_widths(columns, room=room, narrow=data.draw(some), whole=data.draw(some))
    longest = [max(map(cell_len, lines), default=0) for lines in columns]
    assert sum(widths) <= room
    assert all(width >= min(1, most) for width, most in zip(widths, longest, strict=True))
    assert all(width <= max(1, most) for width, most in zip(widths, longest, strict=True))
