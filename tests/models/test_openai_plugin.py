"""The plugin: its settings, its models, its client's life."""

import re
import subprocess
import sys

import httpx
import msgspec
import pytest

from transom_hookspecs import TransomError
from transom_openai import OpenaiPlugin

pytestmark = pytest.mark.anyio

FAST = {"url": "https://models.test/v1", "model": "fast-1"}


class Transport(httpx.AsyncHTTPTransport):
    closed = False

    async def aclose(self):
        self.closed = True
        await super().aclose()


class FakeKernel:
    """As much of a kernel as the plugin touches."""

    def __init__(self):
        self.asked = []
        self.outbound = self
        self.transport = Transport()

    def operator(self, name):
        self.asked.append(name)
        return self.transport


def configured(*names, **fields):
    return msgspec.convert({"models": {name: {**FAST, **fields} for name in names}}, OpenaiPlugin.Config)


def test_each_entry_is_a_model_of_its_name():
    models = OpenaiPlugin(configured("fast", "slow")).register_models()
    assert [model.name for model in models] == ["fast", "slow"]


def test_without_settings_there_is_no_model():
    assert OpenaiPlugin(OpenaiPlugin.Config()).register_models() == []


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"modle": "x"}, "unknown field `modle`"),
        ({"api_key": "sk-1"}, "unknown field `api_key`"),
        ({"tools": "both"}, "Invalid enum value 'both'"),
        ({"timeout": 0}, "> 0.0"),
        ({"tries": 0}, ">= 1"),
        ({"prices": {"input": 1.0}}, "missing required field `output`"),
        ({"prices": {"input": -1.0, "output": 1.0}}, ">= 0.0"),
        ({"url": "models.test/v1"}, "must start with http:// or https://"),
        ({"url": "http:///v1"}, "name a host"),
        ({"url": "https://user:pw@models.test/v1"}, "must hold no credential"),
        ({"url": "https://models.test/v1?key=1"}, "must hold no credential"),
        ({"extra": {"stream": False}}, "`extra` may not set stream"),
    ],
)
def test_a_wrong_setting_is_refused_and_named(fields, problem):
    with pytest.raises(msgspec.ValidationError, match=re.escape(problem)) as caught:
        configured("fast", **fields)
    assert "$.models[...]" in str(caught.value)


async def test_the_client_uses_the_operators_transport_and_is_closed_after(server, wire):
    server.says(wire.delta("stop", content="Hi"))
    kernel, plugin = FakeKernel(), OpenaiPlugin(configured("fast", url=server.url))
    (model,) = plugin.register_models()
    async with plugin.run(kernel):
        assert wire.text_of([event async for event in model.stream(wire.ask_for())]) == "Hi"
        assert not kernel.transport.closed
    assert kernel.asked == ["openai"]
    assert kernel.transport.closed


async def test_outside_its_life_a_model_says_so(wire):
    (model,) = OpenaiPlugin(configured("fast")).register_models()
    with pytest.raises(TransomError, match="does not run"):
        await anext(model.stream(wire.ask_for()))


async def test_a_plugin_without_models_opens_nothing():
    kernel = FakeKernel()
    async with OpenaiPlugin(OpenaiPlugin.Config()).run(kernel):
        assert kernel.asked == []


def test_the_http_library_is_not_loaded_at_start():
    code = "import sys, transom_openai; sys.exit('httpx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode == 0
