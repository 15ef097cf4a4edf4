"""The model: `transom_openai`'s client, pointed at the child process."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from transom_hookspecs import ModelEvent, ModelPrice, ModelRequest
from transom_openai import ModelSettings, OpenaiModel

from .process import ModelProcess

if TYPE_CHECKING:
    import httpx

ASKED = ModelSettings(
    url="http://127.0.0.1/v1",
    model="local",
    tools="schema",
    timeout=600.0,
    tries=1,
    extra={"temperature": 0.0, "repeat_penalty": 1.1},
)
"""How the server is asked. A small model has no calls of its own; it wanders unless it is cold, and being cold repeats
itself unless that costs. The timeout is long because requests wait for one another; before each, the process's health
is looked at.
"""


class LocalModel:
    """The local model, as `transom_hookspecs.Model`. It costs nothing, under a cap of money too."""

    price = ModelPrice(input=0, output=0, cached=0)

    def __init__(self, name: str, process: ModelProcess, client: "Callable[[], httpx.AsyncClient]") -> None:
        self.name = name
        self._process = process
        self._client = client

    def count(self, request: ModelRequest) -> int:
        """An upper bound of the request's input tokens."""
        return OpenaiModel(self.name, ASKED, self._client).count(request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask, and yield deltas as they come, then one ModelEnd; the first request starts the process.

        Raises:
            TransomError: as `transom_hookspecs.Model.stream` says.
        """
        served = await self._process.ready()
        settings = msgspec.structs.replace(ASKED, url=f"{served.url}/v1")
        model = OpenaiModel(self.name, settings, self._client, key=served.key)
        async with aclosing(model.stream(request)) as events:
            async for event in events:
                yield event
