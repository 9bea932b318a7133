"""The table that the code decides by is whole, says what docs/states.md says, and has the schema's states."""

import re
from pathlib import Path

import pytest

import counterfoil.store
from conformance.states_document import STATES, Expected, read_tables
from counterfoil.store.domain.answers import GUIDANCE, skip_reason
from counterfoil.store.domain.model import State
from counterfoil.store.domain.table import TABLE, Cell, Command, cell_of

DOCUMENTED = read_tables()

CORRESPONDING: dict[Command, dict[str, tuple[str, ...]]] = {
    Command.BEGIN: {
        "no live lease; unsafe, or the key is over": ("free",),
        "no live lease; unsafe, or the key is over; looked in vain": ("unresolved",),
        "no live lease; safe, or the key is alive": ("free_repeatable",),
        "live lease, by its holder": ("held_by_you",),
        "live lease, by another": ("held",),
        "same call id, no other caller": ("replay",),
        "same call id, no other caller; repeatable": ("replay_repeatable",),
    },
    Command.RECEIPT: {
        "strong, of the newest attempt or none named": ("strong",),
        "strong, of an older attempt that was unknown": ("strong",),
        "strong, of an older attempt that was found without effect": ("strong_without_effect",),
        "strong, of the newest attempt, found without effect while an older one is unknown": (
            "strong_without_effect",
        ),
        "same kind, system and external_id again": ("duplicate",),
        "another external_id, same kind and system": ("second_effect",),
        "another external_id, same kind and system; safe": ("supporting",),
        "other kind or system, same attempt": ("supporting",),
        "other kind or system, another attempt, not safe": ("second_effect",),
        "claimed, or below the required assurance": ("weak",),
        "final: false": ("acknowledged",),
        "foreign": ("foreign",),
    },
    Command.FAILURE: {
        "newest attempt, its holder: unknown": ("unknown",),
        "newest attempt, its holder: none, with evidence": ("none_with_evidence",),
        "newest attempt, its holder: none, with evidence; another is unknown": (
            "none_while_another_is_unknown",
        ),
        "newest attempt, its holder: none, without evidence": ("none_without_evidence",),
        "newest attempt, another caller: kept as a claim": ("another_caller",),
        "older attempt": ("older",),
    },
    Command.PROGRESS: {
        "newest attempt, its holder": ("its_holder",),
        "newest attempt, its holder; its lease merely ran out": ("its_holder_revives",),
        "newest attempt, another caller": ("another_caller",),
        "older attempt": ("older",),
    },
    Command.RECONCILE: {
        "performed, strong receipt": ("performed",),
        "performed, strong receipt; same again": ("performed_duplicate",),
        "performed, strong receipt; another external_id": ("performed_two_effects",),
        "performed, strong receipt; other kind, same attempt": ("performed_supporting",),
        "performed, strong receipt; two effects": ("performed_two_effects",),
        "performed, weak or no receipt": ("performed_weak",),
        "performed, foreign receipt": ("performed_foreign",),
        "performed, foreign receipt; the third": ("foreign_unresolved",),
        "not_performed, timely, with a lookup on record": ("not_performed",),
        "not_performed, timely, with a lookup on record; by its holder": ("by_its_holder",),
        "not_performed or inconclusive, no lookup on record": ("without_lookup",),
        "not_performed or inconclusive, early": ("early",),
        "not_performed or inconclusive, early; by its holder": ("by_its_holder",),
        "not_performed, about an older attempt": ("older",),
        "inconclusive, timely, with a lookup on record": ("inconclusive", "weighs_nothing"),
        "inconclusive, timely, with a lookup on record; looked in vain": ("unresolved",),
        "compensated, strong receipt of the undoing": ("compensated",),
        "compensated, strong receipt of the undoing; two effects": ("compensated_two_effects",),
        "compensated, weak or no receipt of the undoing": ("compensated_weak",),
        "compensated, foreign receipt of the undoing": ("compensated_foreign",),
        "a person: not_performed": ("person_not_performed",),
        "a person: not_performed; never attempted": ("person_not_performed_reopens_plan",),
        "a person: not_performed; after a decision": ("person_not_performed_decision_stands",),
        "a person: performed, naming the receipt that counts": ("performed", "person_performed"),
        "a person: compensated, with the receipt of the undoing": ("compensated",),
    },
    Command.CLOSE: {
        "timed_out": ("timed_out",),
        "timed_out; its holder or a person": ("timed_out_by_its_holder", "timed_out_by_a_person"),
        "timed_out; a person": ("timed_out_by_a_person",),
        "cancelled": ("cancelled",),
        "cancelled; a person": ("cancelled_by_a_person",),
    },
}
"""The code's rows by the document's situations; the part of a cell stands after the last semicolon."""


