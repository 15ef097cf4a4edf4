"""A server's routes, as this client uses them."""

import json

import httpx
import pytest
from cli_fakes import NOW

from transom_cli.client import Target, target
from transom_cli.remote import TRIES, RemoteClient, remote_client, retry_after
from transom_hookspecs import DecideApproval, EditWait, JobView, StartJob, TransomError

pytestmark = pytest.mark.anyio

JOB = {"id": "j 1", "agent": "echo", "status": "running", "startedAt": "2026-01-01T00:00:00Z"}
VIEW = JobView(id="j 1", agent="echo", status="running", started_at=NOW, tree="j 1", token="")


class Server:
    """Answers requests from a list, and keeps them."""

    def __init__(self, *answers) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)

    def client(self) -> RemoteClient:
        http = httpx.AsyncClient(transport=httpx.MockTransport(self), base_url="https://edge.example/base")
        return RemoteClient(http, "acme", pause=0)


def refusal(status: int, code: str, **headers) -> httpx.Response:
    return httpx.Response(status, json={"code": code, "message": "no", "details": {"a": 1}}, headers=headers)


class Stream(httpx.AsyncByteStream):
    """Bytes, and perhaps a broken connection after them."""

    def __init__(self, *chunks: bytes, broken: bool = False) -> None:
        self.chunks, self.broken = chunks, broken

    async def __aiter__(self):
        for chunk in self.chunks:
            yield chunk
        if self.broken:
            raise httpx.ReadError("gone")


def stream(*chunks: bytes, broken: bool = False) -> httpx.Response:
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Stream(*chunks, broken=broken))


def event(seq: int, **fields) -> bytes:
    body = {"seq": seq, "at": "2026-01-01T00:00:00Z", "job": "j 1", **fields}
    return f"id: {seq}-tok\nevent: {fields['type']}\ndata: {json.dumps(body)}\n\n".encode()


TEXT = [event(n, type="text", message="m", delta=str(n)) for n in range(1, 6)]
END = event(6, type="job.ended", status="completed", output="done")


async def seqs(client: RemoteClient) -> list[int]:
    return [entry.seq async for batch in client.events(VIEW) for entry in batch]


async def test_a_start_goes_to_the_typed_route_with_a_key():
    server = Server({**JOB, "retried": False})
    answer = await server.client().start(StartJob(agent="echo", input={"a": 1}, timeout=60, tags=("x",)))
    (request,) = server.requests
    assert (request.method, request.url.raw_path) == ("POST", b"/base/v1/agents/echo/jobs?tenant=acme&timeout=60s&tags=x")
    assert (request.headers["content-type"], request.content) == ("application/json", b'{"a":1}')
    assert 1 <= len(request.headers["idempotency-key"]) <= 128
    assert answer.job.id == "j 1"


async def test_text_is_sent_as_text():
    server = Server({**JOB, "retried": False})
    await server.client().start(StartJob(agent="echo", input="hällo"))
    assert server.requests[0].headers["content-type"] == "text/plain; charset=utf-8"
    assert server.requests[0].content == "hällo".encode()


@pytest.mark.req("SDK-4")
async def test_a_start_is_sent_again_under_the_same_key_while_the_server_is_unavailable():
    server = Server(
        refusal(503, "unavailable"), httpx.ConnectError("refused"), httpx.Response(502, text="<html>"), {**JOB, "retried": True}
    )
    answer = await server.client().start(StartJob(agent="echo", input="x"))
    assert answer.retried
    assert len(server.requests) == 4
    assert len({request.headers["idempotency-key"] for request in server.requests}) == 1
    assert {request.content for request in server.requests} == {b"x"}


async def test_each_start_has_a_key_of_its_own_and_one_with_an_id_has_none():
    server = Server(*[{**JOB, "retried": False}] * 3)
    client = server.client()
    for id in ("", "", "mine"):
        await client.start(StartJob(agent="echo", id=id))
    keys = [request.headers.get("idempotency-key") for request in server.requests]
    assert keys[0] != keys[1]
    assert keys[2] is None


