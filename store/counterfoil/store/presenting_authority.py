"""Shows requests and grants: bounded and escaped, as a person who answers has to see them."""

import json
from typing import Any

from counterfoil.store.domain.commands import Caller, Json
from counterfoil.store.domain.grants import Grant, Request
from counterfoil.store.domain.instants import Instant, rfc3339
from counterfoil.store.domain.outlook import Outlook
from counterfoil.store.domain.untrusted import safe_value
from counterfoil.store.presenting import answer_head, without_none
from counterfoil.store.viewing import safe

__all__ = ["grant_shown", "outlook_head", "request_shown", "who"]


def outlook_head(outlook: Outlook, now: Instant) -> dict[str, Any]:
    """Give the head of an answer that says what comes next."""
    return without_none(
        {
            **answer_head(outlook.next, outlook.reason, now),
            "retry_at": None if outlook.retry_at is None else rfc3339(outlook.retry_at),
        }
    )


def who(caller: Caller) -> str:
    """Name a caller as requests and grants do: the principal, and the agent or client where one is known."""
    named = caller.agent or caller.client
    return f"{caller.principal}, {named}"[:200] if named else caller.principal


def request_shown(request: Request) -> dict[str, Any]:
    """Show a request, bounded and escaped."""
    return without_none(
        {
            "request": request.id,
            "request_state": request.state,
            "asked_for": request.reason,
            "asked_at": rfc3339(request.asked_at),
            "asked_by": safe(request.asked_by),
            "run": request.run,
            "operation": request.operation,
            "action": safe(request.action),
            "target": safe(request.target),
            "why": safe(request.why),
            "answered_at": None if request.answered_at is None else rfc3339(request.answered_at),
            "grant": request.grant_id,
        }
    )


def grant_shown(grant: Grant, now: Instant) -> dict[str, Any]:
    """Show a grant, bounded and escaped, and whether it holds now as far as time tells."""
    policy: Json = None if grant.policy is None else json.loads(grant.policy)
    return without_none(
        {
            "grant": grant.id,
            "source": grant.source.value,
            "granted_by": safe(grant.granted_by),
            "granted_at": rfc3339(grant.granted_at),
            "subject": safe(grant.subject),
            "action": safe(grant.action),
            "target": safe(grant.target),
            "constraints": [safe(text) for text in grant.constraints] or None,
            "run": grant.run,
            "operation": grant.operation,
            "policy": None if policy is None else safe_value(policy, limit=200, items=5, depth=3),
            "not_before": None if grant.not_before is None else rfc3339(grant.not_before),
            "expires_at": None if grant.expires_at is None else rfc3339(grant.expires_at),
            "max_uses": grant.max_uses,
            "adds_attempt": True if grant.adds_attempt else None,
            "why": safe(grant.why),
            "request": grant.request,
            "revoked_at": None if grant.revoked_at is None else rfc3339(grant.revoked_at),
            "holds": _holds(grant, now),
        }
    )


def _holds(grant: Grant, now: Instant) -> str:
    if grant.revoked_at is not None:
        return "no: revoked"
    if grant.expires_at is not None and now >= grant.expires_at:
        return "no: expired"
    return "not yet" if grant.not_before is not None and now < grant.not_before else "yes"
