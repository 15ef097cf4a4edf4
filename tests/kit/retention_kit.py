"""Agents that leave traces of every kind, and a kernel whose traces are looked at afterwards."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
from job_kit import ended, hooks_plugin, start
from kernel_kit import OPERATOR

from transom_hookspecs import GetJob, Json, ModelEnd, Service, Tenants, TenantSettings, TextDelta, TransomError, hookimpl
from transom_retention.sweep import RetentionDone, RunRetention

WORD = "xylophone"
"""Stands in whatever the traces of a job are."""


async def leaves_traces(ctx: Any, input: Any) -> Json:
    """Writes into every place that there is."""
    await ctx.say(f"I say {WORD} now.")
    await ctx.note(f"a note of {WORD}", tags=(WORD,))
    await ctx.call("t.look", {"at": WORD})
    answer = await ctx.model("m", [])
    return {"word": WORD, "child": await ctx.delegate("child", WORD), "answer": answer.text}


async def child(ctx: Any, input: Any) -> Json:
    await ctx.note(f"its note of {input}")
    return f"back: {input}"


async def echo(ctx: Any, input: Any) -> Json:
    await ctx.say(str(input))
    return input


async def asks(ctx: Any, input: Any) -> Json:
    return await ctx.ask(f"{WORD}?")


async def look(at: str) -> str:
    return f"saw {at}"


class Talker:
    """A model that says the word in three pieces."""

    name = "m"

    def count(self, request: object) -> int:
        return 1

    async def stream(self, request: object) -> Any:
        for delta in ("xylo", "phone", "!"):
            yield TextDelta(text=delta)
        yield ModelEnd()


class ModelPlugin:
    name = "talker"
    spec = "1.0"

    def __init__(self, config: object) -> None: ...

    @hookimpl
    def register_models(self) -> list[Any]:
        return [Talker()]


def tenants_plugin(**days: int) -> type:
    """A plugin that says how many days each tenant keeps content; 90 where it is not named."""

    class Days:
        def names(self) -> tuple[str, ...]:
            return ()

        def settings(self, tenant: str) -> TenantSettings:
            return TenantSettings(retention_days=days.get(tenant, 90))

    return hooks_plugin(register_services=lambda: [Service(protocol=Tenants, provider=Days())])


class Home:
    """A kernel, its clock and its database."""

    def __init__(self, kernel: Any, clock: Any) -> None:
        self.kernel, self.clock = kernel, clock
        self.file = Path(kernel.data) / "transom.db"

    async def ran(self, agent: str, job: str, **more: Any) -> Any:
        await start(self.kernel, agent, job, **more)
        return await ended(self.kernel, job)

    def days(self, days: float) -> None:
        self.clock.forward(days * 86_400)

    async def sweep(self, who: Any = OPERATOR) -> RetentionDone:
        return await self.kernel.call("RunRetention", RunRetention(), who)

    async def gone(self, job: str) -> bool:
        try:
            await self.kernel.call("GetJob", GetJob(id=job), OPERATOR)
        except TransomError as error:
            if error.code != "not_found":
                raise
            return True
        return False

    async def rows(self, word: str, *, leave_out: tuple[str, ...] = ()) -> set[str]:
        """The tables in whose rows a word stands."""
        return await anyio.to_thread.run_sync(self._rows, word, leave_out)

    def _rows(self, word: str, leave_out: tuple[str, ...]) -> set[str]:
        with closing(sqlite3.connect(self.file)) as tool:
            names = [name for (name,) in tool.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return {
                name
                for name in names
                if name not in leave_out and any(word in str(row) for row in tool.execute(f"SELECT * FROM {name}"))
            }

    async def dump(self, *leave_out: str) -> dict[str, Any]:
        """Every row of every table."""
        return await anyio.to_thread.run_sync(self._dump, leave_out)

    def _dump(self, leave_out: tuple[str, ...]) -> dict[str, Any]:
        with closing(sqlite3.connect(self.file)) as tool:
            names = [name for (name,) in tool.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return {name: tool.execute(f"SELECT * FROM {name}").fetchall() for name in names if name not in leave_out}

    async def bytes_with(self, word: str) -> set[str]:
        """The files of the data folder in which a word stands, the store being in use."""

        def look() -> set[str]:
            files = [path for path in self.file.parent.rglob("*") if path.is_file()]
            return {path.name for path in files if word.encode() in path.read_bytes()}

        return await anyio.to_thread.run_sync(look)