async def test_a_refusal_is_not_sent_again():
    server = Server(refusal(409, "already_exists"))
    with pytest.raises(TransomError) as caught:
        await server.client().start(StartJob(agent="echo"))
    assert (caught.value.code, caught.value.details) == ("already_exists", {"a": 1})
    assert len(server.requests) == 1


async def test_a_server_that_stays_away_is_given_up_and_it_is_said_that_it_may_have_started():
    server = Server(httpx.ReadError("gone"), *[httpx.ConnectError("refused")] * (TRIES - 1))
    with pytest.raises(TransomError, match="refused") as caught:
        await server.client().start(StartJob(agent="echo"))
    assert caught.value.code == "unavailable"
    assert "--id" in caught.value.__notes__[0]


async def test_a_server_that_was_never_reached_started_nothing():
    with pytest.raises(TransomError) as caught:
        await Server(*[httpx.ConnectError("refused")] * TRIES).client().start(StartJob(agent="echo"))
    assert not hasattr(caught.value, "__notes__")


async def test_a_decision_is_sent_once():
    server = Server(httpx.ReadError("gone"))
    with pytest.raises(TransomError, match="gone"):
        await server.client().decide(DecideApproval(wait="w", approved=True))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("decision", "verb", "body"),
    [
        (
            DecideApproval(wait="w/1", approved=True, confirm="b", token="ozi1.x"),
            "approve",
            {"confirm": "b", "token": "ozi1.x"},
        ),
        (DecideApproval(wait="w/1", approved=True, comment="c"), "approve", {"comment": "c"}),
        (DecideApproval(wait="w/1", approved=False), "deny", {}),
        (DecideApproval(wait="w/1", answer=False), "answer", {"answer": False}),
        (DecideApproval(wait="w/1", answer=""), "answer", {"answer": ""}),
        (DecideApproval(wait="w/1", answer={"a": None}), "answer", {"answer": {"a": None}}),
    ],
)
async def test_a_decision_goes_to_the_waits_route(decision, verb, body):
    server = Server({"wait": "w/1", "job": "j", "result": "decided", "outcome": "approved", "by": "person:x"})
    assert (await server.client().decide(decision)).outcome == "approved"
    (request,) = server.requests
    assert request.url.raw_path == f"/base/v1/approvals/w%2F1/{verb}?tenant=acme".encode()
    assert json.loads(request.content) == body


async def test_reads_go_to_their_routes():
    wait = {
        "id": "w",
        "tenant": "acme",
        "job": "j",
        "tree": "j",
        "agent": "a",
        "kind": "approval",
        "token": "ozi1.x",
        "message": "m",
        "openedAt": "2026-01-01T00:00:00Z",
        "canDecide": True,
        "rule": {"count": 1},
    }
    server = Server(
        JOB,
        {"jobs": [JOB], "cursor": "c"},
        {"job": JOB, "steps": []},
        {"job": "j", "status": "waiting", "why": "…", "steps": []},
        {"approvals": [wait]},
        {"approvals": []},
        {"agents": [{"name": "echo", "flow": False, "conversations": True, "inputSchema": {"type": "object"}}]},
        {**JOB, "status": "cancelled"},
        {**JOB, "tags": ["x"]},
        wait,
    )
    client = server.client()
    assert (await client.job("j 1")).started_at > 0
    assert (await client.jobs(5, "cu")).cursor == "c"
    assert (await client.trace("j")).steps == ()
    assert (await client.why("j")).why == "…"
    assert (await client.waits("j", tree=True))[0].can_decide
    assert not await client.waits()
    assert (await client.agents())[0].input_schema == {"type": "object"}
    assert (await client.cancel("j", "because")).status == "cancelled"
    assert (await client.tag("j", ["x"], ["y"])).tags == ("x",)
    await client.edit(EditWait(wait="w", arguments={"a": 1}))
    assert [f"{r.method} {r.url.raw_path.decode().removeprefix('/base/v1/')}" for r in server.requests] == [
        "GET jobs/j%201?tenant=acme",
        "GET jobs?tenant=acme&limit=5&cursor=cu",
        "GET jobs/j/trace?tenant=acme",
        "GET jobs/j/wait?tenant=acme",
        "GET approvals?tenant=acme&job=j&tree=true",
        "GET approvals?tenant=acme",
        "GET agents?tenant=acme",
        "POST jobs/j/cancel?tenant=acme",
        "POST jobs/j/tags?tenant=acme",
        "POST approvals/w/edit?tenant=acme",
    ]
    assert [json.loads(r.content) for r in server.requests[-3:]] == [
        {"reason": "because"},
        {"add": ["x"], "remove": ["y"]},
        {"arguments": {"a": 1}},
    ]


