"""Reads counterfoil.toml (CONTRACT.md, section 9): every key is known and every value has its type.

Sections that nothing acts on yet are held to their form all the same, so that a file stays good. Loaded where
there is a file: most people have none.
"""

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from datetime import datetime
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
from counterfoil.store.domain.instants import parse_rfc3339
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
    except _Wrong as wrong:
        raise SettingsError(wrong.name, wrong.problem, path=path) from None


class _Wrong(Exception):
    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name)
        self.name, self.problem = name, problem


def _configuration(path: Path, document: dict[str, Any]) -> Configuration:
    _known(
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
    defaults = _table("defaults", document)
    _known("defaults", defaults, (*DURATIONS, "limits"))
    redact = _table("redact", document)
    _known("redact", redact, ("names", "patterns"))
    operator = _table("operator", document)
    _known("operator", operator, ("secret_sha256",))
    telemetry = _table("telemetry", document)
    _known("telemetry", telemetry, ("enabled",))
    drift = _table("drift", document)
    probes = _table("probes", document)
    hooks = _table("hooks", document)
    _known("hooks", hooks, ("projects",))
    return Configuration(
        path=path,
        journal=_text("journal", document["journal"]) if "journal" in document else None,
        namespace=_text("namespace", document.get("namespace", "default")),
        durations={
            name: _number(f"defaults.{name}", defaults.get(name, value)) for name, value in DURATIONS.items()
        },
        limits=_limits(_table("limits", defaults, "defaults.")),
        authority=tuple(
            _rule(AuthorityRule, name, table, {"require": ("grant",)})
            for name, table in _tables("authority", document)
        ),
        grants=_grants(document),
        assurance=tuple(
            _rule(AssuranceRule, name, table, {"require": ASSURANCES})
            for name, table in _tables("assurance", document)
        ),
        duplicates=tuple(
            _rule(DuplicateRule, name, table, {"compare": COMPARISONS})
            for name, table in _tables("duplicates", document)
        ),
        drift={name: _one_of(f"drift.{name}", value, DRIFT_CLASSES) for name, value in drift.items()},
        probes={name: _probe(name, value) for name, value in probes.items()},
        redact_names=_texts("redact.names", redact.get("names", [])),
        redact_patterns=_patterns("redact.patterns", redact.get("patterns", [])),
        operator_secret_sha256=_digest("operator.secret_sha256", operator.get("secret_sha256")),
        telemetry=_switch("telemetry.enabled", telemetry.get("enabled")),
        http=_http(document),
        effects=_effects(document["effects"]) if "effects" in document else None,
        projects=tuple(_project(f"hooks.{name}", table) for name, table in _tables("projects", hooks)),
        tools=tuple(_tool_rule(name, table) for name, table in _tables("tools", document)),
        gateway=_gateway(document["gateway"]) if "gateway" in document else None,
    )


def _limits(table: Mapping[str, Any]) -> Limits:
    names = [part.name for part in fields(Limits)]
    _known("defaults.limits", table, names)
    for name, value in table.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise _Wrong(f"defaults.limits.{name}", "it is a whole number from 1")
    return Limits(**table)


def _rule(
    kind: type[_Rule], name: str, table: Mapping[str, Any], choices: Mapping[str, tuple[str, ...]]
) -> _Rule:
    _known(name, table, kind.__struct_fields__)
    needed = ("action", *choices)
    if "target" in table:
        needed = tuple(choices)
    for missing in needed:
        if missing not in table:
            raise _Wrong(f"{name}.{missing}", "it is missing")
    for key, value in table.items():
        _one_of(f"{name}.{key}", value, choices[key]) if key in choices else _text(f"{name}.{key}", value)
    return kind(**table)


_GRANT_PARTS = (
    "name",
    "action",
    "target",
    "subject",
    "constraints",
    "policy",
    "not_before",
    "expires_at",
    "max_uses",
)


def _grants(document: Mapping[str, Any]) -> tuple[ConfiguredGrant, ...]:
    """Give what the operator permits beforehand; each has a name, by which its uses are counted."""
    grants = tuple(_grant(name, table) for name, table in _tables("grants", document))
    names = [grant.name for grant in grants]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise _Wrong(f"grants[{index}].name", "it is the name of another one too")
    return grants


def _grant(name: str, table: Mapping[str, Any]) -> ConfiguredGrant:
    # Loaded here: most files have none, and a server answers its first message before it loads rules.
    from counterfoil.store.domain.canonical import canonical_json
    from counterfoil.store.domain.context import normal_context
    from counterfoil.store.domain.grants import parse_constraint

    _known(name, table, _GRANT_PARTS)
    for needed in ("name", "action"):
        if needed not in table:
            raise _Wrong(f"{name}.{needed}", "it is missing")
    constraints = _texts(f"{name}.constraints", table.get("constraints", []))
    for index, text in enumerate(constraints):
        try:
            parse_constraint(text)
        except InvalidArgument as fault:
            raise _Wrong(f"{name}.constraints[{index}]", fault.fix) from None
    max_uses = table.get("max_uses")
    if max_uses is not None and (isinstance(max_uses, bool) or not isinstance(max_uses, int) or max_uses < 1):
        raise _Wrong(f"{name}.max_uses", "it is a whole number from 1")
    policy = table.get("policy")
    if policy is not None and not isinstance(policy, str | dict):
        raise _Wrong(f"{name}.policy", "it is a text, or a table with id, version or digest")
    return ConfiguredGrant(
        name=_text(f"{name}.name", table["name"]),
        **{part: _text(f"{name}.{part}", table.get(part, "*")) for part in ("action", "target", "subject")},
        constraints=constraints,
        policy=None if policy is None else canonical_json(normal_context({"policy": policy})["policy"]),
        not_before=_moment(f"{name}.not_before", table.get("not_before")),
        expires_at=_moment(f"{name}.expires_at", table.get("expires_at")),
        max_uses=max_uses,
    )


def _moment(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.isoformat()
    try:
        return parse_rfc3339(_text(name, value), field=name)
    except InvalidArgument:
        raise _Wrong(name, "it is a time with its offset: 2026-11-29T17:00:00Z") from None


def _probe(name: str, value: Any) -> "Probe":
    # Loaded here: most files have none, and a server answers its first message before it loads them.
    from counterfoil.server.probes.reading import ProbeProblem, read_probe

    try:
        return read_probe(name, value)
    except ProbeProblem as problem:
        raise _Wrong(problem.name, problem.problem) from None


def _http(document: Mapping[str, Any]) -> "HttpSettings | None":
    if "http" not in document:
        return None
    # Loaded here: most files have none, and a server answers its first message before it loads it.
    from counterfoil.server.http.settings import HttpProblem, read_http_settings

    try:
        return read_http_settings(_table("http", document))
    except HttpProblem as problem:
        raise _Wrong(problem.name, problem.problem) from None


def _effects(value: Any) -> "EffectRules":
    # Loaded here, as probes are.
    from counterfoil.server.hooks.rules.reading import RuleProblem, read_rules

    try:
        return read_rules(value)
    except RuleProblem as problem:
        raise _Wrong(problem.name, problem.problem) from None


def _project(name: str, table: Mapping[str, Any]) -> ProjectRun:
    _known(name, table, ("path", "run"))
    for needed in ("path", "run"):
        if needed not in table:
            raise _Wrong(f"{name}.{needed}", "it is missing")
    path = Path(_text(f"{name}.path", table["path"])).expanduser()
    if not path.is_absolute():
        raise _Wrong(f"{name}.path", "it is the absolute path of a folder")
    try:
        run = normalize_name(_text(f"{name}.run", table["run"]), field="run")
    except InvalidArgument as fault:
        raise _Wrong(f"{name}.run", fault.fix) from None
    return ProjectRun(path=os.path.realpath(path), run=run)


def _tool_rule(name: str, table: Mapping[str, Any]) -> "ToolRule":
    # Loaded here, like probes: a server that nobody gave such rules needs none of it.
    from counterfoil.server.probes.table import ProbeProblem
    from counterfoil.server.rules.reading import read_tool_rule

    try:
        return read_tool_rule(name, table)
    except ProbeProblem as problem:
        raise _Wrong(problem.name, problem.problem) from None


def _gateway(value: Any) -> "GatewaySettings":
    from counterfoil.server.gateway.servers import read_gateway
    from counterfoil.server.probes.table import ProbeProblem

    try:
        return read_gateway(value)
    except ProbeProblem as problem:
        raise _Wrong(problem.name, problem.problem) from None


def _table(name: str, document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    value = document.get(name, {})
    if not isinstance(value, dict):
        raise _Wrong(f"{prefix}{name}", f"it is a table: [{prefix}{name}]")
    return value


def _tables(name: str, document: Mapping[str, Any]) -> Iterable[tuple[str, dict[str, Any]]]:
    value = document.get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise _Wrong(name, f"it is a list of tables: [[{name}]]")
    return [(f"{name}[{index}]", item) for index, item in enumerate(value)]


def _known(where: str, table: Mapping[str, Any], names: Iterable[str]) -> None:
    accepted = list(names)
    for name in table:
        if name not in accepted:
            from difflib import get_close_matches

            near = get_close_matches(name, accepted, n=1, cutoff=0.51)
            hint = f"; did you mean {near[0]}?" if near else f"; known are {', '.join(accepted)}"
            raise _Wrong(f"{where}.{name}" if where else name, f"it is not known{hint}")


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise _Wrong(name, "it is a text")
    return value


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _Wrong(name, "it is a list of texts")
    return tuple(_text(f"{name}[{index}]", item) for index, item in enumerate(value))


def _patterns(name: str, value: Any) -> tuple[str, ...]:
    patterns = _texts(name, value)
    for index, pattern in enumerate(patterns):
        try:
            re.compile(pattern)
        except re.error as error:
            raise _Wrong(f"{name}[{index}]", f"it is no regular expression: {error}") from None
    return patterns


def _digest(name: str, value: Any) -> str | None:
    if value is not None and not (isinstance(value, str) and re.fullmatch(r"[0-9A-Fa-f]{64}", value)):
        raise _Wrong(name, "it is the SHA-256 of the secret: 64 hexadecimal digits")
    return value and value.lower()


def _switch(name: str, value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise _Wrong(name, "it is true or false")
    return value


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 315_360_000:
        raise _Wrong(name, "it is a number of seconds")
    return value


def _one_of(name: str, value: Any, accepted: tuple[str, ...]) -> str:
    if value not in accepted:
        raise _Wrong(name, f"it is one of {', '.join(accepted)}")
    return str(value)
