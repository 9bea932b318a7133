"""Brings a command into normal form: names normalised, limits kept, secrets replaced, bodies digested.

Everything that a caller sends passes here once before it is decided upon or stored.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from counterfoil.store.domain.begin import BeginGiven
from counterfoil.store.domain.canonical import canonical_json, check_value, digest, fingerprint_of, plain_json
from counterfoil.store.domain.closing import CloseFacts
from counterfoil.store.domain.commands import (
    RECEIPT_KINDS,
    BeginOperation,
    Caller,
    CloseOperation,
    Json,
    Lookup,
    OperationRef,
    ReceiptGiven,
    ReconcileOperation,
    RecordFailure,
    Undo,
)
from counterfoil.store.domain.criteria import satisfaction_text
from counterfoil.store.domain.failures import FailureFacts
from counterfoil.store.domain.identity import is_operation_id, kind_of_id, operation_id
from counterfoil.store.domain.instants import Instant, parse_rfc3339
from counterfoil.store.domain.model import (
    Assurance,
    Description,
    LookupTerms,
    Repeat,
    State,
    Terms,
    UndoTerms,
)
from counterfoil.store.domain.names import fold_target, normalize_name
from counterfoil.store.domain.receipts import ReceiptFacts
from counterfoil.store.errors import InvalidArgument, TooLarge
from counterfoil.store.limits import Limits, body_bytes
from counterfoil.store.redact import Redactor

__all__ = ["Bodies", "Preparer", "Reference", "attempt_number", "duration"]

_LONGEST_SECONDS = 10 * 366 * 86_400
_SHORTEST_SECONDS = 0.000_001
_MOST_ITEMS = 100
_SOURCES = ("response", "lookup", "human")
_KEPT_AS_SENT = ("payload", "result")
"""Bodies that are given back: members stay in the order in which they came."""


class Bodies(Struct):
    """The bodies of one command by digest, as they may be stored."""

    texts: dict[str, str] = field(default_factory=dict)

    def add(self, text: str) -> str:
        """Keep a body and give its digest."""
        name = digest(text)
        self.texts[name] = text
        return name


class _Body(Struct, frozen=True, kw_only=True):
    """A body as it is kept: its digest, the keyed digest of what was sent, and its canonical form.

    `is_redacted`: a secret was replaced in it, now or before a placeholder of it was sent back.
    """

    digest: str | None = None
    keyed: str | None = None
    is_redacted: bool = False
    canonical: str | None = None


_NO_BODY = _Body()


class Reference(Struct, frozen=True, kw_only=True):
    """An operation as it is meant: by id, or by normal run and key (`id` is derived then).

    A run without a key names none (`id` is empty then): whoever reads answers with those that may be meant.
    """

    id: str
    run: str | None = None
    key: str | None = None


class Preparer(Struct, frozen=True):
    """Prepares the commands of one namespace of one journal."""

    namespace: str
    redactor: Redactor
    limits: Limits

    def name(self, text: str, *, name: str) -> str:
        """Normalise a run's or key's name; one that holds a secret is refused: it could not be hidden."""
        normal = normalize_name(text, field=name)
        if self.redactor.redact_text(normal) != normal:
            raise InvalidArgument(
                name,
                "looks like it holds a secret",
                accepted="a name without secrets: it is stored and shown as it is",
            )
        return normal

    def reference(self, ref: OperationRef) -> Reference:
        """Resolve which operation is meant.

        Raises:
            InvalidArgument: neither an id nor a run, both but of different operations, or something that is
                another kind of id.
        """
        if ref.run is not None and ref.key is not None:
            run, key = self.name(ref.run, name="run"), self.name(ref.key, name="key")
            derived = operation_id(self.namespace, run, key)
            if ref.operation is not None and ref.operation.strip() != derived:
                raise InvalidArgument(
                    "operation", "is not the operation of this run and key", accepted="give one of the two"
                )
            return Reference(id=derived, run=run, key=key)
        if ref.operation is None and ref.run is not None:
            return Reference(id="", run=self.name(ref.run, name="run"))
        if ref.operation is None:
            missing = "operation" if ref.key is None else "run"
            raise InvalidArgument(
                missing, "is missing", accepted="name the operation by its id (operation), or by run and key"
            )
        text = ref.operation.strip()
        if not is_operation_id(text):
            kind = kind_of_id(text)
            raise InvalidArgument(
                "operation",
                f"looks like {kind}"
                if kind.startswith("an operation id")
                else f"is no operation id but {kind}",
                accepted="an id such as op_ and 20 characters, as begin_operation gave it, or run and key",
            )
        return Reference(id=text)

    def text(self, value: str | None, *, name: str) -> str | None:
        """Bound a string and replace the secrets in it; blank counts as not given."""
        if value is None or not value.strip():
            return None
        if not value.isascii():
            check_value(value, field=name)
        if len(value) > self.limits.text_characters:
            raise TooLarge(name, size=len(value), limit=self.limits.text_characters, unit="characters")
        return self.redactor.redact_text(value)

    def texts(self, values: tuple[str, ...], *, name: str) -> tuple[str, ...]:
        """Bound a list of strings."""
        if len(values) > _MOST_ITEMS:
            raise TooLarge(name, size=len(values), limit=_MOST_ITEMS, unit="items")
        return tuple(text for value in values if (text := self.text(value, name=name)) is not None)

    def body(self, value: Json, bodies: Bodies, *, name: str) -> str | None:
        """Keep a body, and give its digest; None where nothing was given: an empty object counts as nothing.

        Raises:
            InvalidArgument, TooLarge: naming the field.
        """
        prepared = self._body(value, bodies, name=name)
        return None if prepared is None else prepared.digest

    def _body(self, value: Json, bodies: Bodies, *, name: str) -> "_Body | None":
        if value is None or value == {}:
            return None
        check_value(value, field=name)
        limit = self.limits.of_body(name.rsplit(".", 1)[-1])
        plain = plain_json(value, is_checked=True)
        size = body_bytes(value, plain)
        if size > limit:
            raise TooLarge(name, size=size, limit=limit, unit="bytes")
        # A body may be large, and most hold no secret: then what is stored and what was sent are one text.
        canonical = canonical_json(value)
        keyed = self.redactor.keyed_digest_of(canonical)
        redacted = self.redactor.redact(value)
        is_redacted = redacted is not value and redacted != value
        if is_redacted:
            plain, canonical = plain_json(redacted), canonical_json(redacted)
        return _Body(
            digest=bodies.add(plain if name in _KEPT_AS_SENT else canonical),
            keyed=keyed,
            is_redacted=is_redacted or _holds_placeholder(value, canonical),
            canonical=canonical,
        )

    def description(
        self, action: str, target: str | None, args: Mapping[str, Json] | None, payload: Json, bodies: Bodies
    ) -> Description:
        """Prepare what the effect is."""
        for name, said in (("action", action), ("target", target)):
            # SQL reads such a text as an empty one: no row keeps it as an action, no grant as a target.
            if said is not None and said.strip().startswith("\0"):
                raise InvalidArgument(name, "begins with the character NUL", accepted="text without it")
        clean_action = self.text(action, name="action")
        if clean_action is None:
            raise InvalidArgument(
                "action", "is empty", accepted="what is done, such as email.send or git.push"
            )
        clean_action = clean_action.strip()
        clean_target = self.text(target, name="target")
        clean_target = None if clean_target is None else clean_target.strip()
        args_body = self._body(_as_dict(args), bodies, name="args") or _NO_BODY
        payload_body = self._body(payload, bodies, name="payload") or _NO_BODY
        return Description(
            action=clean_action,
            target=clean_target,
            target_folded="" if clean_target is None else fold_target(clean_target),
            args_digest=args_body.digest,
            args_keyed=args_body.keyed,
            args_redacted=args_body.is_redacted,
            payload_digest=payload_body.digest,
            payload_keyed=payload_body.keyed,
            payload_redacted=payload_body.is_redacted,
            fingerprint=fingerprint_of(clean_action, clean_target, args_body.canonical),
        )

    def begin(self, command: BeginOperation, bodies: Bodies) -> BeginGiven:
        """Prepare a begin.

        Raises:
            InvalidArgument, TooLarge: naming the field; nothing was stored.
        """
        run, key = self.name(command.run, name="run"), self.name(command.key, name="key")
        context = self.body(_as_dict(command.context), bodies, name="context")
        depends_on = tuple(self.name(other, name="depends_on") for other in command.depends_on)
        if key in depends_on:
            raise InvalidArgument("depends_on", "names this step itself", accepted="keys of other steps")
        for other in command.distinct_from:
            if other != "*" and not is_operation_id(other):
                raise InvalidArgument(
                    "distinct_from",
                    f"is {kind_of_id(other)}",
                    accepted='operation ids, or "*" for settled ones',
                )
        if command.compensates is not None and not is_operation_id(command.compensates):
            raise InvalidArgument(
                "compensates",
                f"is {kind_of_id(command.compensates)}",
                accepted="the id of the operation to undo",
            )
        own_id = operation_id(self.namespace, run, key)
        if command.compensates == own_id:
            raise InvalidArgument(
                "compensates", "is this operation itself", accepted="the id of the operation to undo"
            )
        return BeginGiven(
            id=own_id,
            namespace=self.namespace,
            run=run,
            key=key,
            description=self.description(
                command.action, command.target, command.args, command.payload, bodies
            ),
            terms=self._terms(command, bodies),
            depends_on=depends_on[:_MOST_ITEMS],
            satisfies=self.texts(command.satisfies, name="satisfies"),
            distinct_from=tuple(command.distinct_from)[:_MOST_ITEMS],
            compensates=command.compensates,
            lease_seconds=duration(command.lease_seconds, name="lease_seconds"),
            context=context,
            workflow_version=self.text(command.workflow_version, name="workflow_version"),
        )

    def _terms(self, command: BeginOperation, bodies: Bodies) -> Terms:
        repeat = None if command.repeat is None else _choice(command.repeat, Repeat, name="repeat")
        ttl = duration(command.key_ttl_seconds, name="key_ttl_seconds")
        if repeat is Repeat.KEYED and ttl is None:
            raise InvalidArgument(
                "key_ttl_seconds",
                "is missing with repeat keyed",
                accepted="how many seconds the provider remembers an idempotency key, such as 86400",
            )
        if command.max_attempts is not None and not 1 <= command.max_attempts <= 1_000_000:
            raise InvalidArgument("max_attempts", "is out of range", accepted="a whole number from 1")
        settle = None
        if command.lookup is not None and command.lookup.settle_seconds is not None:
            settle = duration(command.lookup.settle_seconds, name="lookup.settle_seconds", least=0)
        return Terms(
            repeat=repeat,
            key_ttl_seconds=ttl,
            lookup=self._lookup(command.lookup, bodies),
            settle_seconds=settle,
            undo=self._undo(command.undo, bodies),
            deadline_seconds=duration(command.deadline_seconds, name="deadline_seconds"),
            max_attempts=command.max_attempts,
        )

    def _lookup(self, lookup: Lookup | None, bodies: Bodies) -> LookupTerms | None:
        if lookup is None:
            return None
        terms = LookupTerms(
            tool=self.text(lookup.tool, name="lookup.tool"),
            args_digest=self.body(_as_dict(lookup.args), bodies, name="lookup.args"),
            instructions=self.text(lookup.instructions, name="lookup.instructions"),
            probe=self.text(lookup.probe, name="lookup.probe"),
            conclusive=lookup.conclusive,
        )
        return terms if terms.is_on_record else None

    def _undo(self, undo: Undo | None, bodies: Bodies) -> UndoTerms | None:
        if undo is None:
            return None
        return UndoTerms(
            tool=self.text(undo.tool, name="undo.tool"),
            args_digest=self.body(_as_dict(undo.args), bodies, name="undo.args"),
            instructions=self.text(undo.instructions, name="undo.instructions"),
        )

    def receipt(
        self, given: ReceiptGiven, bodies: Bodies, *, action: str | None, operation: str | None = None
    ) -> ReceiptFacts:
        """Prepare a receipt; `action` stands for the system where none is named."""
        if given.kind not in RECEIPT_KINDS:
            raise InvalidArgument("kind", "is unknown", accepted="one of " + ", ".join(RECEIPT_KINDS))
        if given.source not in _SOURCES:
            raise InvalidArgument("source", "is unknown", accepted="one of " + ", ".join(_SOURCES))
        external_id = self.text(given.external_id, name="external_id")
        external_id = None if external_id is None else external_id.strip()
        performed_at = None
        if given.performed_at is not None and given.performed_at.strip():
            performed_at = parse_rfc3339(given.performed_at, field="performed_at")
        return ReceiptFacts(
            kind=given.kind,
            system=(self.text(given.system, name="system") or action or "").strip(),
            external_id=external_id,
            performed_at=performed_at,
            url=self.text(given.url, name="url"),
            evidence_digest=self.body(_as_dict(given.evidence), bodies, name="evidence"),
            final=given.final,
            source=given.source,
            # What the server itself found is its own evidence, whatever name it goes by.
            assurance=_assurance(
                given.assurance,
                has_reference=(external_id is not None and given.assurance is not None)
                or is_reference(external_id, operation=operation),
            ),
            attempt=attempt_number(given.attempt),
            satisfies=satisfaction_text(self.texts(given.satisfies, name="satisfies"), ()),
            result_digest=self.body(given.result, bodies, name="result"),
        )

    def failure(self, command: RecordFailure, bodies: Bodies) -> FailureFacts:
        """Prepare a failure report."""
        if command.effect not in ("none", "unknown"):
            raise InvalidArgument("effect", "is unknown", accepted='"none" or "unknown"')
        attempt = attempt_number(command.attempt)
        if attempt is None:
            raise InvalidArgument("attempt", "is missing", accepted="the attempt's number, from 1")
        evidence = _as_dict(command.evidence)
        return FailureFacts(
            attempt=attempt,
            effect=command.effect,
            error=self.text(command.error, name="error") or "",
            evidence=evidence,
            evidence_digest=self.body(evidence, bodies, name="evidence"),
            retryable=command.retryable,
            retry_after_seconds=duration(command.retry_after_seconds, name="retry_after_seconds", least=0),
        )

    def close(self, command: CloseOperation) -> CloseFacts:
        """Prepare a decision."""
        if command.outcome not in ("timed_out", "cancelled"):
            raise InvalidArgument("outcome", "is unknown", accepted='"timed_out" or "cancelled"')
        reason = self.text(command.reason, name="reason")
        if reason is None:
            raise InvalidArgument("reason", "is empty", accepted="why, in a sentence")
        return CloseFacts(outcome=State(command.outcome), reason=reason)

    def as_of(self, command: ReconcileOperation, now: Instant) -> Instant | None:
        """Read the time that a finding was made after; one in the future proves nothing."""
        if command.as_of is None or not command.as_of.strip():
            return None
        moment = parse_rfc3339(command.as_of, field="as_of")
        if moment > now:
            raise InvalidArgument(
                "as_of",
                "lies in the future",
                accepted="the as_of of the answer that sent you to look, copied unchanged",
            )
        return moment

    def caller(self, caller: Caller) -> Caller:
        """Bound what a caller says of itself, and replace the secrets in it."""
        changes: dict[str, Any] = {}
        for name, value in zip(_CALLER_TEXTS, _caller_texts(caller), strict=True):
            if value is not None:
                clean = self.text(value, name=f"trace.{name}")
                if clean != value:
                    changes[name] = clean
        return replace(caller, **changes) if changes else caller


_CALLER_TEXTS = (
    "conversation",
    "client",
    "client_version",
    "agent",
    "model",
    "model_run",
    "tool_call",
    "traceparent",
    "call_id",
)
_caller_texts = attrgetter(*_CALLER_TEXTS)

_NO_REFERENCES = frozenset(
    (
        "n/a",
        "na",
        "none",
        "null",
        "nil",
        "unknown",
        "undefined",
        "tbd",
        "todo",
        "ok",
        "done",
        "success",
        "true",
    )
)
"""What is written into a field that has to be filled: no performing system calls an effect so."""


def is_reference(external_id: str | None, *, operation: str | None) -> bool:
    """Tell whether a text can be a performing system's reference: something visible, and not our own id."""
    if external_id is None or external_id.casefold() in _NO_REFERENCES or external_id == operation:
        return False
    return any(character.isalnum() for character in fold_target(external_id))


