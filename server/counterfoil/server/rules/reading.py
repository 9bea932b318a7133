"""Makes rules out of the `[[tools]]` tables of counterfoil.toml; every key is known and has its type."""

import re
from collections.abc import Mapping
from typing import Any

from counterfoil.server.probes.json_reading import read_reading
from counterfoil.server.probes.table import ProbeTable
from counterfoil.server.rules.tool_rule import KEY_PLACE, LookupRule, ReceiptRule, ToolRule
from counterfoil.store.domain.commands import RECEIPT_KINDS
from counterfoil.store.domain.names import normalize_name
from counterfoil.store.errors import InvalidArgument

__all__ = ["read_tool_rule"]

_MOST_SECONDS = 315_360_000
_REPETITIONS = ("unsafe", "keyed", "safe")


def read_tool_rule(where: str, values: Mapping[str, Any]) -> ToolRule:
    """Read one table.

    Raises:
        ProbeProblem: a key is unknown, missing or wrong; it is named, with what would be right.
    """
    table = ProbeTable(where, values)
    tool = table.needed("tool")
    repeat, ttl = table.one_of("repeat", _REPETITIONS), _duration(table, "key_ttl_seconds")
    if repeat == "keyed" and ttl is None:
        raise table.problem("key_ttl_seconds", "it is missing: how long the server remembers a key")
    identity, payload = table.texts("identity"), table.texts("payload") or ()
    for name in payload:
        if identity is not None and name in identity:
            raise table.problem("payload", f"{name} is an identity argument too")
    rule = ToolRule(
        server=table.text("server") or "*",
        tool=tool,
        effect=_switch(table, "effect"),
        action=table.text("action"),
        key=_key(table),
        target=table.text("target"),
        identity=identity,
        payload=payload,
        repeat=repeat,
        key_ttl_seconds=ttl,
        idempotency_argument=table.text("idempotency_argument"),
        trust_idempotent_hint=bool(_switch(table, "trust_idempotent_hint")),
        lease_seconds=_duration(table, "lease_seconds"),
        timeout_seconds=_duration(table, "timeout_seconds"),
        deadline_seconds=_duration(table, "deadline_seconds"),
        max_attempts=_count(table, "max_attempts"),
        refused=_patterns(table, "refused"),
        fail_open=bool(_switch(table, "fail_open")),
        receipt=_receipt(table),
        lookup=_lookup(table),
    )
    if rule.repeat == "keyed" and rule.idempotency_argument is None:
        raise table.problem("idempotency_argument", "it is missing: the argument that takes the key")
    table.close()
    return rule


def _receipt(table: ProbeTable) -> ReceiptRule:
    part = _part(table, "receipt")
    if part is None:
        return ReceiptRule()
    rule = ReceiptRule(
        external_id=part.path("external_id"),
        performed_at=part.path("performed_at"),
        url=part.path("url"),
        kind=part.one_of("kind", RECEIPT_KINDS) or "other",
        system=part.text("system"),
    )
    part.close()
    return rule


def _lookup(table: ProbeTable) -> LookupRule | None:
    part = _part(table, "lookup")
    if part is None:
        return None
    args = part.take("args")
    if not isinstance(args, dict) or not args:
        raise part.problem("args", 'it is a table, such as { query = "{operation}" }')
    rule = LookupRule(
        tool=part.needed("tool"),
        args=part.json_template("args", args),
        reading=read_reading(part),
        conclusive=bool(_switch(part, "conclusive")),
        settle_seconds=_duration(part, "settle_seconds", least=0),
        instructions=part.text("instructions"),
    )
    if not rule.reading.decides:
        raise part.problem("found", "it is missing: the JSON path that says whether something was found")
    part.close()
    return rule


def _key(table: ProbeTable) -> str | None:
    """Read a key: a name with `{ARGUMENT}` in it. With a brace alone it would name one operation for all."""
    key = table.text("key")
    if key is None:
        return None
    bare = KEY_PLACE.sub("x", key)
    if "{" in bare or "}" in bare:
        raise table.problem("key", "its braces stand in pairs around the name of an argument: mail:{to}")
    try:
        normalize_name(bare, field="key")
    except InvalidArgument as fault:
        raise table.problem("key", fault.fix.partition(": ")[2]) from None
    return key


def _part(table: ProbeTable, key: str) -> ProbeTable | None:
    values = table.take(key)
    if values is None:
        return None
    if not isinstance(values, dict):
        raise table.problem(key, "it is a table")
    return ProbeTable(f"{table.where}.{key}", values)


def _switch(table: ProbeTable, key: str) -> bool | None:
    value = table.take(key)
    if value is not None and not isinstance(value, bool):
        raise table.problem(key, "it is true or false")
    return value


def _duration(table: ProbeTable, key: str, *, least: float | None = None) -> float | None:
    value = table.take(key)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not (value > 0 if least is None else value >= least) or value > _MOST_SECONDS:
        raise table.problem(key, "it is a number of seconds")
    return float(value)


def _count(table: ProbeTable, key: str) -> int | None:
    value = table.take(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise table.problem(key, "it is a whole number from 1")
    return value


def _patterns(table: ProbeTable, key: str) -> tuple[re.Pattern[str], ...]:
    patterns = []
    for text in table.texts(key) or ():
        try:
            patterns.append(re.compile(text))
        except re.error as error:
            raise table.problem(key, f"{text!r} is no regular expression: {error}") from None
    return tuple(patterns)
