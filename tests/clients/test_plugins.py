"""The plugins are valid, and what they hold reaches the model and guards its calls."""

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.claude_code import ClaudeCode
from clients.codex import Codex
from clients.conftest import require
from clients.driver import WAIT_SECONDS, Driver
from clients.scripted_model import Say, ScriptedModel, prompt_of
from clients.story import RUN, World, description_of

PLUGINS = Path(__file__).parents[2] / "examples" / "plugins"

pytestmark = pytest.mark.client


@pytest.fixture(params=[ClaudeCode, Codex], ids=lambda driver: driver.name)
def plugged(request: pytest.FixtureRequest, tmp_path: Path, model: ScriptedModel) -> Iterator[Driver]:
    """A client with its plugin and nothing else."""
    require(request.param.name)
    client: Driver = request.param(tmp_path, model)
    client.configure({})
    if isinstance(client, ClaudeCode):
        client.plugin = str(PLUGINS / "claude-code")
    else:
        for words in (("marketplace", "add", str(PLUGINS)), ("add", "counterfoil@counterfoil")):
            command = [*client.program, "plugin", *words]
            subprocess.run(command, env=client.environment, check=True, timeout=WAIT_SECONDS)
    yield client
    client.close()


@pytest.mark.parametrize("folder", [PLUGINS / "claude-code", PLUGINS], ids=["plugin", "marketplace"])
def test_claude_code_finds_the_plugin_valid(folder: Path, tmp_path: Path, model: ScriptedModel) -> None:
    require(ClaudeCode.name)
    client = ClaudeCode(tmp_path, model)
    words = [*client.program, "plugin", "validate", str(folder)]
    done = subprocess.run(
        words, env=client.environment, capture_output=True, timeout=WAIT_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout
    assert b"Validation passed" in done.stdout


def test_a_plugin_brings_the_tools_the_skill_and_hooks_that_guard(
    plugged: Driver, model: ScriptedModel, world: World
) -> None:
    # Where hooks and servers find it without being told: Codex hands its servers none of its environment.
    own = plugged.home / ".config" / "counterfoil"
    own.mkdir(parents=True)
    shutil.copy(world.configure(plugged.work), own)
    send = shlex.join([str(world.folder / "send-letter"), "alice@example.org", "Invoice 42", "invoice-42"])
    model.scripts["work"] = [
        plugged.shell(send),
        plugged.shell(send),
        plugged.call("counterfoil", "resume_plan", {}),
        Say("It was sent."),
    ]
    plugged.run(prompt_of("work"))
    sent, denied, plan = model.shown("work")
    [letter] = world.spool.letters()
    assert letter["message_id"] in sent.text
    assert "on record as done" in denied.text
    assert plan.at("runs", 0, "run") == RUN
    assert world.only_state() == "succeeded"
    skill = (PLUGINS / plugged.name / "skills/counterfoil/SKILL.md").read_text()
    assert model.was_shown(description_of(skill))
