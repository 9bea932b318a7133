"""An agent of each framework survives the kill, and the story would fail if the promise were broken.

Also the stories with planted faults: `COUNTERFOIL_LONG=1 uv run pytest tests/server/test_frameworks.py`.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from crash.sessions import LONG

EXAMPLES = Path(__file__).parents[2] / "examples"
PAGE = (EXAMPLES / "frameworks" / "README.md").read_text(encoding="utf-8")
FRAMEWORKS = ("pydantic_ai", "openai_agents", "langgraph")
STORY_SECONDS = 240
"""Bound on one story with a first download; it takes about ten seconds of one core."""

FAULTS = {
    "a lookup that finds nothing leads to a second mail": (
        "pydantic_ai",
        "common/outside.py",
        '_receipt(found["id"]) if found["id"] else None',
        "None",
        "AssertionError: 3 mails, not 2",
    ),
    "a call that is repeated without its id is no second permission, but is not answered again either": (
        "langgraph",
        "langgraph/agent.py",
        "if request.name in writing:",
        "if not request.name:",
        "AssertionError: the second session was not told: begin_operation mail:bob@example.org: perform",
    ),
}


@pytest.fixture(autouse=True)
def _uv() -> None:
    """Need uv, which installs each framework into an environment of its own."""
    if shutil.which("uv") is None:
        reason = "uv is missing: it brings the frameworks"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)


def tell(script: Path, framework: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run the story with a framework, in a temporary folder of its own; uv keeps its own cache."""
    temporary = folder / "tmp"
    temporary.mkdir()
    return subprocess.run(
        [sys.executable, str(script), framework],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=STORY_SECONDS,
        check=False,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(temporary), "COUNTERFOIL_NAMESPACE": "not the story's"},
    )


def test_every_agent_is_run_here() -> None:
    assert {path.parent.name for path in EXAMPLES.glob("frameworks/*/agent.py")} == set(FRAMEWORKS)
    assert {path.parent.name for path in EXAMPLES.glob("frameworks/*/README.md")} == set(FRAMEWORKS)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_page_names_the_versions_that_the_lock_holds(framework: str) -> None:
    lock = tomllib.loads((EXAMPLES / "frameworks" / framework / "agent.py.lock").read_text(encoding="utf-8"))
    held = {package["name"]: package["version"] for package in lock["package"]}
    versions, sdk = re.findall(r"^\| (?:version in the lock|its MCP SDK) \|(.+)\|$", PAGE, re.MULTILINE)
    column = FRAMEWORKS.index(framework)
    named = re.findall(
        r"([a-z][a-z-]+) (\d+\.\d+\.\d+)", versions.split("|")[column] + sdk.split("|")[column]
    )
    assert len(named) >= 2
    assert dict(named) == {name: held[name] for name, _ in named}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_agent_that_is_killed_amid_its_effects_is_followed_by_one_that_finishes(
    framework: str, tmp_path: Path
) -> None:
    told = tell(EXAMPLES / "frameworks" / "run.py", framework, tmp_path)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.splitlines()[-1] == f"{framework}: 1 push, 1 mail to Alice, 1 mail to Bob"
    left = {path.name for path in (tmp_path / "tmp").iterdir()}
    assert {name for name in left if not re.fullmatch(r"uv-[0-9a-f]+\.lock", name)} == set()


@pytest.mark.skipif(not LONG, reason="COUNTERFOIL_LONG=1 plants faults too")
@pytest.mark.parametrize("fault", FAULTS)
def test_the_story_fails_where_the_promise_is_broken(fault: str, tmp_path: Path) -> None:
    framework, file, right, wrong, said = FAULTS[fault]
    for folder in ("frameworks", "shared"):
        skipped = shutil.ignore_patterns("__pycache__")
        shutil.copytree(EXAMPLES / folder, tmp_path / "story" / folder, ignore=skipped)
    story = tmp_path / "story" / "frameworks"
    source = (story / file).read_text(encoding="utf-8")
    assert source.count(right) == 1
    (story / file).write_text(source.replace(right, wrong), encoding="utf-8")
    told = tell(story / "run.py", framework, tmp_path)
    assert told.returncode == 1
    assert said in told.stderr
