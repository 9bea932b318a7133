"""The assumptions that steps are made under: brought into normal form, and stored once by their digest."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from counterfoil.store.domain.canonical import canonical_json, digest
from counterfoil.store.domain.commands import Json
from counterfoil.store.domain.context import Drift, normal_context
from counterfoil.store.domain.instants import Instant
from counterfoil.store.domain.untrusted import safe_value
from counterfoil.store.preparing import Bodies, Preparer
from counterfoil.store.protocol import Connection

__all__ = [
    "PreparedContext",
    "context_from",
    "drift_shown",
    "prepare_context",
    "review_warning",
    "save_context",
]


_MOST_DRIFTS = 20
"""Differences that an answer shows."""


class PreparedContext(Struct, frozen=True, kw_only=True):
    """A context in normal form, with its digest and the text that is stored once."""

    digest: str
    text: str
    value: dict[str, Json]


def context_from(value: dict[str, Json]) -> PreparedContext:
    """Give a context in normal form with its digest and text."""
    text = canonical_json(value)
    return PreparedContext(digest=digest(text), text=text, value=value)


def prepare_context(
    context: dict[str, Json] | None, *, workflow_version: str | None, prepare: Preparer, bodies: Bodies
) -> PreparedContext | None:
    """Normalise a context; the workflow's version, where it is given beside it, is one of its components."""
    if not context and workflow_version is None:
        return None
    whole = dict(context or {})
    if workflow_version is not None:
        whole.setdefault("workflow_version", workflow_version)
    prepare.body(whole, Bodies(), name="context")
    prepared = context_from(normal_context(prepare.redactor.redact(whole)))
    bodies.add(prepared.text)
    return prepared


async def save_context(
    connection: Connection, namespace: str, context: PreparedContext, now: Instant
) -> None:
    """Store a context once by its digest."""
    await connection.execute(
        "save_context",
        {"namespace": namespace, "digest": context.digest, "body": context.text, "stored_at": now},
    )


def named_contexts(data: Mapping[str, Any]) -> list[str]:
    """Give the digests of the contexts that an event refers to."""
    return [data[name] for name in ("context", "offered") if isinstance(data.get(name), str)]


def drift_shown(drifts: Sequence[Drift]) -> list[dict[str, Any]] | None:
    """Show what differs, bounded; nothing at all where nothing does."""
    shown: list[dict[str, Any]] = [
        {name: safe_value(value, limit=200, items=5, depth=3) for name, value in drift.as_dict().items()}
        for drift in drifts[:_MOST_DRIFTS]
    ]
    if len(drifts) > _MOST_DRIFTS:
        shown.append({"cut": len(drifts) - _MOST_DRIFTS})
    return shown or None


def review_warning(drifts: Sequence[Drift]) -> list[str]:
    """Say what a difference that is to be reviewed asks of a caller; nothing where none is."""
    return [_TO_REVIEW] if any(drift.drift_class == "review" for drift in drifts) else []


_TO_REVIEW = (
    "what this was planned under has changed in a part to review (see drift): look whether what is recorded "
    "is still right before you act; begin_run with accept_drift, where that tool is offered, records that it "
    "is"
)
