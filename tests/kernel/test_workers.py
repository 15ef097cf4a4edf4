"""Which processes are known to advance jobs, and what becomes of what a dead one held."""

import anyio
import pytest
from job_kit import ended, start
from kernel_kit import agents_plugin

from transom_hookspecs import SYSTEM, Lease, Worker

pytestmark = pytest.mark.anyio


async def quick(ctx, input) -> str:
    return "done"


def options_of(agent) -> dict:
    """Of a kernel with a store object of its own, as another process has it."""
    settings = {"store": "sqlite", "local_engine": {"sweep": 60.0}}
    return {"plugins": ["local_engine", "sqlite", agents_plugin(agent)], "jobs": False, "config": settings}


OPTIONS = options_of(quick)


async def test_who_only_looks_is_no_worker_and_who_starts_a_job_is_one(kernel) -> None:
    async with kernel(**OPTIONS, own_only=True) as looker:
        assert not await looker.attended()
        async with kernel(**OPTIONS, own_only=True) as starter:
            assert not await looker.attended()
            await start(starter, "quick")
            await ended(starter)
            assert await looker.attended()
            assert not await starter.attended(), "oneself does not count"
        assert not await looker.attended()


async def test_who_serves_is_a_worker_from_the_start(kernel) -> None:
    async with kernel(**OPTIONS) as server, kernel(**OPTIONS, own_only=True) as looker:
        assert await looker.attended()
        assert not await server.attended()


async def test_the_same_start_goes_on_with_a_job_whose_worker_is_gone(kernel) -> None:
    never = anyio.Event()
    begun: list[str] = []

    async def slow(ctx, input) -> str:
        begun.append("slow")
        if len(begun) == 1:
            await never.wait()
        return "done"

    options = options_of(slow)
    async with kernel(**options, own_only=True) as first:
        await start(first, "slow")
        while not begun:
            await anyio.sleep(0.005)

        def die(tx) -> None:
            tx.put(Worker(id="dead", started_at=1))
            tx.update(tx.get(Lease, "default", "job"), worker="dead")

        await first.store.transact(SYSTEM, die)
        async with kernel(**options, own_only=True) as second:
            await start(second, "slow")
            view = await ended(second)
            assert (view.status, await second.store.get(SYSTEM, Worker, "dead")) == ("completed", None)
