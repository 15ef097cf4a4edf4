"""The stream's bytes: however a server frames and the network cuts them, the events are the same."""

import itertools
import json
import logging

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transom_hookspecs import Message, ModelRequest, TextDelta, TransomError
from transom_openai import ModelSettings
from transom_openai.answer import Answer
from transom_openai.failures import Failures
from transom_openai.sse import ChunkReader

pytestmark = pytest.mark.anyio

HI = '{"choices":[{"index":0,"delta":{"content":"hi"}}]}'
STOP = '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
async def test_each_kind_of_line_end_separates_events(server, answer, wire, end):
    server.streams(f"data: {HI}{end}{end}data: {STOP}{end}{end}data: [DONE]{end}{end}".encode())
    events = await answer()
    assert wire.text_of(events) == "hi"
    assert wire.end_of(events).finish == "stop"


async def test_a_cut_between_cr_and_lf_ends_an_event_once(server, answer, wire):
    server.streams(f"data: {HI}\r".encode(), b"\n\r", f"\ndata: {HI}\r\n\r".encode(), b"\n", f"data: {STOP}\r\n\r\n".encode())
    assert wire.text_of(await answer()) == "hihi"


async def test_an_event_is_given_out_before_the_next_one_comes(server, model, wire):
    server.streams(f"data: {HI}\r\r".encode(), 30.0)
    stream = model().stream(wire.ask_for())
    assert await anext(stream) == TextDelta("hi")
    await stream.aclose()


@pytest.mark.parametrize(
    "text",
    [
        f"data:{HI}\n\ndata:{STOP}\n\n",
        f"\ufeffdata: {HI}\n\ndata: {STOP}\n\n",
        f": PROCESSING\n\ndata: {HI}\n\n:\n\ndata: {STOP}\n\n",
        f"event: message\nid: 4\nretry: 10\ndata: {HI}\n\ndata: {STOP}\n\n",
        f'data: {{"choices":\ndata: [{{"delta":{{"content":"hi"}}}}]}}\n\ndata: {STOP}\n\n',
        f"data: {HI}\ndata: {STOP}\n\n",
        f'data: {{"choices":[]}}\n\ndata: {HI}\n\ndata: {{"choices":null}}\n\ndata: {STOP}\n\n',
        f"data: {HI}\n\ndata: {STOP}",
        f"\n\n\n  data: {HI}\n\ndata: {STOP}\n\n",
    ],
    ids=[
        "no space after data:",
        "byte order mark",
        "comments",
        "other fields",
        "data over two lines",
        "two objects in one event",
        "empty choices",
        "no blank line at the end",
        "white space before",
    ],
)
async def test_the_stream_is_read_with(server, answer, wire, text):
    server.streams(text.encode())
    events = await answer()
    assert wire.text_of(events) == "hi"
    assert wire.end_of(events).finish == "stop"


@pytest.mark.parametrize("line", [": OPENROUTER PROCESSING", "keep-alive", '"ping"', "[1]", '{"choices":[{"delta"'])
async def test_a_line_that_is_no_object_is_skipped_with_a_warning(server, answer, wire, caplog, line):
    server.streams(f"data: {line}\n\ndata: {HI}\n\ndata: {line}\n\ndata: {STOP}\n\n".encode())
    with caplog.at_level(logging.WARNING, "transom_openai"):
        assert wire.text_of(await answer()) == "hi"
    assert ["skipped a data line" in message for message in caplog.messages] == [True]


async def test_characters_cut_by_the_network_stay_whole(server, answer, wire):
    chunk = '{"choices":[{"delta":{"content":"ь 你好🦀"},"finish_reason":"stop"}]}'
    server.streams(*(bytes([byte]) for byte in f"data: {chunk}\n\n".encode()))
    assert wire.text_of(await answer()) == "ь 你好🦀"


async def test_a_surrogate_pair_in_two_deltas_is_one_character(server, answer, wire):
    halves = [rf'data: {{"choices":[{{"delta":{{"content":"{half}"}}}}]}}' for half in (r"a\ud83e", r"\udd80b")]
    server.streams("\n\n".join([*halves, f"data: {STOP}", ""]).encode())
    assert [e.text for e in (await answer())[:-1]] == ["a", "🦀b"]


async def test_half_a_surrogate_pair_is_marked_as_damaged(server, answer, wire):
    server.streams(rb'data: {"choices":[{"delta":{"content":"a\ud83e"},"finish_reason":"stop"}]}', b"\n\n")
    assert wire.text_of(await answer()) == "a\ufffd"


async def test_text_and_finish_in_one_chunk_are_both_read(server, answer, wire):
    server.says(wire.delta("length", content="hi"))
    events = await answer()
    assert (wire.text_of(events), wire.end_of(events).finish) == ("hi", "length")


async def test_content_in_parts_is_joined(server, answer, wire):
    server.says(wire.delta("stop", content=[{"type": "text", "text": "h"}, {"type": "text", "text": "i"}, {"type": "other"}]))
    assert wire.text_of(await answer()) == "hi"


