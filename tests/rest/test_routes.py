"""Each route asks for its operation, and answers in the wire's words."""

from collections import defaultdict
from urllib.parse import quote

import msgspec
import pytest

from transom.table import OWN_OPERATIONS
from transom_hookspecs import (
    AgentView,
    BranchCost,
    CancelJob,
    Catalog,
    CostView,
    DecideApproval,
    Decided,
    DecidedTogether,
    EditWait,
    ErrorInfo,
    GetCatalog,
    GetJob,
    GetJobTrace,
    GetJobWait,
    JobAnswer,
    JobPage,
    JobTrace,
    JobWait,
    ListApprovals,
    ListJobs,
    PendingStep,
    Published,
    PublishEvent,
    Rule,
    SetJobTags,
    StartJob,
    StepView,
    TransomError,
    Vote,
    WaitPage,
    WaitView,
    WatchGrant,
)
from transom_rest import wire

pytestmark = pytest.mark.anyio

NOON = 1_772_366_400_250
NOON_TEXT = "2026-03-01T12:00:00.250Z"
COST = {"usd": 0.0, "calls": 0, "inputTokens": 0, "outputTokens": 0, "branches": []}
JOB = {"id": "j1", "agent": "echo", "status": "running", "startedAt": NOON_TEXT, "cost": COST}
DECIDED = Decided(wait="w1", job="j1", result="decided", outcome="approved", by="person:anna")
DECIDED_JSON = {"wait": "w1", "job": "j1", "result": "decided", "outcome": "approved", "by": "person:anna"}
WAIT = WaitView(
    id="w1",
    tenant="default",
    job="j1",
    tree="j1",
    agent="helper",
    kind="approval",
    token="ozi1.abc",
    message="Greet?",
    opened_at=NOON,
    expires_at=NOON + 1,
    rule=Rule(count=2, four_eyes=True),
    can_decide=False,
    function="team.greet",
    shown={"channel_name": "#team"},
    votes=(Vote(by="person:omar", approved=True, at=NOON),),
)
WAIT_JSON = {
    "id": "w1",
    "tenant": "default",
    "job": "j1",
    "tree": "j1",
    "agent": "helper",
    "kind": "approval",
    "token": "ozi1.abc",
    "message": "Greet?",
    "openedAt": NOON_TEXT,
    "expiresAt": "2026-03-01T12:00:00.251Z",
    "rule": {"count": 2, "fourEyes": True, "veto": True},
    "canDecide": False,
    "function": "team.greet",
    "shown": {"channel_name": "#team"},
    "votes": [{"by": "person:omar", "approved": True, "at": NOON_TEXT}],
}


async def ask(client, kernel, method, url, answer, **request):
    """Send a request; returns the response, the operation's request, and its origin."""
    kernel.answers = defaultdict(lambda: answer)
    response = await client.request(method, url, **request)
    assert len(kernel.calls) == 1, response.text
    _, asked, origin = kernel.calls[0]
    return response, asked, origin


