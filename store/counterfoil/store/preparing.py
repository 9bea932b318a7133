"""Brings a command into normal form: names normalised, limits kept, secrets replaced, bodies digested.

Everything that a caller sends passes here once before it is decided upon or stored.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from counterfoil.store.domain.canonical import canonical_json, check_value, digest, fingerprint_of, plain_json
from counterfoil.store.domain.commands import Caller, Json, OperationRef
from counterfoil.store.domain.identity import is_operation_id, kind_of_id, operation_id
from counterfoil.store.domain.model import Description
from counterfoil.store.domain.names import fold_target, normalize_name
from counterfoil.store.errors import InvalidArgument, TooLarge
from counterfoil.store.limits import Limits, body_bytes
from counterfoil.store.redact import Redactor

__all__ = ["MOST_ITEMS", "Bodies", "Preparer", "Reference", "as_dict", "attempt_number", "duration"]

_LONGEST_SECONDS = 10 * 366 * 86_400
_SHORTEST_SECONDS = 0.000_001
MOST_ITEMS = 100
"""Texts in one list."""

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
        if len(values) > MOST_ITEMS:
            raise TooLarge(name, size=len(values), limit=MOST_ITEMS, unit="items")
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
        keyed = self.redactor.keyed_digest(canonical)
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
        args_body = self._body(as_dict(args), bodies, name="args") or _NO_BODY
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


def as_dict(value: Mapping[str, Json] | None) -> dict[str, Json] | None:
    """Give a mapping as the dict that a body is made of."""
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
