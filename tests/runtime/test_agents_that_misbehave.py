"""An agent may do what it likes: its own job pays for it, and nobody else's."""

import logging
import threading
import time

import anyio
import pytest

from transom_hookspecs import Agent, Context, function, tool

pytestmark = pytest.mark.anyio


async def fine(ctx: Context, input):
    return "fine"


class Odd:
    """Something that is no JSON."""


async def raises(ctx, input):
    raise ValueError("no such luck")


async def raises_a_group(ctx, input):
    raise ExceptionGroup("several", [ValueError("one"), KeyError("two")])


async def raises_badly(ctx, input):
    class Bad(Exception):
        def __str__(self):
            raise RuntimeError("not even that")

    raise Bad


async def exits(ctx, input):
    raise SystemExit(3)


async def cancels_itself(ctx, input):
    import asyncio

    raise asyncio.CancelledError


async def recurses(ctx, input):
    return await recurses(ctx, input)


async def answers_an_object(ctx, input):
    return Odd()


async def answers_a_set_of_objects(ctx, input):
    return [{"a": Odd()}]


async def answers_a_loop(ctx, input):
    loop: list = []
    loop.append(loop)
    return loop


async def answers_half_a_pair(ctx, input):
    return "\ud800"


async def answers_no_number(ctx, input):
    return float("nan")


async def answers_far_too_much(ctx, input):
    return "x" * 20_000_000


async def answers_a_coroutine(ctx, input):
    return fine(ctx, input)


@pytest.mark.req("KERN-4")
@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (raises, "ValueError: no such luck"),
        (raises_a_group, "ExceptionGroup: several"),
        (raises_badly, "Bad"),  # fails: its text raises, the job is advanced for ever
        (exits, "SystemExit"),  # fails: ends the whole process
        (cancels_itself, "Cancel"),  # fails: cancels the engine of all jobs, and health stays good
        (recurses, "Recursion"),
        (answers_an_object, "JSON"),
        (answers_a_set_of_objects, "JSON"),
        (answers_a_loop, "JSON"),
        (answers_half_a_pair, "JSON"),
        (answers_a_coroutine, ""),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
async def test_an_agent_that_fails_fails_its_job_by_name_and_nothing_else(house, agent, words) -> None:
    async with house(agent, fine) as home:
        job = await home.ran(agent.__name__, conversation="c1")
        assert job["status"] == "failed", job
        assert agent.__name__ in job["error"]["message"]
        assert words in job["error"]["message"]
        assert "output" not in job
        assert (await home.events(job["id"]))[-1][1]["status"] == "failed"
        assert (await home.ran("fine", conversation="c1"))["output"] == "fine", "the conversation goes on"
        assert (await home.get("/healthz")).status_code == 200


@pytest.mark.parametrize("agent", [answers_no_number, answers_far_too_much], ids=lambda a: a.__name__)
async def test_an_odd_answer_ends_the_job_one_way_or_the_other_and_can_be_read(house, agent) -> None:
    async with house(agent, fine) as home:
        job = await home.ran(agent.__name__)
        assert job["status"] in ("completed", "failed")
        assert (await home.events(job["id"]))[-1][1]["type"] == "job.ended"
        assert (await home.ran("fine"))["output"] == "fine"


@pytest.mark.req("KERN-4")
@pytest.mark.parametrize(
    ("answer", "where"),
    [({"title": 1}, "title"), ({}, "title"), ("text", "object"), (None, "object")],
    ids=["type", "missing", "text", "null"],
)
async def test_an_answer_that_misses_the_output_schema_fails_the_job(house, answer, where) -> None:
    async def gives(ctx: Context, input):
        return answer

    schema = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
    async with house(Agent(name="gives", run=gives, output_schema=schema)) as home:
        job = await home.ran("gives")
        assert (job["status"], job["error"]["code"]) == ("failed", "failed_precondition")
        assert "output schema" in job["error"]["message"]
        assert where in job["error"]["message"]
        assert "output" not in job


async def test_a_plain_function_is_an_agent_and_runs_in_a_thread(house) -> None:
    names = []

    def plain(ctx: Context, input):
        names.append(threading.current_thread())
        time.sleep(0.3)
        return {"got": input}

    async with house(Agent(name="plain", run=plain), fine) as home:
        job = await home.started("plain", [1])
        begun = time.monotonic()
        assert (await home.ran("fine"))["output"] == "fine"
        assert time.monotonic() - begun < 0.3, "the plain function held the loop"
        assert (await home.until(job))["output"] == {"got": [1]}
        assert names[0] is not threading.main_thread()


