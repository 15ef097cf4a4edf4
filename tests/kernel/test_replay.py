"""A job that crashed goes on from its journal: nothing recorded is done twice, nothing is decided twice."""

from collections import Counter

import anyio
import pytest
from kernel_kit import OPERATOR, CrashingStore, agents_plugin, crashing_plugin

from transom_hookspecs import (
    CancelJob,
    Context,
    GetJob,
    JobEnded,
    Nondeterminism,
    StartJob,
    ToolCall,
    TransomError,
    function,
    tool,
)

pytestmark = pytest.mark.anyio


class Process:
    """A kernel on a data folder that 'crashes' after some transactions, again and again, until the job has ended."""

    def __init__(self, kernel, data, *plugins: type) -> None:
        self.kernel, self.data, self.plugins = kernel, data, plugins

    async def run(self, crash_after: int | None, start: StartJob | None = None):
        """Live until the job ends or the crash; returns the job, or None after a crash."""
        store = CrashingStore()
        store.left = None
        config = {"store": "sqlite", "local_engine": {"sweep": 0.05}}
        plugins = ["local_engine", crashing_plugin(store), *self.plugins]
        async with self.kernel(plugins=plugins, config=config, jobs=False, data=str(self.data)) as k:
            store.left = crash_after
            try:
                if start is not None:
                    await k.call("StartJob", start, OPERATOR)
                with anyio.fail_after(20):
                    while True:
                        job = await k.call("GetJob", GetJob(id="job"), OPERATOR)
                        if job.closed_at:
                            return job
                        if store.left == 0:
                            return None
                        await anyio.sleep(0.005)
            except TransomError as error:
                if error.code != "unavailable":
                    raise
                return None


async def crash_everywhere(kernel, folder, plugin: type, start: StartJob):
    """Run a job once for each number of transactions before its first crash; yields each finished job."""
    for crash_after in range(1, 200):
        process = Process(kernel, folder / str(crash_after), plugin)
        job = await process.run(crash_after, start)
        untouched = job is not None
        while job is None:
            job = await process.run(None)
        yield job
        if untouched:
            return
    raise AssertionError("the job makes more transactions than expected")


@pytest.mark.req("RT-36")
async def test_two_branches_crashed_at_every_point_replay_without_a_false_mismatch(kernel, tmp_path) -> None:
    ran: Counter[str] = Counter()

    async def note(name: str) -> str:
        ran[name] += 1
        await anyio.sleep(0)
        return name.upper()

    async def branchy(ctx: Context, input):
        async def left(branch: Context):
            one = await branch.call("t.note", {"name": "left-1"})
            await branch.sleep(0.01)
            return [one, await branch.call("t.note", {"name": "left-2"})]

        async def right(branch: Context):
            return [await branch.call("t.note", {"name": f"right-{i}"}) for i in range(3)]

        both = await ctx.together(left, right)
        return [*both, await ctx.call("t.note", {"name": "last"})]

    plugin = agents_plugin(branchy, tools=(tool("t", function(note, idempotent=True)),))
    expected = [["LEFT-1", "LEFT-2"], ["RIGHT-0", "RIGHT-1", "RIGHT-2"], "LAST"]
    crashes = 0
    async for job in crash_everywhere(kernel, tmp_path, plugin, StartJob(agent="branchy", id="job")):
        assert (job.status, job.output) == ("completed", expected), job.error
        crashes += 1
    assert crashes > 8, "the job was crashed at too few points to prove anything"


