"""The clients, each in turn; which ones run, and what is said of one that is not there.

uv run pytest tests/clients                            # Claude Code and the Inspector
COUNTERFOIL_CLIENTS=all uv run pytest tests/clients    # every client
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.claude_code import ClaudeCode
from clients.codex import Codex
from clients.driver import Driver
from clients.gemini_cli import GeminiCLI
from clients.installed import ALWAYS, NotInstalled, program
from clients.letta_code import LettaCode
from clients.scripted_model import ScriptedModel
from clients.story import World

DRIVERS: dict[str, type[Driver]] = {
    driver.name: driver for driver in (ClaudeCode, Codex, GeminiCLI, LettaCode)
}


def is_wanted(client: str) -> bool:
    """Tell whether the tests of this client are to run."""
    wanted = os.environ.get("COUNTERFOIL_CLIENTS", "")
    return client in ALWAYS or wanted == "all" or client in wanted.split(",")


def require(client: str) -> None:
    """Skip a test whose client is not wanted or, except in CI, not installed.

    Raises:
        NotInstalled: it is not installed, in CI.
    """
    if not is_wanted(client):
        pytest.skip(f"COUNTERFOIL_CLIENTS=all runs {client}")
    try:
        program(client)
    except NotInstalled as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """A scripted model, without scripts so far."""
    with ScriptedModel({}) as running:
        yield running


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A journal and a spool."""
    folder = tmp_path / "world"
    folder.mkdir()
    return World(folder=folder)


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.client) for name in DRIVERS])
def client(request: pytest.FixtureRequest, tmp_path: Path, model: ScriptedModel) -> Iterator[Driver]:
    """Each client that has sessions, in turn."""
    name = str(request.param)
    require(name)
    driver = DRIVERS[name](tmp_path, model)
    yield driver
    driver.close()
