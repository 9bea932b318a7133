"""One effect of a call: what makes it the one that it is."""

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from counterfoil.server.hooks.rules.rule import EffectRule
from counterfoil.server.hooks.shell.script import Invocation

if TYPE_CHECKING:
    from counterfoil.server.hooks.git_push import Pushed

__all__ = ["Effect"]


class Effect(Struct, frozen=True, kw_only=True):
    """One effect of a call. `sent` says what it is, `state` what goes with it, as far as known beforehand.

    `decides`: the end of the whole call tells whether it succeeded. `names` are all words by which an agent
    may have named the target, `words` those that tell what is done. `reference` is what the performing system
    calls what is sent as it stands now, `invocation` the program of the shell that performs it.
    `is_known` off: the call makes what it sends. `is_readable` off: what it sends cannot be found at all.
    `is_named`: a word of the command says the target. `once` is a target that can be acted on once: no two
    effects have it; `is_version` where it is a version of a package, which no other content takes either.
    `is_vague`: its target may be that of any effect of its action.
    `own` is what its own words say, whatever stands around it and whatever state goes with
    it. `former_target` is the target that keys were made of before rules told it, where there is such a one;
    `former_sent` is what was sent in the words as they were written, where its one spelling is another.
    `written_target` and `written_sent` are both in the case of the words, where they were folded to one.
    `pushed` is what a push sends, `pieces` are the pushes of its refs, each as it would be alone, where it
    has several.
    """

    rule: EffectRule
    action: str
    target: str | None
    sent: Any
    state: Any = None
    decides: bool = True
    names: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    reference: str | None = None
    lookup: str | None = None
    invocation: Invocation | None = None
    is_known: bool = True
    is_readable: bool = True
    is_named: bool = False
    once: str | None = None
    is_version: bool = False
    is_vague: bool = False
    former_target: str | None = None
    has_former_target: bool = False
    former_sent: Any = None
    written_target: str | None = None
    written_sent: Any = None
    own: Any = None
    pushed: "Pushed | None" = None
    pieces: "tuple[Effect, ...]" = ()

    @property
    def is_wide(self) -> bool:
        """Tell whether it reaches more of its target than can be told one by one."""
        return self.pushed is not None and self.pushed.is_wide
