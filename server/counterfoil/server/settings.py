"""The settings of a process: flags go before COUNTERFOIL_* before the configuration file before defaults.

The file is never looked for in the working directory: a repository that somebody cloned could weaken it. An
unknown key, a wrong type or a bad value refuses the start, since a guard that is silently weaker than
written is worse than none.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field

from counterfoil.server.configuration import (
    AssuranceRule,
    AuthorityRule,
    Configuration,
    DuplicateRule,
    ProjectRun,
    SettingsError,
)
from counterfoil.server.places import configuration_folder, data_folder, home
from counterfoil.server.traceparent import traceparent_or_none
from counterfoil.store.domain.model import ConfiguredGrant
from counterfoil.store.domain.patterns import lazy_pattern
from counterfoil.store.limits import Limits

if TYPE_CHECKING:
    from counterfoil.server.gateway.servers import GatewaySettings
    from counterfoil.server.hooks.rules.rule import EffectRules
    from counterfoil.server.http.settings import HttpSettings
    from counterfoil.server.probes.probe import Probe
    from counterfoil.server.rules.tool_rule import ToolRule

__all__ = ["Settings", "SettingsError", "is_namespace", "load_settings"]

LOG_LEVELS = ("debug", "info", "warning", "error")
TOOL_SETS = ("core", "all")

_NAMESPACE = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._@:/+-]{0,99}")


class Settings(Struct, frozen=True, kw_only=True):
    """What a process was told. Durations in seconds.

    `journal` is the URL as it may be shown; `journal_path` is the file that it names, None for a database of
    PostgreSQL, which `journal_url` names, password and all. `operator_secret_sha256` is what an
    operator's secret is compared with. `conversation` and `traceparent` are what the environment tells of the
    caller. `has_traces`: spans are wanted. `run` is the run that the environment names for calls which are
    recorded on behalf of an agent, `projects` are the runs of whole projects. `effects` are the operator's
    own rules of which commands are effects, `tool_rules` those of tools.
    """

    journal: str
    journal_path: Path | None
    journal_url: str | None = None
    namespace: str = "default"
    tools: str = "all"
    log_level: str = "warning"
    lease_seconds: float = 300
    longest_lease_seconds: float = 3600
    settle_seconds: float = 300
    least_settle_seconds: float = 0
    limits: Limits = field(default_factory=Limits)
    assurance: tuple[AssuranceRule, ...] = ()
    duplicates: tuple[DuplicateRule, ...] = ()
    authority: tuple[AuthorityRule, ...] = ()
    grants: tuple[ConfiguredGrant, ...] = ()
    drift: Mapping[str, str] = field(default_factory=dict)
    probes: Mapping[str, "Probe"] = field(default_factory=dict)
    redact_names: tuple[str, ...] = ()
    redact_patterns: tuple[str, ...] = ()
    operator_secret_sha256: str | None = None
    config_path: Path | None = None
    conversation: str | None = None
    traceparent: str | None = None
    has_traces: bool = False
    http: "HttpSettings | None" = None
    effects: "EffectRules | None" = None
    projects: tuple[ProjectRun, ...] = ()
    run: str | None = None
    tool_rules: "tuple[ToolRule, ...]" = ()
    gateway: "GatewaySettings | None" = None

    def __repr__(self) -> str:
        """Show whose settings these are; the database's URL holds its password."""
        return f"Settings(journal={self.journal!r}, namespace={self.namespace!r})"

    @property
    def place(self) -> Path | str:
        """Where the journal is: a file, or the URL of a database. Not to be shown."""
        place = self.journal_url if self.journal_path is None else self.journal_path
        if place is None:
            raise LookupError("settings without a journal")
        return place


