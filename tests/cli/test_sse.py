"""The reader of event streams."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom_cli.sse import ServerEvent, SseParser

STREAM = (
    "\ufeff: a comment\n"
    'id: 1-t\nevent: text\ndata: {"a": "œ🦀"}\n\n'
    "id:2-t\r\ndata:two\r\ndata: lines\r\n\r\n"
    "data:  one space is taken\rretry: 5\r\r"
    ": ping\n\n"
    "id: 3\0x\ndata\n\n"
    "id\nevent: none\n\n"
    "data: last\n\n"
    "id: 9\ndata: never ended\n"
).encode()
EVENTS = [
    ServerEvent(event="text", data='{"a": "œ🦀"}', id="1-t"),
    ServerEvent(event="message", data="two\nlines", id="2-t"),
    ServerEvent(event="message", data=" one space is taken", id="2-t"),
    ServerEvent(event="message", data="", id="2-t"),
    ServerEvent(event="message", data="last", id=""),
]


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in pairwise(places)]


@given(st.lists(st.integers(0, 10_000)))
def test_events_are_the_same_however_the_bytes_come(cuts):
    parser = SseParser()
    found = [event for chunk in split(STREAM, cuts) for event in parser.feed(chunk)]
    assert [event for event in found if event.data or event.id] == [e for e in EVENTS if e.data or e.id]
    assert found == EVENTS


def test_byte_by_byte_each_event_comes_with_its_last_byte():
    parser = SseParser()
    ends = [at for at in range(len(STREAM)) if parser.feed(STREAM[at : at + 1])]
    assert len(ends) == len(EVENTS)
    assert ends[0] == STREAM.index(b"}\n\n") + 2


def test_an_event_that_broke_off_does_not_move_the_position():
    parser = SseParser()
    parser.feed(b"id: 1\ndata: a\n\nid: 2\ndata: b\n")
    assert parser.last_id == "1"


@given(st.lists(st.binary(max_size=40)))
def test_any_bytes_are_read_without_an_error(chunks):
    parser = SseParser()
    for chunk in chunks:
        parser.feed(chunk)


@pytest.mark.parametrize("chunk", [b"data: " + b"x" * 10, b"data: 1234\ndata: 1234\n"])
def test_what_is_too_long_is_refused(chunk):
    with pytest.raises(ValueError, match="more than 8"):
        SseParser(limit=8).feed(chunk)
