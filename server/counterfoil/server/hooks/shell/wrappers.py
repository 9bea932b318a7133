"""What a program runs that runs another one: `sudo`, `env`, `timeout`, `xargs`, `bash -c`, `npx`, …"""

from collections.abc import Callable, Collection, Sequence

from msgspec import Struct
from msgspec.structs import replace

from counterfoil.server.hooks.shell.options import plain_words, values_before
from counterfoil.server.hooks.shell.words import Word

__all__ = ["Inner", "program_of", "unwrapped"]


class Inner(Struct, frozen=True, kw_only=True):
    """What runs in the end: commands as words, or a script that has to be read as the whole was.

    `env` are variables set on the way, and what says where it runs; `folder` is where it runs, where a
    wrapper says so. `others` are further commands. `is_apart`: a script of a shell of its own. `is_fed`: a
    shell that reads its script from its input. `is_elsewhere`: on another machine or in a container, whose
    files are not the ones here. `is_unsure`: it may run not at all, or many times.
    """

    words: tuple[Word, ...] = ()
    others: tuple[tuple[Word, ...], ...] = ()
    script: str | None = None
    env: tuple[tuple[str, Word], ...] = ()
    folder: Word | None = None
    is_apart: bool = False
    is_fed: bool = False
    is_elsewhere: bool = False
    is_unsure: bool = False


class _Wrapper(Struct, frozen=True, kw_only=True):
    """`takes` are options with a value of their own; `skips` so many words stand before the command.

    `is_package`: the command is a package's name, and may say a version behind it.
    """

    takes: frozenset[str] = frozenset()
    skips: int = 0
    is_package: bool = False


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
        takes=_takes("-n -I -J -P -L -d -E -s -a --max-args --max-procs --max-lines --delimiter --arg-file")
    ),
    "flock": _Wrapper(takes=_takes("-w --timeout -E"), skips=1),
    "sshpass": _Wrapper(takes=_takes("-p -f -d -P")),
    "nohup": _Wrapper(),
    "setsid": _Wrapper(),
    "command": _Wrapper(),
    "builtin": _Wrapper(),
    "exec": _Wrapper(takes=_takes("-a")),
    "caffeinate": _Wrapper(takes=_takes("-t -w")),
    "coproc": _Wrapper(),
    "corepack": _Wrapper(),
    "chronic": _Wrapper(),
    "unbuffer": _Wrapper(),
    "pkexec": _Wrapper(takes=_takes("--user")),
    "gosu": _Wrapper(skips=1),
    "su-exec": _Wrapper(skips=1),
    "tini": _Wrapper(takes=_takes("-p -e")),
    "dumb-init": _Wrapper(takes=_takes("-r --rewrite")),
    "strace": _Wrapper(takes=_takes("-e -o -p -s -u -E -P -O -S -a -b -I -X")),
    "taskset": _Wrapper(skips=1),
    "setpriv": _Wrapper(takes=_takes("--reuid --regid --groups --inh-caps --ambient-caps --bounding-set")),
    "unshare": _Wrapper(takes=_takes("-S --setuid -G --setgid -R --root -w --wd")),
    "torsocks": _Wrapper(),
    "proxychains": _Wrapper(takes=_takes("-f")),
    "proxychains4": _Wrapper(takes=_takes("-f")),
    "systemd-run": _Wrapper(takes=_takes("-p --property -u --unit -E --setenv -M --slice --uid --gid")),
    "ssh-agent": _Wrapper(takes=_takes("-a -t -P")),
    "chroot": _Wrapper(skips=1),
    "busybox": _Wrapper(),
    "npx": _Wrapper(takes=_takes("-p --package"), is_package=True),
    "bunx": _Wrapper(is_package=True),
    "uvx": _Wrapper(takes=_takes("--from --with --python -p"), is_package=True),
}

_RUNNERS = {
    ("pnpm", "dlx"): _Wrapper(is_package=True),
    ("pnpm", "exec"): _Wrapper(),
    ("yarn", "dlx"): _Wrapper(is_package=True),
    ("yarn", "exec"): _Wrapper(),
    ("bun", "x"): _Wrapper(is_package=True),
    ("npm", "exec"): _Wrapper(takes=_takes("-p --package"), is_package=True),
    ("npm", "x"): _Wrapper(takes=_takes("-p --package"), is_package=True),
    ("uv", "run"): _Wrapper(
        takes=_takes("--with --python -p --extra --group --env-file --project --directory")
    ),
    ("poetry", "run"): _Wrapper(),
    ("hatch", "run"): _Wrapper(),
    ("pdm", "run"): _Wrapper(takes=_takes("-p --project")),
    ("rye", "run"): _Wrapper(),
    ("conda", "run"): _Wrapper(takes=_takes("-n --name -p --prefix --cwd")),
    ("mamba", "run"): _Wrapper(takes=_takes("-n --name -p --prefix --cwd")),
    ("pipx", "run"): _Wrapper(takes=_takes("--spec"), is_package=True),
    ("bundle", "exec"): _Wrapper(),
}
"""What runs a program when its own first word says so."""

