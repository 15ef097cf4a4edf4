"""What is refused over HTTP, before anything runs; and what starts are refused with in the stream."""

import json

import pytest

from transom_hookspecs import Admission, Job, TransomError, hookimpl

pytestmark = pytest.mark.anyio

MESSAGE = {"id": "m1", "role": "user", "content": "hello"}


async def nothing_ran(s) -> bool:
    return not await s.core.store.select("default", Job, "recent", {"top": True})


@pytest.mark.req("AGUI-2", "AGUI-53")
@pytest.mark.parametrize("header", ["", "Bearer wrong", "Basic eDp5", "Bearer \xe9"])
async def test_the_caller_is_checked_before_the_body_is_read(server, header):
    async with server() as s:
        page = s.page()
        refused = await page.post(b"{not json", Authorization=header.encode("latin-1"))
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")


@pytest.mark.req("AGUI-3", "AGUI-53")
@pytest.mark.parametrize(
    ("who", "agent", "status", "code"),
    [
        ("rita", "echo", 403, "permission_denied"),
        ("echo_key", "helper", 403, "permission_denied"),
        ("acme_key", "echo", 403, "permission_denied"),
        ("anna", "nobody", 404, "not_found"),
    ],
)
async def test_who_may_not_use_the_route_or_names_no_agent(server, who, agent, status, code):
    async with server() as s:
        page = s.page(who, agent=agent)
        refused = await page.post(page.body(messages=[MESSAGE]))
        assert (refused.status_code, refused.json()["code"]) == (status, code)
        assert set(refused.json()) == {"code", "message", "details"}
        assert await nothing_ran(s)


@pytest.mark.req("AGUI-3")
async def test_a_scoped_key_reaches_the_agent_of_its_scope(server):
    async with server() as s:
        assert (await s.page("echo_key").say("hi")).text() == "[AI] hi"


@pytest.mark.req("AGUI-4", "AGUI-53")
@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"", {}, 400),
        (b"[]", {}, 400),
        (b"{", {}, 400),
        (b'{"threadId": "t", "runId": "r", "messages": "\xff"}', {}, 400),
        (b'{"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "\\ud800"}]}', {}, 400),
        (b"[" * 100_000, {}, 400),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, {}, 400),
        (b" " * (4 * 1024 * 1024 + 1), {}, 413),
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"{}", {"Content-Type": "application/json; charset=utf-16"}, 415),
        (b"{}", {"Content-Encoding": "gzip"}, 415),
    ],
    ids=["none", "list", "torn", "latin", "surrogate", "deep lists", "deep objects", "long", "text", "utf-16", "gzip"],
)
async def test_a_body_that_is_none(server, body, headers, status):
    async with server() as s:
        refused = await s.page().post(body, **headers)
        assert refused.status_code == status, refused.text
        assert refused.headers["content-type"] == "application/json"
        assert await nothing_ran(s)


@pytest.mark.req("AGUI-4")
async def test_a_message_of_nearly_four_mebibytes_is_answered(server):
    async with server() as s:
        page = s.page()
        words = "word " * 800_000
        refused = await page.post(page.body(messages=[{**MESSAGE, "content": words}]))
        assert refused.status_code == 200


@pytest.mark.req("AGUI-53")
async def test_a_turn_that_runs_is_a_conflict_and_the_message_works_after(server):
    async with server() as s:
        page = s.page(agent="streamer")
        first = page.body(messages=[{**MESSAGE, "content": '{"deltas": 40, "delay_ms": 20}'}])
        sent = {"Content-Type": "application/json", **page.headers}
        url = "/v1/agui/agents/streamer"
        async with page.http.stream("POST", url, content=json.dumps(first).encode(), headers=sent) as answer:
            async for _ in answer.aiter_bytes():
                break
            other = s.page(agent="echo")
            other.client.messages = [*first["messages"], {"id": "m2", "role": "user", "content": "me too"}]
            refused = await other.post(other.body())
            assert (refused.status_code, refused.json()["code"]) == (409, "aborted")
            assert refused.json()["details"]["reason"] == "turn_running"
        page.client.take((await page.post(first)).content)
        page.client.messages = [*first["messages"], *page.client.messages, *other.client.messages[1:]]
        page.agent = "echo"
        assert (await page.say("now?")).text().endswith("[AI] now?")


@pytest.mark.req("AGUI-53")
async def test_an_input_that_the_agent_does_not_take_is_told_in_the_stream(server):
    async with server() as s:
        client = await s.page(agent="streamer").say("no json")
        assert client.kinds() == ["RUN_STARTED", "RUN_ERROR"]
        assert client.events[-1]["code"] == "invalid_argument"
        assert await nothing_ran(s)


class NoRoom:
    """Refuses every start as a quota does, as often as a test says."""

    spec = "1.0"
    name = "noroom"
    left = 0

    def __init__(self, config: object = None) -> None:
        NoRoom.left = 1

    @hookimpl
    def admit(self, admission: Admission) -> None:
        if NoRoom.left:
            NoRoom.left -= 1
            details = {
                "type": "oz0_quota_exceeded",
                "scope": {"kind": "caller", "name": "person:anna"},
                "resets_at": "2026-12-01T00:00:00.000Z",
                "could_wait": False,
                "raised_by": "an admin",
            }
            raise TransomError("resource_exhausted", "the quota of 1 job a day is used up", details)


@pytest.mark.req("AGUI-23", "AGUI-41", "AGUI-50")
async def test_a_quotas_refusal_has_its_type_and_numbers_and_the_next_message_works(server):
    async with server(plugins=[NoRoom]) as s:
        page = s.page()
        client = await page.say("first")
        assert client.kinds() == ["RUN_STARTED", "RUN_ERROR"]
        error = client.events[-1]
        assert error["code"] == "oz0_quota_exceeded"
        assert error["rawEvent"]["oz0"]["scope"] == {"kind": "caller", "name": "person:anna"}
        assert error["rawEvent"]["oz0"]["resets_at"] == "2026-12-01T00:00:00.000Z"
        assert await nothing_ran(s)
        assert (await page.say("second")).text() == "[AI] second"
        assert (await page.say("third")).text() == "[AI] second\n[AI] third"


@pytest.mark.req("AGUI-51")
async def test_a_refused_message_can_come_again(server):
    async with server(plugins=[NoRoom]) as s:
        page = s.page()
        await page.say("once")
        assert (await page.run()).text() == "[AI] once"
        assert (await page.say("more")).text() == "[AI] once\n[AI] more"


@pytest.mark.req("AGUI-10", "AGUI-53")
async def test_the_route_answers_post_alone(server):
    async with server() as s:
        assert (await s.rest("anna", "GET", "/v1/agui/agents/echo")).status_code == 405
        assert (await s.rest("anna", "POST", "/v1/agui/agents/echo?key=x", json={})).status_code == 400
        assert (await s.rest("anna", "POST", "/v1/agui/agents/echo?tenant=acme", json={})).status_code == 403
        assert (await s.rest("anna", "POST", "/v1/agui/agents/a%2Fb", json={})).status_code in (400, 404)
