"""Brings begin_operation into normal form; what every command shares is in `preparing`."""

from counterfoil.store.domain.begin import BeginGiven
from counterfoil.store.domain.commands import BeginOperation, Lookup, Undo
from counterfoil.store.domain.identity import KINDS_OF_KEYS, is_operation_id, kind_of_id, operation_id
from counterfoil.store.domain.model import LookupTerms, Repeat, Terms, UndoTerms
from counterfoil.store.errors import InvalidArgument
from counterfoil.store.preparing import MOST_ITEMS, Bodies, Preparer, as_dict, duration

__all__ = ["prepare_begin"]


def prepare_begin(command: BeginOperation, *, prepare: Preparer, bodies: Bodies) -> BeginGiven:
    """Prepare a begin.

    Raises:
        InvalidArgument, TooLarge: naming the field; nothing was stored.
    """
    run, key = prepare.name(command.run, name="run"), prepare.name(command.key, name="key")
    context = prepare.body(as_dict(command.context), bodies, name="context")
    depends_on = tuple(prepare.name(other, name="depends_on") for other in command.depends_on)
    if key in depends_on:
        raise InvalidArgument("depends_on", "names this step itself", accepted="keys of other steps")
    for other in command.distinct_from:
        if other != "*" and not is_operation_id(other):
            raise InvalidArgument(
                "distinct_from",
                f"is {kind_of_id(other)}",
                accepted='operation ids, or "*" for settled ones'
                + _if_it_is_a_key(other, prepare=prepare, run=run),
            )
    if command.compensates is not None and not is_operation_id(command.compensates):
        raise InvalidArgument(
            "compensates",
            f"is {kind_of_id(command.compensates)}",
            accepted="the id of the operation to undo"
            + _if_it_is_a_key(command.compensates, prepare=prepare, run=run),
        )
    own_id = operation_id(prepare.namespace, run, key)
    if command.compensates == own_id:
        raise InvalidArgument(
            "compensates", "is this operation itself", accepted="the id of the operation to undo"
        )
    return BeginGiven(
        id=own_id,
        namespace=prepare.namespace,
        run=run,
        key=key,
        description=prepare.description(
            command.action, command.target, command.args, command.payload, bodies
        ),
        terms=_terms(command, prepare=prepare, bodies=bodies),
        depends_on=depends_on[:MOST_ITEMS],
        satisfies=prepare.texts(command.satisfies, name="satisfies"),
        distinct_from=tuple(command.distinct_from)[:MOST_ITEMS],
        compensates=command.compensates,
        lease_seconds=duration(command.lease_seconds, name="lease_seconds"),
        context=context,
        workflow_version=prepare.text(command.workflow_version, name="workflow_version"),
    )


def _if_it_is_a_key(given: str, *, prepare: Preparer, run: str) -> str:
    """Give the id that a name would have as a key of this run; ids are derived, so nothing is read for it."""
    if kind_of_id(given) not in KINDS_OF_KEYS:
        return ""
    try:
        key = prepare.name(given, name="key")
    except InvalidArgument:
        return ""
    return f"; for that key of this run it is {operation_id(prepare.namespace, run, key)}"


def _terms(command: BeginOperation, *, prepare: Preparer, bodies: Bodies) -> Terms:
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
        lookup=_lookup(command.lookup, prepare=prepare, bodies=bodies),
        settle_seconds=settle,
        undo=_undo(command.undo, prepare=prepare, bodies=bodies),
        deadline_seconds=duration(command.deadline_seconds, name="deadline_seconds"),
        max_attempts=command.max_attempts,
    )


def _lookup(lookup: Lookup | None, *, prepare: Preparer, bodies: Bodies) -> LookupTerms | None:
    if lookup is None:
        return None
    terms = LookupTerms(
        tool=prepare.text(lookup.tool, name="lookup.tool"),
        args_digest=prepare.body(as_dict(lookup.args), bodies, name="lookup.args"),
        instructions=prepare.text(lookup.instructions, name="lookup.instructions"),
        probe=prepare.text(lookup.probe, name="lookup.probe"),
        conclusive=lookup.conclusive,
    )
    return terms if terms.is_on_record else None


def _undo(undo: Undo | None, *, prepare: Preparer, bodies: Bodies) -> UndoTerms | None:
    if undo is None:
        return None
    return UndoTerms(
        tool=prepare.text(undo.tool, name="undo.tool"),
        args_digest=prepare.body(as_dict(undo.args), bodies, name="undo.args"),
        instructions=prepare.text(undo.instructions, name="undo.instructions"),
    )


def _choice(value: str, options: type[Repeat], *, name: str) -> Repeat:
    try:
        return options(value)
    except ValueError:
        accepted = "one of " + ", ".join(option.value for option in options)
        raise InvalidArgument(name, "is unknown", accepted=accepted) from None
