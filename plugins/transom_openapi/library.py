"""Documents that are kept, and which of them a caller is shown.

A document is built in a thread, once for all who see the same agents, and kept while the catalog is the same.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from urllib.parse import quote

import anyio
import anyio.to_thread
import msgspec

from transom_hookspecs import AgentView, Caller, Catalog, GetCatalog, Kernel, Origin, TransomError

from .document import document_of

MAX_BYTES = 64 * 1024 * 1024
"""Documents that are kept may have so many bytes together; the latest is kept in any case."""

MAX_CALLERS = 64
"""Callers of whom it is kept what they see."""

MAX_AGE = 60_000
"""Milliseconds after which it is asked again what a caller sees, whatever was heard of changes."""

SETTLED = 1_000
"""Milliseconds after a change of rights, in which those who judge by them may still be reading it."""

TOPICS = ("keys", "people", "policy")
"""Topics of changes after which callers may see other agents."""

Names = frozenset[str]


class OpenApiDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document in OpenAPI 3.1, as JSON. `etag`: names these very bytes, and the plugin where it is one's."""

    etag: str
    document: bytes


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A document, and the catalog that it was made of."""

    views: Sequence[AgentView]
    document: OpenApiDocument


class _Sight(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller sees of a catalog: some names, or None for all; asked at a time in milliseconds (Unix)."""

    views: Sequence[AgentView]
    names: Names | None
    at: int


class Library:
    """The documents of one kernel."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, Names | None], _Kept] = OrderedDict()
        self._sights: OrderedDict[tuple[str, Caller], _Sight] = OrderedDict()
        self._building = anyio.Lock()
        self._changed_at = 0

    async def follow(self, kernel: Kernel, topic: str) -> None:
        """Forget what callers see whenever rights change."""
        with kernel.topic(topic) as changed:
            while True:
                await changed()
                self._changed_at = kernel.clock.now()

    async def find(self, kernel: Kernel, origin: Origin, plugin: str) -> OpenApiDocument:
        """The document of what a caller sees.

        Parameters:
            plugin: only its agents and flows; empty for all.

        Raises:
            TransomError: not_found when the caller sees none of that plugin's.
        """
        views = kernel.agents(origin.tenant)
        names = await self._seen(kernel, origin, views)
        key = (origin.tenant, plugin, names)
        if (found := self._current(key, views)) is not None:
            return found
        chosen = [v for v in views if plugin in ("", v.plugin) and (names is None or v.name in names)]
        if plugin and not chosen:
            raise TransomError("not_found", f"plugin: there is no agent or flow of a plugin {plugin[:100]!r} here")
        async with self._building:
            found = self._current(key, views)
            if found is None:
                found = await anyio.to_thread.run_sync(_made, origin.tenant, plugin, chosen)
                self._keep(key, _Kept(views=views, document=found))
        return found

    async def _seen(self, kernel: Kernel, origin: Origin, views: Sequence[AgentView]) -> Names | None:
        """The names that a caller sees, as the catalog answers it; None for all."""
        key, now = (origin.tenant, origin.caller), kernel.clock.now()
        sight = self._sights.get(key)
        if sight is None or sight.views is not views or now - sight.at > MAX_AGE or sight.at < self._changed_at + SETTLED:
            catalog: Catalog = await kernel.call("GetCatalog", GetCatalog(), origin)
            every = len(catalog.agents) == len(views)
            names = None if every else frozenset(view.name for view in catalog.agents)
            sight = self._sights[key] = _Sight(views=views, names=names, at=now)
            if len(self._sights) > MAX_CALLERS:
                self._sights.popitem(last=False)
        self._sights.move_to_end(key)
        return sight.names

    def _current(self, key: tuple[str, str, Names | None], views: Sequence[AgentView]) -> OpenApiDocument | None:
        kept = self._kept.get(key)
        if kept is None or kept.views is not views:
            return None
        self._kept.move_to_end(key)
        return kept.document

    def _keep(self, key: tuple[str, str, Names | None], kept: _Kept) -> None:
        self._kept[key] = kept
        self._kept.move_to_end(key)
        size = sum(len(each.document.document) for each in self._kept.values())
        while size > MAX_BYTES and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            size -= len(oldest.document.document)


def _made(tenant: str, plugin: str, agents: Sequence[AgentView]) -> OpenApiDocument:
    document = document_of(tenant, plugin, agents)
    digest = hashlib.sha256(document).hexdigest()
    return OpenApiDocument(etag=f'"{quote(plugin, safe="")}.{digest}"' if plugin else f'"{digest}"', document=document)
