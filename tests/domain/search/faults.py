"""Faults that the search must find by itself: each is one changed line of the shipped rules."""

from dataclasses import dataclass

from domain.search.rules import Rules, load_rules

__all__ = ["FAULTS", "Fault"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A planted fault: `line` of `module` reads `faulty`; `world` shows it, by breaking `rule`."""

    name: str
    module: str
    line: str
    faulty: str
    world: str
    rule: str

    def rules(self) -> Rules:
        """Give the rules with this fault."""
        return load_rules(module=self.module, line=self.line, faulty=self.faulty)


FAULTS = (
    Fault(
        name="a lease that ran out is evidence",
        module="events",
        line="""return _with_attempts(operation, (data["attempt"],), outcome=Outcome.UNKNOWN)""",
        faulty="""return _with_attempts(operation, (data["attempt"],), outcome=Outcome.SILENT)""",
        world="unsafe, with a lookup",
        rule="no effect happens twice",
    ),
    Fault(
        name="an early look, reported late, counts",
        module="denied",
        line="is_early = given.as_of is None or (until is not None and given.as_of < until)",
        faulty="is_early = given.as_of is None or (until is not None and draft.now < until)",
        world="unsafe, with a lookup",
        rule="no effect happens twice",
    ),
    Fault(
        name="a refused repeat clears the attempt before it",
        module="events",
        line="""                (data["attempt"],),
                outcome=Outcome(data["outcome"]),""",
        faulty="""                range(1, data["attempt"] + 1),
                outcome=Outcome(data["outcome"]),""",
        world="keyed, three attempts",
        rule="no effect happens twice",
    ),
    Fault(
        name="silence raises the generation",
        module="states",
        line="is_over = until is not None and now >= until",
        faulty="is_over = True",
        world="keyed, the key alive",
        rule="no effect happens twice",
    ),
    Fault(
        name="a repeat's lease outlives its key",
        module="begin",
        line="        ends.append(until)\n",
        faulty="        ends.append(until + 4_000_000_000)\n",
        world="keyed, the key may end",
        rule="no effect happens twice",
    ),
    Fault(
        name="a late receipt is ignored",
        module="receipts",
        line="    warnings = warnings_of_receipt(draft, receipt, given)\n",
        faulty="    if draft.before is State.TIMED_OUT: return draft.answer('skip', 'timed_out')\n"
        "    warnings = warnings_of_receipt(draft, receipt, given)\n",
        world="time-outs made authoritative",
        rule="no receipt is lost",
    ),
    Fault(
        name="the fingerprint is not checked",
        module="begin",
        line="""    if not operation.takes:
        return True""",
        faulty="""    if not operation.takes:
        return False""",
        world="another effect",
        rule="an answer is about the effect that was asked for",
    ),
    Fault(
        name="a later call loosens repeat",
        module="terms",
        line="lambda new, old: new.strictness > old.strictness",
        faulty="lambda new, old: new.strictness != old.strictness",
        world="a looser word",
        rule="no effect happens twice",
    ),
    Fault(
        name="a call delivered again is granted again",
        module="begin",
        line="if again is not None and (live is None or _is_the_same_grant(again, live, situation)):",
        faulty="if again is not None and live and _is_the_same_grant(again, live, situation):",
        world="calls delivered again",
        rule="a call grants once",
    ),
    Fault(
        name="an agent's empty look outweighs a receipt",
        module="denied",
        line="""return given.by == "lookup" and not any(""",
        faulty="""return given.by == "lookup" or not any(""",
        world="lookups that err, and a higher assurance",
        rule="no word outweighs a receipt",
    ),
    Fault(
        name="an undoing is granted where there is nothing to undo",
        module="outlook",
        line="if state is State.SUCCEEDED:",
        faulty="if state is not State.CANCELLED:",
        world="an undoing",
        rule="an undoing has something to undo",
    ),
    Fault(
        name="each heartbeat extends the lease by more than the one before",
        module="progress",
        line="newest.lease_until - max(newest.granted_at, operation.progressed_at or 0)",
        faulty="newest.lease_until - newest.granted_at",
        world="heartbeats",
        rule="no lease outgrows its length",
    ),
    Fault(
        name="an old deadline closes what a person reopened",
        module="terms",
        line="    if is_over:",
        faulty="    if False:",
        world="a deadline",
        rule="no state flips silently",
    ),
    Fault(
        name="a person's word delivered again counts as said again",
        module="findings",
        line="is_kept_by_call = situation.is_person or given.as_of is None",
        faulty="is_kept_by_call = False",
        world="people who err",
        rule="a call sent twice changes nothing more",
    ),
)
