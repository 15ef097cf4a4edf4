"""A job whose workers die again and again stops being tried, and waits for a person."""

from typing import Any

import anyio
import pytest
from job_kit import decide, ended, eventually, on_disk, open_waits, start
from kernel_kit import agents_plugin

from transom_hookspecs import SYSTEM, Lease, Step

pytestmark = pytest.mark.anyio


class Deadly:
    """An agent that hangs until it is let go on, and how often it began."""

    def __init__(self, most: int) -> None:
        self.began = 0
        self.safe = anyio.Event()

        async def deadly(ctx: Any, input: Any) -> str:
            self.began += 1
            await self.safe.wait()
            return "survived"

        self.options = on_disk(agents_plugin(deadly), sweep=60.0, config={"limits": {"deaths": most}})

    async def alive(self, times: int) -> None:
        async def found() -> bool:
            return self.began == times

        await eventually(found)

    async def dies(self, k: Any) -> None:
        """Leave the job as a worker does that is killed: what runs of it is gone, and the sweep of another frees it."""
        k.running["default", "job"].stop()

        async def gone() -> bool:
            return ("default", "job") not in k.running

        await eventually(gone)
        await k.store.transact(SYSTEM, lambda tx: tx.update(tx.get(Lease, "default", "job"), worker="dead"))
        await k.release("dead")
        k.engine.wake("default", "job")


@pytest.mark.req("RT-36")
async def test_after_so_many_deaths_in_a_row_a_job_waits_until_a_person_lets_it_go_on(kernel) -> None:
    job = Deadly(most=2)
    async with kernel(**job.options) as k:
        await start(k, "deadly")
        await job.alive(1)
        await job.dies(k)
        await job.alive(2)
        await job.dies(k)
        (wait,) = await open_waits(k)
        assert (wait.kind, job.began) == ("restart", 2)
        assert "2 workers in a row died with this job" in wait.message
        job.safe.set()
        await decide(k, wait, answer="again")
        assert (await ended(k)).output == "survived"


async def test_a_step_that_was_done_in_between_says_that_the_job_gets_on(kernel) -> None:
    job = Deadly(most=2)
    async with kernel(**job.options) as k:
        await start(k, "deadly")
        for life in range(1, 6):
            await job.alive(life)
            step = Step(job="job", key=f"99.{life}", kind="now", name="", state="done")
            await k.store.transact("default", lambda tx, step=step: tx.put(step))
            await job.dies(k)
        await job.alive(6)
        job.safe.set()
        assert (await ended(k)).output == "survived"


async def test_a_person_may_end_it_instead(kernel) -> None:
    job = Deadly(most=1)
    async with kernel(**job.options) as k:
        await start(k, "deadly")
        await job.alive(1)
        await job.dies(k)
        (wait,) = await open_waits(k)
        await decide(k, wait, answer="fail")
        assert (await ended(k)).status == "failed"
        assert job.began == 1
