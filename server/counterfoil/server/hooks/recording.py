"""Records what came of a call: captured receipts, a refusal with its evidence, or that nobody knows."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from counterfoil.server.clock import read_clock
from counterfoil.server.hooks.call import Call
from counterfoil.server.hooks.event import HookEvent
from counterfoil.server.hooks.outcome import Outcome, outcome_of
from counterfoil.server.hooks.rules.results import result_digest
from counterfoil.server.hooks.saying import journaled, still_open
from counterfoil.store.domain.commands import (
    Caller,
    OperationRef,
    ReceiptGiven,
    RecordFailure,
    RecordReceipt,
)
from counterfoil.store.domain.instants import rfc3339

if TYPE_CHECKING:
    from counterfoil.store.journal import Journal

__all__ = ["record"]

_KEPT_TEXT = 2_000
"""So much of what a call printed is kept at either end."""
_MOST_SEARCHED = 256 * 1024
"""More than any client prints for a model; to look for secrets in a megabyte takes about a second."""


class _Proof(Struct, frozen=True, kw_only=True):
    kind: str
    action: str
    external_id: str
    url: str | None
    source: str = "response"


async def record(
    journal: "Journal",
    caller: Caller,
    call: Call,
    event: HookEvent,
    *,
    ref: OperationRef,
    attempt: int | None,
    args: Mapping[str, Any],
    is_over: bool = False,
) -> str | None:
    """Record what came of a call, under the attempt that was begun for it; give what the model is told.

    Where none was begun (the journal could not be used then), only a success is kept, as unannounced; and so
    where the attempt `is_over`, since another one came after it.

    Raises:
        Fault: the journal could not take it.
    """
    outcome = outcome_of(event, call)
    look = None
    if outcome.came == "unknown" and attempt is not None and not is_over and _is_push(call):
        from counterfoil.server.hooks.remote import look_at_remote

        look = look_at_remote(event, call, outcome, (await journal.recorded(ref)).args)
    if look == "done" or outcome.came == "succeeded":
        source = "lookup" if look == "done" else "response"
        proofs = list(_proofs(call, event, outcome, source=source))
        answer: Mapping[str, Any] = {}
        for proof in proofs:
            answer = await _receive(journal, caller, call, event, outcome, proof, ref, attempt, args)
        return journaled(answer, external_ids=[proof.external_id for proof in proofs])
    if attempt is None or is_over:
        return None
    if outcome.came == "under_way":
        proof = _Proof(kind="other", action=call.action, external_id=outcome.task or "", url=None)
        answer = await _receive(
            journal, caller, call, event, outcome, proof, ref, attempt, args, is_final=False
        )
        return still_open(answer, came="under_way")
    evidence = {"looked": "the remote does not have it"} if look == "absent" else outcome.evidence
    answer = await journal.record_failure(
        RecordFailure(
            ref=ref,
            attempt=attempt,
            effect="unknown" if evidence is None else "none",
            error=_kept(journal, outcome.text)[:1_000] or "no result",
            evidence=None if evidence is None else {**evidence, **_circumstances(journal, event, outcome)},
        ),
        caller,
    )
    has_none = evidence is not None and answer.get("state") == "failed"
    return still_open(answer, came="refused" if has_none else "unknown")


def _is_push(call: Call) -> bool:
    return any(getattr(effect.rule, "form", None) == "git-push" for effect in call.effects)


def _proofs(call: Call, event: HookEvent, outcome: Outcome, *, source: str) -> Iterator[_Proof]:
    """Give one receipt for each kind of reference; equal kinds are joined, since two would be two effects."""
    found: dict[tuple[str, str], list[tuple[str, str | None]]] = {}
    for effect, shown in zip(call.effects, outcome.found, strict=True):
        external_id = None if shown is None else shown.external_id
        external_id = external_id or effect.reference
        url = None if shown is None else shown.url
        if external_id is not None:
            found.setdefault((effect.rule.kind, effect.action), []).append((external_id, url))
    for (kind, action), references in found.items():
        ids = list(dict.fromkeys(external_id for external_id, _ in references))
        yield _Proof(
            kind=kind, action=action, external_id=" ".join(ids)[:1_000], url=references[-1][1], source=source
        )
    if not found:
        result = event.response if event.has_response else event.error
        yield _Proof(
            kind="other", action=call.action, external_id=result_digest(result), url=None, source=source
        )


async def _receive(
    journal: "Journal",
    caller: Caller,
    call: Call,
    event: HookEvent,
    outcome: Outcome,
    proof: _Proof,
    ref: OperationRef,
    attempt: int | None,
    args: Mapping[str, Any],
    *,
    is_final: bool = True,
) -> Mapping[str, Any]:
    return await journal.record_receipt(
        RecordReceipt(
            ref=ref,
            receipt=ReceiptGiven(
                attempt=attempt,
                kind=proof.kind,
                external_id=proof.external_id,
                # Apart from what an agent calls the system: its own receipt then supports this one.
                system=f"hook:{proof.action}",
                performed_at=rfc3339(read_clock().at),
                url=proof.url,
                evidence=_circumstances(journal, event, outcome),
                final=is_final,
                source=proof.source,
                assurance="captured",
                action=None if attempt is not None else call.action,
                target=None if attempt is not None else call.target,
                args=None if attempt is not None else args,
            ),
        ),
        caller,
    )


def _circumstances(journal: "Journal", event: HookEvent, outcome: Outcome) -> dict[str, Any]:
    told: dict[str, Any] = {"tool": event.tool, "call": event.call_id, "exit_status": outcome.exit_status}
    told["output"] = _kept(journal, outcome.text) or None
    return {name: value for name, value in told.items() if value is not None}


def _kept(journal: "Journal", text: str) -> str:
    """Give the beginning and the end of a text; secrets go first, since half of one is known for none.

    Of one that is too long to be searched, the beginning alone, and of JSON nothing: there the name of a
    secret may stand far from it.
    """
    if len(text) > _MOST_SEARCHED:
        told = f"… ({len(text)} characters in all)"
        if text.lstrip()[:1] in ("{", "[", '"'):
            return told
        hidden = str(journal.hidden(text[:_MOST_SEARCHED].replace("\0", "")))
        # What stands last there may be the half of a secret.
        return f"{hidden[:-_KEPT_TEXT][:_KEPT_TEXT]}\n{told}"
    hidden = str(journal.hidden(text.replace("\0", "")))
    if len(hidden) <= 2 * _KEPT_TEXT:
        return hidden
    return f"{hidden[:_KEPT_TEXT]}\n… ({len(hidden)} characters in all)\n{hidden[-_KEPT_TEXT:]}"
