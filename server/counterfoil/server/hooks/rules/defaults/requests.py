"""Requests over HTTP, mails and payments."""

from counterfoil.server.hooks.rules.defaults.options import FLAGS, TAKES, TEXTS
from counterfoil.server.hooks.rules.rule import CommandRule

__all__ = ["REQUESTS"]

REQUESTS = (
    CommandRule(
        program="curl",
        form="http",
        action="http.send",
        also=("http.post", "http.put", "http.patch", "http.delete", "http.request"),
        kind="http_response",
        refused=(
            r"^curl: \((?P<status>3|5|6|7)\)",
            r"^curl: \((?P<status>22)\) The requested URL returned error: (?:400|401|403|404|405|422)\b",
        ),
        lookup="ask the service for what the request would have made or changed; an answer is shown by an exit status only with --fail-with-body",
    ),
    CommandRule(
        program="wget",
        form="http",
        action="http.send",
        also=("http.post", "http.put", "http.request"),
        kind="http_response",
    ),
    CommandRule(
        program="http|https|xh|xhs",
        form="http",
        action="http.send",
        also=("http.post", "http.put", "http.patch", "http.delete", "http.request"),
        kind="http_response",
        lookup="ask the service for what the request would have made or changed; an answer is shown by an exit status only with --check-status",
    ),
    CommandRule(
        program="sendmail|msmtp",
        action="email.send",
        also=("mail.send",),
        kind="message",
    ),
    CommandRule(
        program="mail|mailx",
        needs=("-s", "--subject"),
        texts=TEXTS,
        action="email.send",
        also=("mail.send",),
        kind="message",
    ),
    CommandRule(
        program="stripe",
        words=("*", "create"),
        unless=("--help",),
        action="stripe.create",
        also=("payment.create", "charge.create"),
        kind="transaction",
        found=('"id": "(?P<id>(?:ch|pi|py|re|tr|po|in|sub)_[A-Za-z0-9]+)"',),
        takes=TAKES["stripe create"],
        texts=TEXTS,
        flags=FLAGS["stripe create"],
        target=("{service}", "*"),
        at=("--stripe-account",),
    ),
)
