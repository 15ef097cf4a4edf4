"""Reasoning: under three names, in tags, and back to the provider."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom_hookspecs import Message, ToolCall
from transom_openai.think import ThinkSplitter

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
async def test_reasoning_is_read_and_kept_under_the_providers_name(server, answer, wire, name):
    server.says(wire.delta(None, **{name: "h"}), wire.delta(None, **{name: "m"}), wire.delta("stop", content="Hi"))
    events = await answer()
    assert (wire.reasoning_of(events), wire.text_of(events)) == ("hm", "Hi")
    assert wire.end_of(events).reasoning == {name: "hm"}


async def test_reasoning_details_are_joined_and_keep_what_else_they_say(server, answer, wire):
    detail = {"type": "reasoning.text", "index": 0, "format": "x", "signature": None}
    hidden = {"type": "reasoning.encrypted", "data": "AAAA", "index": 1}
    server.says(
        wire.delta(None, reasoning="h", reasoning_details=[{**detail, "text": "h"}]),
        wire.delta(None, reasoning="m", reasoning_details=[{**detail, "text": "m", "signature": "s"}, hidden]),
        wire.delta("stop", content="Hi"),
    )
    events = await answer()
    assert wire.reasoning_of(events) == "hm"
    whole = {"type": "reasoning.text", "index": 0, "format": "x", "signature": "s", "text": "hm"}
    assert wire.end_of(events).reasoning == {"reasoning": "hm", "reasoning_details": [whole, hidden]}


async def test_details_alone_are_reasoning(server, answer, wire):
    details = [{"type": "reasoning.summary", "summary": "one"}, {"type": "reasoning.text", "text": "two"}]
    server.says(wire.delta("stop", reasoning_details=details, content="Hi"))
    events = await answer()
    assert wire.reasoning_of(events) == "onetwo"
    assert wire.end_of(events).reasoning == {"reasoning_details": details}


async def test_reasoning_goes_back_after_a_result_and_only_within_its_turn(server, answer, wire):
    def called(id, reasoning):
        return Message(role="assistant", calls=(ToolCall(id=id, function="t.f", arguments={}),), reasoning=reasoning)

    server.says(wire.delta("stop", content="Hi"))
    await answer(
        wire.ask_for(
            wire.user("one"),
            called("c1", {"reasoning_content": "old"}),
            Message(role="tool", call="c1", content="1"),
            wire.user("two"),
            called("c2", {"reasoning_content": "new", "role": "system"}),
            Message(role="tool", call="c2", content="2"),
        )
    )
    sent = server.seen[0].body["messages"]
    assert "reasoning_content" not in sent[1]
    assert (sent[4]["reasoning_content"], sent[4]["role"]) == ("new", "assistant")


# tags


@pytest.mark.parametrize(
    ("contents", "reasoning", "text"),
    [
        (["<thi", "nk>weigh</thi", "nk>Hi"], "weigh", "Hi"),
        (["\n<think>\nweigh\n</think>\n\n", "\n", "Hi"], "\nweigh\n", "Hi"),
        (["<think>a </", "b</think>", "x</think>"], "a </b", "x</think>"),
        (["<think>a </"], "a </", ""),
        (["a </"], "", "a </"),
        (["<thin"], "", "<thin"),
        (["Hi <think>no</think>"], "", "Hi <think>no</think>"),
        (["<think></think>", "Hi"], "", "Hi"),
        (["  ", "Hi"], "", "  Hi"),
        ([" " * 300, "<think>late</think>"], "", " " * 300 + "<think>late</think>"),
    ],
)
async def test_tags_at_the_start_hold_reasoning(server, answer, wire, contents, reasoning, text):
    server.says(*(wire.delta(None, content=content) for content in contents), wire.delta("stop"))
    events = await answer()
    assert (wire.reasoning_of(events), wire.text_of(events)) == (reasoning, text)
    assert wire.end_of(events).reasoning == {}


async def test_tags_are_text_when_the_model_is_set_so(server, answer, wire):
    server.says(wire.delta("stop", content="<think>a</think>b"))
    assert wire.text_of(await answer(think_tags=False)) == "<think>a</think>b"


@given(st.lists(st.sampled_from(["<", "think", ">", "</", "a", " ", "<think>", "</think>", "</thi"]), max_size=12), st.data())
def test_however_tags_are_cut_the_parts_are_the_same(pieces, data):
    text = "".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))

    def split(parts):
        splitter = ThinkSplitter(enabled=True)
        out = [splitter.feed(part) for part in parts] + [splitter.flush()]
        return "".join(reasoning for reasoning, _ in out), "".join(text for _, text in out)

    whole = split([text])
    assert split([text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]) == whole
    assert split(text) == whole
