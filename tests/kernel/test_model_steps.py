"""Model steps: each text is heard once, each cut is told once, and each call has an ID of its own."""

import anyio
import pytest
from job_kit import ended, eventually, model_plugin, on_disk, ran, start
from kernel_kit import CrashingStore, agents_plugin

from transom_hookspecs import Item, ModelEnd, TextCut, TextDelta, TextEnded, ToolCall, TransomError, tool

pytestmark = pytest.mark.anyio


async def test_an_answer_that_its_model_said_is_not_said_again_after_a_rest(kernel, fake_model, events) -> None:
    async def speaker(ctx, input):
        answer = await ctx.model("fake", [])
        await ctx.sleep(0.05)  # the answer is given in another life than the one that heard it
        return answer.text

    fake_model.answers("Hello there")
    async with kernel(**on_disk(agents_plugin(speaker), fake_model.plugin())) as k:
        await ran(k, "speaker", conversation="c")
        log = await events(k, "job")
        items = await k.store.select("default", Item, "latest", {"conversation": "c"})
    assert [event.text for event in log.of(TextEnded)] == ["Hello there"]
    assert [item.content for item in items if item.role == "assistant"] == ["Hello there"]


async def test_two_calls_of_one_answer_under_one_id_get_ids_of_their_own(kernel, fake_model) -> None:
    async def look() -> str:
        return "seen"

    async def caller(ctx, input):
        return [call.id for call in (await ctx.model("fake", [], functions=["t.look"])).calls]

    twice = ToolCall(id="call_0", function="t.look", arguments={})
    fake_model.answers([twice, twice])
    async with kernel(**on_disk(agents_plugin(caller, tools=(tool("t", look),)), fake_model.plugin())) as k:
        first, second = (await ran(k, "caller")).output
    assert first == "call_0"
    assert second not in ("", first)


async def test_a_text_that_was_cut_before_a_crash_is_not_cut_again_after_it(kernel, tmp_path, events) -> None:
    asked = []

    async def stream(request):
        asked.append(1)
        if len(asked) == 1:
            yield TextDelta("half of ")
            await anyio.sleep(0.05)  # so that the half is in the log
            raise TransomError("unavailable", "the line broke")
        if len(asked) == 2:
            await anyio.sleep(30)  # says nothing until the crash
        yield TextDelta("all of it")
        yield ModelEnd()

    async def speaker(ctx, input):
        return (await ctx.model("m", [])).text

    async def asked_twice():
        return len(asked) == 2

    plugins, store = [agents_plugin(speaker), model_plugin(stream)], CrashingStore()
    async with kernel(**on_disk(*plugins, store=store, data=str(tmp_path))) as k:
        await start(k, "speaker")
        await eventually(asked_twice)
        store.left = 0
    async with kernel(**on_disk(*plugins, data=str(tmp_path))) as k:
        assert (await ended(k)).output == "all of it"
        log = await events(k, "job")
    assert len(log.of(TextCut)) == 1
