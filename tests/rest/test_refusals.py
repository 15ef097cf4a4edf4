"""What is refused, with which status, and in which words."""

import logging
from collections import defaultdict
from urllib.parse import quote, unquote

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from litestar import Litestar

from transom_doors.answers import STATUS
from transom_hookspecs import CODES, JobAnswer, TransomError
from transom_rest import RestPlugin
from transom_rest.routes import OPERATION, ROUTES

pytestmark = pytest.mark.anyio

START = "/v1/agents/echo/jobs"
JSON = {"content-type": "application/json"}


def urls():
    """One URL a route."""
    for method, route in [*((route.method, route.path) for route in ROUTES), ("POST", OPERATION)]:
        path = route.replace("{id:str}", "j1").replace("{wait:str}", "w1").replace("{name:str}", "echo")
        yield method, path.replace("{source:str}", "s").replace("{rest:path}", "x/y")


@pytest.mark.req("REST-6")
@pytest.mark.parametrize("code", CODES)
async def test_an_error_has_its_codes_status_and_is_told_as_it_stands(client, kernel, code):
    kernel.answers["GetJob"] = TransomError(code, "Because.", {"reason": "r", "n": 1})
    response = await client.get("/v1/jobs/j1")
    assert response.status_code == STATUS[code]
    assert response.json() == {"code": code, "message": "Because.", "details": {"reason": "r", "n": 1}}
    assert ("www-authenticate" in response.headers) == (code == "unauthenticated")


@pytest.mark.req("REST-1", "RT-7")
@pytest.mark.parametrize("known", [True, False], ids=["may read the job", "may not"])
async def test_a_refused_id_names_reason_job_and_start_beside_the_code(client, kernel, known):
    facts = {"reason": "oz0_id_conflict", "job": "j9"} | ({"started_at": 1_772_366_400_250} if known else {})
    kernel.answers["StartJob"] = TransomError("already_exists", "taken", facts)
    response = await client.post(f"{START}?id=j9", json="x")
    told = facts | ({"started_at": "2026-03-01T12:00:00.250Z"} if known else {})
    assert (response.status_code, response.json()) == (
        409,
        {"code": "already_exists", "message": "taken", "details": told, **told},
    )


async def test_a_bug_is_internal_without_its_text_and_logged_with_a_traceback(client, kernel, caplog):
    kernel.answers["GetJob"] = ValueError("secret stuff")
    with caplog.at_level(logging.ERROR):
        response = await client.get("/v1/jobs/j1")
    assert (response.status_code, response.json()["code"]) == (500, "internal")
    assert "secret" not in response.text
    assert "secret stuff" in caplog.text
    assert "Traceback" in caplog.text


async def test_a_server_that_stops_tells_a_request_to_come_again(kernel, door):
    async with door(kernel) as client:
        await client.shutdown()
        response = await client.get("/v1/jobs/j1")
    assert (response.status_code, response.json()["code"]) == (503, "unavailable")


@pytest.mark.req("FEED-3")
@pytest.mark.parametrize("name", ["api_key", "token", "access_token", "key", "API-Key", "%61pi_key"])
async def test_a_key_in_the_url_of_any_route_is_refused_before_anything_is_read(client, kernel, name):
    async def body():
        raise AssertionError("the body was read")
        yield b""

    for method, url in urls():
        content = {"content": body()} if method == "POST" else {}
        response = await client.request(method, f"{url}?tenant=acme&{name}=sk-live-1", **content)
        assert (response.status_code, response.json()["code"]) == (400, "invalid_argument"), url
        assert "sk-live-1" not in response.text
    assert (kernel.heads, kernel.calls) == ([], [])


