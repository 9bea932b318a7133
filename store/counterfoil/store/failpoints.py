"""Named places where a test stops or kills the program; they do nothing unless a hook is installed.

A crash test proves a promise only if the process dies exactly where the promise is thinnest. `failpoint`
marks such a place; `installed` gives a test a hook inside its own process, and `install_from` makes the
process that a test starts kill itself there, or wait.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

__all__ = ["FAILPOINTS", "failpoint", "install_from", "installed"]

FAILPOINTS: Mapping[str, str] = {
    "during_migration": "the statements of one migration have run, its transaction is still open",
    "before_begin": "callers wait for a commit, no transaction is open",
    "after_begin": "the write transaction is open and nothing is written yet",
    "before_commit": "all works of the batch have run, nothing of it is durable",
    "after_commit": "the batch is durable, no caller has been answered",
}
"""Each failpoint and what is true there."""

BARRIER_ROUNDS = 6000
"""A barrier gives up after this many rounds of 5 ms: 30 s, longer than any test may take."""

Hook = Callable[[str], None]
_hook: Hook | None = None


def failpoint(name: str) -> None:
    """Tell the hook, if one is installed, that the program has reached `name`."""
    if _hook is not None:
        _hook(name)


@contextmanager
def installed(hook: Hook) -> Iterator[None]:
    """Call `hook` with the name of every failpoint reached inside the block, in whichever thread that is."""
    global _hook
    before = _hook
    _hook = hook
    try:
        yield
    finally:
        _hook = before


def install_from(spec: str) -> None:
    """Install what `spec` says, for the rest of the process: entries `NAME=ACTION`, parted by `;`.

    `kill` sends SIGKILL to this process, `kill@3` the third time the place is reached. `barrier:PATH`
    creates `PATH.reached` and waits, at most 30 s, until `PATH.go` exists.

    Raises:
        ValueError: an unknown name or action; a misspelt failpoint would make a crash test pass for nothing.
    """
    global _hook
    actions: dict[str, list[Callable[[], None]]] = {}
    for entry in filter(None, (part.strip() for part in spec.split(";"))):
        name, _, action = entry.partition("=")
        if name not in FAILPOINTS:
            raise ValueError(f"unknown failpoint {name!r}; known: {', '.join(sorted(FAILPOINTS))}")
        actions.setdefault(name, []).append(_action(action))

    def run(name: str) -> None:
        for act in actions.get(name, ()):
            act()

    _hook = run if actions else None


def _action(text: str) -> Callable[[], None]:
    kind, _, path = text.partition(":")
    if kind == "barrier" and path:
        return lambda: _wait_at(Path(path))
    verb, _, count = text.partition("@")
    if verb == "kill" and (not count or (count.isascii() and count.isdigit() and int(count) > 0)):
        return _kill_at(int(count or 1))
    raise ValueError(f"unknown action {text!r}; known: kill, kill@N, barrier:PATH")


def _kill_at(passing: int) -> Callable[[], None]:
    import signal  # Loaded for a test only: a hook is to load little.

    passed = 0

    def act() -> None:
        nonlocal passed
        passed += 1
        if passed == passing:
            os.kill(os.getpid(), signal.SIGKILL)

    return act


def _wait_at(path: Path) -> None:
    Path(f"{path}.reached").touch()
    go = Path(f"{path}.go")
    for _ in range(BARRIER_ROUNDS):
        if go.exists():
            return
        time.sleep(0.005)
    raise TimeoutError(f"nobody created {go} within 30 s")