@pytest.mark.req("RT-16")
@pytest.mark.parametrize("how", ["sleeps", "spins", "waits for a person", "catches everything"])
async def test_an_agent_that_never_ends_is_timed_out(house, how) -> None:
    async def endless(ctx: Context, input):
        if how == "waits for a person":
            await ctx.ask("Well?")
        while True:
            if how == "catches everything":
                try:
                    await ctx.sleep(100)
                except Exception:
                    continue
            await (anyio.sleep(100) if how == "sleeps" else anyio.sleep(0))

    async with house(endless, fine) as home:
        job = await home.started("endless", timeout="0.3s")
        begun = time.monotonic()
        ended = await home.until(job)
        assert time.monotonic() - begun < 5
        assert (ended["status"], ended["error"]["code"]) == ("timed_out", "deadline_exceeded")
        assert (await home.get("/v1/approvals", "ada")).json()["approvals"] == []
        assert (await home.ran("fine"))["output"] == "fine"


@pytest.mark.req("RT-16")
async def test_a_plain_function_that_never_ends_is_timed_out(house) -> None:
    free = threading.Event()

    def endless(ctx: Context, input):
        free.wait(20)

    async with house(Agent(name="endless", run=endless), fine) as home:
        try:
            job = await home.started("endless", timeout="0.3s")
            assert (await home.until(job))["status"] == "timed_out"
            assert (await home.ran("fine"))["output"] == "fine"
        finally:
            free.set()


@pytest.mark.req("RT-16")
async def test_an_agents_own_limit_holds_below_the_starts_timeout(house) -> None:
    async def endless(ctx: Context, input):
        await ctx.sleep(1000)

    async with house(Agent(name="endless", run=endless, timeout=0.3)) as home:
        assert (await home.ran("endless", timeout="900s"))["status"] == "timed_out"


async def test_an_agent_that_blocks_the_loop_is_named_by_the_watchdog_and_health_is_bad(house, caplog) -> None:
    async def blocks(ctx: Context, input):
        blocking_line()

    def blocking_line():
        until = time.monotonic() + 1.8
        while time.monotonic() < until:
            pass

    async with house(blocks) as home:
        assert (await home.get("/healthz")).status_code == 200
        with caplog.at_level(logging.ERROR, "transom.watchdog"):
            job = await home.ran("blocks")
        assert job["status"] == "completed"
        assert "blocking_line" in caplog.text
        health = await home.get("/healthz")
        assert health.status_code == 503
        assert any("blocked the event loop" in problem for problem in health.json()["problems"])


async def test_a_context_used_twice_at_once_is_refused(house) -> None:
    async def nap() -> None:
        await anyio.sleep(5)

    async def careless(ctx: Context, input):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ctx.call, "t.nap")
            tasks.start_soon(ctx.call, "t.nap")

    async with house(careless, tools=(tool("t", function(nap)),)) as home:
        job = await home.ran("careless")
        assert (job["status"], job["error"]["details"]["reason"]) == ("failed", "concurrent_use")
        assert "ctx.together" in job["error"]["message"]


@pytest.mark.req("KERN-4")
async def test_a_function_that_raises_is_told_to_the_agent_and_contained(house) -> None:
    def bad() -> str:
        raise ZeroDivisionError("secret inside")

    async def careful(ctx: Context, input):
        from transom_hookspecs import ToolCall

        (result,) = await ctx.tools([ToolCall(id="c", function="t.bad", arguments={})])
        return [result.error.code, result.error.message]

    async with house(careful, tools=(tool("t", function(bad)),)) as home:
        job = await home.ran("careful")
        assert job["status"] == "completed"
        assert "t.bad" in job["output"][1]


async def test_a_step_too_many_ends_the_job(house) -> None:
    async def busy(ctx: Context, input):
        while True:
            await ctx.now()

    async with house(busy, config={"limits": {"steps": 20}}) as home:
        job = await home.ran("busy")
        assert (job["status"], job["error"]["code"]) == ("failed", "resource_exhausted")
        assert "20" in job["error"]["message"]


async def test_a_clear_failure_of_an_agent_is_told_as_it_stands(house) -> None:
    async with house() as home:
        job = await home.ran("crasher")
        assert (job["status"], job["error"]["code"]) == ("failed", "failed_precondition")
        assert job["error"]["message"] == "the demo's crasher always fails"
