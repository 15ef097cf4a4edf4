"""Texts that pass the filter of secrets on their way into the store: as they are recorded, agents and models get them."""

import anyio
import pytest
from job_kit import decide, ended, model_plugin, open_waits, ran, start
from kernel_kit import agents_plugin

from transom_hookspecs import (
    Agent,
    CancelJob,
    DecideApproval,
    Item,
    Message,
    ModelEnd,
    Outcome,
    PublishEvent,
    Rule,
    SetJobTags,
    StartJob,
    Step,
    TextDelta,
    ToolCall,
    TransomError,
    Wait,
    function,
    tool,
)

pytestmark = [pytest.mark.anyio, pytest.mark.req("IDN-7", "OUT-3")]

VALUE = "ghp_9Zq2LmB7xKfT"
MASK = "[secret github]"


async def test_an_agent_gets_what_was_recorded_in_its_first_life_and_on_replay(opened, put):
    lives = []

    async def agent(ctx, input):
        said = [input, await ctx.call("t.echo", {"text": VALUE}), await ctx.say(VALUE)]
        lives.append(said)
        said.append(await ctx.ask("Go on?"))
        return said

    async def echo(text: str) -> str:
        return f"{text} {VALUE}"

    async with opened(agents_plugin(agent, tools=(tool("t", echo),))) as k:
        await put(k, "github", VALUE)
        await start(k, "agent", input={"it": VALUE})
        (wait,) = await open_waits(k)
        await decide(k, wait, answer=f"yes {VALUE}")
        done = await ended(k)
    expected = [{"it": MASK}, f"{MASK} {MASK}", MASK]
    assert [life[:3] for life in lives] == [expected, expected]
    assert done.output == [*expected, f"yes {MASK}"]


async def test_a_replay_after_the_secrets_changed_is_no_other_run(opened, put, operator):
    """What was masked then is asked for in clear now, and the other way round."""
    from transom_secrets.requests import DeleteSecret

    async def agent(ctx, input):
        await ctx.call("t.echo", {"text": VALUE})
        await ctx.delegate("child", {"text": "another-value"}, tags=[VALUE])
        await ctx.ask(f"Is it {VALUE}?", choices=[VALUE])
        return "done"

    async def child(ctx, input):
        return input

    async def echo(text: str) -> str:
        return text

    async with opened(agents_plugin(agent, child, tools=(tool("t", echo),))) as k:
        await put(k, "github", VALUE)
        await start(k, "agent")
        (wait,) = await open_waits(k)
        await k.call("DeleteSecret", DeleteSecret(name="github"), operator())
        await put(k, "other", "another-value")
        await decide(k, wait, answer=MASK)
        assert (await ended(k)).output == "done"


async def test_a_replay_that_asks_for_something_else_is_still_found(opened, put):
    """Only steps whose arguments were masked are let be."""
    lives = 0

    async def agent(ctx, input):
        nonlocal lives
        lives += 1
        await ctx.call("t.echo", {"text": f"life {lives}"})
        await ctx.ask("Go on?")

    async def echo(text: str) -> str:
        return text

    async with opened(agents_plugin(agent, tools=(tool("t", echo),))) as k:
        await put(k, "github", VALUE)
        await start(k, "agent")
        (wait,) = await open_waits(k)
        await decide(k, wait, answer="yes")
        done = await ended(k)
    assert done.status == "failed"
    assert done.error.details["reason"] == "nondeterminism"


async def test_a_model_gets_no_value_and_gives_none(opened, put):
    """The prompt's texts, calls and results; and the answer's names, IDs, arguments and reasoning."""
    asked = []

    async def stream(request):
        asked.append(request)
        yield TextDelta(VALUE[:5])
        yield TextDelta(VALUE[5:] + " and " + VALUE[:8])
        calls = (ToolCall(id=VALUE, function=f"t.{VALUE}", arguments={VALUE: VALUE}),)
        yield ModelEnd(calls=calls, reasoning={"signature": VALUE})

    async def agent(ctx, input):
        before = (ToolCall(id="a", function="t.echo", arguments={"text": VALUE}),)
        answer = await ctx.model(
            "m",
            [
                Message(role="system", content=f"You know {VALUE}."),
                Message(role="assistant", calls=before, reasoning={"signature": VALUE}),
                Message(role="tool", call="a", content=f"It is {VALUE}."),
            ],
        )
        (call,) = answer.calls
        return [answer.text, call.id, call.function, call.arguments, answer.end.reasoning]

    async with opened(agents_plugin(agent), model_plugin(stream)) as k:
        await put(k, "github", VALUE)
        text, identity, name, arguments, reasoning = (await ran(k, "agent")).output
        (step,) = [s for s in await k.store.select("default", Step, "job", {"job": "job"}) if s.kind == "model"]
    (request,) = asked
    assert VALUE not in repr(request)
    assert repr(request).count(MASK) == 4
    assert (text, name, arguments) == (f"{MASK} and {VALUE[:8]}", f"t.{MASK}", {MASK: MASK})
    assert reasoning == {"signature": MASK}
    assert identity.startswith("call-")
    assert VALUE not in repr(step)


