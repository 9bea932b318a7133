"""Random calls of several callers on a few operations, with time, crashes and repeats, against a small model.

Longer, with the same code: `COUNTERFOIL_LONG=1 uv run pytest tests/stateful`.
"""

from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings

from crash.sessions import LONG
from postgres_cluster import Cluster
from stateful.model import TRAITS
from stateful.run_machine import WholeMachine

SETTINGS = settings(
    max_examples=250 if LONG else 20,
    stateful_step_count=60 if LONG else 40,
    deadline=None,
    derandomize=not LONG,
    suppress_health_check=list(HealthCheck),
)


class PlainMachine(WholeMachine):
    """Three operations with nothing special about them."""


class PermittedAndUndone(WholeMachine):
    """One that needs a person's grant, and one that undoes the first."""

    traits: ClassVar = ("plain", "gated", "undoing")


class VerifiedAndWaiting(WholeMachine):
    """One that a probe has to confirm, and one that waits for the first."""

    traits: ClassVar = ("plain", "strict", "waiting")


class LimitedAndEnding(WholeMachine):
    """One that may be attempted once, and one that is waited for until a deadline."""

    traits: ClassVar = ("plain", "limited", "ending")


MACHINES = (PlainMachine, PermittedAndUndone, VerifiedAndWaiting, LimitedAndEnding)

TestPlain = PlainMachine.TestCase
TestPermittedAndUndone = PermittedAndUndone.TestCase
TestVerifiedAndWaiting = VerifiedAndWaiting.TestCase
TestLimitedAndEnding = LimitedAndEnding.TestCase
TestPlain.settings = TestPermittedAndUndone.settings = SETTINGS
TestVerifiedAndWaiting.settings = TestLimitedAndEnding.settings = SETTINGS


class InPostgresql(WholeMachine):
    """The same in a database of PostgreSQL: a plain operation, a gated one, and one that undoes the first."""

    traits: ClassVar = ("plain", "gated", "undoing")


@pytest.fixture
def in_postgresql(cluster: Cluster) -> None:
    """Let the machines lay their journals there."""
    InPostgresql.lending = cluster.lending


TestInPostgresql = pytest.mark.usefixtures("in_postgresql")(InPostgresql.TestCase)
TestInPostgresql.settings = settings(SETTINGS, max_examples=250 if LONG else 8)


def test_everything_special_about_an_operation_is_tried() -> None:
    assert {trait for machine in MACHINES for trait in machine.traits} == set(TRAITS)
