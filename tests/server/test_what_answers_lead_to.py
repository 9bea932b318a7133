"""What an answer tells an agent to do is true of its case, and can be done."""

from pathlib import Path

import pytest

from counterfoil.store.errors import NotFound
from journals import open_desk

pytestmark = pytest.mark.anyio


async def test_who_holds_a_receipt_of_nothing_on_record_is_not_told_to_begin_it(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        for _ in ("no run of that name", "no operation of that key"):
            for command in (desk.receipt(), desk.reconcile("performed", external_id="m-1")):
                with pytest.raises(NotFound) as refused:
                    await command
                assert "record_receipt with run, key and action" in refused.value.fix
            await desk.at("another").begin()
        assert (await desk.receipt(action="email.send"))["state"] == "succeeded"
