"""A placeholder becomes the value on its way to a host that the secret is bound to, and nowhere else."""

import json
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, quote

import anyio
import httpx
import pytest
from anyio.abc import SocketAttribute

from transom.placeholders import quietly
from transom_hookspecs import Secrets, TransomError

pytestmark = [pytest.mark.anyio, pytest.mark.req("IDN-7", "AGUI-14")]

VALUE = "ghp_9Zq2LmB7xKfT"
ODD = 'a"b\\c\n&=% ü/{{secret:token}}'
DEV = {"dev": True}


class Target:
    """An HTTP server on loopback that keeps every request, byte for byte."""

    def __init__(self, port: int) -> None:
        self.at = f"127.0.0.1:{port}"
        self.url = f"http://{self.at}"
        self.requests: list[tuple[bytes, bytes]] = []
        self.raw = b""
        self.answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"

    async def serve(self, stream: anyio.abc.ByteStream) -> None:
        async with stream:
            data = b""
            while b"\r\n\r\n" not in data:
                try:
                    data += await stream.receive()
                except anyio.EndOfStream:
                    return
            head, _, body = data.partition(b"\r\n\r\n")
            length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
            while len(body) < length:
                body += await stream.receive()
            self.requests.append((head, body))
            await stream.send(self.answer)


@asynccontextmanager
async def target() -> AsyncIterator[Target]:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        made = Target(listener.extra(SocketAttribute.local_port))
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, made.serve)
            yield made
            group.cancel_scope.cancel()


@pytest.fixture
async def house(opened: Callable[..., Any], put: Callable[..., Any]) -> AsyncIterator[tuple[Any, Target]]:
    """A kernel in development mode with some secrets, and a server that they are bound to."""
    async with target() as made, opened(config=DEV) as k:
        await put(k, "token", VALUE, host=(made.at,))
        await put(k, "odd", ODD, host=(made.at,))
        await put(k, "sign", VALUE + "2", host=(made.at,), signing=True)
        await put(k, "elsewhere", VALUE + "3", host=("other.example",))
        await put(k, "acmes", VALUE + "4", host=(made.at,), tenant="acme")
        yield k, made


async def sent(k: Any, method: str, url: str, tenant: str = "default", **more: Any) -> httpx.Response:
    transport = k.outbound.guarded(tenant=tenant)
    async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
        return await client.request(method, url, **more)


async def test_in_header_query_and_body_each_in_its_own_writing(house):
    k, at = house
    asked = await sent(
        k,
        "POST",
        f"{at.url}/p?q={{{{secret:odd}}}}&r=a%20b&t=%7B%7Bsecret%3Atoken%7D%7D",
        headers={"Authorization": "Bearer {{secret:token}}", "X-Two": "{{secret:token}}/{{secret:token}}"},
        json={"key": "{{secret:odd}}", "other": "ü {{secret:token}}"},
    )
    ((head, body),) = at.requests
    first, *lines = head.decode().split("\r\n")
    query = first.split(" ")[1].partition("?")[2]
    assert parse_qs(query) == {"q": [ODD], "r": ["a b"], "t": [VALUE]}
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    assert headers["authorization"] == f"Bearer {VALUE}"
    assert headers["x-two"] == f"{VALUE}/{VALUE}"
    assert headers["host"] == at.at
    assert int(headers["content-length"]) == len(body)
    assert json.loads(body) == {"key": ODD, "other": f"ü {VALUE}"}
    assert "{{secret:token}}" in asked.request.headers["authorization"], "the caller's own request keeps the placeholder"
    assert b"{{secret:odd}}" in asked.request.content
    assert VALUE not in str(asked.request.url)


@pytest.mark.parametrize(
    ("kind", "body", "read"),
    [
        ("application/x-www-form-urlencoded", f"a={quote('{{secret:odd}}', safe='')}&b=1", lambda b: parse_qs(b)["a"] == [ODD]),
        ("application/x-www-form-urlencoded", "a={{secret:odd}}", lambda b: parse_qs(b)["a"] == [ODD]),
        ("application/problem+json; charset=utf-8", '{"a":"{{secret:odd}}"}', lambda b: json.loads(b) == {"a": ODD}),
        ("text/plain", "a {{secret:odd}}", lambda b: b == f"a {ODD}"),
        ("", "{{secret:odd}}", lambda b: b == ODD),
    ],
)
async def test_a_body_of_any_kind(house, kind, body, read):
    k, at = house
    await sent(k, "PUT", at.url, content=body.encode(), headers={"content-type": kind} if kind else {})
    assert read(at.requests[0][1].decode())


