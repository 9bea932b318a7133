"""Fetches the public keys of a token issuer, and keeps them for a bounded time."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import httpx2
from jwt import PyJWK
from jwt.exceptions import PyJWTError
from msgspec import Struct

from counterfoil.server.logs import logger
from counterfoil.store.errors import JournalUnavailable

__all__ = ["IssuerKey", "IssuerUnreachable", "KeySet"]

FRESH_SECONDS = 300
"""How long a key that the issuer has withdrawn may still count while the issuer can be reached."""

STALE_SECONDS = 3_600
"""How long keys count while it cannot be."""

_LEAST_SECONDS_BETWEEN = 10
"""A key that is not known is looked for at once, and a flood of made-up ones not more often than this."""

_TIMEOUT_SECONDS = 5
_MOST_BYTES = 256 * 1024
_MOST_KEYS = 100


class IssuerUnreachable(JournalUnavailable):
    """No keys are there to check a token with, and none can be had now."""

    def __init__(self) -> None:
        super().__init__(
            "the issuer's keys cannot be had, so no token can be checked; nothing was recorded",
            fix="send the call again; the operator sees the cause in the server's log",
            retryable=True,
        )


class IssuerKey(Struct, frozen=True, kw_only=True):
    """One public key, and the only algorithm that it is for, where the issuer says so."""

    public: Any
    algorithm: str | None


class KeySet:
    """The keys at one address. `clock` counts seconds and never goes back."""

    def __init__(self, url: str, *, clock: Callable[[], float]) -> None:
        self._url = url
        self._clock = clock
        self._lock = anyio.Lock()
        self._keys: Mapping[str | None, tuple[IssuerKey, ...]] = {}
        self._fetched_at: float | None = None
        self._tried_at: float | None = None

    async def key(self, key_id: str | None) -> IssuerKey | None:
        """Give the key of this id, or the only one there is where none is named; None where there is none.

        Raises:
            IssuerUnreachable: there are no keys that still count, and none can be had.
        """
        found = self._find(key_id)
        if found is None or self._age() > FRESH_SECONDS:
            async with self._lock:
                if self._is_due(key_id):
                    await self._fetch()
            found = self._find(key_id)
        if self._age() > STALE_SECONDS:
            raise IssuerUnreachable
        return found

    def _find(self, key_id: str | None) -> IssuerKey | None:
        if key_id is None:
            keys = [key for several in self._keys.values() for key in several]
        else:
            keys = list(self._keys.get(key_id, ()))
        return keys[0] if len(keys) == 1 else None

    def _age(self) -> float:
        return float("inf") if self._fetched_at is None else self._clock() - self._fetched_at

    def _is_due(self, key_id: str | None) -> bool:
        """Tell whether to ask now; another caller may have asked while this one waited."""
        if self._find(key_id) is not None and self._age() <= FRESH_SECONDS:
            return False
        return self._tried_at is None or self._clock() - self._tried_at >= _LEAST_SECONDS_BETWEEN

    async def _fetch(self) -> None:
        self._tried_at = self._clock()
        try:
            content = await self._content()
            document = json.loads(content)
            self._keys = _keys_in(document)
        except (httpx2.HTTPError, OSError, ValueError, TimeoutError) as error:
            logger.warning("the issuer's keys could not be fetched: %s", type(error).__name__)
            return
        self._fetched_at = self._clock()

    async def _content(self) -> bytes:
        content = bytearray()
        with anyio.fail_after(_TIMEOUT_SECONDS):
            async with (
                httpx2.AsyncClient(timeout=_TIMEOUT_SECONDS, follow_redirects=False) as client,
                client.stream("GET", self._url, headers={"accept": "application/json"}) as response,
            ):
                if response.status_code != 200:
                    raise ValueError(f"status {response.status_code}")
                async for chunk in response.aiter_bytes():
                    content += chunk
                    if len(content) > _MOST_BYTES:
                        raise ValueError("too large")
        return bytes(content)


def _keys_in(document: Any) -> Mapping[str | None, tuple[IssuerKey, ...]]:
    """Read the public keys for signatures in a JWKS; one that is not understood is left out.

    Raises:
        ValueError: it is none.
    """
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise ValueError("no JWKS")
    keys: dict[str | None, tuple[IssuerKey, ...]] = {}
    for entry in entries[:_MOST_KEYS]:
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig" or entry.get("kty") == "oct":
            continue
        try:
            public = PyJWK(entry).key
        except PyJWTError:
            continue
        algorithm = entry.get("alg")
        key = IssuerKey(public=public, algorithm=algorithm if isinstance(algorithm, str) else None)
        name = entry.get("kid") if isinstance(entry.get("kid"), str) else None
        keys[name] = (*keys.get(name, ()), key)
    return keys
