"""Settings: flags before environment before file before defaults; what is unknown or wrong is an error."""

import hashlib
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from counterfoil.server.configuration import AssuranceRule, AuthorityRule, DuplicateRule
from counterfoil.server.settings import Settings, SettingsError, load_settings
from counterfoil.store.limits import Limits

WHOLE = """
journal = "sqlite:////from/file.db"
namespace = "team"
[defaults]
lease_seconds = 60
longest_lease_seconds = 600
settle_seconds = 30
least_settle_seconds = 5
limits = { payload_bytes = 1000 }
[[authority]]
action = "pay.*"
require = "grant"
[[authority]]
target = "prod-*"
require = "grant"
[[assurance]]
action = "git.push"
require = "verified"
[[duplicates]]
action = "chat.post"
compare = "fingerprint"
[drift]
model = "note"
policy = "block"
[probes.main-branch]
type = "git_ref"
repository = "/srv/repository"
ref = "refs/heads/main"
[redact]
names = ["pin"]
patterns = ["tok_[a-z]+"]
"""


def settings(tmp_path: Path, text: str | None = None, **given: Any) -> Settings:
    """Load with a home of its own, and with `text` as the configuration file if given."""
    environment = {"HOME": str(tmp_path), **given.pop("environment", {})}
    if text is not None:
        path = tmp_path / "given.toml"
        path.write_text(text)
        environment["COUNTERFOIL_CONFIG"] = str(path)
    return load_settings(flags=given, environment=environment, platform="linux")


def test_the_defaults_are_those_of_the_contract(tmp_path: Path) -> None:
    loaded = settings(tmp_path)
    path = tmp_path / ".local/share/counterfoil/journal.db"
    assert loaded == Settings(journal=f"sqlite:///{path}", journal_path=path)
    assert (loaded.namespace, loaded.lease_seconds, loaded.settle_seconds) == ("default", 300, 300)
    assert loaded.limits == Limits()


def test_the_file_is_read_whole(tmp_path: Path) -> None:
    loaded = settings(tmp_path, WHOLE)
    assert loaded.journal_path == Path("/from/file.db")
    assert loaded.namespace == "team"
    assert (loaded.lease_seconds, loaded.longest_lease_seconds) == (60, 600)
    assert (loaded.settle_seconds, loaded.least_settle_seconds) == (30, 5)
    assert loaded.limits == Limits(payload_bytes=1000)
    assert loaded.authority == (AuthorityRule(action="pay.*"), AuthorityRule(target="prod-*"))
    assert loaded.assurance == (AssuranceRule(action="git.push", require="verified"),)
    assert loaded.duplicates == (DuplicateRule(action="chat.post", compare="fingerprint"),)
    assert loaded.drift == {"model": "note", "policy": "block"}
    assert [(name, probe.type) for name, probe in loaded.probes.items()] == [("main-branch", "git_ref")]
    assert (loaded.redact_names, loaded.redact_patterns) == (("pin",), ("tok_[a-z]+",))


def test_a_flag_goes_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    environment = {"COUNTERFOIL_NAMESPACE": "from-environment", "COUNTERFOIL_LEASE_SECONDS": "90"}
    assert settings(tmp_path, WHOLE).namespace == "team"
    loaded = settings(tmp_path, WHOLE, environment=environment)
    assert (loaded.namespace, loaded.lease_seconds) == ("from-environment", 90)
    assert settings(tmp_path, WHOLE, environment=environment, namespace="flag").namespace == "flag"


def test_the_file_of_the_users_folder_is_read_and_that_of_the_working_directory_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "counterfoil.toml").write_text('namespace = "cloned"')
    monkeypatch.chdir(tmp_path)
    assert settings(tmp_path).namespace == "default"
    folder = tmp_path / ".config" / "counterfoil"
    folder.mkdir(parents=True)
    (folder / "counterfoil.toml").write_text('namespace = "mine"')
    assert settings(tmp_path).namespace == "mine"
    elsewhere = tmp_path / "elsewhere" / "counterfoil"
    elsewhere.mkdir(parents=True)
    (elsewhere / "counterfoil.toml").write_text('namespace = "xdg"')
    assert settings(tmp_path, environment={"XDG_CONFIG_HOME": str(tmp_path / "elsewhere")}).namespace == "xdg"
    assert settings(tmp_path, environment={"XDG_CONFIG_HOME": "elsewhere"}).namespace == "mine"


