"""No secret reaches what is stored: replaced by name and by form, equal ones alike, nothing else touched."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from counterfoil.store.domain.canonical import canonical_json, fingerprint
from counterfoil.store.errors import InvalidArgument
from counterfoil.store.redact import Redactor, SecretPattern, is_placeholder

REDACTOR = Redactor(b"a key of the journal, 32 bytes ..")
OTHER_JOURNAL = Redactor(b"another key of another journal ..")

# Put together here so that no scanner takes the examples for leaked tokens.
GITHUB = "ghp_" + "a1B2" * 9
JWT = "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0." + "dBjftJeZ4CVP-mB92K27uhbUJU1p1r"
PEM = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEow+/=\nAbC\n-----END RSA PRIVATE KEY-----"

PIECES = [
    *("password", "token", "api_key", "Authorization", "Cookie", "note", "next_token", "max_tokens"),
    *(
        "=",
        ": ",
        ":",
        '"',
        "'",
        '\\"',
        "?",
        "&",
        " ",
        "\n",
        "--",
        "-",
        ".",
        ",",
        ";",
        ")",
        "]",
        "[",
        "{",
        "/",
    ),
    *("Bearer ", "Basic ", "https://", "u:p@h", "@", "%3D", "hunter2", "x1y2z3w4v5", "dXNlcjpwYXNz", "null"),
    *(GITHUB, JWT, "sk-abcdefghij0123456789", "AKIAIOSFODNN7EXAMPLE", PEM, "-----BEGIN ", "eyJ", "xox"),
    *("[redacted:", "[redacted:token:" + "0" * 28 + "]", "[redacted:x:zz]", "é", "\U0001f600"),
]
HOSTILE_TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=14).map("".join)
NAMES = st.sampled_from(PIECES) | st.text(max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | HOSTILE_TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def hidden(text: str, secret: str) -> str:
    """Redact `text` and give it with the one placeholder written as `*`."""
    shown = REDACTOR.redact_text(text)
    assert secret not in shown
    start, end = shown.index("[redacted:"), shown.index("]", shown.index("[redacted:")) + 1
    assert is_placeholder(shown[start:end])
    assert REDACTOR.redact_text(shown) == shown
    return shown[:start] + "*" + shown[end:]


@contextmanager
def bounded_waiting() -> Iterator[None]:
    """Give up after 30 seconds of processor time: linear work takes less than one, other work minutes."""

    def give_up(*_: object) -> None:
        raise AssertionError("the work grows faster than the text")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, 30)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def test_placeholders_are_those_of_version_1() -> None:
    assert REDACTOR.redact({"password": "hunter2"}) == {
        "password": "[redacted:password:1905183fb36674011ef5d4a0a546]"
    }
    assert REDACTOR.redact({"token": {"a": 1}}) == {"token": "[redacted:token:4f0f7aa492543eaf2997be5e0edb]"}
    assert (
        REDACTOR.keyed_digest(canonical_json({"a": [1, "x"]}))
        == "hmac-sha256:f218b5ab931e8d5c249932d21d28219a5ae2ca5277d61f000be485a6e8c839fa"
    )


@pytest.mark.parametrize(
    "name",
    [
        *(
            "password",
            "Passwd",
            "PWD",
            "db_password",
            "dbPassword",
            "PGPASSWORD",
            "new-password",
            "password2",
        ),
        *(
            "secret",
            "clientSecret",
            "client_secret",
            "CLIENT-SECRET",
            "clientsecret",
            "aws_secret_access_key",
        ),
        *("token", "access_token", "accessToken", "refreshToken", "session_token", "id_token", "githubToken"),
        *(
            "api_key",
            "apiKey",
            "apikey",
            "api-key",
            "APIKey",
            "APIkey",
            "X-Api-Key",
            "x_api_key",
            "STRIPE_API_KEY",
        ),
        *("authorization", "Authorization", "Proxy-Authorization", "cookie", "Set-Cookie", "credentials"),
        *("private_key", "privateKey", "signing_key", "passphrase", "connectionString", "cvc"),
    ],
)
def test_what_stands_under_the_name_of_a_secret_is_replaced(name: str) -> None:
    shown = REDACTOR.redact({name: "hunter2", "a": 1})
    assert is_placeholder(shown[name])
    assert shown["a"] == 1


@pytest.mark.parametrize(
    "name",
    [
        *(
            "token_count",
            "max_tokens",
            "maxTokens",
            "tokens",
            "idempotency_key",
            "key",
            "next_token",
            "nextPageToken",
        ),
        *(
            "page_token",
            "fencing_token",
            "authority",
            "author",
            "authorized",
            "tokenizer",
            "public_key",
            "keyboard",
        ),
        *(
            "secretary",
            "password_reset_url",
            "cookie_policy",
            "token_type",
            "secret_name",
            "monkey",
            "passed",
            "pin",
        ),
        *("access_key_id", "client_id", "signature", "compass", "total", "", "_", "42", "é"),
    ],
)
def test_an_innocent_name_hides_nothing(name: str) -> None:
    value = {name: "hunter2", "b": [{name: 5}]}
    assert REDACTOR.redact(value) is value


def test_nothing_is_hidden_where_there_is_nothing_and_all_else_whole() -> None:
    kept = {"password": None, "token": "", "secret": True, "api_key": False, "cookie": [], "credentials": {}}
    assert REDACTOR.redact(kept) is kept
    shown = REDACTOR.redact({"token": 5, "secret": ["a"], "credentials": {"user": "u", "pass": "p"}})
    assert all(map(is_placeholder, shown.values()))
    assert REDACTOR.redact({"secret": 5}) == REDACTOR.redact({"secret": 5.0})
    assert REDACTOR.redact({"secret": 5}) != REDACTOR.redact({"secret": "5"})


def test_headers_environments_and_command_lines_are_read_as_such() -> None:
    shown = REDACTOR.redact(
        {
            "env": [{"name": "DB_PASSWORD", "value": "hunter2"}, {"name": "LANG", "value": "C"}],
            "headers": [["X-Api-Key", "hunter2"], ["Accept", "text/plain"], ["Authorization", "hunter2"]],
            "argv": ["curl", "--token", "hunter2", "-v", "--max-tokens", "5", "--password=hunter2"],
            "fields": ["token", "name"],
        }
    )
    assert "hunter2" not in str(shown)
    assert shown["env"][1]["value"] == "C"
    assert shown["headers"][1] == ["Accept", "text/plain"]
    assert shown["argv"][3:6] == ["-v", "--max-tokens", "5"]
    assert shown["fields"] == ["token", "name"]


@pytest.mark.parametrize(
    ("text", "secret", "shown"),
    [
        ("Authorization: Bearer abcdef12345", "abcdef12345", "Authorization: Bearer *"),
        ("authorization: hunter2", "hunter2", "authorization: *"),
        ("use Bearer abcdef12345, then", "abcdef12345", "use Bearer *, then"),
        ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz", "Authorization: Basic *"),
        ("-H 'Authorization: token abc'", "abc", "-H 'Authorization: token *'"),
        ("Cookie: sid=31d4; theme=dark\r\nHost: x", "31d4", "Cookie: *\r\nHost: x"),
        ("Set-Cookie: sid=31d4; Path=/", "31d4", "Set-Cookie: *"),
        ("X-Api-Key: hunter2", "hunter2", "X-Api-Key: *"),
        ("https://x.org/a?apikey=hunter2&q=1", "hunter2", "https://x.org/a?apikey=*&q=1"),
        ("https://x.org/a?q=1&token=hunter2#top", "hunter2", "https://x.org/a?q=1&token=*"),
        (
            "https://x.org/a?page_token=7&access_token=hunter2",
            "hunter2",
            "https://x.org/a?page_token=7&access_token=*",
        ),
        ("https://b.blob/x?sv=1&sig=hunter2%3D&se=2", "hunter2", "https://b.blob/x?sv=1&sig=*&se=2"),
        ("postgres://app:hunter2@db:5432/x", "hunter2", "postgres://app:*@db:5432/x"),
        ("postgres://app:hun@ter2@db/x", "hun@ter2", "postgres://app:*@db/x"),
        ("redis://:hunter2@cache", "hunter2", "redis://:*@cache"),
        ("to=https%3A%2F%2Fx.org%3Ftoken%3Dhunter2", "hunter2", "to=https%3A%2F%2Fx.org%3Ftoken%3D*"),
        ("password%3Dhunter2", "hunter2", "password%3D*"),
        ("deploy -token hunter2", "hunter2", "deploy -token *"),
        ("-password hunter2", "hunter2", "-password *"),
        ("password%3dhunter2", "hunter2", "password%3d*"),
        ("to=https%3a%2f%2fx.org%3ftoken%3dhunter2", "hunter2", "to=https%3a%2f%2fx.org%3ftoken%3d*"),
        ("url=https://x.org/?token=hunter2 done", "hunter2", "url=https://x.org/?token=* done"),
        (f"git clone https://{GITHUB}@github.com/a/b", GITHUB, "git clone https://*@github.com/a/b"),
        ("export DB_PASSWORD='hunter2 x'; run", "hunter2 x", "export DB_PASSWORD='*'; run"),
        ("PGPASSWORD=hunter2 psql -U app", "hunter2", "PGPASSWORD=* psql -U app"),
        ("Server=db;Password=hunter2;Timeout=5", "hunter2", "Server=db;Password=*;Timeout=5"),
        ("user[password]=hunter2&user[name]=a", "hunter2", "user[password]=*&user[name]=a"),
        ("mysql --user app --password hunter2 -v", "hunter2", "mysql --user app --password * -v"),
        ("password: hunter2, user: app", "hunter2", "password: *, user: app"),
        ('{"a": 1, "password": "hun\\"ter2", "b": 2}', "ter2", '{"a": 1, "password": "*", "b": 2}'),
        ('"{\\"token\\":\\"hunter2\\",\\"b\\":2}"', "hunter2", '"{\\"token\\":\\"*\\",\\"b\\":2}"'),
        (f"key:\n{PEM}\nend", "MIIEow", "key:\n*\nend"),
        (PEM.split("-----END")[0], "MIIEow", "*"),
        (PEM.replace("\n", "\\n"), "MIIEow", "*"),
        (f"({JWT}).", JWT, "(*)."),
        ("a AKIAIOSFODNN7EXAMPLE b", "AKIAIOSFODNN7EXAMPLE", "a * b"),
        ("id%3DAKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE", "id%3D*"),
        (f"x {GITHUB} y", GITHUB, "x * y"),
        ("github_pat_" + "11AB_cd" * 6, "11AB", "*"),
        ("Basic " + GITHUB, GITHUB, "Basic *"),
        ("eyJ-" + GITHUB, GITHUB, "eyJ-*"),
        ("password" + GITHUB, GITHUB, "password*"),
        ("gho_" + "a1B2" * 9, "a1B2", "*"),
        ("glpat-" + "a1B2-x" * 4, "a1B2", "*"),
        ("xoxb-" + "1234567890-abcdef", "abcdef", "*"),
        (
            "https://hooks.slack.com/services/T000/B000/abcdef123",
            "abcdef",
            "https://hooks.slack.com/services/*",
        ),
        ("sk-" + "proj-abcDEF_123456789", "abcDEF", "*"),
        ("sk-ant-" + "api03-abcDEF_123456789", "abcDEF", "*"),
        ("sk_live_" + "4eC39HqLyjWDarjt", "4eC39", "*"),
        ("rk_test_" + "4eC39HqLyjWDarjt", "4eC39", "*"),
        ("whsec_" + "4eC39HqLyjWDarjt", "4eC39", "*"),
        ("AIza" + "SyA-1234567890abcdefghijklmnopqrstu", "SyA", "*"),
        ("npm_" + "a1B2" * 9, "a1B2", "*"),
        ("SG." + "abcdefghijklmnop.qrstuvwxyz0123456789", "abcdef", "*"),
        ("hf_" + "abcdefghijklmnopqrstuvwx", "abcdef", "*"),
        ("SK" + "0123456789abcdef" * 2, "0123456789abcdef", "*"),
        ("api.telegram.org/bot123456789:AA" + "b" * 33, "bbbb", "api.telegram.org/bot123456789:AA*"),
    ],
)
def test_only_the_secret_part_of_a_text_is_replaced(text: str, secret: str, shown: str) -> None:
    assert hidden(text, secret) == shown


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_text_that_is_json_is_read_as_json_however_often_it_was_written_into_a_text(times: int) -> None:
    value: Any = {
        "headers": [["X-Api-Key", "hunter2"]],
        "env": [{"name": "API_KEY", "value": "hunter2"}],
        "argv": ["curl", "--token", "hunter2"],
        "credentials": {"user": "u", "inner": ["hunter2"]},
        "note": "sent",
    }
    text = json.dumps(value)
    for _ in range(times - 1):
        text = json.dumps({"inner": text})
    shown = REDACTOR.redact_text(f" {text}")
    assert "hunter2" not in shown
    for _ in range(times - 1):
        shown = json.loads(shown)["inner"]
    assert json.loads(shown) == REDACTOR.redact(value)
    assert json.loads(shown)["note"] == "sent"


@pytest.mark.parametrize("text", ['[["X-Api-Key", "hunter2"]]', '["curl", "--token", "hunter2"]'])
def test_a_pair_in_a_list_is_seen_in_the_midst_of_a_text(text: str) -> None:
    shown = REDACTOR.redact_text(f"it ran {text} and ended")
    assert "hunter2" not in shown
    assert shown.startswith("it ran [")
    assert shown.endswith("] and ended")
    assert REDACTOR.redact_text('it took ["token", "sent"] and ["--token", "--user"]') == (
        'it took ["token", "sent"] and ["--token", "--user"]'
    )


@pytest.mark.parametrize(
    "text",
    [
        *(
            "task-management-and-more-than-20-characters-1",
            "a desk-sk",
            "sk-learn-is-a-python-package",
            "heyJude.is.a.song.of.1968",
        ),
        *("Basic information about things", "Bearer authentication", "the token: next to it", "token: 5"),
        *("if token == x: y", "token => y", "max_tokens=5&next_token=abc", "?page_token=abc", "key=value"),
        *(
            "https://example.com:8080/a@b",
            "mailto:a@b.c",
            "12:30:45",
            "std::secret::x",
            "password",
            "password=",
        ),
        *(
            "secret=null&token=true",
            '{"password": null, "max_tokens": 5}',
            "eyJust.a.word",
            "-----BEGIN CERTIFICATE-----",
        ),
        *("op_wnqyvqckfedcbjrguyrp", "3f2b8c1e-9f0a-4b7e-8a55-0c1d2e3f4a5b", "v1:sha256:" + "0" * 64),
        *(
            "da39a3ee5e6b4b0d3255bfef95601890afd80709",
            "2026-01-01T00:00:00Z",
            "AKIA",
            "ghp_short",
            "\ud800",
            "",
        ),
    ],
)
def test_text_without_a_secret_stays_as_it_is(text: str) -> None:
    assert REDACTOR.redact_text(text) == text


def test_secrets_in_member_names_are_replaced_too() -> None:
    shown = REDACTOR.redact({f"for {GITHUB}": {"https://u:hunter2@h": 1}})
    assert GITHUB not in str(shown)
    assert "hunter2" not in str(shown)
    assert REDACTOR.redact(shown) is shown


def test_equal_secrets_give_equal_fingerprints_and_others_do_not() -> None:
    def fingerprint_of(password: str) -> str:
        return fingerprint("login", "x", REDACTOR.redact({"password": password}))

    assert fingerprint_of("hunter2") == fingerprint_of("hunter2")
    assert fingerprint_of("hunter2") != fingerprint_of("hunter3")
    one, other = REDACTOR.redact_text("token=hunter2"), REDACTOR.redact({"password": "hunter2"})["password"]
    assert one.split(":")[-1] == other.split(":")[-1], "the label is not part of the digest"


def test_a_placeholder_sent_back_stands_for_its_value() -> None:
    given_first = {
        "password": "hunter2",
        "url": "https://u:p@h/?token=abc",
        "h": f"Authorization: Bearer {JWT}",
    }
    sent_back = REDACTOR.redact(given_first)
    assert REDACTOR.redact(sent_back) is sent_back
    assert fingerprint("a", "t", REDACTOR.redact(sent_back)) == fingerprint(
        "a", "t", REDACTOR.redact(given_first)
    )


def test_a_journal_knows_its_own_placeholders() -> None:
    own = REDACTOR.redact({"password": "hunter2"})["password"]
    foreign = OTHER_JOURNAL.redact({"password": "hunter2"})["password"]
    assert own != foreign
    assert REDACTOR.is_own_placeholder(own)
    assert not REDACTOR.is_own_placeholder(foreign)
    assert not REDACTOR.is_own_placeholder(own[:-2] + "0]")
    assert not REDACTOR.is_own_placeholder("hunter2")
    assert REDACTOR.redact({"password": foreign}) == {"password": foreign}


def test_what_only_resembles_a_placeholder_is_text() -> None:
    for forged in ("[redacted:token:zz]", "[redacted:Token:" + "0" * 28 + "]", "[redacted:token:" + "0" * 28):
        assert not is_placeholder(forged)
        assert REDACTOR.redact({"note": forged}) == {"note": forged}
        assert is_placeholder(REDACTOR.redact({"token": forged})["token"])
    assert "hunter2x" not in REDACTOR.redact_text("[redacted:password=hunter2x")


@settings(max_examples=300)
@given(HOSTILE_TEXTS)
@example("token=abc[redacted:token:" + "0" * 28 + "]")
@example(GITHUB + "\nsk-abcdefghij0123456789")
@example("AKIAIOSFODNN7EXAMPLEsk-abcdefghij0123456789")
@example("password=abc).sk-abcdefghij0123456789")
def test_redacting_a_text_again_changes_nothing(text: str) -> None:
    once = REDACTOR.redact_text(text)
    assert REDACTOR.redact_text(once) == once


@given(VALUES)
def test_redacting_a_value_again_changes_nothing(value: Any) -> None:
    once = REDACTOR.redact(value)
    assert REDACTOR.redact(once) == once


@pytest.mark.parametrize("secret", [GITHUB, JWT, PEM, "AKIAIOSFODNN7EXAMPLE"])
@given(before=HOSTILE_TEXTS, after=HOSTILE_TEXTS)
def test_a_well_known_token_never_remains_whatever_is_around_it(secret: str, before: str, after: str) -> None:
    assert secret not in REDACTOR.redact_text(f"{before} {secret} {after}")
    assert secret not in str(REDACTOR.redact({before: [f"{before} {secret}"], "x": {f"{secret} {after}": 1}}))


def test_names_and_patterns_of_the_operator_are_added() -> None:
    redactor = Redactor(
        b"0" * 32,
        patterns=[r"ACME-\d+", SecretPattern("Customer No", r"customer (?P<secret>\d+)"), r"x(y)z"],
        extra_names=["internal_code", "next_token", "пароль"],
    )
    shown = redactor.redact(
        {"internalCode": "7", "next_token": "8", "пароль": "9", "password": "p", "other": "7"}
    )
    assert [is_placeholder(member) for member in shown.values()] == [True, True, True, True, False]
    text = redactor.redact_text("ACME-123 customer 4711 xyz")
    assert text.startswith("[redacted:pattern:")
    assert " customer [redacted:customer_no:" in text
    assert " x[redacted:pattern:" in text
    assert "4711" not in text
    assert redactor.redact_text(text) == text
    with pytest.raises(InvalidArgument, match=r"redact\.patterns: '\(': "):
        Redactor(b"0" * 32, patterns=["("])
    with pytest.raises(ValueError, match="16 bytes"):
        Redactor(b"short")


def test_body_digests_are_keyed() -> None:
    assert REDACTOR.keyed_digest('"x"') == REDACTOR.keyed_digest('"x"')
    assert REDACTOR.keyed_digest('"x"') != REDACTOR.keyed_digest('["x"]')
    assert REDACTOR.keyed_digest('"x"') != OTHER_JOURNAL.keyed_digest('"x"')
    assert REDACTOR.keyed_digest('"hunter2"') != REDACTOR.keyed_digest('"hunter3"')


def test_a_depth_of_5000_is_a_refusal_and_no_crash() -> None:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    for use in (REDACTOR.redact, lambda value: REDACTOR.redact({"token": value})):
        with pytest.raises(InvalidArgument, match="nested too deep"):
            use(deep)


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "eyJ",
            "eyJ.",
            "://a:",
            "://",
            PEM[:31],
            "-----BEGIN ",
            "a=",
            "token=",
            "token:",
            "token: a1",
            "sk-",
            "SK",
        ),
        *(
            "Bearer ",
            "Basic dXNl",
            "[redacted:token:",
            "[redacted:token:" + "0" * 28,
            "-",
            '"',
            '\\"',
            "'",
            " ",
            "x_",
        ),
        *(
            "password:'",
            'password="',
            "password: ",
            'password=\\"',
            "password=))))",
            "cookie: ",
            "--a ",
            "%3DeyJ",
        ),
        *(
            "authorization: Bearer ",
            "hooks.slack.com/services/",
            "123:AA",
            "password=[redacted:",
            "a",
            "aA",
            "\n",
        ),
    ],
)
def test_hostile_text_of_256_kib_is_read_in_linear_time(unit: str) -> None:
    text = (unit * (262_144 // len(unit) + 1))[:262_144]
    with bounded_waiting():
        shown = REDACTOR.redact_text(text)
        assert REDACTOR.redact_text(shown) == shown
    assert len(shown) <= 8 * len(text)
