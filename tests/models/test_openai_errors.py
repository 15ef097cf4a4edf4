"""What a server refuses or breaks, and what is tried again."""

import asyncio
import email.utils
import logging
import time
import traceback

import anyio
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom_hookspecs import TextDelta, TransomError
from transom_openai import ModelSettings, OpenaiModel
from transom_openai.failures import backoff, retry_after

pytestmark = pytest.mark.anyio

KEY = "sk-live-0123456789abcdef"


@pytest.fixture
def key(monkeypatch):
    monkeypatch.setenv("SOME_KEY", KEY)
    return KEY


async def fails(answer, **settings):
    with pytest.raises(TransomError) as caught:
        await answer(**settings)
    assert type(caught.value) is TransomError
    return caught.value


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "invalid_argument"),
        (401, "failed_precondition"),
        (402, "failed_precondition"),
        (403, "failed_precondition"),
        (404, "failed_precondition"),
        (413, "invalid_argument"),
        (418, "failed_precondition"),
        (422, "invalid_argument"),
        (429, "resource_exhausted"),
        (500, "unavailable"),
        (503, "unavailable"),
        (529, "unavailable"),
    ],
)
async def test_a_status_has_its_code_and_the_providers_text(server, answer, status, code):
    server.refuses(status, {"error": {"message": "it was too late", "type": "t", "code": "late"}})
    error = await fails(answer, tries=1)
    assert error.code == code
    assert error.message.startswith(f"model 'm': the server answered HTTP {status}: it was too late")
    assert error.details == {"status": status, "provider_code": "late"}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"error": "plain"}, "plain"),
        ({"detail": "fast"}, "fast"),
        ({"object": "error", "message": "flat", "code": 400}, "flat"),
        ({"detail": [{"loc": ["body", "top_k"], "msg": "extra"}]}, "top_k"),
        ([{"error": {"message": "listed"}}], "no reason given"),
        (b"not json at all", "not json at all"),
        (b"\xff\xfe", "\ufffd"),
        (b"", "no reason given"),
    ],
)
async def test_the_providers_text_is_found_in_any_shape(server, answer, body, text):
    server.refuses(400, body)
    assert text in (await fails(answer)).message


async def test_a_refused_key_names_its_variable(server, answer, key):
    server.refuses(401, {"error": {"message": f"Incorrect API key: {KEY}"}})
    error = await fails(answer, api_key_env="SOME_KEY")
    assert error.message.endswith("Incorrect API key: [redacted]; check the key in SOME_KEY")


async def test_a_redirect_is_not_followed(server, answer):
    server.refuses(307, {}, Location="http://elsewhere.test/")
    error = await fails(answer)
    assert error.code == "failed_precondition"
    assert "a redirect to http://elsewhere.test/; correct `url`" in error.message
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ({"error": {"message": "quota exceeded", "code": 429}}, "resource_exhausted"),
        ({"error": {"message": "quota exceeded", "code": "429"}}, "resource_exhausted"),
        ({"error": {"message": "quota exceeded", "type": "insufficient_quota"}}, "resource_exhausted"),
        ({"error": {"message": "quota exceeded", "code": "rate_limit_exceeded"}}, "resource_exhausted"),
        ({"error": {"message": "quota exceeded", "type": "invalid_request_error"}}, "invalid_argument"),
        ({"error": {"message": "quota exceeded", "type": "authentication_error"}}, "failed_precondition"),
        ({"error": {"message": "quota exceeded", "type": "overloaded_error"}}, "unavailable"),
        ({"error": {"message": "quota exceeded", "code": 502}}, "unavailable"),
        ({"error": "quota exceeded"}, "unavailable"),
        ({"object": "error", "message": "quota exceeded", "code": 400}, "invalid_argument"),
        ({"choices": [{"delta": {}, "error": {"message": "quota exceeded", "code": 429}}]}, "resource_exhausted"),
    ],
)
async def test_an_error_inside_a_stream_is_the_answers_error(server, answer, wire, sent, code):
    server.says(sent)
    error = await fails(answer, tries=1)
    assert (error.code, "quota exceeded" in error.message) == (code, True)


async def test_an_error_after_text_fails_the_answer_without_another_try(server, model, wire):
    server.says(wire.delta(None, content="Hi"), {"error": {"message": "gone", "code": 503}})
    stream = model().stream(wire.ask_for())
    assert await anext(stream) == TextDelta("Hi")
    with pytest.raises(TransomError, match="gone"):
        await anext(stream)
    assert len(server.seen) == 1


