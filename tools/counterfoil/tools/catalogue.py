"""The tools that a server offers, in the order in which it lists them."""

from collections.abc import Mapping, Sequence

from counterfoil.tools.begin_operation import BEGIN_OPERATION
from counterfoil.tools.begin_run import BEGIN_RUN
from counterfoil.tools.check_operation import CHECK_OPERATION
from counterfoil.tools.close_operation import CLOSE_OPERATION
from counterfoil.tools.find_operations import FIND_OPERATIONS
from counterfoil.tools.finish_run import FINISH_RUN
from counterfoil.tools.reconcile_operation import RECONCILE_OPERATION
from counterfoil.tools.record_failure import RECORD_FAILURE
from counterfoil.tools.record_progress import RECORD_PROGRESS
from counterfoil.tools.record_receipt import RECORD_RECEIPT
from counterfoil.tools.request_authority import REQUEST_AUTHORITY
from counterfoil.tools.resume_plan import RESUME_PLAN
from counterfoil.tools.specification import ToolSpecification
from counterfoil.tools.verify_operation import VERIFY_OPERATION

__all__ = ["ALL_TOOLS", "CORE_TOOLS", "TOOL_SETS"]

CORE_TOOLS: Sequence[ToolSpecification] = (
    BEGIN_OPERATION,
    RECORD_RECEIPT,
    RECORD_FAILURE,
    RECONCILE_OPERATION,
    CHECK_OPERATION,
    RESUME_PLAN,
)
"""The six of `--tools core`; together their words stay under 10,000 bytes (tests/server)."""

ALL_TOOLS: Sequence[ToolSpecification] = (
    *CORE_TOOLS,
    BEGIN_RUN,
    RECORD_PROGRESS,
    CLOSE_OPERATION,
    FINISH_RUN,
    REQUEST_AUTHORITY,
    FIND_OPERATIONS,
    VERIFY_OPERATION,
)
"""Those of `--tools all`; together their words stay under 20,000 bytes (tests/server)."""

TOOL_SETS: Mapping[str, Sequence[ToolSpecification]] = {"core": CORE_TOOLS, "all": ALL_TOOLS}
"""The sets by the names that `--tools` takes."""
