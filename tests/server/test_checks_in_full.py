"""What a check gives in full: the evidence of every word, and the context of every attempt."""

import json
from pathlib import Path

import pytest

from journals import ANOTHER, open_desk, plain_sql

pytestmark = pytest.mark.anyio


async def test_the_evidence_of_a_failure_is_read_beside_that_of_receipts_and_findings(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        await desk.begin()
        await desk.failure("unknown", caller=ANOTHER, evidence={"seen": "by another"})
        await desk.failure("none", evidence={"status": 422, "api_key": "abcd1234abcd1234"})
        await desk.begin()
        await desk.failure("unknown", attempt=2)
        await desk.receipt(attempt=2, evidence={"id": "m-1"})
        checked = await desk.check(detail="evidence")
    receipt, claimed, failed = json.loads(checked["content"])
    assert receipt == {"receipt": 1, "evidence": {"id": "m-1"}}
    assert claimed == {"attempt": 1, "claimed": True, "evidence": {"seen": "by another"}}
    assert (failed["attempt"], failed["evidence"]["status"]) == (1, 422)
    assert failed["evidence"]["api_key"].startswith("[redacted:")


async def test_the_context_of_each_attempt_is_shown_with_its_digest(tmp_path: Path) -> None:
    first, second = {"model": {"id": "m", "version": "1"}}, {"model": {"id": "m", "version": "2"}}
    async with open_desk(tmp_path) as desk:
        await desk.begin(context=first)
        await desk.failure("none", evidence={"status": 422})
        await desk.begin(context=second)
        checked = await desk.check(detail="full")
        digests = [attempt["context"] for attempt in checked["attempts"]]
        assert [checked["contexts"][digest] for digest in digests] == [first, second]
        assert "contexts" not in await desk.check()
        plain_sql(tmp_path / "journal.db", "UPDATE contexts SET body = '{}'")
        damaged = await desk.check(detail="full")
        assert all(damaged["contexts"][digest]["damaged"] for digest in digests)
        bare = desk.at("bare", run="another")
        await bare.begin()
        assert "contexts" not in await bare.check(detail="full")
