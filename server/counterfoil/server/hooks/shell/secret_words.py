"""Which words of a command are secrets: by the option before them, by the name in front of `=`, or by place.

A redactor sees texts and the names of members. What only the program's own options tell is told it here: a
secret word becomes a member of a secret's name, which the journal never keeps plain.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from counterfoil.server.hooks.shell.curl import curl_words
from counterfoil.server.hooks.shell.words import Word
from counterfoil.store.domain.patterns import lazy_pattern
from counterfoil.store.secret_names import DEFAULT_NAMES, SecretNames

__all__ = ["is_secret_name", "shown_words", "told_words"]

_HIDDEN = "[hidden]"

_MORE_NAMES = frozenset(("auth", "pass", "passin", "passout", "bearer", "oauth2-bearer", "pat"))
_LETTERS = {
    "sshpass": "-p",
    "docker": "-p",
    "podman": "-p",
    "helm": "-p",
    "mysql": "-p",
    "mysqldump": "-p",
    "mariadb": "-p",
    "mysqladmin": "-p",
    "twine": "-p",
    "poetry": "-p",
    "uv": "-t -p",
    "vercel": "-t",
    "fly": "-t",
    "flyctl": "-t",
    "redis-cli": "-a",
    "ldapsearch": "-w",
    "ldapmodify": "-w",
    "zip": "-P",
}
"""Short options whose value is a secret, by program; with some the value may be attached."""

_LOGINS = {
    "curl": "-u --user -U --proxy-user -E --cert",
    "http": "-a --auth",
    "https": "-a --auth",
    "xh": "-a --auth",
    "xhs": "-a --auth",
}
"""Options whose value is `name:password`, by program."""

_COOKIES = {"curl": "-b --cookie"}
_HTTP = ("curl", "wget", "http", "https", "xh", "xhs")
_LOGIN_IN_ADDRESS = lazy_pattern(r"((?:[a-z]+://)?[^/?#:@\s]*:)([^/?#@\s]+)@", re.IGNORECASE)
_NAME_AT_END = lazy_pattern(r"[A-Za-z][A-Za-z0-9_.-]*\Z")
_LONGEST_NAME = 81


def told_words(program: str, words: Sequence[Word]) -> list[Any]:
    """Give words as they are compared: `--name=value` as two, and a secret as the member `password`."""
    if program == "curl":
        words = curl_words(words)
    letters = _LETTERS.get(program, "").split()
    logins, cookies = _LOGINS.get(program, "").split(), _COOKIES.get(program, "").split()
    told: list[Any] = []
    option = ""
    for word in words:
        text = word.text
        is_option = text.startswith("-") and len(text) > 1
        if option in logins and option and not is_option:
            told += _login(text)
        elif _hides_next(option, text, letters=letters, cookies=cookies):
            told.append(_secret(text))
        else:
            may_have_login = "@" in text and (program in _HTTP or "://" in text)
            in_address = _LOGIN_IN_ADDRESS.match(text) if may_have_login else None
            if in_address is not None and not is_option:
                told += [in_address[1], _secret(in_address[2])]
                text = text[in_address.end() - 1 :]
            told += _of_word(text, letters=letters, logins=logins, cookies=cookies)
        option = text if is_option and "=" not in text else ""
    return told


def shown_words(program: str, words: Sequence[Word]) -> str:
    """Give words on one line for a person, without the secrets among them."""
    return " ".join(word if isinstance(word, str) else _HIDDEN for word in told_words(program, words))


def _hides_next(option: str, text: str, *, letters: Sequence[str], cookies: Sequence[str]) -> bool:
    """Tell whether a word is a secret by the option in front of it; curl's cookies may be a file."""
    if not option:
        return False
    if option in cookies:
        return "=" in text
    is_option = text.startswith("-") and len(text) > 1
    return not is_option and (option in letters or is_secret_name(option))


def _of_word(
    text: str, *, letters: Sequence[str], logins: Sequence[str], cookies: Sequence[str]
) -> list[Any]:
    attached = next((letter for letter in letters if text.startswith(letter) and len(text) > 2), None)
    if attached is not None and not text.startswith("--"):
        return [attached, _secret(text[2:].removeprefix("="))]
    name, is_set, value = text.partition("=")
    if is_set and name.startswith("--"):
        if name in logins:
            return [name, *_login(value)]
        if name in cookies or is_secret_name(name):
            return [name, _secret(value)]
        return [name, *_assigned(value)]
    return _assigned(text)


def _assigned(text: str) -> list[Any]:
    """Hide what is behind the name of a secret in `NAME=VALUE`, wherever it stands in a list of those."""
    at = text.find("=")
    while 0 <= at < len(text) - 1:
        # From the sign back to its name: looked for from the front, a long text without one took minutes.
        found = _NAME_AT_END.search(text[max(0, at - _LONGEST_NAME) : at])
        if found is not None and is_secret_name(found[0]):
            return [text[: at + 1], _secret(text[at + 1 :])]
        at = text.find("=", at + 1)
    return [text]


def _login(text: str) -> list[Any]:
    name, is_set, password = text.partition(":")
    return [name, _secret(password)] if is_set else [_secret(text)]


def _secret(text: str) -> dict[str, str]:
    return {"password": text}


@cache
def _names() -> SecretNames:
    return SecretNames(DEFAULT_NAMES, ())


def is_secret_name(name: str) -> bool:
    """Tell whether an option, a header or a variable of this name holds a secret."""
    bare = name.lstrip("-")
    return bare.lower() in _MORE_NAMES or (len(bare) > 1 and _names().label(bare) is not None)
