"""Reads counterfoil.toml (CONTRACT.md, section 9): every key is known and every value has its type.

Sections that nothing acts on yet are held to their form all the same, so that a file stays good. Loaded where
there is a file: most people have none.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import fields

from counterfoil.server.configuration import (
    DURATIONS,
    AssuranceRule,
    AuthorityRule,
    Configuration,
    DuplicateRule,
    ProjectRun,
    SettingsError,
)
from counterfoil.server.configuration_values import (
    Wrong,
    choice_of,
    digest_of,
    number_of,
    patterns_of,
    refuse_unknown,
    switch_of,
    table_in,
    tables_in,
    text_of,
    texts_of,
)
from counterfoil.store.domain.model import ConfiguredGrant
from counterfoil.store.domain.names import normalize_name
from counterfoil.store.errors import InvalidArgument
from counterfoil.store.limits import Limits

if TYPE_CHECKING:
    from counterfoil.server.gateway.servers import GatewaySettings
    from counterfoil.server.hooks.rules.rule import EffectRules
    from counterfoil.server.http.settings import HttpSettings
    from counterfoil.server.probes.probe import Probe
    from counterfoil.server.rules.tool_rule import ToolRule

__all__ = ["read_configuration"]

ASSURANCES = ("reported", "captured", "verified")
COMPARISONS = ("target", "fingerprint", "off")
DRIFT_CLASSES = ("none", "note", "review", "block")

_Rule = TypeVar("_Rule", AuthorityRule, AssuranceRule, DuplicateRule)


def read_configuration(path: Path) -> Configuration:
    """Give what the file at `path` says.

    Raises:
        SettingsError: it cannot be read, is no TOML, or says something unknown or wrong.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        return _configuration(path, document)
    except OSError as error:
        raise SettingsError("config", f"it cannot be read: {error.strerror}", path=path) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError("config", f"it is not TOML: {error}", path=path) from error
    except Wrong as wrong:
        raise SettingsError(wrong.name, wrong.problem, path=path) from None


def _configuration(path: Path, document: dict[str, Any]) -> Configuration:
    refuse_unknown(
        "",
        document,
        (
            "journal",
            "namespace",
            "defaults",
            "authority",
            "grants",
            "assurance",
            "duplicates",
            "drift",
            "probes",
            "redact",
            "operator",
            "telemetry",
            "http",
            "effects",
            "hooks",
            "tools",
            "gateway",
        ),
    )
    defaults = table_in("defaults", document)
    refuse_unknown("defaults", defaults, (*DURATIONS, "limits"))
    redact = table_in("redact", document)
    refuse_unknown("redact", redact, ("names", "patterns"))
    operator = table_in("operator", document)
    refuse_unknown("operator", operator, ("secret_sha256",))
    telemetry = table_in("telemetry", document)
    refuse_unknown("telemetry", telemetry, ("enabled",))
    drift = table_in("drift", document)
    probes = table_in("probes", document)
    hooks = table_in("hooks", document)
    refuse_unknown("hooks", hooks, ("projects",))
    return Configuration(
        path=path,
        journal=text_of("journal", document["journal"]) if "journal" in document else None,
        namespace=text_of("namespace", document.get("namespace", "default")),
        durations={
            name: number_of(f"defaults.{name}", defaults.get(name, value))
            for name, value in DURATIONS.items()
        },
        limits=_limits(table_in("limits", defaults, "defaults.")),
        authority=tuple(
            _rule(AuthorityRule, name, table, {"require": ("grant",)})
            for name, table in tables_in("authority", document)
        ),
        grants=_grants(document) if "grants" in document else (),
        assurance=tuple(
            _rule(AssuranceRule, name, table, {"require": ASSURANCES})
            for name, table in tables_in("assurance", document)
        ),
        duplicates=tuple(
            _rule(DuplicateRule, name, table, {"compare": COMPARISONS})
            for name, table in tables_in("duplicates", document)
        ),
        drift={name: choice_of(f"drift.{name}", value, DRIFT_CLASSES) for name, value in drift.items()},
        probes={name: _probe(name, value) for name, value in probes.items()},
        redact_names=texts_of("redact.names", redact.get("names", [])),
        redact_patterns=patterns_of("redact.patterns", redact.get("patterns", [])),
        operator_secret_sha256=digest_of("operator.secret_sha256", operator.get("secret_sha256")),
        telemetry=switch_of("telemetry.enabled", telemetry.get("enabled")),
        http=_http(document),
        effects=_effects(document["effects"]) if "effects" in document else None,
        projects=tuple(_project(f"hooks.{name}", table) for name, table in tables_in("projects", hooks)),
        tools=tuple(_tool_rule(name, table) for name, table in tables_in("tools", document)),
        gateway=_gateway(document["gateway"]) if "gateway" in document else None,
    )


