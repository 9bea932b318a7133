"""The short way of `counterfoil hook EVENT`: most calls are no effects, and cost hardly more than a Python.

Whatever goes wrong here is logged and the client goes on, unless a rule says `fail_closed`.
"""

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["CALL_EVENTS", "FLAGS", "looks_like_effect", "run_hook"]

CALL_EVENTS = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionDenied")
SESSION_EVENTS = ("SessionStart", "PreCompact", "Stop")
FOR_PEOPLE = ("explain", "--help", "-h")
FLAGS = ("journal", "namespace", "config", "log")

_MOST_BYTES = 32 * 1024 * 1024
"""More than any client sends; what is longer is read no further, and so is no event."""


def run_hook(words: "Sequence[str]") -> int | None:
    """Handle one event that stands on stdin; give the exit code, None where a person asks for something.

    The code is 2, by which a client takes a call for blocked, only where its client hears nothing else.
    """
    if not words or words[0] in FOR_PEOPLE:
        return None
    flags = _flags(words[1:])
    if words[0] not in (*CALL_EVENTS, *SESSION_EVENTS) or flags is None:
        print(  # noqa: T201
            f"counterfoil: hook takes one of {', '.join((*CALL_EVENTS, *SESSION_EVENTS))}, and the options "
            f"{', '.join(f'--{name}' for name in FLAGS)}; the call goes on",
            file=sys.stderr,
        )
        return 1
    try:
        raw = _stdin()
    except OSError:
        return 0
    dialect = None
    if raw and (b'"event_type"' in raw or b'"%s"' % words[0].encode() not in raw):
        from counterfoil.server.hooks.dialects import dialect_of

        dialect, raw = dialect_of(words[0], raw)
    if words[0] in CALL_EVENTS:
        if not raw or not looks_like_effect(raw, flags):
            return 0
    elif not _has_journal(flags):
        return 0
    # One call makes no cycles worth finding. Looking for them while rooms are loaded, and once more over all
    # that there is when the interpreter ends, took a sixth of the whole time.
    gc.disable()
    _load_msgspec()
    from counterfoil.server.hooks.handling import handle

    try:
        return handle(words[0], raw, flags, dialect)
    finally:
        gc.freeze()


def _load_msgspec() -> None:
    """Load msgspec so that it takes from `typing` what it would rather take from `typing_extensions`.

    They are the same since Python 3.11, and the latter brings `inspect`, `ast` and `dis` with it. None in
    `sys.modules` is how Python is told that a module is not there; it is there again for whoever asks next.
    """
    if "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules["typing_extensions"]


def _flags(words: "Sequence[str]") -> "dict[str, str | None] | None":
    flags: dict[str, str | None] = {}
    rest = iter(words)
    for word in rest:
        name, is_set, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in FLAGS:
            return None
        flags[name] = value if is_set else next(rest, None)
        if flags[name] is None:
            return None
    return flags


def _stdin() -> bytes:
    """Give what the client sent; of what is too long the beginning, which nobody can read as an event."""
    parts: list[bytes] = []
    size = 0
    while part := os.read(0, 1 << 16):
        if size <= _MOST_BYTES:
            parts.append(part)
            size += len(part)
    return b"".join(parts)


def looks_like_effect(raw: bytes, flags: "Mapping[str, str | None]") -> bool:
    """Take the first look at what came: whoever says what a hook does has to take it as well."""
    from counterfoil.server.hooks.first_look import configured_words, is_candidate

    words: tuple[bytes, ...] | None = ()
    path = flags.get("config") or os.environ.get("COUNTERFOIL_CONFIG")
    if path is None:
        from counterfoil.server.places import configuration_folder

        path = os.path.join(configuration_folder(os.environ), "counterfoil.toml")
    try:
        file = os.open(os.path.expanduser(path), os.O_RDONLY)
    except OSError:
        file = -1
    if file >= 0:
        try:
            words = configured_words(os.read(file, 1 << 20))
        except OSError:
            words = None
        finally:
            os.close(file)
    return is_candidate(raw, words)


def _has_journal(flags: "Mapping[str, str | None]") -> bool:
    """Tell whether there may be a journal to ask, or one to miss: no event of a session makes one."""
    if flags.get("journal") or flags.get("config"):
        return True
    if any(os.environ.get(f"COUNTERFOIL_{name}") for name in ("JOURNAL", "CONFIG")):
        return True
    from counterfoil.server.places import configuration_folder, data_folder, state_folder

    return any(
        os.path.exists(os.path.join(*place))
        for place in (
            (configuration_folder(os.environ), "counterfoil.toml"),
            (data_folder(os.environ), "journal.db"),
            (state_folder(os.environ), "journals"),
        )
    )
