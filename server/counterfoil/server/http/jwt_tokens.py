"""Tells whose a JWT of the configured issuer is: its signature, issuer, audience and times all hold."""

import re
from collections.abc import Mapping
from typing import Any

import jwt
from jwt.exceptions import PyJWTError

from counterfoil.server.http.key_set import KeySet
from counterfoil.server.http.principals import Principal, PrincipalToken
from counterfoil.server.http.settings import OAuthSettings
from counterfoil.server.logs import logger
from counterfoil.server.scopes import SCOPES
from counterfoil.server.settings import is_namespace

__all__ = ["JwtTokens"]

_FORM = re.compile(r"[A-Za-z0-9_-]{1,4000}(\.[A-Za-z0-9_-]{1,12000}){2}")
_LONGEST_SUBJECT = 150
_REQUIRED = ("exp", "iss", "aud", "sub")
_TIMES = ("exp", "nbf", "iat")


class JwtTokens:
    """Checks the JWTs of one issuer for one audience."""

    def __init__(self, settings: OAuthSettings, *, audience: str, keys: KeySet) -> None:
        self._settings = settings
        self._audience = audience
        self._keys = keys

    async def verify(self, token: str) -> PrincipalToken | None:
        """Give whom a token stands for; None where it counts for nobody here.

        Raises:
            IssuerUnreachable: it cannot be told now.
        """
        try:
            return self._principal_token(await self._claims(token))
        except _RefusedError as refused:
            logger.info("a JWT was refused: %s", refused)
        except PyJWTError as error:
            logger.info("a JWT was refused: %s", type(error).__name__)
        return None

    async def _claims(self, token: str) -> Mapping[str, Any]:
        if not _FORM.fullmatch(token):
            raise _RefusedError("it is none")
        header = jwt.get_unverified_header(token)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in self._settings.algorithms:
            raise _RefusedError("its algorithm is not allowed")
        key = await self._keys.key(key_id if isinstance(key_id, str) else None)
        if key is None:
            raise _RefusedError("its key is not known")
        if key.algorithm not in (None, algorithm):
            raise _RefusedError("its key is for another algorithm")
        claims: dict[str, Any] = jwt.decode(
            token,
            key.public,
            algorithms=[algorithm],
            audience=self._audience,
            issuer=self._settings.issuer,
            leeway=self._settings.leeway_seconds,
            options={"require": list(_REQUIRED)},
        )
        for name in _TIMES:
            # PyJWT takes a text of digits too; RFC 7519 (section 2) has numbers.
            if isinstance(claims.get(name, 0), bool) or not isinstance(claims.get(name, 0), int | float):
                raise _RefusedError(f"its {name} is no number")
        return claims

    def _principal_token(self, claims: Mapping[str, Any]) -> PrincipalToken:
        subject, namespace = claims["sub"], claims.get(self._settings.namespace_claim)
        if not (isinstance(subject, str) and subject.isprintable() and 0 < len(subject) <= _LONGEST_SUBJECT):
            raise _RefusedError("its subject cannot be a principal")
        if not isinstance(namespace, str) or not is_namespace(namespace):
            raise _RefusedError("it names no namespace")
        scopes = [scope for scope in _scopes_in(claims) if scope in SCOPES]
        principal = Principal(
            name=f"oauth:{subject}",
            namespace=namespace,
            scopes=frozenset(scopes),
            is_from_oauth=True,
        )
        return PrincipalToken(
            token="",
            client_id=str(claims.get("client_id") or claims.get("azp") or subject)[:200],
            scopes=scopes,
            subject=subject,
            principal=principal,
        )


class _RefusedError(Exception):
    """Why a token counts for nobody; told to the log only."""


def _scopes_in(claims: Mapping[str, Any]) -> list[str]:
    """Read `scope` (RFC 9068), or `scp`, as some issuers call it."""
    given = claims.get("scope", claims.get("scp", ""))
    if isinstance(given, str):
        return given.split()
    return [scope for scope in given if isinstance(scope, str)] if isinstance(given, list) else []
