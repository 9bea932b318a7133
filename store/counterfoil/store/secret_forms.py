"""The forms of well-known tokens and keys, as data: what a secret looks like wherever it stands."""

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

__all__ = ["COMMON_BEGINNINGS", "TOKEN_BEGINNINGS", "TOKEN_FORMS", "SecretPattern", "is_plausible"]


class SecretPattern(Struct, frozen=True):
    """A form of secret text. The group `secret`, else the first group, else the whole match is the secret."""

    label: str
    regex: str


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
    ("counterfoil_token", "cft_", f"{_RUN}{{40,}}"),
    ("age_key", "AGE-SECRET-KEY-1", "[A-Z0-9]{20,}"),
)


_SCHEMES: Final = ("Bearer", "bearer", "BEARER", "Basic", "basic", "BASIC")

COMMON_BEGINNINGS: Final = frozenset(
    ("sk-", "SK", "SG.", "xox", "key-", "hf_", "r8_", "shp", "sq0", "do", "dp.", "hvs.", "hvb.", *_SCHEMES)
)
"""Words end or go on like these, so they count at the start of a word only."""


def _any_of(literals: Iterable[str]) -> str:
    """Give a pattern for one of many texts, the first character tried once for all that begin with it.

    The engine tries the branches of an alternation one by one, at each character of whatever is read.
    """
    rests: dict[str, list[str]] = {}
    for literal in literals:
        rests.setdefault(literal[0], []).append(re.escape(literal[1:]))
    return "|".join(f"{re.escape(first)}(?:{'|'.join(several)})" for first, several in rests.items())


TOKEN_BEGINNINGS: Final = _any_of(
    (*(beginning for _, beginning, _ in _BEGINNINGS), "[redacted:", "-----BEGIN ", *_SCHEMES)
)
"""Literals only, so that the engine finds where a token, or a placeholder, may begin in one quick pass."""


def _token_forms() -> str:
    by_label: dict[str, list[str]] = {}
    for label, beginning, rest in _BEGINNINGS:
        by_label.setdefault(label, []).append(re.escape(beginning) + rest)
    by_label["private_key"] = [
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[^-]++|-(?!----END))*+(?:-----END [A-Z0-9 ]{0,40}-----)?+"
    ]
    by_label["bearer"] = [r"(?:[Bb]earer|BEARER)[ \t]{1,4}(?P<bearer_s>[A-Za-z0-9._~+/=-]{8,})"]
    by_label["basic"] = [r"(?:[Bb]asic|BASIC)[ \t]{1,4}(?P<basic_s>[A-Za-z0-9+/=_-]{4,})"]
    return "|".join(f"(?P<{label}>{'|'.join(forms)})" for label, forms in by_label.items())


TOKEN_FORMS: Final = _token_forms()
"""One alternation with a group per label; a group `<label>_s` inside is the secret part."""


def is_plausible(label: str, secret: str) -> bool:
    """Tell whether a text of the form of a token can be one, for the forms that other text also has."""
    if label == "basic":
        try:
            return b":" in base64.b64decode(secret + "=" * (-len(secret) % 4), altchars=b"-_")
        except (binascii.Error, ValueError):
            return False
    if label == "jwt":
        parts = secret.split(".")
        return len(parts) > 2 and (len(parts) == 5 or any(part.startswith("eyJ") for part in parts[1:]))
    if label == "bearer":
        return len(secret) >= 20 or not secret.isalpha()
    if label == "api_key":
        return any(map(str.isdecimal, secret))
    return True
