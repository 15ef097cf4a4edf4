"""Models without calls of their own: they choose a function through structured output."""

import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom_hookspecs import FunctionSpec, Message, ModelRequest, TextDelta, ToolCall, TransomError
from transom_openai.schema_answer import SchemaAnswer
from transom_openai.schema_body import schema

pytestmark = pytest.mark.anyio

COLOUR = {"type": "object", "properties": {"colour": {"enum": ["red", "green"]}}, "required": ["colour"]}
PAINT = FunctionSpec(name="team.paint", description="Paints the wall.", parameters=COLOUR)
STOP = FunctionSpec(name="team.stop", description="Stops.", parameters={"type": "object"})


@pytest.fixture
def chosen(server, answer, wire):
    """Asks with functions, in schema mode, a server that streams these pieces of text."""

    async def ask(*pieces, finish="stop", **fields):
        server.says(*(wire.delta(None, content=piece) for piece in pieces), wire.delta(finish))
        return await answer(wire.ask_for(functions=(PAINT, STOP), **fields), tools="schema", tries=1)

    return ask


def format_of(**fields):
    body = schema(ModelRequest(messages=(Message(role="user", content="hi"),), **fields))
    return body["response_format"]["json_schema"]["schema"]


def fits(value, its_schema):
    jsonschema.Draft202012Validator.check_schema(its_schema)
    return jsonschema.Draft202012Validator(its_schema).is_valid(value)


# what is asked


def test_the_format_allows_each_function_with_its_arguments_or_an_answer():
    format = format_of(functions=(PAINT, STOP))
    assert fits({"call": "team.paint", "arguments": {"colour": "red"}}, format)
    assert fits({"call": "team.stop", "arguments": {}}, format)
    assert fits({"answer": "done"}, format)
    for wrong in (
        {"call": "team.paint", "arguments": {"colour": "blue"}},
        {"call": "team.jump", "arguments": {}},
        {"answer": 5},
        {"answer": "x", "call": "team.stop", "arguments": {}},
        {},
    ):
        assert not fits(wrong, format)


def test_a_structured_answer_stands_under_answer():
    format = format_of(functions=(STOP,), output_schema={"type": "object", "required": ["n"]})
    assert fits({"answer": {"n": 1}}, format)
    assert not fits({"answer": "text"}, format)


def test_references_inside_a_function_still_find_their_place():
    tree = {
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/node"}, "default": {"$ref": "#/$defs/node"}, "say": {"const": {"$ref": "#"}}},
        "required": ["at"],
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "additionalProperties": False}},
    }
    format = format_of(functions=(FunctionSpec(name="t.f", description="", parameters=tree), PAINT), output_schema=tree)
    assert fits({"call": "t.f", "arguments": {"at": {"next": {"next": {}}}}}, format)
    assert fits({"answer": {"at": {}, "say": {"$ref": "#"}}}, format)
    assert not fits({"call": "t.f", "arguments": {"at": {"next": {"other": 1}}}}, format)
    assert not fits({"call": "t.f", "arguments": {"at": {}, "default": 1}}, format)
    assert fits({"call": "team.paint", "arguments": {"colour": "red"}}, format)


def test_the_system_text_names_the_functions_and_history_is_written_as_the_model_would():
    called = Message(role="assistant", calls=(ToolCall(id="c1", function="team.paint", arguments={"colour": "red"}),))
    request = ModelRequest(
        messages=(
            Message(role="system", content="Be kind."),
            Message(role="user", content="one"),
            Message(role="assistant", content="first"),
            Message(role="user", content="two"),
            called,
            Message(role="tool", call="c1", function="team.paint", content="done"),
            Message(role="tool", call="c1", function="team.paint", content="no paint", error=True),
        ),
        functions=(PAINT, STOP),
    )
    messages = schema(request)["messages"]
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert "Paints the wall." in messages[0]["content"]
    assert '"team.stop"' in messages[0]["content"]
    assert messages[0]["content"].endswith("Be kind.")
    assert json.loads(messages[2]["content"]) == {"answer": "first"}
    assert json.loads(messages[4]["content"]) == {"call": "team.paint", "arguments": {"colour": "red"}}
    assert messages[5]["content"] == "Result of team.paint: done\n\nResult of team.paint: Error: no paint"


async def test_without_functions_the_answer_is_plain_text(server, answer, wire):
    server.says(wire.delta("stop", content='{"answer": "as it stands"}'))
    events = await answer(tools="schema")
    assert wire.text_of(events) == '{"answer": "as it stands"}'
    assert "response_format" not in server.seen[0].body
    assert server.seen[0].body["messages"] == [{"role": "user", "content": "hi"}]


async def test_without_functions_a_structured_answer_is_asked_for_as_such(server, answer, wire):
    server.says(wire.delta("stop", content='{"n":1}'))
    events = await answer(wire.ask_for(output_schema={"type": "object"}), tools="schema")
    assert wire.text_of(events) == '{"n":1}'
    assert server.seen[0].body["response_format"]["json_schema"]["schema"] == {"type": "object"}


