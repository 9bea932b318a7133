"""Chooses the probe for an operation, lets it look within its time, and says what it saw as a receipt."""

from collections.abc import Mapping

import anyio

from counterfoil.server.logs import logger
from counterfoil.server.probes.probe import Inconclusive, Probe, Seen
from counterfoil.store.errors import Ambiguous, Forbidden, NotFound
from counterfoil.store.probing import ProbeFinding, ProbeSubject

__all__ = ["ConfiguredProber"]

_UNTIL_THEN = "until then look with the recorded lookup and call reconcile_operation"


class ConfiguredProber:
    """The operator's probes, by name."""

    def __init__(self, probes: Mapping[str, Probe]) -> None:
        self._probes = probes

    async def look(self, subject: ProbeSubject) -> ProbeFinding:
        """Look whether the effect happened.

        Raises:
            NotFound: no probe is configured for the operation.
            Ambiguous: more than one is, and its lookup names none.
            Forbidden: the operator does not let the named one serve this action.
        """
        probe = self._chosen(subject)
        try:
            with anyio.fail_after(probe.timeout_seconds):
                seen = await probe.look.see(subject)
        except Inconclusive as cannot_tell:
            return _nothing(probe, cannot_tell.why)
        except TimeoutError:
            return _nothing(probe, f"it was not done within {probe.timeout_seconds:g} s")
        except Exception:
            logger.exception("the probe %s failed", probe.name)
            return _nothing(probe, "it failed in a way that was not foreseen")
        if not seen.found:
            return ProbeFinding(probe=probe.name, found=False, evidence=_evidence(probe, seen))
        return _found(probe, seen, subject)

    def _chosen(self, subject: ProbeSubject) -> Probe:
        if subject.probe is not None:
            probe = self._probes.get(subject.probe)
            if probe is None:
                raise NotFound(
                    "the probe that the recorded lookup names is not configured; nothing was recorded",
                    fix=f"an operator adds it as [probes.NAME] to counterfoil.toml; {_UNTIL_THEN}",
                    candidates=list(self._probes),
                )
            if not probe.serves(subject.action):
                raise Forbidden(
                    "the operator does not let the probe that the lookup names serve this action; nothing "
                    "was recorded",
                    fix=f"an operator widens its action in counterfoil.toml; {_UNTIL_THEN}",
                )
            return probe
        fitting = [
            probe
            for probe in self._probes.values()
            if probe.action is not None and probe.serves(subject.action)
        ]
        if not fitting:
            raise NotFound(
                "no probe is configured for this action, and the lookup names none; nothing was recorded",
                fix="an operator adds a [probes.NAME] table with this action to counterfoil.toml, or "
                f"begin_operation names one in lookup.probe; {_UNTIL_THEN}",
                candidates=list(self._probes),
            )
        if len(fitting) > 1:
            raise Ambiguous(
                "more than one probe is configured for this action; nothing was recorded",
                fix="an operator narrows the action of all but one, or begin_operation names one in "
                "lookup.probe",
                candidates=[probe.name for probe in fitting],
            )
        return fitting[0]


def _evidence(probe: Probe, seen: Seen) -> dict[str, object]:
    return {"type": probe.type, **seen.evidence}


def _nothing(probe: Probe, why: str) -> ProbeFinding:
    return ProbeFinding(probe=probe.name, found=None, why=why, evidence={"type": probe.type})


def _found(probe: Probe, seen: Seen, subject: ProbeSubject) -> ProbeFinding:
    """Give what was found the reference that it is known by.

    The reference on record keeps its kind and system, so that it is one receipt of greater assurance and no
    second effect. One that only the probe gives stands under the probe's own name, unless the operator says
    which system it is of.
    """
    external_id, kind, system = seen.external_id, probe.kind or probe.look.kind, probe.system
    if external_id is None and probe.look.uses_external_id:
        external_id = subject.external_id
    if external_id is not None and external_id == subject.external_id:
        kind, system = subject.kind or kind, subject.system or system
    elif external_id is None or seen.is_own_form:
        external_id, system = external_id or subject.operation, system or f"probe:{probe.name}"
    return ProbeFinding(
        probe=probe.name,
        found=True,
        external_id=external_id,
        kind=kind,
        system=system,
        performed_at=seen.performed_at,
        evidence=_evidence(probe, seen),
    )
