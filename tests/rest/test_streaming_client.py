"""The in-process client: what is sent is there at once, who leaves is noticed, who does not read is waited for."""

import anyio
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom_testing.streaming import AppHung, SseEvent, SseParser, sse, stream_client

pytestmark = pytest.mark.anyio


def start(status=200, headers=()):
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def body(data=b"", more=True):
    return {"type": "http.response.body", "body": data, "more_body": more}


async def test_a_chunk_is_there_when_the_application_sends_it():
    go = anyio.Event()

    async def app(scope, receive, send):
        await send(start(201, [(b"x-one", b"1")]))
        await send(body(b"a"))
        await go.wait()
        await send(body(b"b", more=False))

    async with stream_client(app) as client, client.stream("GET", "/") as response:
        chunks = response.aiter_raw()
        assert (response.status_code, response.headers["x-one"], await anext(chunks)) == (201, "1", b"a")
        go.set()
        assert [chunk async for chunk in chunks] == [b"b"]


async def test_the_application_sees_the_request():
    seen = {}

    async def app(scope, receive, send):
        seen.update(scope)
        while True:
            message = await receive()
            seen.setdefault("body", []).append(message["body"])
            if not message["more_body"]:
                break
        await send(start())
        await send(body(b"ok", more=False))

    async def parts():
        yield b"1"
        yield b"2"

    async with stream_client(app, headers={"X-Mine": "m"}) as client:
        response = await client.post("/a%20b/%C3%BC%2F?q=%20x", content=parts())
    assert response.content == b"ok"
    assert (seen["method"], seen["path"], seen["raw_path"], seen["query_string"]) == (
        "POST",
        "/a b/ü/",
        b"/a%20b/%C3%BC%2F",
        b"q=%20x",
    )
    assert (b"x-mine", b"m") in seen["headers"]
    assert b"".join(seen["body"]) == b"12"


async def test_request_and_response_can_stream_at_the_same_time():
    async def echo(scope, receive, send):
        await send(start())
        while (message := await receive())["more_body"]:
            await send(body(message["body"]))
        await send(body(more=False))

    got = []

    async def parts():
        yield b"1"
        yield b"2"

    async with stream_client(echo) as client, client.stream("POST", "/", content=parts()) as response:
        got = [chunk async for chunk in response.aiter_raw()]
    assert got == [b"1", b"2"]


async def test_closing_early_is_a_disconnect_and_waits_for_the_application_to_end():
    ended = []

    async def app(scope, receive, send):
        await send(start())
        await send(body(b"a"))
        while (await receive())["type"] != "http.disconnect":
            pass
        await send(body(b"to nobody"))
        await anyio.sleep(0.01)
        ended.append(1)

    async with stream_client(app) as client:
        async with client.stream("GET", "/"):
            assert ended == []
        assert ended == [1]


async def test_a_client_that_is_cancelled_before_the_head_is_a_disconnect_too():
    ended = []

    async def app(scope, receive, send):
        while (await receive())["type"] != "http.disconnect":
            pass
        ended.append(1)

    async with stream_client(app) as client:
        with anyio.move_on_after(0.01):
            await client.get("/")
        assert ended == [1]


async def test_an_application_that_goes_on_after_a_disconnect_is_cancelled_and_named():
    async def app(scope, receive, send):
        await send(start())
        await anyio.sleep_forever()

    async with stream_client(app, grace=0.01) as client:
        with pytest.raises(AppHung):
            async with client.stream("GET", "/"):
                pass


async def test_the_application_waits_while_the_reader_does_not_read():
    sent = []

    async def app(scope, receive, send):
        await send(start())
        for n in range(10):
            await send(body(b"x" * 100))
            sent.append(n)
        await send(body(more=False))

    async with stream_client(app, bound=300) as client, client.stream("GET", "/") as response:
        await anyio.sleep(0.01)
        assert len(sent) == 3
        chunks = response.aiter_raw()
        await anext(chunks)
        await anyio.sleep(0.01)
        assert len(sent) == 4
        assert len([chunk async for chunk in chunks]) == 9


async def test_a_waiting_application_is_let_go_when_the_reader_leaves():
    ended = []

    async def app(scope, receive, send):
        await send(start())
        for _ in range(10):
            await send(body(b"x" * 100))
        ended.append(1)

    async with stream_client(app, bound=100) as client:
        async with client.stream("GET", "/"):
            await anyio.sleep(0.01)
        assert ended == [1]


async def test_what_the_application_raises_is_raised_to_its_client():
    async def before(scope, receive, send):
        raise LookupError("before")

    async def amid(scope, receive, send):
        await send(start())
        await send(body(b"a"))
        raise LookupError("amid")

    async def after(scope, receive, send):
        await send(start())
        await send(body(b"a", more=False))
        raise LookupError("after")

    for app in (before, amid, after):
        async with stream_client(app) as client:
            with pytest.raises(LookupError, match=app.__name__):
                await client.get("/")


