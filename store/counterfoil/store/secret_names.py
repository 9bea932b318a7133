"""Which member names hold secrets.

A name is compared in words (`X-Api-Key`, `apiKey` and `api_key` are `api_key`) and by its last ones, so
that `stripe_api_key` is a secret's and `token_count` is not.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from counterfoil.store.domain.patterns import lazy_pattern

__all__ = ["DEFAULT_NAMES", "WEAK_NAMES", "SecretNames"]


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


DEFAULT_NAMES: Final[Sequence[str]] = _names(
    """
    password passwords passwd passphrase passcode pwd password_hash password_confirmation
    user_pass db_pass smtp_pass mail_pass ftp_pass mysql_pass redis_pass auth_pass
    secret secrets secret_value secret_string client_secret secret_key secret_access_key
    token access_token refresh_token id_token auth_token session_token bearer_token api_token token_value
    jwt bearer csrf xsrf
    api_key apikey access_key account_key shared_key shared_access_key private_key ssh_key
    signing_key encryption_key decryption_key master_key service_role_key deploy_key
    license_key subscription_key ocp_apim_subscription_key webhook_key session_key
    authorization cookie cookies set_cookie session_cookie credential credentials creds
    cvv cvc otp totp one_time_code recovery_code recovery_codes backup_codes
    connection_string mnemonic seed_phrase
    """
)
"""What members are called that hold secrets, in words."""

JOINED_TAILS: Final = _names(
    """
    password passwd passphrase apikey secretkey privatekey accesskey clientsecret
    accesstoken apitoken authtoken bottoken refreshtoken sessiontoken
    """
)
"""The ends of a word that is written together, as in PGPASSWORD; none is the end of another."""

# Written together they are one word, and mean nothing else.
JOINED_NAMES: Final = frozenset(
    name.replace("_", "")
    for name in DEFAULT_NAMES
    if "_" in name and not name.startswith(("token_", "seed_"))
)

INNOCENT_NAMES: Final = frozenset(
    f"{word}_token"
    for word in _names(
        """
        next page previous prev continuation pagination cursor sync resume delta change progress cancellation
        fencing idempotency client_request stop start end eos bos pad unk mask sep cls special max min per
        first last lookahead image design
        """
    )
) | {"public_access_key"}

# In running text these words are followed by a colon too often to hide what comes after.
WEAK_NAMES: Final = frozenset(
    {"token", "secret", "secrets", "credential", "credentials", "creds", "bearer", "otp"}
)

# Secret only as a parameter of a URL: signatures that let whoever has the URL in.
QUERY_NAMES: Final = frozenset(
    {"sig", "signature", "x_amz_signature", "x_goog_signature", "x_amz_credential"}
)

_WORD: Final = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")


def name_words(name: str) -> str:
    """Give the words of a name in lower case, joined by `_`; figures at the end do not count."""
    words = [word.lower() for word in _WORD.findall(name)]
    while words and words[-1].isdecimal():
        words.pop()
    return "_".join(words)


# The end of a longer name tells as much as the whole.
_READ_CHARACTERS: Final = 200
_CACHED_NAMES: Final = 2_048
_LONGEST_LABEL: Final = 40


class SecretNames:
    """The names of one configuration; those in `extra` count even where they look innocent."""

    def __init__(self, names: Sequence[str], extra: Sequence[str]) -> None:
        self._extra = frozenset(filter(None, map(name_words, extra)))
        self._names = self._extra | frozenset(filter(None, map(name_words, names)))
        self._longest = max((name.count("_") + 1 for name in self._names), default=0)
        # What is written alike is named alike: `mail` is read in each of mail:1, mail:2 and so on.
        self._label_of = lru_cache(_CACHED_NAMES)(self._read)

    def label(self, name: str, *, in_query: bool = False) -> str | None:
        """Give the known name that `name` ends in, as a placeholder's label, or None for an innocent name."""
        return self._label_of(name[-_READ_CHARACTERS:], in_query)

    def _read(self, name: str, in_query: bool) -> str | None:
        words = name_words(name)
        if in_query and words in QUERY_NAMES:
            return "signature"
        parts = words.split("_")
        tails = ["_".join(parts[-count:]) for count in range(min(self._longest, len(parts)), 0, -1)]
        known = next((tail for tail in tails if tail in self._names), None)
        if known is None:
            joined = "".join(parts)
            known = next((tail for tail in JOINED_TAILS if joined.endswith(tail)), None)
            if known is None and parts[-1] in JOINED_NAMES:
                known = parts[-1]
            if known is None:
                return None
        if known not in self._extra and not INNOCENT_NAMES.isdisjoint(tails):
            return None
        return known[:_LONGEST_LABEL] if known.isascii() else "secret"
