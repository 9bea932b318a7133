"""Fixtures that every test may use."""

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from crash.sessions import LONG
from journals import kept_at
from postgres_cluster import Cluster, cluster_or_skip

# How long an example takes says how busy the machine is, and nothing of what is tested.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio, the one event loop that the server runs on."""
    return "asyncio"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A server of PostgreSQL for the whole session, started when a test first asks for it."""
    with cluster_or_skip() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> Iterator[str]:
    """Keep the journals of a test in each database in turn, and name it.

    A test that takes this fixture is a conformance test: it says what holds whatever the database is.
    """
    name = str(request.param)
    if name == "sqlite":
        yield name
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    with cluster.lending() as place, kept_at(place):
        yield name


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out on PostgreSQL what speaks of SQLite's file, and most of what is many and decided above it."""
    left_out: list[pytest.Item] = []
    passed: Counter[str] = Counter()
    for item in items:
        if not _is_on_postgresql(item):
            continue
        sample = item.get_closest_marker("one_in")
        if item.get_closest_marker("sqlite_only") is not None:
            left_out.append(item)
        elif sample is not None and not LONG:
            place = item.nodeid.partition("[")[0]
            if passed[place] % int(sample.args[0]):
                left_out.append(item)
            passed[place] += 1
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


def _is_on_postgresql(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and callspec.params.get("store") == "postgresql"
