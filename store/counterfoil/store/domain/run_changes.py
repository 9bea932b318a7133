"""What a run takes once it is begun: progress, another specification, the end of a hold, and its own end."""

from collections.abc import Sequence

from msgspec import Struct

from counterfoil.store.domain.drafting import Situation
from counterfoil.store.domain.events import EventKind, evolve_run, to_data
from counterfoil.store.domain.holds import held_until, holder_seen, is_held, is_held_by_another
from counterfoil.store.domain.instants import micros
from counterfoil.store.domain.model import Operation, Run, State
from counterfoil.store.domain.runs import RunVerdict, open_questions, run_event
from counterfoil.store.domain.states import state_of

__all__ = ["SpecGiven", "decide_finish_run", "decide_release_run", "decide_run_progress", "decide_set_spec"]

_TAKES_NO_HOLD = "you do not hold this run, and this takes no hold: begin_run does"
_DONE = frozenset((State.SUCCEEDED, State.TIMED_OUT, State.CANCELLED, State.COMPENSATED))


class SpecGiven(Struct, frozen=True, kw_only=True):
    """A specification in normal form; `criteria` is the digest of their text."""

    uri: str | None = None
    digest: str | None = None
    criteria: str | None = None


def decide_finish_run(
    run: Run,
    operations: Sequence[Operation],
    outcome: str,
    reason: str | None,
    situation: Situation,
    *,
    unmet_criteria: Sequence[str] = (),
    is_redelivered: bool = False,
) -> RunVerdict:
    """Finish a run. `completed` is refused while anything is open, planned, failed or unmet.

    A redelivered call changes nothing, also where the run was begun again since.
    """
    now = situation.now.at
    if run.finished_as == outcome or (is_redelivered and run.finished_as is None):
        return RunVerdict(next="continue", reason="duplicate", run=run)
    if run.finished_as is not None:
        return RunVerdict(next="stop", reason="run_finished", run=run)
    warnings = list(open_questions(operations, now))
    if outcome == "completed":
        unmet = tuple(operation for operation in operations if state_of(operation, now) not in _DONE)
        if unmet or unmet_criteria:
            return RunVerdict(next="stop", reason="unmet", run=run, unmet=unmet)
        warnings += [
            f"{operation.id} counts as timed_out, without evidence"
            for operation in operations
            if state_of(operation, now) is State.TIMED_OUT
        ]
    event = run_event(EventKind.RUN_FINISHED, now, {"outcome": outcome, "reason": reason})
    return RunVerdict(
        next="continue",
        reason="finished",
        run=evolve_run(run, event, namespace=run.namespace, name=run.run),
        events=(event,),
        warnings=tuple(warnings),
    )


def decide_release_run(
    run: Run,
    operations: Sequence[Operation],
    reason: str,
    situation: Situation,
    *,
    seen: str | None = None,
    is_redelivered: bool = False,
) -> RunVerdict:
    """End the hold on a run by a person's word; the leases of its operations are left as they are.

    `seen` is the holder that the person was shown (`holder_seen`): another one since keeps its hold.
    """
    now = situation.now.at
    if is_redelivered or run.holder is None or not is_held(run, operations, now):
        return RunVerdict(next="continue", reason="duplicate", run=run)
    if seen not in (None, holder_seen(run)):
        return RunVerdict(
            next="stop",
            reason="unmet",
            run=run,
            warnings=("another session has taken the hold since it was shown",),
        )
    event = run_event(
        EventKind.RUN_RELEASED,
        now,
        {
            "holder": to_data(run.holder),
            "holder_name": run.holder_name,
            "until": held_until(run, operations, now),
            "reason": reason,
        },
    )
    return RunVerdict(
        next="continue",
        reason="recorded",
        run=evolve_run(run, event, namespace=run.namespace, name=run.run),
        events=(event,),
    )


def decide_run_progress(
    run: Run,
    operations: Sequence[Operation],
    situation: Situation,
    *,
    message: str | None,
    fraction: float | None,
    checkpoint: str | None,
    is_redelivered: bool = False,
) -> RunVerdict:
    """Note progress of a run; its holder prolongs the hold by it, or revives one that merely ran out.

    Nobody takes a hold so, or a heartbeat would undo a person's release: only begin_run does. While another
    session holds the run nothing is taken.
    """
    now = situation.now.at
    if run.finished_as is not None:
        return RunVerdict(next="stop", reason="run_finished", run=run)
    if is_held_by_another(run, operations, situation.party, now):
        return RunVerdict(next="wait", reason="run_held", run=run)
    if is_redelivered:
        return RunVerdict(next="continue", reason="duplicate", run=run)
    said = {"message": message, "fraction": fraction, "checkpoint": checkpoint}
    events = [run_event(EventKind.RUN_PROGRESSED, now, said)]
    is_its_own = run.holder is not None and run.holder.is_holder(situation.party)
    if is_its_own:
        held = {
            "holder": to_data(situation.party),
            "holder_name": run.holder_name,
            "until": max(now + micros(situation.policy.lease_seconds), run.held_until or 0),
        }
        events.insert(0, run_event(EventKind.RUN_HELD, now, held))
    after: Run | None = run
    for event in events:
        after = evolve_run(after, event, namespace=run.namespace, name=run.run)
    return RunVerdict(
        next="continue",
        reason="recorded",
        run=after,
        events=tuple(events),
        warnings=() if is_its_own else (_TAKES_NO_HOLD,),
    )


def decide_set_spec(run: Run, given: SpecGiven, situation: Situation) -> RunVerdict:
    """Hold a run against a specification, whoever holds the run; one that is over takes no other."""
    said = {"spec_uri": given.uri, "spec_digest": given.digest, "criteria": given.criteria}
    if all(value is None or getattr(run, name) == value for name, value in said.items()):
        return RunVerdict(next="continue", reason="duplicate", run=run)
    if run.finished_as in ("completed", "cancelled"):
        return RunVerdict(next="stop", reason="run_finished", run=run)
    event = run_event(EventKind.RUN_BEGUN, situation.now.at, said)
    return RunVerdict(
        next="continue",
        reason="recorded",
        run=evolve_run(run, event, namespace=run.namespace, name=run.run),
        events=(event,),
    )
