"""The one tree of faults: what could not be taken as asked, each with a stable code, the value and the mend.

An expected refusal (`wait`, `stop`, …) is an answer, never one of these. The code, message, fix and
`recorded` of a fault reach the caller as one JSON object (CONTRACT.md, section 4).
"""

from collections.abc import Sequence

__all__ = [
    "Ambiguous",
    "BodyDamaged",
    "ExportDamaged",
    "Fault",
    "Forbidden",
    "InvalidArgument",
    "JournalUnavailable",
    "NotFound",
    "RowDamaged",
    "RunDamaged",
    "TooLarge",
    "UnsupportedVersion",
]


class Fault(Exception):
    """A call that was not carried out.

    `recorded` is False where nothing was stored, True where the call's effect on the journal is
    durable all the same, and None where that cannot be told (send it again with the same call_id).
    """

    code = "fault"

    def __init__(self, message: str, *, fix: str, recorded: bool | None = False) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.recorded = recorded

    def as_dict(self) -> dict[str, object]:
        """Give the JSON object that a caller sees."""
        return {"code": self.code, "message": self.message, "fix": self.fix, "recorded": self.recorded}


class InvalidArgument(Fault):
    """A field has a form that is not accepted; the message names the field, the fix the accepted form."""

    code = "invalid_argument"

    def __init__(self, field: str, problem: str, *, accepted: str) -> None:
        super().__init__(f"{field}: {problem}", fix=f"{field}: {accepted}")
        self.field = field


class ExportDamaged(InvalidArgument):
    """What another journal gave holds what none would have written, or is not whole; nothing of it was taken.

    The call is in order and the file is not: for a person that is found wanting, and no mistake of usage.
    """

    def __init__(self, where: str, problem: str, *, accepted: str) -> None:
        super().__init__(where, problem, accepted=accepted)
        self.fix = f"this takes {accepted}"


class NotFound(Fault):
    """Nothing under that name; candidates are listed and nothing is created.

    `listed` says in a word or two what the candidates are: near the name given, or all that can be offered.
    """

    code = "not_found"

    def __init__(
        self, message: str, *, fix: str, candidates: Sequence[str] = (), listed: str = "near"
    ) -> None:
        super().__init__(message, fix=fix)
        self.candidates = tuple(candidates)
        self.listed = listed

    def as_dict(self) -> dict[str, object]:
        """Give the JSON object that a caller sees, candidates included."""
        return {**super().as_dict(), "candidates": list(self.candidates)}


class Ambiguous(NotFound):
    """More than one fits; the caller has to say which."""

    code = "ambiguous"


class Forbidden(Fault):
    """The caller may not do this."""

    code = "forbidden"


class TooLarge(Fault):
    """A value is over its limit (CONTRACT.md, section 8); nothing was half-stored."""

    code = "too_large"

    def __init__(self, field: str, *, size: int, limit: int, unit: str) -> None:
        super().__init__(
            f"{field}: {size} {unit}, the limit is {limit}",
            fix=f"{field}: at most {limit} {unit}; keep the whole outside and give a reference or a digest",
        )
        self.field = field


class UnsupportedVersion(Fault):
    """The journal or a value in it has a version that this program does not know."""

    code = "unsupported_version"


class JournalUnavailable(Fault):
    """The journal cannot be used now: busy, full, read-only, corrupt, unreachable.

    `retryable` says whether the same call may go through later without anybody's help.
    """

    code = "journal_unavailable"

    def __init__(
        self, message: str, *, fix: str, retryable: bool = False, recorded: bool | None = False
    ) -> None:
        super().__init__(message, fix=fix, recorded=recorded)
        self.retryable = retryable


class RunDamaged(JournalUnavailable):
    """The row of a run holds what no event could have written; its operations and its log may be whole."""

    def __init__(self, run: str) -> None:
        super().__init__(
            f"the row of run {run} cannot be read: the journal is damaged there; nothing was recorded, do "
            "not perform an effect of this run",
            fix="keep what you have (receipt, finding); a person runs `counterfoil verify`, which names what "
            "is damaged, or restores a backup; the other runs can still be used",
        )


class RowDamaged(JournalUnavailable):
    """A row of what belongs to no run holds what no event could have written: a grant, a request, a token."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the row of {what} cannot be read: the journal is damaged there; nothing was recorded, and it "
            "permits nothing",
            fix="a person runs `counterfoil verify`, which tells what is damaged, and restores a backup; the "
            "rest of the journal can still be used",
        )


class BodyDamaged(JournalUnavailable):
    """What is kept under a digest is something else by now: nothing may be sent, compared or judged by it."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} on record is not what was recorded: the journal is damaged there; nothing was recorded, "
            "do not perform the effect",
            fix="a person runs `counterfoil verify`, which names what is damaged, or restores a backup; the "
            "rest of the journal can still be used",
        )
