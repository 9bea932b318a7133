"""Reads the URL of a PostgreSQL journal, and gives the form of it that may be shown: never a secret.

The URL is libpq's own (postgresql.org/docs/current/libpq-connect.html), so that TLS, several hosts and
password files work as everywhere. A password may stand in it, and a mistake in a URL may move a part of it to
where a host or a parameter is expected: so nothing of a URL that is not understood is ever repeated.
"""

import re
from urllib.parse import parse_qsl, urlsplit

__all__ = ["FORM", "SCHEMES", "shown_url"]

SCHEMES = ("postgresql", "postgres")
FORM = (
    "postgresql://USER@HOST:PORT/DATABASE?sslmode=verify-full, with special characters percent-encoded; "
    "the password belongs into a password file (~/.pgpass) or PGPASSWORD"
)

_SHOWN = frozenset(
    (
        "channel_binding",
        "connect_timeout",
        "dbname",
        "gssencmode",
        "host",
        "hostaddr",
        "load_balance_hosts",
        "port",
        "service",
        "sslmode",
        "sslnegotiation",
        "sslrootcert",
        "ssl_min_protocol_version",
        "target_session_attrs",
        "user",
    )
)
_NOT_SHOWN = frozenset(
    (
        "application_name",
        "client_encoding",
        "fallback_application_name",
        "gssdelegation",
        "gsslib",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "krbsrvname",
        "max_protocol_version",
        "min_protocol_version",
        "options",
        "passfile",
        "password",
        "require_auth",
        "requirepeer",
        "requiressl",
        "scram_client_key",
        "scram_server_key",
        "sslcert",
        "sslcertmode",
        "sslcompression",
        "sslcrl",
        "sslcrldir",
        "sslkey",
        "sslpassword",
        "sslsni",
        "ssl_max_protocol_version",
        "tcp_user_timeout",
    )
)
_HOSTS = re.compile(r"(?:\[[0-9A-Fa-f:.%]+\]|[^:@,\[\]]*)(?::[0-9]{0,5})?")
_PLAIN = re.compile(r"[^\s/?#@&]*")


def shown_url(url: str) -> str:
    """Give the URL as it may be shown: user, hosts, database and harmless parameters, no secret.

    Raises:
        ValueError: it is not of the accepted form; the message repeats nothing of it.
    """
    try:
        parts = urlsplit(url)
        given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise ValueError(f"give {FORM}") from None
    userinfo, _, hosts = parts.netloc.rpartition("@")
    user = userinfo.partition(":")[0]
    database = parts.path.removeprefix("/")
    if (
        parts.scheme not in SCHEMES
        or not url.startswith(f"{parts.scheme}://")
        or "#" in url
        or not all(_HOSTS.fullmatch(host) for host in hosts.split(","))
        or not (_PLAIN.fullmatch(user) and _PLAIN.fullmatch(database))
        or not all(name in _SHOWN or name in _NOT_SHOWN for name, _ in given)
    ):
        raise ValueError(f"give {FORM}")
    query = "&".join(f"{name}={value}" for name, value in given if name in _SHOWN)
    return "".join(
        (
            "postgresql://",
            f"{user}@" if user else "",
            hosts,
            f"/{database}" if database else "",
            f"?{query}" if query else "",
        )
    )
