"""What an HTTP client on the command line sends: its method, its address and its body."""

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from counterfoil.server.hooks.shell.curl import CURL_DATA, CURL_TAKES, curl_words
from counterfoil.server.hooks.shell.options import has_option, one_of, option_values, parsed, plain_words
from counterfoil.server.hooks.shell.script import Invocation
from counterfoil.server.hooks.shell.secret_words import told_words
from counterfoil.server.hooks.shell.words import Word
from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["Request", "is_graphql_read", "read_request"]

_READING = frozenset(("GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "REPORT", "SEARCH"))
_WRITES = lazy_pattern(r"\b(?:mutation|subscription)\b")
_AS_IS = ("--data", "--data-raw", "--data-binary")
"""What these send is the same, unless it names a file."""


class Request(Struct, frozen=True, kw_only=True):
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
            has_input = (
                bool(invocation.fed_by) or invocation.stdin is not None or invocation.reads is not None
            )
            return _httpie(words, has_input=has_input)


def _curl(given_words: Sequence[Word]) -> Request | None:
    words = curl_words(given_words)
    given = [*option_values(words, "-X"), *option_values(words, "--request")]
    data = [
        (CURL_DATA[name], value)
        for word in words
        if (name := word.text.partition("=")[0]) in CURL_DATA
        for value in _value_of(words, word)
    ]
    method = given[-1].text.upper() if given else None
    if method is None:
        if not data or has_option(words, "-G") or has_option(words, "--get"):
            return None
        method = "PUT" if any(name == "--upload-file" for name, _ in data) else "POST"
    if method in _READING:
        return None
    urls = [*option_values(words, "--url"), *plain_words(words, takes=CURL_TAKES)]
    if _only_asks_graphql(urls, [value for _, value in data]):
        return None
    headers = sorted(
        _header(value.text) for name in ("-H", "--header") for value in option_values(words, name)
    )
    return Request(
        method=method,
        url=" ".join(_shown(url.text) for url in urls),
        sent={
            "method": method,
            "urls": [_address(url.text) for url in urls],
            "headers": [header for header in headers if not header.startswith("authorization")],
            "data": _body(data),
        },
        bodies=(
            *(value for _, value in data),
            *(value for name in ("-K", "--config") for value in option_values(words, name)),
        ),
    )


def _only_asks_graphql(urls: Sequence[Word], bodies: Sequence[Word]) -> bool:
    """Tell whether a request is a query of GraphQL, which is sent as a POST and reads all the same."""
    if len(bodies) != 1 or not urls or not bodies[0].is_static:
        return False
    if not all(url.text.partition("?")[0].rstrip("/").endswith("/graphql") for url in urls):
        return False
    try:
        told = json.loads(bodies[0].text)
    except (ValueError, RecursionError):
        return False
    query = told.get("query") if isinstance(told, dict) else None
    return isinstance(query, str) and is_graphql_read(query)


def is_graphql_read(query: str) -> bool:
    """Tell whether a document of GraphQL only reads; one that may not does not, wherever the word stands."""
    return query.lstrip().startswith(("query", "{", "fragment")) and not _WRITES.search(query)


def _value_of(words: Sequence[Word], option: Word) -> list[Word]:
    """Give the value that one option is given: behind its `=`, or the next word."""
    _, is_set, value = option.text.partition("=")
    if is_set:
        return [Word(value, option.is_static)]
    at = next(at for at, word in enumerate(words) if word is option)
    return list(words[at + 1 : at + 2])


def _body(data: Sequence[tuple[str, Word]]) -> list[list[str]]:
    """Give a body by what is sent, however many options spell it: curl joins texts by `&` itself."""
    parts: list[list[str]] = []
    for name, value in data:
        one = "--data" if name in _AS_IS and not value.text.startswith("@") else name
        if one == "--data" and parts and parts[-1][0] == "--data" and not value.text.startswith("@"):
            parts[-1][1] += f"&{value.text}"
        else:
            parts.append([one, value.text])
    return parts


def _header(text: str) -> str:
    name, is_set, value = text.partition(":")
    return f"{name.strip().lower()}: {value.strip()}" if is_set else text


def _wget(words: Sequence[Word]) -> Request | None:
    data = [(name, value) for name in _WGET_DATA for value in option_values(words, name)]
    given = option_values(words, "--method")
    method = given[-1].text.upper() if given else ("POST" if data else "GET")
    if method in _READING:
        return None
    urls = parsed(words, takes=_WGET_TAKES).operands
    return Request(
        method=method,
        url=" ".join(_shown(url.text) for url in urls),
        sent={
            "method": method,
            "urls": [_address(url.text) for url in urls],
            "data": [[name, value.text] for name, value in data],
        },
        bodies=tuple(value for _, value in data),
    )


_WGET_DATA = ("--post-data", "--post-file", "--body-data", "--body-file")
_WGET_TAKES = frozenset(_WGET_DATA) | one_of(
    "-e --execute -o --output-file -a --append-output --report-speed -i --input-file -B --base --config",
    "--rejected-log -t --tries --retry-on-http-error -O --output-document --start-pos --progress -T",
    "--timeout --dns-timeout --connect-timeout --read-timeout -w --wait --waitretry -Q --quota",
    "--bind-address --limit-rate --restrict-file-names --prefer-family --user --password --use-askpass",
    "--local-encoding --remote-encoding -P --directory-prefix --cut-dirs --http-user --http-password",
    "--default-page --header --compression --proxy-user --proxy-password --referer -U --user-agent",
    "--load-cookies --save-cookies --method --secure-protocol --certificate --certificate-type",
    "--private-key --private-key-type --ca-certificate --ca-directory --crl-file --pinnedpubkey --ciphers",
    "--ftp-user --ftp-password --warc-file --warc-header --warc-max-size --warc-dedup --warc-tempdir -l",
    "--level --backups -A --accept -R --reject --accept-regex --reject-regex --regex-type -D --domains",
    "--exclude-domains --follow-tags --ignore-tags -I --include-directories -X --exclude-directories",
)
_HTTPIE_TAKES = one_of(
    "-a --auth -A --auth-type -o --output --session --session-read-only --timeout --raw --boundary -p",
    "--print -s --style --pretty --format-options --response-charset --response-mime --proxy --verify",
    "--cert --cert-key --cert-key-pass --ssl --ciphers --default-scheme --max-redirects --max-headers",
    "-P --history-print --bearer --interface --resolve --http-version --generate",
)


def _httpie(words: Sequence[Word], *, has_input: bool) -> Request | None:
    told = parsed(words, takes=_HTTPIE_TAKES)
    plain, raw = list(told.operands), told.values("--raw")
    method = plain[0].text if plain and plain[0].text.isupper() else None
    rest = plain[1:] if method else plain
    items = [word for word in rest[1:] if any(mark in word.text for mark in ("=", "@"))]
    has_body = has_input or bool(raw) or any("==" not in item.text for item in items)
    method = method or ("POST" if has_body else "GET")
    if method in _READING or not rest:
        return None
    return Request(
        method=method,
        url=_shown(rest[0].text),
        sent={
            "method": method,
            "urls": [_address(rest[0].text)],
            "data": [*told_words("http", rest[1:]), *(["--raw", body.text] for body in raw)],
        },
        bodies=(*items, *raw),
    )


def _address(url: str) -> str:
    """Give an address in one spelling: with a scheme, and both in lower case that are in any case."""
    text = url if "://" in url else f"http://{url}"
    scheme, _, rest = text.partition("://")
    end = next((at for at, character in enumerate(rest) if character in "/?#"), len(rest))
    login, has_login, host = rest[:end].rpartition("@")
    # What only the shell fills in is left as it is written.
    host = host if "$" in host or "`" in host else host.lower()
    return f"{scheme.lower()}://{login}{has_login}{host}{rest[end:] or '/'}"


def _shown(url: str) -> str:
    """Give an address without a name, a password or a query: those may hold secrets."""
    scheme, _, rest = _address(url).partition("://")
    rest = rest.partition("?")[0].partition("#")[0]
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
