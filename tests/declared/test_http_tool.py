"""The tool `http`: what it sends, what it refuses, and the bounds of what it reads."""

import socket
import zlib
from types import SimpleNamespace

import anyio
import httpx
import jsonschema
import pytest

from transom_hookspecs import TransomError
from transom_http_tool import HttpToolPlugin

pytestmark = pytest.mark.anyio


class Call:
    """A call's context whose transport answers with `respond`, and keeps what was asked of it."""

    def __init__(self, respond=lambda _: httpx.Response(200, text="ok")):
        self._respond = respond
        self.idempotency_key = "j1/2"
        self.requests: list[httpx.Request] = []
        self.hosts = None
        self.closed = False

    def outbound(self, hosts=()):
        self.hosts = tuple(hosts)

        async def handle(request):
            self.requests.append(request)
            response = self._respond(request)
            return await response if hasattr(response, "__await__") else response

        async def close():
            self.closed = True

        return SimpleNamespace(handle_async_request=handle, aclose=close)  # the contract's shape, and no more


class Slowly(httpx.AsyncByteStream):
    """A body in pieces, with no end of its own when it has none."""

    def __init__(self, *pieces, endless=False):
        self.pieces, self.endless, self.sent, self.closed = pieces, endless, 0, False

    async def __aiter__(self):
        while True:
            for piece in self.pieces:
                self.sent += len(piece)
                yield piece
            if not self.endless:
                return

    async def aclose(self):
        self.closed = True


def http(**settings):
    (tool,) = HttpToolPlugin(HttpToolPlugin.Config(**settings)).register_tools()
    return {function.name: function for function in tool.functions}


async def run(call, name="get", settings=None, **arguments):
    return await http(**(settings or {}))[name].call(call, arguments)


def test_the_functions_say_what_they_do_to_the_world():
    functions = http(timeout=10)

    assert list(functions) == ["get", "request"]
    assert functions["get"].annotations.read_only_hint
    assert not functions["request"].annotations.read_only_hint
    assert not functions["request"].repeatable
    assert all(function.annotations.open_world_hint for function in functions.values())
    assert all(function.timeout > 10 for function in functions.values())


async def test_a_get_answers_with_status_headers_and_text():
    call = Call(
        lambda _: httpx.Response(
            404, headers={"X-A": "1", "Content-Type": "text/plain; charset=latin-1"}, content=b"gr\xfc\xdfe"
        )
    )

    answer = await run(call, url="https://example.com/a?b=1", headers={"Accept": "text/plain"})

    assert answer == {"status": 404, "headers": answer["headers"], "body": "grüße", "truncated": False}
    assert answer["headers"]["x-a"] == "1"
    jsonschema.validate(answer, http()["get"].output_schema)
    (sent,) = call.requests
    assert (sent.method, str(sent.url), sent.headers["accept"]) == ("GET", "https://example.com/a?b=1", "text/plain")
    assert sent.headers["accept-encoding"] == "identity"
    assert "idempotency-key" not in sent.headers
    assert call.closed


@pytest.mark.parametrize(
    ("body", "content", "kind"),
    [
        ("hi", b"hi", "text/plain; charset=utf-8"),
        ({"a": [1]}, b'{"a":[1]}', "application/json"),
        ([], b"[]", "application/json"),
        (None, b"", None),
    ],
    ids=["text", "mapping", "list", "none"],
)
async def test_a_request_sends_its_body_under_a_key_that_is_the_same_for_a_retry(body, content, kind):
    call = Call()

    await run(call, "request", method="POST", url="https://example.com/", body=body)

    (sent,) = call.requests
    assert (sent.content, sent.headers.get("content-type"), sent.headers["idempotency-key"]) == (content, kind, "j1/2")


async def test_headers_of_the_agents_own_come_first():
    call = Call()

    await run(
        call,
        "request",
        method="PUT",
        url="https://x.org",
        body={},
        headers={"Content-Type": "application/x", "Idempotency-Key": "k"},
    )

    assert (call.requests[0].headers["content-type"], call.requests[0].headers["idempotency-key"]) == ("application/x", "k")


async def test_only_the_listed_hosts_are_asked_for():
    call = Call()

    await run(call, settings={"hosts": ("example.com",)}, url="https://example.com")

    assert call.hosts == ("example.com",)


