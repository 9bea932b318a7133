"""Adding a table to a TOML text and taking it back: every comment stays with what it is about."""

import tomllib
from typing import Any

import pytest

from counterfoil.server.installing.toml_text import NotTOML, add_member, cut_member, value_at

PATH = ("mcp_servers", "counterfoil")
ADDED = {"command": "counterfoil", "args": ["serve"], "env": {"A": "1"}}

KEPT = [
    "",
    "# head\n",
    'model = "x" # why\n# tail\n',
    "[a]\nx = 1 # note\n# tail\n",
    '[mcp_servers.other]\ncommand = "x" # theirs\n\n# about profiles\n[profiles]\nx = 1\n',
    "[mcp_servers]\n# servers\n[mcp_servers.o]\na = 1\n# about z\n\n[z]\n",
    "[mcp_servers]\n",
    'mcp_servers.a.command = "x"\nb = 1\n',
    "a = 1\r\n# note\r\n[mcp_servers.o]\r\nb = 1\r\n",
]
INLINE = 'mcp_servers = {a = {command = "x"}} # in one line\n'
"""What takes no table by a header."""


@pytest.mark.parametrize("text", KEPT)
def test_a_table_is_added_behind_everything_and_taken_back_without_a_trace(text: str) -> None:
    added = add_member(text, PATH, ADDED)
    assert added.startswith(text)
    assert tomllib.loads(added)["mcp_servers"]["counterfoil"] == value_at(added, PATH) == ADDED
    assert cut_member(added, PATH) == text


@pytest.mark.parametrize("text", [*KEPT, INLINE])
def test_what_is_written_behind_it_later_stays(text: str) -> None:
    later = "# about mine\n[mine] # here\ny = [\n  2, # two\n]\n# the end\n"
    back = cut_member(add_member(text, PATH, ADDED) + later, PATH)
    assert back.endswith(later)
    assert tomllib.loads(back)["mine"] == {"y": [2]}
    assert value_at(back, PATH) is None


@pytest.mark.parametrize(
    "table",
    [
        '[mcp_servers."counterfoil"]\nargs = [\n  "serve", # serve\n  # more\n]\ncommand = "counterfoil"\n',
        "[ mcp_servers . 'counterfoil' ]\ncommand = '''\n[x]\n# no comment\n'''\n",
        '[mcp_servers]\ncounterfoil = {command = "counterfoil"}\n',
    ],
)
def test_a_table_in_another_hand_is_cut_out_whole(table: str) -> None:
    back = cut_member(f"a = 1 # one\n\n{table}\n[b]\nc = 2\n", PATH)
    found: dict[str, Any] = tomllib.loads(back)
    assert (found["a"], found["b"]) == (1, {"c": 2})
    assert "counterfoil" not in back
    assert "a = 1 # one" in back


def test_where_no_header_fits_the_table_goes_to_the_others() -> None:
    added = add_member(INLINE, PATH, ADDED)
    assert tomllib.loads(added)["mcp_servers"] == {"a": {"command": "x"}, "counterfoil": ADDED}
    assert added.rstrip().endswith("# in one line")
    assert cut_member(added, PATH) == INLINE


@pytest.mark.parametrize("text", ["mcp_servers = 1", "a = ", "[a"])
def test_what_takes_no_table_is_refused(text: str) -> None:
    with pytest.raises(NotTOML):
        add_member(text, PATH, ADDED)
