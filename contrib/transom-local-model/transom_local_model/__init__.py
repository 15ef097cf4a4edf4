"""A real language model on this machine, with no network and no key.

llama.cpp serves it from a child process of its own, since it would block the event loop: `process` keeps the child,
`serve` is what it runs, `files` finds the model's file, `model` asks it through `transom_openai`.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

from transom_hookspecs import Kernel, Model, TransomError, hookimpl

from .model import LocalModel
from .process import ModelProcess
from .settings import LocalSettings

if TYPE_CHECKING:
    import httpx

__all__ = ["LocalModelPlugin", "LocalSettings"]


class LocalModelPlugin:
    """Registers one model, and ends its process with the kernel."""

    spec = "1.0"
    Config = LocalSettings

    def __init__(self, config: LocalSettings) -> None:
        self._settings = config
        self._client: httpx.AsyncClient | None = None
        self.process = ModelProcess(config, self._opened)

    @asynccontextmanager
    async def run(self, kernel: Kernel) -> AsyncIterator[None]:
        """Hold a client open; the process is started by the first request."""
        import httpx

        transport = cast("httpx.AsyncBaseTransport", kernel.outbound.operator("local_model"))
        client = self._client = httpx.AsyncClient(transport=transport, trust_env=False)
        try:
            yield
        finally:
            self._client = None
            await self.process.aclose()
            await client.aclose()

    @hookimpl
    def register_models(self) -> Sequence[Model]:
        """The local model."""
        return [LocalModel(self._settings.name, self.process, self._opened)]

    def _opened(self) -> "httpx.AsyncClient":
        if self._client is None:
            raise TransomError("unavailable", "the plugin 'local_model' does not run; start the kernel first")
        return self._client
