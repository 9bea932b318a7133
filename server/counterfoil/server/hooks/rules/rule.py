"""Rules that say which calls are effects, and how the performing system's reference is found in a result.

The operator's own go first, then those for tools that a gateway heeds as well, then the defaults.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from counterfoil.server.rules.tool_rule import ToolRule as SharedToolRule

__all__ = [
    "NO_RULES",
    "STATES",
    "TARGETS",
    "CommandRule",
    "EffectRule",
    "EffectRules",
    "ToolRule",
    "names_in",
]


STATES = ("head", "branch", "tree", "image", "kube-context", "manifests")
"""What a rule of a command may read where it runs: see `sent_state`."""

TARGETS = (
    *(
        "folder",
        "service",
        "path",
        "manifests",
        "package",
        "crate",
        "project",
        "archives",
        "built",
        "repository",
    ),
    *("pull-request", "merge-request", "new-pull-request", "issue", "release", "workflow", "endpoint"),
    *("release-name", "image", "images", "destination"),
)
"""What a rule of a command may find out of what is acted on where no word says it plainly: see `acted_on`."""


def names_in(specs: Iterable[str]) -> Iterator[str]:
    """Give the names of options in a declaration: `-b|--body` are two of one."""
    return (name.removeprefix("@") for spec in specs for name in spec.split("|"))


class EffectRule(Struct, frozen=True, kw_only=True):
    """What every rule says. `effect` off means: such calls are left alone.

    `action` names the effect in the journal; `also` are actions under which an agent may have begun the
    same itself. `found` are regular expressions with a group `id` (and perhaps `url`), `external_id` and
    `url` JSON paths, by which the reference is found in a result. `refused` are regular expressions for
    results that show that the request was refused before any effect; a group `status` in one is the exit
    status that a command must have ended with. `lookup` says in words how to find out
    whether it happened; `settle_seconds` is how long such a look has to wait. `repeat` is "unsafe" or "safe".
    """

    effect: bool = True
    action: str | None = None
    also: tuple[str, ...] = ()
    kind: str = "other"
    found: tuple[str, ...] = ()
    external_id: str | None = None
    url: str | None = None
    refused: tuple[str, ...] = ()
    lookup: str | None = None
    settle_seconds: float | None = None
    repeat: str | None = None
    fail_closed: bool = False


class CommandRule(EffectRule, frozen=True, kw_only=True):
    """A command of the shell: `program`, then `words` (globs) as the first ones that are no options.

    `unless` are options with which it is no effect; `needs` are options of which one has to be there; both
    may say with which values: `--method=POST|PUT`. `form` names a reading of its own ("git-push", "http"),
    or that only a query of GraphQL which reads is meant ("graphql").
    `files` are globs of files whose content is sent though no word names them, `state` names what else goes
    with it (`STATES`). `several` are options with
    which one command does several things, or hides what it did: its words then prove nothing of the whole.

    `takes` are options that take a value, beside those that the program takes before its words; `-b|--body`
    are names of one, those behind `@` only where the value is read from no file, and `--*` is each long one
    that is no flag. Where `flags`, those that take none, are given too, the word behind any other option is
    taken for its value wherever the target does not need it. `texts` are options whose value is no file,
    whatever lies there under that name. `implied` holds where the option is not there: `--method=POST`.
    `target` says what is acted on, `at` where: see `acted_on`. `once`: one target can be acted on once, so
    that other options are the same effect in other words. `known_as` are the program, words and flags under
    which it is compared, where one command has several names: `gh pr create` is what `gh pr new` is.
    `remote`: it is an effect only where its last operand is on another machine. `shown` are options that
    change only what is printed.
    """

    program: str
    words: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    form: str | None = None
    files: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    several: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    at: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    implied: tuple[str, ...] = ()
    once: bool = False
    known_as: str | None = None
    remote: bool = False
    shown: tuple[str, ...] = ()

    @property
    def flag_names(self) -> frozenset[str]:
        """The options behind its words that take no value."""
        return frozenset(names_in(self.flags))

    @property
    def options_with_value(self) -> frozenset[str]:
        """The options behind its words that take a value: those that it names so, and those that it reads."""
        read = (one for spec in (*self.target, *self.at) for one in spec.split("|") if one.startswith("-"))
        return frozenset((*names_in(self.takes), *read)) - self.flag_names


class ToolRule(EffectRule, frozen=True, kw_only=True):
    """A tool of an MCP server, by a glob of its name, `mcp__SERVER__TOOL` as clients write it.

    `target` is a JSON path into its arguments. `identity` are the arguments that say what the effect is, all
    but `payload` where it is None; `payload` are those that may be worded anew.
    """

    tool: str
    target: str | None = None
    identity: tuple[str, ...] | None = None
    payload: tuple[str, ...] = ()


class EffectRules(Struct, frozen=True, kw_only=True):
    """The rules that hold, the first match counts. `fail_closed` holds for all of them.

    `shared` are the operator's rules of tools that a gateway heeds too; `default_tools` come last.
    """

    commands: tuple[CommandRule, ...] = ()
    tools: tuple[ToolRule, ...] = ()
    shared: "tuple[SharedToolRule, ...]" = ()
    default_tools: tuple[ToolRule, ...] = ()
    fail_closed: bool = False


NO_RULES = EffectRules()