_SURROUNDS = {
    ("op", "run"): 0,
    ("doppler", "run"): 0,
    ("mise", "exec"): 0,
    ("mise", "x"): 0,
    ("infisical", "run"): 0,
    ("chamber", "exec"): 1,
    ("aws-vault", "exec"): 1,
    ("direnv", "exec"): 1,
    ("dotenv", ""): 0,
}
"""What runs a program in surroundings that its own words name, up to `--`, or as many words as stand here."""

_SSH_TAKES = _takes("-b -B -c -D -E -e -F -I -i -J -L -l -m -O -o -P -p -Q -R -S -W -w")
_EXEC_TAKES = _takes("-e --env --env-file -u --user -w --workdir --detach-keys --index -c --container")
_CONTAINERS = frozenset(("docker", "podman", "docker-compose", "kubectl"))
_CLUSTERS = frozenset(("k3s", "k0s", "microk8s", "minikube"))
"""Programs that bring a `kubectl` of their own cluster."""
_BINARIES = frozenset(("vercel", "netlify", "wrangler", "firebase"))
"""Programs that pnpm, yarn and bun run by their bare names."""

_FILLED = "$_"
"""Stands for what `xargs`, `find` and `parallel` fill in."""

_SHELLS = frozenset(("sh", "bash", "zsh", "dash", "ksh", "fish"))


def program_of(words: Sequence[Word]) -> str:
    """Give the name of the program, without its folder; empty where only the shell can tell."""
    if not words or not words[0].is_static:
        return ""
    return words[0].text.rsplit("/", 1)[-1]


def _is_python(program: str) -> bool:
    version = program.removeprefix("python")
    return program in ("py", "python") or (version != program and version.replace(".", "").isdigit())


def unwrapped(words: Sequence[Word]) -> Inner | None:
    """Give what a wrapper runs; None where the command is no wrapper.

    `command -v git` runs nothing.
    """
    program = program_of(words)
    if program in _SHELLS:
        return _script_of(words)
    special = _SPECIAL.get(program)
    if special is not None:
        return special(words)
    if _is_python(program) and "-m" in (texts := [word.text for word in words[1:6]]):
        return Inner(words=tuple(words[texts.index("-m") + 2 :]))
    wrapper = _WRAPPERS.get(program)
    start = 1
    if wrapper is None and len(words) > 1:
        first = words[1].text
        if program in _CONTAINERS:
            return _in_container(words)
        if (program, first) in _SURROUNDS or (program, "") in _SURROUNDS:
            return _in_surroundings(words, _SURROUNDS.get((program, first), 0))
        if program in _CLUSTERS and first == "kubectl":
            behind = words[3:] if words[2:3] == (Word("--"),) else words[2:]
            return Inner(words=(words[1], *behind), env=(("in", Word(program)),))
        if program in ("pnpm", "yarn", "bun") and first in _BINARIES:
            return Inner(words=tuple(words[1:]))
        if (program, first) == ("uv", "tool") and words[2:3] == (Word("run"),):
            return unwrapped((Word("uvx"), *words[3:]))
        wrapper, start = _RUNNERS.get((program, first)), 2
    if wrapper is None:
        return None
    if program == "command" and len(words) > 1 and words[1].text in ("-v", "-V"):
        return Inner()
    if program in ("npx", "npm", "flock"):
        called = _value_of(words[start:], "-c", "--command" if program == "flock" else "--call")
        if called is not None:
            return Inner(script=called.script, is_apart=True)
    inner = _behind(words, wrapper, start=start)
    if program == "xargs":
        return replace(inner, words=_with_what_is_fed(words[1 : len(words) - len(inner.words)], inner.words))
    if program == "sudo" and not inner.words:
        return Inner(is_fed=any(word.text[:1] == "-" and word.text[-1] in "is" for word in words[1:]))
    return inner


