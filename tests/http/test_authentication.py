"""Who is let in, as whom, and how far: the journal's tokens, JWTs of an issuer, and all that is neither."""

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from counterfoil.server.scopes import APPROVE, READ, WRITE
from counterfoil.store.domain.commands import CheckOperation, OperationRef
from counterfoil.store.errors import NotFound
from http_servers import WAIT_SECONDS, HttpServer, connected, issue_token, operating
from journals import PERSON
from stdio_process import call

pytestmark = pytest.mark.anyio

EFFECT = {"run": "weekly-report/2026-W48", "key": "email:alice", "action": "mail.send"}
AUDIENCE = "https://counterfoil.example/mcp"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


class Issuer:
    """An issuer of JWTs: signs them, and publishes its keys on loopback."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.others_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.is_up = True
        self.asked = 0
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked += 1
                content = json.dumps({"keys": [issuer.published()]}).encode()
                self.send_response(200 if issuer.is_up else 503)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def published(self) -> dict[str, Any]:
        """Give the public key as a JWKS has it."""
        return {**jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True), "kid": "k1"}

    def claims(self, **other: Any) -> dict[str, Any]:
        """Give the claims of a token that is good; None leaves one out."""
        now = int(time.time())
        good = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "agent-7",
            "exp": now + 600,
            "nbf": now - 5,
            "scope": f"openid {READ} {WRITE}",
            "counterfoil_namespace": "team",
        }
        return {name: value for name, value in {**good, **other}.items() if value is not None}

    def token(self, *, key: Any = None, algorithm: str = "RS256", kid: str = "k1", **other: Any) -> str:
        """Give a signed token."""
        return jwt.encode(self.claims(**other), key or self.key, algorithm=algorithm, headers={"kid": kid})

    def configuration(self) -> str:
        """Give the configuration of a server that takes its tokens, and those of the journal."""
        return (
            f'[http]\ntokens = true\nurl = "{AUDIENCE}"\n'
            f'[http.oauth]\nissuer = "{self.url}"\njwks_url = "{self.url}/jwks"\n'
        )

    def close(self) -> None:
        """Stop publishing."""
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    """Give an issuer that runs."""
    running = Issuer()
    yield running
    running.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give where the journal is."""
    return tmp_path_factory.mktemp("auth") / "journal.db"


@pytest.fixture(scope="module")
def server(issuer: Issuer, place: Path) -> Iterator[HttpServer]:
    """Give a server that asks for tokens of the journal, or of the issuer."""
    with HttpServer(place, folder=place.parent, configuration=issuer.configuration()) as running:
        yield running


def bearing(token: str) -> dict[str, str]:
    """Give the header that brings a token."""
    return {"authorization": f"Bearer {token}"}


async def principal_of(server: HttpServer, place: Path, token: str, namespace: str) -> str:
    """Begin an operation with a token; give the principal on file for it, in this namespace and no other."""
    key = f"by {hashlib.sha256(token.encode()).hexdigest()[:20]}"
    answer = server.post(call(1, **{**EFFECT, "key": key, "target": key}), **bearing(token)).json()
    assert answer["result"]["structuredContent"]["next"] == "perform"
    check = CheckOperation(ref=OperationRef(run=EFFECT["run"], key=key), detail="full")
    async with operating(place, namespace) as journal:
        checked = await journal.check_operation(check, PERSON)
        for other in {"team", "ops", "default"} - {namespace}:
            with pytest.raises(NotFound):
                await (await journal.of_namespace(other)).check_operation(check, PERSON)
    [principal] = {event["caller"]["principal"] for event in checked["history"]}
    return str(principal)


async def test_a_token_of_the_journal_is_its_name_in_its_namespace(server: HttpServer, place: Path) -> None:
    token = await issue_token(place, "ops", "ci", READ, WRITE)
    assert await principal_of(server, place, token, "ops") == "token:ci"


async def test_a_jwt_is_its_subject_in_the_namespace_that_it_names(
    server: HttpServer, place: Path, issuer: Issuer
) -> None:
    assert await principal_of(server, place, issuer.token(), "team") == "oauth:agent-7"


