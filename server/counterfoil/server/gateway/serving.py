"""Serves a gateway over stdin and stdout until its client goes; what ends it is what ends the server."""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from counterfoil.server.lifecycle import Ending
from counterfoil.server.logs import configure_logs, logger

if TYPE_CHECKING:
    from counterfoil.server.gateway.programs import Program
    from counterfoil.server.gateway.servers import ServerSpec
    from counterfoil.server.journals import JournalOpener
    from counterfoil.server.settings import Settings

__all__ = ["serve_gateway"]


def serve_gateway(
    settings: "Settings",
    specs: "Sequence[ServerSpec]",
    open_journal: "JournalOpener",
    *,
    run: str | None,
    ending: Ending,
    version: str = "",
    started: "Mapping[str, Program] | None" = None,
) -> int:
    """Stand before the servers of `specs` until stdin or stdout ends, or a signal comes; give the exit code.

    `started` are programs of theirs that run already; they end with the gateway, needed or not.
    To be called once, by a process that ends right after it.
    """
    configure_logs(settings.log_level)
    try:
        import anyio

        anyio.run(_serve, settings, specs, open_journal, run, ending, version, started or {})
    except Exception:
        logger.exception("the gateway failed")
        return 1
    finally:
        ending.stop = None
        ending.arm()
    return 0


async def _serve(
    settings: "Settings",
    specs: "Sequence[ServerSpec]",
    open_journal: "JournalOpener",
    run: str | None,
    ending: Ending,
    version: str,
    started: "Mapping[str, Program]",
) -> None:
    from contextlib import AsyncExitStack

    import anyio

    from counterfoil.server.callers import ClientInfo
    from counterfoil.server.gateway.calls import CONNECTION_PREFIX
    from counterfoil.server.gateway.front import open_gateway
    from counterfoil.server.gateway.pipes import ended_in_order
    from counterfoil.server.gateway.transports import transport_of
    from counterfoil.server.journals import Journals
    from counterfoil.server.stdio import claim_standard_streams, serve_streams
    from counterfoil.store.redact import Redactor

    stopping = anyio.Event()
    loop = asyncio.get_running_loop()
    ending.stop = lambda: loop.call_soon_threadsafe(stopping.set)
    stdin, stdout = claim_standard_streams()

    def open_journal_early() -> None:
        tasks.start_soon(journals.open_early)

    async with (
        AsyncExitStack() as unneeded,
        anyio.create_task_group() as tasks,
        Journals.holding(open_journal) as journals,
        open_gateway(
            [(spec, transport_of(spec, started.get(spec.name))) for spec in specs],
            journals.get,
            rules=settings.tool_rules,
            run=run,
            namespace=settings.namespace,
            client=ClientInfo(
                connection=f"{CONNECTION_PREFIX}{secrets.token_hex(8)}",
                conversation=settings.conversation,
                traceparent=settings.traceparent,
            ),
            limits=settings.limits,
            redactor=Redactor(
                secrets.token_bytes(32), extra_names=settings.redact_names, patterns=settings.redact_patterns
            ),
            lease_seconds=settings.lease_seconds,
            version=version,
        ) as gateway,
    ):
        unneeded.push_async_callback(ended_in_order, *started.values())
        await serve_streams(
            gateway.server,
            stdin,
            stdout,
            stopping=stopping,
            on_end=ending.arm,
            on_first_answer=open_journal_early,
            is_passed_on=True,
        )
        tasks.cancel_scope.cancel()
