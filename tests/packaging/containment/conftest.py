"""A plugin that raises, beside good ones."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any

import pytest
from kernel_kit import OPERATOR, agents_plugin

from transom_hookspecs import (
    Context,
    JobEnded,
    Json,
    Message,
    ModelEnd,
    ModelRequest,
    PluginError,
    StartJob,
    TextDelta,
    function,
    hookimpl,
    tool,
)


class Bad:
    """Makes plugins that raise, and expects the error that must come of it."""

    cause = "the cause, which is nobody's business"

    def plugin(self, name: str = "bad", **hooks: Callable[..., Any]) -> type:
        """A plugin class that implements hooks with functions; `run` is its life."""
        members = {hook: function if hook == "run" else hookimpl(function) for hook, function in hooks.items()}
        return type("BadPlugin", (), {"name": name, "spec": "1.0", "__init__": lambda self, config: None, **members})

    def raising(self) -> Callable[[object], None]:
        """A hook's implementation that raises."""

        def implementation(plugin: object) -> None:
            raise RuntimeError(self.cause)

        return implementation

    @contextmanager
    def blamed(self, where: str) -> Iterator[None]:
        """Expect a PluginError of plugin `bad` that tells where and not why."""
        with pytest.raises(PluginError) as caught:
            yield
        self.names(caught.value.message, where)
        assert caught.value.code == "internal"
        assert self.cause in str(caught.value.__cause__)

    def names(self, message: str, where: str) -> None:
        """The message names the plugin and where it failed, and not why."""
        assert "'bad'" in message
        assert where in message
        assert self.cause not in message


@pytest.fixture
def bad() -> Bad:
    return Bad()


class Parrot:
    """A model that says one word."""

    name = "parrot"

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | ModelEnd]:
        yield TextDelta("said")
        yield ModelEnd()

    def count(self, request: ModelRequest) -> int:
        return 1


async def hello(ctx: Context, input: Json) -> Json:
    return "hello"


async def rings(ctx: Context, input: Json) -> Json:
    return await ctx.call("good.ring")


async def asks_a_model(ctx: Context, input: str) -> Json:
    return (await ctx.model(input or "parrot", [Message(role="user", content="say")])).text


async def ring() -> str:
    """Ring."""
    return "ding"


GOOD = agents_plugin(hello, rings, asks_a_model, tools=(tool("good", function(ring, open_world=False)),))


class World:
    """A running kernel with good agents, a tool and a model, and with what a test adds."""

    def __init__(self, core: Any, events: Callable[..., Any]) -> None:
        self.kernel = core
        self._events = events

    async def run(self, agent: str, input: Json = None) -> Any:
        """Run a job to its end; its log."""
        answer = await self.kernel.call("StartJob", StartJob(agent=agent, input=input), OPERATOR)
        return await self._events(self.kernel, answer.job.id)

    async def still_works(self) -> None:
        """Another job is done as ever."""
        (ended,) = (await self.run("hello")).of(JobEnded)
        assert ended.output == "hello"


@pytest.fixture
def world(kernel: Any, events: Callable[..., Any]) -> Callable[..., AbstractAsyncContextManager[World]]:
    """A factory of running worlds, with plugins of the test's."""

    @asynccontextmanager
    async def opened(*plugins: type | str) -> AsyncIterator[World]:
        models = Bad().plugin("models", register_models=lambda plugin: [Parrot()])
        async with kernel(plugins=[GOOD, models, *plugins]) as core:
            yield World(core, events)

    return opened
