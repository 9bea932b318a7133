"""The words of `curl` one by one: letters taken apart, values split off, names written out."""

from collections.abc import Sequence

from counterfoil.server.hooks.shell.options import one_of
from counterfoil.server.hooks.shell.words import Word

__all__ = ["CURL_DATA", "CURL_TAKES", "curl_words"]

CURL_DATA = {
    "-d": "--data",
    "--data": "--data",
    "--data-ascii": "--data",
    "--data-raw": "--data-raw",
    "--data-binary": "--data-binary",
    "--data-urlencode": "--data-urlencode",
    "--json": "--json",
    "-F": "--form",
    "--form": "--form",
    "--form-string": "--form-string",
    "-T": "--upload-file",
    "--upload-file": "--upload-file",
}
"""The options that give a body, each by its one name."""

CURL_TAKES = frozenset(CURL_DATA) | one_of(
    "-X --request -H --header -o --output -u --user -A --user-agent -b --cookie -c --cookie-jar -e --referer",
    "-m --max-time --connect-timeout -w --write-out -x --proxy -K --config --retry --retry-delay -E -U",
    "--cert --key --proxy-user --proxy-header --max-redirs --expect100-timeout --aws-sigv4 --pass --ciphers",
    "--retry-max-time --cacert --capath -r --range -D --dump-header --resolve --connect-to -C --continue-at",
    "--limit-rate --interface --url --url-query --oauth2-bearer --unix-socket --stderr -z --time-cond",
    "-Q --quote -t --telnet-option -y --speed-time -Y --speed-limit -P --ftp-port --request-target",
    "--variable --abstract-unix-socket --alt-svc --cert-type --create-file-mode --crlfile --curves",
    "--delegation --dns-interface --dns-ipv4-addr --dns-ipv6-addr --doh-url --ech --egd-file --engine",
    "--etag-compare --etag-save --ftp-account --ftp-alternative-to-user --ftp-method --ftp-ssl-ccc-mode",
    "--happy-eyeballs-timeout-ms --haproxy-clientip --hostpubmd5 --hostpubsha256 --hsts --ip-tos",
    "--ipfs-gateway --keepalive-cnt --keepalive-time --key-type --krb --libcurl --local-port",
    "--login-options --mail-auth --mail-from --mail-rcpt --max-filesize --netrc-file --parallel-max",
    "--pinnedpubkey --preproxy --proto --proto-default --proto-redir --proxy-cacert --proxy-capath",
    "--proxy-cert --proxy-cert-type --proxy-ciphers --proxy-crlfile --proxy-key --proxy-key-type",
    "--proxy-pass --proxy-pinnedpubkey --proxy-service-name --proxy-tls13-ciphers --proxy-tlsauthtype",
    "--proxy-tlspassword --proxy-tlsuser --proxy1.0 --pubkey --random-file --rate --sasl-authzid",
    "--service-name --sigalgs --socks4 --socks4a --socks5-gssapi-service --tftp-blksize --tls-max",
    "--tls13-ciphers --tlsauthtype --tlspassword --tlsuser --trace-config --upload-flags --vlan-priority",
    "--trace --trace-ascii --dns-servers --noproxy --socks5 --socks5-hostname --output-dir",
)

_WRITTEN_OUT = (
    *("--request", "--data", "--form", "--upload-file", "--header", "--user", "--get", "--cookie"),
    *(
        "--data-raw",
        "--data-ascii",
        "--data-binary",
        "--data-urlencode",
        "--form-string",
        "--json",
        "--output",
    ),
)
_WHOLE = frozenset(_WRITTEN_OUT) | {"--head", "--data", "--use-ascii"} | CURL_TAKES
_SHORTEST = len("--req")


def curl_words(words: Sequence[Word]) -> list[Word]:
    """Give the words of curl with each option, and each value, as a word of its own.

    `-sXPOST` is `-s -X POST`, `-so FILE` is `-s -o FILE`, and `--req` is `--request`.
    """
    found: list[Word] = []
    rest = iter(words)
    for word in rest:
        text = word.text
        takes_next = False
        if text == "--":
            return [*found, word, *rest]
        if text.startswith("--"):
            name, is_set, value = text.partition("=")
            name = _written_out(name)
            found.append(Word(f"{name}{is_set}{value}", word.is_static))
            takes_next = not is_set and name in CURL_TAKES
        elif text.startswith("-") and len(text) > 1 and not text.startswith(("-$", "-`")):
            for at, letter in enumerate(text[1:], start=2):
                found.append(Word(f"-{letter}"))
                if f"-{letter}" in CURL_TAKES:
                    takes_next = not text[at:]
                    if text[at:]:
                        found.append(Word(text[at:], word.is_static))
                    break
        else:
            found.append(word)
        value_word = next(rest, None) if takes_next else None
        if value_word is not None:
            found.append(value_word)
    return found


def _written_out(name: str) -> str:
    if name in _WHOLE or len(name) < _SHORTEST:
        return name
    return next((whole for whole in _WRITTEN_OUT if whole.startswith(name)), name)
