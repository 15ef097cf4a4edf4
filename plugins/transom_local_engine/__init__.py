"""The engine of one machine: jobs are advanced as tasks of this process.

What it is told (`launch`, `wake`, `cancel`) are hints. The truth is in the leases, which a sweep reads at start and
every few seconds: due ones are advanced, and those of workers that are gone are freed.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import anyio
import msgspec
from anyio.abc import TaskGroup

from transom_hookspecs import SYSTEM, Engine, Kernel, Lease, Timer, Worker, hookimpl

FAR = 86_400.0
"""Timers further away than this many seconds are left to the sweep."""


class LocalEngine:
    """Implements `transom_hookspecs.Engine` with tasks of the running event loop."""

    name = "local"
    local = True

    def __init__(self, sweep: float, most: int) -> None:
        self._sweep, self._most = sweep, most
        self._own_only = False
        self._own: set[tuple[str, str]] = set()
        self._active: dict[tuple[str, str], bool] = {}
        self._waiting: dict[tuple[str, str], None] = {}
        self._timers: dict[tuple[str, str], Timer] = {}

    @asynccontextmanager
    async def run(self, kernel: Kernel, *, own_only: bool = False) -> AsyncIterator[None]:
        """Advance jobs until left; what runs then is cancelled, and goes on at the next start."""
        self._kernel, self._own_only = kernel, own_only
        async with anyio.create_task_group() as tasks:
            self._tasks: TaskGroup = tasks
            if not own_only:
                await self._swept()
            tasks.start_soon(self._sweep_often)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    def launch(self, tenant: str, job: str) -> None:
        """Advance a job that was just accepted."""
        if self._own_only:
            self._own.add((tenant, job))
        self._go((tenant, job))

    def wake(self, tenant: str, job: str, at: int | None = None) -> None:
        """Advance a job now, or at a time in milliseconds."""
        key = (tenant, job)
        if self._own_only and key not in self._own:
            return
        seconds = 0.0 if at is None else (at - self._kernel.clock.now()) / 1000
        if seconds <= 0:
            self._go(key)
        elif seconds < FAR:
            if (before := self._timers.pop(key, None)) is not None:
                before.cancel()
            self._timers[key] = self._kernel.later(seconds, lambda: self._due(key))

    def cancel(self, tenant: str, job: str) -> None:
        """A job ended: the kernel stops what runs of it; its timer goes."""
        if (timer := self._timers.pop((tenant, job), None)) is not None:
            timer.cancel()
        if (tenant, job) in self._active:
            self._go((tenant, job))

    def _due(self, key: tuple[str, str]) -> None:
        self._timers.pop(key, None)
        self._go(key)

    def _go(self, key: tuple[str, str]) -> None:
        """Advance a job, or once more after it is done when it is being advanced."""
        if key in self._active:
            self._active[key] = True
            self._tasks.start_soon(self._kernel.advance, *key)  # the kernel pokes the one that runs
        elif len(self._active) < self._most:
            self._active[key] = False
            self._tasks.start_soon(self._advance, key)
        else:
            self._waiting[key] = None

    async def _advance(self, key: tuple[str, str]) -> None:
        try:
            again = True
            while again:
                self._active[key] = False
                if (timer := self._timers.pop(key, None)) is not None:
                    timer.cancel()
                await self._kernel.advance(*key)
                again = self._active[key]
        finally:
            del self._active[key]
            while self._waiting and len(self._active) < self._most:
                following = next(iter(self._waiting))
                del self._waiting[following]
                self._go(following)

    async def _sweep_often(self) -> None:
        while True:
            await anyio.sleep(self._sweep)
            try:
                await (self._swept_own() if self._own_only else self._swept())
            except Exception as error:  # noqa: BLE001 - it is reported
                self._kernel.report("the engine's sweep", error)

    async def _swept(self) -> None:
        """Free the jobs of workers that are gone, and advance what is due."""
        store = self._kernel.store
        for worker in await store.select(SYSTEM, Worker, "all"):
            if worker.id != store.worker and not await store.alive(worker.id):
                await self._kernel.release(worker.id)
        for lease in await self._due_leases():
            self._go((lease.tenant, lease.job))
        mine = await store.select(SYSTEM, Lease, "due", {"worker": store.worker}, limit=10_000)
        for lease in mine:
            if (lease.tenant, lease.job) not in self._active:
                self._go((lease.tenant, lease.job))

    async def _swept_own(self) -> None:
        """Advance what is due of the jobs that were started here, and forget those that ended."""
        for tenant, job in tuple(self._own):
            lease = await self._kernel.store.get(SYSTEM, Lease, tenant, job)
            if lease is None:
                self._own.discard((tenant, job))
            elif (tenant, job) not in self._active:
                self._go((tenant, job))

    async def _due_leases(self) -> list[Lease]:
        store, now, found = self._kernel.store, self._kernel.clock.now(), list[Lease]()
        after: tuple[int, str, str] | None = None
        while True:
            page = await store.select(SYSTEM, Lease, "due", {"worker": ""}, after=after, limit=200)
            found += [lease for lease in page if lease.at <= now]
            if len(page) < 200 or page[-1].at > now:
                return found
            after = (page[-1].at, page[-1].tenant, page[-1].job)


class LocalEnginePlugin:
    """Registers the engine `local`."""

    spec = "1.0"

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """Settings.

        Parameters:
            sweep: seconds between two looks at what is due.
            jobs: how many jobs are advanced at once; others wait for a place.
        """

        sweep: Annotated[float, msgspec.Meta(gt=0)] = 5.0
        jobs: Annotated[int, msgspec.Meta(ge=1)] = 1000

    def __init__(self, config: Config) -> None:
        self._engine = LocalEngine(config.sweep, config.jobs)

    @hookimpl
    def register_engines(self) -> list[Engine]:
        """The engine `local`."""
        return [self._engine]
