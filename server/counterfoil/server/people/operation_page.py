"""Lays out one operation for a person: what it is, where it stands, and what led there."""

import re
from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from counterfoil.server.people import rendering as show
from counterfoil.server.people.advice import advice_on
from counterfoil.server.people.output import as_json_text
from counterfoil.store.domain.model import State

__all__ = ["differences", "operation_page", "summary", "what", "who"]

_BODY_SHOWN = 600
"""Characters of a body on the page; `--json` gives it whole."""

_DATA_SHOWN = 160
_FOR_PROGRAMS = (
    "namespace",
    "run",
    "position",
    "call_id",
    "generation",
    "since_floor",
    "granted_at",
    "lease_until",
    "recorded_at",
    "ended_at",
)
"""What an event's line says already, or what only programs read."""

_DIGEST = re.compile(r"(v\d+:)?sha256:[0-9a-f]{64}")
"""What an event names by its digest alone is for programs as well."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
_SPOKEN_OF = ("lookup", "undo")
_HOW = ("probe", "tool", "instructions")


def operation_page(answer: Mapping[str, Any]) -> list[RenderableType]:
    """Give the parts of the page that `whole_operation` fills."""
    parts: list[RenderableType] = [summary(answer)]
    for heading, content in (
        ("Attempts", _attempts(answer)),
        ("Receipts", _receipts(answer)),
        ("Findings", _findings(answer)),
        ("History (# is the number in the log of its run)", _history(answer)),
    ):
        if content is not None:
            parts += [Text(""), Text(heading, "bold"), show.indented(content)]
    for name in ("args", "payload", "declared_lookup", "undo", "evidence"):
        if name in answer:
            parts += [Text(""), _body(name, answer[name])]
    return parts


def summary(answer: Mapping[str, Any], *, is_advised: bool = True) -> RenderableType:
    """Give what identifies the operation and says where it stands; `is_advised`, and what a person can do."""
    decision = answer.get("decision")
    is_settled = State(answer["state"]).is_settled
    return show.facts(
        [
            ("operation", show.plain(answer["operation"], "bold")),
            ("run", show.plain(answer["run"])),
            ("key", show.plain(answer["key"], "bold")),
            ("action", _optional(answer.get("action"))),
            ("target", _optional(answer.get("target"))),
            ("state", show.state(answer["state"])),
            ("disputed by", _optional(answer.get("dispute"))),
            (
                "decided",
                decision
                and show.plain(
                    f"{decision['outcome']} by {decision['by']} at {show.moment(decision['at'])}: "
                    f"{decision['reason']}"
                ),
            ),
            ("next", Text.assemble(show.verb(answer["next"]), ": ", show.plain(answer["reason"]))),
            ("", show.plain(advice_on(answer)) if is_advised else None),
            ("differs", differences(answer)),
            ("looks like", _optional(_duplicates(answer))),
            *(("", show.plain(warning, "red")) for warning in answer.get("warnings", ())),
            ("retry at", _optional(show.moment(answer.get("retry_at")))),
            *(() if is_settled else _where_to_look(answer)),
            ("settled at", _optional(show.moment(answer.get("settled_at")))),
            ("repeat", _optional(answer.get("repeat"))),
            ("depends on", _optional(", ".join(answer.get("depends_on", ())) or None)),
            ("compensates", _optional(answer.get("compensates"))),
            ("as of", show.plain(show.moment(answer["as_of"]))),
        ]
    )


def _where_to_look(answer: Mapping[str, Any]) -> tuple[tuple[str, Text | None], ...]:
    """Say from when an effect can be found, and until when not finding one proves nothing."""
    return (
        ("look since", _optional(show.moment(answer.get("since")))),
        ("settles at", _optional(show.moment(answer.get("settle_until")))),
    )


def _duplicates(answer: Mapping[str, Any]) -> str | None:
    """Name the operations that this one may be a second one of, where that stops it."""
    named = [
        f"{one['key']} ({one['operation']}), {one['state']}: the same {one['same']}"
        for one in answer.get("duplicates", ())
        if "operation" in one
    ]
    return "; ".join(named) or None


def differences(answer: Mapping[str, Any]) -> Text | None:
    """Say which parts of the context differ from what is on record, one a line; None where none is named."""
    told = [
        f"{one['component']}: {_in_short(one['recorded'])} then, {_in_short(one['given'])} now"
        for one in answer.get("drift", ())
        if "component" in one
    ]
    return show.lines(*told) if told else None


def _in_short(value: Any) -> str:
    return value if isinstance(value, str) else as_json_text(value, compact=True)


def _optional(value: Any) -> Text | None:
    return None if value is None else show.plain(value)


def _attempts(answer: Mapping[str, Any]) -> RenderableType | None:
    return _rows(
        answer.get("attempts"),
        {
            "#": lambda attempt: show.plain(attempt["attempt"]),
            "outcome": lambda attempt: show.plain(attempt["outcome"]),
            "granted, ended": lambda attempt: show.lines(
                f"{show.moment(attempt['granted_at'])} {attempt['granted_as']}",
                f"{show.moment(attempt['ended_at'])} ended"
                if "ended_at" in attempt
                else f"{show.moment(attempt['lease_expires_at'])} end of its lease",
            ),
            "idempotency key, error": lambda attempt: show.lines(
                attempt.get("idempotency_key"), attempt.get("error")
            ),
        },
    )


def _receipts(answer: Mapping[str, Any]) -> RenderableType | None:
    return _rows(
        answer.get("receipts"),
        {
            "#": lambda receipt: show.plain(receipt["receipt"]),
            "reference": lambda receipt: show.plain(
                receipt.get("external_id") or receipt.get("url") or "none"
            ),
            "kind, system": lambda receipt: show.plain(f"{receipt['kind']}, {receipt.get('system') or '?'}"),
            "assurance": lambda receipt: show.plain(_standing(receipt)),
            "recorded": lambda receipt: show.plain(show.moment(receipt["recorded_at"])),
        },
    )


def _standing(receipt: Mapping[str, Any]) -> str:
    marks = [mark for mark in ("foreign", "unannounced", "undoing", "set_aside") if receipt.get(mark)]
    if receipt.get("final") is False:
        marks.append("not final")
    return ", ".join([receipt["assurance"], "accepted" if receipt["accepted"] else "kept", *marks])


def _findings(answer: Mapping[str, Any]) -> RenderableType | None:
    return _rows(
        answer.get("findings"),
        {
            "finding": lambda finding: show.plain(finding["finding"]),
            "checked with": lambda finding: show.plain(finding["checked_with"]),
            "by": lambda finding: show.plain(finding["by"]),
            "attempt": lambda finding: show.plain(finding["attempt"]),
            "recorded": lambda finding: show.plain(show.moment(finding["recorded_at"])),
        },
    )


def _history(answer: Mapping[str, Any]) -> RenderableType | None:
    return _rows(
        answer.get("history"),
        {
            "#": lambda entry: show.plain(entry["seq"]),
            "at": lambda entry: show.plain(show.moment(entry["at"])),
            "event, by": lambda entry: show.lines(entry["event"], who(entry["caller"])),
            "what": lambda entry: show.plain(what(entry)),
        },
    )


def what(event: Mapping[str, Any]) -> str:
    """Say in one line what an event's data are, as far as they are short and for people."""
    told = ", ".join(
        text
        for name, value in event["data"].items()
        if name not in _FOR_PROGRAMS and (text := _told(name, value))
    )
    return told if len(told) <= _DATA_SHOWN else f"{told[: _DATA_SHOWN - 2]} …"


