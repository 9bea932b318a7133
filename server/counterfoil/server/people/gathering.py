"""Puts together what the journal gives in pages: people get the whole of it at once."""

from typing import TYPE_CHECKING, Any

from counterfoil.store.domain.commands import Caller, CheckOperation, OperationRef, ResumePlan
from counterfoil.store.domain.instants import parse_rfc3339
from counterfoil.store.domain.model import Operation
from counterfoil.store.errors import Ambiguous, NotFound
from counterfoil.store.presenting import Presenter
from counterfoil.store.protocol import Connection
from counterfoil.store.rows import load_operation

if TYPE_CHECKING:
    from counterfoil.store.journal import Journal

__all__ = ["owners_of", "whole_operation", "whole_plan", "whole_runs"]

_EVERYTHING = 10**9
_BODIES = ("args", "payload", "lookup", "undo", "evidence")


async def whole_runs(
    journal: "Journal", caller: Caller, *, include: str, limit: int | None = None
) -> dict[str, Any]:
    """Give the runs, most recently touched first; `cut` says whether there are more than `limit`.

    `changed_meanwhile` says that one was touched while they were read, and may be missing.
    """
    answer = page = await journal.resume_plan(ResumePlan(include=include), caller)
    runs = answer["runs"]
    while page.get("next_cursor") and (limit is None or len(runs) < limit):
        page = await journal.resume_plan(ResumePlan(include=include, cursor=page["next_cursor"]), caller)
        runs += page["runs"]
    answer.pop("next_cursor", None)
    is_cut = page["cut"] or (limit is not None and len(runs) > limit)
    return {
        **answer,
        **({"changed_meanwhile": True} if page.get("changed_meanwhile") else {}),
        "runs": runs[:limit],
        "complete": not is_cut and answer["complete"] and page["complete"],
        "cut": is_cut,
    }


async def whole_plan(journal: "Journal", caller: Caller, *, run: str, include: str) -> dict[str, Any]:
    """Give the plan of a run with all its steps.

    Raises:
        NotFound: the journal knows no such run.
    """
    answer = page = await journal.resume_plan(ResumePlan(run=run, include=include), caller)
    if answer["reason"] == "no_history":
        raise NotFound(
            "there is no run of that name; that proves nothing about the world",
            fix="`counterfoil runs --all` lists the runs",
            candidates=answer.get("near_runs", ()),
        )
    while cursor := page.get("next_cursor"):
        page = await journal.resume_plan(ResumePlan(run=run, include=include, cursor=cursor), caller)
        answer["steps"] += page["steps"]
        answer["guidances"].update(page["guidances"])
    answer.pop("next_cursor", None)
    return {**answer, "cut": False}


async def whole_operation(journal: "Journal", caller: Caller, *, ref: OperationRef) -> dict[str, Any]:
    """Give all that is on file of one operation: every attempt, receipt and finding, its bodies, its history.

    Raises:
        NotFound, InvalidArgument: there is none, or what names it is no name.
    """
    answer = page = await journal.check_operation(CheckOperation(ref=ref, detail="full"), caller)
    history = answer["history"]
    while offset := page.get("next_offset"):
        command = CheckOperation(ref=ref, detail="full", offset=offset)
        page = await journal.check_operation(command, caller)
        history += page["history"]
    answer.pop("next_offset", None)
    answer.update(await _all_facts(journal, answer))
    for detail in _BODIES:
        body = await _whole_body(journal, caller, ref, detail)
        if body is not None:
            answer["declared_lookup" if detail == "lookup" else detail] = body
    return answer


async def _all_facts(journal: "Journal", answer: dict[str, Any]) -> dict[str, Any]:
    async def work(connection: Connection) -> Operation | None:
        row = await connection.fetch_one(
            "read_operation_by_id", {"namespace": journal.namespace, "id": answer["operation"]}
        )
        return await load_operation(connection, row)

    operation = await journal.database.read(work)
    if operation is None or operation.is_damaged:
        return {}
    now = parse_rfc3339(answer["as_of"], field="as_of")
    present = Presenter(journal.policy)
    return {
        "attempts": [present.attempt(attempt, operation, now) for attempt in operation.attempts],
        "receipts": present.receipts(operation.receipts, most=_EVERYTHING),
        "findings": [present.finding(finding) for finding in operation.findings],
    }


async def _whole_body(
    journal: "Journal", caller: Caller, ref: OperationRef, detail: str
) -> dict[str, Any] | None:
    content, offset = "", 0
    while True:
        command = CheckOperation(ref=ref, detail=detail, offset=offset)
        page = await journal.check_operation(command, caller)
        if not page["recorded"]:
            return None
        content += page["content"]
        offset = page.get("next_offset", 0)
        if not offset:
            return {"format": page["format"], "characters": page["characters"], "content": content}


async def owners_of(
    journal: "Journal", caller: Caller, *, external_id: str, system: str | None
) -> list[dict[str, Any]]:
    """Give the operations that have a receipt with this reference, none if there is none."""

    async def check(**given: Any) -> dict[str, Any]:
        return await journal.check_operation(CheckOperation(**given), caller)

    try:
        return [await check(ref=OperationRef(), external_id=external_id, system=system)]
    except Ambiguous as several:
        names = [candidate.split(" ", 1)[0] for candidate in several.candidates]
        return [await check(ref=OperationRef(operation=name)) for name in names]
    except NotFound:
        return []