READS = {
    "a job": ("/v1/jobs/j1", GetJob(id="j1"), "job", JOB),
    "a list of jobs": ("/v1/jobs", ListJobs(), "page", {"jobs": [JOB], "cursor": "c"}),
    "a page of jobs": (
        "/v1/jobs?limit=2&cursor=x%2Fy",
        ListJobs(limit=2, cursor="x/y"),
        "page",
        {"jobs": [JOB], "cursor": "c"},
    ),
    "a trace": (
        "/v1/jobs/j1/trace",
        GetJobTrace(id="j1"),
        JobTrace,
        {
            "job": JOB,
            "steps": [
                {"job": "j1", "key": "1", "kind": "model", "name": "m", "state": "done", "attempt": 2, "begunAt": NOON_TEXT}
            ],
        },
    ),
    "a wait": (
        "/v1/jobs/j1/wait",
        GetJobWait(id="j1"),
        JobWait(
            job="j1",
            status="waiting",
            why="It waits.",
            steps=(PendingStep(key="1", kind="call", name="f", attempts=1, why="A person.", waits_for="w1", since=NOON),),
        ),
        {
            "job": "j1",
            "status": "waiting",
            "why": "It waits.",
            "steps": [
                {
                    "key": "1",
                    "kind": "call",
                    "name": "f",
                    "attempts": 1,
                    "why": "A person.",
                    "waitsFor": "w1",
                    "since": NOON_TEXT,
                }
            ],
        },
    ),
    "approvals": ("/v1/approvals", ListApprovals(), WaitPage(waits=(WAIT,)), {"approvals": [WAIT_JSON], "cursor": ""}),
    "a page of a tree's approvals": (
        "/v1/approvals?job=j1&tree=true&limit=7&cursor=x",
        ListApprovals(job="j1", tree=True, limit=7, cursor="x"),
        WaitPage(waits=(), cursor="y"),
        {"approvals": [], "cursor": "y"},
    ),
    "the catalog": (
        "/v1/agents",
        GetCatalog(),
        Catalog(agents=(AgentView(name="echo", title="Echo", input_schema={"max_length": 1}),)),
        {"agents": [{"name": "echo", "flow": False, "conversations": True, "title": "Echo", "inputSchema": {"max_length": 1}}]},
    ),
}


@pytest.mark.req("REST-2", "RT-17", "RT-19", "RT-21", "RT-24", "RT-30")
@pytest.mark.parametrize("name", READS)
async def test_a_read_asks_for_its_operation_and_answers_in_json(client, kernel, job_view, name):
    url, asked, answer, body = READS[name]
    if answer == "job":
        answer = job_view()
    elif answer == "page":
        answer = JobPage(jobs=(job_view(),), cursor="c")
    elif answer is JobTrace:
        step = StepView(job="j1", key="1", kind="model", name="m", state="done", attempt=2, begun_at=NOON)
        answer = JobTrace(job=job_view(), steps=(step,))
    response, got, origin = await ask(client, kernel, "GET", url, answer)
    assert (response.status_code, got, response.json()) == (200, asked, body)
    assert response.headers["content-type"] == "application/json"
    assert (origin.tenant, origin.caller, origin.door, origin.key) == ("default", kernel.caller, "rest", "")


WRITES = {
    "a cancel": ("/v1/jobs/j1/cancel", None, CancelJob(id="j1"), "job", JOB),
    "a cancel with a reason": ("/v1/jobs/j1/cancel", {"reason": "no"}, CancelJob(id="j1", reason="no"), "job", JOB),
    "a change of tags": (
        "/v1/jobs/j1/tags",
        {"add": ["a"], "remove": ["b"]},
        SetJobTags(id="j1", add=("a",), remove=("b",)),
        "job",
        JOB,
    ),
    "an approval": ("/v1/approvals/w1/approve", None, DecideApproval(wait="w1", approved=True), DECIDED, DECIDED_JSON),
    "an approval with all": (
        "/v1/approvals/ozi1.abc/approve",
        {"comment": "fine", "confirm": "prod", "token": "ozi1.abc", "answer": {"a_b": 1}},
        DecideApproval(wait="ozi1.abc", approved=True, comment="fine", confirm="prod", token="ozi1.abc", answer={"a_b": 1}),
        DECIDED,
        DECIDED_JSON,
    ),
    "a denial": (
        "/v1/approvals/w1/deny",
        {"comment": "no"},
        DecideApproval(wait="w1", approved=False, comment="no"),
        DECIDED,
        DECIDED_JSON,
    ),
    "an answer": ("/v1/approvals/w1/answer", {"answer": "red"}, DecideApproval(wait="w1", answer="red"), DECIDED, DECIDED_JSON),
    "an answer that is null": ("/v1/approvals/w1/answer", {"answer": None}, DecideApproval(wait="w1"), DECIDED, DECIDED_JSON),
    "an edit": (
        "/v1/approvals/w1/edit",
        {"arguments": {"a": 1}},
        EditWait(wait="w1", arguments={"a": 1}),
        DECIDED,
        DECIDED_JSON,
    ),
    "an event": (
        "/v1/events/github",
        {"pr_id": 4},
        PublishEvent(source="github", payload={"pr_id": 4}),
        Published(jobs=("j1",)),
        {"jobs": ["j1"]},
    ),
}


