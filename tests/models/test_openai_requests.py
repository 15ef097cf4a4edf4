"""What is sent to a server, and what is counted."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom_hookspecs import FunctionSpec, Message, ModelRequest, TokenCount, ToolCall, TransomError
from transom_openai import ModelSettings, OpenaiModel, Prices

pytestmark = pytest.mark.anyio

GREET = FunctionSpec(
    name="team.greet", description="Greets.", parameters={"type": "object", "properties": {"to": {"type": "string"}}}
)
CALLED = Message(role="assistant", content="ok", calls=(ToolCall(id="c1", function="team.greet", arguments={"to": "Ünal"}),))


@pytest.fixture
def sent(server, answer, wire):
    """Asks, and returns the body that the server got."""

    async def ask(request, **settings):
        server.says(wire.delta("stop", content="Hi"))
        await answer(request, **settings)
        return server.seen[-1].body

    return ask


async def test_a_plain_request_has_these_fields_and_no_others(sent, server, wire):
    assert await sent(wire.ask_for(Message(role="system", content="Be kind."), wire.user(), max_tokens=7)) == {
        "model": "served",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 7,
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}],
    }
    assert server.seen[0].path == "/v1/chat/completions"
    assert "authorization" not in server.seen[0].headers


async def test_calls_and_results_are_written_in_the_servers_terms(sent, wire):
    result = Message(role="tool", call="c1", function="team.greet", content='"done"')
    failed = Message(role="tool", call="c1", function="team.greet", content="nobody there", error=True)
    body = await sent(wire.ask_for(wire.user(), CALLED, result, failed, functions=(GREET,)))
    function = {"name": "team__greet", "arguments": '{"to":"Ünal"}'}
    assert body["messages"][1:] == [
        {"role": "assistant", "content": "ok", "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c1", "content": '"done"'},
        {"role": "tool", "tool_call_id": "c1", "content": "Error: nobody there"},
    ]
    assert body["tools"] == [
        {"type": "function", "function": {"name": "team__greet", "description": "Greets.", "parameters": GREET.parameters}}
    ]


async def test_a_structured_answer_is_asked_for_by_its_schema(sent, wire):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    body = await sent(wire.ask_for(output_schema=schema))
    assert body["response_format"] == {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


async def test_settings_and_options_add_fields_and_the_request_wins(sent, wire):
    body = await sent(
        wire.ask_for(temperature=0.5, options={"top_p": 0.1, "seed": 3}),
        extra={"top_p": 0.9, "temperature": 1.0, "parallel_tool_calls": False},
        max_tokens_field="max_completion_tokens",
    )
    assert (body["top_p"], body["seed"], body["temperature"], body["parallel_tool_calls"]) == (0.1, 3, 0.5, False)
    assert body["max_completion_tokens"] == 4096
    assert "max_tokens" not in body


@pytest.mark.parametrize("option", ["model", "messages", "n", "max_tokens", "stream", "tools"])
async def test_an_option_that_would_change_what_is_asked_or_paid_is_refused(server, answer, wire, option):
    with pytest.raises(TransomError, match=f"options: {option} may not be set") as caught:
        await answer(wire.ask_for(options={option: 2}))
    assert caught.value.code == "invalid_argument"
    assert server.seen == []


async def test_the_key_and_the_idempotency_key_go_as_headers(sent, server, wire, monkeypatch):
    monkeypatch.setenv("SOME_KEY", " sk-1 \n")
    body = await sent(wire.ask_for(idempotency_key="job:3~1"), api_key_env="SOME_KEY")
    assert server.seen[0].headers["authorization"] == "Bearer sk-1"
    assert server.seen[0].headers["idempotency-key"] == "job:3~1"
    assert "sk-1" not in json.dumps(body)


async def test_a_base_address_may_end_in_a_slash(server, client, wire):
    server.says(wire.delta("stop", content="Hi"))
    model = OpenaiModel("m", ModelSettings(url=server.url + "/", model="x"), lambda: client)
    _ = [event async for event in model.stream(wire.ask_for())]
    assert server.seen[0].path == "/v1/chat/completions"


# counting


@pytest.mark.parametrize(
    ("usage", "count"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 2}, (9, 2, 0)),
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}, (9, 2, 4)),
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": None}, (9, 2, 0)),
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 5}, (9, 2, 5)),
        ({"prompt_tokens": 9, "completion_tokens": None}, (9, 0, 0)),
    ],
)
async def test_the_servers_usage_is_read(server, answer, wire, usage, count):
    server.says(wire.delta("stop", content="hi"), {"choices": [], "usage": usage})
    assert wire.end_of(await answer()).usage == TokenCount(
        input_tokens=count[0], output_tokens=count[1], cached_tokens=count[2]
    )


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None, "completion_tokens": True}, {"prompt_tokens": -1}, "9"])
async def test_without_usage_an_upper_bound_is_counted_and_said_to_be_one(server, answer, wire, usage):
    server.says(wire.delta("stop", content="hé", reasoning="hm"), {"choices": [], "usage": usage})
    usage = wire.end_of(await answer()).usage
    assert usage.estimated
    assert usage.output_tokens == 5
    assert usage.input_tokens >= len("hi")


async def test_the_estimate_of_output_never_passes_max_tokens(server, answer, wire):
    server.says(wire.delta("stop", content="x" * 100))
    assert wire.end_of(await answer(wire.ask_for(max_tokens=10))).usage.output_tokens == 10


@pytest.mark.parametrize(("cached", "usd"), [(None, 3.0), (0.5, 2.5)])
async def test_a_price_makes_a_cost(server, answer, wire, cached, usd):
    usage = {"prompt_tokens": 2_000_000, "completion_tokens": 500_000, "prompt_tokens_details": {"cached_tokens": 1_000_000}}
    server.says(wire.delta("stop", content="hi"), {"choices": [], "usage": usage})
    end = wire.end_of(await answer(prices=Prices(input=1.0, output=2.0, cached=cached)))
    assert end.usage.usd == pytest.approx(usd)


async def test_an_estimate_costs_too(server, answer, wire):
    server.says(wire.delta("stop", content="hi"))
    assert wire.end_of(await answer(prices=Prices(input=1.0, output=2.0))).usage.usd > 0


@given(st.text(max_size=50), st.text(max_size=50), st.sampled_from(["native", "schema"]))
def test_the_count_is_at_least_one_a_byte(system, text, tools):
    model = OpenaiModel("m", ModelSettings(url="http://h/v1", model="x", tools=tools), lambda: None)
    messages = (Message(role="system", content=system), Message(role="user", content=text))
    bare = model.count(ModelRequest(messages=messages))
    assert bare >= len((system + text).encode()) + 2 * 16
    assert model.count(ModelRequest(messages=messages, functions=(GREET,))) >= bare + len(json.dumps(GREET.parameters))
