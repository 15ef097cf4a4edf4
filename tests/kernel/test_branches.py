"""Branches that run at once: what is recorded of the winner, and what becomes of those that lose."""

import time

import anyio
import pytest
from job_kit import SlowToTell, decide, ended, eventually, on_disk, open_waits, ran, resting, start, starts_a_child
from kernel_kit import agents_plugin

from transom_hookspecs import CallEnded, CallStarted, Job, Rule, TransomError, Wait, WaitDecided, function, tool
from transom_sqlite import SqliteStore

pytestmark = pytest.mark.anyio


async def test_a_winner_goes_on_and_rests_beside_a_loser_that_waited_however_soon_commits_are_seen(kernel, eager_store) -> None:
    """The loser may be woken by its own commit before it knows that it waits; it must not be counted twice."""

    async def quick() -> str:
        await anyio.sleep(0.02)
        return "quick"

    async def racer(ctx, input):
        _, result = await ctx.first(lambda branch: branch.ask("well?"), lambda branch: branch.call("t.quick"))
        await ctx.ask("go on?")
        return result

    plugin = agents_plugin(racer, tools=(tool("t", function(quick, idempotent=True)),))
    async with kernel(**on_disk(plugin, store=eager_store)) as k:
        eager_store.eager = True
        await start(k, "racer")
        await resting(k)
        (question,) = await open_waits(k)
        assert question.message == "go on?"
        await decide(k, question, answer="yes")
        assert (await ended(k)).output == "quick"


async def test_what_the_winner_recorded_is_kept_though_the_loser_is_cancelled_while_it_writes_it(kernel) -> None:
    drawn: list[float] = []
    busy = anyio.Event()

    def somebody_elses_slow_write(tx) -> None:
        time.sleep(0.15)

    async def racer(ctx, input):
        async def winner(branch):
            number = await branch.random()  # recorded, and left to be written with what comes next
            await anyio.sleep(0.05)
            return number

        async def loser(branch):
            await anyio.sleep(0.001)
            await branch.sleep(50)  # takes the winner's record along, and has to wait for the store

        await busy.wait()
        drawn.append((await ctx.first(winner, loser))[1])
        await ctx.sleep(0.05)

    store = SqliteStore()
    async with kernel(**on_disk(agents_plugin(racer), store=store)) as k:
        await start(k, "racer")
        async with anyio.create_task_group() as others:
            others.start_soon(store.transact, "default", somebody_elses_slow_write)
            await anyio.sleep(0.01)
            busy.set()
            await ended(k)
    first_life, second_life = drawn
    assert second_life == first_life


def raising_beside_a_question() -> tuple[list[str], type]:
    """An agent with one branch that asks and one that raises; and what each of its lives saw."""
    lives: list[str] = []

    async def boom() -> str:
        raise TransomError("unavailable", "boom")

    async def racer(ctx, input):
        try:
            _, result = await ctx.first(lambda branch: branch.ask("well?"), lambda branch: branch.call("t.boom"))
        except TransomError as error:
            result = f"raised {error.message}"
        lives.append(result)
        await ctx.sleep(0.2)
        return result

    return lives, agents_plugin(racer, tools=(tool("t", function(boom, idempotent=True)),))


async def test_when_a_branch_raises_the_others_questions_are_closed(kernel, events) -> None:
    _, plugin = raising_beside_a_question()
    async with kernel(**on_disk(plugin)) as k:
        await ran(k, "racer")
        (closed,) = (await events(k, "job")).of(WaitDecided)
    assert (closed.outcome, closed.by) == ("cancelled", "system:first")


async def test_branches_of_which_one_raised_raise_the_same_on_every_replay(kernel) -> None:
    lives, plugin = raising_beside_a_question()
    async with kernel(**on_disk(plugin)) as k:
        await start(k, "racer")
        (question,) = await eventually(lambda: k.store.select("default", Wait, "job", {"job": "job"}))
        await resting(k)
        with pytest.raises(TransomError, match="already over"):  # taken, the answer would win on replay
            await decide(k, question, answer="yes")
        await ended(k)
    assert lives == ["raised boom", "raised boom"]


@pytest.mark.parametrize("hasty", [False, True], ids=["as it comes", "each commit is seen at once"])
async def test_a_branch_goes_no_further_once_another_raised_a_plain_error(kernel, events, eager_store, hasty) -> None:
    ran_in_the_loser = []

    async def effect() -> str:
        ran_in_the_loser.append(1)
        return "done"

    async def both(ctx, input):
        async def loser(branch):
            await branch.ask("may I?")
            return await branch.call("t.effect")

        async def raiser(branch):
            await branch.now()
            raise ValueError("boom")

        try:
            await ctx.together(loser, raiser)
        except TransomError as error:
            problem = error.message
        await ctx.sleep(0.05)
        return problem

    tools = (tool("t", function(effect, idempotent=True)),)
    async with kernel(**on_disk(agents_plugin(both, tools=tools), store=eager_store)) as k:
        eager_store.eager = hasty
        job = await ran(k, "both")
        log = await events(k, "job")
    assert job.output == "a branch raised ValueError: boom"
    assert not ran_in_the_loser
    assert "call" not in log.kinds


async def test_a_losers_child_is_cancelled_even_when_its_start_was_not_known_yet(kernel) -> None:
    async def child(ctx, input):
        await ctx.sleep(60)

    async def racer(ctx, input):
        async def winner(branch):
            await anyio.sleep(0.03)  # the child's start is committed by then, and not told of
            return "won"

        await ctx.first(lambda branch: branch.delegate("child"), winner)
        return await ctx.ask("go on?")  # the job's own end would cancel the child as well

    async with kernel(**on_disk(agents_plugin(racer, child), store=SlowToTell(starts_a_child))) as k:
        await start(k, "racer")
        await open_waits(k)
        (started,) = [job for job in await k.store.select("default", Job, "tree", {"tree": "job"}) if job.parent]
    assert started.status == "cancelled"


async def test_first_of_no_branches_is_an_error_and_no_endless_wait(kernel) -> None:
    async def racer(ctx, input):
        return await ctx.first()

    async with kernel(**on_disk(agents_plugin(racer))) as k:
        job = await ran(k, "racer")
    assert job.error.message == "ctx.first: give at least one branch"


async def test_the_call_of_a_branch_that_lost_is_ended_in_the_log(kernel, events) -> None:
    async def danger() -> str:
        return "never run"

    async def racer(ctx, input):
        async def winner(branch):
            await branch.sleep(0.05)
            return "won"

        return (await ctx.first(lambda branch: branch.call("t.danger"), winner))[1]

    async with kernel(**on_disk(agents_plugin(racer, tools=(tool("t", function(danger, approval=Rule())),)))) as k:
        await ran(k, "racer")
        log = await events(k, "job")
    (begun,) = log.of(CallStarted)
    (end,) = log.of(CallEnded)
    assert (end.call, end.error.details["reason"]) == (begun.call, "abandoned")
