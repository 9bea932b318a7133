"""A session that knows the name of a run and nothing else, and does what `next` says until nothing is left.

This is all that an agent has to do to finish what another one began. It knows no step of the job.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import anyio

from counterfoil.server.demo.job import Hands
from counterfoil.server.demo.outside import Receipt

if TYPE_CHECKING:
    from mcp import Client

__all__ = ["Answer", "Tell", "call", "finish_run", "perform"]

Answer = dict[str, Any]
Tell = Callable[..., None]
"""Takes the name of an event and its members."""

MOST_ROUNDS = 50
"""Bound on readings of the plan; a run like this one takes four."""


async def call(client: "Client", tool: str, **arguments: Any) -> Answer:
    """Call a tool and give its answer.

    Raises:
        RuntimeError: it was answered with a fault.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    result = await client.call_tool(tool, given)
    if result.is_error or result.structured_content is None:
        raise RuntimeError(f"{tool} was answered with {result.content}")
    return dict(result.structured_content)


async def finish_run(client: "Client", run: str, hands: Hands, tell: Tell) -> None:
    """Follow the plan of `run` until only what a person has to decide is left.

    Raises:
        RuntimeError: a step can neither move nor be left to a person.
    """
    for _ in range(MOST_ROUNDS):
        plan = await call(client, "resume_plan", run=run)
        tell("plan", steps=plan["steps"])
        waits = []
        has_moved = False
        for step in plan["steps"]:
            match step["next"]:
                case "reconcile":
                    await _reconcile(client, step, plan["as_of"], hands, tell)
                    has_moved = True
                case "begin":
                    await _begin(client, run, step, hands, tell)
                    has_moved = True
                case "wait":
                    waits.append(step)
                case "skip" | "ask":
                    pass
                case other:
                    raise RuntimeError(f"the plan says {other} of {step['key']}")
        if has_moved:
            continue
        if not waits:
            tell("finished", asked=[step["key"] for step in plan["steps"] if step["next"] == "ask"])
            return
        await _wait_until(_next_moment(waits), waits[0]["reason"], tell)
    raise RuntimeError("the run does not come to an end")


def _next_moment(waits: Sequence[Answer]) -> datetime:
    """Give when to ask again: when the first wait is over, and others that end within a second of it."""
    moments = [datetime.fromisoformat(step["retry_at"]) for step in waits if "retry_at" in step]
    if not moments:
        raise RuntimeError(f"nothing says how long to wait for {waits[0]['key']}")
    return max(moment for moment in moments if moment - min(moments) <= timedelta(seconds=1))


async def _reconcile(client: "Client", step: Answer, as_of: str, hands: Hands, tell: Tell) -> None:
    """Look as the recorded lookup says and report what was found; look again where that was too early."""
    while True:
        lookup = step.get("lookup")
        found = None
        if lookup is None:
            finding, looked = "inconclusive", "nothing: no lookup is on record"
        else:
            found = hands.look_up(lookup["tool"], key=step["idempotency_key"])
            finding = "performed" if found else "not_performed"
            looked = f"{lookup['tool']} {step['idempotency_key']}"
        answer = await call(
            client,
            "reconcile_operation",
            operation=step["operation"],
            finding=finding,
            checked_with=looked,
            as_of=as_of,
            **_receipt(found),
        )
        tell(
            "found",
            key=step["key"],
            finding=finding,
            reference=found and found.external_id,
            next=answer["next"],
            reason=answer["reason"],
            state=answer["state"],
        )
        if answer["next"] != "wait":
            return
        await _wait_until(datetime.fromisoformat(answer["retry_at"]), answer["reason"], tell)
        step = {**step, **await call(client, "check_operation", operation=step["operation"])}
        as_of = step["as_of"]


async def _begin(client: "Client", run: str, step: Answer, hands: Hands, tell: Tell) -> None:
    """Begin a step with what is on record of it; perform it only if the answer says so."""
    args = await _body(client, step["operation"], "args")
    payload = await _body(client, step["operation"], "payload")
    target = step.get("target")
    answer = await call(
        client,
        "begin_operation",
        run=run,
        key=step["key"],
        action=step["action"],
        target=target,
        args=args,
        payload=payload,
    )
    tell("began", key=step["key"], next=answer["next"], reason=answer["reason"])
    if answer["next"] != "perform":
        return
    receipt = perform(answer, action=step["action"], target=target, args=args, payload=payload, hands=hands)
    tell("performed", key=step["key"], reference=receipt.external_id)
    recorded = await call(
        client,
        "record_receipt",
        operation=answer["operation"],
        attempt=answer["attempt"],
        **_receipt(receipt),
    )
    tell(
        "recorded",
        key=step["key"],
        next=recorded["next"],
        reason=recorded["reason"],
        state=recorded["state"],
    )


def perform(
    granted: Answer,
    *,
    action: str,
    target: str | None,
    args: Mapping[str, Any] | None,
    payload: Any,
    hands: Hands,
) -> Receipt:
    """Carry out what was granted, under the key that came with the grant.

    Raises:
        RuntimeError: it is too late to send; nothing was.
    """
    if datetime.now(UTC) >= datetime.fromisoformat(granted["send_before"]):
        raise RuntimeError(f"it is past send_before; {granted['key']} was not sent")
    return hands.perform(
        action, target=target or "", args=args or {}, payload=payload, key=granted["idempotency_key"]
    )


async def _body(client: "Client", operation: str, detail: str) -> Any:
    """Give a recorded body whole, piece by piece; None where there is none."""
    text, offset = "", 0
    while True:
        piece = await call(client, "check_operation", operation=operation, detail=detail, offset=offset)
        if not piece["recorded"]:
            return None
        text += piece["content"]
        if "next_offset" not in piece:
            return text if piece["format"] == "text" else json.loads(text)
        offset = piece["next_offset"]


def _receipt(receipt: Receipt | None) -> dict[str, Any]:
    if receipt is None:
        return {}
    return {
        "kind": receipt.kind,
        "system": receipt.system,
        "external_id": receipt.external_id,
        "performed_at": receipt.performed_at,
    }


async def _wait_until(moment: datetime, reason: str, tell: Tell) -> None:
    """Sit out what the journal says has to be waited for."""
    seconds = max(0.0, (moment - datetime.now(UTC)).total_seconds())
    tell("waits", reason=reason, seconds=round(seconds, 1))
    await anyio.sleep(seconds)
