"""What may stand in a probe's texts, and what no value on record can do there."""

from pathlib import Path
from typing import Any

import pytest

from counterfoil.server.probes.probe import Inconclusive
from counterfoil.server.probes.template import BadTemplate, Template, fill_json, stands_alone
from counterfoil.server.settings import SettingsError
from probes import OPERATION, configured, subject

ARGS = {
    "n": 7,
    "on": True,
    "name": "a",
    "empty": "",
    "none": None,
    "list": [1],
    "deep": {"er": "x"},
    "a.b": "dotted",
    "secret": "[redacted:hmac:0123]",
    "part": "Bearer [redacted:hmac:0123] x",
    "line": "a\nb",
    "nul": "a\0b",
    "long": "x" * 2_001,
    "braces": "{operation}",
    "dash": "--upload-pack=touch /tmp/x",
}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{operation}", OPERATION),
        ("{run}/{key}", "run-1/key-1"),
        ("n={args.n} {args.on}", "n=7 true"),
        ("{args.deep.er}{args.a.b}", "xdotted"),
        ("{{{args.name}}}", "{a}"),
        ("{args.braces}", "{operation}"),
    ],
)
def test_each_placeholder_stands_for_its_value_and_no_value_is_read_as_a_template(
    text: str, filled: str
) -> None:
    assert Template.read(text).fill(subject(args=ARGS)) == filled


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{target}", "{target} is not on record"),
        ("{external_id}", "{external_id} is not on record"),
        ("{idempotency_key}", "{idempotency_key} is not on record"),
        ("{args.unknown}", "{args.unknown} is not on record"),
        ("{args.deep.other}", "{args.deep.other} is not on record"),
        ("{args.empty}", "{args.empty} is not on record"),
        ("{args.none}", "{args.none} is not on record"),
        ("{args.list}", "{args.list} is no single value"),
        ("{args.secret}", "{args.secret} is a secret, which is not kept and never sent"),
        ("{args.part}", "{args.part} is a secret, which is not kept and never sent"),
        ("{args.line}", "{args.line} holds control characters"),
        ("{args.nul}", "{args.nul} holds control characters"),
        ("{args.long}", "{args.long} is too long"),
    ],
)
def test_a_value_that_cannot_be_used_makes_the_probe_inconclusive(text: str, why: str) -> None:
    for fill in (
        lambda template: template.fill(subject(args=ARGS)),
        lambda template: fill_json({"q": [template]}, subject(args=ARGS)),
    ):
        with pytest.raises(Inconclusive) as raised:
            fill(Template.read(text))
        assert raised.value.why == why


def test_a_value_never_begins_an_option() -> None:
    assert stands_alone(Template.read("--only={args.dash}"), subject(args=ARGS)).startswith("--only=--up")
    assert stands_alone(Template.read("-n"), subject()) == "-n"
    with pytest.raises(Inconclusive, match="dash"):
        stands_alone(Template.read("{args.dash}"), subject(args=ARGS))


def test_a_template_that_is_one_placeholder_keeps_the_type_in_json() -> None:
    given = {
        "a": Template.read("{args.n}"),
        "b": Template.read("{args.n}!"),
        "c": [Template.read("{args.on}")],
    }
    assert fill_json(given, subject(args=ARGS)) == {"a": 7, "b": "7!", "c": [True]}


