"""What a program runs that runs another one: `sudo`, `env`, `timeout`, `xargs`, `bash -c`, `npx`, …"""

from collections.abc import Sequence

from msgspec import Struct

from counterfoil.server.hooks.shell.words import Word

__all__ = ["Inner", "program_of", "unwrapped"]


class Inner(Struct, frozen=True, kw_only=True):
    """What runs in the end: a command as words, or a script that has to be read as the whole was.

    `env` are variables set on the way; `folder` is where it runs, where a wrapper says so.
    """

    words: tuple[Word, ...] = ()
    script: str | None = None
    env: tuple[tuple[str, Word], ...] = ()
    folder: Word | None = None


class _Wrapper(Struct, frozen=True, kw_only=True):
    """`takes` are options with a value of their own; `skips` so many words stand before the command."""

    takes: frozenset[str] = frozenset()
    skips: int = 0
    words: tuple[str, ...] = ()


def _takes(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WRAPPERS = {
    "sudo": _Wrapper(takes=_takes("-u --user -g --group -h --host -p --prompt -C -r -t -T -D --chdir -R -U")),
    "doas": _Wrapper(takes=_takes("-u -C")),
    "env": _Wrapper(takes=_takes("-u --unset -C --chdir")),
    "timeout": _Wrapper(takes=_takes("-s --signal -k --kill-after"), skips=1),
    "gtimeout": _Wrapper(takes=_takes("-s --signal -k --kill-after"), skips=1),
    "nice": _Wrapper(takes=_takes("-n --adjustment")),
    "ionice": _Wrapper(takes=_takes("-c -n -p")),
    "stdbuf": _Wrapper(takes=_takes("-i -o -e")),
    "time": _Wrapper(takes=_takes("-f --format -o --output")),
    "xargs": _Wrapper(
        takes=_takes(
            "-n -I -i -P -L -d -E -s -a --max-args --replace --max-procs --max-lines --delimiter --arg-file"
        )
    ),
    "flock": _Wrapper(takes=_takes("-w --timeout -E"), skips=1),
    "sshpass": _Wrapper(takes=_takes("-p -f -d -P")),
    "nohup": _Wrapper(),
    "setsid": _Wrapper(),
    "command": _Wrapper(),
    "builtin": _Wrapper(),
    "exec": _Wrapper(takes=_takes("-a")),
    "caffeinate": _Wrapper(takes=_takes("-t -w")),
    "npx": _Wrapper(takes=_takes("-p --package")),
    "bunx": _Wrapper(),
    "uvx": _Wrapper(takes=_takes("--from --with --python -p")),
}

_RUNNERS = {
    ("pnpm", "dlx"): _Wrapper(),
    ("pnpm", "exec"): _Wrapper(),
    ("yarn", "dlx"): _Wrapper(),
    ("npm", "exec"): _Wrapper(takes=_takes("-p --package")),
    ("uv", "run"): _Wrapper(
        takes=_takes("--with --python -p --extra --group --env-file --project --directory")
    ),
    ("poetry", "run"): _Wrapper(),
    ("pipx", "run"): _Wrapper(takes=_takes("--spec")),
    ("bundle", "exec"): _Wrapper(),
}

_SHELLS = frozenset(("sh", "bash", "zsh", "dash", "ksh"))
_PYTHONS = frozenset(("python", "python3", "py"))


def program_of(words: Sequence[Word]) -> str:
    """Give the name of the program, without its folder; empty where only the shell can tell."""
    if not words or not words[0].is_static:
        return ""
    return words[0].text.rsplit("/", 1)[-1]


def unwrapped(words: Sequence[Word]) -> Inner | None:
    """Give what a wrapper runs; None where the command is no wrapper.

    `command -v git` runs nothing, and so do a shell without `-c` and an `eval` of what is not known yet.
    """
    program = program_of(words)
    if program in _SHELLS:
        return _script_of(words)
    if program == "eval":
        if all(word.is_static for word in words[1:]):
            return Inner(script=" ".join(word.text for word in words[1:]))
        return Inner()
    if program in _PYTHONS and len(words) > 2 and words[1].text == "-m":
        return Inner(words=tuple(words[2:]))
    wrapper = _WRAPPERS.get(program)
    start = 1
    if wrapper is None and len(words) > 1:
        wrapper, start = _RUNNERS.get((program, words[1].text)), 2
    if wrapper is None:
        return None
    if program == "command" and len(words) > 1 and words[1].text in ("-v", "-V"):
        return Inner()
    inner = _behind(words, wrapper, start=start)
    if program == "xargs":
        # What it is fed with stands behind, and only the running shell knows it.
        return Inner(words=(*inner.words, Word("…", is_static=False)), env=inner.env, folder=inner.folder)
    return inner


def _behind(words: Sequence[Word], wrapper: _Wrapper, *, start: int) -> Inner:
    env: list[tuple[str, Word]] = []
    folder: Word | None = None
    at, skips = start, wrapper.skips
    while at < len(words):
        text = words[at].text
        if text == "--":
            at += 1
            continue
        if text.startswith("-") and len(text) > 1:
            name, has_value, value = text.partition("=")
            if text in wrapper.takes:
                if text in ("-C", "--chdir", "-D") and at + 1 < len(words):
                    folder = words[at + 1]
                at += 1
            elif has_value and name == "--chdir":
                folder = Word(value, words[at].is_static)
            at += 1
            continue
        name, is_set, value = text.partition("=")
        if is_set and name.isidentifier():
            env.append((name, Word(value, words[at].is_static)))
            at += 1
            continue
        if skips:
            skips -= 1
            at += 1
            continue
        break
    return Inner(words=tuple(words[at:]), env=tuple(env), folder=folder)


def _script_of(words: Sequence[Word]) -> Inner:
    for at, word in enumerate(words[1:], start=1):
        if not word.text.startswith("-"):
            return Inner()
        if not word.text.startswith("--") and "c" in word.text:
            script = words[at + 1] if at + 1 < len(words) else Word("")
            return Inner(script=script.text) if script.is_static else Inner()
    return Inner()
