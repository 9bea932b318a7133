"""Contexts and drift: under which assumptions a step was made, and what differs today."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from counterfoil.store.domain.canonical import canonical_json, digest
from counterfoil.store.domain.json_numbers import Json

__all__ = [
    "DEFAULT_CLASSES",
    "Drift",
    "accepted_context",
    "compare_contexts",
    "drift_class",
    "normal_context",
    "worst_class",
]

DEFAULT_CLASSES: Mapping[str, str] = {"policy": "review", "spec": "review", "workflow_version": "review"}
"""What a changed component means where the configuration does not say; every other one is a note."""

_CLASSES = ("none", "note", "review", "block")
_MAPS = ("tools", "memory")
_TOOL_PARTS = (
    "name",
    "description",
    "annotations",
    "inputSchema",
    "outputSchema",
    "input_schema",
    "output_schema",
)
UNKNOWN = "unknown"
REMOVED = "not there"


class Drift(Struct, frozen=True, kw_only=True):
    """One component that differs; `given` is `unknown` where today's call does not say."""

    component: str
    recorded: Json
    given: Json
    drift_class: str

    def as_dict(self) -> dict[str, Json]:
        """Give it as answers show it."""
        return {
            "component": self.component,
            "recorded": self.recorded,
            "given": self.given,
            "class": self.drift_class,
        }


def normal_context(context: Mapping[str, Json]) -> dict[str, Json]:
    """Bring a context into the form that is compared and stored.

    A list of tools or memory blocks becomes a map by name (order does not count); a whole tool definition
    becomes the digest of its name, description, annotations and schemas.
    """
    return {
        name: _normal_map(value) if name in _MAPS else _normal_component(value)
        for name, value in context.items()
        if value is not None
    }


def _normal_map(value: Json) -> Json:
    if isinstance(value, list):
        named = {}
        for item in value:
            if isinstance(item, Mapping):
                name = item.get("name", item.get("label", item.get("id")))
                named[str(name)] = _normal_component(item)
            else:
                named[str(item)] = str(item)
        return dict(sorted(named.items()))
    if isinstance(value, Mapping) and not _is_versioned(value):
        return {
            str(name): _normal_component(part) for name, part in sorted(value.items()) if part is not None
        }
    return _normal_component(value)


def _is_versioned(value: Mapping[str, Json]) -> bool:
    return bool(value) and set(value) <= {"id", "version", "digest"}


def _normal_component(value: Json) -> Json:
    """A short value as it is; a tool definition, a block or anything longer as its digest."""
    if isinstance(value, Mapping):
        if _is_versioned(value):
            return dict(sorted(value.items()))
        parts = value
        if "name" in value and any(part in value for part in _TOOL_PARTS[1:]):
            parts = {name: value[name] for name in _TOOL_PARTS if name in value}
        return {"digest": digest(canonical_json(dict(parts)))}
    if isinstance(value, list):
        return {"digest": digest(canonical_json(value))}
    if isinstance(value, str) and len(value) > 200:
        return {"digest": digest(value)}
    return value


def drift_class(component: str, classes: Mapping[str, str]) -> str:
    """Class a component: by its own name, by the name of its map, else by the defaults."""
    head = component.split(".", 1)[0]
    for name in (component, head):
        if name in classes:
            return classes[name]
    return DEFAULT_CLASSES.get(head, "note")


def compare_contexts(
    recorded: Mapping[str, Json] | None, given: Mapping[str, Json] | None, classes: Mapping[str, str]
) -> tuple[Drift, ...]:
    """Tell component by component what differs; both contexts are in normal form.

    What was recorded and is not given is `unknown`, never "unchanged", and only noted: silence blocks
    nothing. What is given and was never recorded is no drift of this step.
    """
    if not recorded:
        return ()
    found: list[Drift] = []
    offered = given or {}
    for name, old in sorted(recorded.items()):
        if name not in offered:
            found.append(_drift(name, old, UNKNOWN, {name: "note"}))
            continue
        new = offered[name]
        if name in _MAPS and isinstance(old, Mapping) and isinstance(new, Mapping):
            found += _compare_maps(name, old, new, classes)
        elif canonical_json(old) != canonical_json(new):
            found.append(_drift(name, old, new, classes))
    return tuple(found)


def _compare_maps(
    name: str, old: Mapping[str, Any], new: Mapping[str, Any], classes: Mapping[str, str]
) -> Sequence[Drift]:
    found = []
    for part in sorted({*old, *new}):
        before, after = old.get(part, REMOVED), new.get(part, REMOVED)
        if canonical_json(before) != canonical_json(after):
            found.append(_drift(f"{name}.{part}", before, after, classes))
    return found


def _drift(component: str, recorded: Json, given: Json, classes: Mapping[str, str]) -> Drift:
    return Drift(
        component=component,
        recorded=recorded,
        given=given,
        drift_class=drift_class(component, classes),
    )


def accepted_context(
    recorded: Mapping[str, Json] | None,
    given: Mapping[str, Json],
    drifts: Sequence[Drift],
    *,
    is_person: bool,
) -> dict[str, Json]:
    """Give what later steps are compared with once a drift was accepted.

    What the caller did not say stays as recorded, and so does what is classed `block`, unless a person
    accepts it.
    """
    merged: dict[str, Json] = {**(recorded or {}), **given}
    for drift in drifts:
        if drift.drift_class != "block" or is_person:
            continue
        head, _, part = drift.component.partition(".")
        if not part or not isinstance(merged.get(head), Mapping):
            merged[drift.component] = drift.recorded
        else:
            parts = {name: value for name, value in merged[head].items() if name != part}
            merged[head] = parts if drift.recorded == REMOVED else {**parts, part: drift.recorded}
    return merged


def worst_class(drifts: Sequence[Drift]) -> str:
    """The gravest class among what differs; `none` where nothing does."""
    return max((drift.drift_class for drift in drifts), key=_CLASSES.index, default="none")