def test_the_folders_of_macos_are_known(tmp_path: Path) -> None:
    loaded = load_settings(environment={"HOME": str(tmp_path)}, platform="darwin")
    assert loaded.journal_path == tmp_path / "Library/Application Support/counterfoil/journal.db"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:////home/me/j.db", "/home/me/j.db"),
        ("sqlite:///home/me/j.db", "/home/me/j.db"),
        ("sqlite:///home/me/a%20b.db", "/home/me/a b.db"),
        ("sqlite:///~/j.db", "HOME/j.db"),
        ("SQLite:////home/me/j.db", "/home/me/j.db"),
        ("sqlite:////made/later/j.db", "/made/later/j.db"),
        ("sqlite:////j.db", "/j.db"),
        ("/home/me/j.db", "/home/me/j.db"),
        ("/home/me/../j%20#1?.db", "/home/j%20#1?.db"),
        ("~/j.db", "HOME/j.db"),
    ],
)
def test_a_journal_is_one_absolute_file_wherever_it_is_named(tmp_path: Path, url: str, path: str) -> None:
    expected = Path(path.replace("HOME", str(tmp_path)))
    assert settings(tmp_path, journal=url).journal_path == expected
    assert settings(tmp_path, environment={"COUNTERFOIL_JOURNAL": url}).journal_path == expected
    assert settings(tmp_path, f"journal = '{url}'").journal_path == expected


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("journal.db", "a relative path is refused, .* here it would be HERE/journal.db"),
        ("./a/../journal.db", "a relative path is refused, .* here it would be HERE/journal.db"),
        ("sqlite:///journal.db", "give sqlite:////journal.db if that is where it is"),
        ("sqlite:///no-such-folder/j.db", "give sqlite:////no-such-folder/j.db if"),
        ("sqlite:///./j.db", "after three slashes a path is absolute too"),
        ("sqlite:///../j.db", "after three slashes a path is absolute too"),
        ("sqlite://journal.db", "two slashes are followed by a host"),
        ("sqlite://~/journal.db", "two slashes are followed by a host"),
        ("sqlite:journal.db", "two slashes are followed by a host"),
        ("sqlite://", "two slashes are followed by a host"),
        ("sqlite:///", "it names no file"),
        ("sqlite:///~", "it names no file"),
        ("sqlite:////home/", "it names no file"),
        ("/home/..", "it names no file"),
        ("~", "it names no file"),
        ("~no-such-user/j.db", "there is no such user's home"),
        ("sqlite:///home/j.db?mode=ro", "takes no parameters"),
        ("sqlite:////home/a%00b", "it names no file"),
        (":memory:", "give an absolute PATH"),
        ("mysql://me:sesame@x/y", "give an absolute PATH"),
        ("postgresql//me:sesame@x/y", "give an absolute PATH"),
    ],
)
def test_another_name_of_a_journal_is_refused_with_what_would_be_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for given in (
        {"journal": url},
        {"environment": {"COUNTERFOIL_JOURNAL": url}},
        {"text": f"journal = '{url}'"},
    ):
        with pytest.raises(SettingsError, match=why.replace("HERE", str(tmp_path))) as refused:
            settings(tmp_path, **given)  # type: ignore[arg-type]
        assert str(refused.value).startswith("journal: ")
        assert "sesame" not in str(refused.value)


