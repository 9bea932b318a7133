"""The reference deployment is what its programs take, and its numbers fit each other."""

import os
import shutil
import subprocess
import sys
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from counterfoil.server.settings import load_settings

DEPLOY = Path(__file__).parents[2] / "examples" / "deploy"


def linter(name: str) -> str:
    """Give the path of a linter; without it the test is skipped."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a linter and give what it said."""
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("name", ["counterfoil.toml", "compose.counterfoil.toml"])
def test_the_configuration_is_one_that_workers_take(name: str) -> None:
    settings = load_settings(flags={"config": str(DEPLOY / name)}, environment={})
    assert settings.http is not None
    assert settings.http.is_authenticated
    assert settings.journal_url is not None


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    program = linter("systemd-analyze")
    for name in ("counterfoil@.service", "counterfoil.target"):
        text = (DEPLOY / name).read_text(encoding="utf-8")
        text = text.replace("/opt/counterfoil/bin/counterfoil", sys.executable)
        (tmp_path / name).write_text(text.replace("=counterfoil\n", "=root\n"), encoding="utf-8")
    instance = tmp_path / "counterfoil@8081.service"
    instance.symlink_to(tmp_path / "counterfoil@.service")
    verified = run(program, "verify", "--man=no", str(instance), str(tmp_path / "counterfoil.target"))
    assert (
        verified.returncode,
        [line for line in verified.stderr.splitlines() if "counterfoil" in line],
    ) == (
        0,
        [],
    )


def test_nginx_takes_its_configurations(tmp_path: Path) -> None:
    program = linter("nginx")
    certificate, key = self_signed(tmp_path)
    for name in ("nginx.conf", "compose.nginx.conf"):
        text = (DEPLOY / name).read_text(encoding="utf-8")
        for there, here in {
            "/etc/nginx/tls/counterfoil.pem": str(certificate),
            "/etc/nginx/tls/counterfoil.key": str(key),
            "worker-a": "127.0.0.1",
            "worker-b": "127.0.0.2",
        }.items():
            text = text.replace(there, here)
        whole = tmp_path / f"whole-{name}"
        whole.write_text(f"pid {tmp_path}/pid;\nevents {{}}\nhttp {{\n{text}\n}}\n", encoding="utf-8")
        tested = run(program, "-t", "-q", "-e", str(tmp_path / "errors"), "-c", str(whole))
        assert (tested.returncode, tested.stderr) == (0, "")


def self_signed(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for the name of the deployment, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "counterfoil.example.org")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    (folder / "tls.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "tls.key").write_bytes(private)
    return folder / "tls.pem", folder / "tls.key"


def test_the_compose_file_names_what_is_there() -> None:
    document: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    services = document["services"]
    assert set(services) == {"db", "worker-a", "worker-b", "proxy"}
    for service in services.values():
        assert ("image" in service) != ("build" in service)
        assert set(service.get("depends_on", ())) <= set(services)
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source in document["volumes"] or (DEPLOY / source).is_file()
    proxied = (DEPLOY / "compose.nginx.conf").read_text(encoding="utf-8")
    assert all(f"server {name}:8080;" in proxied for name in ("worker-a", "worker-b"))


def test_the_numbers_of_the_deployment_fit_each_other() -> None:
    http = tomllib.loads((DEPLOY / "counterfoil.toml").read_text(encoding="utf-8"))["http"]
    unit = (DEPLOY / "counterfoil@.service").read_text(encoding="utf-8")
    [stop] = [line for line in unit.splitlines() if line.startswith("TimeoutStopSec=")]
    assert int(stop.partition("=")[2]) > http["notice_seconds"] + http["drain_seconds"]
    proxy = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    assert f"client_max_body_size {http['max_body_bytes'] // 2**20}m;" in proxy
    longest_wait, slack = 50, 10
    [reading] = [line.split()[1] for line in proxy.splitlines() if "proxy_read_timeout" in line]
    assert int(reading.rstrip("s;")) > longest_wait + slack