async def test_no_argument_moves_a_caller_into_another_namespace(server: HttpServer, place: Path) -> None:
    token = await issue_token(place, "ops", "mover", READ, WRITE)
    answer = server.post(call(1, **EFFECT, namespace="team"), **bearing(token)).json()["result"]
    assert json.loads(answer["content"][0]["text"])["code"] == "invalid_argument"


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"authorization": "Bearer"},
        {"authorization": "Basic eDp5"},
        bearing("cft_" + "A" * 43),
        bearing("x"),
    ],
)
async def test_whoever_brings_no_token_that_counts_is_told_where_to_get_one(
    server: HttpServer, header: dict[str, str]
) -> None:
    answer = server.post(PING, **header)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].endswith(
        'resource_metadata="https://counterfoil.example/.well-known/oauth-protected-resource/mcp"'
    )
    metadata = server.get("/.well-known/oauth-protected-resource/mcp").json()
    assert metadata["resource"] == AUDIENCE
    [issuer] = metadata["authorization_servers"]
    assert not issuer.endswith("/")
    assert metadata["scopes_supported"] == [READ, WRITE, APPROVE]


async def test_of_two_tokens_none_counts(server: HttpServer, place: Path) -> None:
    token = await issue_token(place, "ops", "twice", READ)
    ours = ("authorization", f"Bearer {token}")
    sound = [("content-type", "application/json"), ("accept", "application/json, text/event-stream"), ours]
    for more, status in (([], 200), ([("authorization", "Bearer x")], 401), ([ours], 401)):
        answer = httpx2.post(server.mcp, json=PING, headers=sound + more, timeout=WAIT_SECONDS)
        assert answer.status_code == status


async def test_a_revoked_token_is_refused_from_the_next_request_on(server: HttpServer, place: Path) -> None:
    token = await issue_token(place, "ops", "leaver")
    assert server.post(PING, **bearing(token)).status_code == 200
    async with operating(place, "ops") as journal:
        await journal.revoke_token("leaver", PERSON)
    assert server.post(PING, **bearing(token)).status_code == 401


async def test_an_expired_token_is_refused(server: HttpServer, place: Path) -> None:
    token = await issue_token(place, "ops", "guest", lasts_seconds=0.001)
    await anyio.sleep(0.002)
    assert server.post(PING, **bearing(token)).status_code == 401


