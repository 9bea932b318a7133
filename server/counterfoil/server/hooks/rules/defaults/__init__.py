"""Which calls are effects where nobody says otherwise: the first rule that matches counts.

The same words may stand in counterfoil.toml, as `[[effects.commands]]` and `[[effects.tools]]`; those go first.
What no rule names is left alone. They are written in Python because a hook reads them at every effect: as TOML
they took longer to read than all the rest that it does.
"""

from typing import TYPE_CHECKING

from counterfoil.server.hooks.rules.defaults.deployments import DEPLOYMENTS
from counterfoil.server.hooks.rules.defaults.forges import FORGES
from counterfoil.server.hooks.rules.defaults.packages import PACKAGES
from counterfoil.server.hooks.rules.defaults.requests import REQUESTS
from counterfoil.server.hooks.rules.defaults.transfers import TRANSFERS
from counterfoil.server.hooks.rules.rule import EffectRules, ToolRule

if TYPE_CHECKING:
    from counterfoil.server.rules.tool_rule import ToolRule as SharedToolRule

__all__ = ["DEFAULT_RULES", "merged"]

# Tools whose names would not tell it rightly.
_TOOLS = (
    ToolRule(
        tool="mcp__*__browser_*",
        effect=False,
    ),
    ToolRule(
        tool="mcp__memory__*",
        effect=False,
    ),
    ToolRule(
        tool="mcp__filesystem__*",
        effect=False,
    ),
)

DEFAULT_RULES = EffectRules(commands=(*FORGES, *PACKAGES, *DEPLOYMENTS, *REQUESTS, *TRANSFERS), tools=_TOOLS)


def merged(own: EffectRules, shared: "tuple[SharedToolRule, ...]" = ()) -> EffectRules:
    """Put the operator's rules before the defaults."""
    return EffectRules(
        commands=(*own.commands, *DEFAULT_RULES.commands),
        tools=own.tools,
        shared=shared,
        default_tools=DEFAULT_RULES.tools,
        fail_closed=own.fail_closed,
    )
