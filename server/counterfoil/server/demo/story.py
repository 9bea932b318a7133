"""Tells the demo to a person, in plain lines of at most 80 columns, or to a program, as one JSON document."""

import json
import sys
from typing import Any

from counterfoil.server.demo.job import JOB
from counterfoil.server.demo.outcome import Outcome

__all__ = ["Silence", "Story", "told_as_json"]

_LABELS = {step.key: step.label for step in JOB}

_CHAPTERS = {
    "first": """\
1. AN AGENT WORKS ON THE RUN "{run}"

   Before each effect it asks for leave: begin_operation writes the stub to disk
   and answers. What was granted it then performs, in one batch.

""",
    "resume": """\
2. A NEW SESSION, WHICH KNOWS ONLY THE NAME "{run}"

   It asks resume_plan and does what `next` says, nothing else.
""",
    "naive": """\
3. THE SAME AGENT WITHOUT A JOURNAL

   On outside systems of its own, killed at the same point, and started again as
   one starts a failed job again: from its beginning.

""",
}
_WAITS = {
    "lease_held": "the dead session's leases still run",
    "settling": "not there, but it might still show up; then looks again",
}
_FINDINGS = {
    "performed": "looked it up, and it is there:",
    "not_performed": "looked it up, and it is not there",
    "inconclusive": "cannot be looked up",
}


class Silence:
    """Tells nothing; the words are in `Story`."""

    def chapter(self, name: str, **values: str) -> None:
        """Begin a part of the story."""

    def event(self, event: dict[str, Any]) -> None:
        """Tell what an agent did."""

    def killed(self) -> None:
        """Tell that the agent was killed."""

    def restarted(self) -> None:
        """Tell that the naive agent was started again."""

    def ending(self, outcome: Outcome) -> None:
        """Tell what came of it all."""


class Story(Silence):
    """Tells everything on stdout, as it happens."""

    def __init__(self) -> None:
        self._granted: list[str] = []
        self._performed: list[str] = []

    def chapter(self, name: str, **values: str) -> None:
        """Begin a part of the story."""
        self._granted, self._performed = [], []
        _write("\n" + _CHAPTERS[name].format(**values))

    def event(self, event: dict[str, Any]) -> None:
        """Tell what an agent did."""
        label = _LABELS.get(event.get("key", ""), "")
        match event["event"]:
            case "began":
                if event["next"] == "perform":
                    self._granted.append(label)
                _line(label, f"begin_operation -> {event['next']} ({event['reason']})")
            case "performed":
                if len(self._granted) > 1 and not self._performed:
                    _write("\n")
                self._performed.append(label)
                _line(label, f"DONE {event['reference'] or '(it gives no reference)'}")
            case "recorded":
                _line("", f"record_receipt -> {event['next']} ({event['reason']}): {event['state']}")
            case "found":
                _line(label, _FINDINGS[event["finding"]])
                if event["reference"]:
                    _line("", event["reference"])
                _line("", f"reconcile_operation -> {event['next']} ({event['reason']}): {event['state']}")
            case "waits":
                why = _WAITS.get(event["reason"], event["reason"])
                _write(f"   waits {event['seconds']} s: {why}\n")
            case "plan":
                self._plan(event["steps"])
            case "finished":
                for key in event["asked"]:
                    _write(f"   What is left, {_LABELS[key]}, it leaves to a person.\n")

    def killed(self) -> None:
        """Tell that the agent was killed."""
        _write("\n   KILLED with SIGKILL. Done: " + ", ".join(self._performed) + ".\n")
        unsent = [label for label in self._granted if label not in self._performed]
        if unsent:
            _write(f"   Granted but not yet done: {', '.join(unsent)}. No receipt is recorded.\n")

    def restarted(self) -> None:
        """Tell that the naive agent was started again."""
        _write("\n   Started again:\n\n")

    def ending(self, outcome: Outcome) -> None:
        """Tell what came of it all."""
        if outcome.effects:
            _write("\n4. HOW OFTEN EACH EFFECT TOOK PLACE, counted in the outside systems\n\n")
            _write(f"   {'':<18}{'with Counterfoil':>18}{'naive retry':>14}\n")
            for effect in outcome.effects:
                note = "   a person is asked" if effect.next == "ask" else ""
                _write(f"   {effect.label:<18}{effect.with_counterfoil:>18}{effect.naive_retry:>14}{note}\n")
        if outcome.is_kept:
            _write(f"\n   The promise held. {outcome.seconds:.1f} s; nothing is left behind.\n\n")
        else:
            _write("\n   The promise was NOT shown to hold:\n")
            for problem in outcome.problems:
                _write(f"   - {problem}\n")

    def _plan(self, steps: list[dict[str, Any]]) -> None:
        _write("\n   resume_plan\n")
        for step in steps:
            label = _LABELS.get(step["key"], step["key"])
            _write(f"     {label:<18}{step['state']:<13}{step['next']:<11}{step['reason']}\n")
        _write("\n")


def told_as_json(outcome: Outcome) -> None:
    """Write what came of it as one JSON document."""
    document = {
        "kept": outcome.is_kept,
        "seconds": round(outcome.seconds, 1),
        "effects": [
            {
                "key": effect.key,
                "effect": effect.label,
                "with_counterfoil": effect.with_counterfoil,
                "naive_retry": effect.naive_retry,
                "state": effect.state,
                "next": effect.next,
            }
            for effect in outcome.effects
        ],
        "problems": list(outcome.problems),
    }
    _write(json.dumps(document, indent=2) + "\n")


def _line(label: str, text: str) -> None:
    _write(f"   {label:<18}{text}\n")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