async def test_a_second_choice_is_left_out(server, answer, wire):
    server.says(
        {"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}}]}, json.loads(STOP)
    )
    assert wire.text_of(await answer()) == "yes"


async def test_nothing_after_done_counts_and_the_model_does_not_wait_for_the_close(server, answer, wire):
    server.streams(f"data: {HI}\n\ndata: {STOP}\n\ndata: [DONE]\n\n".encode(), f"data: {HI}\n\n".encode(), 30.0)
    assert wire.text_of(await answer()) == "hi"


async def test_the_connection_is_used_again_when_the_server_ends_its_response_in_time(server, model, wire):
    body = f"data: {HI}\n\ndata: {STOP}\n\ndata: [DONE]\n\n".encode()
    chunk = b"%x\r\n%s\r\n" % (len(body), body)
    server.replies.append([wire.head(200, Transfer_Encoding="chunked"), chunk, 0.01, b"0\r\n\r\n", wire.KEEP])
    asked = model()
    for _ in range(3):
        assert wire.text_of([event async for event in asked.stream(wire.ask_for())]) == "hi"
    assert (len(server.seen), server.connections) == (3, 1)


# how an answer may end


async def test_usage_alone_and_a_close_end_the_answer_with_finish_unknown(server, answer, wire):
    server.streams(
        wire.event(wire.delta(None, content="hi")),
        wire.event({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}),
    )
    end = wire.end_of(await answer())
    assert (end.finish, end.usage.input_tokens, end.usage.output_tokens, end.usage.estimated) == ("unknown", 9, 2, False)


async def test_a_finish_reason_and_a_cut_connection_end_the_answer(server, answer, wire):
    server.streams(f"data: {HI}\n\ndata: {STOP}\n\n".encode(), wire.CUT)
    end = wire.end_of(await answer())
    assert (end.finish, end.usage.estimated) == ("stop", True)


@pytest.mark.parametrize("ending", ["close", "reset", "chunked"])
async def test_a_stream_that_is_cut_in_the_text_is_unavailable(server, answer, wire, ending):
    if ending == "chunked":
        body = f"data: {HI}\n\n".encode()
        server.replies.append([wire.head(200, Transfer_Encoding="chunked"), b"%x\r\n%s\r\n" % (len(body), body)])
    else:
        server.streams(f"data: {HI}\n\n".encode(), *([wire.CUT] if ending == "reset" else []))
    with pytest.raises(TransomError) as caught:
        await answer(tries=1)
    assert caught.value.code == "unavailable"


async def test_usage_on_every_chunk_does_not_make_a_cut_answer_whole(server, answer, wire):
    usage = {"usage": {"prompt_tokens": 9, "completion_tokens": 1}}
    server.streams(wire.event({"choices": [], **usage}), wire.event({**wire.delta(None, content="hi"), **usage}))
    with pytest.raises(TransomError, match="cut before its end"):
        await answer(tries=1)


async def test_an_answer_of_nothing_is_no_answer(server, answer):
    server.streams(b"data: [DONE]\n\n")
    with pytest.raises(TransomError, match="empty"):
        await answer(tries=1)


async def test_an_empty_answer_that_says_stop_is_an_answer(server, answer, wire):
    server.says(wire.delta("stop", content=""))
    events = await answer()
    assert (len(events), wire.end_of(events).finish) == (1, "stop")


@pytest.mark.parametrize(
    ("said", "finish"),
    [("stop", "stop"), ("end_turn", "stop"), ("length", "length"), ("content_filter", "content_filter"), ("weary", "unknown")],
)
async def test_the_reason_of_the_end_is_translated(server, answer, wire, said, finish):
    server.says(wire.delta(said, content="hi"))
    assert wire.end_of(await answer()).finish == finish


# servers that do not stream


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream", "application/json; charset=utf-8"])
async def test_an_answer_in_one_document_is_read(server, answer, wire, content_type):
    document = {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    }
    raw = json.dumps(document, indent=1).encode()
    server.streams(raw[:7], raw[7:], content_type=content_type)
    events = await answer()
    assert wire.text_of(events) == "hi"
    assert wire.end_of(events).usage.input_tokens == 3


async def test_a_call_in_one_document_is_read(server, answer, wire):
    made = {"id": "c1", "type": "function", "function": {"name": "team__greet", "arguments": '{"a":1}'}}
    server.streams(json.dumps({"choices": [{"message": {"tool_calls": [made]}, "finish_reason": "tool_calls"}]}).encode())
    assert wire.calls_of(await answer()) == [("team.greet", {"a": 1})]


async def test_a_cut_document_is_unavailable(server, answer):
    server.streams(b'{"choices":[{"message":{"content":"hi', content_type="application/json")
    with pytest.raises(TransomError) as caught:
        await answer(tries=1)
    assert caught.value.code == "unavailable"


async def test_a_page_of_html_names_the_setting(server, answer):
    server.streams(b"<html>Welcome</html>", content_type="text/html")
    with pytest.raises(TransomError, match="`url` is not the base of an API") as caught:
        await answer()
    assert caught.value.code == "failed_precondition"


# bounds


@pytest.mark.parametrize(
    "part",
    [b"data: " + b"x" * (1 << 20), b": " + b"x" * (1 << 20), (b"data: " + b"x" * 1000 + b"\n") * 1100],
    ids=["data", "comment", "event"],
)
async def test_a_line_or_event_over_a_mebibyte_is_an_error(server, answer, part):
    server.streams(part, b"\n\n")
    with pytest.raises(TransomError, match="more than 1 MiB") as caught:
        await answer()
    assert caught.value.code == "failed_precondition"


async def test_an_answer_over_eight_mebibytes_is_an_error(server, answer, wire):
    piece = wire.event(wire.delta(None, content="x" * 1_000_000))
    server.streams(*[piece] * 9)
    with pytest.raises(TransomError, match="more than 8 MiB"):
        await answer()


async def test_a_document_over_nine_mebibytes_is_an_error(server, answer):
    server.streams(b'{"a":"' + b"x" * (9 << 20), content_type="application/json")
    with pytest.raises(TransomError, match="more than 9 MiB"):
        await answer()


async def test_a_response_that_says_nothing_without_end_is_an_error(server, answer, monkeypatch):
    monkeypatch.setattr("transom_openai.client.RESPONSE_LIMIT", 1 << 20)
    server.streams(*[b": still here\n" * 10_000] * 10)
    with pytest.raises(TransomError, match="the server sent more than 1 MiB"):
        await answer()


async def test_silence_is_a_timeout_and_a_comment_is_no_silence(server, answer, wire):
    server.streams(b": wait\n\n", 0.15, b": wait\n\n", 0.15, f"data: {HI}\n\n".encode(), 30.0)
    with pytest.raises(TransomError) as caught:
        await answer(timeout=0.25)
    assert caught.value.code == "deadline_exceeded"


# every way of cutting

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
CHUNKS = st.lists(
    st.one_of(
        st.builds(lambda text: {"choices": [{"index": 0, "delta": {"content": text}}]}, TEXT),
        st.builds(lambda text: {"choices": [{"index": 0, "delta": {"reasoning_content": text}}]}, TEXT),
        st.builds(
            lambda n, text: {
                "choices": [
                    {"delta": {"tool_calls": [{"index": n, "id": f"c{n}", "function": {"name": "f", "arguments": text}}]}}
                ]
            },
            st.integers(0, 2),
            st.sampled_from(['{"a":1}', '{"b":"é"}', ""]),
        ),
        st.just({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}),
    ),
    max_size=6,
)


def read_in(pieces):
    """The events of an answer that came in these pieces."""
    request = ModelRequest(messages=(Message(role="user", content="hi"),))
    reader = ChunkReader()
    state = Answer(request, ModelSettings(url="http://h/v1", model="m"), Failures(remedy="", key=""), lambda: 1)
    events = [event for piece in pieces for chunk in reader.feed(piece) for event in state.feed(chunk)]
    events += [event for chunk in reader.close() for event in state.feed(chunk)]
    try:
        return plain([*events, *state.close(done=reader.done)])
    except TransomError as error:
        return [*events, error.message]


def plain(events):
    """The events, without the IDs that are made up."""
    return [*events[:-1], [(c.function, c.arguments) for c in events[-1].calls], events[-1].finish, events[-1].reasoning]


def framed(chunks, end, space, noise):
    lines = []
    for chunk in chunks:
        lines += [noise, f"data:{space}{json.dumps(chunk, ensure_ascii=False)}", ""]
    return end.join([*lines, f"data:{space}" + STOP, "", f"data:{space}[DONE]", "", ""]).encode()


@given(
    chunks=CHUNKS,
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    space=st.sampled_from(["", " "]),
    noise=st.sampled_from([":", "event: x", "data: : no", "id: 1"]),
    cuts=st.lists(st.integers(0, 2000), max_size=12),
)
def test_any_cut_of_the_bytes_gives_the_same_events(chunks, end, space, noise, cuts):
    raw = framed(chunks, end, space, noise)
    whole = read_in([raw])
    marks = [0, *sorted(cut % (len(raw) + 1) for cut in cuts), len(raw)]
    assert read_in([raw[a:b] for a, b in itertools.pairwise(marks)]) == whole
    assert read_in([bytes([byte]) for byte in raw]) == whole


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(1, 400), min_size=1, max_size=6))
async def test_any_cut_of_the_packets_gives_the_same_events(server, answer, wire, cuts):
    chunks = [
        wire.delta(None, reasoning_content="hm"),
        wire.delta(None, content="你好 "),
        wire.delta(None, content="🦀"),
        wire.call("team__greet", '{"to":"', index=0, id="c1"),
        wire.call(None, 'Ünal"}', index=0),
    ]
    raw = framed(chunks, "\r\n", " ", ":")
    marks = [0, *sorted(cut % len(raw) for cut in cuts), len(raw)]
    server.replies[:] = [[wire.head(), *(raw[a:b] for a, b in itertools.pairwise(marks))]]
    assert plain(await answer()) == read_in([raw])
