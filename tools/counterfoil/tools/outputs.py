"""The shapes of answers, for `outputSchema`: what a caller may rely on, loose enough that no answer fails it.

Answers are not validated against these when served, since a commit that is durable must never come back as
an error; tests hold them against real answers. Members that do not apply are absent.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Answer", "Open", "OperationAnswer", "Next"]

Next = Literal["perform", "begin", "skip", "wait", "reconcile", "ask", "stop", "continue"]


class Open(BaseModel):
    """An object that may hold more than is named here."""

    model_config = ConfigDict(extra="allow")


class Shortened(Open):
    """One list or text that was cut to keep the answer readable, and how to get the rest."""

    path: str
    shown: int
    of: int
    rest: str


class Answer(Open):
    """Any answer."""

    next: Next
    reason: str
    guidance: str
    as_of: str = Field(description="when this was true; RFC 3339 UTC")
    warnings: list[Any] | None = None
    shortened: list[Shortened] | None = Field(None, description="what was cut, and how to get the rest")


class OperationAnswer(Answer):
    """An answer about one operation."""

    operation: str | None = None
    run: str | None = None
    key: str | None = None
    state: str | None = None
    attempt: int | None = None
    idempotency_key: str | None = Field(None, description="pass it on to the performing system")
    receipt: dict[str, Any] | None = Field(None, description="as it was recorded")
    receipts: list[Any] | None = None
    settled_at: str | None = None
    retry_at: str | None = None
    lookup: dict[str, Any] | None = None
    since: str | None = Field(None, description="finds older than this are not this effect")
    settle_until: str | None = Field(None, description="an empty find counts only if looked for after this")
    repeat_until: str | None = None
