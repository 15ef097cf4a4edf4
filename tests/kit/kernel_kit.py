"""Small plugins, and a store that crashes, for tests of the kernel."""

from collections.abc import Awaitable, Callable
from typing import Any

from transom_hookspecs import (
    Agent,
    Caller,
    Context,
    Json,
    Origin,
    StoreUnavailable,
    Tool,
    hookimpl,
)
from transom_sqlite import SqliteStore

OPERATOR = Origin(tenant="default", caller=Caller(kind="operator", id="local"), door="test")


def agents_plugin(*agents: Agent | Callable[[Context, Json], Awaitable[Json]], tools: tuple[Tool, ...] = ()) -> type:
    """A plugin class with these agents (functions are agents of their name) and tools."""
    made = [a if isinstance(a, Agent) else Agent(name=a.__name__, run=a) for a in agents]

    class AgentsTestPlugin:
        name = "test_agents"
        spec = "1.0"

        def __init__(self, config: object) -> None: ...

        @hookimpl
        def register_agents(self) -> list[Agent]:
            return made

        @hookimpl
        def register_tools(self) -> list[Tool]:
            return list(tools)

    return AgentsTestPlugin


class CrashingStore(SqliteStore):
    """A store whose process 'dies' after some transactions: from then on nothing is written any more."""

    left: int | None = None

    async def transact(self, tenant: str, fn: Any, *, relaxed: bool = False) -> Any:
        if self.left is not None:
            if self.left <= 0:
                raise StoreUnavailable("the process has crashed")
            self.left -= 1
        return await super().transact(tenant, fn, relaxed=relaxed)


def crashing_plugin(store: SqliteStore) -> type:
    """A plugin class that registers this very store."""

    class CrashingStorePlugin:
        name = "crashing"
        spec = "1.0"

        def __init__(self, config: object) -> None: ...

        @hookimpl
        def register_stores(self) -> list[SqliteStore]:
            return [store]

    return CrashingStorePlugin
