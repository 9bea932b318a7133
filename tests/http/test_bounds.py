"""Buckets of requests, keys of an issuer, ids of sessions, counts: what they hold, and for how long."""

import json
from typing import Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from counterfoil.server.http.draining import Drain
from counterfoil.server.http.key_set import FRESH_SECONDS, STALE_SECONDS, IssuerUnreachable, KeySet
from counterfoil.server.http.metrics import Metrics
from counterfoil.server.http.rates import Rates
from counterfoil.server.http.sessions import new_session_id, session_of
from counterfoil.store.counting import StateCount
from counterfoil.store.errors import JournalUnavailable

pytestmark = pytest.mark.anyio


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def test_a_bucket_lets_a_burst_through_and_is_filled_again() -> None:
    clock = Clock()
    rates = Rates(per_second=2, burst=3, clock=clock)
    assert [rates.wait_seconds(("n", "a")) for _ in range(4)] == [0, 0, 0, 0.5]
    assert rates.wait_seconds(("n", "b")) == 0
    assert rates.wait_seconds(("other", "a")) == 0
    clock.seconds += 0.5
    assert [rates.wait_seconds(("n", "a")) for _ in range(2)] == [0, 0.5]
    clock.seconds += 1_000
    assert [rates.wait_seconds(("n", "a")) for _ in range(4)] == [0, 0, 0, 0.5]


def test_no_rate_is_none_and_no_more_buckets_are_kept_than_are_bearable() -> None:
    unbounded = Rates(per_second=0, burst=1, clock=Clock())
    assert {unbounded.wait_seconds(("n", "a")) for _ in range(100)} == {0}
    rates = Rates(per_second=1, burst=1, clock=Clock())
    for number in range(10_001):
        assert rates.wait_seconds(("n", str(number))) == 0
    assert rates.wait_seconds(("n", "10000")) > 0
    assert rates.wait_seconds(("n", "0")) == 0


class Published(KeySet):
    """Keys that are published here; counts how often they were asked for."""

    def __init__(self, clock: Clock) -> None:
        super().__init__("https://issuer.example/jwks", clock=clock)
        self.names = ["k1"]
        self.asked = 0
        self.is_up = True

    async def _content(self) -> bytes:
        self.asked += 1
        if not self.is_up:
            raise httpx2.ConnectError("down")
        return json.dumps({"keys": [{**KEY, "kid": name} for name in self.names]}).encode()


KEY: dict[str, Any] = jwt.algorithms.ECAlgorithm.to_jwk(
    ec.generate_private_key(ec.SECP256R1()).public_key(), as_dict=True
)


async def test_keys_are_asked_for_once_while_they_are_fresh() -> None:
    clock = Clock()
    keys = Published(clock)
    for _ in range(5):
        assert await keys.key("k1") is not None
    assert keys.asked == 1
    clock.seconds += FRESH_SECONDS + 1
    assert await keys.key("k1") is not None
    assert keys.asked == 2


async def test_a_new_key_is_found_at_once_and_made_up_ones_cost_one_look_in_a_while() -> None:
    clock = Clock()
    keys = Published(clock)
    assert await keys.key("k1") is not None
    clock.seconds += 11
    keys.names = ["k2"]
    assert await keys.key("k2") is not None
    assert await keys.key("k1") is None
    for number in range(50):
        assert await keys.key(f"made up {number}") is None
    assert keys.asked == 2


async def test_keys_outlive_their_issuers_outage_for_an_hour_and_no_longer() -> None:
    clock = Clock()
    keys = Published(clock)
    assert await keys.key("k1") is not None
    keys.is_up = False
    clock.seconds += STALE_SECONDS
    assert await keys.key("k1") is not None
    clock.seconds += 1
    with pytest.raises(IssuerUnreachable):
        await keys.key("k1")
    keys.is_up = True
    clock.seconds += 11
    assert await keys.key("k1") is not None