def load_settings(
    *,
    flags: Mapping[str, str | None] | None = None,
    environment: Mapping[str, str] | None = None,
    platform: str = sys.platform,
) -> Settings:
    """Give the settings that `flags` (journal, namespace, config, log, tools), environment and file make.

    Raises:
        SettingsError: something in them is unknown or wrong; its message names it and what would be right.
    """
    environ = os.environ if environment is None else environment
    given = {name: value for name, value in (flags or {}).items() if value is not None}

    def chosen(name: str) -> str | None:
        return given.get(name) or environ.get(f"COUNTERFOIL_{name.upper()}") or None

    configuration = _configuration(chosen("config"), environ, platform)
    url = chosen("journal") or configuration.journal
    path: Path | None = None
    database: str | None = None
    if url is None:
        path = Path(data_folder(environ, platform)) / "journal.db"
        url = f"sqlite:///{path}"
    elif url.startswith(("postgresql:", "postgres:")):
        database, url = url, _shown(url)
    else:
        path = _journal_path(url, Path(home(environ)))
    namespace = chosen("namespace") or configuration.namespace
    if not is_namespace(namespace):
        raise SettingsError(
            "namespace", "it has 1 to 100 letters, digits or ._@:/+- and begins with a letter or digit"
        )
    durations = {
        name: _duration(name, chosen(name), value) for name, value in configuration.durations.items()
    }
    _check_durations(durations)
    return Settings(
        journal=url,
        journal_path=path,
        journal_url=database,
        namespace=namespace,
        tools=_one_of("tools", chosen("tools") or "all", TOOL_SETS),
        log_level=_one_of("log", (chosen("log") or "warning").lower(), LOG_LEVELS),
        **durations,
        limits=configuration.limits,
        assurance=configuration.assurance,
        duplicates=configuration.duplicates,
        authority=configuration.authority,
        grants=configuration.grants,
        drift=configuration.drift,
        probes=configuration.probes,
        redact_names=configuration.redact_names,
        redact_patterns=configuration.redact_patterns,
        operator_secret_sha256=configuration.operator_secret_sha256,
        config_path=configuration.path,
        conversation=_short(environ.get("COUNTERFOIL_CONVERSATION") or environ.get("CLAUDE_CODE_SESSION_ID")),
        traceparent=traceparent_or_none(environ.get("TRACEPARENT")),
        has_traces=_has_traces(configuration.telemetry, environ),
        http=configuration.http,
        effects=configuration.effects,
        projects=configuration.projects,
        run=_run_name(environ.get("COUNTERFOIL_RUN")),
        tool_rules=configuration.tools,
        gateway=configuration.gateway,
    )


def is_namespace(text: str) -> bool:
    """Tell whether `text` may name a tenant."""
    return _NAMESPACE.fullmatch(text) is not None


def _configuration(named: str | None, environ: Mapping[str, str], platform: str) -> Configuration:
    if named is not None:
        path = Path(named).expanduser()
        if not path.is_file():
            raise SettingsError("config", f"there is no file {path}")
    else:
        path = Path(configuration_folder(environ, platform)) / "counterfoil.toml"
        if not path.is_file():
            return Configuration()
    # Loaded where there is a file: a hook, which is started for every call, need not know how to read one.
    from counterfoil.server.configuration_file import read_configuration

    return read_configuration(path)


def _shown(url: str) -> str:
    """Give the URL of a database as it may be shown; one that is not understood is not repeated at all."""
    from counterfoil.store.postgres.address import shown_url

    try:
        return shown_url(url)
    except ValueError as error:
        raise SettingsError("journal", str(error)) from None


_FORMS = (
    "an absolute PATH, ~/PATH, sqlite:////ABSOLUTE/PATH, sqlite:///~/PATH or postgresql://USER@HOST/DATABASE"
)
_WHY_NOT_RELATIVE = "since each client starts its server in another folder and would open another journal"
_SHOWABLE = lazy_pattern(r"[^@:?#\x00-\x1f]{1,200}")
"""A path that may be repeated: what holds none of these is no mistyped URL with a password."""