async def test_a_stream_ends_with_its_job():
    server = Server(stream(b"".join(TEXT) + END))
    assert await seqs(server.client()) == [1, 2, 3, 4, 5, 6]
    assert server.requests[0].headers["accept"] == "text/event-stream"
    assert "last-event-id" not in server.requests[0].headers


async def test_a_stream_that_breaks_off_is_taken_up_after_the_last_whole_event():
    server = Server(
        stream(TEXT[0], TEXT[1], TEXT[2][:30], broken=True),
        httpx.ConnectError("restarting"),
        stream(b": ping\n\n"),  # closed without a word
        stream(TEXT[1] + TEXT[2] + TEXT[3]),  # one comes twice
        stream(TEXT[4] + END),
    )
    assert await seqs(server.client()) == [1, 2, 3, 4, 5, 6]
    assert [request.headers.get("last-event-id") for request in server.requests] == [None, "2-tok", "2-tok", "2-tok", "4-tok"]


async def test_a_stream_that_is_refused_is_an_error_at_once():
    server = Server(refusal(403, "permission_denied"))
    with pytest.raises(TransomError) as caught:
        await seqs(server.client())
    assert caught.value.code == "permission_denied"


async def test_a_server_that_does_not_come_back_is_given_up():
    server = Server(*[httpx.ConnectError("refused")] * (TRIES + 1))
    with pytest.raises(TransomError, match="refused"):
        await seqs(server.client())


async def test_the_end_of_another_job_does_not_end_the_stream():
    other = event(1, type="job.ended", status="completed").replace(b'"job": "j 1"', b'"job": "child"')
    server = Server(stream(other), stream(END))
    assert await seqs(server.client()) == [1, 6]


async def test_what_is_no_json_object_is_said_to_be_no_transom_server():
    with pytest.raises(TransomError, match="is it a Transom server"):
        await Server(httpx.Response(200, text="<html>")).client().job("j")


async def test_a_redirect_says_where_to():
    with pytest.raises(TransomError) as caught:
        await Server(httpx.Response(308, headers={"Location": "https://other.example"})).client().job("j")
    assert "https://other.example" in caught.value.__notes__[0]


async def test_an_agent_in_a_file_is_not_sent_to_a_server():
    with pytest.raises(TransomError, match="give --data"):
        Server().client().declared_in("./x.yaml")


async def test_the_token_travels_as_a_bearer_and_nowhere_else():
    async with remote_client(Target(url="https://edge.example", token="tok", tenant="t")) as client:
        request = client._http.build_request("GET", "/v1/jobs")
    assert request.headers["authorization"] == "Bearer tok"
    assert "tok" not in str(request.url)