@pytest.mark.parametrize("text", ["{", "a}", "{operatoin}", "{args.}", "{}", "{payload}", "{env.HOME}"])
def test_what_is_no_placeholder_is_refused_when_the_file_is_read(text: str) -> None:
    with pytest.raises(BadTemplate):
        Template.read(text)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("type = 'sql'", "type: it is one of git_commit, git_ref, file, http, command, mcp_tool"),
        ("ref = 'x'", "type: it is missing"),
        ("type = 'file'", "path: it is missing"),
        ("type = 'file'\npath = 'a/{key}'", "path: it is an absolute path"),
        ("type = 'file'\npath = '/a/../{key}'", "path: it is an absolute path without .."),
        ("type = 'file'\npath = '/{target}'", "path: it begins with a folder"),
        ("type = 'file'\npath = '/srv/x'", "path: it names no operation"),
        ("type = 'file'\npath = '/srv/{kye}'", "path: {kye} is no placeholder"),
        ("type = 'file'\npath = '/srv/{key}'\nsha = 'x'", "sha: it is not known; did you mean sha256"),
        ("type = 'file'\npath = '/srv/{key}'\nkind = 'x'", "kind: it is one of message"),
        ("type = 'file'\npath = '/srv/{key}'\ntimeout_seconds = 60", "timeout_seconds: it is a number"),
        ("type = 'file'\npath = '/srv/{key}'\nmost_bytes = 0", "most_bytes: it is a whole number"),
        ("type = 'git_commit'", "repository: it is missing"),
        ("type = 'git_commit'\nrepository = 'r'", "repository: it is an absolute path"),
        ("type = 'git_commit'\nrepository = '/r'\ncommit = 'abc'", "commit: it names no operation"),
        ("type = 'git_commit'\nrepository = '/r'\nmessage = '{key}'", "ref: it is missing"),
        ("type = 'git_ref'\nref = 'refs/heads/main'", "repository: one of repository and remote"),
        ("type = 'git_ref'\nrepository = '/r'", "ref: it is missing"),
        ("type = 'git_ref'\nref = 'r'\nremote = '--upload-pack=x'", "remote: it is a URL"),
        ("type = 'git_ref'\nref = 'r'\nremote = 'ext::sh -c x'", "remote: it is a URL"),
        ("type = 'http'", "url: it is missing"),
        ("type = 'http'\nurl = 'ftp://x/{key}'", "url: it begins with http"),
        ("type = 'http'\nurl = 'https://{target}/x'", "url: it begins with http"),
        ("type = 'http'\nurl = 'https://x.{target}/x'", "url: it begins with http"),
        ("type = 'http'\nurl = 'https://u:p@x/{key}'", "url: it begins with http"),
        ("type = 'http'\nurl = 'https://x/'", "url: it names no operation"),
        ("type = 'http'\nurl = '{target}'", "hosts: it is missing"),
        ("type = 'http'\nurl = 'https://x/{key}'\nhosts = ['y']", "hosts: x, which the URL names"),
        ("type = 'http'\nurl = 'https://x/{key}'\nhosts = ['*.y']", "hosts: each is a host"),
        ("type = 'http'\nurl = 'https://x/{key}'\nstatus = 404", "absent: it shares a status"),
        ("type = 'http'\nurl = 'https://x/{key}'\nfound = 'a.b'", "found: it is a JSON path"),
        ("type = 'http'\nurl = 'https://x/{key}'\nheaders = {A = '{key}'}", "headers.A: only {env.NAME}"),
        ("type = 'command'", "command: it is a list"),
        ("type = 'command'\ncommand = 'x {key}'", "command: it is a list"),
        ("type = 'command'\ncommand = ['./x', '{key}']", "command: the program is an absolute path"),
        ("type = 'command'\ncommand = ['{key}']", "command: the program is fixed"),
        ("type = 'command'\ncommand = ['x']", "command: it names no operation"),
        ("type = 'command'\ncommand = ['sh', '-c', 'x {key}']", "command: no placeholder stands in a script"),
        (
            "type = 'command'\ncommand = ['env', 'bash', '-ec', '{key}']",
            "command: no placeholder stands in a",
        ),
        ("type = 'command'\ncommand = ['x', '{key}']\nnot_found = 0", "not_found: it is an exit code"),
        ("type = 'mcp_tool'\ncommand = ['x', '{key}']\ntool = 't'", "command: it is fixed"),
        ("type = 'mcp_tool'\ncommand = ['x']\ntool = 't'\nargs = {q = 'a'}", "args: it names no operation"),
        ("type = 'mcp_tool'\ncommand = ['x']\ntool = 't'\nargs = {q = '{key}'}", "found: it is missing"),
    ],
)
def test_a_probe_that_cannot_be_used_as_written_refuses_the_start_and_is_named(
    tmp_path: Path, table: str, words: str
) -> None:
    with pytest.raises(SettingsError) as raised:
        configured(tmp_path, f"[probes.it]\n{table}\n")
    assert f"probes.it.{words}" in str(raised.value)


def test_every_form_that_the_page_shows_is_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "probes.md").read_text(encoding="utf-8")
    blocks: list[Any] = [block.split("```")[0] for block in page.split("```toml\n")[1:]]
    assert len(blocks) >= 6
    for block in blocks:
        configured(tmp_path, block)
