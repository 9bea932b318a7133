"""Which probe serves an operation, and under which reference what it found is recorded."""

from pathlib import Path

import pytest

from counterfoil.server.probes.probe import Inconclusive, Probe, Seen
from counterfoil.server.probes.prober import ConfiguredProber
from counterfoil.store.errors import Ambiguous, Forbidden, NotFound
from counterfoil.store.probing import ProbeFinding, ProbeSubject
from probes import OPERATION, configured, subject

pytestmark = pytest.mark.anyio


class FakeLook:
    """Sees what it is told to."""

    kind = "record"

    def __init__(self, seen: Seen | Exception, *, uses_external_id: bool = False) -> None:
        self.seen = seen
        self.uses_external_id = uses_external_id

    async def see(self, subject: ProbeSubject) -> Seen:
        """Give it, or raise it."""
        if isinstance(self.seen, Exception):
            raise self.seen
        return self.seen

    def lacks(self) -> list[str]:
        """Lack nothing."""
        return []


def probe(
    name: str, action: str | None = None, seen: Seen | Exception | None = None, **given: object
) -> Probe:
    """Give a probe that finds `r-1`."""
    look = FakeLook(seen or Seen(found=True, external_id="r-1"))
    return Probe(**{"name": name, "type": "fake", "look": look, "action": action, **given})  # type: ignore[arg-type]


async def found_by(*probes: Probe, **given: object) -> ProbeFinding:
    """Look for an operation of the action git.push."""
    known = {"action": "git.push", "probe": None, **given}
    return await ConfiguredProber({one.name: one for one in probes}).look(subject(**known))


async def test_the_named_probe_looks_and_otherwise_the_only_one_whose_action_fits() -> None:
    main, mail, any_ = probe("main", "git.*"), probe("mail", "mail.*"), probe("any")
    assert (await found_by(main, mail, any_, probe=None)).probe == "main"
    assert (await found_by(main, mail, any_, probe="any")).probe == "any"
    assert (await found_by(main, mail, any_, probe="main")).probe == "main"


async def test_what_no_probe_or_more_than_one_serves_is_a_fault_that_says_what_to_do() -> None:
    main, push = probe("main", "git.*"), probe("push", "git.push")
    with pytest.raises(NotFound, match="lookup names is not configured") as missing:
        await found_by(main, probe="other")
    assert missing.value.candidates == ("main",)
    with pytest.raises(NotFound, match="no probe is configured for this action"):
        await found_by(probe("any"), probe("mail", "mail.*"))
    with pytest.raises(Ambiguous) as two:
        await found_by(main, push)
    assert two.value.candidates == ("main", "push")
    with pytest.raises(Forbidden, match="does not let"):
        await found_by(probe("mail", "mail.*"), probe="mail")


async def test_a_reference_that_is_on_record_keeps_its_kind_and_system() -> None:
    given = {"external_id": "r-1", "kind": "commit", "system": "github"}
    seen = await found_by(probe("main", "*", system="elsewhere"), **given)
    assert (seen.external_id, seen.kind, seen.system) == ("r-1", "commit", "github")


async def test_another_reference_is_of_the_system_that_the_operator_says_or_else_of_the_action() -> None:
    given = {"external_id": "r-0", "kind": "commit", "system": "github"}
    seen = await found_by(probe("main", "*"), **given)
    assert (seen.external_id, seen.kind, seen.system) == ("r-1", "record", None)
    seen = await found_by(probe("main", "*", system="s", kind="transaction"), **given)
    assert (seen.external_id, seen.kind, seen.system) == ("r-1", "transaction", "s")


async def test_what_has_no_reference_of_the_system_stands_under_the_probes_own_name() -> None:
    seen = await found_by(probe("main", "*", Seen(found=True)), external_id="r-0", kind="x", system="y")
    assert (seen.external_id, seen.kind, seen.system) == (OPERATION, "record", "probe:main")
    seen = await found_by(probe("main", "*", Seen(found=True, external_id="a@b", is_own_form=True)))
    assert (seen.external_id, seen.system) == ("a@b", "probe:main")
    asked = Probe(
        name="main", type="fake", action="*", look=FakeLook(Seen(found=True), uses_external_id=True)
    )
    seen = await found_by(asked, external_id="r-0", kind="commit", system="github")
    assert (seen.external_id, seen.kind, seen.system) == ("r-0", "commit", "github")


async def test_a_probe_that_fails_tells_nothing_and_its_error_reaches_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen = await found_by(probe("main", "*", RuntimeError("hunter2")))
    assert (seen.found, seen.why) == (None, "it failed in a way that was not foreseen")
    assert "hunter2" not in repr(seen)
    assert "hunter2" not in caplog.records[-1].getMessage()
    seen = await found_by(probe("main", "*", Inconclusive("it was closed")))
    assert (seen.found, seen.why) == (None, "it was closed")


def test_a_probe_is_what_the_file_says(tmp_path: Path) -> None:
    table = '[probes.it]\ntype = "file"\npath = "/srv/{key}"\nkind = "release"\nsystem = "s"\n'
    prober = configured(tmp_path, table + 'action = "a.*"\ntimeout_seconds = 5')
    made = prober._probes["it"]
    assert (made.type, made.action, made.kind, made.system, made.timeout_seconds) == (
        "file",
        "a.*",
        "release",
        "s",
        5,
    )
    assert (made.serves("a.b"), made.serves("b.a")) == (True, False)
