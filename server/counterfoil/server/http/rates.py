"""Bounds how many requests a principal sends: a bucket of tokens each, in this worker's memory.

Behind a load balancer a principal may send as much to each worker. That bounds what one runaway agent takes
from the others; what a tenant may use in all is for the proxy to bound.
"""

import math
from collections import OrderedDict
from collections.abc import Callable

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from counterfoil.server.http.answers import too_many
from counterfoil.server.http.principals import principal_of
from counterfoil.server.logs import logger

__all__ = ["Rates"]

_MOST_KEPT = 10_000
"""The least recent is forgotten first, and begins anew with a full bucket."""


class Rates:
    """The buckets of all principals: `burst` at once, refilled by `per_second`. `clock` counts seconds."""

    def __init__(self, *, per_second: float, burst: int, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._clock = clock
        self._buckets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def wait_seconds(self, key: tuple[str, str]) -> float:
        """Take one request out of a bucket; where it is empty, give how long until there is one again."""
        if self._per_second == 0:
            return 0
        now = self._clock()
        level, then = self._buckets.pop(key, (self._burst, now))
        level = min(self._burst, level + (now - then) * self._per_second)
        is_allowed = level >= 1
        self._buckets[key] = (level - 1 if is_allowed else level, now)
        if len(self._buckets) > _MOST_KEPT:
            self._buckets.popitem(last=False)
        return 0 if is_allowed else (1 - level) / self._per_second

    def bounding(self, app: ASGIApp) -> ASGIApp:
        """Give an application that answers 429 to whoever sends too many, before it reads what they send."""

        async def bounded(scope: Scope, receive: Receive, send: Send) -> None:
            principal = principal_of(Request(scope))
            seconds = self.wait_seconds((principal.namespace, principal.name))
            if seconds > 0:
                logger.info("a request was refused: its principal sends too many")
                await too_many(max(1, math.ceil(seconds)))(scope, receive, send)
                return
            await app(scope, receive, send)

        return bounded
