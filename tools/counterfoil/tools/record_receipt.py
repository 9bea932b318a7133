"""record_receipt: hand in evidence from the system that performed the effect."""

from typing import Any, Literal

from pydantic import Field

from counterfoil.store.domain.commands import Caller, RecordReceipt
from counterfoil.tools.inputs import ReceiptInput
from counterfoil.tools.outputs import OperationAnswer
from counterfoil.tools.protocol import Journal
from counterfoil.tools.specification import ToolSpecification

__all__ = ["RECORD_RECEIPT", "ReceiptArguments"]

DESCRIPTION = """\
Call right after the effect succeeded, also late, also if it was never begun (then with run, key, \
action). Give `external_id`, the reference the performing system itself returned: your word that it \
was done is no receipt and settles nothing. A check that came out red (tests) is no success: \
record_failure. next: continue = taken; reconcile = unproven or contradicting, look it up; ask = a \
person decides."""


class ReceiptArguments(ReceiptInput):
    """Arguments of record_receipt."""

    source: Literal["response", "lookup", "human"] = Field("response", description="where you have it from")


async def run(journal: Journal, arguments: ReceiptArguments, caller: Caller) -> dict[str, Any]:
    """Hand the receipt to the journal.

    Raises:
        Fault: see `Journal`.
    """
    arguments.check_call_id(arguments.run, arguments.key)
    command = RecordReceipt(ref=arguments.ref(), receipt=arguments.receipt(source=arguments.source))
    return await journal.record_receipt(command, caller)


RECORD_RECEIPT = ToolSpecification(
    name="record_receipt",
    title="Record a receipt",
    description=DESCRIPTION,
    input_model=ReceiptArguments,
    output_model=OperationAnswer,
    run=run,
    when_unavailable="The receipt is NOT stored: keep it and send it again.",
)
