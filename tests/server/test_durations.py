"""Durations as a person writes and reads them."""

import pytest

from counterfoil.server.people.durations import duration, in_words


@pytest.mark.parametrize(
    ("given", "said"), [("7d", "7 d"), ("2h", "2 h"), ("90m", "90 min"), ("90s", "90 s"), ("1.5s", "1.5 s")]
)
def test_a_duration_is_said_as_it_was_given(given: str, said: str) -> None:
    assert in_words(duration(given)) == said