@pytest.mark.req("RT-15", "RT-26", "RT-31")
@pytest.mark.parametrize("name", WRITES)
async def test_a_write_asks_for_its_operation_and_answers_in_json(client, kernel, job_view, name):
    url, sent, asked, answer, body = WRITES[name]
    answer = job_view() if answer == "job" else answer
    content = {} if sent is None else {"json": sent}
    response, got, origin = await ask(client, kernel, "POST", url, answer, headers={"Idempotency-Key": "k-1"}, **content)
    assert (response.status_code, got, response.json()) == (200, asked, body)
    assert (origin.tenant, origin.caller, origin.door, origin.key) == ("default", kernel.caller, "rest", "k-1")


@pytest.mark.req("REST-1")
@pytest.mark.parametrize(("retried", "status"), [(False, 201), (True, 200)], ids=["a new job", "a retry"])
async def test_a_start_answers_with_the_job_and_whether_it_was_a_retry(client, kernel, job_view, retried, status):
    answer = JobAnswer(job=job_view(), retried=retried)
    response, asked, _ = await ask(client, kernel, "POST", "/v1/agents/echo/jobs", answer, json={"repo": "a"})
    assert (response.status_code, response.json()) == (status, {**JOB, "retried": retried})
    assert asked == StartJob(agent="echo", input={"repo": "a"})


@pytest.mark.req("RT-2")
async def test_a_start_takes_every_option_from_the_query(client, kernel, job_view):
    url = (
        "/v1/agents/a-1/jobs?tenant=acme&id=my%20job&timeout=1.5s&tags=a,%20b&team=ops&budget=b1"
        "&data_subjects=s1,s2&conversation=c1&continue_from=j0"
    )
    kernel.answers["StartJob"] = JobAnswer(job=job_view())
    response = await client.post(url, json=[1])
    _, asked, origin = kernel.calls[0]
    assert response.status_code == 201
    assert asked == StartJob(
        agent="a-1",
        input=[1],
        id="my job",
        timeout=1.5,
        tags=("a", "b"),
        team="ops",
        budget="b1",
        data_subjects=("s1", "s2"),
        conversation="c1",
        continue_from="j0",
    )
    assert origin.tenant == "acme"


@pytest.mark.req("RT-13")
async def test_a_job_is_told_whole(client, kernel, job_view):
    job = job_view(
        status="timed_out",
        closed_at=NOON + 1000,
        output={"snake_key": 1},
        error=ErrorInfo(code="deadline_exceeded", message="too late"),
        children=("c1",),
        approvals=(WAIT,),
        flow=True,
        card=True,
        cost=CostView(
            usd=0.5,
            calls=2,
            input_tokens=3,
            output_tokens=4,
            branches=(BranchCost(job="j1", agent="echo", models=("m",), calls=2, cached_tokens=1, usd=0.5),),
        ),
        conversation="t1",
        turn=2,
        tags=("a",),
        team="ops",
        taint=("agui",),
        labels=("l",),
        redacted="hr",
        caller="person:anna",
    )
    response, _, _ = await ask(client, kernel, "GET", "/v1/jobs/j1", job)
    branch = {
        "job": "j1",
        "agent": "echo",
        "calls": 2,
        "inputTokens": 0,
        "outputTokens": 0,
        "usd": 0.5,
        "models": ["m"],
        "cachedTokens": 1,
    }
    assert response.json() == {
        "id": "j1",
        "agent": "echo",
        "status": "timed_out",
        "startedAt": NOON_TEXT,
        "closedAt": "2026-03-01T12:00:01.250Z",
        "output": {"snake_key": 1},
        "error": {"code": "deadline_exceeded", "message": "too late"},
        "children": ["c1"],
        "approvals": [WAIT_JSON],
        "flow": True,
        "card": True,
        "cost": {"usd": 0.5, "calls": 2, "inputTokens": 3, "outputTokens": 4, "branches": [branch]},
        "conversation": "t1",
        "turn": 2,
        "tags": ["a"],
        "team": "ops",
        "taint": ["agui"],
        "labels": ["l"],
        "redacted": "hr",
    }