def _limits(table: Mapping[str, Any]) -> Limits:
    names = [part.name for part in fields(Limits)]
    refuse_unknown("defaults.limits", table, names)
    for name, value in table.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise Wrong(f"defaults.limits.{name}", "it is a whole number from 1")
    return Limits(**table)


def _rule(
    kind: type[_Rule], name: str, table: Mapping[str, Any], choices: Mapping[str, tuple[str, ...]]
) -> _Rule:
    refuse_unknown(name, table, kind.__struct_fields__)
    needed = ("action", *choices)
    if "target" in table:
        needed = tuple(choices)
    for missing in needed:
        if missing not in table:
            raise Wrong(f"{name}.{missing}", "it is missing")
    for key, value in table.items():
        choice_of(f"{name}.{key}", value, choices[key]) if key in choices else text_of(f"{name}.{key}", value)
    return kind(**table)


def _grants(document: Mapping[str, Any]) -> tuple[ConfiguredGrant, ...]:
    # Loaded here: most files have none, and a server answers its first message before it loads rules.
    from counterfoil.server.configured_grants import read_grants

    return read_grants(document)


def _probe(name: str, value: Any) -> "Probe":
    # Loaded here: most files have none, and a server answers its first message before it loads them.
    from counterfoil.server.probes.reading import ProbeProblem, read_probe

    try:
        return read_probe(name, value)
    except ProbeProblem as problem:
        raise Wrong(problem.name, problem.problem) from None


def _http(document: Mapping[str, Any]) -> "HttpSettings | None":
    if "http" not in document:
        return None
    # Loaded here: most files have none, and a server answers its first message before it loads it.
    from counterfoil.server.http.settings import HttpProblem, read_http_settings

    try:
        return read_http_settings(table_in("http", document))
    except HttpProblem as problem:
        raise Wrong(problem.name, problem.problem) from None


def _effects(value: Any) -> "EffectRules":
    # Loaded here, as probes are.
    from counterfoil.server.hooks.rules.reading import RuleProblem, read_rules

    try:
        return read_rules(value)
    except RuleProblem as problem:
        raise Wrong(problem.name, problem.problem) from None


def _project(name: str, table: Mapping[str, Any]) -> ProjectRun:
    refuse_unknown(name, table, ("path", "run"))
    for needed in ("path", "run"):
        if needed not in table:
            raise Wrong(f"{name}.{needed}", "it is missing")
    path = Path(text_of(f"{name}.path", table["path"])).expanduser()
    if not path.is_absolute():
        raise Wrong(f"{name}.path", "it is the absolute path of a folder")
    try:
        run = normalize_name(text_of(f"{name}.run", table["run"]), field="run")
    except InvalidArgument as fault:
        raise Wrong(f"{name}.run", fault.fix) from None
    return ProjectRun(path=os.path.realpath(path), run=run)


def _tool_rule(name: str, table: Mapping[str, Any]) -> "ToolRule":
    # Loaded here, like probes: a server that nobody gave such rules needs none of it.
    from counterfoil.server.probes.table import ProbeProblem
    from counterfoil.server.rules.reading import read_tool_rule

    try:
        return read_tool_rule(name, table)
    except ProbeProblem as problem:
        raise Wrong(problem.name, problem.problem) from None


def _gateway(value: Any) -> "GatewaySettings":
    from counterfoil.server.gateway.servers import read_gateway
    from counterfoil.server.probes.table import ProbeProblem

    try:
        return read_gateway(value)
    except ProbeProblem as problem:
        raise Wrong(problem.name, problem.problem) from None
