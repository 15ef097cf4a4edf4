"""Models of any server that speaks OpenAI's chat completions: the service itself, vLLM, llama.cpp, Ollama, gateways.

In transom.toml, one table a model:

    [openai.models.fast]
    url = "https://api.openai.com/v1"
    model = "gpt-5-mini"
    api_key_env = "OPENAI_API_KEY"

`client` asks and tries again, `sse` reads bytes, `answer` makes events of them, `body` and `schema_body` write requests.
Other distributions may use `OpenaiModel` for servers of their own.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

import msgspec

from transom_hookspecs import Kernel, Model, TransomError, hookimpl

from .client import OpenaiModel
from .settings import ModelSettings, Prices

if TYPE_CHECKING:
    import httpx

__all__ = ["ModelSettings", "OpenaiModel", "OpenaiPlugin", "Prices"]


class OpenaiPlugin:
    """Registers one model for each entry of its settings."""

    spec = "1.0"

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """`[openai]`: the models, by the names that agents use."""

        models: dict[str, ModelSettings] = {}

    def __init__(self, config: Config) -> None:
        self._settings = config.models
        self._client: httpx.AsyncClient | None = None

    @asynccontextmanager
    async def run(self, kernel: Kernel) -> AsyncIterator[None]:
        """Hold one client open, when there is a model to ask."""
        if not self._settings:
            yield
            return
        import httpx

        transport = cast("httpx.AsyncBaseTransport", kernel.outbound.operator("openai"))
        client = self._client = httpx.AsyncClient(transport=transport, trust_env=False)
        try:
            yield
        finally:
            self._client = None
            await client.aclose()

    @hookimpl
    def register_models(self) -> Sequence[Model]:
        """The configured models."""
        return [OpenaiModel(name, settings, self._opened) for name, settings in self._settings.items()]

    def _opened(self) -> "httpx.AsyncClient":
        if self._client is None:
            raise TransomError("unavailable", "the plugin 'openai' does not run; start the kernel first")
        return self._client
