"""A kernel with policy, and a directory whose members the test changes at will."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from job_kit import on_disk
from kernel_kit import agents_plugin
from policy_kit import House, People, people_plugin


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def house(kernel) -> Callable[..., Any]:
    """A factory: `async with house(my_agent, tools=(my_tool,)) as home`."""

    @asynccontextmanager
    async def opened(
        *agents: Any, tools: tuple[Any, ...] = (), plugins: tuple[Any, ...] = (), **options: Any
    ) -> AsyncIterator[House]:
        people = People()
        chosen = [agents_plugin(*agents, tools=tools), people_plugin(people), "policy", "board", *plugins]
        async with kernel(**on_disk(*chosen, **options)) as k:
            yield House(k, people)

    return opened
