"""What every engine must do: subclass `EngineContract` in a test module, and give it a fixture `plugin`.

class TestMyEngine(EngineContract):
    @pytest.fixture
    def plugin(self) -> type:
        return MyEnginePlugin

    @pytest.fixture
    def config(self) -> dict[str, object]:
        return {"my": {"sweep": 0.1}}
"""

# ruff: noqa: D102 - a test's name says what it is about

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.lowlevel
import pytest

from transom_hookspecs import (
    SYSTEM,
    Agent,
    Caller,
    CancelJob,
    Context,
    DecideApproval,
    GetJob,
    JobView,
    Json,
    Lease,
    ListApprovals,
    Origin,
    Record,
    StartJob,
    Store,
    StoreUnavailable,
    Tool,
    Tx,
    function,
    hookimpl,
    tool,
)

from .memory_store import MemoryStore

if TYPE_CHECKING:
    from transom.core import Core

    from .fixtures import KernelFactory

T = TypeVar("T")

_ME = Origin(tenant="default", caller=Caller(kind="operator", id="contract"), door="contract")
_PATIENCE = 10.0
"""Seconds after which something that should have happened did not."""


class MortalStore(MemoryStore):
    """A memory store whose process can die: from then on nothing is written, until it is opened again."""

    dead = False

    @asynccontextmanager
    async def open(self, records: Sequence[Record]) -> AsyncIterator[None]:
        """Open it, in a new process."""
        self.dead = False
        async with super().open(records):
            yield

    async def transact(self, tenant: str, fn: Callable[[Tx], T], *, relaxed: bool = False) -> T:
        """Run a transaction, while the process lives."""
        if self.dead:
            raise StoreUnavailable("the process is dead")
        return await super().transact(tenant, fn, relaxed=relaxed)


class Work:
    """The contract's agents and their one function, and what they did.

    `echo` answers its input, `asks` asks a person, `naps` sleeps its input's seconds, `works` calls a function that
    ends when `allowed` is set. `inside` counts how many lives of `works` there are now, `most` how many there were.
    """

    def __init__(self) -> None:
        self.begun, self.stopped, self.allowed = anyio.Event(), anyio.Event(), anyio.Event()
        self.calls = self.inside = self.most = 0

    async def work(self) -> str:
        """Wait until it is allowed to end."""
        self.calls += 1
        self.begun.set()
        try:
            await self.allowed.wait()
        finally:
            self.stopped.set()
        return "done"

    async def echo(self, ctx: Context, input: Json) -> Json:
        """Answer the input."""
        return input

    async def asks(self, ctx: Context, input: Json) -> Json:
        """Ask a person."""
        return await ctx.ask("Well?")

    async def naps(self, ctx: Context, input: Json) -> Json:
        """Sleep."""
        assert isinstance(input, float)
        await ctx.sleep(input)
        return "slept"

    async def works(self, ctx: Context, input: Json) -> Json:
        """Call the function."""
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            return await ctx.call("contract.work")
        finally:
            self.inside -= 1

    def plugin(self, store: Store) -> type:
        """A plugin class with all of it, and the store that the kernel is to use."""
        work = self

        class ContractPlugin:
            """What the contract brings."""

            name = "contract"
            spec = "1.0"

            def __init__(self, config: object) -> None:
                """Take no settings."""

            @hookimpl
            def register_agents(self) -> list[Agent]:
                """The agents."""
                return [Agent(name=run.__name__, run=run) for run in (work.echo, work.asks, work.naps, work.works)]

            @hookimpl
            def register_tools(self) -> list[Tool]:
                """The function; it may be called again after a crash."""
                return [tool("contract", function(work.work, idempotent=True, open_world=False))]

            @hookimpl
            def register_stores(self) -> list[Store]:
                """The store."""
                return [store]

        return ContractPlugin


async def _start(core: "Core", agent: str, input: Json = None) -> str:
    job: str = (await core.call("StartJob", StartJob(agent=agent, input=input), _ME)).job.id
    return job


async def _until(core: "Core", job: str, status: str) -> JobView:
    """The job, once it has this status."""
    with anyio.fail_after(_PATIENCE):
        while True:
            view: JobView = await core.call("GetJob", GetJob(id=job), _ME)
            if view.status == status:
                return view
            await anyio.sleep(0.005)


