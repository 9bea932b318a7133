"""What counterfoil.toml may say (CONTRACT.md, section 9), and what holds where it says nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from counterfoil.store.domain.model import ConfiguredGrant
from counterfoil.store.limits import Limits

if TYPE_CHECKING:
    from counterfoil.server.gateway.servers import GatewaySettings
    from counterfoil.server.hooks.rules.rule import EffectRules
    from counterfoil.server.http.settings import HttpSettings
    from counterfoil.server.probes.probe import Probe
    from counterfoil.server.rules.tool_rule import ToolRule

__all__ = [
    "AssuranceRule",
    "AuthorityRule",
    "DURATIONS",
    "Configuration",
    "DuplicateRule",
    "ProjectRun",
    "SettingsError",
]

DURATIONS: Mapping[str, float] = {
    "lease_seconds": 300,
    "longest_lease_seconds": 3600,
    "settle_seconds": 300,
    "least_settle_seconds": 0,
}


class SettingsError(Exception):
    """A setting that cannot be honoured. `exit_code` is that of a usage error."""

    exit_code = 2

    def __init__(self, name: str, problem: str, *, path: Path | None = None) -> None:
        super().__init__(f"{path}: {name}: {problem}" if path else f"{name}: {problem}")
        self.name = name


class AuthorityRule(Struct, frozen=True, kw_only=True):
    """Which actions and targets (globs) need a grant before they may be attempted."""

    action: str = "*"
    target: str = "*"
    require: str = "grant"


class AssuranceRule(Struct, frozen=True, kw_only=True):
    """Which assurance a receipt needs for an action (glob) to count as succeeded."""

    action: str = "*"
    target: str = "*"
    require: str = "reported"


class DuplicateRule(Struct, frozen=True, kw_only=True):
    """What makes two operations of an action (glob) look alike."""

    action: str = "*"
    compare: str = "target"


class ProjectRun(Struct, frozen=True, kw_only=True):
    """Which run the calls of a project belong to: `path` is its folder, absolute."""

    path: str
    run: str


class Configuration(Struct, frozen=True, kw_only=True):
    """What the file says, defaults filled in."""

    path: Path | None = None
    journal: str | None = None
    namespace: str = "default"
    durations: Mapping[str, float] = field(default_factory=lambda: dict(DURATIONS))
    limits: Limits = field(default_factory=Limits)
    authority: tuple[AuthorityRule, ...] = ()
    assurance: tuple[AssuranceRule, ...] = ()
    duplicates: tuple[DuplicateRule, ...] = ()
    drift: Mapping[str, str] = field(default_factory=dict)
    probes: Mapping[str, "Probe"] = field(default_factory=dict)
    grants: tuple[ConfiguredGrant, ...] = ()
    redact_names: tuple[str, ...] = ()
    redact_patterns: tuple[str, ...] = ()
    operator_secret_sha256: str | None = None
    telemetry: bool | None = None
    http: "HttpSettings | None" = None
    effects: "EffectRules | None" = None
    projects: tuple[ProjectRun, ...] = ()
    tools: "tuple[ToolRule, ...]" = ()
    gateway: "GatewaySettings | None" = None
