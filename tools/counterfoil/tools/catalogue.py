"""The tools that a server offers, in the order in which it lists them."""

from counterfoil.tools.begin_operation import BEGIN_OPERATION
from counterfoil.tools.check_operation import CHECK_OPERATION
from counterfoil.tools.reconcile_operation import RECONCILE_OPERATION
from counterfoil.tools.record_failure import RECORD_FAILURE
from counterfoil.tools.record_receipt import RECORD_RECEIPT
from counterfoil.tools.resume_plan import RESUME_PLAN

__all__ = ["CORE_TOOLS"]

CORE_TOOLS = (
    BEGIN_OPERATION,
    RECORD_RECEIPT,
    RECORD_FAILURE,
    RECONCILE_OPERATION,
    CHECK_OPERATION,
    RESUME_PLAN,
)
"""The six of `--tools core`; together their words stay under 10,000 bytes (tests/server)."""
