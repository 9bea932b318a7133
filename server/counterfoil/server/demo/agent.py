"""The agent's own process, to be killed: a first session, one that takes over, and one that retries naively.

What it does it tells on stdout, one JSON object a line. Told to `hold`, it says `holding` at the point where
it is to die and does nothing more; that its stdin ends sets it free, so that it never outlives the demo.
"""

import argparse
import json
import os
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from counterfoil.server.demo.job import DIES_BEFORE, JOB, LEASE_SECONDS, Hands
from counterfoil.server.demo.outside import Outside

if TYPE_CHECKING:
    from mcp import Client

__all__ = ["main"]

ANSWER_SECONDS = 60
"""Bound on one answer of the server; a healthy one takes milliseconds."""


def tell(event: str, **members: Any) -> None:
    """Tell whoever started this process what happened."""
    sys.stdout.write(json.dumps({"event": event, **members}) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Act the part that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=("first", "resume", "naive"))
    parser.add_argument("--outside", type=Path, required=True)
    parser.add_argument("--journal")
    parser.add_argument("--run")
    parser.add_argument("--hold", action="store_true")
    given = parser.parse_args()
    hands = Hands(Outside(given.outside))
    if given.part == "naive":
        act_naively(hands, hold=given.hold)
        return
    import anyio

    anyio.run(_act_with_journal, given.part, given.journal, given.run, hands)


async def _act_with_journal(part: str, journal: str, run: str, hands: Hands) -> None:
    from mcp import Client, StdioServerParameters

    from counterfoil.server.demo.following import call, finish_run

    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "counterfoil.server", "serve", "--journal", journal],
        env=dict(os.environ),
    )
    async with Client(server, read_timeout_seconds=ANSWER_SECONDS) as client:
        if part == "first":
            await act_first(client, run, hands)
        else:
            await finish_run(client, run, hands, tell)
            plan = await call(client, "resume_plan", run=run, include="all")
            tell("ended", steps=plan["steps"])


async def act_first(client: "Client", run: str, hands: Hands) -> None:
    """Begin every step, then perform those granted in one batch; die in the middle of it.

    Receipts would be recorded when the batch is done: it never is.
    """
    from counterfoil.server.demo.following import call, perform

    granted = []
    for step in JOB:
        answer = await call(
            client,
            "begin_operation",
            run=run,
            key=step.key,
            lease_seconds=LEASE_SECONDS,
            **step.arguments,
        )
        tell("began", key=step.key, next=answer["next"], reason=answer["reason"])
        if answer["next"] == "perform":
            granted.append((step, answer))
    for step, answer in granted:
        if step.key == DIES_BEFORE:
            _hold()
        given = step.arguments
        receipt = perform(
            answer,
            action=given["action"],
            target=given["target"],
            args=given["args"],
            payload=given.get("payload"),
            hands=hands,
        )
        tell("performed", key=step.key, reference=receipt.external_id)


def act_naively(hands: Hands, *, hold: bool) -> None:
    """Do the whole job from its beginning, as an agent does that cannot know what was done."""
    for step in JOB:
        if hold and step.key == DIES_BEFORE:
            _hold()
        given = step.arguments
        receipt = hands.perform(
            given["action"],
            target=given["target"],
            args=given["args"],
            payload=given.get("payload"),
            key=str(uuid.uuid4()),
        )
        tell("performed", key=step.key, reference=receipt.external_id)


def _hold() -> None:
    """Say that the moment has come, and wait for the kill."""
    tell("holding")
    sys.stdin.read()
    sys.exit("nobody killed this process")


if __name__ == "__main__":
    main()
