"""What the real model answers, through its real process."""

import json

import anyio
import httpx
import pytest

from transom_hookspecs import FunctionSpec, Message, ModelEnd, ModelRequest, TextDelta, ToolCall

pytestmark = pytest.mark.anyio

COLOUR = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "green", "blue"]}},
    "required": ["colour"],
    "additionalProperties": False,
}
PAINT = FunctionSpec(name="team.paint", description="Paints the wall in a colour.", parameters=COLOUR)
REQUEST = Message(role="user", content="Please paint the wall green.")


def text_of(events):
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def test_plain_text_streams(ask):
    events = await ask(ModelRequest(messages=(Message(role="user", content="What is the capital of France?"),), max_tokens=32))
    assert len([event for event in events if isinstance(event, TextDelta)]) > 3
    end = events[-1]
    assert isinstance(end, ModelEnd)
    assert end.finish in ("stop", "length")
    assert end.usage.input_tokens > 0
    assert end.usage.output_tokens > 3
    assert not end.usage.estimated


async def test_a_function_is_called_with_one_of_the_arguments_allowed(ask):
    (end,) = await ask(ModelRequest(messages=(REQUEST,), functions=(PAINT,), max_tokens=100))
    (call,) = end.calls
    assert (call.function, call.arguments, end.finish) == ("team.paint", {"colour": "green"}, "calls")


async def test_a_functions_result_is_answered_in_words(ask):
    called = Message(role="assistant", calls=(ToolCall(id="c1", function="team.paint", arguments={"colour": "green"}),))
    result = Message(role="tool", call="c1", function="team.paint", content="The wall is green now.")
    events = await ask(ModelRequest(messages=(REQUEST, called, result), functions=(PAINT,), max_tokens=100))
    assert "green" in text_of(events)
    assert "{" not in text_of(events)
    assert events[-1].finish == "stop"


async def test_a_structured_answer_matches_its_schema(ask):
    events = await ask(ModelRequest(messages=(REQUEST,), output_schema=COLOUR, max_tokens=50))
    assert json.loads(text_of(events))["colour"] in ("red", "green", "blue")


async def test_the_token_limit_ends_an_answer(ask):
    events = await ask(ModelRequest(messages=(Message(role="user", content="Tell me a long story."),), max_tokens=5))
    assert (events[-1].finish, events[-1].usage.output_tokens) == ("length", 5)


async def test_the_count_bounds_what_the_model_counts(plugin, ask):
    (model,) = plugin.register_models()
    for functions in ((), (PAINT,)):
        request = ModelRequest(messages=(REQUEST,), functions=functions, max_tokens=40)
        events = await ask(request)
        assert events[-1].usage.input_tokens <= model.count(request)


async def test_requests_at_once_share_one_process(plugin, ask):
    ends = []

    async def one(word):
        events = await ask(ModelRequest(messages=(Message(role="user", content=f"Say {word}."),), max_tokens=8))
        ends.append((events[-1].finish, plugin.process.pid))

    async with anyio.create_task_group() as group:
        for word in ("one", "two", "three"):
            group.start_soon(one, word)
    assert len(ends) == 3
    assert len({pid for _, pid in ends}) == 1


async def test_the_server_answers_nobody_without_its_key(plugin):
    served = await plugin.process.ready()
    async with httpx.AsyncClient(trust_env=False) as client:
        body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
        assert (await client.post(f"{served.url}/v1/chat/completions", json=body)).status_code == 401
    assert served.url.startswith("http://127.0.0.1:")
