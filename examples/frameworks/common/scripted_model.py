"""The model of every agent here: it decides on the answers of the tools and on nothing else.

It stands in for a language model, so that the stories run offline. It knows the protocol as the server tells
it, which tool of this agent performs which action, and the prompt. It keeps nothing between two calls: all
that it can go by is the conversation, as the framework hands it over.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PERFORMS = {"git.push": "push_tag", "mail.send": "send_mail"}
"""Which tool of this agent performs which action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that the model wants to be made."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """A call in the conversation, under the framework's id."""

    id: str
    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What the framework shows the model as the outcome of a call: a tool's JSON, or words of its own."""

    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heard:
    call: Called
    answer: dict[str, Any]


def reply(
    prompt: str,
    conversation: Sequence[Called | Answered],
    *,
    tools: Collection[str],
    instructions: str | None,
) -> list[Call] | str:
    """Give the calls to make next, all at once where they do not depend on each other, or the last word.

    `tools` and `instructions` are what the framework shows the model beside the conversation.
    """
    assert "act only if its answer says next: perform" in (instructions or ""), (
        "the server's words are missing"
    )
    turns = list(_turns(conversation))
    _tell(turns[-1] if turns else [])
    wanted = _decide(prompt, turns)
    if not isinstance(wanted, str):
        unknown = {call.tool for call in wanted} - set(tools)
        assert not unknown, f"not among the tools that the model was shown: {unknown}"
    return wanted


def _turns(conversation: Sequence[Called | Answered]) -> Iterator[list[_Heard]]:
    """Group the answers by the calls that were made at once."""
    calls: dict[str, Called] = {}
    turn: list[_Heard] = []
    for item in conversation:
        if isinstance(item, Answered):
            turn.append(_Heard(call=calls[item.id], answer=_read(item.text)))
        else:
            if turn:
                yield turn
                turn = []
            calls[item.id] = item
    if turn:
        yield turn


def _read(text: str) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    return answer if isinstance(answer, dict) else {"code": "no_answer", "message": text}


def _tell(turn: Sequence[_Heard]) -> None:
    """Say what was answered, for whoever tells the story."""
    for heard in turn:
        answer, about = heard.answer, heard.call.arguments
        if "next" in answer:
            name = answer.get("key") or about.get("run")
            print(f"{heard.call.tool} {name}: {answer['next']}: {answer['reason']}", flush=True)
            for step in answer.get("steps", ()):
                print(f"  {step['key']}: {step['next']}: {step['reason']}", flush=True)
        elif "code" in answer:
            print(f"{heard.call.tool}: {answer['code']}: {answer['message']}", flush=True)


def _decide(prompt: str, turns: Sequence[Sequence[_Heard]]) -> list[Call] | str:
    run = re.search(r"the run (\S+)\.(?:\s|$)", prompt)
    assert run, prompt
    look_again = Call(tool="resume_plan", arguments={"run": run[1]})
    if not turns:
        return [look_again]
    calls: list[Call] = []
    retry_at: list[str] = []
    for heard in turns[-1]:
        answer, tool = heard.answer, heard.call.tool
        if "code" in answer and tool not in PERFORMS.values():
            return f"cannot go on: {tool}: {answer['message']}"
        if answer.get("next") in ("ask", "stop"):
            return f"a person must see to it: {tool}: {answer['next']}: {answer['reason']}"
        if answer.get("reason") == "finished":
            return "finished"
        calls += _follow(prompt, run[1], heard, turns)
        retry_at += _moments(answer)
    if calls:
        return calls
    return [Call(tool="wait_until", arguments={"moment": min(retry_at)})] if retry_at else [look_again]


def _moments(answer: Mapping[str, Any]) -> list[str]:
    """Give when it is worth asking again, where this answer or all of its steps say `wait`."""
    waiting = [answer, *answer.get("steps", ())]
    return [said["retry_at"] for said in waiting if said.get("next") == "wait" and "retry_at" in said]