@pytest.mark.req("RT-36")
async def test_a_call_that_may_not_be_repeated_waits_for_a_person_after_a_crash(kernel, tmp_path, events) -> None:
    """In flight at the crash: once. `again` runs it again, `done` takes the person's word, `fail` ends the job."""
    ran: list[int] = []

    async def send() -> str:
        ran.append(1)
        if len(ran) == 1:
            await anyio.sleep_forever()
        return "sent"

    async def sender(ctx: Context, input):
        return await ctx.call("t.send")

    plugin = agents_plugin(sender, tools=(tool("t", function(send)),))
    for answer, status, output, runs in (
        ("again", "completed", "sent", 2),
        ({"answer": "done", "result": "by hand"}, "completed", "by hand", 1),
        ("fail", "failed", None, 1),
    ):
        ran.clear()
        data = tmp_path / str(answer)[:20].strip("{':")
        store = CrashingStore()
        plugins = ["local_engine", crashing_plugin(store), plugin]
        async with kernel(plugins=plugins, jobs=False, data=str(data), config={"store": "sqlite"}) as k:
            await k.call("StartJob", StartJob(agent="sender", id="job"), OPERATOR)
            with anyio.fail_after(5):
                while not ran:
                    await anyio.sleep(0.005)
            store.left = 0
            k.running[("default", "job")].stop()
        plugins = ["local_engine", crashing_plugin(CrashingStore()), plugin]
        async with kernel(plugins=plugins, jobs=False, data=str(data), config={"store": "sqlite"}) as k:
            log = await events(k, "job", until="tree.waiting")
            opened = [e.event for e in log.entries if e.event.__struct_config__.tag == "wait.opened"]
            assert [w.kind for w in opened] == ["restart"]
            assert len(ran) == 1, "it was repeated without asking"
            from transom_hookspecs import DecideApproval

            await k.call("DecideApproval", DecideApproval(wait=opened[0].wait, answer=answer), OPERATOR)
            (ended,) = (await events(k, "job")).of(JobEnded)
            assert (ended.status, ended.output) == (status, output)
            assert len(ran) == runs


async def test_an_agent_that_changed_between_crash_and_replay_fails_with_a_clear_error(kernel, tmp_path, events) -> None:
    async def first_life(ctx: Context, input):
        await ctx.now()
        await ctx.sleep(1)
        return "never"

    async def second_life(ctx: Context, input):
        await ctx.random()
        return "wrong"

    from transom_hookspecs import Agent

    def plugin(run):
        return agents_plugin(Agent(name="fickle", run=run, version="1"))

    store = CrashingStore()
    plugins = ["local_engine", crashing_plugin(store)]
    async with kernel(plugins=[*plugins, plugin(first_life)], jobs=False, data=str(tmp_path), config={"store": "sqlite"}) as k:
        await k.call("StartJob", StartJob(agent="fickle", id="job"), OPERATOR)
        await events(k, "job", until="job.started")
        with anyio.fail_after(5):
            while not k.store or (await k.call("GetJob", GetJob(id="job"), OPERATOR)).status != "waiting":
                await anyio.sleep(0.005)
        store.left = 0
    plugins = ["local_engine", crashing_plugin(CrashingStore())]
    async with kernel(plugins=[*plugins, plugin(second_life)], jobs=False, data=str(tmp_path), config={"store": "sqlite"}) as k:
        (ended,) = (await events(k, "job")).of(JobEnded)
    assert ended.status == "failed"
    assert ended.error.details["reason"] == "nondeterminism"
    assert "step 1 was now '' and is random ''" in ended.error.message


async def test_a_job_whose_version_is_not_installed_waits_and_says_which(kernel, tmp_path, events) -> None:
    from transom_hookspecs import Agent, DecideApproval, WaitOpened

    async def old(ctx: Context, input):
        await ctx.sleep(0.05)
        return "old"

    data = str(tmp_path)
    async with kernel(
        plugins=["sqlite", "local_engine", agents_plugin(Agent(name="v", run=old, version="1"))], jobs=False, data=data
    ) as k:
        await k.call("StartJob", StartJob(agent="v", id="job"), OPERATOR)
    newer = agents_plugin(Agent(name="v", run=old, version="2"))
    async with kernel(plugins=["sqlite", "local_engine", newer], jobs=False, data=data) as k:
        log = await events(k, "job", until="tree.waiting")
        (opened,) = log.of(WaitOpened)
        assert "version:1" in opened.message
    same = agents_plugin(Agent(name="v", run=old, version="1"))
    async with kernel(plugins=["sqlite", "local_engine", same], jobs=False, data=data) as k:
        await k.call("DecideApproval", DecideApproval(wait=opened.wait, answer="again"), OPERATOR)
        assert (await events(k, "job")).of(JobEnded)[0].output == "old"