async def test_a_finish_reason_of_error_is_an_error(server, answer, wire):
    server.says(wire.delta("error", content=""))
    assert (await fails(answer, tries=1)).code == "unavailable"


# tries


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_passing_failure_is_tried_again(server, answer, wire, status):
    server.refuses(status)
    server.refuses(status)
    server.says(wire.delta("stop", content="Hi"))
    assert wire.text_of(await answer()) == "Hi"
    assert len(server.seen) == 3


async def test_an_error_in_the_stream_before_any_text_is_tried_again(server, answer, wire):
    server.says({"error": {"message": "busy", "code": 429}})
    server.says(wire.delta("stop", content="Hi"))
    assert wire.text_of(await answer()) == "Hi"


async def test_a_lost_connection_is_tried_again(server, answer, wire):
    server.replies.append([wire.CUT])
    server.says(wire.delta("stop", content="Hi"))
    assert wire.text_of(await answer()) == "Hi"


@pytest.mark.parametrize("status", [400, 401, 404])
async def test_what_trying_again_cannot_help_is_asked_once(server, answer, status):
    server.refuses(status)
    await fails(answer, stream_options=False)
    assert len(server.seen) == 1


async def test_the_tries_are_counted(server, answer):
    server.refuses(503)
    assert (await fails(answer, tries=4)).code == "unavailable"
    assert len(server.seen) == 4


async def test_nobody_listening_is_unavailable(client, monkeypatch, wire):
    monkeypatch.setattr("transom_openai.client.backoff", lambda attempt: 0.0)
    model = OpenaiModel("m", ModelSettings(url="http://127.0.0.1:9/v1", model="x"), lambda: client)
    with pytest.raises(TransomError, match="the connection failed") as caught:
        await anext(model.stream(wire.ask_for()))
    assert caught.value.code == "unavailable"


async def test_a_timeout_is_a_deadline_and_asked_once(server, answer):
    server.replies.append([30.0])
    assert (await fails(answer, timeout=0.1)).code == "deadline_exceeded"
    assert len(server.seen) == 1


async def test_a_retry_after_is_waited_for(server, answer, wire):
    server.refuses(429, Retry_After="0.2")
    server.says(wire.delta("stop", content="Hi"))
    began = time.monotonic()
    await answer()
    assert time.monotonic() - began >= 0.2


async def test_the_wait_for_another_try_can_be_cancelled(server, model, wire):
    server.refuses(429, Retry_After="99999999")
    with anyio.move_on_after(0.3) as scope:
        await anext(model().stream(wire.ask_for()))
    assert scope.cancelled_caught


async def test_a_cancelled_answer_hangs_up(server, model, wire):
    server.streams(wire.event(wire.delta(None, content="Hi")), *[0.05, b": more\n\n"] * 100)
    stream = model().stream(wire.ask_for())
    assert await anext(stream) == TextDelta("Hi")
    await stream.aclose()
    await asyncio.wait_for(server.hung_up.wait(), 3)


NOW = 1_788_955_190.0  # ten seconds before the date below


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("Wed, 09 Sep 2026 12:00:00 GMT", 10.0),
        ("Wed, 09 Sep 2026 12:00:00 -0000", 10.0),
        ("Wed, 09 Sep 2020 12:00:00 GMT", 0.0),
        ("Wed, 09 Sep 2126 12:00:00 GMT", 60.0),
        ("1.5", 1.5),
        ("0", 0.0),
        ("-1", 0.0),
        ("99999999", 60.0),
        ("1e400", 60.0),
        ("inf", 60.0),
        ("nan", None),
        ("", None),
        ("soon", None),
        ("Wed, 99 Sep 2026 12:00:00 GMT", None),
        ("9" * 400, 60.0),
    ],
)
def test_every_retry_after_is_read_and_held_within_limits(value, seconds):
    assert retry_after(value, NOW) == seconds


@given(st.text() | st.floats().map(str) | st.datetimes().map(email.utils.format_datetime))
def test_no_retry_after_breaks_anything(value):
    assert (wait := retry_after(value, NOW)) is None or 0 <= wait <= 60


