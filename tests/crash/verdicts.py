"""Holds what the sessions of a scenario were told against what the performing system did."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from crash.kills import KEY_IS_ALIVE_SECONDS, Scenario

__all__ = ["deaths_in", "judge"]


def judge(
    scenario: Scenario, notes: list[dict[str, Any]], effects: list[str], *, passed_seconds: float
) -> tuple[list[str], str]:
    """Hold what the sessions were told against what the performing system did: what is wrong, and the end."""
    faults: list[str] = []
    last = notes[-1]
    checked = last.get("checked")
    if checked is None:
        return ["the last session did not get through"], "none"
    if last["verified"] != {"operations": 1, "faults": []}:
        faults.append(f"the journal does not verify: {last['verified']}")
    if len(effects) > 1:
        faults.append(f"{len(effects)} effects")
    answered = [note for note in notes if "tool" in note]
    kept = [receipt["external_id"] for receipt in checked.get("receipts", ())]
    acknowledged = [
        note["answer"]["receipt"]["external_id"] for note in answered if "receipt" in note["answer"]
    ]
    if not set(acknowledged) <= set(kept):
        faults.append(f"acknowledged {acknowledged}, kept {kept}")
    if not set(kept) <= set(effects):
        faults.append(f"receipts of no effect: {kept}")
    grants = Counter(
        note["answer"]["attempt"]
        for note in answered
        if note["answer"]["next"] == "perform" and not note["answer"]["replayed"]
    )
    if any(count > 1 for count in grants.values()):
        faults.append(f"an attempt was granted twice: {grants}")
    end = f"{checked['state']}, {checked['next']}: {checked['reason']}"
    if checked["state"] == "succeeded":
        if not effects or not kept:
            faults.append("reported as done, and nothing took place")
    elif end != "in_doubt, ask: unresolved":
        faults.append(f"neither settled nor flagged: {end}")
    else:
        faults += _wrongly_flagged(scenario, checked, answered, passed_seconds=passed_seconds)
    ends = [note["end"] for note in notes if note.get("end") in ("skip", "ask")]
    if ends[-1:] != [checked["next"]] or ("skip" in ends[:-1] and checked["state"] != "succeeded"):
        faults.append(f"told {ends}, and then {end}")
    if "ask" in ends[:-1] and checked["next"] == "skip":
        faults.append("a person was asked about what was then settled without one")
    return faults, end


def _wrongly_flagged(
    scenario: Scenario,
    checked: Mapping[str, Any],
    answered: list[dict[str, Any]],
    *,
    passed_seconds: float,
) -> list[str]:
    """Say why a person need not have been asked, if that is so."""
    faults = []
    if scenario.system.lookup != "none":
        faults.append("flagged, though it can be looked up")
    if scenario.system.repeat in ("safe", "keyed, long"):
        faults.append("flagged, though it could be repeated")
    if scenario.system.repeat == "keyed, short" and passed_seconds < KEY_IS_ALIVE_SECONDS:
        faults.append("flagged while its key was alive")
    if any(receipt["accepted"] for receipt in checked.get("receipts", ())):
        faults.append("flagged with a receipt on file")
    settled = [
        note
        for note in answered
        if note["tool"] in ("record_receipt", "record_failure")
        and note["given"]["attempt"] == checked["attempt"]
        and note["answer"]["state"] in ("succeeded", "failed")
    ]
    if settled:
        faults.append("flagged though its newest attempt was reported")
    if not checked.get("attempts"):
        faults.append("flagged though nothing was ever granted")
    return faults


def deaths_in(notes: list[dict[str, Any]]) -> tuple[str, ...]:
    """Name each death that was really met."""
    agents = [f"agent {note['killed_at']}" for note in notes if "killed_at" in note]
    servers = [f"server at {note['server_killed_at']}" for note in notes if "server_killed_at" in note]
    return tuple(agents + servers)
