"""Timers and sweeps: what is due happens in time, and nothing stays behind."""

import time

import anyio
import pytest
from job_kit import SlowToTell, UnavailableOnce, decide, ended, on_disk, open_waits, ran, resting, start, starts_a_job
from kernel_kit import agents_plugin

from transom_hookspecs import TextEnded, function, tool

pytestmark = pytest.mark.anyio

NEVER = 60.0
"""A sweep that comes too late to help: what happens, timers did."""


async def test_a_short_sleep_ends_in_time_beside_a_longer_one_and_a_call_that_runs(kernel) -> None:
    slept: list[float] = []

    async def busy() -> str:
        await anyio.sleep(0.8)
        return "done"

    async def sleeper(ctx, input):
        began = time.monotonic()

        async def short(branch):
            await branch.sleep(0.1)
            slept.append(time.monotonic() - began)

        await ctx.together(short, lambda branch: branch.sleep(0.6), lambda branch: branch.call("t.busy"))
        return "awake"

    tools = (tool("t", function(busy, idempotent=True)),)
    async with kernel(**on_disk(agents_plugin(sleeper, tools=tools), sweep=NEVER)) as k:
        await ran(k, "sleeper")
    assert slept[0] < 0.4


async def raise_in_a_timer(k) -> None:
    """Let a plugin's timer raise."""

    def bug() -> None:
        raise ZeroDivisionError

    k.later(0, bug)
    await anyio.sleep(0.05)


@pytest.mark.req("KERN-4")
async def test_a_plugins_timer_that_raises_does_not_keep_jobs_asleep(kernel) -> None:
    async def sleeper(ctx, input):
        await ctx.sleep(0.05)
        return "awake"

    async with kernel(**on_disk(agents_plugin(sleeper), sweep=NEVER)) as k:
        await raise_in_a_timer(k)
        await start(k, "sleeper")
        assert (await ended(k, seconds=3)).output == "awake"


@pytest.mark.req("KERN-4")
async def test_a_plugins_timer_that_raises_does_not_keep_words_from_the_log(kernel, events) -> None:
    async def speaker(ctx, input):
        await ctx.say("hello")
        await anyio.sleep(10)

    async with kernel(**on_disk(agents_plugin(speaker), sweep=NEVER)) as k:
        await raise_in_a_timer(k)
        await start(k, "speaker")
        with anyio.fail_after(3):
            log = await events(k, "job", until="text.ended")
    assert log.of(TextEnded)[0].text == "hello"


async def test_a_job_that_ended_leaves_no_timer_behind(kernel) -> None:
    """Each would hold its job's name in memory until the deadline of a question that was answered long ago."""

    async def asker(ctx, input):
        return await ctx.ask("q?", timeout=3600)

    async with kernel(**on_disk(agents_plugin(asker))) as k:
        for job in ("one", "two"):
            await start(k, "asker", job)
            (question,) = await open_waits(k, job)
            await resting(k, job)
            assert k.engine._timers, "a question with a deadline has a timer"
            await decide(k, question, answer="x")
            await ended(k, job)
        assert not k.engine._timers


async def test_an_embedded_kernels_job_goes_on_after_its_store_was_unavailable_once(kernel) -> None:
    """It sweeps what it started, though nothing else."""
    go = anyio.Event()

    async def sleeper(ctx, input):
        await go.wait()
        await ctx.sleep(0.05)
        return "awake"

    store = UnavailableOnce()
    async with kernel(**on_disk(agents_plugin(sleeper), store=store, own_only=True, sweep=0.1)) as k:
        await start(k, "sleeper")
        store.refuses = lambda what: True
        go.set()
        assert (await ended(k, seconds=5)).output == "awake"
    assert store.refuses is None, "the store was never unavailable"


async def test_a_sweep_leaves_a_job_alone_whose_start_is_committed_and_not_told_of_yet(kernel) -> None:
    """The start hands over the job that it claimed; a sweep that claims it first makes it run twice."""
    lives = []

    async def hello(ctx, input):
        lives.append(1)
        await anyio.sleep(0.2)  # is still at it when the start hands over
        return await ctx.say("hello")

    async with kernel(**on_disk(agents_plugin(hello), store=SlowToTell(starts_a_job), sweep=0.02)) as k:
        assert (await ran(k, "hello")).output == "hello"
    assert len(lives) == 1
