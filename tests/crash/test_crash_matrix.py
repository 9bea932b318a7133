"""Agents and servers are killed wherever they can be, against every kind of performing system.

The whole product, in shares that can run side by side (each prints what it met, and what was wrong):
`PYTHONPATH=tests uv run python -m crash.matrix --whole --share 1/2`; on a database, the same with
`--journal postgresql`.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from itertools import combinations, product
from pathlib import Path
from typing import Any

from counterfoil.store.failpoints import FAILPOINTS
from crash.agent import CALLS, POINTS
from crash.kills import (
    PLACES,
    SECOND_KILLS,
    Kill,
    Scenario,
    System,
    server_kills,
    short_choice,
    single_kills,
    systems,
)
from crash.verdicts import judge
from postgres_cluster import Cluster

TESTS = Path(__file__).parents[1]
STORE = TESTS.parent / "store"
WAIT_SECONDS = 600
"""Bound on the short choice; on two quiet cores it takes less than one minute."""

SHARES = 2

PART, PARTS = 7, 29
"""Which part of the short choice runs on PostgreSQL as well: one that dies at every failpoint."""


def test_the_matrix_holds_every_failpoint_of_the_journal() -> None:
    """A failpoint that is added has to be died at: `PLACES` says at which passings."""
    used = {
        name
        for file in STORE.rglob("*.py")
        for name in re.findall(r"\bfailpoint\(\s*[\"'](\w+)[\"']", file.read_text(encoding="utf-8"))
    }
    assert used == set(FAILPOINTS)
    assert set(PLACES) == set(FAILPOINTS)


def test_every_death_leaves_one_effect_and_a_true_report_or_a_flagged_question() -> None:
    """C-1, C-3, C-4: zero double effects, zero lost receipts, zero wrong reports; every death was met.

    Reported: langchain-ai/langgraph#8039, crewAIInc/crewAI#5802, crewAIInc/crewAI#5822, recoupable/app#1918.
    """
    summaries = run_shares(*([f"--share={part + 1}/{SHARES}"] for part in range(SHARES)))
    ends: Counter[str] = Counter()
    met: Counter[str] = Counter()
    for summary in summaries:
        ends.update(summary["ends"])
        for deaths, count in summary["deaths"].items():
            met.update(dict.fromkeys(deaths.split(" and "), count))
    assert set(ends) == {"succeeded, skip: already_succeeded", "in_doubt, ask: unresolved"}
    unmet = {f"agent {point}" for point in POINTS} | {f"server at {place}" for place in server_kills()}
    assert unmet - set(met) == set()


def run_shares(*arguments: list[str]) -> list[dict[str, Any]]:
    """Run shares of the matrix side by side, none of which may find a fault, and give their summaries."""
    shares = [
        subprocess.Popen(
            [sys.executable, "-m", "crash.matrix", *given],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )
        for given in arguments
    ]
    try:
        lines = [share.communicate(timeout=WAIT_SECONDS)[0].splitlines() for share in shares]
    finally:
        for share in shares:
            share.kill()
            share.wait(WAIT_SECONDS)
    faults = [fault for share in lines for fault in share[:-1]]
    assert faults == []
    assert [share.returncode for share in shares] == [0] * len(shares)
    return [json.loads(share[-1]) for share in lines]


def test_a_part_of_the_deaths_ends_as_well_on_postgresql(cluster: Cluster) -> None:
    """The same scenarios, on a database; every kind of place to die is among them."""
    database = cluster.new_database()
    try:
        url = cluster.url(database)
        (summary,) = run_shares([f"--share={PART}/{PARTS}", f"--journal={url}"])
    finally:
        cluster.drop_database(database)
    assert summary["scenarios"] == len(short_choice()[PART - 1 :: PARTS])
    assert set(summary["ends"]) == {"succeeded, skip: already_succeeded", "in_doubt, ask: unresolved"}
    met = {death.split("=")[0] for deaths in summary["deaths"] for death in deaths.split(" and ")}
    assert {f"server at {place}" for place in PLACES} <= met


def test_the_short_choice_lets_every_two_values_meet_that_can() -> None:
    """Each single death with each second one and each trait of a system, and the traits with each other."""

    def values(scenario: Scenario) -> list[str]:
        system = scenario.system
        traits = [f"{name} {getattr(system, name)}" for name in System.__slots__]
        return [f"1 {scenario.kill}", f"2 {scenario.kill_again}", *traits]

    singles = single_kills()
    possible = [
        Scenario(kill=kill, kill_again=again, system=system)
        for kill, again, system in product(singles, SECOND_KILLS, systems())
        if system.can_meet(kill)
    ]
    wanted = {pair for scenario in possible for pair in combinations(values(scenario), 2)}
    chosen = {pair for scenario in short_choice() for pair in combinations(values(scenario), 2)}
    assert sorted(wanted - chosen) == []


SYSTEM = System(first="loses", lookup="at once", repeat="unsafe", recovers=(0.0, "by the plan"))
DONE: dict[str, Any] = {
    "state": "succeeded",
    "next": "skip",
    "reason": "already_succeeded",
    "attempt": 1,
    "attempts": [{"attempt": 1}],
    "receipts": [{"external_id": "ref-1", "accepted": True}],
}
ASKED = {**DONE, "state": "in_doubt", "next": "ask", "reason": "unresolved", "receipts": []}
GRANT = {
    "tool": "begin_operation",
    "given": {},
    "answer": {"next": "perform", "attempt": 1, "replayed": False},
}
RECEIPT = {
    "tool": "record_receipt",
    "given": {"attempt": 1},
    "answer": {"next": "continue", "state": "succeeded", "receipt": {"external_id": "ref-1"}},
}


def judged(
    checked: dict[str, Any],
    *notes: dict[str, Any],
    effects: tuple[str, ...] = ("ref-1",),
    passed_seconds: float = 0.0,
    **system: Any,
) -> list[str]:
    """Judge a history that ends as `checked`."""
    end = {"end": checked["next"]}
    last = {"checked": checked, "verified": {"operations": 1, "faults": []}}
    fields = {**{name: getattr(SYSTEM, name) for name in System.__slots__}, **system}
    scenario = Scenario(kill=Kill(), kill_again=Kill(), system=System(**fields))
    return judge(scenario, [*notes, end, last], list(effects), passed_seconds=passed_seconds)[0]


def test_a_judge_that_saw_nothing_wrong_says_so() -> None:
    assert judged(DONE, GRANT, RECEIPT) == []
    assert judged(ASKED, GRANT, lookup="none") == []
    assert judged(ASKED, GRANT, lookup="none", repeat="keyed, short", passed_seconds=601) == []


def test_a_judge_sees_each_fault() -> None:
    """Two effects, a lost receipt, wrong reports, and questions that nobody need be asked."""
    assert judged(DONE, GRANT, RECEIPT, effects=("ref-1", "ref-2")) == ["2 effects"]
    lost = judged({**ASKED, "attempt": 2}, GRANT, RECEIPT, lookup="none")
    assert lost == ["acknowledged ['ref-1'], kept []"]
    assert judged(DONE, GRANT, GRANT) == ["an attempt was granted twice: Counter({1: 2})"]
    invented = judged(DONE, effects=())
    assert invented == ["receipts of no effect: ['ref-1']", "reported as done, and nothing took place"]
    open_end = judged({**DONE, "state": "failed", "next": "begin", "reason": "retry", "receipts": []})
    assert open_end[0] == "neither settled nor flagged: failed, begin: retry"
    assert judged(ASKED, GRANT) == ["flagged, though it can be looked up"]
    assert judged(ASKED, GRANT, lookup="none", repeat="safe") == ["flagged, though it could be repeated"]
    alive = judged(ASKED, GRANT, lookup="none", repeat="keyed, short", passed_seconds=10)
    assert alive == ["flagged while its key was alive"]
    reported = judged(
        ASKED, GRANT, {**RECEIPT, "answer": {"state": "failed", "next": "continue"}}, lookup="none"
    )
    assert reported == ["flagged though its newest attempt was reported"]
    never = judged({**ASKED, "attempts": []}, lookup="none")
    assert never == ["flagged though nothing was ever granted"]
    assert judged(DONE, GRANT, {"end": "ask"}, RECEIPT) == [
        "a person was asked about what was then settled without one"
    ]


def test_an_agent_has_a_point_before_behind_and_after_each_call() -> None:
    assert {f"{moment} {tool}" for tool in CALLS for moment in ("before", "behind", "after")} < set(POINTS)