async def test_a_file_in_a_form(house):
    k, at = house
    await sent(k, "POST", at.url, files={"f": ("a.txt", b"x {{secret:token}} y")}, data={"field": "{{secret:token}}"})
    head, body = at.requests[0]
    assert body.count(VALUE.encode()) == 2
    assert f"content-length: {len(body)}".encode() in head.lower()


@pytest.mark.parametrize(
    "text",
    [
        "{{secret:}}",
        "{{secret:a b}}",
        "{{ secret:token }}",
        "{secret:token}",
        "{{Secret:token}}",
        "{{secret:" + "x" * 64 + "}}",
    ],
)
async def test_what_is_no_placeholder_is_sent_as_it_is(house, text):
    k, at = house
    await sent(k, "POST", at.url, headers={"X-A": text}, content=text.encode())
    assert text.encode() in at.requests[0][0]
    assert at.requests[0][1] == text.encode()


async def test_a_body_that_comes_in_pieces_is_sent_as_it_is(house):
    k, at = house

    async def pieces():
        yield b"{{secret:"
        yield b"token}}"

    await sent(k, "POST", at.url, content=pieces())
    assert b"transfer-encoding: chunked" in at.requests[0][0].lower()


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("elsewhere", "permission_denied", ["'elsewhere'", "127.0.0.1"]),
        ("sign", "permission_denied", ["'sign'", "only signs"]),
        ("acmes", "not_found", ["'acmes'"]),
        ("nobody", "not_found", ["'nobody'"]),
    ],
)
@pytest.mark.parametrize("place", ["header", "query", "body"])
async def test_elsewhere_nothing_is_sent_and_the_error_names_secret_and_host(house, name, code, said, place):
    k, at = house
    text = f"{{{{secret:{name}}}}}"
    given = {"header": {"headers": {"X": text}}, "query": {"params": {"x": text}}, "body": {"content": text.encode()}}[place]
    with pytest.raises(TransomError) as refused:
        await sent(k, "POST", at.url, **given)
    assert refused.value.code == code
    assert all(words in refused.value.message for words in said)
    assert VALUE not in refused.value.message
    assert at.requests == []


async def test_without_a_tenant_and_for_the_operator_nothing_is_resolved(house):
    k, at = house
    headers = {"X": "{{secret:token}}"}
    await sent(k, "GET", at.url, tenant="", headers=headers)
    async with httpx.AsyncClient(transport=k.outbound.operator("test"), trust_env=False) as client:
        await client.get(at.url, headers=headers)
    assert [b"{{secret:token}}" in head for head, _ in at.requests] == [True, True]


async def test_without_a_plugin_that_keeps_secrets_it_is_refused(kernel):
    async with kernel(config=DEV) as k, target() as at:
        with pytest.raises(TransomError) as refused:
            await sent(k, "GET", at.url, headers={"X": "{{secret:token}}"})
        assert refused.value.code == "failed_precondition"
        assert at.requests == []
        assert (await sent(k, "GET", at.url)).text == "ok"


async def test_a_redirect_does_not_take_a_secret_along(house, put):
    """The client follows it by another request with the same placeholder, which another host does not get resolved."""
    k, at = house
    async with target() as other:
        at.answer = f"HTTP/1.1 307 Moved\r\nlocation: {other.url}\r\ncontent-length: 0\r\n\r\n".encode()
        transport = k.outbound.guarded(tenant="default")
        async with httpx.AsyncClient(transport=transport, follow_redirects=True, trust_env=False) as client:
            with pytest.raises(TransomError) as refused:
                await client.post(at.url, headers={"X-Key": "{{secret:token}}"}, content=b"x")
        assert refused.value.code == "permission_denied"
        assert other.requests == []


@pytest.mark.parametrize(
    "value", ["line\r\nX-Evil: 1", "line\n", " padded", "padded ", "ünicode", "nul\x00", "del\x7f", "\x1b[0m"]
)
async def test_a_value_that_no_header_may_have_is_refused_without_its_words(house, put, value):
    k, at = house
    await put(k, "odd", value, host=(at.at,))
    with pytest.raises(TransomError) as refused:
        await sent(k, "GET", at.url, headers={"X": "{{secret:odd}}"})
    assert refused.value.code == "invalid_argument"
    assert "'odd'" in refused.value.message
    assert value.strip() not in refused.value.message
    assert at.requests == []