async def test_shared_secrets_and_keys_for_other_uses_are_no_keys() -> None:
    keys = Published(Clock())
    KEY_FOR_ENCRYPTION = {**KEY, "use": "enc", "kid": "k2"}

    async def content() -> bytes:
        shared = {"kty": "oct", "k": "c2VjcmV0", "kid": "k1"}
        return json.dumps({"keys": [shared, KEY_FOR_ENCRYPTION, "no key", {"kty": "XX"}]}).encode()

    keys._content = content  # type: ignore[method-assign]
    assert await keys.key("k1") is None
    assert await keys.key("k2") is None
    assert await keys.key(None) is None


@pytest.mark.parametrize(
    ("info", "client"),
    [
        ({"name": "gemini", "version": "7"}, ("gemini", "7")),
        ({"name": "géminï", "version": "☃"}, ("géminï", "☃")),
        ({"name": "x" * 201, "version": "7"}, (None, "7")),
        ({"name": "\x1b[31m", "version": 7}, (None, None)),
        ({}, (None, None)),
        ("no object", (None, None)),
        ({"name": "☃" * 200, "version": "☃" * 200}, (None, None)),
    ],
)
def test_the_id_of_a_session_holds_what_its_client_is_called(info: Any, client: tuple[Any, Any]) -> None:
    session_id = new_session_id({"clientInfo": info})
    assert session_id.isascii()
    assert len(session_id) < 1_300
    session = session_of(session_id)
    assert session is not None
    assert (session.client, session.client_version) == client
    assert new_session_id({"clientInfo": info}) != session_id


@pytest.mark.parametrize("session_id", [None, "", "1", "cf1.short.", "cf1." + "a" * 22 + ".%%", "x" * 5000])
def test_what_is_no_id_of_a_session_names_no_connection(session_id: str | None) -> None:
    assert session_of(session_id) is None


class Counted:
    """A journal whose operations are counted; None where it cannot be reached."""

    def __init__(self) -> None:
        self.asked = 0
        self.counts: list[StateCount] | None = [
            StateCount(namespace="alpha", state="in_doubt", number=2, oldest=1_000_000),
            StateCount(namespace="beta", state="in_doubt", number=3, oldest=4_000_000),
            StateCount(namespace="beta", state="succeeded", number=1, oldest=0),
        ]

    async def count_operations(self) -> tuple[list[StateCount], int]:
        """Give the counts, as of second 10."""
        self.asked += 1
        if self.counts is None:
            raise JournalUnavailable("gone", fix="wait")
        return self.counts, 10_000_000


async def test_operations_are_counted_once_in_a_while_and_named_by_tenant_for_the_operator_only() -> None:
    journal = Counted()

    async def opened() -> Any:
        return journal

    metrics = Metrics(opened, Drain(), version="1")
    named = (await metrics.page(by_namespace=True)).decode()
    summed = (await metrics.page(by_namespace=False)).decode()
    assert journal.asked == 1
    assert 'counterfoil_operations_in_doubt{namespace="beta"} 3.0' in named
    assert 'counterfoil_operations{namespace="alpha",state="succeeded"} 0.0' in named
    assert 'counterfoil_oldest_operation_age_seconds{namespace="beta",state="in_doubt"} 6.0' in named
    assert "alpha" not in summed
    assert "beta" not in summed
    assert "counterfoil_operations_in_doubt 5.0" in summed
    assert 'counterfoil_oldest_operation_age_seconds{state="in_doubt"} 9.0' in summed
    assert 'age_seconds{state="succeeded"}' not in summed


async def test_what_a_worker_knows_of_itself_is_told_without_a_journal() -> None:
    journal = Counted()
    journal.counts = None

    async def opened() -> Any:
        return journal

    metrics = Metrics(opened, Drain(), version="1")
    metrics.heard("begin_operation", "perform", 0.004)
    page = (await metrics.page(by_namespace=True)).decode()
    assert "counterfoil_journal_up 0.0" in page
    assert "counterfoil_operations{" not in page
    assert 'counterfoil_call_seconds_bucket{le="0.005",tool="begin_operation"} 1.0' in page
