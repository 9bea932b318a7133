"""Says where to listen, and takes the socket: only loopback may be served without authentication."""

import ipaddress
import re
import socket

from msgspec import Struct

from counterfoil.server.settings import SettingsError

__all__ = ["ListenAddress", "listen_address", "listening_socket"]

_FORM = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%a-z]+\]|[^:\[\]]+):(?P<port>[0-9]{1,5})")
_BACKLOG = 512


class ListenAddress(Struct, frozen=True, kw_only=True):
    """Where to listen, as it was given and as it resolves. Port 0 lets the system choose one."""

    host: str
    port: int
    family: socket.AddressFamily
    resolved: str

    @property
    def is_loopback(self) -> bool:
        """Tell whether only this machine reaches it."""
        return ipaddress.ip_address(self.resolved.partition("%")[0]).is_loopback


def listen_address(text: str) -> ListenAddress:
    """Read HOST:PORT; an IPv6 address stands in brackets.

    Raises:
        SettingsError: it is no such thing, or HOST does not resolve.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None or int(match["port"]) > 65_535:
        raise SettingsError("http", "give HOST:PORT, e.g. 127.0.0.1:8080 or [::1]:8080")
    host, port = match["host"].strip("[]"), int(match["port"])
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise SettingsError("http", f"{host} does not resolve: {error.strerror}") from error
    family, _, _, _, place = found[0]
    return ListenAddress(host=host, port=port, family=family, resolved=str(place[0]))


def listening_socket(address: ListenAddress) -> socket.socket:
    """Take the address, so that whoever connects from now on is answered or waits.

    Raises:
        SettingsError: it is taken, or not this process's to take.
    """
    # The protocol is named, since asyncio turns Nagle's algorithm off only where it is: with it an answer in
    # two writes waits 40 ms for the client's delayed acknowledgement.
    listener = socket.socket(address.family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address.family == socket.AF_INET6:
            # `[::]` means what it says; whoever wants IPv4 too starts another worker.
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address.resolved, address.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise SettingsError(
            "http", f"cannot listen on {address.host}:{address.port}: {error.strerror}"
        ) from error
    listener.setblocking(False)
    return listener
