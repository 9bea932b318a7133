"""Carries out a verdict: appends its events to the run's chain and writes the rows that follow from them."""

import json
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from msgspec import Struct

from counterfoil.store.chain import event_hash, genesis
from counterfoil.store.domain.commands import Caller
from counterfoil.store.domain.events import Event, EventKind
from counterfoil.store.domain.instants import Instant
from counterfoil.store.domain.model import Operation, Party, Run
from counterfoil.store.domain.untrusted import escape_untrusted
from counterfoil.store.errors import JournalUnavailable, RunDamaged
from counterfoil.store.preparing import Bodies
from counterfoil.store.protocol import Connection
from counterfoil.store.saving_rows import save_operation, save_run
from counterfoil.store.statements import StatementRefused
from counterfoil.store.stored_json import to_json

__all__ = ["Change", "RunPlace", "carry_out", "caller_text", "under_assumptions"]


class RunPlace(Struct, frozen=True, kw_only=True):
    """Which run is written to."""

    namespace: str
    run: str


class Change(Struct, frozen=True, kw_only=True):
    """What happened to one operation: its events, and the facts before and after them."""

    before: Operation | None
    after: Operation
    events: Sequence[Event]


def caller_text(caller: Caller, *, context: str | None = None, workflow_version: str | None = None) -> str:
    """Give what the log keeps of a caller and of the assumptions that the call itself named."""
    told = {name: value for name, value in zip(_KEPT, _kept(caller), strict=True) if value is not None}
    if caller.is_person:
        told["person"] = True
    if context is not None:
        told["context"] = context
    if workflow_version is not None:
        told["workflow_version"] = workflow_version
    return to_json(told)


_KEPT = (
    "client",
    "client_version",
    "principal",
    "connection",
    "conversation",
    "tool",
    "agent",
    "model",
    "model_run",
    "tool_call",
    "traceparent",
    "call_id",
    "attempt_span",
)
_kept = attrgetter(*_KEPT)


def under_assumptions(caller: str, *, run: Run | None, operation: Operation | None = None) -> str:
    """Complete the text of a caller whose call named no context, or no workflow version.

    Whoever holds the newest attempt acts under what that attempt was begun under; everybody else under what
    the run stands under. `inherited` names what the call itself did not say.
    """
    newest = None if operation is None else operation.newest
    sources = [source for source in (run, newest) if source is not None]
    if not any(source.context or source.workflow_version for source in sources):
        return caller
    told = json.loads(caller)
    missing = [name for name in ("context", "workflow_version") if name not in told]
    if not missing:
        return caller
    if newest is not None and newest.holder is not None and newest.holder.is_holder(_party(told)):
        begun = {"context": newest.context, "workflow_version": newest.workflow_version}
    else:
        begun = {}
    standing = {} if run is None else {"context": run.context, "workflow_version": run.workflow_version}
    values = {name: begun.get(name) or standing.get(name) for name in missing}
    known = {name: value for name, value in values.items() if value is not None}
    return to_json({**told, **known, "inherited": sorted(known)}) if known else caller


def _party(told: dict[str, Any]) -> Party:
    return Party(
        principal=told["principal"], conversation=told.get("conversation"), connection=told["connection"]
    )


def _told(
    run_events: Sequence[Event], changes: Sequence[Change], *, run: Run | None, caller: str, is_whole: bool
) -> list[tuple[Event, str]]:
    """Give every event with the caller's text that it keeps."""
    told: list[tuple[Event, str]] = []
    for events, operation in ((run_events, None), *((change.events, change.after) for change in changes)):
        if events:
            text = caller if is_whole else under_assumptions(caller, run=run, operation=operation)
            told += [(event, text) for event in events]
    return told


async def carry_out(
    connection: Connection,
    *,
    place: RunPlace,
    run: Run | None,
    changes: Sequence[Change],
    bodies: Bodies,
    caller: str,
    now: Instant,
    run_events: Sequence[Event] = (),
    run_after: Run | None = None,
    workflow: str | None = None,
    workflow_version: str | None = None,
    is_callers_text_whole: bool = False,
) -> None:
    """Append the events, write the rows, keep the bodies. Nothing at all happens where there is no event.

    `run` is the run as it was read, None where it is new; `run_after` is the run as `run_events` leave it.
    `caller` is what `caller_text` gives; each event keeps it with the assumptions that it stands under,
    unless `is_callers_text_whole`, as one that was read from a log is.

    Raises:
        JournalUnavailable: another writer appended to the run meanwhile; the transaction has to be undone.
    """
    events = _told(run_events, changes, run=run_after or run, caller=caller, is_whole=is_callers_text_whole)
    if not events:
        return
    where = {"namespace": place.namespace, "run": place.run}
    if run is None:
        run = Run(
            namespace=place.namespace,
            run=place.run,
            created_at=now,
            touched_at=now,
            last_seq=0,
            head=genesis(place.namespace, place.run),
        )
        await connection.fetch_one(
            "create_run",
            {
                **where,
                "created_at": now,
                "touched_at": now,
                "head": run.head,
                "workflow": workflow,
                "workflow_version": workflow_version,
            },
        )
    seq, head = run.last_seq, run.head
    rows = []
    for event, who in events:
        seq += 1
        data, kind = to_json(event.data), event.kind.value
        head = event_hash(
            head,
            seq=seq,
            operation=event.operation,
            kind=kind,
            at=event.at,
            caller=who,
            data=data,
        )
        rows.append(
            {
                **where,
                "seq": seq,
                "operation": event.operation,
                "kind": kind,
                "at": event.at,
                "caller": who,
                "data": data,
                "hash": head,
            }
        )
    created = sum(event.kind is EventKind.OPERATION_CREATED for event, _ in events)
    advanced = await connection.execute(
        "advance_run",
        {
            **where,
            "touched_at": max(now, run.touched_at),
            "last_seq": seq,
            "head": head,
            "operations": run.operations + created,
            "expected_seq": run.last_seq,
        },
    )
    if advanced == 0:
        raise JournalUnavailable(
            "another writer changed the run at the same moment; nothing was recorded",
            fix="send the call again",
            retryable=True,
        )
    if (workflow, workflow_version) != (None, None):
        await connection.execute(
            "name_workflow", {**where, "workflow": workflow, "workflow_version": workflow_version}
        )
    if run_after is not None:
        await save_run(connection, run_after)
    for change in changes:
        if change.events:
            await save_operation(connection, change.before, change.after, now)
    try:
        await connection.execute_many("append_event", rows)
    except StatementRefused as error:
        # The run's row says that the log ends before it does: only a row that was changed does.
        raise RunDamaged(escape_untrusted(place.run, limit=200)) from error
    said = "".join(str(row["data"]) for row in rows)
    # A body that no event refers to is nobody's: a payload worded anew, or one that was pruned.
    kept = [
        {**where, "digest": name, "body": text, "stored_at": now}
        for name, text in bodies.texts.items()
        if name in said
    ]
    if kept:
        await connection.execute_many("save_body", kept)
