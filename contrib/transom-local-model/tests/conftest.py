"""A kernel's outbound service, and the plugin with the real model when it is installed."""

from collections.abc import AsyncIterator
from importlib.util import find_spec

import httpx
import pytest
from transom_local_model import LocalModelPlugin, LocalSettings
from transom_local_model.files import model_file

from transom_hookspecs import TransomError


class FakeKernel:
    """As much of a kernel as the plugin touches."""

    def __init__(self):
        self.outbound = self

    def operator(self, name):
        return httpx.AsyncHTTPTransport()


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def kernel():
    return FakeKernel()


@pytest.fixture
def installed():
    """Skips where the real model is not installed."""
    if not find_spec("xllamacpp"):
        pytest.skip("xllamacpp is not installed: pip install xllamacpp")
    try:
        return model_file("")
    except TransomError as error:
        pytest.skip(error.message)


@pytest.fixture
async def plugin(installed, kernel) -> AsyncIterator[LocalModelPlugin]:
    """The plugin while its kernel runs."""
    made = LocalModelPlugin(LocalSettings())
    async with made.run(kernel):
        yield made


@pytest.fixture
def ask(plugin):
    """Asks the model and returns the events."""
    (model,) = plugin.register_models()

    async def run(request):
        return [event async for event in model.stream(request)]

    return run
