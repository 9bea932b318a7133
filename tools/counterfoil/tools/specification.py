"""What a tool is to the server: its words, its models and its one call into the journal."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from counterfoil.store.domain.commands import Caller
from counterfoil.tools.inputs import Input
from counterfoil.tools.outputs import Answer
from counterfoil.tools.protocol import Journal

__all__ = ["ToolSpecification"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpecification:
    """One tool.

    `run` takes arguments that are an instance of `input_model` and gives the answer's members, at most
    `text.LONGEST_ANSWER` characters of JSON where it can page. `when_unavailable` says what a caller must
    (not) do where the journal could not be used for this call; `way_to_rest` how to get what was left out.
    """

    name: str
    title: str
    description: str
    input_model: type[Input]
    output_model: type[Answer]
    run: Callable[[Journal, Any, Caller], Awaitable[dict[str, Any]]]
    reads_only: bool = False
    when_unavailable: str
    way_to_rest: str = 'check_operation with detail "full", or the body\'s name, and offset'