def _follow(prompt: str, run: str, heard: _Heard, turns: Sequence[Sequence[_Heard]]) -> Iterator[Call]:
    """Give the calls to which one answer leads; none where the plan is to be read again."""
    answer, asked = heard.answer, heard.call.arguments
    match heard.call.tool:
        case "resume_plan" | "begin_run" if answer["reason"] == "no_history":
            plan = json.loads(prompt[prompt.index("[") :])
            yield Call(tool="begin_run", arguments={"run": run, "plan": plan})
        case "resume_plan" | "begin_run" if answer["complete"]:
            yield Call(tool="finish_run", arguments={"run": run, "outcome": "completed"})
        case "resume_plan" | "begin_run":
            for step in answer["steps"]:
                yield from _take_up(step)
        case "check_operation" if asked["detail"] == "args":
            step = _step(turns, asked["operation"])
            bodies = {"args": _body(turns[-1], step, "args"), "payload": _body(turns[-1], step, "payload")}
            effect = {name: step[name] for name in ("key", "action", "target")}
            given = {name: body for name, body in bodies.items() if body is not None}
            yield Call(tool="begin_operation", arguments={"run": run, **effect, **given})
        case "begin_operation" if answer["next"] == "perform":
            words = {"body": asked["payload"]} if "payload" in asked else {}
            sent = {
                "target": asked["target"],
                "reference": answer["operation"],
                **asked.get("args", {}),
                **words,
            }
            yield Call(tool=PERFORMS[asked["action"]], arguments=sent)
        case tool if tool in PERFORMS.values():
            operation = asked["reference"]
            named = {"operation": operation, "attempt": _granted(turns, operation)}
            if "code" in answer:
                failed = {**named, "effect": "unknown", "error": answer["message"]}
                yield Call(tool="record_failure", arguments=failed)
            else:
                yield Call(tool="record_receipt", arguments={**named, **answer})
        case tool if "found" in answer:
            receipt = answer["found"]
            found = {"finding": "performed", **receipt} if receipt else {"finding": "not_performed"}
            told = {"checked_with": tool, "as_of": _newest_plan(turns)["as_of"], **found}
            yield Call(tool="reconcile_operation", arguments={"operation": asked["reference"], **told})


def _take_up(step: Mapping[str, Any]) -> Iterator[Call]:
    """Give the calls that a step of the plan asks for."""
    operation = step["operation"]
    match step["next"]:
        case "reconcile":
            where = {"target": step["target"], "reference": operation}
            yield Call(tool=step["lookup"]["tool"], arguments=where)
        case "begin":
            for detail in ("args", "payload"):
                yield Call(tool="check_operation", arguments={"operation": operation, "detail": detail})


def _newest_plan(turns: Sequence[Sequence[_Heard]]) -> Mapping[str, Any]:
    return next(h.answer for turn in reversed(turns) for h in turn if "steps" in h.answer)


def _step(turns: Sequence[Sequence[_Heard]], operation: str) -> Mapping[str, Any]:
    return next(step for step in _newest_plan(turns)["steps"] if step["operation"] == operation)


def _body(turn: Sequence[_Heard], step: Mapping[str, Any], detail: str) -> Any:
    """Give the recorded args or payload of a step, None where none is on record."""
    wanted = {"operation": step["operation"], "detail": detail}
    kept = next(heard.answer for heard in turn if heard.call.arguments == wanted)
    if not kept["recorded"]:
        return None
    return json.loads(kept["content"]) if detail == "args" else kept["content"]


def _granted(turns: Sequence[Sequence[_Heard]], operation: str) -> int:
    """Give the number of the attempt that was granted last for an operation."""
    return next(
        heard.answer["attempt"]
        for turn in reversed(turns)
        for heard in turn
        if heard.answer.get("next") == "perform" and heard.answer["operation"] == operation
    )
