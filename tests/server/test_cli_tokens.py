"""`counterfoil token`: a person makes tokens and takes them back; stdout gets the token and nothing else."""

import hashlib
import json
import re
from pathlib import Path

import pytest

from command_line import Answered, CommandLine, cli, journal
from counterfoil.server.bearer_tokens import token_digest
from journals import plain_sql

__all__ = ["cli", "journal"]

TOKEN = re.compile(r"cft_[A-Za-z0-9_-]{43}\n")


@pytest.fixture
def as_operator(cli: CommandLine, journal: Path, tmp_path: Path) -> CommandLine:
    """Run commands with the operator's secret."""
    (tmp_path / "secret").write_text("sesame", encoding="utf-8")
    folder = tmp_path / ".config/counterfoil"
    folder.mkdir(parents=True)
    digest = hashlib.sha256(b"sesame").hexdigest()
    (folder / "counterfoil.toml").write_text(f'[operator]\nsecret_sha256 = "{digest}"\n', encoding="utf-8")
    return cli


def with_secret(cli: CommandLine, tmp_path: Path, *words: str) -> Answered:
    """Run a command as the operator."""
    return cli("token", *words, "--operator-secret-file", str(tmp_path / "secret"))


def test_a_new_token_is_shown_once_and_kept_as_its_digest(
    as_operator: CommandLine, journal: Path, tmp_path: Path
) -> None:
    made = with_secret(
        as_operator, tmp_path, "new", "ci", "--scope", "read", "--for", "90d", "--namespace", "t"
    )
    assert made.code == 0
    assert TOKEN.fullmatch(made.out)
    assert made.out.strip() not in made.err
    [(namespace, name, digest, scopes)] = plain_sql(
        journal, "SELECT namespace, name, sha256, scopes FROM tokens"
    )
    assert (namespace, name, digest) == ("t", "ci", token_digest(made.out.strip()))
    assert json.loads(scopes) == ["counterfoil:read"]
    listed = as_operator("token", "list", "--namespace", "t", "--json")
    [line] = json.loads(listed.out)["tokens"]
    assert (line["name"], line["holds"]) == ("ci", "yes")
    assert made.out.strip() not in listed.out
    assert json.loads(as_operator("token", "list", "--json").out) == {"tokens": []}


def test_a_token_is_taken_back_by_its_name(as_operator: CommandLine, tmp_path: Path) -> None:
    made = with_secret(as_operator, tmp_path, "new", "ci", "--scope", "write", "--json")
    assert TOKEN.fullmatch(json.loads(made.out)["secret"] + "\n")
    taken = with_secret(as_operator, tmp_path, "revoke", "ci", "--json")
    assert (taken.code, json.loads(taken.out)["revoked"]) == (0, 1)
    [line] = json.loads(as_operator("token", "list", "--json").out)["tokens"]
    assert line["holds"] == "no: revoked"
    assert with_secret(as_operator, tmp_path, "revoke", "nobody").code == 1


def test_nobody_but_a_person_makes_a_token(as_operator: CommandLine, tmp_path: Path) -> None:
    for words in (("new", "ci", "--scope", "approve"), ("revoke", "ci")):
        answer = as_operator("token", *words)
        assert (answer.code, answer.out) == (1, "")
        assert "person" in answer.err or "no token" in answer.err
    assert json.loads(as_operator("token", "list", "--json").out) == {"tokens": []}


@pytest.mark.parametrize(
    "words", [("new", "ci"), ("new", "ci", "--scope", "all"), ("new", "a b", "--scope", "read")]
)
def test_a_token_without_a_scope_or_a_name_is_a_usage_error(
    as_operator: CommandLine, tmp_path: Path, words: tuple[str, ...]
) -> None:
    assert with_secret(as_operator, tmp_path, *words).code == 2


def test_a_token_that_cannot_be_read_is_listed_beside_the_others(
    as_operator: CommandLine, journal: Path, tmp_path: Path
) -> None:
    ids = {
        name: json.loads(with_secret(as_operator, tmp_path, "new", name, "--scope", "read", "--json").out)[
            "token"
        ]
        for name in ("bad", "good")
    }
    plain_sql(journal, "UPDATE tokens SET scopes = '{broken' WHERE name = 'bad'")
    listed = as_operator("token", "list")
    assert (listed.code, listed.err) == (
        1,
        "counterfoil: 1 of them cannot be read: `counterfoil verify` says why\n",
    )
    assert ids["bad"] in listed.out
    assert ids["good"] in listed.out
    as_json = as_operator("token", "list", "--json")
    assert (as_json.code, as_json.err) == (1, "")
    assert [one["holds"] for one in json.loads(as_json.out)["tokens"]] == [
        "yes",
        "no: its row cannot be read",
    ]
