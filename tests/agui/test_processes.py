"""A turn outlives its server: killed and started again, and on two servers with one store."""

import json

import pytest
from agui_kit import Client, frames_of
from servers import Server

pytestmark = pytest.mark.anyio


def body(run: str, thread: str = "t1", **changes) -> bytes:
    messages = [{"id": "m1", "role": "user", "content": "greet them both"}]
    made = {"threadId": thread, "runId": run, "messages": messages, "protocolVersion": "1.0", **changes}
    return json.dumps(made).encode()


async def post(server: Server, content: bytes, *, since: tuple[int, int] | None = None, agent: str = "two_calls") -> bytes:
    headers = {"Content-Type": "application/json"}
    if since is not None:
        headers["Last-Event-ID"] = "{}.{}".format(*since)
    async with server.client("omar") as http:
        answer = await http.post(f"/v1/agui/agents/{agent}", content=content, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.content


def yes(client: Client) -> list[dict]:
    return [{"interruptId": w["id"], "status": "resolved", "payload": {"approved": True}} for w in client.interrupts]


@pytest.fixture
async def server(tmp_path):
    server = Server(tmp_path / "data")
    yield await server.start()
    server.stop()


@pytest.mark.req("AGUI-24", "AGUI-39")
async def test_killed_after_any_event_of_an_interrupted_turn_it_goes_on_decided_and_streamed_once(server):
    whole = await post(server, body("r1"))
    places = [place for place, _ in frames_of(whole)]
    rest = whole
    for place in places:
        rest = rest[rest.index(b"\n\n") + 2 :]
        if place in (places[0], places[len(places) // 2], places[-1]):
            server.kill()
            await server.start()
        assert await post(server, body("r1"), since=place) == rest
    client = Client().take(whole)
    resume = body("r2", messages=[], resume=yes(client))
    second = await post(server, resume)
    server.kill()
    await server.start()
    rest = second
    for place, _ in frames_of(second):
        rest = rest[rest.index(b"\n\n") + 2 :]
        assert await post(server, resume, since=place) == rest
    client.take(second)
    assert client.text() == "[AI] I greeted #design. I greeted #support."
    assert [m["content"] for m in client.messages if m["role"] == "tool"] == ["Greeted #design.", "Greeted #support."]


@pytest.mark.req("AGUI-24", "AGUI-39")
async def test_killed_between_the_answers_and_the_stream_it_has_decided_once(server):
    client = Client().take(await post(server, body("r1")))
    resume = body("r2", messages=[], resume=yes(client))
    async with (
        server.client("omar") as http,
        http.stream(
            "POST", "/v1/agui/agents/two_calls", content=resume, headers={"Content-Type": "application/json"}
        ) as answer,
    ):
        assert answer.status_code == 200
        server.kill()
    await server.start()
    client.take(await post(server, resume))
    assert [e["outcome"] for e in client.of("oz0.resume")] == ["decided", "decided"]
    assert client.text() == "[AI] I greeted #design. I greeted #support."


@pytest.mark.req("AGUI-1", "AGUI-24")
async def test_begun_on_one_server_it_goes_on_on_another(server, tmp_path):
    other = await Server(tmp_path / "data").start()
    try:
        whole = await post(server, body("r1"))
        place = frames_of(whole)[2][0]
        assert await post(other, body("r1"), since=place) == b"".join(part + b"\n\n" for part in whole.split(b"\n\n")[3:-1])
        client = Client().take(whole)
        resume = body("r2", messages=[], resume=yes(client))
        second = await post(other, resume)
        place = frames_of(second)[0][0]
        assert second.endswith(await post(server, resume, since=place))
        client.take(second)
        assert client.text() == "[AI] I greeted #design. I greeted #support."
    finally:
        other.stop()
