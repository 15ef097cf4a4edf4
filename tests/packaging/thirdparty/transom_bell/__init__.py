"""A plugin as somebody else would write it: a door, an agent, a function, an operation and a record of its own.

It imports `transom_hookspecs` and what its pyproject declares, and nothing of the kernel's.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from transom_hookspecs import Agent, Context, Door, Json, Kernel, Operation, Record, Tool, function, hookimpl, tool

from .door import make_handlers
from .operations import RING_BELL, Bell


def ring(times: int, sound: str = "ding") -> str:
    """Ring the bell."""
    return " ".join([sound] * times)


class BellPlugin:
    """Registers all of it."""

    spec = "1.0"

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """`[bell]` of transom.toml."""

        sound: str = "ding"

    def __init__(self, config: Config) -> None:
        self.config = config
        self.kernel: Kernel | None = None

    @asynccontextmanager
    async def run(self, kernel: Kernel) -> AsyncIterator[None]:
        """Take the kernel."""
        self.kernel = kernel
        yield
        self.kernel = None

    @hookimpl
    def register_doors(self) -> Sequence[Door]:
        """`POST /bell/<name>`."""
        return [Door(name="bell", handlers=make_handlers(self))]

    @hookimpl
    def register_agents(self) -> Sequence[Agent]:
        """An agent that rings as often as its input says."""
        return [Agent(name="ringer", run=self.ringer, input_schema={"type": "integer", "minimum": 1})]

    @hookimpl
    def register_tools(self) -> Sequence[Tool]:
        """The function `bell.ring`."""
        return [tool("bell", function(ring, read_only=True, open_world=False))]

    @hookimpl
    def register_operations(self) -> Sequence[Operation]:
        """The operation `RingBell`."""
        return [RING_BELL]

    @hookimpl
    def register_records(self) -> Sequence[Record]:
        """How often each bell was rung."""
        return [Record(type=Bell, key=("name",))]

    async def ringer(self, ctx: Context, input: Json) -> Json:
        """Ring, and answer the sound."""
        return await ctx.call("bell.ring", {"times": input, "sound": self.config.sound})