async def test_a_redirect_is_an_answer_like_another():
    call = Call(lambda _: httpx.Response(302, headers={"Location": "http://169.254.169.254/"}))

    answer = await run(call, url="https://example.com")

    assert (answer["status"], answer["headers"]["location"]) == (302, "http://169.254.169.254/")
    assert len(call.requests) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"url": "ftp://example.com/"}, "`url`: is no http or https address; write it as https://host/path"),
        ({"url": "file:///etc/passwd"}, "`url`: is no http or https address"),
        ({"url": "/path"}, "`url`: is no http or https address"),
        ({"url": "https://"}, "`url`: is no http or https address"),
        ({"url": "https://exa\nmple.com/"}, "`url`: is no address"),
        ({"url": "https://example.com:99999/"}, "`url`: has no possible port (99999)"),
        ({"url": "https://u:p@example.com/"}, "`url`: has a user or password in it"),
        ({"url": "https://example.com/" + "x" * 9_000}, "`url`: is longer than 8192 characters"),
        ({"url": "https://x.org", "headers": {"Host": "evil"}}, "`headers`: 'Host' is set by the runtime; leave it out"),
        ({"url": "https://x.org", "headers": {"Transfer-Encoding": "chunked"}}, "is set by the runtime"),
        ({"url": "https://x.org", "headers": {"Proxy-Connection": "x"}}, "is set by the runtime"),
        ({"url": "https://x.org", "headers": {"a b": "x"}}, "`headers`: 'a b' is no header's name"),
        ({"url": "https://x.org", "headers": {"": "x"}}, "is no header's name"),
        ({"url": "https://x.org", "headers": {"A": "x\r\nB: y"}}, "`headers`: the value of 'A' has other characters"),
        ({"url": "https://x.org", "headers": {"A": "ü"}}, "the value of 'A' has other characters"),
        ({"url": "https://x.org", "headers": {"A": "1", "a": "2"}}, "stands there twice"),
        ({"url": "https://x.org", "body": "x"}, "unknown field `body`"),
        ({}, "missing required field `url`"),
    ],
    ids=lambda value: str(value)[:50],
)
async def test_what_is_no_sound_request_is_not_sent(arguments, words):
    call = Call()

    with pytest.raises(TransomError) as caught:
        await run(call, **arguments)

    assert caught.value.code == "invalid_argument"
    assert words in caught.value.message
    assert call.requests == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"method": "CONNECT"},
        {"method": "TRACE"},
        {"method": "get"},
        {"method": "GET", "body": "x"},
        {"method": "POST", "body": 5},
    ],
)
async def test_only_these_methods_and_bodies_are_taken(arguments):
    call = Call()

    with pytest.raises(TransomError) as caught:
        await run(call, "request", url="https://x.org", **arguments)

    assert caught.value.code == "invalid_argument"
    assert call.requests == []


async def test_a_body_without_end_is_cut_and_that_is_said():
    body = Slowly(b"x" * 60_000, endless=True)

    answer = await run(Call(lambda _: httpx.Response(200, stream=body)), url="https://x.org")

    assert (len(answer["body"]), answer["truncated"]) == (1 << 20, True)
    assert body.sent < 1.2 * (1 << 20)
    assert body.closed


async def test_a_body_of_exactly_the_limit_is_whole():
    answer = await run(
        Call(lambda _: httpx.Response(200, stream=Slowly(b"ab", b"cd"))), settings={"max_bytes": 4}, url="https://x.org"
    )

    assert (answer["body"], answer["truncated"]) == ("abcd", False)


async def test_a_compressed_body_is_refused_rather_than_unpacked():
    bomb = zlib.compress(b"\0" * 50_000_000)
    call = Call(lambda _: httpx.Response(200, headers={"Content-Encoding": "deflate"}, stream=Slowly(bomb)))

    with pytest.raises(TransomError, match=r"x.org sends a body in the encoding 'deflate', which was not asked for") as caught:
        await run(call, url="https://x.org")

    assert caught.value.code == "failed_precondition"


async def test_a_head_request_may_hear_of_an_encoding():
    call = Call(lambda _: httpx.Response(200, headers={"Content-Encoding": "gzip", "Content-Length": "9"}))

    assert (await run(call, "request", method="HEAD", url="https://x.org"))["headers"]["content-length"] == "9"


@pytest.mark.parametrize("charset", ["nonsense", "hex", "zlib", "idna", "utf-8", "undefined", ""])
async def test_a_body_is_text_whatever_its_charset_claims(charset):
    call = Call(lambda _: httpx.Response(200, headers={"Content-Type": f"text/plain; charset={charset}"}, content=b"a\xff.b"))

    assert "b" in (await run(call, url="https://x.org"))["body"]


@pytest.mark.parametrize(
    ("failure", "code", "words"),
    [
        (httpx.ConnectError("secret address"), "unavailable", "the connection to x.org failed (ConnectError)"),
        (httpx.ReadError("x"), "unavailable", "the connection to x.org failed (ReadError)"),
        (httpx.ConnectTimeout("x"), "deadline_exceeded", "x.org did not answer within 30 s"),
        (TransomError("permission_denied", "x.org is a private address"), "permission_denied", "x.org is a private address"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_failed_exchange_says_why(failure, code, words):
    def fail(_):
        raise failure

    call = Call(fail)
    with pytest.raises(TransomError) as caught:
        await run(call, url="https://x.org/path?token=secret")

    assert caught.value.code == code
    assert words in caught.value.message
    assert "secret" not in caught.value.message
    assert call.closed


async def test_an_answer_that_takes_too_long_is_given_up():
    async def stall():
        await anyio.sleep(30)

    call = Call(lambda _: stall())

    with pytest.raises(TransomError, match=r"x.org did not answer within 0.05 s; try again later") as caught:
        await run(call, settings={"timeout": 0.05}, url="https://x.org")

    assert caught.value.code == "deadline_exceeded"
    assert call.closed


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{free_port()}")
    call = Call()

    assert (await run(call, url="https://x.org"))["status"] == 200
    assert len(call.requests) == 1


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