@pytest.mark.parametrize(
    ("url", "proxied"), [("http://127.0.0.1:1", False), ("http://localhost:1", False), ("http://edge.example", True)]
)
async def test_a_proxy_is_for_other_machines(monkeypatch, url, proxied):
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    async with remote_client(Target(url=url)) as client:
        assert bool(client._http._mounts) is proxied


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hunter2@host",
        "http://user:hunt/hunter2@host",
        "https://hunter2@host:7443/base",
        "user:hunter2@host",
        "ftp://user:hunter2@host",
        "https://host/?token=hunter2",
        "https://host/#hunter2",
    ],
)
def test_an_address_with_a_secret_is_refused_without_showing_it(url):
    for given in ({"url": url, "environ": {}}, {"environ": {"TRANSOM_URL": url}}, {"environ": {"OZ0_URL": url}}):
        with pytest.raises(TransomError, match="TRANSOM_TOKEN") as caught:
            target(**given)
        assert caught.value.code == "invalid_argument"
        assert "hunter2" not in caught.value.message


async def test_where_nothing_listens_one_who_only_reads_is_told_at_once():
    server = Server(httpx.ConnectError("refused"))
    with pytest.raises(TransomError, match="cannot be reached"):
        await server.client().job("j 1")
    assert len(server.requests) == 1
    again = Server({**JOB}, httpx.ConnectError("refused"), {**JOB})
    client = again.client()
    for _ in range(2):
        await client.job("j 1")
    assert len(again.requests) == 3, "a server that answered before is asked again"


@pytest.mark.parametrize("url", ["http://", "https://[::1", "https://x:99999", "http://x:y", "http://:80"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(TransomError, match="url"):
        target(url=url, environ={})


async def test_an_authority_that_cannot_be_read_is_a_plain_error(tmp_path):
    with pytest.raises(TransomError, match="--ca-file"):
        async with remote_client(Target(url="https://edge.example", ca_file=str(tmp_path / "none.crt"))):
            pass


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        *[("", 0), ("2", 2), ("1.5", 1.5), ("-1", 0), ("99999999", 30), ("nan", 0), ("inf", 0), ("soon", 0)],
        ("Wed, 09 Sep 2020 12:00:00 GMT", 0),
        ("Wed, 09 Sep 2999 12:00:00 GMT", 30),
        ("Wed, 09 Sep 2999 12:00:00 -0000", 0),
    ],
)
def test_retry_after_is_read_in_every_form_within_bounds(value, seconds):
    assert retry_after(value) == seconds


@pytest.mark.parametrize(
    ("environ", "url", "token"),
    [
        pytest.param({}, "", "", id="nothing: embedded"),
        pytest.param({"TRANSOM_URL": "https://a/", "TRANSOM_TOKEN": "t"}, "https://a", "t", id="ours"),
        pytest.param({"OZ0_URL": "https://b", "OZ0_API_KEY": "k"}, "https://b", "k", id="OZ0's"),
        pytest.param({"OZ0_URL": "https://b", "TRANSOM_URL": "https://a"}, "https://a", "", id="our URL wins"),
        pytest.param({"OZ0_URL": "https://b", "OZ0_API_KEY": "k", "TRANSOM_TOKEN": "t"}, "https://b", "t", id="our token wins"),
    ],
)
@pytest.mark.req("SDK-4")
def test_where_the_server_is_comes_from_the_environment(environ, url, token):
    found = target(environ=environ)
    assert (found.url, found.token, found.given) == (url, token, ())


def test_options_win_over_the_environment_and_are_repeated_in_hints(tmp_path):
    file = tmp_path / "token"
    file.write_text("secret\n")
    found = target(
        url="https://c", token_file=str(file), tenant="acme", environ={"TRANSOM_URL": "https://a", "TRANSOM_TOKEN": "t"}
    )
    assert (found.url, found.token) == ("https://c", "secret")
    assert found.command("job", "watch", "j 1") == f"transom job watch 'j 1' --url https://c --token-file {file} --tenant acme"
    assert target(data="d", environ={"TRANSOM_URL": "https://a"}).url == ""


@pytest.mark.parametrize("content", [b"two words", b"two\nlines", "schlüssel".encode(), b"\xff"])
def test_a_file_that_holds_no_token_is_refused_without_showing_it(tmp_path, content):
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(TransomError) as caught:
        target(url="https://c", token_file=str(file), environ={})
    assert "two" not in caught.value.message
