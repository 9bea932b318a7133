"""The texts that the log is made of: how JSON is stored, and what an event's hash covers."""

import hashlib
import json
from typing import Any

import pytest

from counterfoil.store import stored_json
from counterfoil.store.chain import event_hash
from counterfoil.store.domain.model import Assurance, Party, State
from counterfoil.store.stored_json import from_json, to_json, write_quickly

ODD = 'é\u2028\x7f\x00\x1b\b\f\n\r\t"\\/</script>\U0001f600'


@pytest.fixture(params=["by a process of one call", "by a server"])
def written(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write as a process of either kind does."""
    monkeypatch.setattr(stored_json, "_quick", None)
    if request.param == "by a server":
        write_quickly()


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize(
    "value",
    [
        {},
        {"b": [1, (2.5, 3)], "a": None, "is": True, "\uffff": 1, "\U0001f600": 2, ODD: ODD},
        {"state": State.IN_DOUBT, "assurance": Assurance.VERIFIED},
        [300.0, 0.1, 1e16, 1e22, -0.0, 123456789012345680.0],
        [2**63, -(2**63), 2**64 - 1, 2**64, -(10**400)],
    ],
)
def test_json_is_stored_in_the_form_in_which_older_journals_hold_it(value: Any) -> None:
    text = to_json(value)
    assert text == json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    assert from_json(text) == json.loads(text)


@pytest.mark.usefixtures("written")
def test_what_is_no_plain_json_is_not_stored() -> None:
    with pytest.raises(TypeError):
        to_json({"holder": Party(principal="local", conversation=None, connection="c")})
    with pytest.raises(TypeError):
        to_json({"body": b"bytes"})


@pytest.mark.parametrize("text", ["", "{", "[1,]", "NaN", "1e999", '"\ud800"', "{}x", "[" * 5_000])
def test_what_is_no_json_is_not_read(text: str) -> None:
    with pytest.raises((ValueError, RecursionError)):
        from_json(text)


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("text", ["{}", ODD, "\ud800", "\x7f", "".join(map(chr, range(0x7F)))])
def test_an_events_hash_covers_all_that_is_said_of_it(text: str) -> None:
    said: list[Any] = ["f" * 64, 7, "op_" + "a" * 20, text, 1_700_000_000_000_000, text, text]
    names = ("previous", "seq", "operation", "kind", "at", "caller", "data")
    of = dict(zip(names, said, strict=True))
    previous = of.pop("previous")
    expected = hashlib.sha256(json.dumps(said).encode()).hexdigest()
    assert event_hash(previous, **of) == expected
    for name in of:
        other = {**of, name: of[name] + (1 if isinstance(of[name], int) else "x")}
        assert event_hash(previous, **other) != expected
