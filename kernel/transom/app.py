"""The kernel inside a program."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, cast

import msgspec

from transom_hookspecs import (
    Caller,
    Clock,
    GetJob,
    JobAnswer,
    JobEnded,
    JobView,
    Json,
    Origin,
    StartJob,
    TransomError,
)

from .config import Config, load
from .core import Core
from .plugins import load as load_plugins

LOCAL = Caller(kind="operator", id="local")


class Transom:
    """A kernel inside a program.

        async with Transom(data="./data", dev=True) as transom:
            print(await transom.run("echo", "hello"))

    Parameters:
        config: the settings; else those that `changes` give over the defaults, with no file read.
        plugins: plugin classes beside (and instead of) the installed ones.
        entry_points: whether installed plugins are loaded.
        agents: YAML files to add to the catalog.
        own_only: advance only the jobs that this program starts.
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        plugins: Sequence[type] = (),
        entry_points: bool = True,
        agents: Sequence[str] = (),
        clock: Clock | None = None,
        own_only: bool = True,
        **changes: object,
    ) -> None:
        settings = msgspec.structs.replace(config, **changes) if config else load("", {}, **changes)
        loaded = load_plugins(settings, plugins, entry_points=entry_points)
        self.kernel = Core(settings, loaded, clock, agents)
        self._own_only = own_only
        self._open = self.kernel.open(own_only=own_only)

    async def __aenter__(self) -> Self:
        await self._open.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.__aexit__(kind, error, trace)

    async def start(self, agent: str, input: Json = None, *, tenant: str = "default", **options: Any) -> JobView:
        """Start an agent or flow; `options` are fields of `StartJob`."""
        request = StartJob(agent=agent, input=input, **options)
        answer = await self.kernel.call("StartJob", request, Origin(tenant=tenant, caller=LOCAL, door="embedded"))
        return cast(JobAnswer, answer).job

    async def wait(self, job: JobView, *, tenant: str = "default") -> JobView:
        """Follow a job to its end."""
        async for batch in self.kernel.watch(tenant, job.tree):
            if any(isinstance(e.event, JobEnded) and e.event.job == job.id for e in batch):
                break
        origin = Origin(tenant=tenant, caller=LOCAL, door="embedded")
        return cast(JobView, await self.kernel.call("GetJob", GetJob(id=job.id), origin))

    async def run(self, agent: str, input: Json = None, *, tenant: str = "default", **options: Any) -> Json:
        """Start an agent or flow, wait for its end, and return its output.

        Raises:
            TransomError: how it failed.
        """
        job = await self.wait(await self.start(agent, input, tenant=tenant, **options), tenant=tenant)
        if job.error is not None:
            raise job.error.error()
        if job.status != "completed":
            raise TransomError("canceled", f"job {job.id} ended {job.status}")
        return job.output
