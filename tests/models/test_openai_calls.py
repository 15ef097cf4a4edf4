"""A model's calls, from the fragments that servers send."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom_hookspecs import Message, ToolCall, TransomError
from transom_openai.jsontext import decode_whole
from transom_openai.names import CallIds, FunctionNames, to_wire

pytestmark = pytest.mark.anyio


async def test_parallel_calls_that_all_have_index_0_stay_apart(server, answer, wire):
    server.says(
        wire.call("f", '{"p":1}', index=0, id="c1"), wire.call("f", '{"p":2}', index=0, id="c2"), wire.delta("tool_calls")
    )
    end = wire.end_of(await answer())
    assert [(c.id, c.arguments) for c in end.calls] == [("c1", {"p": 1}), ("c2", {"p": 2})]
    assert end.finish == "calls"


async def test_fragments_without_index_or_id_go_to_the_call_that_began_last(server, answer, wire):
    server.says(
        wire.call("f", "", id="A"),
        wire.call(None, '{"k":1}'),
        wire.call("g", "", id="B"),
        wire.call(None, '{"k":2}'),
        wire.delta("tool_calls"),
    )
    assert wire.calls_of(await answer()) == [("f", {"k": 1}), ("g", {"k": 2})]


async def test_interleaved_fragments_go_by_their_index(server, answer, wire):
    server.says(
        wire.call("f", '{"a":', index=0, id="c1"),
        wire.call("g", '{"b":', index=1, id="c2"),
        wire.call(None, "1}", index=0),
        wire.call(None, "2}", index=1),
        wire.delta("tool_calls"),
    )
    assert wire.calls_of(await answer()) == [("f", {"a": 1}), ("g", {"b": 2})]


async def test_interleaved_fragments_without_index_go_by_their_id(server, answer, wire):
    server.says(
        wire.call("f", '{"a":', id="c1"),
        wire.call("g", '{"b":', id="c2"),
        wire.call(None, "1}", id="c1"),
        wire.call(None, "2}", id="c2"),
    )
    assert wire.calls_of(await answer()) == [("f", {"a": 1}), ("g", {"b": 2})]


async def test_an_id_and_name_repeated_on_every_fragment_are_one_call(server, answer, wire):
    server.says(*(wire.call("f", part, index=0, id="c1") for part in ('{"a"', ":1", "}", "")), wire.delta("tool_calls"))
    assert wire.calls_of(await answer()) == [("f", {"a": 1})]


async def test_whole_calls_without_index_and_id_are_calls_of_their_own(server, answer, wire):
    server.says(
        wire.call("f", '{"a":1}'),
        wire.call("f", '{"a":2}'),
        wire.call("g", '{"a":3}', index=0),
        wire.call("g", '{"a":4}', index=0),
    )
    assert wire.calls_of(await answer()) == [("f", {"a": 1}), ("f", {"a": 2}), ("g", {"a": 3}), ("g", {"a": 4})]


async def test_several_calls_in_one_chunk_are_read_in_order(server, answer, wire):
    calls = [{"index": i, "id": f"c{i}", "function": {"name": "f", "arguments": f'{{"n":{i}}}'}} for i in range(3)]
    server.says(wire.delta("tool_calls", tool_calls=calls))
    assert [arguments for _, arguments in wire.calls_of(await answer())] == [{"n": 0}, {"n": 1}, {"n": 2}]


async def test_calls_make_a_tool_turn_whatever_the_finish_reason_says(server, answer, wire):
    server.says(wire.call("f", "{}", index=0, id=""), wire.delta("stop", content=""))
    end = wire.end_of(await answer())
    assert end.finish == "calls"
    assert len(end.calls[0].id) == 9


@pytest.mark.parametrize("arguments", ["", " ", "null", None, {}], ids=["empty", "blank", "null", "missing", "object"])
async def test_no_arguments_count_as_an_empty_object(server, answer, wire, arguments):
    server.says(wire.call("now", arguments, index=0, id="c1"), wire.delta("tool_calls"))
    assert wire.calls_of(await answer()) == [("now", {})]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ({"a": 1}, {"a": 1}),
        ('"{\\"a\\":1}"', {"a": 1}),
        ('{"a":"x\ny"}', {"a": "x\ny"}),
        (r'{"a":"\ud83e\udd80"}', {"a": "🦀"}),
    ],
    ids=["an object", "encoded twice", "a raw line end", "an escaped pair"],
)
async def test_arguments_are_read_when_written_as(server, answer, wire, written, read):
    server.says(wire.call("f", written, index=0, id="c1"), wire.delta("tool_calls"))
    assert wire.calls_of(await answer()) == [("f", read)]


@pytest.mark.parametrize("arguments", ['{"path":"/tm', "[1]", "7", "{'a':1}", '{"a":NaN}', '{"a":1e999}', "[" * 5000])
async def test_arguments_that_are_no_object_fail_the_answer_and_name_the_call(server, answer, wire, arguments):
    server.says(wire.call("team__greet", arguments, index=0, id="c1"), wire.delta("tool_calls"))
    with pytest.raises(TransomError, match="'team__greet' are no JSON object") as caught:
        await answer(tries=1)
    assert caught.value.code == "unavailable"


async def test_arguments_that_are_no_object_are_asked_for_again(server, answer, wire):
    server.says(wire.call("f", '{"a":', index=0, id="c1"), wire.delta("tool_calls"))
    server.says(wire.call("f", '{"a":1}', index=0, id="c1"), wire.delta("tool_calls"))
    assert wire.calls_of(await answer()) == [("f", {"a": 1})]
    assert len(server.seen) == 2


async def test_a_finish_for_calls_without_one_is_asked_again_and_then_fails(server, answer, wire):
    server.says(wire.delta("tool_calls"))
    with pytest.raises(TransomError, match="ends for calls and has none") as caught:
        await answer(tries=2)
    assert caught.value.code == "unavailable"
    assert len(server.seen) == 2


async def test_arguments_without_a_call_are_not_lost_in_silence(server, answer, wire):
    server.says(wire.call(None, '{"a":1}'), wire.delta("tool_calls"))
    with pytest.raises(TransomError, match="names no function"):
        await answer(tries=1)


@pytest.mark.parametrize("ending", ["close", "reset"])
async def test_a_connection_cut_in_a_call_never_yields_the_half_call(server, answer, wire, ending):
    server.streams(wire.event(wire.call("f", '{"path":"/tm', index=0, id="c1")), *([wire.CUT] if ending == "reset" else []))
    with pytest.raises(TransomError) as caught:
        await answer(tries=1)
    assert caught.value.code == "unavailable"


async def test_a_call_cut_by_the_token_limit_is_left_out_and_the_whole_one_kept(server, answer, wire):
    cut = wire.call("g", '{"path":"/tm', index=1, id="c2")
    server.says(wire.call("f", '{"a":1}', index=0, id="c1"), cut, wire.delta("length"))
    assert wire.calls_of(await answer()) == [("f", {"a": 1})]


@pytest.mark.parametrize("arguments", ["", '{"path":"/tm'])
async def test_an_answer_whose_only_call_was_cut_by_the_token_limit_says_length(server, answer, wire, arguments):
    server.says(wire.call("f", arguments, index=0, id="c1"), wire.delta("length"))
    end = wire.end_of(await answer())
    assert (end.calls, end.finish) == ((), "length")


async def test_calls_of_a_filtered_answer_are_not_to_be_made(server, answer, wire):
    server.says(wire.call("f", "{}", index=0, id="c1"), wire.delta("content_filter"))
    end = wire.end_of(await answer())
    assert (end.calls, end.finish) == ((), "content_filter")


async def test_empty_lists_of_calls_are_no_tool_turn(server, answer, wire):
    noise = {"content": "", "tool_calls": []}
    server.says(
        wire.delta(None, **{**noise, "reasoning_content": "a"}),
        wire.delta(None, **{**noise, "reasoning_content": "a"}),
        wire.delta("stop", content="Hello", reasoning_content="", tool_calls=[]),
    )
    events = await answer()
    assert (wire.reasoning_of(events), wire.text_of(events)) == ("aa", "Hello")
    assert (wire.end_of(events).finish, wire.end_of(events).calls) == ("stop", ())


async def test_too_many_calls_are_an_error(server, answer, wire):
    server.says(*(wire.call("f", "{}", index=i, id=f"c{i}") for i in range(257)))
    with pytest.raises(TransomError, match="more than 256 calls"):
        await answer()


# names and IDs


async def test_the_models_own_ids_are_used_when_they_are_new(server, answer, wire):
    server.says(wire.call("f", "{}", index=0, id="call_0"), wire.call("f", "{}", index=1, id="call_1"))
    assert [c.id for c in wire.end_of(await answer()).calls] == ["call_0", "call_1"]


async def test_an_id_that_the_conversation_or_the_answer_has_used_is_replaced(server, answer, wire):
    earlier = Message(role="assistant", calls=(ToolCall(id="call_0", function="t.f", arguments={}),))
    request = wire.ask_for(wire.user(), earlier, Message(role="tool", call="call_0", function="t.f", content="1"))
    server.says(*(wire.call("f", "{}", index=i, id=id) for i, id in enumerate(["call_0", "call_1", "call_1"])))
    ids = [c.id for c in wire.end_of(await answer(request)).calls]
    assert ids[1] == "call_1"
    assert len({"call_0", *ids}) == 4


@pytest.mark.parametrize("id", ["a b", "é", "x" * 65, "a\n"])
async def test_an_id_that_is_not_visible_ascii_of_64_is_replaced(server, answer, wire, id):
    server.says(wire.call("f", "{}", index=0, id=id), wire.delta("tool_calls"))
    made = wire.end_of(await answer()).calls[0].id
    assert made.isalnum()
    assert len(made) == 9


@given(st.lists(st.sampled_from(["", "a", "b", "call_0"]) | st.text(max_size=70), max_size=20), st.sets(st.sampled_from("ab")))
def test_no_two_calls_share_an_id(proposed, used):
    ids = CallIds(used)
    taken = [ids.take(id) for id in proposed]
    assert len(set(taken) | used) == len(taken) + len(used)
    assert all(id.isascii() and id.isprintable() and " " not in id and 1 <= len(id) <= 64 for id in taken)


async def test_an_unknown_function_is_named_as_the_model_meant_it(server, answer, wire):
    server.says(wire.call("team__shout", "{}", index=0, id="c1"), wire.delta("tool_calls"))
    assert wire.calls_of(await answer()) == [("team.shout", {})]


@pytest.mark.parametrize("name", ["team.greet", "a-b.c_d", "x", "team." + "f" * 57])
def test_an_ordinary_name_is_only_written_with_two_underscores(name):
    assert to_wire(name) == name.replace(".", "__")


@pytest.mark.parametrize(
    "name", ["billing.refund/v2", "über.x", "team." + "f" * 90, "a__b.c", "a.b__c", "a_.b", "a._b", "a.b.", ""]
)
def test_every_other_name_gets_a_digest(name):
    wired = to_wire(name)
    assert len(wired) <= 64
    assert "___" in wired
    assert wired.isascii()


@given(st.sets(st.text(st.sampled_from("ab_-./é"), max_size=80), max_size=30))
def test_names_are_unique_fit_and_lead_back(names):
    wired = {to_wire(name) for name in names}
    back = FunctionNames(names)
    assert {back.from_wire(wire) for wire in wired} == names
    assert all(1 <= len(wire) <= 64 and not set(wire) - set("ab_-0123456789cdef") for wire in wired)


@given(st.recursive(st.none() | st.booleans() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_whatever_is_json_is_read_as_it_is(value):
    text = json.dumps(value)
    decoded = decode_whole(text)
    assert json.loads(json.dumps(decoded)) == json.loads(text)
