"""The one table of states and commands, as data: what each row answers in each state, and where it leads.

A command classifies what it was given into a row; the row and the state name the cell; the cell names the
answer and the state that follows. `docs/states.md` prints it, tests enumerate it, and the journal refuses
to commit a decision whose facts lead elsewhere than its cell says.

Cells: `→state verb reason`, `=` for an unchanged state, `-` for what cannot occur. `skip`, `wait` and
`disputed` take their reason from the state, the holder and the dispute.
"""

from enum import StrEnum
from functools import cache

from msgspec import Struct

from counterfoil.store.domain.enumerations import at_hand
from counterfoil.store.domain.model import State

__all__ = ["TABLE", "Cell", "Command", "cell_of"]


@at_hand
class Command(StrEnum):
    """The commands that have rows."""

    BEGIN = "begin_operation"
    RECEIPT = "record_receipt"
    FAILURE = "record_failure"
    PROGRESS = "record_progress"
    RECONCILE = "reconcile_operation"
    CLOSE = "close_operation"


class Cell(Struct, frozen=True, kw_only=True):
    """One cell: the state that follows (None: unchanged), and the answer."""

    to: State | None
    next: str
    reason: str


_STATES = (
    State.PLANNED,
    State.IN_PROGRESS,
    State.IN_DOUBT,
    State.FAILED,
    State.SUCCEEDED,
    State.TIMED_OUT,
    State.CANCELLED,
    State.COMPENSATED,
    State.DISPUTED,
)

_ANSWERS = {
    "recorded": ("continue", "recorded"),
    "duplicate": ("continue", "duplicate"),
    "claimed": ("continue", "claimed"),
    "reconcile": ("reconcile", "in_doubt"),
    "too_weak": ("reconcile", "receipt_too_weak"),
    "foreign": ("reconcile", "foreign_receipt"),
    "settling": ("wait", "settling"),
    "held": ("wait", "lease_held"),
    "held_by_you": ("wait", "lease_held_by_you"),
    "superseded": ("stop", "superseded"),
    "unmet": ("stop", "unmet"),
    "skip": ("skip", "state"),
    "disputed": ("disputed", "disputed"),
    "reconcile_disputed": ("reconcile", "disputed"),
    "ask": ("ask", "disputed"),
    "unresolved": ("ask", "unresolved"),
    "first": ("perform", "first_attempt"),
    "retry": ("perform", "retry_after_failure"),
    "repeat": ("perform", "repeat"),
    "replayed": ("perform", "replayed"),
}

