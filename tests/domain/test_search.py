"""The shipped rules, searched exhaustively in small worlds: what they hold, and what they need to hold.

Each world is every interleaving of two sessions, a provider that is late or lossy, lookups that answer too
early, keys that end, receipts that come late, words that are said twice, and people (`search/worlds.py`).
The decisions are the shipped functions themselves. `COUNTERFOIL_LONG=1` searches larger worlds as well,
and every cell of the table of assumptions; `-s` shows how much was explored, and every trace.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from crash.sessions import LONG
from domain.search.deciding import RULES
from domain.search.explorer import Found, explore
from domain.search.faults import FAULTS, Fault
from domain.search.rules import load_rules
from domain.search.worlds import APART, ASSUMPTIONS, CELLS, DROPPED, WIDE, WORLDS, Dropped, World

GUARANTEES = (Path(__file__).parents[2] / "docs" / "guarantees.md").read_text(encoding="utf-8")

wide = pytest.mark.skipif(not LONG, reason="COUNTERFOIL_LONG=1 searches this too")


def holds_in(world: World) -> None:
    found = explore(world, load_rules())
    print(f"\n{found}")
    assert found.rule is None, str(found)
    assert found.situations > 200, "the world has shrunk to nothing"


def is_needed(dropped: Dropped) -> Found:
    found = explore(dropped.without, load_rules())
    print(f"\nWithout {dropped.assumption} ({ASSUMPTIONS[dropped.assumption]}): {found}")
    assert found.rule == dropped.costs, str(found)
    assert len(found.trace) > 1
    return found


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())
def test_no_rule_is_broken_whatever_happens_in(world: World) -> None:
    holds_in(world)


@wide
@pytest.mark.parametrize("world", WIDE.values(), ids=WIDE.keys())
def test_no_rule_is_broken_whatever_happens_in_the_larger(world: World) -> None:
    holds_in(world)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_search_alone_finds_that(fault: Fault) -> None:
    found = explore(WORLDS[fault.world], fault.rules())
    print(f"\nPlanted: {fault.name}: {found}")
    assert found.rule == fault.rule, str(found)


@pytest.mark.parametrize("dropped", DROPPED, ids=lambda dropped: dropped.assumption)
def test_something_is_lost_without(dropped: Dropped) -> None:
    found = is_needed(dropped)
    assert "\n".join(found.trace) in GUARANTEES, "the page tells another way to lose it"


def test_the_settle_time_has_to_cover_sending_arriving_and_showing_together() -> None:
    found = explore(APART, load_rules())
    print(f"\n{found}")
    assert found.rule == "no effect happens twice", str(found)


@wide
@pytest.mark.parametrize("dropped", CELLS, ids=lambda dropped: dropped.without.name)
def test_something_is_lost_in_the_world(dropped: Dropped) -> None:
    is_needed(dropped)


def test_every_assumption_is_dropped_once_in_a_world_that_is_sound_with_it() -> None:
    assert [dropped.assumption for dropped in DROPPED] == list(ASSUMPTIONS)
    assert all(dropped.assumption in dropped.world.holds for dropped in (*DROPPED, *CELLS))


def test_every_rule_that_a_fault_or_a_lost_assumption_breaks_is_a_rule_of_the_search() -> None:
    assert {fault.rule for fault in FAULTS} | {dropped.costs for dropped in DROPPED} <= set(RULES)


def test_a_planted_fault_leaves_the_shipped_rules_as_they_are() -> None:
    shipped = load_rules()
    faulty = FAULTS[0].rules()
    assert faulty.events.evolve is not shipped.events.evolve
    assert load_rules().events.evolve is shipped.events.evolve
    assert faulty.begin.Operation is shipped.begin.Operation


def test_a_fault_is_planted_only_where_its_line_is_found_once() -> None:
    with pytest.raises(AssertionError, match="holds 'no such line' 0 times"):
        load_rules(module="states", line="no such line")


def test_a_search_comes_to_the_same_each_time() -> None:
    small = replace(WORLDS["safe"], horizon=0)
    assert explore(small, load_rules()) == explore(small, load_rules())
