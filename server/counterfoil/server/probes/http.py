"""`http`: asks a web service by GET; the status, and the JSON that comes, say whether the effect is there."""

import hashlib
import json
import re
import urllib.parse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from counterfoil.server.probes.json_reading import JsonReading, read_reading
from counterfoil.server.probes.probe import Inconclusive, Seen
from counterfoil.server.probes.table import ProbeTable, from_environment, missing_variables
from counterfoil.server.probes.template import Template
from counterfoil.store.domain.json_numbers import Json
from counterfoil.store.probing import ProbeSubject

if TYPE_CHECKING:
    import httpx2

__all__ = ["HttpLook", "read_http"]

_MOST_REDIRECTS = 3
_REDIRECTS = (301, 302, 303, 307, 308)
_HOST = re.compile(r"[A-Za-z0-9._-]+(?::\d{1,5})?|\[[0-9A-Fa-f:]+\](?::\d{1,5})?")
_BEGINNING = re.compile(r"(https?)://([^/?#{}\\@\s]+)(?=[/?#]|$)")
_PORTS = {"http": 80, "https": 443}


class HttpLook(Struct, frozen=True, kw_only=True):
    """Gets `url`. A status in `statuses` goes on to the JSON, one in `absent` says not found, others nothing.

    `hosts` are the only ones that are ever asked, redirects included; `headers` go to the first one only.
    """

    url: Template
    hosts: tuple[str, ...]
    statuses: tuple[int, ...]
    absent: tuple[int, ...]
    reading: JsonReading
    headers: Mapping[str, str]
    most_bytes: int
    timeout_seconds: float
    kind: str = "http_response"

    @property
    def uses_external_id(self) -> bool:
        """True where the reference on record is asked for."""
        return "external_id" in (*self.url.names, *self.reading.placeholders)

    async def see(self, subject: ProbeSubject) -> Seen:
        """Ask once.

        Raises:
            Inconclusive: no answer, another one than was foreseen, or a host that is not allowed.
        """
        import httpx2

        headers = from_environment(self.headers)
        if headers is None:
            raise Inconclusive("a variable of the environment that the probe needs is not set")
        filled = self.url.fill(subject) if self.url.only else self.url.fill(subject, write=_written)
        try:
            url = httpx2.URL(filled)
            async with httpx2.AsyncClient(
                trust_env=False,
                timeout=self.timeout_seconds,
                headers={
                    "User-Agent": "counterfoil",
                    "Accept": "application/json, */*;q=0.5",
                    "Accept-Encoding": "identity",
                },
            ) as client:
                return await self._ask(client, url, headers, subject)
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            raise Inconclusive(f"the service could not be asked ({type(error).__name__})") from None

    async def _ask(
        self,
        client: "httpx2.AsyncClient",
        url: "httpx2.URL",
        headers: Mapping[str, str],
        subject: ProbeSubject,
    ) -> Seen:
        first = url
        for _ in range(_MOST_REDIRECTS + 1):
            self._check(url)
            is_first = (url.scheme, url.host, url.port) == (first.scheme, first.host, first.port)
            async with client.stream("GET", url, headers=dict(headers) if is_first else {}) as response:
                status = response.status_code
                if status in _REDIRECTS and status not in (*self.statuses, *self.absent):
                    onward = url.join(response.headers.get("location", ""))
                    if url.scheme == "https" and onward.scheme != "https":
                        raise Inconclusive("the service redirects to where it is not encrypted")
                    url = onward
                    continue
                evidence: dict[str, Json] = {"status": status}
                if status in self.absent:
                    return Seen(found=False, evidence=evidence)
                if status not in self.statuses:
                    raise Inconclusive(f"the service answered with status {status}")
                if not self.reading.reads:
                    return Seen(found=True, evidence=evidence)
                body = await self._body(response)
                evidence["body_sha256"] = hashlib.sha256(body).hexdigest()
                return self.reading.seen(_document(body), subject, evidence)
        raise Inconclusive("the service redirects too often")

    def _check(self, url: "httpx2.URL") -> None:
        """Refuse what is not allowed, by the very URL that is sent."""
        if url.scheme not in _PORTS or url.userinfo:
            raise Inconclusive("the URL is neither http nor https, or it holds credentials")
        port = url.port or _PORTS[url.scheme]
        host = f"[{url.host}]" if ":" in url.host else url.host
        names = {f"{host}:{port}".lower()} | ({host.lower()} if port == _PORTS[url.scheme] else set())
        if not names.intersection(self.hosts):
            raise Inconclusive("the URL leads to a host that is not allowed")

    async def _body(self, response: "httpx2.Response") -> bytes:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise Inconclusive("the answer is compressed, though it was asked for plain")
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > self.most_bytes:
                raise Inconclusive(f"the answer has more than {self.most_bytes} bytes")
        return bytes(body)

    def lacks(self) -> list[str]:
        """Say if a variable is not set; no service is asked."""
        return missing_variables(self.headers)


def _written(value: str) -> str:
    """Write a value as one piece of a path or query: nothing in it separates, and it leads nowhere up."""
    if any(part in (".", "..") for part in re.split(r"[/\\]", value)):
        raise Inconclusive("a value on record leads out of the path that is asked for")
    return urllib.parse.quote(value, safe="")


def _document(body: bytes) -> Json:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise Inconclusive("the answer is no JSON") from None


def read_http(table: ProbeTable, *, timeout_seconds: float) -> HttpLook:
    """Read the keys of an `http` probe.

    Raises:
        ProbeProblem: naming the key.
    """
    url, hosts = table.template("url"), table.texts("hosts")
    if url is None:
        raise table.problem("url", "it is missing")
    for host in hosts or ():
        if not _HOST.fullmatch(host):
            raise table.problem("hosts", "each is a host such as api.example.org, or host:port")
    allowed = tuple(host.lower() for host in hosts or ())
    beginning = _BEGINNING.match(url.source)
    if beginning is None and url.only is None:
        raise table.problem(
            "url",
            "it begins with http:// or https:// and a fixed host without credentials, or is one placeholder",
        )
    if beginning is not None:
        scheme, host = beginning[1], beginning[2].lower()
        if not _HOST.fullmatch(host):
            raise table.problem("url", "it has a host such as api.example.org, or host:port")
        if not url.names:
            raise table.problem("url", "it names no operation; a placeholder such as {operation} does")
        plain = host.removesuffix(f":{_PORTS[scheme]}")
        allowed = allowed or (plain,)
        if not {host, plain, f"{plain}:{_PORTS[scheme]}"}.intersection(allowed):
            raise table.problem("hosts", f"{host}, which the URL names, is not among them")
    elif not allowed:
        raise table.problem("hosts", "it is missing: the hosts that a URL on record may lead to")
    statuses, absent = table.numbers("status", default=(200,)), table.numbers("absent", default=(404,))
    if set(statuses) & set(absent):
        raise table.problem("absent", "it shares a status with status")
    return HttpLook(
        url=url,
        hosts=allowed,
        statuses=statuses,
        absent=absent,
        reading=read_reading(table),
        headers=table.variables("headers"),
        most_bytes=table.size("most_bytes", default=2**20, most=2**26),
        timeout_seconds=timeout_seconds,
    )