# One line a row: planned | in_progress | in_doubt | failed | succeeded | timed_out | cancelled |
# compensated | disputed, the order of STATES.md.
_ROWS = {
    Command.BEGIN: """
        free: →in_progress first | - | = reconcile | →in_progress retry | = skip | = skip | = skip | = skip | = disputed
        free_repeatable: →in_progress first | - | →in_progress repeat | →in_progress retry | = skip | = skip | = skip | = skip | = disputed
        held_by_you: - | = held_by_you | - | - | = skip | = skip | = skip | = skip | = disputed
        held: - | = held | - | - | = skip | = skip | = skip | = skip | = disputed
        replay: - | = replayed | = reconcile | = superseded | = skip | = skip | = skip | = skip | = disputed
        replay_repeatable: - | = replayed | = superseded | = superseded | = skip | = skip | = skip | = skip | = disputed
        unresolved: - | - | = unresolved | - | - | - | - | - | -
    """,
    Command.RECEIPT: """
        strong: →succeeded recorded | →succeeded recorded | →succeeded recorded | →disputed reconcile_disputed | - | →disputed reconcile_disputed | →disputed reconcile_disputed | →disputed ask | = disputed
        strong_without_effect: - | →disputed reconcile_disputed | →disputed reconcile_disputed | →disputed reconcile_disputed | - | →disputed reconcile_disputed | →disputed reconcile_disputed | →disputed ask | = disputed
        duplicate: - | = duplicate | = duplicate | = duplicate | = duplicate | = duplicate | = duplicate | = duplicate | = duplicate
        second_effect: - | - | - | - | →disputed ask | →disputed ask | →disputed ask | →disputed ask | →disputed ask
        supporting: - | - | - | - | = recorded | = recorded | = recorded | = recorded | = recorded
        weak: →in_doubt too_weak | = too_weak | = too_weak | →in_doubt too_weak | = claimed | = claimed | = claimed | = claimed | = claimed
        acknowledged: →in_doubt recorded | = recorded | = recorded | →in_doubt reconcile | = recorded | = recorded | = recorded | = recorded | = recorded
        foreign: = foreign | = foreign | = foreign | = foreign | = recorded | = foreign | = foreign | = foreign | = disputed
    """,
    Command.FAILURE: """
        unknown: - | →in_doubt reconcile | = reconcile | = recorded | = skip | = skip | = skip | = skip | = disputed
        none_with_evidence: - | →failed recorded | →failed recorded | = duplicate | = skip | = skip | = skip | = skip | = disputed
        none_while_another_is_unknown: - | →in_doubt reconcile | = reconcile | - | = skip | = skip | = skip | = skip | = disputed
        none_without_evidence: - | →in_doubt reconcile | = reconcile | = recorded | = skip | = skip | = skip | = skip | = disputed
        another_caller: - | = held | = reconcile | = recorded | = skip | = skip | = skip | = skip | = disputed
        older: - | = superseded | = superseded | = superseded | = superseded | = superseded | = superseded | = superseded | = superseded
    """,
    Command.PROGRESS: """
        its_holder: - | = recorded | = reconcile | = superseded | = skip | = skip | = skip | = skip | = disputed
        its_holder_revives: - | - | →in_progress recorded | - | - | - | - | - | -
        another_caller: - | = held | = reconcile | = superseded | = skip | = skip | = skip | = skip | = disputed
        older: - | = superseded | = superseded | = superseded | = superseded | = superseded | = superseded | = superseded | = superseded
    """,
    Command.RECONCILE: """
        performed: →succeeded recorded | →succeeded recorded | →succeeded recorded | →succeeded recorded | - | →succeeded recorded | →succeeded recorded | →disputed ask | →succeeded recorded
        performed_two_effects: - | - | - | - | →disputed ask | →disputed ask | →disputed ask | →disputed ask | →disputed ask
        performed_duplicate: - | - | - | - | = duplicate | - | - | = duplicate | -
        performed_supporting: - | - | - | - | = recorded | - | - | →disputed ask | -
        performed_foreign: = foreign | = foreign | = foreign | = foreign | = recorded | = foreign | = foreign | = foreign | = disputed
        foreign_unresolved: = unresolved | = unresolved | = unresolved | = unresolved | - | = unresolved | = unresolved | = unresolved | -
        performed_weak: →in_doubt too_weak | = too_weak | = too_weak | →in_doubt too_weak | = claimed | = claimed | = claimed | = claimed | = claimed
        not_performed: = recorded | = held | →failed recorded | = recorded | = skip | = skip | = skip | = skip | →disputed ask
        weighs_nothing: = recorded | = held | = reconcile | = recorded | = skip | = skip | = skip | = skip | →disputed ask
        without_lookup: = recorded | = held | = unresolved | = recorded | = skip | = skip | = skip | = skip | →disputed ask
        early: = recorded | = held | = settling | = recorded | = skip | = skip | = skip | = skip | →disputed ask
        by_its_holder: - | →in_doubt settling | - | - | - | - | - | - | -
        older: - | = superseded | = superseded | = superseded | = superseded | = superseded | = superseded | = superseded | = superseded
        inconclusive: = recorded | = held | = reconcile | = recorded | = skip | = skip | = skip | = skip | →disputed ask
        unresolved: - | - | = unresolved | - | - | - | - | - | -
        compensated: = unmet | = held | →compensated recorded | = unmet | →compensated recorded | →compensated recorded | →compensated recorded | = duplicate | →compensated recorded
        compensated_two_effects: - | - | - | - | - | - | - | - | = ask
        compensated_foreign: = unmet | = held | = foreign | = unmet | = foreign | = foreign | = foreign | = claimed | = foreign
        compensated_weak: = unmet | = held | = too_weak | = unmet | = too_weak | = too_weak | = too_weak | = claimed | = too_weak
        person_not_performed: = recorded | = held | →failed recorded | = recorded | →disputed recorded | →failed recorded | →failed recorded | = unmet | →failed recorded
        person_not_performed_reopens_plan: - | - | - | - | - | →planned recorded | →planned recorded | - | →planned recorded
        person_not_performed_decision_stands: - | - | - | - | - | - | - | - | →decision recorded
        person_performed: →succeeded recorded | →succeeded recorded | →succeeded recorded | →succeeded recorded | - | →succeeded recorded | →succeeded recorded | - | →succeeded recorded
        person_ends_lease: - | →in_doubt reconcile | - | - | = skip | - | - | - | = disputed
    """,
    Command.CLOSE: """
        timed_out: = unmet | = held | →timed_out recorded | →timed_out recorded | = unmet | = duplicate | = skip | = skip | = disputed
        timed_out_by_its_holder: - | →timed_out recorded | - | - | - | - | - | - | -
        timed_out_by_a_person: = unmet | →timed_out recorded | →timed_out recorded | →timed_out recorded | = unmet | = duplicate | = skip | = skip | →timed_out recorded
        cancelled: →cancelled recorded | = held | = reconcile | →cancelled recorded | = unmet | = skip | = duplicate | = skip | = disputed
        cancelled_by_a_person: →cancelled recorded | = held | →cancelled recorded | →cancelled recorded | = unmet | = skip | = duplicate | = skip | →cancelled recorded
    """,
}


@cache
def _cell(text: str) -> Cell | None:
    """Read a cell. Of 500 no more than 60 differ, and they share one fact: each process reads the table."""
    if text == "-":
        return None
    move, answer = text.split()
    verb, reason = _ANSWERS[answer]
    to = None if move in ("=", "→decision") else State(move.removeprefix("→"))
    return Cell(to=to, next=verb, reason=reason)


def _in_state(cell: Cell | None, state: State) -> Cell | None:
    """Give a cell as it counts in `state`: one that leads there changes nothing."""
    if cell is None or cell.to is not state:
        return cell
    return Cell(to=None, next=cell.next, reason=cell.reason)


def _parse(block: str) -> dict[str, dict[State, Cell | None]]:
    rows = {}
    for line in filter(None, map(str.strip, block.splitlines())):
        name, cells = line.split(": ", 1)
        texts = [cell.strip() for cell in cells.split(" | ")]
        rows[name] = {
            state: _in_state(_cell(text), state) for state, text in zip(_STATES, texts, strict=True)
        }
    return rows


TABLE = {command: _parse(block) for command, block in _ROWS.items()}


def cell_of(command: Command, row: str, state: State) -> Cell:
    """Look up one cell.

    Raises:
        LookupError: the table says that this cannot occur; the facts are wrong, and nothing may be written.
    """
    cell = TABLE[command][row][state]
    if cell is None:
        raise LookupError(f"{command}: {row} cannot occur in {state}")
    return cell
