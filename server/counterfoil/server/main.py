"""The command `counterfoil`: serving and hooks go a short way, all that a person asks for through `people`.

The short ways read their few options by hand, because what prints tables and help would otherwise be loaded
before the first message, or the call, is answered.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not even `typing` is loaded: a client runs a hook at every call, and most are no effects.
    from collections.abc import Sequence

__all__ = ["main"]

SERVE_OPTIONS = ("journal", "namespace", "config", "log", "tools")


def main(arguments: "Sequence[str] | None" = None) -> int:
    """Run the command line and give the exit code: 0 done, 1 refused, 2 usage, 3 journal unavailable."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["hook"]:
        from counterfoil.server.hooks.entry import run_hook

        code = run_hook(words[1:])
        if code is not None:
            return code
    flags = _serve_flags(words)
    if flags is not None:
        from counterfoil.server.lifecycle import Ending

        ending = Ending()
        ending.heed_signals()
        from counterfoil.server.serving import serve_stdio

        return serve_stdio(flags, ending=ending)
    from counterfoil.server.people.cli import run

    return run(words)


def _serve_flags(words: "Sequence[str]") -> dict[str, str | None] | None:
    """Give the flags if the words plainly mean serving over stdio; None if click has to look at them."""
    flags: dict[str, str | None] = {}
    rest = iter(words)
    has_command = False
    for word in rest:
        if word == "serve" and not has_command:
            has_command = True
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in SERVE_OPTIONS:
            return None
        flags[name] = value if equals else next(rest, None)
        if flags[name] is None:
            return None
    return flags
