"""A secret of every known form, built of marks that occur nowhere else, so that any part that leaks is found.

A mark is repeated: whichever stretch of a secret is left over, one whole mark is in it. No scanner takes
these for leaked tokens, since they are put together here.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from counterfoil.store.secret_forms import TOKEN_FORMS

__all__ = [
    "FORMS",
    "LABELS",
    "OPERATORS_NAME",
    "OPERATORS_PATTERN",
    "PLAIN",
    "leaks_in_files",
    "leaks_in_text",
    "object_with",
]

_LETTERS, _HEX, _UPPER = "q7Zx", "c0de5eed", "Q7ZX"
_BASIC = base64.b64encode(b"u:" + b"q7Zx" * 9).decode()

MARKS = (_LETTERS * 2, _HEX, _UPPER * 2, _BASIC[4:16])

PLAIN = _LETTERS * 10
"""A secret by the name that it stands under only."""

OPERATORS_PATTERN = r"ACME-\w+"
OPERATORS_NAME = "internal_code"
"""What `[redact]` of the configuration adds in these tests."""

FORMS: Mapping[str, str] = {
    "github_token": f"ghp_{PLAIN}",
    "counterfoil_token": f"cft_{PLAIN}",
    "gitlab_token": f"glpat-{PLAIN}",
    "slack_token": f"xoxb-{PLAIN}",
    "slack_webhook": f"https://hooks.slack.com/services/{PLAIN}",
    "discord_webhook": f"https://discord.com/api/webhooks/123456789/{PLAIN}",
    "telegram_token": f"123456789:AA{PLAIN}",
    "api_key": f"sk-{PLAIN}",
    "stripe_key": f"sk_live_{PLAIN}",
    "webhook_secret": f"whsec_{PLAIN}",
    "aws_key": f"AKIA{_UPPER * 8}",
    "google_key": f"AIza{PLAIN}",
    "google_token": f"ya29.{PLAIN}",
    "google_secret": f"GOCSPX-{PLAIN}",
    "jwt": f"eyJ{PLAIN}.eyJ{PLAIN}.{PLAIN}",
    "npm_token": f"npm_{PLAIN}",
    "pypi_token": f"pypi-{PLAIN}{PLAIN}",
    "rubygems_key": f"rubygems_{_HEX * 6}",
    "docker_token": f"dckr_pat_{PLAIN}",
    "sendgrid_key": f"SG.{PLAIN}",
    "twilio_key": f"SK{_HEX * 4}",
    "mailgun_key": f"key-{_HEX * 4}",
    "huggingface_token": f"hf_{PLAIN}",
    "replicate_token": f"r8_{PLAIN}",
    "groq_key": f"gsk_{PLAIN}",
    "xai_key": f"xai-{PLAIN}",
    "nvidia_key": f"nvapi-{PLAIN}",
    "perplexity_key": f"pplx-{PLAIN}",
    "tavily_key": f"tvly-{PLAIN}",
    "notion_token": f"ntn_{PLAIN}",
    "linear_key": f"lin_api_{PLAIN}",
    "figma_token": f"figd_{PLAIN}",
    "shopify_token": f"shpat_{_HEX * 4}",
    "square_token": f"sq0atp-{PLAIN}",
    "digitalocean_token": f"dop_v1_{_HEX * 8}",
    "databricks_token": f"dapi{_HEX * 4}",
    "doppler_token": f"dp.pt.{PLAIN}",
    "supabase_token": f"sbp_{PLAIN}",
    "vault_token": f"hvs.{PLAIN}",
    "atlassian_token": f"ATATT3{PLAIN}",
    "postman_key": f"PMAK-{PLAIN}",
    "age_key": f"AGE-SECRET-KEY-1{_UPPER * 10}",
    "private_key": f"-----BEGIN RSA PRIVATE KEY-----\n{PLAIN}\n{PLAIN}\n-----END RSA PRIVATE KEY-----",
    "bearer": f"Bearer {PLAIN}",
    "basic": f"Authorization: Basic {_BASIC}",
    # By what stands before them, and by the operator's own patterns.
    "header": f"X-Api-Key: {PLAIN}",
    "cookie": f"Cookie: sid={PLAIN}",
    "assignment": f"DB_PASSWORD={PLAIN}",
    "query": f"https://example.org/?access_token={PLAIN}&q=1",
    "url_password": f"postgres://app:{PLAIN}@db/x",
    "flag": f"mysql --password {PLAIN}",
    "json": json.dumps({"client_secret": PLAIN}),
    "operators_pattern": f"ACME-{PLAIN}",
    "operators_name": f"{OPERATORS_NAME}={PLAIN}",
}
"""A text that is a secret, or holds one, by the label of its form."""

LABELS = frozenset(label for label in re.compile(TOKEN_FORMS).groupindex if not label.endswith("_s"))
"""Every form that the store knows."""


def object_with(form: str) -> dict[str, Any]:
    """Give an object that holds a secret in each way an object can."""
    return {
        "a note": f"before {form} after",
        form: 1,
        "password": PLAIN,
        OPERATORS_NAME: PLAIN,
        "request": {"headers": [["X-Api-Key", PLAIN]], "env": [{"name": "API_KEY", "value": PLAIN}]},
        "argv": ["curl", "--token", PLAIN],
        "credentials": {"user": "u", "inner": [PLAIN]},
    }


def leaks_in_text(text: str) -> Iterator[str]:
    """Give each stretch around a mark in `text`, the first of each kind."""
    for mark in MARKS:
        place = text.find(mark)
        if place >= 0:
            yield text[max(0, place - 120) : place + 60]


def leaks_in_files(folder: Path) -> Iterator[str]:
    """Give each file below `folder` that holds a mark, with the stretch around it."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            for found in leaks_in_text(path.read_bytes().decode("latin-1")):
                yield f"{path.name}: {found!r}"