QUERIES = {
    "tenant twice": ("/v1/jobs/j1?tenant=a&tenant=a", "'tenant' is given twice"),
    "unknown": ("/v1/jobs/j1?limit=3", "'limit' is not known"),
    "another route's": ("/v1/jobs?job=1", "'job' is not known"),
    "limit no number": ("/v1/jobs?limit=ten", "'limit'"),
    "limit negative": ("/v1/jobs?limit=-1", "'limit'"),
    "limit with other digits": ("/v1/jobs?limit=%D9%A3", "'limit'"),
    "limit huge": ("/v1/jobs?limit=99999999999", "'limit'"),
    "tree no flag": ("/v1/approvals?tree=1", "'tree'"),
    "tenant with a path": ("/v1/jobs?tenant=..%2Facme", "'tenant'"),
    "the tenant of tenants": ("/v1/jobs?tenant=%00system", "'tenant'"),
    "no UTF-8": ("/v1/jobs?cursor=%ff", "UTF-8"),
    "path no UTF-8": ("/v1/jobs/%ff", "UTF-8"),
    "escaped slash": ("/v1/jobs/a%2Fb", "%2F"),
    "escaped slash that is a route": ("/v1/jobs/a%2Fevents", "%2F"),
}


@pytest.mark.parametrize("name", QUERIES)
async def test_a_wrong_query_or_path_is_refused_by_name(client, kernel, name):
    url, words = QUERIES[name]
    response = await client.get(url)
    assert (response.status_code, response.json()["code"]) == (400, "invalid_argument")
    assert words in response.json()["message"]
    assert kernel.calls == []


@pytest.mark.parametrize("timeout", ["900", "0s", "0.0s", "-1s", "1e3s", "s", "1.s", "nans", "1.0123456789s", "15m", "\u0663s"])
async def test_a_timeout_that_is_no_duration_above_zero_is_refused(client, kernel, timeout):
    response = await client.post(START, params={"timeout": timeout})
    assert (response.status_code, kernel.calls) == (400, [])
    assert "'timeout'" in response.json()["message"]


async def test_tags_with_nothing_between_commas_are_refused(client, kernel):
    response = await client.post(f"{START}?tags=a,,b")
    assert (response.status_code, kernel.calls) == (400, [])


@pytest.mark.req("RT-9")
@pytest.mark.parametrize("key", [b"", b"a b", b"\xe9", b"x" * 129, b"a\tb"], ids=["empty", "space", "latin", "long", "tab"])
async def test_an_idempotency_key_is_1_to_128_visible_ascii_characters(client, kernel, key):
    response = await client.post(START, headers=[(b"idempotency-key", key)])
    assert (response.status_code, response.json()["code"], kernel.calls) == (400, "invalid_argument", [])
    assert "Idempotency-Key" in response.json()["message"]


async def test_an_idempotency_key_sent_twice_is_refused(client, kernel):
    response = await client.post(START, headers=[("idempotency-key", "a"), ("idempotency-key", "a")])
    assert (response.status_code, kernel.calls) == (400, [])


BODIES = {
    "nothing": (b"", {}, None),
    "nothing as JSON": (b"", JSON, None),
    "JSON": (b'{"a": [1, 2.5, null, "\\u00fc"]}', JSON, {"a": [1, 2.5, None, "ü"]}),
    "JSON with a charset": ('"ü"'.encode(), {"content-type": 'Application/JSON; charset="UTF-8"'}, "ü"),
    "of two equal keys the last": (b'{"a":1,"a":2}', JSON, {"a": 2}),
    "a whole surrogate pair": (b'"\\ud83d\\ude00"', JSON, "😀"),
    "depth 100": (b"[" * 100 + b"]" * 100, JSON, "deep"),
    "brackets in strings": (b'["' + b"[" * 500 + b'\\"' + b"{" * 500 + b'\\\\"]', JSON, ["[" * 500 + '"' + "{" * 500 + "\\"]),
    "brackets in a string after a quote": (b'["\\"' + b"[" * 200 + b"]" * 200 + b'"]', JSON, ['"' + "[" * 200 + "]" * 200]),
    "wide and flat": (b"[" + b"[]," * 500 + b"{}]", JSON, [[]] * 500 + [{}]),
    "a text": ("grüß dich".encode(), {"content-type": "text/plain"}, "grüß dich"),
    "a text that looks like JSON": (b"[1]", {"content-type": "text/plain; charset=utf-8"}, "[1]"),
    "an empty text": (b"", {"content-type": "text/plain"}, ""),
    "identity": (b"1", JSON | {"content-encoding": "identity"}, 1),
}


