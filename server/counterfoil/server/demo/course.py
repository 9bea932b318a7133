"""The course of the demo: kill an agent, let another finish, count; then the same without a journal."""

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from counterfoil.server.demo.child import AgentProcess, clean_environment
from counterfoil.server.demo.job import JOB, RUN, count_effects
from counterfoil.server.demo.outcome import Effect, Outcome, broken_promises
from counterfoil.server.demo.outside import Outside, git_is_missing
from counterfoil.server.demo.story import Silence

__all__ = ["run_course"]

GIT_WANTED = (
    "the demo pushes to a real git repository, and there is no git on this machine; "
    "install it (apt install git, dnf install git, brew install git) and run the demo again"
)


def run_course(story: Silence) -> Outcome:
    """Run everything in a temporary folder, tell it to `story`, and give what came of it."""
    started = time.monotonic()
    if git_is_missing():
        return Outcome(seconds=0, problems=(GIT_WANTED,))
    try:
        with tempfile.TemporaryDirectory(prefix="counterfoil-demo-") as name:
            folder = Path(name)
            effects = _run_in(folder, story)
    except (RuntimeError, LookupError, OSError, subprocess.SubprocessError) as error:
        return Outcome(seconds=time.monotonic() - started, problems=(str(error),))
    return Outcome(
        seconds=time.monotonic() - started, effects=effects, problems=tuple(broken_promises(effects))
    )


def _run_in(folder: Path, story: Silence) -> tuple[Effect, ...]:
    environment = clean_environment(os.environ, folder=folder)
    guarded, naive = Outside(folder / "guarded"), Outside(folder / "naive")
    guarded.make()
    naive.make()
    journal = ("--journal", f"sqlite:///{folder / 'journal.db'}", "--run", RUN)
    story.chapter("first", run=RUN)
    _live_and_die("first", *journal, outside=guarded, environment=environment, story=story)
    story.chapter("resume", run=RUN)
    steps = _live("resume", *journal, outside=guarded, environment=environment, story=story)
    story.chapter("naive")
    _live_and_die("naive", "--hold", outside=naive, environment=environment, story=story)
    story.restarted()
    _live("naive", outside=naive, environment=environment, story=story)
    return _effects(steps, count_effects(guarded), count_effects(naive))


def _live_and_die(*arguments: str, outside: Outside, environment: Mapping[str, str], story: Silence) -> None:
    """Let an agent go as far as the point where it is to die, and kill it there."""
    with _agent(*arguments, outside=outside, environment=environment) as agent:
        for event in agent.events():
            if event["event"] == "holding":
                agent.kill()
                story.killed()
                return
            story.event(event)
        agent.check_end()
    raise RuntimeError("the agent ended before it could be killed")


def _live(
    *arguments: str, outside: Outside, environment: Mapping[str, str], story: Silence
) -> list[dict[str, Any]]:
    """Let an agent live to its end, and give the steps that it says the run ended with."""
    steps: list[dict[str, Any]] = []
    with _agent(*arguments, outside=outside, environment=environment) as agent:
        for event in agent.events():
            if event["event"] == "ended":
                steps = event["steps"]
            else:
                story.event(event)
        agent.check_end()
    return steps


def _agent(*arguments: str, outside: Outside, environment: Mapping[str, str]) -> AgentProcess:
    folder = outside.folder
    return AgentProcess(*arguments, "--outside", str(folder), folder=folder, environment=environment)


def _effects(
    steps: list[dict[str, Any]], guarded: Mapping[str, int], naive: Mapping[str, int]
) -> tuple[Effect, ...]:
    ended = {step["key"]: step for step in steps}
    return tuple(
        Effect(
            key=step.key,
            label=step.label,
            with_counterfoil=guarded[step.key],
            naive_retry=naive[step.key],
            next=ended.get(step.key, {}).get("next", "nothing"),
            state=ended.get(step.key, {}).get("state", "unknown"),
        )
        for step in JOB
    )
