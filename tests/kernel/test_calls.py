"""Calls of functions: only what was offered is made, and one that fails or hangs is nobody else's trouble."""

import time

import anyio
import pytest
from job_kit import on_disk, ran, start
from kernel_kit import agents_plugin

from transom_hookspecs import CallEnded, CallStarted, ToolCall, TransomError, function, tool

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("offered", "made"), [((), 0), (("t.look",), 0), (("t.wipe",), 1), (("t.*",), 1)], ids=str)
async def test_a_model_may_call_only_what_it_was_offered(kernel, fake_model, offered, made) -> None:
    wiped = []

    async def look() -> str:
        return "seen"

    async def wipe() -> str:
        wiped.append(1)
        return "wiped"

    async def caller(ctx, input):
        answer = await ctx.model("fake", [], functions=offered)
        (result,) = await ctx.tools(answer.calls, message=answer.message)
        return result.error.code if result.error else result.content

    fake_model.answers([ToolCall(id="c", function="t.wipe", arguments={})])
    async with kernel(**on_disk(agents_plugin(caller, tools=(tool("t", look, wipe),)), fake_model.plugin())) as k:
        job = await ran(k, "caller")
    assert job.output == ("wiped" if made else "permission_denied")
    assert len(wiped) == made


async def test_a_call_beyond_the_limit_of_calls_at_once_stands_in_the_log_with_its_refusal(kernel, events) -> None:
    async def look() -> str:
        return "seen"

    async def caller(ctx, input):
        calls = [ToolCall(id=f"c{i}", function="t.look", arguments={}) for i in range(3)]
        return [result.error.code if result.error else result.content for result in await ctx.tools(calls)]

    config = {"limits": {"parallel_calls": 2}}
    async with kernel(**on_disk(agents_plugin(caller, tools=(tool("t", look),)), config=config)) as k:
        job = await ran(k, "caller")
        log = await events(k, "job")
    assert job.output == ["seen", "seen", "resource_exhausted"]
    assert [event.call for event in log.of(CallStarted)] == ["c0", "c1", "c2"]
    refused = [event.call for event in log.of(CallEnded) if event.error]
    assert refused == ["c2"]


@pytest.mark.req("KERN-4")
async def test_a_function_that_raises_is_no_trouble_of_the_server(kernel) -> None:
    async def broken() -> str:
        raise ValueError("no such luck")

    async def caller(ctx, input):
        try:
            return await ctx.call("t.broken")
        except TransomError as error:
            return error.message

    async with kernel(**on_disk(agents_plugin(caller, tools=(tool("t", function(broken, idempotent=True)),)))) as k:
        job = await ran(k, "caller")
        health = k.health()
    assert job.output == "t.broken failed: ValueError: no such luck"
    assert health.ok, health.problems


@pytest.mark.req("KERN-4")
async def test_forty_plain_functions_that_hang_do_not_hold_up_another(kernel) -> None:
    """As many as there are threads by default."""
    released = []

    def hang() -> str:
        while not released:
            time.sleep(0.02)
        return "late"

    def quick() -> str:
        return "quick"

    async def hanging(ctx, input):
        return await ctx.call("t.hang")

    async def caller(ctx, input):
        return await ctx.call("t.quick")

    functions = (function(hang, idempotent=True, timeout=0.2), function(quick, idempotent=True, timeout=2))
    async with kernel(**on_disk(agents_plugin(hanging, caller, tools=(tool("t", *functions),)))) as k:
        try:
            for number in range(40):
                await start(k, "hanging", f"hanging-{number}")
            await anyio.sleep(0.5)  # all of them are past their timeout, and their threads hang still
            job = await ran(k, "caller")
        finally:
            released.append(1)
    assert job.output == "quick", job.error
