"""Says whether an address may be served as configured, and with which Host and Origin requests count."""

from urllib.parse import urlsplit

from mcp.server.transport_security import TransportSecuritySettings

from counterfoil.server.http.listening import ListenAddress
from counterfoil.server.http.settings import HttpSettings
from counterfoil.server.settings import SettingsError

__all__ = ["check_surroundings", "security_of"]

_LOCAL = ("localhost", "127.0.0.1", "[::1]")


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


def security_of(address: ListenAddress, settings: HttpSettings) -> TransportSecuritySettings:
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
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)
