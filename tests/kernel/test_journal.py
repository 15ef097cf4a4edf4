"""The journal: what is recorded survives whatever happens beside it, and a replay that asks for something else fails."""

import logging
from contextlib import suppress

import anyio
import pytest
from job_kit import UnavailableOnce, ended, model_plugin, on_disk, ran, start, starts_a_child
from kernel_kit import CrashingStore, agents_plugin

from transom_hookspecs import (
    CallEnded,
    CallStarted,
    Item,
    Message,
    ModelEnd,
    Text,
    TextCut,
    TextDelta,
    TextEnded,
    ToolCall,
    TransomError,
    function,
    tool,
)

pytestmark = pytest.mark.anyio

HALF = "no file \udcff"
"""What Python makes of a file's name that is no UTF-8; it cannot be encoded again."""


@pytest.fixture
def unlogged(caplog) -> None:
    """The log quotes an error as it was raised; the test runner cannot encode that in its own report."""
    caplog.set_level(logging.CRITICAL, logger="transom.jobs")


def two_calls_and_an_answer() -> list[type]:
    """An agent whose model speaks, makes two calls, and speaks again."""

    async def stream(request):
        if any(message.role == "tool" for message in request.messages):
            yield TextDelta("final ")
            await anyio.sleep(0.03)  # longer than the journal waits: the text is written in two parts
            yield TextDelta("text")
            yield ModelEnd()
            return
        yield TextDelta("let me see")
        calls = [ToolCall(id=f"c-{name}", function=f"t.{name}", arguments={}) for name in ("one", "two")]
        yield ModelEnd(calls=tuple(calls), finish="calls")

    async def one() -> str:
        return "1"

    async def two() -> str:
        return "2"

    async def talker(ctx, input):
        asked = await ctx.model("m", [Message(role="user", content="q")], functions=["t.*"])
        results = await ctx.tools(asked.calls, message=asked.message)
        told = [asked.as_message(), *[result.as_message() for result in results]]
        return (await ctx.model("m", told)).text

    tools = (tool("t", function(one, idempotent=True), function(two, idempotent=True)),)
    return [agents_plugin(talker, tools=tools), model_plugin(stream)]


async def crashed(kernel, plugins: list[type], data: str, after: int) -> bool:
    """Run the agent `talker` until the process dies after so many transactions; False when it had ended before."""
    store = CrashingStore()
    async with kernel(**on_disk(*plugins, store=store, data=data, sweep=0.05)) as k:
        store.left = after
        try:
            await start(k, "talker", conversation="c")
            while store.left > 0:
                if ("default", "job") not in k.running and not k.claims:
                    return False
                await anyio.sleep(0.002)
        except TransomError as error:
            if error.code != "unavailable":
                raise
        return True


@pytest.mark.req("RT-36")
async def test_wherever_a_process_dies_log_and_conversation_hold_each_text_and_result_once(kernel, tmp_path, events) -> None:
    plugins = two_calls_and_an_answer()
    crashes = 0
    for after in range(1, 40):
        data = str(tmp_path / str(after))
        if not await crashed(kernel, plugins, data, after):
            break
        crashes += 1
        async with kernel(**on_disk(*plugins, data=data, sweep=0.05)) as k:
            assert (await ended(k)).output == "final text"
            log = await events(k, "job")
            items = await k.store.select("default", Item, "latest", {"conversation": "c"})
        assert [event.text for event in log.of(TextEnded)] == ["let me see", "final text"], after
        for event in log.of(TextEnded):
            heard = "".join(text.delta for text in log.of(Text) if text.message == event.message)
            assert heard == event.text, after
        over = [event.message for event in (*log.of(TextEnded), *log.of(TextCut))]
        assert sorted(over) == sorted({text.message for text in log.of(Text)}), after
        assert [len(log.of(CallStarted)), len(log.of(CallEnded))] == [2, 2], after
        said = [(item.role, item.content) for item in reversed(items)]
        assert said[1:] == [("assistant", "let me see"), ("tool", "1"), ("tool", "2"), ("assistant", "final text")], after
    assert crashes > 3, "it was crashed at too few points to prove anything"


async def test_an_agent_cannot_go_on_past_a_mismatch_by_catching_it(kernel) -> None:
    lives = []

    async def fickle(ctx, input):
        lives.append(1)
        with suppress(TransomError):
            await (ctx.now() if len(lives) == 1 else ctx.random())
        await ctx.sleep(0.05)
        return "guessed"

    async with kernel(**on_disk(agents_plugin(fickle))) as k:
        job = await ran(k, "fickle")
    assert (job.status, job.error.details["reason"]) == ("failed", "nondeterminism")


async def test_another_prompt_on_replay_is_a_mismatch(kernel, fake_model) -> None:
    lives = []

    async def fickle(ctx, input):
        lives.append(1)
        prompt = "cats" if len(lives) == 1 else "dogs"
        answer = await ctx.model("fake", [Message(role="user", content=prompt)])
        await ctx.sleep(0.05)
        return answer.text

    fake_model.answers("about cats")
    async with kernel(**on_disk(agents_plugin(fickle), fake_model.plugin())) as k:
        job = await ran(k, "fickle")
    assert (job.status, job.error.details["reason"]) == ("failed", "nondeterminism")


async def test_a_name_of_steps_is_used_once(kernel) -> None:
    """Twice would give the second user the first one's records."""

    async def namer(ctx, input):
        return [await ctx.named("a").random(), await ctx.named("a").random()]

    async with kernel(**on_disk(agents_plugin(namer))) as k:
        job = await ran(k, "namer")
    assert job.status == "failed"
    assert "'a' was used before" in job.error.message


async def test_an_agents_error_that_is_no_unicode_ends_its_job(kernel, unlogged) -> None:
    async def reader(ctx, input):
        raise OSError(HALF)

    async with kernel(**on_disk(agents_plugin(reader))) as k:
        job = await ran(k, "reader")
    assert job.error.message == "agent 'reader' raised OSError: no file �"


async def test_a_functions_error_that_is_no_unicode_is_its_calls_end(kernel, events, unlogged) -> None:
    async def read() -> str:
        raise OSError(HALF)

    async def reader(ctx, input):
        try:
            await ctx.call("t.read")
        except TransomError as error:
            return error.message

    async with kernel(**on_disk(agents_plugin(reader, tools=(tool("t", function(read, idempotent=True)),)))) as k:
        job = await ran(k, "reader")
        (end,) = (await events(k, "job")).of(CallEnded)
    assert end.error.message == job.output == "t.read failed: OSError: no file �"


async def test_words_that_are_no_unicode_are_said_with_a_mark_in_their_place(kernel, events) -> None:
    async def speaker(ctx, input):
        return await ctx.say("x\ud83d")

    async with kernel(**on_disk(agents_plugin(speaker))) as k:
        job = await ran(k, "speaker")
        log = await events(k, "job")
    assert [event.text for event in log.of(TextEnded)] == [job.output] == ["x�"]


async def test_a_store_that_is_unavailable_at_a_childs_start_is_no_failure_of_the_child(kernel) -> None:
    async def child(ctx, input):
        return "the child's answer"

    async def parent(ctx, input):
        try:
            return await ctx.delegate("child")
        except TransomError:
            return "guessed without the child"

    store = UnavailableOnce()
    async with kernel(**on_disk(agents_plugin(parent, child), store=store)) as k:
        store.refuses = starts_a_child
        job = await ran(k, "parent")
    assert store.refuses is None, "the store was never unavailable"
    assert job.output == "the child's answer"
