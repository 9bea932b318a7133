"""Says whether an address may be served as configured, and with which Host and Origin requests count."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from msgspec import Struct

from counterfoil.server.http.listening import ListenAddress
from counterfoil.server.http.settings import HttpSettings
from counterfoil.server.settings import SettingsError

__all__ = ["Surroundings", "check_surroundings", "surroundings_of"]

_LOCAL = ("localhost", "127.0.0.1", "[::1]")
_LONGEST_PORT = 5


class Surroundings(Struct, frozen=True, kw_only=True):
    """The Host and Origin values that count, in lower case; one that ends in `:*` stands for every port."""

    hosts: frozenset[str]
    origins: frozenset[str]

    def has_host(self, given: Sequence[str]) -> bool:
        """Tell whether the Host headers of a request count: there is one, and it is one of these."""
        return len(given) == 1 and _is_among(self.hosts, given[0])

    def has_origin(self, given: Sequence[str]) -> bool:
        """Tell whether the Origin headers of a request count: there is none, or one of these."""
        return not given or (len(given) == 1 and _is_among(self.origins, given[0]))


def _is_among(counting: frozenset[str], given: str) -> bool:
    name = given.lower()
    host, _, port = name.rpartition(":")
    is_port = port.isascii() and port.isdigit() and len(port) <= _LONGEST_PORT
    return name in counting or (is_port and f"{host}:*" in counting)


def check_surroundings(address: ListenAddress, settings: HttpSettings) -> None:
    """Refuse what would serve strangers.

    Raises:
        SettingsError: others reach the address and need no token, or no Host was said to count there.
    """
    if address.is_loopback:
        return
    if not settings.is_authenticated:
        raise SettingsError(
            "http",
            f"{address.host} can be reached from elsewhere, which needs authentication: `tokens = true` "
            "under [http], or [http.oauth], in the configuration; without it listen on 127.0.0.1",
        )
    if settings.url is None and not settings.hosts:
        raise SettingsError(
            "http.url",
            f"{address.host} can be reached from elsewhere, so say under which Host requests count: "
            '`url = "https://counterfoil.example.org/mcp"`, or `hosts`',
        )


def surroundings_of(address: ListenAddress, settings: HttpSettings) -> Surroundings:
    """Give the Host and Origin values that count: those configured, and on loopback its own names."""
    hosts, origins = list(settings.hosts), list(settings.origins)
    if settings.url is not None:
        parts = urlsplit(settings.url)
        hosts.append(parts.netloc)
        origins.append(f"{parts.scheme}://{parts.netloc}")
    if address.is_loopback:
        for host in (*_LOCAL, address.host):
            hosts += [host, f"{host}:*"]
            origins += [f"http://{host}", f"http://{host}:*"]
    return Surroundings(hosts=frozenset(map(str.lower, hosts)), origins=frozenset(map(str.lower, origins)))
