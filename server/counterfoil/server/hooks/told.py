"""Tells whether what a command sends can be found before it runs, or only the running shell can tell.

Secrets do not count: neither what a login is nor how often a request is sent says what an effect is.
"""

import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from counterfoil.server.hooks.http_request import read_request
from counterfoil.server.hooks.rules.rule import CommandRule
from counterfoil.server.hooks.shell.options import one_of
from counterfoil.server.hooks.shell.script import Invocation
from counterfoil.server.hooks.shell.secret_words import is_secret_name, told_words
from counterfoil.server.hooks.shell.words import Word
from counterfoil.store.domain.patterns import lazy_pattern

__all__ = [
    "SENDS_STATE",
    "is_around_told",
    "is_place_told",
    "is_readable",
    "is_request_told",
    "pairs_of",
    "told_env",
]

SENDS_STATE = ("deployment", "release")
"""Kinds of effects that the same words mean otherwise each time."""

_SAYS_NOTHING = one_of(
    "PATH TERM LANG LANGUAGE LC_ALL LC_CTYPE TZ CI NO_COLOR FORCE_COLOR CLICOLOR PAGER GIT_PAGER GH_PAGER",
    "MANPAGER EDITOR GIT_EDITOR VISUAL DEBIAN_FRONTEND PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE",
    "GIT_TERMINAL_PROMPT GH_PROMPT_DISABLED TF_IN_AUTOMATION TF_INPUT HUSKY DOCKER_BUILDKIT",
    "COMPOSE_DOCKER_CLI_BUILD NPM_CONFIG_LOGLEVEL npm_config_loglevel",
)
"""Variables that do not change what is sent, to whom, or where."""
_OF_REQUESTS = one_of(
    "authorization idempotency-key x-idempotency-key x-request-id x-correlation-id traceparent",
    "user-agent date cookie",
)
"""Headers that are about a request, and not what it says."""
_REPOSITORIES = one_of("GIT_DIR GIT_WORK_TREE GIT_COMMON_DIR GIT_NAMESPACE GIT_CONFIG GIT_CONFIG_GLOBAL")
_FILLED = "$`"
_PLAIN = {ord(mark): "_" for mark in _FILLED}
_LOGIN = lazy_pattern(r"//[^/@]*@")


def is_readable(invocation: Invocation, rule: CommandRule) -> bool:
    """Tell whether what a command sends can be found before it runs."""
    words = invocation.words
    if invocation.folder is None and (rule.kind in SENDS_STATE or rule.files or any(w.reads for w in words)):
        return False
    return _is_told(invocation.program, words)


def is_request_told(invocation: Invocation) -> bool:
    """Tell whether what a request sends can be found: its headers' secrets are not what it is."""
    request = read_request(replace(invocation, words=_marked(invocation.words)))
    if request is None:
        return False
    if invocation.folder is None and (
        any(word.reads for word in invocation.words)
        or any(mark in word.text for word in request.bodies for mark in "@<")
        or any("file" in name for name, _ in pairs_of(request.sent))
    ):
        return False
    texts = [request.method]
    for _, text in pairs_of(request.sent):
        name = text.partition(":")[0]
        # HTTPie gives a header as one of its items.
        if invocation.program in ("curl", "wget") or not _is_about_request(name):
            texts.append(text)
    texts += [_LOGIN.sub("//", url) for url in request.sent["urls"]]
    for header in request.sent.get("headers", ()):
        name, _, value = header.partition(":")
        if not _is_about_request(name):
            texts.append(value)
    return not any(_is_open(invocation.program, Word(text)) for text in texts)


def _is_about_request(header: str) -> bool:
    """Tell whether a header says nothing of what a request does: a login, or how often it is sent."""
    return header.lower() in _OF_REQUESTS or is_secret_name(header)


def is_around_told(invocation: Invocation) -> bool:
    """Tell whether variables set in front, and what is read, are known: secrets among them do not count."""
    if not all(word.is_told or is_secret_name(name) for name, word in told_env(invocation)):
        return False
    if invocation.stdin is not None and not invocation.stdin.is_told:
        return False
    if invocation.reads is not None and (invocation.folder is None or not invocation.reads.is_static):
        return False
    return all(
        _is_told(part.program, part.words[1:]) and is_around_told(replace(part, fed_by=()))
        for part in invocation.fed_by
    )


def is_place_told(invocation: Invocation) -> bool:
    """Tell whether the variables by which git finds a repository are known."""
    return all(word.is_static for name, word in invocation.env if name in _REPOSITORIES)


def _is_told(program: str, words: Sequence[Word]) -> bool:
    """Tell whether words say all that they will be, secrets aside, with the content of files."""
    if all(word.is_told for word in words):
        return True
    return not any(_is_filled(text) for text in told_words(program, _marked(words)))


def _is_open(program: str, word: Word) -> bool:
    return any(_is_filled(text) for text in told_words(program, (word,)))


def _is_filled(told: Any) -> bool:
    """Tell whether the shell fills in a part of a text that is no secret."""
    if not isinstance(told, str) or not any(mark in told for mark in _FILLED):
        return False
    rest = re.sub(
        r"\$(?:(\w+)|\{(\w+)\})", lambda name: "" if is_secret_name(name[1] or name[2]) else "$", told
    )
    return any(mark in rest for mark in _FILLED)


def _marked(words: Sequence[Word]) -> tuple[Word, ...]:
    """Give words in which `$` and its like stand only where something is not known."""
    marked = []
    for word in words:
        if word.is_told:
            marked.append(Word(word.text.translate(_PLAIN)))
        else:
            is_marked = any(mark in word.text for mark in _FILLED)
            marked.append(Word(word.text if is_marked else f"${word.text}"))
    return tuple(marked)


def told_env(invocation: Invocation) -> list[tuple[str, Word]]:
    """Give the variables set in front that may change what is done."""
    return [
        (name, word)
        for name, word in invocation.env
        if not name.startswith("COUNTERFOIL_") and name not in _SAYS_NOTHING
    ]


def pairs_of(sent: dict[str, Any]) -> list[tuple[str, str]]:
    """Give what a request sends, by the option that says so."""
    parts = [part if isinstance(part, list) else ["", part] for part in sent.get("data", ())]
    return [(str(name), str(text)) for name, text in parts]
