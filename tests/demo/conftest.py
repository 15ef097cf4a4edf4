"""What the demo's tests share: its documents, and a small stand-in for the loop of a model and its tools."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from transom import yaml
from transom_demo import DemoPlugin
from transom_hookspecs import (
    ErrorInfo,
    Function,
    Message,
    ModelEnd,
    ModelRequest,
    TextDelta,
    Tool,
    ToolCall,
    ToolResult,
    TransomError,
)
from transom_scripted import ScriptedPlugin


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def demo() -> DemoPlugin:
    return DemoPlugin(DemoPlugin.Config())


@pytest.fixture(scope="session")
def tools(demo) -> Mapping[str, Tool]:
    return {tool.name: tool for tool in demo.register_tools()}


@pytest.fixture(scope="session")
def functions(tools) -> Mapping[str, Function]:
    return {f"{tool.name}.{function.name}": function for tool in tools.values() for function in tool.functions}


@pytest.fixture(scope="session")
def documents(demo) -> Mapping[str, dict[str, Any]]:
    (bundle,) = demo.register_bundles()
    return {file.stem: yaml.load(file.read_bytes(), file.name) for file in (Path(bundle.path) / "agents").iterdir()}


@pytest.fixture
def call_context() -> Any:
    return SimpleNamespace(tenant="default", job="j1", tree="j1", agent="sleeper", step="2.1", attempt=1)


class Model:
    """The scripted model, asked with a script; gathers what it streams."""

    def __init__(self, **config: Any) -> None:
        (self.model,) = ScriptedPlugin(ScriptedPlugin.Config(**config)).register_models()

    async def ask(self, script: Any, *messages: Message, **request: Any) -> tuple[list[str], ModelEnd]:
        asked = ModelRequest(messages=messages, options={"script": script}, **request)
        texts: list[str] = []
        async for event in self.model.stream(asked):
            if isinstance(event, TextDelta):
                texts.append(event.text)
            else:
                return texts, event
        raise AssertionError("the stream ended without a ModelEnd")


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def priced() -> Callable[..., Model]:
    return Model


@pytest.fixture
def converse(documents, functions, call_context, model) -> Callable[..., Any]:
    """Run a declared agent: `await converse("helper", approve=…)` gives its answer and the calls it made."""

    async def run(name: str, input: Any = "hello", *, approve: Callable[[ToolCall], bool] = lambda call: True) -> Any:
        document = documents[name]
        said = input if isinstance(input, str) else msgspec.json.encode(input).decode()
        messages = [Message(role="user", content=said)]
        made: list[tuple[str, Any]] = []
        while True:
            key = f"j1:{len(messages)}"
            texts, end = await model.ask(document["options"]["script"], *messages, idempotency_key=key)
            if not end.calls:
                return SimpleNamespace(text="".join(texts), deltas=texts, calls=made)
            made += [(call.function, call.arguments) for call in end.calls]
            messages.append(Message(role="assistant", content="".join(texts), calls=end.calls))
            messages += [outcome(call, approve(call)).as_message() for call in end.calls]

    def outcome(call: ToolCall, approved: bool) -> ToolResult:
        if not approved:
            error = ErrorInfo(code="permission_denied", message="denied by person:omar")
            return ToolResult(call=call.id, function=call.function, error=error)
        try:
            content = functions[call.function].call(call_context, call.arguments)
        except TransomError as error:
            return ToolResult(call=call.id, function=call.function, error=error.info())
        return ToolResult(call=call.id, function=call.function, content=content)

    return run
