"""find_operations: search for operations in any run; changes nothing."""

from typing import Any, Literal

from pydantic import Field

from counterfoil.store.domain.commands import Caller, FindOperations
from counterfoil.tools.inputs import Count, Input
from counterfoil.tools.outputs import Answer
from counterfoil.tools.paging import fitting_page
from counterfoil.tools.protocol import Journal
from counterfoil.tools.specification import ToolSpecification

__all__ = ["FIND_OPERATIONS", "FindInput"]

DESCRIPTION = """\
Find operations of any run, most recently changed first: by words in key, action, target or run, by \
state now, or by the performing system and its reference. Permits nothing. `cut`: there is more, send \
`next_cursor` as cursor. Having found none proves nothing about the world."""


class FindInput(Input):
    """Arguments of find_operations."""

    text: str | None = None
    run: str | None = None
    workflow: str | None = None
    state: (
        Literal[
            "planned",
            "in_progress",
            "in_doubt",
            "failed",
            "succeeded",
            "timed_out",
            "cancelled",
            "compensated",
            "disputed",
        ]
        | None
    ) = None
    action: str | None = None
    system: str | None = Field(None, description="of a receipt")
    external_id: str | None = Field(None, description="of a receipt")
    since: str | None = Field(None, description="changed since; RFC 3339")
    until: str | None = Field(None, description="changed before; RFC 3339")
    limit: Count | None = None
    cursor: str | None = None


class FindAnswer(Answer):
    """Answer of find_operations."""

    operations: list[Any] | None = None
    guidances: dict[str, str] | None = None
    cut: bool | None = None
    next_cursor: str | None = None
    changed_meanwhile: bool | None = Field(None, description="something moved between the pages: ask anew")


async def run(journal: Journal, arguments: FindInput, caller: Caller) -> dict[str, Any]:
    """Ask the journal for a page of what was found that fits one answer.

    Raises:
        Fault: see `Journal`.
    """

    async def page(limit: int | None) -> dict[str, Any]:
        given = arguments.model_dump(exclude={"trace", "limit"})
        return await journal.find_operations(FindOperations(**given, limit=limit), caller)

    return await fitting_page(page, limit=arguments.limit)


FIND_OPERATIONS = ToolSpecification(
    name="find_operations",
    title="Find operations",
    description=DESCRIPTION,
    input_model=FindInput,
    output_model=FindAnswer,
    run=run,
    reads_only=True,
    when_unavailable="This says nothing about what was done: do not perform any effect.",
    way_to_rest="find_operations with a smaller limit, or check_operation for one of them",
)
