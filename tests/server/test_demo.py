"""The demo shows the promise, with nothing faked, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from counterfoil.server.demo.job import JOB
from counterfoil.server.demo.outcome import Effect, broken_promises

DEMO_SECONDS = 30
"""What the demo promises to take at most; it takes about a third of it."""
WAIT_SECONDS = 90
"""Bound on waiting for its end on a machine that is busy with other things."""

SCRIPT = "import sys; from counterfoil.server.demo import run_demo; sys.exit(run_demo(as_json={}))"

ONCE = tuple(
    Effect(
        key=step.key,
        label=step.label,
        with_counterfoil=1,
        naive_retry=2,
        next="skip" if step.can_be_looked_up else "ask",
        state="succeeded" if step.can_be_looked_up else "in_doubt",
    )
    for step in JOB
)


class Demo:
    """One running demo in a home and a temporary folder of its own."""

    def __init__(self, folder: Path, *, as_json: bool, **environment: str) -> None:
        self.home, self.temporary = folder / "home", folder / "tmp"
        self.home.mkdir(parents=True)
        self.temporary.mkdir()
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT.format(as_json)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, "HOME": str(self.home), "TMPDIR": str(self.temporary), **environment},
        )

    def end(self) -> tuple[int, str, str]:
        """Give exit code, stdout and stderr."""
        try:
            out, err = self.process.communicate(timeout=WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return self.process.returncode, out, err

    def assert_nothing_is_left(self) -> None:
        """Hold that neither a file nor a process remains."""
        assert list(self.temporary.iterdir()) == []
        assert list(self.home.iterdir()) == []
        named = str(self.temporary).encode()
        commands = [path for path in Path("/proc").glob("[0-9]*/cmdline") if named in _read(path)]
        assert commands == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Mapping[bool, tuple[Demo, tuple[int, str, str]]]:
    """Give the demo told as JSON (True) and as a story (False), run side by side."""
    hostile = {
        "GIT_DIR": "/nonexistent",
        "COUNTERFOIL_NAMESPACE": "not the demo's",
        "COUNTERFOIL_CONFIG": "/nonexistent",
        "CLAUDE_CODE_SESSION_ID": "one-conversation-for-all-agents",
    }
    demos = {
        as_json: Demo(tmp_path_factory.mktemp("demo"), as_json=as_json, **hostile)
        for as_json in (True, False)
    }
    return {as_json: (demo, demo.end()) for as_json, demo in demos.items()}


def test_every_effect_takes_place_once_where_a_naive_retry_repeats_it(told: Mapping[bool, Any]) -> None:
    code, out, err = told[True][1]
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["kept"] is True
    assert document["problems"] == []
    assert document["seconds"] < DEMO_SECONDS
    counts = {
        entry["effect"]: (entry["with_counterfoil"], entry["naive_retry"], entry["next"])
        for entry in document["effects"]
    }
    assert counts == {
        "commit on main": (1, 2, "skip"),
        "mail to alice": (1, 2, "skip"),
        "page to on-call": (1, 2, "ask"),
        "mail to bob": (1, 1, "skip"),
        "mail to carol": (1, 1, "skip"),
    }


def test_the_story_shows_the_plan_between_the_kill_and_the_counts(told: Mapping[bool, Any]) -> None:
    code, out, err = told[False][1]
    assert (code, err) == (0, "")
    told_in_order = [
        'AN AGENT WORKS ON THE RUN "release/1.4.0"',
        "mail to bob       begin_operation -> perform (first_attempt)",
        "KILLED with SIGKILL. Done: commit on main, mail to alice, page to on-call.",
        "Granted but not yet done: mail to bob. No receipt is recorded.",
        "mail to alice     in_doubt     reconcile  in_doubt",
        "mail to alice     looked it up, and it is there:",
        "mail to bob       looked it up, and it is not there",
        "mail to bob       failed       begin      retry_after_failure",
        "What is left, page to on-call, it leaves to a person.",
        "THE SAME AGENT WITHOUT A JOURNAL",
        "mail to alice                      1             2\n",
        "page to on-call                    1             2   a person is asked\n",
        "The promise held.",
    ]
    places = [out.find(words) for words in told_in_order]
    assert -1 not in places
    assert places == sorted(places)


def test_the_story_fits_eighty_columns(told: Mapping[bool, Any]) -> None:
    _, out, _ = told[False][1]
    assert max(len(line) for line in out.splitlines()) <= 80


def test_nothing_is_left_behind(told: Mapping[bool, Any]) -> None:
    for demo, _ in told.values():
        demo.assert_nothing_is_left()


def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path) -> None:
    demo = Demo(tmp_path, as_json=False)
    assert demo.process.stdout is not None
    for line in demo.process.stdout:
        if "resume_plan" in line and "asks" not in line:
            break
    demo.process.send_signal(signal.SIGINT)
    code, _, _ = demo.end()
    assert code != 0
    demo.assert_nothing_is_left()


def test_without_git_the_demo_says_how_to_get_it(tmp_path: Path) -> None:
    code, out, err = Demo(tmp_path, as_json=False, PATH=str(tmp_path)).end()
    assert (code, err) == (1, "")
    assert "apt install git" in out


def test_effects_that_took_place_once_keep_the_promise() -> None:
    assert broken_promises(ONCE) == []


@pytest.mark.parametrize("times", [0, 2])
def test_an_effect_that_did_not_take_place_once_breaks_the_promise(times: int) -> None:
    effects = (replace(ONCE[0], with_counterfoil=times), *ONCE[1:])
    assert broken_promises(effects) == [f"commit on main: took place {times} times, not once"]


def test_an_effect_without_a_receipt_breaks_the_promise() -> None:
    effects = (replace(ONCE[0], state="in_doubt"), *ONCE[1:])
    assert broken_promises(effects) == ["commit on main: ended in_doubt, not succeeded"]


def test_an_effect_that_cannot_be_looked_up_may_be_missing_but_not_doubled() -> None:
    index = next(number for number, step in enumerate(JOB) if not step.can_be_looked_up)
    for times, expected in ((0, []), (2, ["page to on-call: took place 2 times, not at most once"])):
        effects = list(ONCE)
        effects[index] = replace(ONCE[index], with_counterfoil=times)
        assert broken_promises(tuple(effects)) == expected


def test_an_effect_that_cannot_be_looked_up_has_to_end_in_a_question() -> None:
    index = next(number for number, step in enumerate(JOB) if not step.can_be_looked_up)
    effects = list(ONCE)
    effects[index] = replace(ONCE[index], next="begin")
    expected = ["page to on-call: ended in begin, not in a question to a person"]
    assert broken_promises(tuple(effects)) == expected