class EngineContract:
    """An engine advances each job after it was started or woken, one life of it at a time, and finds what a crash left.

    It is driven by a real kernel on a store in memory. Let `config` make its sweep frequent (every 0.1 s).
    """

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        """The event loop that engines run on."""
        return "asyncio"

    @pytest.fixture
    def plugin(self) -> type | str:
        """The plugin's class, or its name when it is installed: subclasses give their own."""
        raise NotImplementedError

    @pytest.fixture
    def config(self) -> dict[str, Any]:
        """Settings of the kernel, and plugins' tables by name."""
        return {}

    @pytest.fixture
    def work(self) -> Work:
        """What the contract's agents do."""
        return Work()

    @pytest.fixture
    def store(self) -> MortalStore:
        """The store of the kernels."""
        return MortalStore()

    @pytest.fixture
    def opened(
        self, kernel: "KernelFactory", plugin: type | str, config: dict[str, Any], work: Work, store: MortalStore
    ) -> "KernelFactory":
        """A factory of kernels with the engine; one after the other on the same store is a restart."""
        plugins = [plugin, work.plugin(store)]
        return lambda **options: kernel(plugins=plugins, jobs=False, config=config, **options)

    async def test_a_started_job_is_advanced(self, opened: "KernelFactory") -> None:
        async with opened() as core:
            view = await _until(core, await _start(core, "echo", "hi"), "completed")
            assert view.output == "hi"

    async def test_many_jobs_at_once_are_all_advanced(self, opened: "KernelFactory") -> None:
        async with opened() as core:
            jobs = [await _start(core, "echo", number) for number in range(100)]
            assert [(await _until(core, job, "completed")).output for job in jobs] == list(range(100))

    async def test_a_decided_job_goes_on(self, opened: "KernelFactory") -> None:
        async with opened() as core:
            job = await _start(core, "asks")
            await _until(core, job, "waiting")
            await self._answer(core)
            assert (await _until(core, job, "completed")).output == "yes"

    async def test_a_job_goes_on_when_its_time_has_come_and_not_before(self, opened: "KernelFactory") -> None:
        async with opened() as core:
            begun = time.monotonic()
            await _until(core, await _start(core, "naps", 0.3), "completed")
            assert 0.3 <= time.monotonic() - begun < 3

    async def test_a_job_has_one_life_at_a_time_however_often_it_is_woken(self, opened: "KernelFactory", work: Work) -> None:
        async with opened() as core:
            job = await _start(core, "works")
            await work.begun.wait()
            for _ in range(20):
                core.engine.wake("default", job)
                core.engine.launch("default", job)
                await anyio.lowlevel.checkpoint()
            await anyio.sleep(0.05)
            work.allowed.set()
            await _until(core, job, "completed")
            assert (work.most, work.calls) == (1, 1)

    async def test_a_wake_while_an_advance_ends_is_not_lost(
        self, opened: "KernelFactory", monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from transom.core import Core

        advance, resting, goes_on = Core.advance, anyio.Event(), anyio.Event()

        async def slow(core: Core, tenant: str, job: str) -> None:
            """The job rests already when this returns, and may have been woken again."""
            await advance(core, tenant, job)
            resting.set()
            await goes_on.wait()

        monkeypatch.setattr(Core, "advance", slow)
        async with opened() as core:
            job = await _start(core, "asks")
            await resting.wait()
            await self._answer(core)
            goes_on.set()
            await _until(core, job, "completed")

    async def test_a_cancelled_job_is_stopped(self, opened: "KernelFactory", work: Work) -> None:
        async with opened() as core:
            job = await _start(core, "works")
            await work.begun.wait()
            await core.call("CancelJob", CancelJob(id=job), _ME)
            with anyio.fail_after(_PATIENCE):
                await work.stopped.wait()
            await _until(core, job, "cancelled")

    async def test_what_is_due_is_found_without_a_hint(self, opened: "KernelFactory", store: MortalStore) -> None:
        async with opened() as core:
            job = await _start(core, "naps", 3600.0)
            await _until(core, job, "waiting")
            claims = await self._claims(store, job)

            def make_due(tx: Tx) -> None:
                lease = tx.get(Lease, "default", job)
                assert lease is not None
                tx.update(lease, at=tx.now)

            await store.transact(SYSTEM, make_due)
            with anyio.fail_after(_PATIENCE):
                while await self._claims(store, job) == claims:  # noqa: ASYNC110 - only the store tells
                    await anyio.sleep(0.01)

    async def test_what_a_crash_left_goes_on_at_the_next_start(
        self, opened: "KernelFactory", store: MortalStore, work: Work
    ) -> None:
        async with opened() as core:
            job = await _start(core, "works")
            await work.begun.wait()
            store.dead = True
        work.allowed.set()
        async with opened() as core:
            assert (await _until(core, job, "completed")).output == "done"
        assert work.calls == 2

    async def test_own_only_leaves_the_jobs_of_others_alone(
        self, opened: "KernelFactory", store: MortalStore, work: Work
    ) -> None:
        async with opened() as core:
            job = await _start(core, "works")
            await work.begun.wait()
            store.dead = True
        work.allowed.set()
        async with opened(own_only=True) as core:
            await _until(core, await _start(core, "echo", "mine"), "completed")
            await anyio.sleep(0.3)
            assert work.calls == 1
        async with opened() as core:
            await _until(core, job, "completed")

    async def _answer(self, core: "Core") -> None:
        (wait,) = (await core.call("ListApprovals", ListApprovals(), _ME)).waits
        await core.call("DecideApproval", DecideApproval(wait=wait.id, answer="yes"), _ME)

    async def _claims(self, store: MortalStore, job: str) -> int:
        lease = await store.get(SYSTEM, Lease, "default", job)
        assert lease is not None
        return lease.epoch