@pytest.mark.req("REST-1")
@pytest.mark.parametrize("name", BODIES)
async def test_a_body_is_the_input(client, kernel, job_view, name):
    content, headers, value = BODIES[name]
    kernel.answers["StartJob"] = JobAnswer(job=job_view())
    response = await client.post(START, content=content, headers=headers)
    assert response.status_code == 201, response.text
    got = kernel.calls[0][1].input
    assert got == value or value == "deep"


BAD_BODIES = {
    "broken": (b'{"a": }', JSON, 400, "byte 6"),
    "cut off": (b'{"a": [1, 2', JSON, 400, "char 11"),
    "two values": (b"1 2", JSON, 400, "byte"),
    "NaN": (b'{"a": NaN}', JSON, 400, "byte 6"),
    "Infinity": (b"-Infinity", JSON, 400, "byte"),
    "too large a number": (b"1e999", JSON, 400, "Number out of range"),
    "a lone high surrogate": (b'["a", "\\ud800"]', JSON, 400, "surrogate pair (char 7)"),
    "a lone low surrogate": (b'"\\udc00"', JSON, 400, "surrogate"),
    "no UTF-8": (b'"ab\xff"', JSON, 400, "byte 3"),
    "no UTF-8 in a text": (b"ab\xff", {"content-type": "text/plain"}, 400, "byte 2"),
    "a BOM": (b"\xef\xbb\xbf1", JSON, 400, "byte 0"),
    "10,000 deep": (b"[" * 10_000 + b"]" * 10_000, JSON, 400, "levels"),
    "10,000 deep, objects": (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, JSON, 400, "levels"),
    "101 deep": (b"[" * 101 + b"]" * 101, JSON, 400, "levels"),
    "10,000 deep and open": (b"[" * 10_000, JSON, 400, ""),
    "no content type": (b"{}", {}, 415, "Content-Type"),
    "a form": (b"a=1", {"content-type": "application/x-www-form-urlencoded"}, 415, "Content-Type"),
    "another charset": (b"a", {"content-type": "text/plain; charset=latin-1"}, 415, "UTF-8"),
    "two content types": (b"1", [("content-type", "application/json"), ("content-type", "text/plain")], 415, "Content-Type"),
    "gzip": (b"1", JSON | {"content-encoding": "gzip"}, 415, "Content-Encoding"),
    "two encodings": (b"1", JSON | {"content-encoding": "identity, br"}, 415, "Content-Encoding"),
}


@pytest.mark.parametrize("name", BAD_BODIES)
async def test_a_bad_body_is_refused_and_told_where(client, kernel, name):
    content, headers, status, words = BAD_BODIES[name]
    response = await client.post(START, content=content, headers=headers)
    assert (response.status_code, response.json()["code"]) == (status, "invalid_argument"), response.text
    assert words in response.json()["message"]
    assert kernel.calls == []


@pytest.mark.parametrize("announced", [True, False], ids=["by its length", "while it comes"])
async def test_a_body_over_the_limit_is_refused(door, kernel, announced):
    sent = []

    async def body():
        for _ in range(100):
            sent.append(1)
            yield b"x" * 100

    headers = {"content-type": "text/plain"} | ({"content-length": "10000"} if announced else {})
    async with door(kernel, max_body=1000) as client:
        response = await client.post(START, content=body(), headers=headers)
    assert (response.status_code, response.json()["code"], kernel.calls) == (413, "invalid_argument", [])
    assert len(sent) == (0 if announced else 11)


async def test_a_body_of_exactly_the_limit_is_taken(door, kernel, job_view):
    kernel.answers["StartJob"] = JobAnswer(job=job_view())
    async with door(kernel, max_body=1000) as client:
        response = await client.post(START, content=b"x" * 1000, headers={"content-type": "text/plain"})
    assert response.status_code == 201


