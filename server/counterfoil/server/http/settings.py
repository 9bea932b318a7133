"""Reads `[http]` of counterfoil.toml: what a server over HTTP is told beyond its address."""

import ipaddress
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

__all__ = ["HttpProblem", "HttpSettings", "OAuthSettings", "read_http_settings"]

_ASYMMETRIC = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)
"""What may be allowed. `none` proves nothing, and with HS* whoever can check a token can also make one."""


class HttpProblem(Exception):
    """A key of `[http]` that cannot be honoured: its name, and what would be right."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name, self.problem = name, problem


def _safe_url(text: str) -> str:
    """Take an https URL; http only where nothing leaves the machine."""
    parts = urlsplit(text)
    is_local = parts.hostname == "localhost" or _is_loopback(parts.hostname or "")
    if not parts.hostname or parts.scheme not in (("https", "http") if is_local else ("https",)):
        raise ValueError("it is an https URL")
    if parts.username is not None or parts.fragment:
        raise ValueError("it has no user and no fragment")
    return text


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host(text: str) -> str:
    if not text.isascii() or not text.isprintable() or "/" in text or " " in text or not text:
        raise ValueError("it is a Host as requests name it: example.org, example.org:8443 or example.org:*")
    return text


_Url = Annotated[str, AfterValidator(_safe_url)]
_Host = Annotated[str, AfterValidator(_host)]
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Seconds = Annotated[float, Field(ge=0, le=600)]
_Claim = Annotated[str, Field(min_length=1, max_length=200)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class OAuthSettings(_Table):
    """Whose JWTs count. A namespace comes from `namespace_claim`, a principal from `sub`."""

    issuer: _Url
    jwks_url: _Url
    audience: Annotated[str, Field(min_length=1)] | None = None
    algorithms: Annotated[list[str], Field(min_length=1)] = ["RS256", "ES256"]
    namespace_claim: _Claim = "counterfoil_namespace"
    leeway_seconds: Annotated[float, Field(ge=0, le=300)] = 30

    @model_validator(mode="after")
    def _only_asymmetric(self) -> "OAuthSettings":
        for name in self.algorithms:
            if name not in _ASYMMETRIC:
                raise ValueError(f"algorithms: {name[:40]} is none of {', '.join(_ASYMMETRIC)}")
        return self


class HttpSettings(_Table):
    """How MCP is served over HTTP. Durations in seconds, sizes in bytes.

    `url` is the address that clients use, of `/mcp` itself. Its host counts as Host and Origin, as do `hosts`
    and `origins`. `tokens`: bearer tokens of `counterfoil token` are asked for. Rates are per principal and
    worker; `calls_per_second` 0 sets none. `sticky`: one session always reaches the same worker.
    """

    url: _Url | None = None
    hosts: list[_Host] = []
    origins: list[_Url] = []
    tokens: bool = False
    sticky: bool = False
    oauth: OAuthSettings | None = None
    calls_per_second: Annotated[float, Field(ge=0, le=1_000_000)] = 100
    burst: Annotated[int, Field(ge=1, le=1_000_000)] = 200
    max_body_bytes: Annotated[int, Field(ge=1_000, le=64 * 2**20)] = 4 * 2**20
    drain_seconds: _Seconds = 20
    notice_seconds: _Seconds = 0
    metrics_token_sha256: _Digest | None = None
    metrics_open: bool = False

    @property
    def is_authenticated(self) -> bool:
        """Tell whether every request has to say by a token whose it is."""
        return self.tokens or self.oauth is not None

    @model_validator(mode="after")
    def _has_audience(self) -> "HttpSettings":
        if self.oauth is not None and self.url is None:
            raise ValueError("url: OAuth needs it, as what a token is issued for (RFC 8707) and asked for at")
        return self

    @property
    def audience(self) -> str | None:
        """What a JWT has to be issued for."""
        return self.url if self.oauth is None or self.oauth.audience is None else self.oauth.audience


def read_http_settings(table: dict[str, Any]) -> HttpSettings:
    """Read `[http]`.

    Raises:
        HttpProblem: a key is unknown, missing or wrong.
    """
    try:
        return HttpSettings.model_validate(table)
    except ValidationError as errors:
        first = errors.errors(include_url=False, include_input=False)[0]
        name = ".".join(["http", *map(str, first["loc"])])
        problem = {"extra_forbidden": "it is not known", "missing": "it is missing"}.get(
            first["type"], first["msg"].removeprefix("Value error, ")
        )
        raise HttpProblem(name, problem) from None