async def test_a_second_call_on_a_context_whose_first_is_open_is_refused_in_the_first_life(kernel, events) -> None:
    async def slow() -> None:
        await anyio.sleep(10)

    async def careless(ctx: Context, input):
        async with anyio.create_task_group() as group:
            group.start_soon(ctx.call, "t.slow")
            await anyio.sleep(0.01)
            await ctx.now()

    async with kernel(plugins=[agents_plugin(careless, tools=(tool("t", function(slow)),))]) as k:
        await k.call("StartJob", StartJob(agent="careless", id="job"), OPERATOR)
        (ended,) = (await events(k, "job")).of(JobEnded)
    assert ended.status == "failed"
    assert ended.error.details["reason"] == "concurrent_use"


async def test_first_records_its_winner_and_cancels_what_the_others_wait_for(kernel, events) -> None:
    async def racer(ctx: Context, input):
        async def slow(branch: Context):
            return await branch.delegate("sleeper")

        async def quick(branch: Context):
            await branch.sleep(0.02)
            return "quick"

        index, result = await ctx.first(slow, quick)
        await ctx.sleep(0.02)
        return [index, result]

    async def sleeper(ctx: Context, input):
        await ctx.sleep(60)

    async with kernel(plugins=[agents_plugin(racer, sleeper)]) as k:
        await k.call("StartJob", StartJob(agent="racer", id="job"), OPERATOR)
        log = await events(k, "job")
        assert log.of(JobEnded)[-1].output == [1, "quick"]
        assert log.of(JobEnded)[0].status == "cancelled", "the loser's child went on"


async def test_parallel_calls_run_at_once_and_keep_the_models_order(kernel, events) -> None:
    both = anyio.Event()
    waiting: list[int] = []

    async def meet(n: int) -> int:
        waiting.append(n)
        if len(waiting) == 2:
            both.set()
        await both.wait()
        return n

    async def caller(ctx: Context, input):
        calls = [ToolCall(id=f"c{n}", function="t.meet", arguments={"n": n}) for n in (1, 2)]
        return [r.content for r in await ctx.tools(calls)]

    async with kernel(plugins=[agents_plugin(caller, tools=(tool("t", function(meet)),))]) as k:
        await k.call("StartJob", StartJob(agent="caller", id="job"), OPERATOR)
        with anyio.fail_after(5):
            assert (await events(k, "job")).of(JobEnded)[0].output == [1, 2]


async def test_cancel_ends_the_job_and_its_children_in_one_transaction(kernel, events) -> None:
    async def parent(ctx: Context, input):
        return await ctx.together(*[lambda b: b.delegate("child") for _ in range(3)])

    async def child(ctx: Context, input):
        await ctx.sleep(60)

    async with kernel(plugins=[agents_plugin(parent, child)]) as k:
        await k.call("StartJob", StartJob(agent="parent", id="job"), OPERATOR)
        with anyio.fail_after(5):
            while len((await k.call("GetJob", GetJob(id="job"), OPERATOR)).children) < 3:
                await anyio.sleep(0.005)
        job = await k.call("CancelJob", CancelJob(id="job"), OPERATOR)
        assert job.status == "cancelled"
        for identity in job.children:
            assert (await k.call("GetJob", GetJob(id=identity), OPERATOR)).status == "cancelled"
        log = await events(k, "job")
        assert log.kinds[-4:] == ["job.ended"] * 4
        assert not k.running


__all__ = ["Nondeterminism"]
