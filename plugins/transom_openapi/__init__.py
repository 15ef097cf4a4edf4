"""The OpenAPI document of a tenant: what its agents and flows take and answer, for generators of clients.

Read in this order: `document` (agents to bytes), `schemas` and `drafts` (an agent's schema becomes components), `shapes` and
`generic` (what is the same in every tenant), `library` (which document a caller is shown, and what is kept), `route`.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from transom_hookspecs import Call, Door, Kernel, Operation, TransomError, hookimpl

from .library import TOPICS, Library, OpenApiDocument
from .requests import GetOpenApi


class OpenapiPlugin:
    """The plugin: one door with one route, and the operation behind it."""

    spec = "1.0"

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """No settings."""

    def __init__(self, config: Config) -> None:
        self._library = Library()
        self._kernel: Kernel | None = None

    @property
    def kernel(self) -> Kernel:
        """The running kernel.

        Raises:
            TransomError: unavailable before the start is done and from the shutdown on.
        """
        if self._kernel is None:
            raise TransomError("unavailable", "the server is starting or stopping; try again in a moment")
        return self._kernel

    @asynccontextmanager
    async def run(self, kernel: Kernel) -> AsyncIterator[None]:
        """Answer requests, and follow what callers may see."""
        for topic in TOPICS:
            kernel.spawn(self._library.follow, kernel, topic, name=f"changes of {topic}")
        self._kernel = kernel
        try:
            yield
        finally:
            self._kernel = None

    async def _get(self, call: Call, request: GetOpenApi) -> OpenApiDocument:
        return await self._library.find(self.kernel, call.origin, request.plugin)

    @hookimpl
    def register_operations(self) -> Sequence[Operation]:
        """Reading the document."""
        return [
            Operation(
                name="GetOpenApi",
                request=GetOpenApi,
                response=OpenApiDocument,
                permission="catalog.read",
                handler=self._get,
                description="The OpenAPI document of the tenant's agents and flows.",
            )
        ]

    @hookimpl
    def register_doors(self) -> Sequence[Door]:
        """The route."""
        from .route import make_handler

        return [Door(name="openapi", handlers=[make_handler(self)])]