def _assurance(found: str | None, *, has_reference: bool) -> Assurance:
    """Weigh a receipt: a claim without a reference, else what brought it."""
    if not has_reference:
        return Assurance.CLAIMED
    return Assurance.REPORTED if found is None else Assurance[found.upper()]


def _as_dict(value: Mapping[str, Json] | None) -> dict[str, Json] | None:
    return None if value is None else dict(value)


def _holds_placeholder(value: Json, canonical: str) -> bool:
    """Tell whether a body holds a placeholder: it stands for a value that is not here."""
    return _PLACEHOLDER_BEGINNING in canonical and _has_placeholder(value)


_PLACEHOLDER_BEGINNING = "[redacted:"


def _has_placeholder(value: Json) -> bool:
    if isinstance(value, str):
        return _PLACEHOLDER_BEGINNING in value
    if isinstance(value, dict):
        return any(map(_has_placeholder, value.values()))
    if isinstance(value, list):
        return any(map(_has_placeholder, value))
    return False


def attempt_number(value: int | None) -> int | None:
    """Check an attempt's number."""
    if value is not None and not 1 <= value <= 1_000_000:
        raise InvalidArgument("attempt", "is out of range", accepted="the attempt's number, from 1")
    return value


def _choice(value: str, options: type[Repeat], *, name: str) -> Repeat:
    try:
        return options(value)
    except ValueError:
        accepted = "one of " + ", ".join(option.value for option in options)
        raise InvalidArgument(name, "is unknown", accepted=accepted) from None


def duration(value: float | None, *, name: str, least: float | None = None) -> float | None:
    """Check a duration in seconds: finite, from one microsecond (or `least`) to ten years.

    What is shorter than the journal's unit of time would end at the moment it begins.
    """
    if value is None:
        return None
    shortest = _SHORTEST_SECONDS if least is None else least
    if not shortest <= value <= _LONGEST_SECONDS:
        raise InvalidArgument(
            name,
            "is out of range",
            accepted=f"a number of seconds from {shortest:.6f} to {_LONGEST_SECONDS}",
        )
    return value