def _journal_path(text: str, home: Path) -> Path:
    """Give the file that a journal's name stands for: absolute, so that every client opens the same one.

    A path is taken as it is, a URL with its escapes. With three slashes a URL may stand for a relative path
    elsewhere, and does not here: what could only be meant so is refused.

    Raises:
        SettingsError: it names no file, or one relative to some folder; the message says what would.
    """
    if text.startswith(("/", "~")):
        path = text
    elif not text.lower().startswith("sqlite:"):
        raise SettingsError("journal", _not_understood(text))
    else:
        path = _path_of_url(text)
    if path.startswith("~"):
        below = path[1:]
        path = f"{home}{below}" if below[:1] in ("", "/") else os.path.expanduser(path)
        if not path.startswith("/"):
            raise SettingsError("journal", f"there is no such user's home; give {_FORMS}")
    if path.endswith(("/", "/.", "/..")) or path == str(home) or "\0" in path:
        raise SettingsError("journal", f"it names no file; give {_FORMS}")
    return Path("/" + os.path.normpath(path).lstrip("/"))


def _path_of_url(url: str) -> str:
    """Give the path in a URL of SQLite: absolute, or from a home on."""
    parts = urlsplit(url)
    if parts.query or parts.fragment:
        raise SettingsError("journal", f"a journal in a file takes no parameters; give {_FORMS}")
    if parts.netloc or not url[len("sqlite:") :].startswith("///"):
        raise SettingsError(
            "journal", f"two slashes are followed by a host, and a file has none; give {_FORMS}"
        )
    path = unquote(parts.path)
    if path.startswith("//"):
        return path
    below = path[1:]
    if below.startswith("~"):
        return below
    first = below.partition("/")[0]
    if first in (".", "..") or (first and (first == below or not os.path.isdir(f"/{first}"))):
        shown = below if _SHOWABLE.fullmatch(below) else "PATH"
        raise SettingsError(
            "journal",
            "after three slashes a path is absolute too, and there is no folder for this one; a relative "
            f"path is refused, {_WHY_NOT_RELATIVE}: give "
            f"sqlite:////{shown} if that is where it is, or the whole path",
        )
    return path


def _not_understood(text: str) -> str:
    """Say what is wrong with a name of a journal that is no path from the root or a home, and no URL."""
    if _SHOWABLE.fullmatch(text):
        return (
            f"a relative path is refused, {_WHY_NOT_RELATIVE}; here it would be {os.path.abspath(text)}: "
            f"give {_FORMS}"
        )
    return f"give {_FORMS}"


def _duration(name: str, text: str | None, configured: float) -> float:
    if text is None:
        return configured
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 315_360_000:
        raise SettingsError(name, "it is a number of seconds")
    return value


def _check_durations(durations: Mapping[str, float]) -> None:
    if durations["lease_seconds"] < 0.000_001:
        raise SettingsError("lease_seconds", "it is at least a microsecond")
    if durations["longest_lease_seconds"] < durations["lease_seconds"]:
        raise SettingsError("longest_lease_seconds", "it is at least lease_seconds")
    if durations["settle_seconds"] < durations["least_settle_seconds"]:
        raise SettingsError("settle_seconds", "it is at least least_settle_seconds")


def _one_of(name: str, value: str, accepted: tuple[str, ...]) -> str:
    if value not in accepted:
        raise SettingsError(name, f"it is one of {', '.join(accepted)}")
    return value


def _short(value: str | None) -> str | None:
    return value if value and len(value) <= 200 and value.isprintable() else None


def _run_name(text: str | None) -> str | None:
    """Give the run that the environment names; one that is no name is refused, not left out."""
    if not text:
        return None
    from counterfoil.store.domain.names import normalize_name
    from counterfoil.store.errors import InvalidArgument

    try:
        return normalize_name(text, field="COUNTERFOIL_RUN")
    except InvalidArgument as fault:
        raise SettingsError("COUNTERFOIL_RUN", fault.fix.partition(": ")[2]) from None


def _has_traces(enabled: bool | None, environ: Mapping[str, str]) -> bool:
    """Tell whether spans are wanted: the file's word goes before what OpenTelemetry's own variables say."""
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if exporter == "none" or environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if enabled is not None:
        return enabled
    endpoints = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    return bool(exporter or any(environ.get(name) for name in endpoints))