@pytest.mark.parametrize(
    "error",
    [
        httpx.LocalProtocolError(f"Illegal header value b'{VALUE}'"),
        httpx.ConnectError(f"at /?a={quote(ODD, safe='')}"),
        ValueError(ODD),
        RuntimeError(repr(ODD)),
    ],
    ids=["header", "query", "value", "repr"],
)
async def test_an_error_of_the_sending_has_no_value_in_it_nor_leads_to_one(error):
    async def send():
        try:
            raise ValueError(VALUE, ODD)
        except ValueError as cause:
            raise error from cause

    with pytest.raises(httpx.TransportError) as raised:
        await quietly(send, {"token": VALUE, "odd": ODD})
    words = "".join(traceback.format_exception(raised.value))
    assert not [each for each in (VALUE, ODD, repr(ODD)[1:-1], quote(ODD, safe="")) if each in words]
    assert type(raised.value) is (type(error) if isinstance(error, httpx.TransportError) else httpx.TransportError)
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None


async def test_an_error_without_a_value_is_raised_as_it_is():
    error = httpx.ReadTimeout("too slow")

    async def send():
        raise error

    with pytest.raises(httpx.ReadTimeout) as raised:
        await quietly(send, {"token": VALUE})
    assert raised.value is error


@pytest.mark.parametrize(
    ("hosts", "url", "resolved", "signs"),
    [
        (("a.example",), "https://a.example", True, True),
        (("a.example",), "https://a.example:8443/path?q", True, True),
        (("a.example",), "https://A.EXAMPLE.", True, True),
        (("a.example",), "http://a.example", False, True),
        (("a.example:80",), "http://a.example", True, True),
        (("a.example:80",), "https://a.example", False, False),
        (("a.example:443",), "https://a.example", True, True),
        (("a.example:8443",), "https://a.example", False, False),
        (("a.example",), "https://b.a.example", False, False),
        (("a.example",), "https://a.example.evil", False, False),
        (("b.example", "a.example"), "https://a.example", True, True),
        (("127.0.0.1",), "http://127.0.0.1:99", True, True),
        (("localhost",), "http://localhost:99", True, True),
        (("10.0.0.1",), "http://10.0.0.1:99", False, True),
        (("[::1]",), "http://[::1]:99", True, True),
        (("[2001:db8::1]:99",), "http://[2001:db8::1]:99", True, True),
        (("bücher.example",), "https://xn--bcher-kva.example", True, True),
        (("xn--bcher-kva.example",), "https://bücher.example", True, True),
        ((), "https://a.example", False, False),
    ],
)
@pytest.mark.req("OUT-11")
async def test_where_a_secret_may_go_and_sign(opened, put, hosts, url, resolved, signs):
    """In clear it goes only where the port was named, or to this computer; a signature shows nothing."""
    async with opened() as k:
        secrets = k.service(Secrets)
        await put(k, "token", VALUE, host=hosts)
        assert allowed(secrets.resolve, "default", "token", url) == resolved
        assert not allowed(secrets.sign, "default", "token", url, b"")
        if hosts:
            await put(k, "sign", VALUE, host=hosts, signing=True)
            assert allowed(secrets.check_signing, "default", "sign", url) == signs
            assert allowed(secrets.sign, "default", "sign", url, b"") == signs
            assert not allowed(secrets.resolve, "default", "sign", url)


def allowed(ask: Callable[..., Any], *args: Any) -> bool:
    """Whether a call is answered; else it is refused with permission_denied."""
    try:
        ask(*args)
    except TransomError as error:
        if error.code != "permission_denied":
            raise
        return False
    return True


@pytest.mark.req("OUT-11")
async def test_a_signature_is_the_hmac_of_the_bytes(opened, put):
    """The values of a published example, so that a stock receiver agrees."""
    async with opened() as k:
        await put(k, "hook", "key", host=("a.example",), signing=True)
        signed = k.service(Secrets).sign("default", "hook", "https://a.example", b"The quick brown fox jumps over the lazy dog")
    assert signed == "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8"
