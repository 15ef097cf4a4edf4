"""Declared agents: what a document may say, and the loop of model and tools."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom_agents import AgentKind, AgentsPlugin
from transom_hookspecs import Message, TransomError

from .fake_context import FakeContext, calls, text

pytestmark = pytest.mark.anyio

SCHEMA = "output: {type: object, properties: {title: {type: string}}, required: [title]}"


def said(message):
    return (message.role, message.content)


def test_the_plugin_offers_the_kind_agent():
    (kind,) = AgentsPlugin(AgentsPlugin.Config()).register_kinds()

    assert (kind.name, kind.folder) == ("agent", "agents")


def test_a_document_with_every_field_becomes_an_agent(agent):
    made = agent("""
        name: helper
        title: Helper
        description: Helps.
        model: scripted
        instructions: Be kind.
        tools: [team.*, post.send, team.*, oz.ask]
        agents: [worker]
        input: {type: string}
        output: {type: object}
        card: {type: object}
        max_calls: 5
        max_tokens: 100
        temperature: 0.5
        options: {seed: 1}
        conversations: false
        version: "1.10"
        timeout: 15m
    """)

    assert (made.name, made.title, made.description, made.version) == ("helper", "Helper", "Helps.", "1.10")
    assert (made.input_schema, made.output_schema, made.card_schema) == (
        {"type": "string"},
        {"type": "object"},
        {"type": "object"},
    )
    assert made.uses == ("team.*", "post.send", "oz.ask", "agent.worker", "model.scripted")
    assert made.timeout == 900.0
    assert not made.conversations
    assert not made.flow


def test_a_model_alone_is_enough(agent):
    made = agent("model: m")

    assert (made.input_schema, made.output_schema, made.conversations, made.timeout) == (None, None, True, 2_592_000.0)


@pytest.mark.parametrize(
    ("written", "seconds"), [("30s", 30), ("1.5m", 90), ("2h", 7_200), ("30d", 2_592_000), ("45", 45), ("0.5", 0.5)]
)
def test_a_timeout_is_a_duration(agent, written, seconds):
    assert agent(f"model: m\ntimeout: {written}").timeout == seconds


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("title: x", "`model` is missing; write the name of a model, as `model: <name>`"),
        ("model: m\ntool: [a.b]", "`tool` is no field of it; did you mean `tools`?"),
        ("model: m\ncolour: red", "`colour` is no field of it; it takes name, title,"),
        ("model: m\nversion: 1.10", "`version`: expected `str`, got `float`; put it in quotes"),
        ("model: 5", "`model`: expected `str`, got `int`; put it in quotes"),
        ("model: ''", "`model`: expected `str` of length >= 1; write the name of a model"),
        ("model: m\ntools: team.greet", "`tools`: expected `array`, got `str`; write a list of functions"),
        (
            "model: m\ntools: [team.greet, greet]",
            "`tools[1]`: is not of its form; write a list of functions, each `<tool>.<function>`",
        ),
        ("model: m\ntools: ['*']", "`tools[0]`: is not of its form"),
        ("model: m\nagents: [a b]", "`agents[0]`: is not of its form; write a list of agents' names"),
        ("model: m\ninput: text", "`input`: expected `object | null`, got `str`; write a JSON Schema, as a mapping"),
        ("model: m\nmax_calls: 0", "`max_calls`: expected `int` >= 1; write a whole number from 1 to 1000"),
        ("model: m\nmax_calls: many", "`max_calls`: expected `int`, got `str`; write a whole number from 1 to 1000"),
        ("model: m\nmax_tokens: 1.5", "`max_tokens`: expected `int`, got `float`"),
        ("model: m\ntemperature: 3", "`temperature`: expected `float` <= 2.0; write a number from 0 to 2"),
        ("model: m\nconversations: yes", "`conversations`: expected `bool`, got `str`; write true or false"),
        ("model: m\noptions: [1]", "`options`: expected `object`, got `array`; write a mapping"),
        ("model: m\ntimeout: soon", "`timeout`: is no duration between 0 and 3650d; write a duration, as 30s"),
        ("model: m\ntimeout: 0", "`timeout`: is no duration"),
        ("model: m\ntimeout: -5", "`timeout`: is no duration"),
        ("model: m\ntimeout: true", "`timeout`: is no duration"),
        ("model: m\ntimeout: 22:30", "`timeout`: is no duration"),
    ],
)
def test_a_wrong_field_is_named_with_its_problem_and_the_remedy(agent, document, words):
    with pytest.raises(TransomError) as caught:
        agent(document)

    assert caught.value.code == "invalid_argument"
    assert caught.value.message.startswith("agent 'helper': ")
    assert words in caught.value.message


@given(st.dictionaries(st.sampled_from(["model", "tools", "input", "max_calls", "timeout", "version", "x"]), st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)))  # fmt: skip
def test_any_mapping_is_an_agent_or_refused(body):
    refused = attempt(body)

    assert not refused or refused.startswith("agent 'helper': `")


def attempt(body):
    try:
        AgentKind().load("helper", body)
    except TransomError as error:
        return error.message
    return ""


async def test_the_model_is_asked_as_declared_and_its_text_is_the_answer(agent):
    made = agent(
        "model: m\ninstructions: Be kind.\ntools: [a.b]\nagents: [worker]\nmax_tokens: 9\ntemperature: 0.5\noptions: {seed: 1}"
    )
    ctx = FakeContext(answers=[text("Hello.")])

    assert await made.run(ctx, "Hi") == "Hello."

    (asked,) = ctx.asked
    assert [said(message) for message in asked["messages"]] == [("system", "Be kind."), ("user", "Hi")]
    assert (asked["model"], asked["functions"]) == ("m", ("a.b", "agent.worker"))
    assert (asked["output_schema"], asked["max_tokens"], asked["temperature"], asked["options"]) == (None, 9, 0.5, {"seed": 1})


@pytest.mark.parametrize(
    ("input", "shown"), [("Hi", "Hi"), ({"repo": "a/b", "pr": 1}, '{"repo":"a/b","pr":1}'), (None, "null"), ([1], "[1]")]
)
async def test_an_input_is_shown_as_text_or_compact_json(agent, input, shown):
    ctx = FakeContext(answers=[text("ok")])

    await agent("model: m").run(ctx, input)

    assert [said(message) for message in ctx.asked[0]["messages"]] == [("user", shown)]


async def test_calls_of_every_kind_are_made_in_one_step_and_their_results_go_back_in_order(agent):
    wanted = calls(
        ("team.greet", {"channel": "#a"}),
        ("agent.worker", {"input": "x"}),
        ("oz.ask", {"question": "Which?"}),
        words="Let me see.",
    )
    ctx = FakeContext(
        answers=[wanted, text("done")],
        does={"team.greet": {"ok": True}, "agent.worker": "worked", "oz.ask": TransomError("permission_denied", "No.")},
    )

    assert await agent("model: m\ntools: [team.*, oz.ask]\nagents: [worker]").run(ctx, "go") == "done"

    assert ctx.seen == [("model", "m"), ("tools", ("team.greet", "agent.worker", "oz.ask"), "j1:1"), ("model", "m")]
    _, asked, greeted, worked, refused = ctx.asked[1]["messages"]
    assert (asked.role, asked.content, [call.id for call in asked.calls]) == ("assistant", "Let me see.", ["c1", "c2", "c3"])
    assert greeted == Message(role="tool", call="c1", function="team.greet", content='{"ok":true}')
    assert worked == Message(role="tool", call="c2", function="agent.worker", content="worked")
    assert refused == Message(role="tool", call="c3", function="oz.ask", content="No.", error=True)


async def test_calls_count_whatever_the_model_says_of_its_end(agent):
    answer = calls(("a.b", {}))
    answer = msgspec.structs.replace(answer, end=msgspec.structs.replace(answer.end, finish="stop"))
    ctx = FakeContext(answers=[answer, text("done")], does={"a.b": 1})

    assert await agent("model: m\ntools: [a.b]").run(ctx, "go") == "done"


async def test_reasoning_goes_back_with_the_next_request(agent):
    answer = calls(("a.b", {}))
    answer = msgspec.structs.replace(answer, end=msgspec.structs.replace(answer.end, reasoning={"reasoning": "hm"}))
    ctx = FakeContext(answers=[answer, text("done")], does={"a.b": 1})

    await agent("model: m\ntools: [a.b]").run(ctx, "go")

    assert ctx.asked[1]["messages"][1].reasoning == {"reasoning": "hm"}


async def test_a_model_that_never_ends_is_stopped_before_calls_that_no_one_would_read(agent):
    ctx = FakeContext(answers=[calls(("a.b", {}))] * 3, does={"a.b": 1})

    with pytest.raises(TransomError, match="its 3 model calls are used up; raise `max_calls`") as caught:
        await agent("model: m\ntools: [a.b]\nmax_calls: 3").run(ctx, "go")

    assert caught.value.code == "resource_exhausted"
    assert [step[0] for step in ctx.seen] == ["model", "tools", "model", "tools", "model"]


async def test_a_structured_answer_is_json_that_fits(agent):
    ctx = FakeContext(answers=[text('{"title": "x"}')])

    assert await agent(f"model: m\n{SCHEMA}").run(ctx, "go") == {"title": "x"}
    assert ctx.asked[0]["output_schema"]["required"] == ["title"]


@pytest.mark.parametrize(
    ("first", "told"),
    [
        ("Sure! {", "it is no JSON"),
        ('{"title": 1}', "at $.title: 1 is not of type 'string'"),
        ("{}", "at $: 'title' is a required property"),
        ("[" * 9_000, "it is no JSON"),
    ],
    ids=["words", "wrong type", "missing", "deep"],
)
async def test_a_misfit_is_told_and_may_be_mended_once(agent, first, told):
    ctx = FakeContext(answers=[text(first), text('{"title": "x"}')])

    assert await agent(f"model: m\n{SCHEMA}").run(ctx, "go") == {"title": "x"}

    _, answered, correction = ctx.asked[1]["messages"]
    assert said(answered) == ("assistant", first)
    assert correction.role == "user"
    assert told in correction.content


async def test_a_second_misfit_fails_the_agent(agent):
    ctx = FakeContext(answers=[text("no"), text("no"), text('{"title": "x"}')])

    with pytest.raises(
        TransomError, match="agent 'helper': the answer did not fit `output` after one more try either"
    ) as caught:
        await agent(f"model: m\n{SCHEMA}").run(ctx, "go")

    assert caught.value.code == "failed_precondition"
    assert len(ctx.asked) == 2


async def test_a_long_misfit_is_cut(agent):
    ctx = FakeContext(answers=[text(json.dumps("x" * 10_000)), text('{"title": "x"}')])

    await agent(f"model: m\n{SCHEMA}").run(ctx, "go")

    assert len(ctx.asked[1]["messages"][-1].content) < 500


@pytest.mark.parametrize("reference", ["#/$defs/gone", "https://127.0.0.1:1/schema.json"])
async def test_a_reference_that_leads_nowhere_is_not_followed(agent, reference):
    ctx = FakeContext(answers=[text("1"), text("1")])

    with pytest.raises(TransomError, match="leads nowhere"):
        await agent(f"model: m\noutput: {{$ref: '{reference}'}}").run(ctx, "go")


async def test_a_cut_text_is_an_answer_and_cut_json_is_not(agent):
    assert await agent("model: m").run(FakeContext(answers=[text("Once upon", "length")]), "go") == "Once upon"

    with pytest.raises(TransomError, match="cut at 4096 tokens; raise `max_tokens`") as caught:
        await agent(f"model: m\n{SCHEMA}").run(FakeContext(answers=[text('{"ti', "length")]), "go")
    assert caught.value.code == "resource_exhausted"


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (text("", "content_filter"), "failed_precondition", "withheld"),
        (text("", "calls"), "unavailable", "announced a call and sent none"),
    ],
    ids=["withheld", "no call"],
)
async def test_an_answer_that_is_none_fails_the_agent(agent, answer, code, words):
    with pytest.raises(TransomError, match=words) as caught:
        await agent("model: m").run(FakeContext(answers=[answer]), "go")

    assert caught.value.code == code


async def test_a_models_error_is_the_agents(agent):
    class Failing(FakeContext):
        async def model(self, *_, **__):
            raise TransomError("unavailable", "the model is down")

    with pytest.raises(TransomError, match="the model is down"):
        await agent("model: m").run(Failing(), "go")
