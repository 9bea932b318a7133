"""What secrets look like, as data: the member names that hold them and the forms of well-known tokens.

A name is compared in words (`X-Api-Key`, `apiKey` and `api_key` are `api_key`) and by its last ones, so
that `stripe_api_key` is a secret and `token_count` is not.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = [
    "DEFAULT_NAMES",
    "INNOCENT_NAMES",
    "JOINED_NAMES",
    "JOINED_TAIL",
    "QUERY_NAMES",
    "TOKEN_BEGINNINGS",
    "TOKEN_FORMS",
    "WEAK_NAMES",
    "SecretPattern",
    "name_words",
]


@dataclass(frozen=True, slots=True)
class SecretPattern:
    """A form of secret text. The group `secret`, else the first group, else the whole match is the secret."""

    label: str
    regex: str


DEFAULT_NAMES: Final[Sequence[str]] = (
    *(
        "password",
        "passwords",
        "passwd",
        "passphrase",
        "passcode",
        "pwd",
        "password_hash",
        "password_confirmation",
    ),
    *("user_pass", "db_pass", "smtp_pass", "mail_pass", "ftp_pass", "mysql_pass", "redis_pass", "auth_pass"),
    *(
        "secret",
        "secrets",
        "secret_value",
        "secret_string",
        "client_secret",
        "secret_key",
        "secret_access_key",
    ),
    *("token", "access_token", "refresh_token", "id_token", "auth_token", "session_token", "bearer_token"),
    *("api_token", "token_value", "jwt", "bearer", "csrf", "xsrf"),
    *("api_key", "apikey", "access_key", "account_key", "shared_access_key", "private_key", "ssh_key"),
    *("signing_key", "encryption_key", "decryption_key", "master_key", "service_role_key", "deploy_key"),
    *("license_key", "subscription_key", "ocp_apim_subscription_key", "webhook_key", "shared_key"),
    *("authorization", "cookie", "cookies", "set_cookie", "credential", "credentials", "creds"),
    *("cvv", "cvc", "otp", "totp", "one_time_code", "recovery_code", "recovery_codes", "backup_codes"),
    *("connection_string", "session_cookie", "session_key", "mnemonic", "seed_phrase"),
)

JOINED_TAIL: Final = re.compile(
    "(?:password|passwd|passphrase|apikey|secretkey|privatekey|accesskey|clientsecret"
    "|(?:access|api|auth|bot|refresh|session)token)$"
)
"""The end of a word that is written together, as in PGPASSWORD."""

# Written together they are one word, and mean nothing else.
JOINED_NAMES: Final = frozenset(
    name.replace("_", "")
    for name in DEFAULT_NAMES
    if "_" in name and not name.startswith(("token_", "seed_"))
)

INNOCENT_NAMES: Final = frozenset(
    f"{word}_token"
    for word in (
        *("next", "page", "next_page", "previous", "prev", "continuation", "pagination", "cursor", "sync"),
        *("fencing", "idempotency", "client_request", "stop", "start", "end", "eos", "bos", "pad", "unk"),
        *("mask", "sep", "cls", "special", "max", "min", "per", "first", "last", "change", "resume", "delta"),
        *("cancellation", "progress", "lookahead", "image", "design"),
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

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")


def name_words(name: str) -> str:
    """Give the words of a name in lower case, joined by `_`; figures at the end do not count."""
    words = [word.lower() for word in _WORD.findall(name)]
    while words and words[-1].isdecimal():
        words.pop()
    return "_".join(words)


_RUN = "[A-Za-z0-9_-]"

# label, literal beginning, rest. A rest is one run of one character class with at least n of it, so that a
# text is read once however hostile it is.
_BEGINNINGS: Final = (
    ("github_token", "ghp_", "[A-Za-z0-9]{20,}"),
    ("github_token", "gho_", "[A-Za-z0-9]{20,}"),
    ("github_token", "ghu_", "[A-Za-z0-9]{20,}"),
    ("github_token", "ghs_", "[A-Za-z0-9]{20,}"),
    ("github_token", "ghr_", "[A-Za-z0-9]{20,}"),
    ("github_token", "github_pat_", "[A-Za-z0-9_]{20,}"),
    ("gitlab_token", "glpat-", f"{_RUN}{{16,}}"),
    ("gitlab_token", "glrt-", f"{_RUN}{{16,}}"),
    ("gitlab_token", "gldt-", f"{_RUN}{{16,}}"),
    ("gitlab_token", "glptt-", f"{_RUN}{{16,}}"),
    ("gitlab_token", "glcbt-", f"{_RUN}{{16,}}"),
    ("gitlab_token", "glsoat-", f"{_RUN}{{16,}}"),
    ("slack_token", "xox", "[abceoprs][-.][A-Za-z0-9.-]{10,}"),
    ("slack_token", "xapp-", "[A-Za-z0-9-]{10,}"),
    (
        "slack_webhook",
        "hooks.slack.com/",
        "(?:services|workflows|triggers)/(?P<slack_webhook_s>[A-Za-z0-9/_-]{10,})",
    ),
    ("discord_webhook", "api/webhooks/", f"[0-9]{{5,25}}/(?P<discord_webhook_s>{_RUN}{{20,}})"),
    ("telegram_token", ":AA", f"(?<=[0-9]:AA)(?P<telegram_token_s>(?<=AA){_RUN}{{30,}})"),
    ("api_key", "sk-", f"{_RUN}{{16,}}"),
    ("stripe_key", "sk_live_", "[A-Za-z0-9]{8,}"),
    ("stripe_key", "sk_test_", "[A-Za-z0-9]{8,}"),
    ("stripe_key", "rk_live_", "[A-Za-z0-9]{8,}"),
    ("stripe_key", "rk_test_", "[A-Za-z0-9]{8,}"),
    ("webhook_secret", "whsec_", "[A-Za-z0-9+/=_-]{12,}"),
    ("aws_key", "AKIA", "[A-Z0-9]{16,}"),
    ("aws_key", "ASIA", "[A-Z0-9]{16,}"),
    ("aws_key", "ABIA", "[A-Z0-9]{16,}"),
    ("google_key", "AIza", f"{_RUN}{{30,}}"),
    ("google_token", "ya29.", "[A-Za-z0-9._-]{16,}"),
    ("google_secret", "GOCSPX-", f"{_RUN}{{16,}}"),
    ("jwt", "eyJ", "[A-Za-z0-9_.=-]{16,}"),
    ("npm_token", "npm_", "[A-Za-z0-9]{20,}"),
    ("pypi_token", "pypi-", f"{_RUN}{{40,}}"),
    ("rubygems_key", "rubygems_", "[a-f0-9]{32,}"),
    ("docker_token", "dckr_pat_", f"{_RUN}{{16,}}"),
    ("docker_token", "dckr_oat_", f"{_RUN}{{16,}}"),
    ("sendgrid_key", "SG.", "[A-Za-z0-9_.-]{30,}"),
    ("twilio_key", "SK", "[0-9a-f]{32,}"),
    ("mailgun_key", "key-", "[0-9a-f]{32,}"),
    ("huggingface_token", "hf_", "[A-Za-z0-9]{20,}"),
    ("replicate_token", "r8_", "[A-Za-z0-9]{20,}"),
    ("groq_key", "gsk_", "[A-Za-z0-9]{20,}"),
    ("xai_key", "xai-", "[A-Za-z0-9]{20,}"),
    ("nvidia_key", "nvapi-", f"{_RUN}{{20,}}"),
    ("perplexity_key", "pplx-", "[A-Za-z0-9]{20,}"),
    ("tavily_key", "tvly-", f"{_RUN}{{16,}}"),
    ("notion_token", "ntn_", "[A-Za-z0-9]{20,}"),
    ("linear_key", "lin_api_", "[A-Za-z0-9]{20,}"),
    ("figma_token", "figd_", f"{_RUN}{{20,}}"),
    ("shopify_token", "shp", "(?:at|ca|pa|ss)_[A-Fa-f0-9]{16,}"),
    ("square_token", "sq0", f"(?:atp|csp|idp)-{_RUN}{{16,}}"),
    ("digitalocean_token", "do", "[opr]_v1_[a-f0-9]{32,}"),
    ("databricks_token", "dapi", "[a-f0-9]{32,}"),
    ("doppler_token", "dp.", "(?:pt|st|ct|sa|scim|audit)\\.[A-Za-z0-9._-]{20,}"),
    ("supabase_token", "sbp_", "[A-Za-z0-9]{20,}"),
    ("vault_token", "hvs.", f"{_RUN}{{16,}}"),
    ("vault_token", "hvb.", f"{_RUN}{{16,}}"),
    ("atlassian_token", "ATATT3", "[A-Za-z0-9_=-]{20,}"),
    ("postman_key", "PMAK-", f"{_RUN}{{20,}}"),
    ("age_key", "AGE-SECRET-KEY-1", "[A-Z0-9]{20,}"),
)


def _branch(beginning: str, rest: str) -> str:
    """Give a regex that begins with a literal, so that the engine skips to it, and then looks behind.

    The beginning stands at the start of a word, or after a percent-encoded character.
    """
    first = re.escape(beginning[0])
    if not beginning[0].isalnum():
        return re.escape(beginning) + rest
    bounded = f"{first}(?:(?<![A-Za-z0-9]{first})|(?<=%[0-9A-Fa-f]{{2}}{first}))"
    return bounded + re.escape(beginning[1:]) + rest


TOKEN_BEGINNINGS: Final = "|".join(
    re.escape(text)
    for text in (
        *(beginning for _, beginning, _ in _BEGINNINGS),
        *("-----BEGIN ", "Bearer", "bearer", "BEARER", "Basic", "basic", "BASIC"),
    )
)
"""Literals only, so that the engine finds where a token may begin in one quick pass."""


def _token_forms() -> str:
    by_label: dict[str, list[str]] = {}
    for label, beginning, rest in _BEGINNINGS:
        by_label.setdefault(label, []).append(_branch(beginning, rest))
    by_label["private_key"] = [
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[^-]++|-(?!----END))*+(?:-----END [A-Z0-9 ]{0,40}-----)?+"
    ]
    by_label["bearer"] = [
        r"(?:[Bb]earer|BEARER)(?<![A-Za-z0-9].{6})[ \t]{1,4}(?P<bearer_s>[A-Za-z0-9._~+/=-]{8,})"
    ]
    by_label["basic"] = [r"(?:[Bb]asic|BASIC)(?<![A-Za-z0-9].{5})[ \t]{1,4}(?P<basic_s>[A-Za-z0-9+/=_-]{4,})"]
    return "|".join(f"(?P<{label}>{'|'.join(forms)})" for label, forms in by_label.items())


TOKEN_FORMS: Final = _token_forms()
"""One alternation with a group per label; a group `<label>_s` inside is the secret part."""