async def test_without_secrets_a_prompt_is_passed_on_as_it_is(opened):
    asked = []

    async def stream(request):
        asked.append(request.messages)
        yield ModelEnd()

    messages = (Message(role="user", content=VALUE),)

    async def agent(ctx, input):
        await ctx.model("m", messages)

    async with opened(agents_plugin(agent), model_plugin(stream)) as k:
        await ran(k, "agent")
    assert asked == [messages]


@pytest.mark.parametrize("letters", [0, 1900, 1960, 1990, 1999, 2_500])
async def test_a_long_error_is_cut_after_it_was_filtered(opened, put, letters):
    """Cut before, half a value would be left of it, which no filter knows."""
    value = "".join(f"{n:03}-" for n in range(200))

    async def agent(ctx, input):
        raise ValueError("x" * letters + value)

    async with opened(agents_plugin(agent)) as k:
        await put(k, "github", value)
        message = (await ran(k, "agent")).error.message
    assert value[:8] not in message
    assert len(message) <= 2_001
    assert letters > 1_900 or MASK in message


async def test_details_of_errors_and_those_of_functions_and_branches(opened, put):
    async def fails() -> None:
        raise TransomError("aborted", f"because {VALUE}", {"why": [VALUE], VALUE: 1})

    async def agent(ctx, input):
        async def branch(inner):
            try:
                await inner.call("t.fails")
            except TransomError as error:
                raise TransomError("aborted", f"{error.message} and {VALUE}", {"it": VALUE, **error.details}) from error

        await ctx.together(branch)

    async with opened(agents_plugin(agent, tools=(tool("t", fails),))) as k:
        await put(k, "github", VALUE)
        error = (await ran(k, "agent")).error
    assert error.message == f"because {MASK} and {MASK}"
    assert error.details == {"it": MASK, "why": [MASK], MASK: 1}


async def test_a_start_is_recorded_without_and_is_still_the_same_start(opened, put, operator):
    async def agent(ctx, input):
        return input

    request = StartJob(
        agent="agent", id="a", input=VALUE, tags=(f"x {VALUE}",), team=VALUE, budget=VALUE, data_subjects=(VALUE,)
    )
    async with opened(agents_plugin(agent)) as k:
        await put(k, "github", VALUE)
        await k.call("StartJob", request, operator())
        job = await ended(k, "a")
        assert (await k.call("StartJob", request, operator())).retried
    assert (job.output, job.tags, job.team) == (MASK, (f"x {MASK}",), MASK)


async def test_events_match_by_what_was_masked(opened, put, operator):
    async def agent(ctx, input):
        return await ctx.wait_for_event("src", match={"key": VALUE})

    async with opened(agents_plugin(agent)) as k:
        await put(k, "github", VALUE)
        await start(k, "agent")
        with anyio.fail_after(10):
            while not (
                await k.call("PublishEvent", PublishEvent(source="src", payload={"key": VALUE, "v": 1}), operator())
            ).jobs:
                await anyio.sleep(0.01)
        assert (await ended(k)).output == {"key": MASK, "v": 1}


