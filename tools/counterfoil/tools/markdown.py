"""Writes a plan as Markdown. Whatever was stored stands in a code span: it cannot become markup."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from counterfoil.store.domain.untrusted import escape_untrusted
from counterfoil.tools.text import written

__all__ = ["code", "plan_markdown"]

_LONGEST_SPAN = 600
_ABOUT_THE_RUN = (
    "workflow",
    "workflow_version",
    "goal",
    "spec",
    "schedule",
    "parent",
    "held_by",
    "held_until",
    "progress",
    "checkpoint",
    "finished_as",
    "finish_reason",
    "created_at",
)
_ABOUT_A_STEP = (
    "target",
    "attempt",
    "retry_at",
    "since",
    "settle_until",
    "repeat_until",
    "idempotency_key",
    "lookup",
    "receipts",
    "checkpoint",
    "duplicates",
    "warnings",
    "undo",
)


def code(value: Any) -> str:
    """Give a value as one code span: a text as it is, anything else as JSON; bounded, on one line."""
    text = escape_untrusted(value if isinstance(value, str) else written(value), limit=_LONGEST_SPAN)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    # A span may not begin or end with a backtick, and an empty one would be no span.
    room = " " if not text.strip() or "`" in (text[0], text[-1]) else ""
    return f"{fence}{room}{text}{room}{fence}"


def plan_markdown(answer: Mapping[str, Any]) -> str:
    """Write an answer of resume_plan about one run."""
    return "\n".join(_lines(answer)) + "\n"


def _lines(answer: Mapping[str, Any]) -> Iterator[str]:
    run = answer["run"]
    counts = answer.get("counts") or {}
    yield f"# Plan of {code(run['run'])}"
    yield ""
    yield f"As of {answer['as_of']}. {answer['guidance']}"
    yield ""
    yield from (f"- {name}: {code(run[name])}" for name in _ABOUT_THE_RUN if run.get(name) is not None)
    told = ", ".join(f"{number} {state}" for state, number in sorted(counts.items()))
    yield f"- operations: {told or 'none'}"
    for name in ("drift", "criteria", "warnings"):
        if answer.get(name):
            yield f"- {name}: {code(answer[name])}"
    yield f"- complete: {'yes' if answer.get('complete') else 'no'}"
    yield ""
    yield "## Open steps, the urgent ones first"
    yield ""
    steps = answer.get("steps") or ()
    for step in steps:
        yield f"- {code(step['key'])}: **{step['next']}** ({step['reason']}), {step['state']}"
        yield f"  - operation {code(step['operation'])}, action {code(step['action'])}"
        yield from (f"  - {name}: {code(step[name])}" for name in _ABOUT_A_STEP if step.get(name) is not None)
    if not steps:
        yield "None."
    if answer.get("cut"):
        yield ""
        yield f"These are {len(steps)}, and there are more: call resume_plan for this run" + (
            f" with cursor {code(answer['next_cursor'])}." if answer.get("next_cursor") else "."
        )
    if answer.get("guidances"):
        yield ""
        yield "## What the reasons mean"
        yield ""
        yield from (f"- {reason}: {words}" for reason, words in sorted(answer["guidances"].items()))
