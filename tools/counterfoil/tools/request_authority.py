"""request_authority: ask a person to permit what an agent cannot permit itself."""

from typing import Any

from msgspec.structs import replace
from pydantic import Field

from counterfoil.store.domain.commands import Caller, GrantAuthority, OperationRef, RequestAuthority
from counterfoil.tools.inputs import OperationInput, WritingInput
from counterfoil.tools.outputs import OperationAnswer
from counterfoil.tools.protocol import Journal
from counterfoil.tools.specification import Question, ToolSpecification
from counterfoil.tools.text import written

__all__ = ["REQUEST_AUTHORITY", "RequestInput"]

DESCRIPTION = """\
Ask the person to permit what begin_operation answered `ask` for (authority_required, \
authority_expired, drift, attempts_exhausted, history_gap): name the operation; or, before beginning, \
run, action and target. The client asks them if it can; else the request waits for the person's \
`counterfoil grant`. Permits nothing by itself: on next: begin call begin_operation."""

_SHOWN = 1_500
"""Characters of args or payload in a question: what no longer fits is named as cut."""


class RequestInput(OperationInput, WritingInput):
    """Arguments of request_authority."""

    action: str | None = None
    target: str | None = None
    why: str | None = Field(None, description="for the person who decides")


class RequestAnswer(OperationAnswer):
    """Answer of request_authority."""

    request: str | None = Field(None, description="id, for the person")
    request_state: str | None = None
    how: str | None = Field(None, description="how a person permits it")
    effect: dict[str, Any] | None = None
    grant: Any = None
    drift: list[Any] | None = None


async def run(journal: Journal, arguments: RequestInput, caller: Caller) -> dict[str, Any]:
    """Ask the journal to keep the request.

    Raises:
        Fault: see `Journal`.
    """
    arguments.check_call_id(arguments.run, arguments.key)
    return await journal.request_authority(_command(arguments), caller)


def _command(arguments: RequestInput) -> RequestAuthority:
    is_in_run = arguments.operation is None and arguments.key is None and arguments.run is not None
    return RequestAuthority(
        ref=OperationRef(run=arguments.run) if is_in_run else arguments.ref(),
        action=arguments.action,
        target=arguments.target,
        why=arguments.why,
    )


def question(answer: dict[str, Any]) -> Question | None:
    """Put the request to a person: what would be done, and the agent's own words marked as such.

    Everything stored stands here as JSON or escaped, on a line of its own: it cannot pass for ours.
    """
    if answer["next"] != "ask" or answer.get("request_state") != "waiting":
        return None
    effect = answer.get("effect", {})
    lines = [
        "An agent asks for your permission.",
        f"action: {effect.get('action') or answer['action']}",
        f"target: {effect.get('target') or answer.get('target') or 'not said'}",
    ]
    for name in ("args", "payload"):
        if name in effect:
            text = written(effect[name])
            cut = f" … ({len(text)} characters in all)" if len(text) > _SHOWN else ""
            lines.append(f"{name}: {text[:_SHOWN]}{cut}")
    lines.append(f"run: {answer['run']}")
    if "key" in answer:
        lines.append(f"step: {answer['key']}")
    if "why" in answer:
        lines.append(f"the agent says: {answer['why']}")
    lines.append(_MEANINGS[answer["reason"]])
    if "operation" not in answer:
        lines.append("This permits every operation of that action and target in this run.")
    return Question(text="\n".join(lines), label="Permit it", request=answer["request"])


_MEANINGS = {
    "authority_required": "Your rules say that this needs a person's permission.",
    "authority_expired": "It was permitted before, but that permission no longer holds.",
    "drift": "What it rests on has changed since the run began, in a part that blocks.",
    "attempts_exhausted": "No attempt is left, or the last failure was final: this permits one more.",
    "history_gap": "The journal lacks history (see counterfoil check): this may have been done. Look first.",
}


async def settle(
    journal: Journal, arguments: RequestInput, person: Caller, answer: dict[str, Any], is_permitted: bool
) -> dict[str, Any]:
    """Carry out what the person said, and answer what a begin would say then.

    Raises:
        Fault: see `Journal`.
    """
    request = answer["request"]
    if not is_permitted:
        return {**answer, **await journal.decline_request(request, person)}
    granted = await journal.grant(GrantAuthority(request=request, by_elicitation=True), person)
    if granted["next"] != "continue":
        return granted
    after = await journal.request_authority(_command(arguments), replace(person, is_person=False))
    return {**after, "request": request, "request_state": "granted", "grant": granted.get("grant")}


REQUEST_AUTHORITY = ToolSpecification(
    name="request_authority",
    title="Request authority",
    description=DESCRIPTION,
    input_model=RequestInput,
    output_model=RequestAnswer,
    run=run,
    question=question,
    settle=settle,
    when_unavailable="Nothing is permitted: do not perform the effect.",
)
