"""TLS as the URL asks for it: who answers is checked where that is asked, and what goes over is encrypted."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from conformance.postgres_journals import SHORT, making, opened, runs
from counterfoil.store.errors import JournalUnavailable
from postgres_cluster import binaries_or_skip, new_cluster, skip_without

pytestmark = pytest.mark.anyio


@dataclass(frozen=True, slots=True, kw_only=True)
class Encrypted:
    """A server that has a certificate for `localhost`, signed by itself, and is reached over TCP."""

    port: int
    certificate: Path
    another: Path
    """A certificate that is not the server's."""

    def url(self, *, host: str = "localhost", **parameters: str) -> str:
        """Give the URL of its journal with such parameters."""
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        return f"postgresql://counterfoil@{host}:{self.port}/postgres?{query}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    """Run such a server."""
    if shutil.which("openssl") is None:
        skip_without(
            "openssl is not installed, which makes the certificates (Debian: apt-get install openssl)"
        )
    folder = tmp_path_factory.mktemp("certificates")
    with new_cluster(binaries_or_skip()) as cluster:
        certificate, key = certified(cluster.folder, "server")
        if os.geteuid() == 0:
            shutil.chown(key, cluster.user)
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        cluster.start(
            listen_addresses="'127.0.0.1'",
            port=str(port),
            ssl="on",
            ssl_cert_file=f"'{certificate}'",
            ssl_key_file=f"'{key}'",
        )
        (cluster.data / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 trust\n")
        cluster.reload()
        yield Encrypted(port=port, certificate=certificate, another=certified(folder, "another")[0])


def certified(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a key and a certificate for `localhost` that it signs itself; gives certificate and key."""
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(
        [*command, "-addext", "subjectAltName=DNS:localhost", *files], check=True, capture_output=True
    )
    key.chmod(0o600)
    return certificate, key


async def test_a_server_whose_certificate_is_the_one_asked_for_is_used_encrypted(server: Encrypted) -> None:
    url = server.url(sslmode="verify-full", sslrootcert=str(server.certificate))
    async with opened(url) as database:
        await database.write(making("kept"))
        assert await database.read(runs) == ["kept"]
        assert (await database.facts())["tls"].startswith("TLSv1.")


@pytest.mark.parametrize("case", ["another authority", "another name", "in clear"])
async def test_a_server_that_is_not_the_one_asked_for_is_refused_with_the_reason(
    server: Encrypted, case: str
) -> None:
    mine, another = str(server.certificate), str(server.another)
    urls = {
        "another authority": server.url(sslmode="verify-full", sslrootcert=another),
        "another name": server.url(host="127.0.0.1", sslmode="verify-full", sslrootcert=mine),
        "in clear": server.url(sslmode="disable"),
    }
    said = {
        "another authority": "certificate verify failed",
        "another name": 'does not match host name "127.0.0.1"',
        "in clear": "no encryption",
    }
    with pytest.raises(JournalUnavailable) as fault:
        async with opened(urls[case], patience=SHORT):
            pass
    assert said[case] in fault.value.message
    assert fault.value.recorded is False