async def test_what_people_say_and_the_trail_of_it(opened, put, operator):
    async def guarded(text: str) -> str:
        return text

    async def agent(ctx, input):
        return await ctx.call("t.guarded", {"text": "x"})

    async def sleeper(ctx, input):
        await ctx.sleep(60)

    asks = function(guarded, approval=Rule())
    async with opened(agents_plugin(agent, sleeper, tools=(tool("t", asks),))) as k:
        await put(k, "github", VALUE)
        await start(k, "agent")
        (wait,) = await open_waits(k)
        await decide(k, wait, approved=False, comment=f"no: {VALUE}")
        refused = await ended(k)
        await start(k, "sleeper", "other")
        await k.call("SetJobTags", SetJobTags(id="other", add=(f"y {VALUE}",)), operator())
        await k.call("CancelJob", CancelJob(id="other", reason=f"as {VALUE}"), operator())
        kept = await k.store.get("default", Wait, wait.id)
        trail = {r.entry.action: r.entry.details for r in await k.store.audit("default")}
    outcome: Outcome = "denied"
    assert refused.error.message == f"t.guarded was denied: no: {MASK}"
    assert (kept.comment, kept.votes[0].comment, kept.outcome) == (f"no: {MASK}", f"no: {MASK}", outcome)
    assert trail["run.cancel"] == {"reason": f"as {MASK}"}
    assert trail["job.tag"] == {"add": [f"y {MASK}"], "remove": []}


async def test_the_same_answer_again_is_known_although_it_was_masked(opened, put):
    async def agent(ctx, input):
        return await ctx.ask("What is it?")

    async with opened(agents_plugin(agent)) as k:
        await put(k, "github", VALUE)
        await start(k, "agent")
        (wait,) = await open_waits(k)
        assert (await decide(k, wait, answer=VALUE)).result == "decided"
        await ended(k)
        assert (await decide(k, wait, answer=VALUE)).result == "already_decided"


async def test_what_an_operation_refuses_with_quotes_no_value(opened, put, operator):
    schema = {"type": "object", "properties": {"x": {"const": 1}}}

    async def run(ctx, input):
        return input

    async with opened(agents_plugin(Agent(name="agent", run=run, input_schema=schema))) as k:
        await put(k, "github", VALUE)
        for request in (
            StartJob(agent="agent", input={"x": VALUE}),
            StartJob(agent=VALUE),
            DecideApproval(wait=VALUE),
            CancelJob(id=VALUE),
        ):
            with pytest.raises(TransomError) as refused:
                await k.call(type(request).__name__, request, operator())
            assert VALUE not in repr((refused.value.message, refused.value.details, refused.value.args))


async def test_a_conversation_keeps_none(opened, put, operator):
    async def agent(ctx, input):
        await ctx.say(f"You said {input}, I say {VALUE}")

    async with opened(agents_plugin(Agent(name="agent", run=agent, conversations=True))) as k:
        await put(k, "github", VALUE)
        await ran(k, "agent", conversation="c", input=VALUE)
        items = await k.store.select("default", Item, "latest", {"conversation": "c"})
    assert [item.content for item in items][::-1] == [MASK, f"You said {MASK}, I say {MASK}"]


async def test_a_tenants_value_is_masked_in_its_own_texts_alone(opened, put, operator):
    async def agent(ctx, input):
        return input

    async with opened(agents_plugin(agent)) as k:
        await put(k, "github", VALUE, tenant="acme")
        assert (await ran(k, "agent", input=VALUE)).output == VALUE


@pytest.mark.parametrize(
    ("request_of", "field", "most"),
    [
        (lambda text: StartJob(agent="agent", team=text), "team", 200),
        (lambda text: CancelJob(id="job", reason=text), "reason", 4_000),
        (lambda text: PublishEvent(source=text, payload={}), "source", 200),
    ],
    ids=["team", "reason", "source"],
)
async def test_free_text_has_a_bound(opened, operator, request_of, field, most):
    async def agent(ctx, input):
        return await ctx.ask("Which?")

    async with opened(agents_plugin(agent)) as k:
        await start(k, "agent")
        with pytest.raises(TransomError) as refused:
            await k.call(type(request_of("")).__name__, request_of("x" * (most + 1)), operator())
        assert (refused.value.code, refused.value.message.partition(":")[0]) == ("invalid_argument", field)
        await k.call(type(request_of("")).__name__, request_of("ü" * most), operator())


async def test_a_comment_has_a_bound(opened, operator):
    async def agent(ctx, input):
        return await ctx.ask("Which?")

    async with opened(agents_plugin(agent)) as k:
        await start(k, "agent")
        (wait,) = await open_waits(k)
        with pytest.raises(TransomError) as refused:
            await decide(k, wait, answer="x", comment="x" * 4_001)
        assert refused.value.message.startswith("comment:")
        await decide(k, wait, answer="x", comment="x" * 4_000)
        assert (await ended(k)).output == "x"