@pytest.mark.parametrize("output", [None, "", 0, False, [], {}], ids=repr)
async def test_an_output_is_left_out_only_when_there_is_none(client, kernel, job_view, output):
    response, _, _ = await ask(client, kernel, "GET", "/v1/jobs/j1", job_view(output=output))
    assert response.json().get("output", "missing") == ("missing" if output is None else output)


@pytest.mark.req("REST-9")
@pytest.mark.parametrize(("query", "tenant"), [("", "default"), ("?tenant=", "default"), ("?tenant=acme", "acme")])
async def test_the_tenant_is_default_unless_named(client, kernel, job_view, query, tenant):
    _, _, origin = await ask(client, kernel, "GET", f"/v1/jobs/j1{query}", job_view())
    assert origin.tenant == tenant


@pytest.mark.parametrize("id", ["a b", "ü", "a:b", "a%b", "j?x", "{id}", "日本", "a+b", "..a", "cov.1"])
async def test_an_id_may_have_any_character_in_the_path(client, kernel, job_view, id):
    _, asked, _ = await ask(client, kernel, "GET", f"/v1/jobs/{quote(id)}", job_view())
    assert asked == GetJob(id=id)


async def test_the_head_is_what_came_with_every_byte(client, kernel, job_view):
    headers = [(b"X-Odd", b"\xff\xfe"), (b"x-odd", b"2"), (b"authorization", b"Bearer \xe9")]
    kernel.answers["GetJob"] = job_view()
    response = await client.get("/v1/jobs/j1?tenant=acme", headers=headers)
    (head,) = kernel.heads
    assert response.status_code == 200
    assert (head.method, head.path, head.query, head.client) == ("GET", "/v1/jobs/j1", "tenant=acme", "127.0.0.1")
    assert head.headers["x-odd"] == ("\xff\xfe", "2")
    assert head.headers["authorization"] == ("Bearer \xe9",)


async def test_the_caller_is_known_before_the_body_is_read(client, kernel):
    kernel.caller = TransomError("unauthenticated", "who are you?")
    read = []

    async def body():
        read.append(1)
        yield b"{}"

    response = await client.post("/v1/agents/echo/jobs", content=body(), headers={"content-type": "application/json"})
    assert (response.status_code, response.headers["www-authenticate"], read) == (401, "Bearer", [])
    assert kernel.calls == []


NESTED = {
    AgentView: wire.AgentBody,
    BranchCost: wire.BranchBody,
    CostView: wire.CostBody,
    PendingStep: wire.PendingBody,
    Rule: wire.RuleBody,
    StepView: wire.StepBody,
    Vote: wire.VoteBody,
}


def test_every_shape_has_the_names_of_what_it_is_made_of():
    for source, shape in (wire.SHAPES | NESTED).items():
        unknown = {f.name for f in msgspec.structs.fields(shape)} - {f.name for f in msgspec.structs.fields(source)}
        assert not unknown, source


BY_NAME_ALONE = {DecidedTogether}
"""Answers of operations that have no route of their own."""


def test_whatever_an_operation_of_the_kernel_answers_has_a_shape():
    own = {operation.name: operation.response for operation in OWN_OPERATIONS}
    assert set(own.values()) <= set(wire.SHAPES) | {JobAnswer, WaitPage, WatchGrant} | BY_NAME_ALONE