async def test_an_application_that_breaks_the_contract_is_told_so():
    async def silent(scope, receive, send):
        pass

    async def unfinished(scope, receive, send):
        await send(start())

    async def twice(scope, receive, send):
        await send(start())
        await send(start())

    async def headless(scope, receive, send):
        await send(body())

    async def too_much(scope, receive, send):
        await send(start())
        await send(body(more=False))
        await send(body())

    for app, words in (
        (silent, "without a response"),
        (unfinished, "complete"),
        (twice, "turn"),
        (headless, "turn"),
        (too_much, "turn"),
    ):
        async with stream_client(app) as client:
            with pytest.raises(RuntimeError, match=words):
                await client.get("/")


async def test_many_requests_at_once_do_not_mix():
    async def app(scope, receive, send):
        await send(start())
        for _ in range(3):
            await anyio.sleep(0)
            await send(body(scope["path"].encode()))
        await send(body(more=False))

    async with stream_client(app) as client:
        got = {}

        async def ask(n):
            got[n] = (await client.get(f"/{n}")).text

        async with anyio.create_task_group() as tasks:
            for n in range(20):
                tasks.start_soon(ask, n)
    assert got == {n: f"/{n}" * 3 for n in range(20)}


async def test_sse_gives_an_event_when_it_is_whole():
    async def app(scope, receive, send):
        await send(start(200, [(b"content-type", b"text/event-stream")]))
        for part in (b"data: 1\n", b"\nda", b"ta: 2\n\ndata: cut off\n"):
            await send(body(part))
        await send(body(more=False))

    async with stream_client(app) as client, client.stream("GET", "/") as response:
        assert [e.data async for e in sse(response)] == ["1", "2"]
    assert isinstance(response, httpx.Response)


def event(data, id="", event="message"):
    return SseEvent(id=id, event=event, data=data)


STREAMS = {
    "one line": (b"data: a\n\n", [event("a")]),
    "two lines": (b"data: a\ndata: b\n\n", [event("a\nb")]),
    "no space": (b"data:a\n\n", [event("a")]),
    "only one space is taken": (b"data:  a\n\n", [event(" a")]),
    "no colon": (b"data\n\n", [event("")]),
    "two empty lines of data": (b"data\ndata\n\n", [event("\n")]),
    "CRLF": (b"id: 1\r\ndata: a\r\n\r\ndata: b\r\n\r\n", [event("a", "1"), event("b", "1")]),
    "CR": (b"data: a\r\rdata: b\r\r", [event("a"), event("b")]),
    "mixed": (b"data: a\n\r\ndata: b\r\n\r", [event("a"), event("b")]),
    "comments": (b": hello\n\n:\n\ndata: a\n: between\ndata: b\n\n", [event("a\nb")]),
    "types": (b"event: x\ndata: a\n\ndata: b\n\n", [event("a", event="x"), event("b")]),
    "a type without data": (b"event: x\n\ndata: b\n\n", [event("b")]),
    "an id lasts": (b"id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", [event("a", "1"), event("b", "1"), event("c")]),
    "an id without data counts": (b"id: 2\n\ndata: a\n\n", [event("a", "2")]),
    "an id with NUL does not": (b"id: 1\n\nid: 2\0\ndata: a\n\n", [event("a", "1")]),
    "a BOM": (b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", [event("a")]),
    "unknown fields": (b"data: a\nDATA: b\nfoo\n\n", [event("a")]),
    "broken UTF-8": (b"data: \xff\xc3\n\n", [event("\ufffd\ufffd")]),
    "an unfinished event": (b"data: a\n\ndata: b\n", [event("a")]),
    "colons in data": (b"data: a: b\n\n", [event("a: b")]),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_read_by_the_standard_whole_or_byte_by_byte(name):
    stream, events = STREAMS[name]
    assert SseParser().feed(stream) == events
    parser = SseParser()
    assert [e for byte in stream for e in parser.feed(bytes([byte]))] == events


def test_a_cr_ends_a_line_at_once_and_its_lf_makes_no_other():
    parser = SseParser()
    assert parser.feed(b"data: a\r\n\r") == [event("a")]
    assert parser.feed(b"\ndata: b\r\n") == []
    assert parser.feed(b"\r\n") == [event("b")]


def test_the_reconnection_time_is_taken_from_digits_alone():
    parser = SseParser()
    parser.feed(b"retry: 1500\nretry: x\nretry: -1\nretry:\n\n")
    assert (parser.retry, parser.last_id) == (1500, "")


line = st.text(st.characters(exclude_characters="\r\n\ufeff", exclude_categories=["Cs"]), max_size=8)
events = st.builds(
    SseEvent,
    id=st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=5),
    event=line.filter(bool),
    data=st.lists(line, min_size=1, max_size=3).map("\n".join),
)


@given(st.lists(events, max_size=6), st.sampled_from(["\n", "\r", "\r\n"]), st.lists(st.integers(0, 400), max_size=8))
def test_any_events_in_any_line_ends_cut_anywhere_are_read_back(sent, end, cuts):
    lines = []
    for e in sent:
        lines += [f"id: {e.id}", f"event: {e.event}", *(f"data: {part}" for part in e.data.split("\n")), ": comment", ""]
    stream = "".join(f"{text}{end}" for text in lines).encode()
    parser, got, at = SseParser(), [], 0
    for cut in sorted(cuts):
        got += parser.feed(stream[at:cut])
        at = max(at, cut)
    got += parser.feed(stream[at:])
    assert got == sent
