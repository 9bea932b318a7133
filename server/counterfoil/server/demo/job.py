"""What the demo's agent is to do, and the tools that it has for it.

The job is known to the first session and to the naive agent. The session that takes over has the tools only:
what is left to do it learns from the plan.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from counterfoil.server.demo.outside import Outside, Receipt

__all__ = ["JOB", "RUN", "Hands", "Step", "count_effects"]

RUN = "release/1.4.0"

SUBJECT = "Release 1.4.0"
LEASE_SECONDS = 5
"""Several times what the first session needs; the second has to sit it out."""
SETTLE_SECONDS = 0.5
"""An appended file and a pushed ref show at once; half a second is plenty."""


class Step(Struct, frozen=True, kw_only=True):
    """One effect that the job asks for; `arguments` are those of begin_operation, without run and key."""

    key: str
    label: str
    arguments: Mapping[str, Any]
    can_be_looked_up: bool = True


def _mail(name: str, body: str, **more: Any) -> Step:
    return Step(
        key=f"mail:{name}",
        label=f"mail to {name}",
        arguments={
            "action": "mail.send",
            "target": f"{name}@example.org",
            "args": {"subject": SUBJECT},
            "payload": body,
            "lookup": {
                "tool": "spool.find",
                "instructions": "find the message whose Message-Id carries the idempotency key",
                "settle_seconds": SETTLE_SECONDS,
            },
            **more,
        },
    )


JOB = (
    Step(
        key="push:changelog",
        label="commit on main",
        arguments={
            "action": "git.push",
            "target": "remote.git main",
            "args": {"subject": SUBJECT, "line": "- 1.4.0"},
            "lookup": {
                "tool": "git.find_commit",
                "instructions": "find the commit on main whose message carries the idempotency key",
                "settle_seconds": SETTLE_SECONDS,
            },
        },
    ),
    _mail("alice", "Dear Alice, 1.4.0 is out."),
    Step(
        key="page:on-call",
        label="page to on-call",
        arguments={
            "action": "pager.page",
            "target": "on-call",
            "args": {"text": "1.4.0 is being released"},
        },
        can_be_looked_up=False,
    ),
    _mail("bob", "Dear Bob, 1.4.0 is out."),
    _mail("carol", "Dear Carol, 1.4.0 is on main.", depends_on=["push:changelog"]),
)
"""In the order in which the agent performs them."""

DIES_BEFORE = "mail:bob"
"""What comes before it has taken place when the agent is killed; it and what follows has not."""


class Hands:
    """The agent's tools: by an operation's action it performs, by a lookup's tool it looks."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside

    def perform(
        self, action: str, *, target: str, args: Mapping[str, Any], payload: Any, key: str
    ) -> Receipt:
        """Carry out one effect, passing on the key where the system takes one.

        Raises:
            LookupError: there is no tool for this action.
        """
        match action:
            case "git.push":
                return self._outside.remote.push(subject=args["subject"], line=args["line"], key=key)
            case "mail.send":
                return self._outside.spool.send(to=target, subject=args["subject"], body=payload, key=key)
            case "pager.page":
                self._outside.pager.page(whom=target, text=args["text"])
                return Receipt(kind="other", system="pager", external_id=None, performed_at=None)
        raise LookupError(f"no tool for {action}")

    def look_up(self, tool: str, *, key: str) -> Receipt | None:
        """Ask the performing system whether the effect with this key took place.

        Raises:
            LookupError: there is no such tool.
        """
        match tool:
            case "git.find_commit":
                return self._outside.remote.look_up(key=key)
            case "spool.find":
                return self._outside.spool.look_up(key=key)
        raise LookupError(f"no tool {tool}")


def count_effects(outside: Outside) -> dict[str, int]:
    """Ask each outside system how often each effect of the job took place; by key."""
    counts = {}
    for step in JOB:
        target = step.arguments["target"]
        match step.arguments["action"]:
            case "git.push":
                counts[step.key] = outside.remote.count(subject=SUBJECT)
            case "mail.send":
                counts[step.key] = outside.spool.count(to=target)
            case _:
                counts[step.key] = outside.pager.count(whom=target)
    return counts