@pytest.mark.parametrize(
    ("url", "body", "words"),
    [
        ("/v1/approvals/w1/approve", {"commment": "x"}, "commment"),
        ("/v1/approvals/w1/approve", {"comment": 1}, "$.comment"),
        ("/v1/approvals/w1/deny", [1], "object"),
        ("/v1/approvals/w1/answer", {}, "answer"),
        ("/v1/approvals/w1/answer", None, "answer"),
        ("/v1/approvals/w1/edit", {}, "arguments"),
        ("/v1/approvals/w1/edit", {"arguments": [1]}, "$.arguments"),
        ("/v1/jobs/j1/tags", {"add": "a"}, "$.add"),
        ("/v1/jobs/j1/cancel", {"why": ""}, "why"),
        ("/v1/events/s", [1], "object"),
    ],
)
async def test_a_body_that_does_not_fit_is_refused_naming_the_field(client, kernel, url, body, words):
    response = await client.post(url, **({} if body is None else {"json": body}))
    assert (response.status_code, response.json()["code"], kernel.calls) == (400, "invalid_argument", [])
    assert words in response.json()["message"]


async def test_a_decision_takes_no_text(client, kernel):
    response = await client.post("/v1/approvals/w1/approve", content=b"yes", headers={"content-type": "text/plain"})
    assert (response.status_code, kernel.calls) == (415, [])


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_an_unknown_path_under_a_job_is_not_found(client, kernel, method):
    response = await client.request(method, "/v1/jobs/j1/nothing")
    assert (response.status_code, response.json()["code"], kernel.calls) == (404, "not_found", [])


async def test_a_method_that_a_route_has_not_is_405(client):
    response = await client.get("/v1/jobs/j1/cancel")
    assert (response.status_code, response.headers["allow"]) == (405, "POST, OPTIONS")


async def call(app, method, path, query, headers, content):
    """Call an application with bytes that no decent client would send; returns the status and the body."""
    sent, rest = [], [content]

    async def receive():
        return {"type": "http.request", "body": rest.pop()} if rest else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "http_version": "1.1", "scheme": "http", "method": method, "root_path": "", "state": {}}
    scope |= {"path": unquote(path.decode("latin-1")), "raw_path": path, "query_string": query, "headers": headers}
    await app({**scope, "asgi": {"version": "3.0"}, "client": None, "server": ("x", 80)}, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


PLUGIN = RestPlugin(RestPlugin.Config())
APP = Litestar(PLUGIN.register_doors()[0].handlers, openapi_config=None)
HEADERS = "authorization idempotency-key last-event-id content-type content-encoding content-length cookie accept x".split()  # noqa: SIM905
bytes_of_any_kind = st.binary(max_size=12) | st.sampled_from(
    [b"application/json", b"text/plain", b"identity", b"5", b"1-t0k", b""]
)


@given(
    target=st.sampled_from(list(urls())),
    odd=st.binary(max_size=4).map(lambda raw: quote(raw).encode()),
    query=st.binary(max_size=20) | st.sampled_from([b"tenant=%00", b"limit=1e9", b"a=%ff&a", b"timeout=9s", b"tags=,"]),
    headers=st.lists(st.tuples(st.sampled_from(HEADERS).map(str.encode), bytes_of_any_kind), max_size=5),
    content=st.binary(max_size=30) | st.sampled_from([b"{}", b'{"answer":1}', b'"x"', b"[[[", b'{"arguments":{}}']),
)
@settings(max_examples=300, deadline=None)
def test_no_byte_anywhere_makes_a_500(make_fake, target, odd, query, headers, content):
    """Every request gets a refusal in the door's shape, or what the kernel answers (here: that there is nothing)."""

    async def scenario():
        kernel = make_fake()
        kernel.answers = defaultdict(lambda: TransomError("not_found", "no"))
        async with PLUGIN.run(kernel):
            method, url = target
            return await call(APP, method, url.encode().replace(b"j1", b"j1" + odd), query, headers, content)

    status, body = anyio.run(scenario)
    assert status in (400, 404, 413, 415), body
    assert set(msgspec.json.decode(body)) == {"code", "message", "details"}
