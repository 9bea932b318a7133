"""Every example tells its story to the end, and would not if the promise were broken."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
STORY_SECONDS = 60
"""Bound on one story; each takes about five seconds, two of them the wait for a lease."""

LAST_LINES = {
    "approval_expired": "renewed by the person: 1 release",
    "crash_before_receipt": "1 mail, 1 charge",
    "gateway": "2 people, 2 mails, and an agent that knew of no journal",
    "late_success": "looked up and reconciled: 1 call",
    "lost_memory": "12 customers, 12 mails, in the words of the first session",
    "model_changed": "permitted by the person: 3 invoices, 3 mails",
    "regenerated_text": "2 requests, the same to the byte; 1 letter",
    "saga": "2 bookings, each made once and undone once",
    "scheduled_twice": "2 slots, 2 posts",
}

FAULTS = {
    "without the rule nobody is asked": (
        "approval_expired/run.py",
        'action = "deploy.*"',
        'action = "mail.*"',
        "AssertionError: perform: first_attempt",
    ),
    "a lookup that finds nothing leads to a second mail": (
        "crash_before_receipt/outside.py",
        'if message["Message-Id"] == wanted), None)',
        "if False), None)",
        "AssertionError: 2 mails, not 1",
    ),
    "a provider that drops no repeats charges twice": (
        "crash_before_receipt/outside.py",
        'if charge["key"] == key), None)',
        "if False), None)",
        "AssertionError: 2 charges, not 1",
    ),
    "a lookup that misses the mail lets the gateway send another": (
        "gateway/mail_server.py",
        "found = book.entries(to=to, invoice=invoice)",
        "found = []",
        "AssertionError: the mail was sent a second time",
    ),
    "who takes what was given up for undone calls twice": (
        "late_success/run.py",
        'if begun["next"] == "perform":',
        'if begun["next"] in ("perform", "skip"):',
        "AssertionError: 2 calls, not 1",
    ),
    "a session that writes its own letters sends other words": (
        "lost_memory/agent.py",
        'effect["args"]["subject"], effect["payload"]',
        'effect["args"]["subject"], f"Dear {effect[\'target\']}, we regret that prices rise."',
        "AssertionError: not the words that were planned",
    ),
    "an undoing that cannot be found is done again": (
        "saga/outside.py",
        'return next((entry["number"] for entry in self._book.entries(reference=reference)), None)',
        "return None",
        "AssertionError: hotel: ['booked', 'cancelled', 'cancelled']",
    ),
    "a policy that is only to be reviewed blocks nothing": (
        "model_changed/counterfoil.toml",
        'policy = "block"',
        'policy = "review"',
        "AssertionError: performed under a policy that blocks",
    ),
    "a session that sends its own words is refused": (
        "regenerated_text/agent.py",
        'answer["recorded"]["payload"]',
        "text",
        "ValueError: another letter was posted under the key",
    ),
    "a session that sends under a key of its own makes a second letter": (
        "regenerated_text/agent.py",
        'text=recorded, key=answer["idempotency_key"]',
        "text=recorded, key=key",
        "AssertionError: the second request was not the first one",
    ),
    "a run that is named after the time of its start posts twice for one slot": (
        "scheduled_twice/agent.py",
        'step = {"run": f"night-report/{slot}",',
        'step = {"run": f"night-report/{begun[\'as_of\']}",',
        "AssertionError: 2 posts for one slot",
    ),
}


def tell(script: Path, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a story in a home and a temporary folder of its own."""
    temporary = folder / "tmp"
    temporary.mkdir()
    return subprocess.run(
        [sys.executable, str(script)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=STORY_SECONDS,
        check=False,
        cwd=folder,
        env={
            **os.environ,
            "HOME": str(folder),
            "TMPDIR": str(temporary),
            "COUNTERFOIL_NAMESPACE": "not the story's",
            "CLAUDE_CODE_SESSION_ID": "one-conversation-for-all-sessions",
        },
    )


TOLD_ELSEWHERE = {"frameworks"}
"""By test_frameworks.py, since each of its agents needs an environment of its own."""


def test_every_example_is_told_here() -> None:
    assert {path.parent.name for path in EXAMPLES.glob("*/run.py")} == {*LAST_LINES, *TOLD_ELSEWHERE}
    assert {path.parent.name for path in EXAMPLES.glob("*/README.md")} == {
        *LAST_LINES,
        *TOLD_ELSEWHERE,
        "deploy",
        # Held to what they promise by test_plugins.py and tests/clients.
        "plugins",
    }


@pytest.mark.parametrize("name", LAST_LINES)
def test_an_example_holds_what_it_promises(name: str, tmp_path: Path) -> None:
    told = tell(EXAMPLES / name / "run.py", tmp_path)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.splitlines()[-1] == LAST_LINES[name]
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_an_example_fails_where_the_promise_is_broken(fault: str, tmp_path: Path) -> None:
    file, right, wrong, said = FAULTS[fault]
    story = tmp_path / "story"
    for folder, place in ((Path(file).parent, story), ("shared", tmp_path / "shared")):
        shutil.copytree(EXAMPLES / folder, place, ignore=shutil.ignore_patterns("__pycache__"))
    source = (story / Path(file).name).read_text()
    assert source.count(right) == 1
    (story / Path(file).name).write_text(source.replace(right, wrong))
    told = tell(story / "run.py", tmp_path)
    assert told.returncode == 1
    assert said in told.stderr
