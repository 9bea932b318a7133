"""What a tool is to the server: its words, its models and its one call into the journal."""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from counterfoil.store.domain.commands import Caller
from counterfoil.tools.inputs import Input
from counterfoil.tools.outputs import Answer
from counterfoil.tools.protocol import Journal

__all__ = ["Question", "ToolSpecification"]


class Question(Struct, frozen=True, kw_only=True):
    """What a person is asked, to be answered with yes or no. `label` stands at the box to tick.

    `request` is what the reply answers: one that comes again, once that is answered, answers nothing.
    """

    text: str
    label: str
    request: str


class ToolSpecification(Struct, frozen=True, kw_only=True):
    """One tool.

    `run` takes arguments that are an instance of `input_model` and gives the answer's members, at most
    `text.LONGEST_ANSWER` characters of JSON where it can page. `when_unavailable` says what a caller must
    (not) do where the journal could not be used for this call; `way_to_rest` how to get what was left out.
    `looks_outside` marks one that asks other systems than the journal.

    An answer that leaves something to a person may hold a `question` for one: where the client can ask, the
    reply goes to `settle`, with that person as the caller, and its answer is the call's.
    """

    name: str
    title: str
    description: str
    input_model: type[Input]
    output_model: type[Answer]
    run: Callable[[Journal, Any, Caller], Awaitable[dict[str, Any]]]
    reads_only: bool = False
    looks_outside: bool = False
    when_unavailable: str
    question: Callable[[dict[str, Any]], Question | None] | None = None
    settle: Callable[[Journal, Any, Caller, dict[str, Any], bool], Awaitable[dict[str, Any]]] | None = None
    way_to_rest: str = 'check_operation with detail "full", or the body\'s name, and offset'