def _with_what_is_fed(options: Sequence[Word], words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Give what `xargs` runs with what it is fed with, which only the running shell knows.

    It stands behind, or in place of a mark of its own.
    """
    for at, word in enumerate(options):
        text = word.text
        if text in ("-I", "-J") and at + 1 < len(options):
            return tuple(_filled(one, options[at + 1].text) for one in words)
        if text.startswith(("-I", "-J")):
            return tuple(_filled(one, text[2:]) for one in words)
        if text.startswith("--replace") or (text.startswith("-i") and not text.startswith("-i=")):
            mark = text.partition("=")[2] if text.startswith("--") else text[2:]
            return tuple(_filled(one, mark or "{}") for one in words)
    return (*words, Word("…", is_static=False))


def _filled(word: Word, mark: str) -> Word:
    """Give a word in which what a wrapper fills in stands as what the shell does, in a script as well."""
    return Word(word.text.replace(mark, _FILLED), is_static=False) if mark and mark in word.text else word


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
            if _takes_next(text, wrapper.takes):
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
    found = tuple(words[at:])
    if wrapper.is_package and found and "@" in found[0].text[1:]:
        found = (Word(found[0].text[:1] + found[0].text[1:].partition("@")[0]), *found[1:])
    return Inner(words=found, env=tuple(env), folder=folder)


def _takes_next(text: str, takes: Collection[str]) -> bool:
    """Tell whether an option takes the next word: by its name, or as the last of several letters."""
    if text in takes:
        return True
    if text.startswith("--") or len(text) < 3 or f"-{text[-1]}" not in takes:
        return False
    return not any(f"-{letter}" in takes for letter in text[1:-1])


def _value_of(words: Sequence[Word], letter: str, name: str) -> Word | None:
    """Give what an option says that names a command, wherever it stands."""
    for at, word in enumerate(words):
        text = word.text
        if text == "--":
            return None
        if text.startswith(f"{name}="):
            return Word(text[len(name) + 1 :], word.is_static)
        is_cluster = text.startswith("-") and not text.startswith("--") and text.endswith(letter[1])
        if text == name or is_cluster:
            return words[at + 1] if at + 1 < len(words) else None
    return None


def _script_of(words: Sequence[Word]) -> Inner:
    """Give the script of a shell: behind `-c`, from its input, or the file that it is in."""
    has_script, is_fed, at = False, False, 1
    while at < len(words):
        text = words[at].text
        if text in ("-", "--") or not text.startswith(("-", "+")):
            at += text in ("-", "--")
            break
        if text.startswith("--"):
            at += 2 if text in ("--rcfile", "--init-file") else 1
            continue
        has_script |= text[0] == "-" and "c" in text
        is_fed |= text[0] == "-" and "s" in text
        at += 2 if text[-1] in "oO" else 1
    if has_script:
        return Inner(script=words[at].script if at < len(words) else "", is_apart=True)
    if at >= len(words) or is_fed or words[at].text == "/dev/stdin":
        return Inner(is_fed=True)
    # What stands in the file is not read; it counts as the program that it is when it is run by itself.
    return Inner(words=tuple(words[at:]) if words[at].is_static else (words[at],))


def _evaluated(words: Sequence[Word]) -> Inner:
    return Inner(script=" ".join(word.script for word in words[1:]))


def _sourced(words: Sequence[Word]) -> Inner | None:
    """What is sourced from a file is not read; what is made on the spot counts as a program nobody knows."""
    if len(words) > 1 and not words[1].is_static:
        return Inner(words=(words[1],))
    return None


def _trapped(words: Sequence[Word]) -> Inner:
    plain = [word for word in words[1:] if not word.text.startswith("-")]
    return Inner(script=plain[0].script if len(plain) > 1 else "", is_unsure=True)


def _env(words: Sequence[Word]) -> Inner:
    """`env -S TEXT` takes words out of a text."""
    for at, word in enumerate(words[1:], start=1):
        text = word.text
        if not text.startswith("-"):
            break
        if text.startswith("--split-string="):
            value, rest = text.partition("=")[2], words[at + 1 :]
        elif text == "--split-string" or (text[1:2] != "-" and text.endswith("S")):
            value, rest = "".join(word.script for word in words[at + 1 : at + 2]), words[at + 2 :]
        elif text.startswith(("-S", "-iS", "-vS")):
            value, rest = text.partition("S")[2], words[at + 1 :]
        else:
            continue
        return Inner(script=" ".join(("env", value, *(_quoted(other) for other in rest))))
    return _behind(words, _WRAPPERS["env"], start=1)


def _quoted(word: Word) -> str:
    if not word.is_static:
        return f'"{word.text}"'
    return "'" + word.text.replace("'", "'\\''") + "'"


def _su(words: Sequence[Word]) -> Inner:
    command = _value_of(words[1:], "-c", "--command")
    if command is None:
        return Inner(is_fed=True)
    return Inner(script=command.script, is_apart=True)


def _found(words: Sequence[Word]) -> Inner | None:
    """Give each command that `find` runs on what it finds."""
    commands: list[tuple[Word, ...]] = []
    folder: Word | None = None
    rest = iter(words[1:])
    for word in rest:
        if word.text in ("-exec", "-execdir", "-ok", "-okdir"):
            if word.text.endswith("dir"):
                folder = Word("{}", is_static=False)
            command: list[Word] = []
            for part in rest:
                if part.text == ";" or (part.text == "+" and command and "{}" in command[-1].text):
                    break
                command.append(_filled(part, "{}"))
            commands.append(tuple(command))
    return Inner(others=tuple(commands), folder=folder, is_unsure=True) if commands else None


def _many(words: Sequence[Word]) -> Inner:
    """`parallel` and `watch` give their words to a shell; what the former adds, only it knows."""
    takes = _takes(
        "-j --jobs -a --arg-file -N -n --interval --delay --timeout --retries --joblog --colsep -S"
    )
    inner = _behind(words, _Wrapper(takes=takes), start=1)
    texts: list[str] = []
    for word in inner.words:
        if word.text.startswith(":::"):
            break
        texts.append(word.script)
    if program_of(words) == "parallel":
        texts.append(f'"{_FILLED}"')
    return Inner(script=" ".join(texts), is_apart=True, is_unsure=True)


def _typescript(words: Sequence[Word]) -> Inner:
    command = _value_of(words[1:], "-c", "--command")
    if command is not None:
        return Inner(script=command.script, is_apart=True)
    return _behind(words, _Wrapper(skips=1), start=1)


def _nix(words: Sequence[Word]) -> Inner | None:
    if program_of(words) == "nix-shell":
        command = _value_of(words[1:], "-?", "--run") or _value_of(words[1:], "-?", "--command")
        return None if command is None else Inner(script=command.script, is_apart=True)
    for at, word in enumerate(words):
        if word.text in ("-c", "--command"):
            return Inner(words=tuple(words[at + 1 :]))
    return None


def _ssh(words: Sequence[Word]) -> Inner:
    """What runs on another machine is given to a shell there."""
    inner = _behind(words, _Wrapper(takes=_SSH_TAKES), start=1)
    if not inner.words:
        return Inner()
    place = (("ssh", inner.words[0]),)
    if len(inner.words) == 1:
        return Inner(is_fed=True, is_elsewhere=True, env=place)
    script = " ".join(word.script for word in inner.words[1:])
    return Inner(script=script, is_apart=True, is_elsewhere=True, env=place)


def _gcloud(words: Sequence[Word]) -> Inner | None:
    """`gcloud compute ssh HOST --command TEXT` gives a text to a shell there."""
    command = _value_of(words[1:], "-?", "--command")
    plain = plain_words(words[1:], takes=values_before("gcloud") | {"--command"})
    if command is None or [word.text for word in plain[:2]] != ["compute", "ssh"]:
        return None
    place = (("ssh", plain[2] if len(plain) > 2 else Word("")),)
    return Inner(script=command.script, is_apart=True, is_elsewhere=True, env=place)


def _in_container(words: Sequence[Word]) -> Inner | None:
    at = next((at for at, word in enumerate(words[:8]) if word.text == "exec"), None)
    if at is None:
        return None
    plain = plain_words(words[1:at], takes=values_before(program_of(words)))
    if [word.text for word in plain] not in ([], ["compose"]):
        return None
    named = [word.text for word in words[:at]]
    if program_of(words) == "kubectl":
        end = next((end for end, word in enumerate(words) if word.text == "--"), None)
        if end is None:
            return None
        place = " ".join((*named, *(word.text for word in words[at:end])))
        return Inner(words=tuple(words[end + 1 :]), env=(("in", Word(place)),), is_elsewhere=True)
    inner = _behind(words, _Wrapper(takes=_EXEC_TAKES), start=at + 1)
    place = " ".join((*named, *(word.text for word in inner.words[:1])))
    return Inner(words=inner.words[1:], env=(*inner.env, ("in", Word(place))), is_elsewhere=True)


def _in_surroundings(words: Sequence[Word], skips: int) -> Inner:
    end = next((at for at, word in enumerate(words) if word.text == "--"), None)
    if end is None:
        inner = _behind(words, _Wrapper(skips=skips + (program_of(words) != "dotenv")), start=1)
        end = len(words) - len(inner.words) - 1
    around = Word(
        " ".join(word.text for word in words[1 : end + 1]), all(word.is_static for word in words[: end + 1])
    )
    return Inner(words=tuple(words[end + 1 :]), env=((program_of(words), around),))


_SPECIAL: dict[str, Callable[[Sequence[Word]], Inner | None]] = {
    "eval": _evaluated,
    "source": _sourced,
    ".": _sourced,
    "trap": _trapped,
    "env": _env,
    "su": _su,
    "runuser": _su,
    "find": _found,
    "parallel": _many,
    "watch": _many,
    "script": _typescript,
    "nix": _nix,
    "nix-shell": _nix,
    "ssh": _ssh,
    "gcloud": _gcloud,
}