SECRET_WORD = "s3cret"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://me:{SECRET_WORD}@host:5433/db", "postgresql://me@host:5433/db"),
        (f"postgres://me:a%40{SECRET_WORD}@one,two:6/db", "postgresql://me@one,two:6/db"),
        (
            f"postgresql:///db?host=/run/pg&password={SECRET_WORD}&sslmode=verify-full&sslpassword={SECRET_WORD}",
            "postgresql:///db?host=/run/pg&sslmode=verify-full",
        ),
        ("postgresql://[::1]:5432/db", "postgresql://[::1]:5432/db"),
        ("postgresql://", "postgresql://"),
    ],
)
def test_the_url_of_a_database_is_kept_whole_and_shown_without_its_secrets(
    tmp_path: Path, url: str, shown: str
) -> None:
    loaded = settings(tmp_path, journal=url)
    assert (loaded.place, loaded.journal, loaded.journal_path) == (url, shown, None)
    assert SECRET_WORD not in repr(loaded)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET_WORD}/x@host/db",
        f"postgresql://me:{SECRET_WORD}?x@host/db",
        f"postgresql://me:{SECRET_WORD}#x@host/db",
        f"postgresql://me:12?{SECRET_WORD}@host/db",
        f"postgresql://host:{SECRET_WORD}/db",
        f"postgresql://host/db?pasword={SECRET_WORD}",
        f"postgresql://host/db?{SECRET_WORD}",
        f"postgresql:{SECRET_WORD}",
    ],
)
def test_a_url_that_is_not_understood_is_refused_and_never_repeated(tmp_path: Path, url: str) -> None:
    with pytest.raises(SettingsError, match="give postgresql://USER@HOST:PORT/DATABASE") as refused:
        settings(tmp_path, journal=url)
    assert SECRET_WORD not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("jurnal = 'x'", "jurnal: it is not known; did you mean journal"),
        ("[foo]\nx = 5", "foo: it is not known; known are journal"),
        ("[defaults]\nlease = 5", "defaults.lease: it is not known; did you mean lease_seconds"),
        ("[defaults]\nlease_seconds = true", "defaults.lease_seconds: it is a number of seconds"),
        ("[defaults]\nlease_seconds = -1", "defaults.lease_seconds"),
        ("[defaults]\nlease_seconds = nan", "defaults.lease_seconds"),
        ("[defaults]\nlease_seconds = 1e-9", "lease_seconds: it is at least a microsecond"),
        ("[defaults]\nlease_seconds = 0", "lease_seconds: it is at least a microsecond"),
        ("[defaults]\nlongest_lease_seconds = 10", "longest_lease_seconds: it is at least"),
        ("[defaults]\nsettle_seconds = 10\nleast_settle_seconds = 20", "settle_seconds: it is at least"),
        ("[defaults.limits]\nargs = 5", "defaults.limits.args: it is not known; did you mean args_bytes"),
        ("[defaults.limits]\nargs_bytes = 0", "defaults.limits.args_bytes"),
        ("[[assurance]]\naction = 'a'", "assurance[0].require: it is missing"),
        ("[[assurance]]\nrequire = 'verified'", "assurance[0].action: it is missing"),
        ("[[assurance]]\naction = 'a'\nrequire = 'sworn'", "assurance[0].require: it is one of reported"),
        ("[[duplicates]]\naction = 'a'\ncompare = 'x'", "duplicates[0].compare: it is one of target"),
        ("[[duplicates]]\naction = 'a'\ncompare = 'off'\ntarget = 'x'", "duplicates[0].target"),
        ("[[authority]]\naction = 5\nrequire = 'grant'", "authority[0].action: it is a text"),
        ("[authority]\naction = 'a'", "authority: it is a list of tables"),
        ("[drift]\nmodel = 'shrug'", "drift.model: it is one of none"),
        ("[probes]\nx = 5", "probes.x: it is a table"),
        ("[probes.x]\nref = 'main'", "probes.x.type: it is missing: one of git_commit"),
        ("[redact]\npatterns = ['(']", "redact.patterns[0]: it is no regular expression"),
        ("[redact]\nname = ['x']", "redact.name: it is not known; did you mean names"),
        ("namespace = 'a b'", "namespace: it has 1 to 100"),
        ("namespace = 5", "namespace: it is a text"),
        ("namespace = ", "config: it is not TOML"),
        ("journal = 'relative.db'", "journal: a relative path is refused"),
    ],
)
def test_what_is_unknown_or_wrong_is_an_error_that_names_it(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SettingsError) as raised:
        settings(tmp_path, text)
    assert words in str(raised.value)
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COUNTERFOIL_LOG", "loud"),
        ("COUNTERFOIL_TOOLS", "some"),
        ("COUNTERFOIL_NAMESPACE", "../x y"),
        ("COUNTERFOIL_LEASE_SECONDS", "nan"),
        ("COUNTERFOIL_CONFIG", "/nonexistent/counterfoil.toml"),
    ],
)
def test_a_wrong_environment_variable_is_an_error(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(SettingsError):
        settings(tmp_path, environment={name: value})


def test_the_environment_tells_the_conversation_and_the_trace(tmp_path: Path) -> None:
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    loaded = settings(tmp_path, environment={"CLAUDE_CODE_SESSION_ID": "session", "TRACEPARENT": traceparent})
    assert (loaded.conversation, loaded.traceparent) == ("session", traceparent)
    loaded = settings(tmp_path, environment={"CLAUDE_CODE_SESSION_ID": "a\nb", "TRACEPARENT": "x"})
    assert (loaded.conversation, loaded.traceparent) == (None, None)


def configurations() -> list[Any]:
    """Give every configuration that a page of the documentation shows."""
    root = Path(__file__).parents[2]
    return [
        pytest.param(block.split("```")[0], id=f"{page.relative_to(root)}-{number}")
        for page in (root / "README.md", *sorted((root / "docs").rglob("*.md")))
        for number, block in enumerate(page.read_text().split("```toml\n")[1:], start=1)
    ]


@pytest.mark.parametrize("text", configurations())
def test_every_configuration_in_the_documentation_can_be_pasted(tmp_path: Path, text: str) -> None:
    settings(tmp_path, text)


def test_the_documentation_makes_digests_that_are_taken(tmp_path: Path) -> None:
    for page, table, name in (
        ("http.md", "http", "metrics_token_sha256"),
        ("authority.md", "operator", "secret_sha256"),
    ):
        text = (Path(__file__).parents[2] / "docs" / page).read_text()
        (secret,) = re.findall(r"rand -hex 32 > (\S+)", text)
        (tmp_path / secret).write_text("a secret\n")
        (making,) = re.findall(rf"^printf '{name} = .*$", text, re.MULTILINE)
        line = subprocess.run(
            ["sh", "-c", making], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=20
        ).stdout
        assert line == f'{name} = "{hashlib.sha256(b"a secret").hexdigest()}"\n'
        settings(tmp_path, f"[{table}]\n{line}")