def _told(name: str, value: Any) -> str | None:
    """Say one thing of an event: a plain value, a list of them, or what a lookup or an undoing is."""
    match value:
        case bool():
            return None
        case float():
            return f"{name} {value:g}"
        case str() if _DIGEST.fullmatch(value):
            return None
        case str() if _TIME.match(value):
            return f"{name} {show.moment(value)}"
        case str() | int():
            return f"{name} {value}"
        case [*items] if items and all(isinstance(item, str | int) for item in items):
            return f"{name} {' '.join(map(str, items))}"
        case {**parts} if name in _SPOKEN_OF:
            return f"{name} by {' '.join(str(parts[part]) for part in _HOW if part in parts)}"
        case _:
            return None


def who(caller: Mapping[str, Any]) -> str:
    """Name the caller of an event in a few words."""
    if caller.get("person"):
        return f"a person ({caller.get('tool', '')})"
    name = caller.get("agent") or caller.get("client") or caller.get("principal") or "?"
    return f"{name} ({caller['tool']})" if caller.get("tool") else str(name)


def _rows(entries: Any, columns: Mapping[str, Any]) -> RenderableType | None:
    if not entries:
        return None
    rows = [[give(entry) for give in columns.values()] for entry in entries]
    return show.table(
        *columns, rows=rows, narrow=["#", "at", "outcome"], whole=["reference"], indent=show.INDENT
    )


def _body(name: str, body: Mapping[str, Any]) -> RenderableType:
    content = body["content"]
    left = len(content) - _BODY_SHOWN
    note = f" (the first {_BODY_SHOWN} of {len(content)} characters; --json gives all)" if left > 0 else ""
    heading = Text.assemble((name.replace("declared_", "").capitalize(), "bold"), note)
    return Group(heading, show.indented(show.plain(content[:_BODY_SHOWN])))