# what comes


async def test_only_the_answers_text_is_streamed_decoded_and_as_it_grows(chosen, wire):
    events = await chosen("{", '"answer"', ': "Hel', "lo \\", "n\\u00", "fc\\ud83e", "\\udd80", '."', "}\n")
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["Hel", "lo ", "\n", "ü", "🦀", "."]
    assert wire.end_of(events).finish == "stop"


async def test_a_chosen_function_becomes_a_call_and_no_text(chosen, server, wire):
    events = await chosen('{"call": "team.', 'paint", "arguments": {"colour": "red"}}')
    (end,) = events
    assert [(c.function, c.arguments) for c in end.calls] == [("team.paint", {"colour": "red"})]
    assert (end.finish, len(end.calls[0].id)) == ("calls", 9)
    assert "tools" not in server.seen[0].body


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('{"arguments": {"colour": "red"}, "call": "team.paint"}', [("team.paint", {"colour": "red"})]),
        ('{"call": "team.stop"}', [("team.stop", {})]),
        ('{"call": "team.stop", "arguments": null}', [("team.stop", {})]),
        ('{"call": "team.stop", "arguments": "{\\"a\\":1}"}', [("team.stop", {"a": 1})]),
        ('\n {"call": "team.stop", "arguments": {}} and more', [("team.stop", {})]),
        ('{"call": "team.jump", "arguments": {}}', [("team.jump", {})]),
    ],
)
async def test_a_call_is_read_when_written_as(chosen, wire, text, calls):
    assert wire.calls_of(await chosen(text)) == calls


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Just text", "Just text"),
        (' "quoted"', '"quoted"'),
        ('{"why": 1, "answer": "late"}', "late"),
        ('{"answer": 5}', "5"),
        ('{"answer": {"a": [1, "}"]}}', '{"a": [1, "}"]}'),
        ('{"answer": "", "x": "not this"}', ""),
        ('{"answer": "a\\/b\\"c\\\\"}', 'a/b"c\\'),
        ('{"answer": "\\ud83e alone"}', "\ufffd alone"),
        ('{"why": "' + "x" * 500 + '", "answer": "far in"}', "far in"),
    ],
)
async def test_an_answer_is_read_when_written_as(chosen, wire, text, read):
    assert wire.text_of(await chosen(*text)) == read
    assert wire.text_of(await chosen(text)) == read


async def test_a_structured_answer_is_streamed_as_its_json(chosen, wire):
    events = await chosen('{"answer": {"n": [', '1, 2], "s": "a\\"}', '"}', "}", output_schema={"type": "object"})
    assert json.loads(wire.text_of(events)) == {"n": [1, 2], "s": 'a"}'}
    assert len(events) == 4


@pytest.mark.parametrize(
    "text", ['{"foo": 1}', '{"call": 5}', '{"call": "team.stop", "arguments": [1]}', '{"answer": "cut', '{"call": "te', ""]
)
async def test_what_is_neither_an_answer_nor_a_call_is_unavailable(chosen, text):
    with pytest.raises(TransomError) as caught:
        await chosen(text)
    assert caught.value.code == "unavailable"


async def test_an_answer_cut_by_the_token_limit_keeps_its_text_and_says_length(chosen, wire):
    events = await chosen('{"answer": "as far as', finish="length")
    assert (wire.text_of(events), wire.end_of(events).finish) == ("as far as", "length")


async def test_a_call_cut_by_the_token_limit_is_not_made(chosen, wire):
    events = await chosen('{"call": "team.paint", "arguments": {"col', finish="length")
    assert (wire.end_of(events).calls, wire.end_of(events).finish) == ((), "length")


@given(st.text(max_size=30), st.booleans(), st.lists(st.integers(0, 300), max_size=8))
def test_however_it_is_cut_the_text_is_the_decoded_answer(answer, ascii, cuts):
    text = json.dumps({"answer": answer}, ensure_ascii=ascii)
    marks = sorted(cut % (len(text) + 1) for cut in cuts)
    reader = SchemaAnswer(structured=False)
    given_out = [reader.feed(text[a:b]) for a, b in zip([0, *marks], [*marks, len(text)], strict=True)]
    assert "".join(given_out) + reader.end()[0] == answer


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(VALUES, st.sampled_from([None, 2]), st.lists(st.integers(0, 300), max_size=8))
def test_however_it_is_cut_a_structured_answer_is_its_json(answer, indent, cuts):
    text = json.dumps({"answer": answer, "more": [1]}, indent=indent)
    marks = sorted(cut % (len(text) + 1) for cut in cuts)
    reader = SchemaAnswer(structured=True)
    given_out = [reader.feed(text[a:b]) for a, b in zip([0, *marks], [*marks, len(text)], strict=True)]
    assert json.loads("".join(given_out) + reader.end()[0]) == answer
