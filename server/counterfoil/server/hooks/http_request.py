"""What an HTTP client on the command line sends: its method, its address and its body."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from counterfoil.server.hooks.shell.options import has_option, one_of, option_values, plain_words
from counterfoil.server.hooks.shell.walking import Invocation
from counterfoil.server.hooks.shell.words import Word

__all__ = ["Request", "read_request"]

_WRITING = frozenset(("POST", "PUT", "PATCH", "DELETE"))
_CURL_DATA = (
    "-d",
    "--data",
    "--data-raw",
    "--data-ascii",
    "--data-binary",
    "--data-urlencode",
    "--json",
    "-F",
    "--form",
    "--form-string",
    "-T",
    "--upload-file",
)
_CURL_TAKES = frozenset(_CURL_DATA) | one_of(
    "-X --request -H --header -o --output -u --user -A --user-agent -b --cookie -c --cookie-jar -e --referer",
    "-m --max-time --connect-timeout -w --write-out -x --proxy -K --config --retry --retry-delay -E",
    "--cert --key",
    "--retry-max-time --cacert -r --range -D --dump-header --resolve -C --continue-at --limit-rate",
    "--interface",
    "--url --oauth2-bearer --unix-socket --stderr -z",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request that changes something. `sent` is its canonical form; `bodies` may name files."""

    method: str
    url: str
    sent: dict[str, Any]
    bodies: tuple[Word, ...] = ()


def read_request(invocation: Invocation) -> Request | None:
    """Give the request that a client would send; None where it only reads."""
    words = invocation.words[1:]
    match invocation.program:
        case "curl":
            return _curl(words)
        case "wget":
            return _wget(words)
        case _:
            return _httpie(words)


def _curl(words: Sequence[Word]) -> Request | None:
    given = [*option_values(words, "-X"), *option_values(words, "--request")]
    data = [(name, value) for name in _CURL_DATA for value in option_values(words, name)]
    method = given[-1].text.upper() if given else None
    if method is None:
        if not data or has_option(words, "-G") or has_option(words, "--get"):
            return None
        method = "PUT" if any(name in ("-T", "--upload-file") for name, _ in data) else "POST"
    if method not in _WRITING and (given == [] or given[-1].is_static):
        return None
    urls = [*option_values(words, "--url"), *plain_words(words, takes=_CURL_TAKES)]
    headers = sorted(value.text for name in ("-H", "--header") for value in option_values(words, name))
    return Request(
        method=method,
        url=" ".join(_shown(url.text) for url in urls),
        sent={
            "method": method,
            "urls": [url.text for url in urls],
            "headers": [header for header in headers if not header.lower().startswith("authorization")],
            "data": [[name, value.text] for name, value in data],
        },
        bodies=tuple(value for _, value in data),
    )


def _wget(words: Sequence[Word]) -> Request | None:
    data = [(name, value) for name in _WGET_DATA for value in option_values(words, name)]
    given = option_values(words, "--method")
    method = given[-1].text.upper() if given else ("POST" if data else "GET")
    if method not in _WRITING:
        return None
    urls = plain_words(
        words, takes=frozenset(("-O", "-o", "--header", "--method", "-P", "-t", "-T", *_WGET_DATA))
    )
    return Request(
        method=method,
        url=" ".join(_shown(url.text) for url in urls),
        sent={
            "method": method,
            "urls": [url.text for url in urls],
            "data": [[name, value.text] for name, value in data],
        },
        bodies=tuple(value for _, value in data),
    )


_WGET_DATA = ("--post-data", "--post-file", "--body-data", "--body-file")


def _httpie(words: Sequence[Word]) -> Request | None:
    plain = plain_words(words, takes=frozenset(("-a", "--auth", "-o", "--output", "--session", "--timeout")))
    method = plain[0].text if plain and plain[0].text.isupper() else None
    rest = plain[1:] if method else plain
    items = [word for word in rest[1:] if any(mark in word.text for mark in ("=", "@"))]
    method = method or ("POST" if items and not any("==" in item.text for item in items) else "GET")
    if method not in _WRITING or not rest:
        return None
    return Request(
        method=method,
        url=_shown(rest[0].text),
        sent={"method": method, "urls": [rest[0].text], "data": [word.text for word in rest[1:]]},
        bodies=tuple(items),
    )


def _shown(url: str) -> str:
    """Give an address without a name, a password or a query: those may hold secrets."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
