"""Kernels with a store on disk and a clock that the test moves."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from kernel_kit import agents_plugin
from retention_kit import Home, ModelPlugin, asks, child, echo, leaves_traces, look

from transom_hookspecs import function, tool


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def house(kernel, clock) -> Callable[..., AbstractAsyncContextManager[Home]]:
    """A factory: `async with house() as home`; two on one folder are a restart."""

    @asynccontextmanager
    async def opened(
        *agents: Any, store: Any = "sqlite", plugins: tuple[Any, ...] = (), config: dict[str, Any] | None = None
    ) -> AsyncIterator[Home]:
        mine = agents_plugin(leaves_traces, child, echo, asks, *agents, tools=(tool("t", function(look)),))
        loaded = [store, "local_engine", "board", "audit", "retention", ModelPlugin, mine, *plugins]
        settings = {"tenants": ["default", "acme"], "store": "sqlite", "local_engine": {"sweep": 0.1}, **(config or {})}
        async with kernel(plugins=loaded, jobs=False, clock=clock, config=settings) as k:
            yield Home(k, clock)

    return opened
