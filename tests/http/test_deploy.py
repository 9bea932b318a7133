"""The reference deployment is what its programs take, and its numbers fit each other."""

import os
import shutil
import subprocess
import sys
import threading
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from counterfoil.server.settings import load_settings
from crash.sessions import LONG
from http_servers import WAIT_SECONDS, HttpServer, wait_until
from stdio_process import modern_call

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
    assert all(f"server {name}:8080 " in proxied for name in ("worker-a", "worker-b"))


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


@pytest.mark.skipif(not LONG, reason="a rolling restart under load takes half a minute: COUNTERFOIL_LONG=1")
def test_a_rolling_restart_behind_the_proxy_loses_no_call(tmp_path: Path) -> None:
    program = linter("nginx")
    configuration = '[http]\ncalls_per_second = 0\nnotice_seconds = 2\nhosts = ["counterfoil.example.org"]\n'

    def worker(address: str = "127.0.0.1:0") -> HttpServer:
        place = tmp_path / "journal.db"
        return HttpServer(place, address=address, folder=tmp_path, configuration=configuration)

    outcomes: Counter[str] = Counter()
    is_over = threading.Event()
    workers = [worker(), worker()]
    text = (DEPLOY / "compose.nginx.conf").read_text(encoding="utf-8")
    for name, one in zip(("worker-a", "worker-b"), workers, strict=True):
        text = text.replace(f"{name}:8080", one.url.removeprefix("http://"))
    text = text.replace("listen 8080", f"listen unix:{tmp_path}/socket")
    whole = tmp_path / "nginx.conf"
    own = f"pid {tmp_path}/pid;\ndaemon off;\nevents {{}}\nhttp {{\naccess_log off;\n{text}\n}}\n"
    whole.write_text(own, encoding="utf-8")
    tmp_path.chmod(0o755)
    proxy = subprocess.Popen([program, "-e", str(tmp_path / "errors"), "-c", str(whole)])

    def calling(number: int) -> None:
        headers = {
            "accept": "application/json",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call",
            "mcp-name": "begin_operation",
        }
        transport = httpx2.HTTPTransport(uds=str(tmp_path / "socket"))
        with httpx2.Client(transport=transport, timeout=WAIT_SECONDS) as client:
            for key in map(str, count()):
                if is_over.is_set():
                    return
                effect = {"run": f"run {number}", "key": key, "target": key, "action": "mail.send"}
                request = modern_call(1, **effect)
                answer = client.post("http://counterfoil.example.org/mcp", json=request, headers=headers)
                outcomes[
                    answer.json()["result"]["structuredContent"]["next"]
                    if answer.status_code == 200
                    else str(answer.status_code)
                ] += 1

    try:
        wait_until((tmp_path / "socket").exists)
        with ThreadPoolExecutor(4) as callers:
            calls = [callers.submit(calling, number) for number in range(4)]
            for _ in range(2):
                for index, one in enumerate(workers):
                    wanted = outcomes.total() + 20
                    wait_until(lambda wanted=wanted: outcomes.total() > wanted)
                    one.stop()
                    assert one.ended() == 0
                    workers[index] = worker(one.url.removeprefix("http://"))
            is_over.set()
            for call in calls:
                call.result()
    finally:
        is_over.set()
        proxy.terminate()
        proxy.wait(WAIT_SECONDS)
        for one in workers:
            one.__exit__()
    assert set(outcomes) == {"perform"}
