"""Reads the grants that an operator gives in counterfoil.toml, before anything asks for one."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from counterfoil.server.configuration_values import Wrong, refuse_unknown, tables_in, text_of, texts_of
from counterfoil.store.domain.canonical import canonical_json
from counterfoil.store.domain.context import normal_context
from counterfoil.store.domain.grants import parse_constraint
from counterfoil.store.domain.instants import parse_rfc3339
from counterfoil.store.domain.model import ConfiguredGrant
from counterfoil.store.errors import InvalidArgument

__all__ = ["read_grants"]

_GRANT_PARTS = (
    "name",
    "action",
    "target",
    "subject",
    "constraints",
    "policy",
    "not_before",
    "expires_at",
    "max_uses",
)


def read_grants(document: Mapping[str, Any]) -> tuple[ConfiguredGrant, ...]:
    """Give what the operator permits beforehand; each has a name, by which its uses are counted."""
    grants = tuple(_grant(name, table) for name, table in tables_in("grants", document))
    names = [grant.name for grant in grants]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise Wrong(f"grants[{index}].name", "it is the name of another one too")
    return grants


def _grant(name: str, table: Mapping[str, Any]) -> ConfiguredGrant:
    refuse_unknown(name, table, _GRANT_PARTS)
    for needed in ("name", "action"):
        if needed not in table:
            raise Wrong(f"{name}.{needed}", "it is missing")
    constraints = texts_of(f"{name}.constraints", table.get("constraints", []))
    for index, text in enumerate(constraints):
        try:
            parse_constraint(text)
        except InvalidArgument as fault:
            raise Wrong(f"{name}.constraints[{index}]", fault.fix) from None
    max_uses = table.get("max_uses")
    if max_uses is not None and (isinstance(max_uses, bool) or not isinstance(max_uses, int) or max_uses < 1):
        raise Wrong(f"{name}.max_uses", "it is a whole number from 1")
    policy = table.get("policy")
    if policy is not None and not isinstance(policy, str | dict):
        raise Wrong(f"{name}.policy", "it is a text, or a table with id, version or digest")
    return ConfiguredGrant(
        name=text_of(f"{name}.name", table["name"]),
        **{part: text_of(f"{name}.{part}", table.get(part, "*")) for part in ("action", "target", "subject")},
        constraints=constraints,
        policy=None if policy is None else canonical_json(normal_context({"policy": policy})["policy"]),
        not_before=_moment(f"{name}.not_before", table.get("not_before")),
        expires_at=_moment(f"{name}.expires_at", table.get("expires_at")),
        max_uses=max_uses,
    )


def _moment(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.isoformat()
    try:
        return parse_rfc3339(text_of(name, value), field=name)
    except InvalidArgument:
        raise Wrong(name, "it is a time with its offset: 2026-11-29T17:00:00Z") from None
