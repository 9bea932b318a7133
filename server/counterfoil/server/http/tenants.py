"""Gives each tenant its journal: one per namespace, all on the one database that the process has open."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from counterfoil.server.access import Access, Context, JournalProvider
from counterfoil.server.http.principals import client_of, principal_of

if TYPE_CHECKING:
    from counterfoil.store.journal import Journal

__all__ = ["Tenants"]

_MOST_KEPT = 1_000
"""A journal of a namespace costs some kilobytes and no connection; one that was let go is made anew."""


class Tenants:
    """The journals of a process, by namespace. `journal` gives the one that holds the database."""

    def __init__(self, journal: "Callable[[], Awaitable[Journal]]") -> None:
        self._journal = journal
        self._of_namespace: OrderedDict[str, Journal] = OrderedDict()
        self._made_from: Journal | None = None

    async def journal_of(self, namespace: str) -> "Journal":
        """Give the journal of a namespace.

        Raises:
            Fault: the database cannot be opened now.
        """
        opened = await self._journal()
        if opened is not self._made_from:
            self._of_namespace.clear()
            self._made_from = opened
        journal = self._of_namespace.pop(namespace, None) or await opened.of_namespace(namespace)
        self._of_namespace[namespace] = journal
        if len(self._of_namespace) > _MOST_KEPT:
            self._of_namespace.popitem(last=False)
        return journal

    def access_of(self, context: Context) -> Access:
        """Tell what a request reaches: what its principal may, in its principal's namespace."""
        request: Any = context.request
        principal = principal_of(request)
        return Access(
            journals=self._provider(principal.namespace),
            client=client_of(request, principal),
            scopes=principal.scopes,
        )

    def _provider(self, namespace: str) -> JournalProvider:
        async def provide() -> "Journal":
            return await self.journal_of(namespace)

        return provide
