"""Runs the HTTP server from start to end: takes the address, serves, and at a signal stops with grace.

At the first SIGTERM, SIGINT or SIGHUP `/readyz` fails; after `notice_seconds`, in which a load balancer may
see that, no connection is taken any more, and the calls under way have `drain_seconds` to answer. A second
signal skips the notice. What is not done by then is cut off and told so; then the journal is closed and the
process ends with code 0.
"""

import contextlib
import math
import secrets
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, cast

import anyio
import uvicorn

from counterfoil.server.app import build_server
from counterfoil.server.callers import ClientInfo
from counterfoil.server.http.application import MCP_PATH, HttpApplication, build_application
from counterfoil.server.http.bearers import Bearers
from counterfoil.server.http.connections import Connection
from counterfoil.server.http.draining import Drain
from counterfoil.server.http.health import Health
from counterfoil.server.http.jwt_tokens import JwtTokens
from counterfoil.server.http.key_set import KeySet
from counterfoil.server.http.listening import ListenAddress, listen_address, listening_socket
from counterfoil.server.http.metrics import Metrics
from counterfoil.server.http.principals import local_principal
from counterfoil.server.http.rates import Rates
from counterfoil.server.http.scraping import Scraping
from counterfoil.server.http.session_seals import SessionSeals
from counterfoil.server.http.settings import HttpSettings
from counterfoil.server.http.surroundings import check_surroundings, surroundings_of
from counterfoil.server.http.tenants import Tenants
from counterfoil.server.journals import Journals
from counterfoil.server.logs import configure_logs, logger
from counterfoil.server.opener import open_from
from counterfoil.server.settings import Settings
from counterfoil.store.redact import Redactor
from counterfoil.tools.catalogue import TOOL_SETS

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp

    from counterfoil.store.journal import Journal

__all__ = ["serve_http", "worker_config"]

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_KEEP_ALIVE_SECONDS = 75
"""Longer than proxies keep an idle connection (nginx: 60 s), so that none is closed under a request."""


def serve_http(settings: Settings, address_text: str, *, version: str = "") -> int:
    """Serve MCP over HTTP at HOST:PORT until a signal comes; give the exit code.

    Raises:
        SettingsError: the address cannot be taken, or may not be served like this.
    """
    http = settings.http or HttpSettings()
    address = listen_address(address_text)
    check_surroundings(address, http)
    listener = listening_socket(address)
    configure_logs(settings.log_level)
    try:
        anyio.run(_serve, settings, http, address, listener, version)
    except Exception:
        logger.exception("the server failed")
        return 1
    return 0


async def _serve(
    settings: Settings, http: HttpSettings, address: ListenAddress, listener: "socket.socket", version: str
) -> None:
    drain = Drain()
    telemetry, flush = None, _nothing
    if settings.has_traces:
        from counterfoil.server.tracing import set_up_tracing

        telemetry, flush = set_up_tracing(settings, version=version, transport="tcp")
    tools = TOOL_SETS[settings.tools]
    async with Journals.holding(lambda: open_from(settings)) as journals:

        async def opened() -> "Journal":
            return cast("Journal", await journals.get())

        metrics = Metrics(opened, drain, version=version)
        tenants = Tenants(opened)
        server = build_server(
            journals.get,
            client=ClientInfo(connection="http"),
            limits=settings.limits,
            version=version,
            tools=tools,
            telemetry=telemetry,
            redactor=Redactor(
                secrets.token_bytes(32),
                extra_names=settings.redact_names,
                patterns=settings.redact_patterns,
            ),
            access=tenants.access_of,
            heard=metrics.heard,
        )
        application = build_application(
            server,
            tools=tools,
            settings=http,
            surroundings=surroundings_of(address, http),
            who=_verifier(http, opened) if http.is_authenticated else local_principal(settings.namespace),
            seals=SessionSeals(tenants.journal_of),
            rates=Rates(per_second=http.calls_per_second, burst=http.burst, clock=time.monotonic),
            health=Health(opened, drain),
            metrics=metrics,
            scraping=Scraping(
                metrics,
                token_sha256=http.metrics_token_sha256,
                is_open=http.metrics_open or (address.is_loopback and not http.is_authenticated),
            ),
            drain=drain,
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(journals.open_early)
            await _run(application, listener, http, drain, address)
    flush()


def _nothing() -> None:
    pass


def _verifier(http: HttpSettings, journal: "Callable[[], Awaitable[Journal]]") -> Bearers:
    jwt_tokens = None
    if http.oauth is not None and http.audience is not None:
        keys = KeySet(http.oauth.jwks_url, clock=time.monotonic)
        jwt_tokens = JwtTokens(http.oauth, audience=http.audience, keys=keys)
    return Bearers(journal if http.tokens else None, jwt_tokens)


_LAST_SECONDS = 2
"""For telling whoever was cut off; after that their connections are dropped."""


class _Worker(uvicorn.Server):
    """The server without its signal handlers, which end a process by the signal that it got."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def worker_config(
    app: "ASGIApp", *, drain_seconds: float, keep_alive_seconds: int = _KEEP_ALIVE_SECONDS
) -> uvicorn.Config:
    """Say how connections are served. Named for what they are, since uvicorn takes what is installed."""
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=keep_alive_seconds,
        timeout_graceful_shutdown=math.ceil(drain_seconds) + _LAST_SECONDS,
    )


async def _run(
    application: HttpApplication,
    listener: "socket.socket",
    http: HttpSettings,
    drain: Drain,
    address: ListenAddress,
) -> None:
    worker = _Worker(worker_config(application.asgi, drain_seconds=http.drain_seconds))
    async with application.manager.run(), anyio.create_task_group() as tasks:
        await tasks.start(_heed_signals, worker, drain, http)
        _tell_address(address, listener)
        await worker.serve(sockets=[listener])
        tasks.cancel_scope.cancel()


async def _heed_signals(
    worker: uvicorn.Server,
    drain: Drain,
    http: HttpSettings,
    *,
    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    with anyio.open_signal_receiver(*ENDING_SIGNALS) as signals:
        task_status.started()
        await anext(signals)
        drain.announce()
        with anyio.move_on_after(http.notice_seconds):
            await anext(signals)
        worker.should_exit = True
        with anyio.move_on_after(http.drain_seconds):
            async for _ in signals:
                pass
        drain.cut_off()
        async for _ in signals:
            pass


def _tell_address(address: ListenAddress, listener: "socket.socket") -> None:
    """Say on stderr where the server is, whatever the log level: with port 0 nothing else tells."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    port = listener.getsockname()[1]
    print(f"counterfoil: serving http://{host}:{port}{MCP_PATH}", file=sys.stderr, flush=True)  # noqa: T201