def forged(issuer: Issuer) -> dict[str, str]:
    """Give tokens that must not count, each by what is wrong with it."""
    now = int(time.time())

    def part(content: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()

    unsigned = f"{part({'alg': 'none', 'typ': 'JWT'})}.{part(issuer.claims())}."
    public = issuer.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    confused = f"{part({'alg': 'HS256', 'kid': 'k1'})}.{part(issuer.claims())}"
    mac = base64.urlsafe_b64encode(hmac.digest(public, confused.encode(), "sha256")).rstrip(b"=").decode()
    good = issuer.token()
    head, _, signature = good.split(".")
    return {
        "no algorithm": unsigned,
        "the public key taken for a shared secret": f"{confused}.{mac}",
        "an algorithm that is not allowed": issuer.token(algorithm="RS512"),
        "another's key": issuer.token(key=issuer.others_key),
        "a key that is not published": issuer.token(kid="k2"),
        "changed claims": f"{head}.{part(issuer.claims(scope=APPROVE))}.{signature}",
        "expired": issuer.token(exp=now - 60),
        "not yet valid": issuer.token(nbf=now + 600),
        "an end that is a text": issuer.token(exp=str(now + 600)),
        "an end that is a truth": issuer.token(exp=True),
        "a beginning that is a text": issuer.token(nbf=str(now - 600)),
        "no end": issuer.token(exp=None),
        "another audience": issuer.token(aud="https://other.example/mcp"),
        "no audience": issuer.token(aud=None),
        "another issuer": issuer.token(iss="https://other.example"),
        "no subject": issuer.token(sub=None),
        "no namespace": issuer.token(counterfoil_namespace=None),
        "a namespace that cannot be one": issuer.token(counterfoil_namespace="../ops"),
        "several namespaces": issuer.token(counterfoil_namespace=["team", "ops"]),
        "cut": good[:-10],
        "too long": issuer.token(more="x" * 20_000),
    }


async def test_a_jwt_counts_only_where_everything_about_it_holds(server: HttpServer, issuer: Issuer) -> None:
    assert server.post(PING, **bearing(issuer.token())).status_code == 200
    statuses = {why: server.post(PING, **bearing(token)).status_code for why, token in forged(issuer).items()}
    assert statuses == dict.fromkeys(statuses, 401)


READING = ("check_operation", "resume_plan", "find_operations")


async def test_each_tool_needs_its_scope(server: HttpServer, place: Path) -> None:
    reader = await issue_token(place, "ops", "reader", READ)
    writer = await issue_token(place, "ops", "writer", WRITE)
    refused: dict[str, set[str]] = {READ: set(), WRITE: set()}
    names: set[str] = set()
    for lacking, token in ((WRITE, reader), (READ, writer)):
        async with connected(server, token=token) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            for name in names:
                result = await client.call_tool(name, {})
                fault = json.loads(result.content[0].text) if result.is_error else {}
                if fault.get("code") == "forbidden":
                    assert (lacking in fault["message"], fault["recorded"]) == (True, False)
                    refused[lacking].add(name)
    assert refused == {WRITE: names - set(READING), READ: set(READING)}


async def test_resources_and_completions_need_the_scope_to_read(server: HttpServer, place: Path) -> None:
    writer = await issue_token(place, "ops", "writes-only", WRITE)
    for method, params in (
        ("resources/read", {"uri": "counterfoil://runs"}),
        (
            "completion/complete",
            {
                "ref": {"type": "ref/resource", "uri": "counterfoil://runs/{run}/plan"},
                "argument": {"name": "run", "value": ""},
            },
        ),
    ):
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = server.post(request, **bearing(writer), mcp_protocol_version="2025-06-18").json()
        assert answer["error"]["data"]["code"] == "forbidden"


async def test_a_client_that_came_by_oauth_is_told_the_scope_to_ask_for(
    server: HttpServer, issuer: Issuer
) -> None:
    answer = server.post(call(7, **EFFECT), **bearing(issuer.token(scope=READ)))
    assert answer.status_code == 403
    assert f'error="insufficient_scope", scope="{WRITE}"' in answer.headers["www-authenticate"]
    assert (answer.json()["id"], answer.json()["error"]["data"]["code"]) == (7, "forbidden")


async def test_only_who_may_approve_is_asked_and_answers_for_a_person(
    server: HttpServer, place: Path
) -> None:
    statuses: dict[str, str | None] = {}
    for name, scopes in (("asker", (READ, WRITE)), ("boss", (READ, WRITE, APPROVE))):
        token = await issue_token(place, "ops", name, *scopes)
        params = {
            "name": "request_authority",
            "arguments": {"run": "paying", "action": "pay.send"},
            "inputResponses": {"permit": {"action": "accept", "content": {"permit": True}}},
            "requestState": "made up",
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
            },
        }
        headers = {
            "mcp_protocol_version": "2026-07-28",
            "mcp_method": "tools/call",
            "mcp_name": "request_authority",
        }
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        result = server.post(request, **bearing(token), **headers).json()["result"]
        is_fault = bool(result.get("isError"))
        statuses[name] = json.loads(result["content"][0]["text"]).get("code") if is_fault else None
    assert statuses == {"asker": "forbidden", "boss": None}


async def test_an_issuer_that_cannot_be_reached_costs_no_token_its_use(tmp_path: Path) -> None:
    away = Issuer()
    away.is_up = False
    with HttpServer(tmp_path / "journal.db", folder=tmp_path, configuration=away.configuration()) as server:
        answer = server.post(PING, **bearing(away.token()))
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["error"]["data"]["code"] == "journal_unavailable"
        for number in range(20):
            server.post(PING, **bearing(away.token(kid=f"made-up-{number}")))
        assert away.asked == 1
    away.close()


async def test_a_token_is_kept_and_logged_as_its_digest_only(server: HttpServer, place: Path) -> None:
    token = await issue_token(place, "ops", "secretive")
    server.post(call(1, **EFFECT, payload=f"my token is {token}"), **bearing(token))
    kept = b"".join(file.read_bytes() for file in place.parent.iterdir() if file.is_file())
    assert token.encode() not in kept
    assert hashlib.sha256(token.encode()).hexdigest().encode() in kept
