"""Lets the operator's scraper in at `/metrics`, and nobody else."""

import hashlib
import hmac

from starlette.requests import Request
from starlette.responses import Response

from counterfoil.server.http.metrics import CONTENT_TYPE_LATEST, Metrics

__all__ = ["Scraping"]


class Scraping:
    """Answers `/metrics`.

    Whoever brings the operator's token for it sees every namespace by its name. Where it is open, anybody
    sees the sums over all of them, and no tenant's name.
    """

    def __init__(self, metrics: Metrics, *, token_sha256: str | None, is_open: bool) -> None:
        self._metrics = metrics
        self._token_sha256 = token_sha256
        self._is_open = is_open

    async def answer(self, request: Request) -> Response:
        """Give the page, or 401 to whoever may not see it."""
        is_operator = self._brings_token(request)
        if not (is_operator or self._is_open):
            return Response(status_code=401, headers={"WWW-Authenticate": "Bearer"})
        page = await self._metrics.page(by_namespace=is_operator)
        return Response(page, headers={"Content-Type": CONTENT_TYPE_LATEST})

    def _brings_token(self, request: Request) -> bool:
        if self._token_sha256 is None:
            return False
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        digest = hashlib.sha256(token.strip().encode()).hexdigest()
        return scheme.lower() == "bearer" and hmac.compare_digest(digest, self._token_sha256)
