"""Gives `/metrics` in Prometheus' words: this worker's calls, and the journal's operations by state.

The calls are this worker's own, so each worker is scraped. The operations are the journal's, the same from
every worker. Counting them reads an index of all, so a count is given again for a while: the longer it took,
the longer.
"""

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from counterfoil.server.http.draining import Drain
from counterfoil.server.logs import logger
from counterfoil.store.counting import StateCount
from counterfoil.store.domain.model import State
from counterfoil.store.errors import Fault

if TYPE_CHECKING:
    from counterfoil.store.journal import Journal

__all__ = ["CONTENT_TYPE_LATEST", "Metrics"]

_LEAST_FRESH_SECONDS = 10
_SHARE = 50
"""A count that took a second is given again for so many: counting takes 2 % of a reader at most."""

_OPEN = (State.PLANNED, State.IN_PROGRESS, State.IN_DOUBT, State.FAILED, State.DISPUTED)
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """What one worker knows of itself, and what it counts in the journal when somebody asks."""

    def __init__(self, journal: "Callable[[], Awaitable[Journal]]", drain: Drain, *, version: str) -> None:
        self._journal = journal
        self._own = CollectorRegistry()
        self._seconds = Histogram(
            "counterfoil_call_seconds",
            "How long calls of a tool took.",
            ["tool"],
            buckets=_BUCKETS,
            registry=self._own,
        )
        self._calls = Counter(
            "counterfoil_calls",
            "Calls of a tool by what they came to: the next of the answer, or the code of the fault.",
            ["tool", "outcome"],
            registry=self._own,
        )
        self._refused = Counter(
            "counterfoil_refused_requests",
            "Requests that were refused before they were served, by status.",
            ["status"],
            registry=self._own,
        )
        under_way = Gauge(
            "counterfoil_requests_under_way", "Requests that are being served.", registry=self._own
        )
        under_way.set_function(lambda: drain.under_way)
        build = Gauge("counterfoil_build", "Always 1.", ["version"], registry=self._own)
        build.labels(version).set(1)
        self._counts: list[StateCount] = []
        self._moment = 0
        self._fresh_until = 0.0

    def heard(self, tool: str, outcome: str, seconds: float) -> None:
        """Take note of a call that was answered."""
        self._seconds.labels(tool).observe(seconds)
        self._calls.labels(tool, outcome).inc()

    def refused(self, status: int) -> None:
        """Take note of a request that was not served."""
        self._refused.labels(str(status)).inc()

    async def page(self, *, by_namespace: bool) -> bytes:
        """Give the whole page; the journal's part by namespace, or summed over all of them.

        Where the journal cannot be read the rest is given all the same, and `counterfoil_journal_up` is 0.
        """
        journal = CollectorRegistry()
        up = Gauge("counterfoil_journal_up", "Whether the journal could be counted.", registry=journal)
        took = Gauge("counterfoil_journal_count_seconds", "How long counting took.", registry=journal)
        started = time.perf_counter()
        try:
            await self._count()
        except Fault as fault:
            logger.warning("the operations could not be counted: %s", fault.code)
            up.set(0)
        else:
            up.set(1)
            took.set(time.perf_counter() - started)
            self._fill(journal, by_namespace=by_namespace)
        return generate_latest(self._own) + generate_latest(journal)

    async def _count(self) -> None:
        if time.monotonic() < self._fresh_until:
            return
        started = time.monotonic()
        self._counts, self._moment = await (await self._journal()).count_operations()
        ended = time.monotonic()
        self._fresh_until = ended + max(_LEAST_FRESH_SECONDS, _SHARE * (ended - started))

    def _fill(self, registry: CollectorRegistry, *, by_namespace: bool) -> None:
        labels = ["namespace", "state"] if by_namespace else ["state"]
        operations = Gauge(
            "counterfoil_operations", "Operations by state, as they stand now.", labels, registry=registry
        )
        in_doubt = Gauge(
            "counterfoil_operations_in_doubt",
            "Operations whose effect may have happened: each waits for somebody to look.",
            labels[:-1],
            registry=registry,
        )
        ages = Gauge(
            "counterfoil_oldest_operation_age_seconds",
            "How long the longest unchanged operation of an open state has been so.",
            labels,
            registry=registry,
        )
        numbers: dict[tuple[str, ...], int] = defaultdict(int)
        oldest: dict[tuple[str, ...], int] = {}
        places = {(count.namespace,) if by_namespace else () for count in self._counts} or (
            set() if by_namespace else {()}
        )
        for place in places:
            for state in State:
                numbers[*place, state.value] = 0
        for count in self._counts:
            key = (*((count.namespace,) if by_namespace else ()), count.state)
            numbers[key] += count.number
            oldest[key] = min(count.oldest, oldest.get(key, count.oldest))
        for key, number in numbers.items():
            operations.labels(*key).set(number)
            if key[-1] == State.IN_DOUBT.value:
                (in_doubt.labels(*key[:-1]) if by_namespace else in_doubt).set(number)
            if key[-1] in _OPEN and key in oldest:
                ages.labels(*key).set(max(0, self._moment - oldest[key]) / 1_000_000)