@given(st.integers(1, 10))
def test_without_a_retry_after_the_waits_grow_to_a_limit(attempt):
    assert 0.25 <= backoff(attempt) <= 8.0


# the wish for usage


@pytest.mark.parametrize("status", [400, 422])
async def test_a_strict_server_is_asked_again_without_stream_options_and_remembered(server, model, wire, status):
    server.refuses(status, {"detail": "extra fields not permitted"})
    server.says(wire.delta("stop", content="Hi"))
    asked = model(tries=1)
    for _ in range(2):
        events = [event async for event in asked.stream(wire.ask_for())]
    assert ["stream_options" in seen.body for seen in server.seen] == [True, False, False]
    usage = wire.end_of(events).usage
    assert usage.estimated
    assert usage.input_tokens >= 2
    assert usage.output_tokens == 2


async def test_a_request_that_is_wrong_either_way_shows_its_own_error(server, answer):
    server.refuses(400, {"error": "the context is too long"})
    assert "the context is too long" in (await fails(answer)).message
    assert len(server.seen) == 2


async def test_a_server_that_took_stream_options_once_is_not_asked_twice(server, model, wire):
    server.says(wire.delta("stop", content="Hi"))
    server.refuses(400, {"error": "too long"})
    asked = model()
    _ = [event async for event in asked.stream(wire.ask_for())]
    with pytest.raises(TransomError, match="too long"):
        await anext(asked.stream(wire.ask_for()))
    assert len(server.seen) == 2


async def test_stream_options_can_be_switched_off(server, answer, wire):
    server.says(wire.delta("stop", content="Hi"))
    await answer(stream_options=False)
    assert "stream_options" not in server.seen[0].body


# the key


@pytest.mark.parametrize(
    ("value", "problem"), [(None, "is not set"), (" ", "is not set"), ("sk-a\nb", "no key has"), ("sk-é", "no key has")]
)
async def test_a_key_that_is_missing_or_broken_is_named_and_not_sent(server, answer, monkeypatch, value, problem):
    monkeypatch.delenv("SOME_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SOME_KEY", value)
    error = await fails(answer, api_key_env="SOME_KEY")
    assert (error.code, "SOME_KEY" in error.message, problem in error.message) == ("failed_precondition", True, True)
    assert "sk-" not in error.message
    assert server.seen == []


@pytest.mark.parametrize(
    "reply",
    [
        lambda server, wire: server.refuses(400, {"error": {"message": f"bad {KEY}", "code": KEY}}),
        lambda server, wire: server.refuses(503, f"no {KEY}".encode()),
        lambda server, wire: server.refuses(302, {}, Location=f"http://x.test/?k={KEY}"),
        lambda server, wire: server.says({"error": {"message": f"bad {KEY}", "type": KEY}}),
        lambda server, wire: server.says(wire.call(KEY, "{", index=0)),
        lambda server, wire: server.streams(f"data: {KEY}\n\n".encode(), wire.CUT),
    ],
)
async def test_the_key_stands_in_no_error_repr_or_log(server, model, wire, key, caplog, reply):
    reply(server, wire)
    asked = model(api_key_env="SOME_KEY", tries=1)
    for name in ("transom_openai", "httpx"):
        caplog.set_level(logging.DEBUG, name)
    with pytest.raises(TransomError) as caught:
        _ = [event async for event in asked.stream(wire.ask_for())]
    shown = [*traceback.format_exception(caught.value), repr(caught.value.details), repr(asked), repr(vars(asked)), caplog.text]
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert not [text for text in shown if KEY[:14] in text]


async def test_a_key_given_directly_is_sent_and_hidden(server, client, wire):
    server.refuses(400, {"error": KEY})
    model = OpenaiModel("m", ModelSettings(url=server.url, model="x", tries=1), lambda: client, key=KEY)
    with pytest.raises(TransomError) as caught:
        await anext(model.stream(wire.ask_for()))
    assert KEY not in caught.value.message
    assert KEY not in repr(model)
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"


async def test_an_error_of_the_transport_itself_passes_as_it_is(wire):
    class Refusing(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request):
            raise TransomError("permission_denied", "not that way")

    async with httpx.AsyncClient(transport=Refusing()) as client:
        model = OpenaiModel("m", ModelSettings(url="http://h/v1", model="x"), lambda: client)
        with pytest.raises(TransomError, match="not that way"):
            await anext(model.stream(wire.ask_for()))