def documented_cells() -> list[tuple[Command, str, str, Expected]]:
    """Every documented part of a cell that corresponds to rows of the code."""
    found = []
    for command, rows in CORRESPONDING.items():
        for situation, cells in DOCUMENTED[command.value].items():
            for state, cell in cells.items():
                for part, expected in cell.items():
                    name = f"{situation}; {part}" if part else situation
                    if name in rows and not expected.is_below:
                        found.append((command, name, state, expected))
    return found


def as_documented(cell: Cell) -> tuple[str | None, str, str | None]:
    """A cell of the code in the document's words."""
    answer = {
        ("skip", "state"): ("skip", None),
        ("disputed", "disputed"): ("disputed†", None),
    }.get((cell.next, cell.reason), (cell.next, cell.reason))
    return (None if cell.to is None else cell.to.value, *answer)


def of_document(expected: Expected, state: str) -> tuple[str | None, str | None, str | None]:
    to = None if expected.to in ("decision", state) else expected.to
    reason = "repeat" if expected.reason in ("repeat_safe", "repeat_keyed") else expected.reason
    return to, expected.next, reason


@pytest.mark.parametrize("command", list(Command))
def test_every_row_has_a_cell_for_each_of_the_nine_states(command: Command) -> None:
    assert TABLE[command]
    for row, cells in TABLE[command].items():
        assert list(cells) == list(State), row


def test_every_command_has_rows() -> None:
    assert list(TABLE) == list(Command)


def test_every_row_has_a_cell_that_can_occur() -> None:
    for rows in TABLE.values():
        for row, cells in rows.items():
            assert any(cells.values()), row


@pytest.mark.parametrize(
    ("command", "name", "state", "expected"),
    documented_cells(),
    ids=[f"{command}: {name}, {state}" for command, name, state, _ in documented_cells()],
)
def test_the_code_has_the_documented_cell(
    command: Command, name: str, state: str, expected: Expected
) -> None:
    found = [
        as_documented(cell)
        for row in CORRESPONDING[command][name]
        if (cell := TABLE[command][row][State(state)]) is not None
    ]
    wanted = of_document(expected, state)
    if expected.to == state == "disputed":
        # Another effect in a dispute makes it graver and leaves the state.
        assert [cell[1:] for cell in found] == [wanted[1:]]
    else:
        assert set(found) == {wanted}


def test_every_situation_of_the_document_corresponds_to_rows_of_the_code() -> None:
    known = {
        command.value: {name.split("; ")[0] for name in rows}
        | {name.rsplit("; ", 1)[0] for name in rows}
        | set(rows)
        for command, rows in CORRESPONDING.items()
    }
    for table, situations in DOCUMENTED.items():
        if table in known:
            assert set(situations) - known[table] == set()


def test_every_row_of_the_code_corresponds_to_a_situation_of_the_document() -> None:
    named = {
        command: {row for rows in situations.values() for row in rows}
        for command, situations in CORRESPONDING.items()
    }
    left = {row for command in Command for row in TABLE[command] if row not in named[command]}
    assert left == {"person_ends_lease"}, "a person's --end-lease has no row of its own in the document"


def test_a_skip_moves_nothing_and_only_a_begin_performs() -> None:
    for command, rows in TABLE.items():
        for row, cells in rows.items():
            for state, cell in cells.items():
                if cell is None:
                    continue
                if cell.next == "skip":
                    assert cell.to is None, (command, row, state)
                if cell.next == "perform":
                    assert command is Command.BEGIN
                    assert state in (State.PLANNED, State.IN_PROGRESS, State.IN_DOUBT, State.FAILED)


def test_every_answer_of_the_table_has_its_guidance() -> None:
    for rows in TABLE.values():
        for cells in rows.values():
            for state, cell in cells.items():
                if cell is None:
                    continue
                reasons = {
                    "state": [skip_reason(state)],
                    "repeat": ["repeat_safe", "repeat_keyed"],
                }.get(cell.reason, [cell.reason])
                verbs = ["reconcile", "ask"] if cell.next == "disputed" else [cell.next]
                for verb in verbs:
                    for reason in reasons:
                        assert GUIDANCE[verb, reason]


def test_a_cell_that_cannot_occur_is_refused() -> None:
    with pytest.raises(LookupError, match="held cannot occur in planned"):
        cell_of(Command.BEGIN, "held", State.PLANNED)


def test_the_document_the_code_and_the_schema_have_the_same_states() -> None:
    schema = Path(next(iter(counterfoil.store.__path__)), "sql", "sqlite", "0001_journal.sql").read_text()
    match = re.search(r"CHECK \(state IN \(([^)]*)\)\)", schema)
    assert match is not None
    assert re.findall(r"'(\w+)'", match[1]) == [state.value for state in State] == list(STATES)
