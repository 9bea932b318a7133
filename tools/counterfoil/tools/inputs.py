"""The fields that tools share, and how the arguments of a call become a command.

A field that is not given is None. Names and defaults are those of CONTRACT.md, section 5.
"""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from counterfoil.store.domain.commands import Lookup, OperationRef, ReceiptGiven, ReceiptKind, Undo
from counterfoil.store.errors import InvalidArgument

__all__ = [
    "Count",
    "Input",
    "LookupInput",
    "Names",
    "Object",
    "OperationInput",
    "ReceiptInput",
    "Seconds",
    "SecondsOrZero",
    "Toggle",
    "TraceInput",
    "UndoInput",
    "Whole",
    "WritingInput",
    "number",
    "refused",
]

LONGEST_SECONDS = 315_360_000
"""Ten years: longer than any lease or key lives, short enough that no time computed from it overflows."""

_OUT_OF_RANGE = 10**300

SHORTEST_CALL_ID = 16
"""A call id has to be unlikely to be met twice; clients' own ids have 20 characters and more."""


def refused(problem: str, accepted: str) -> PydanticCustomError:
    """Make the error that `arguments.py` turns into an `InvalidArgument` with these words."""
    return PydanticCustomError("form", "{problem}", {"problem": problem, "accepted": accepted})


def number(value: Any) -> Any:
    """Give what may be a number; an integer that no float holds as one far out of every range."""
    if isinstance(value, bool):
        raise refused("is true or false", "a number")
    return max(-_OUT_OF_RANGE, min(value, _OUT_OF_RANGE)) if isinstance(value, int) else value


def _whole_number(value: Any) -> Any:
    if isinstance(value, bool):
        raise refused("is true or false", "a whole number")
    return value


def _truth(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise refused("is neither true nor false", "true or false")


def _positive(value: float) -> float:
    if not 0 < value <= LONGEST_SECONDS:
        raise refused("is out of range", f"a number of seconds above 0, at most {LONGEST_SECONDS}")
    return value


def _not_negative(value: float) -> float:
    if not 0 <= value <= LONGEST_SECONDS:
        raise refused("is out of range", f"a number of seconds from 0 to {LONGEST_SECONDS}")
    return value


def _counting(value: int) -> int:
    if not 1 <= value < 2**31:
        raise refused("is out of range", "a whole number from 1")
    return value


def _index(value: int) -> int:
    if not 0 <= value < 2**53:
        raise refused("is out of range", "a whole number from 0")
    return value


Seconds = Annotated[float, BeforeValidator(number), AfterValidator(_positive)]
"""A duration above zero."""
SecondsOrZero = Annotated[float, BeforeValidator(number), AfterValidator(_not_negative)]
"""A duration that may be zero."""
Count = Annotated[int, BeforeValidator(_whole_number), AfterValidator(_counting)]
"""A whole number from 1; 1.0 is 1."""
Whole = Annotated[int, BeforeValidator(_whole_number), AfterValidator(_index)]
"""A whole number from 0."""
Toggle = Annotated[bool, BeforeValidator(_truth)]
"""True or false; no number stands for either."""
Object = dict[str, Any]
"""A JSON object; one given as a JSON string is taken as that object."""
Names = list[str]
"""A list of names."""


class Closed(BaseModel):
    """An object that takes the members named here and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class TraceInput(Closed):
    """Who acts, as the caller says it; what `_meta` and the environment tell goes before it."""

    agent: str | None = None
    conversation: str | None = None
    model: str | None = None
    model_run: str | None = None
    tool_call: str | None = None
    traceparent: str | None = None


class LookupInput(Closed):
    """How to find out from the performing system whether the effect happened."""

    tool: str | None = None
    args: Object | None = None
    instructions: str | None = None
    probe: str | None = None
    conclusive: Toggle | None = Field(None, description="an empty find rules out late arrival")
    settle_seconds: SecondsOrZero | None = Field(None, description="until it surely shows (300)")

    def lookup(self) -> Lookup:
        """Give it as the command's part."""
        return Lookup(**self.model_dump())


class UndoInput(Closed):
    """How the effect can be undone."""

    tool: str | None = None
    args: Object | None = None
    instructions: str | None = None

    def undo(self) -> Undo:
        """Give it as the command's part."""
        return Undo(**self.model_dump())


class Input(Closed):
    """The arguments of any tool."""

    trace: TraceInput | None = None


class WritingInput(Input):
    """The arguments of a tool that writes."""

    call_id: str | None = None

    def check_call_id(self, *names: str | None) -> None:
        """Refuse a call id that is too short or merely one of `names` (the key, the run).

        Raises:
            InvalidArgument: naming call_id.
        """
        if self.call_id is None:
            return
        accepted = f"{SHORTEST_CALL_ID} to 200 characters, drawn anew for each call, not the key or the run"
        if not SHORTEST_CALL_ID <= len(self.call_id) <= 200:
            raise InvalidArgument("call_id", f"has {len(self.call_id)} characters", accepted=accepted)
        if self.call_id in names:
            raise InvalidArgument("call_id", "is the key or the run", accepted=accepted)


class OperationInput(Input):
    """Which operation is meant."""

    operation: str | None = Field(None, description="its id; or run and key")
    run: str | None = None
    key: str | None = None

    def ref(self) -> OperationRef:
        """Give the reference; a run alone goes on to the journal, which can say what it may stand for.

        Raises:
            InvalidArgument: neither an id nor a run is given.
        """
        if self.operation is None and self.run is None:
            raise InvalidArgument(
                "operation" if self.key is None else "run",
                "is missing",
                accepted='the operation\'s id ("op_…") as operation, or its run and key',
            )
        return OperationRef(operation=self.operation, run=self.run, key=self.key)


class ReceiptInput(OperationInput, WritingInput):
    """A receipt: evidence from the system that performed the effect."""

    attempt: Count | None = Field(None, description="of begin_operation")
    kind: ReceiptKind = "other"
    external_id: str | None = Field(None, description="message id, commit hash, transaction id, …")
    system: str | None = Field(None, description="which performed it")
    performed_at: str | None = Field(None, description="RFC 3339")
    url: str | None = None
    evidence: Object | None = Field(None, description="its answer")
    final: Toggle = Field(True, description="false: only accepted or queued")
    satisfies: Names = Field([])
    action: str | None = None
    target: str | None = None
    args: Object | None = None

    def receipt(self, *, source: str) -> ReceiptGiven:
        """Give the receipt as the command's part."""
        return ReceiptGiven(
            attempt=self.attempt,
            kind=self.kind,
            external_id=self.external_id,
            system=self.system,
            performed_at=self.performed_at,
            url=self.url,
            evidence=self.evidence,
            final=self.final,
            source=source,
            satisfies=tuple(self.satisfies),
            action=self.action,
            target=self.target,
            args=self.args,
        )
