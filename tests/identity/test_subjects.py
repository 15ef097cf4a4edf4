"""Tokens of subjects: short ones, made with an API key, for the pages of those whom its owner serves."""

import re

import pytest

from transom_hookspecs import Caller, Directory, Member

pytestmark = pytest.mark.anyio

ROUTES = ("/subjects/tokens", "/api/v1/subjects/tokens")
RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


@pytest.fixture
async def key(home) -> str:
    """A key that may make tokens of subjects."""
    made = await home.did(
        "CreateKey", name="shop", role="member", scope=["echo"], label="shop", capability=["subjects", "threads"]
    )
    return made["token"]


async def ask(home, who: str, body: object, path: str = ROUTES[0]):
    return await home.client.post(path, json=body, headers=home.bearer(who))


@pytest.mark.req("RUNS-1")
@pytest.mark.parametrize("path", ROUTES)
async def test_a_key_that_may_makes_a_token_that_acts_for_one_subject(home, key, path):
    answer = await ask(home, key, {"subject": {"id": "anna"}, "expires_in": 60}, path)
    body = answer.json()
    assert answer.status_code == 200
    assert set(body) == {"token", "subject_id", "expires_at"}
    assert body["token"].startswith("ast_")
    assert body["subject_id"] == "anna"
    assert RFC3339.fullmatch(body["expires_at"])
    assert answer.headers["cache-control"] == "no-store"
    caller = await home.caller(body["token"])
    assert caller == Caller(kind="subject", id="anna", tenant="default", via="key:shop", label="shop", scopes=("echo",))
    assert caller.principal == "subject:anna"
    member = await home.kernel.service(Directory).member(caller, "default")
    assert member == Member(rights=("capability.threads",), scopes=("echo",))


@pytest.mark.req("RUNS-1")
async def test_its_life_is_a_quarter_of_an_hour_unless_it_is_said(house, clock):
    async with house(clock=clock) as home:
        key = (await home.did("CreateKey", name="shop", capability=["subjects"]))["token"]
        for body, seconds in [({}, 900), ({"expires_in": 60}, 60), ({"expires_in": 3600}, 3600)]:
            token = (await ask(home, key, {"subject": {"id": "anna"}, **body})).json()["token"]
            clock.forward(seconds - 1)
            assert (await home.caller(token)).id == "anna"
            clock.forward(1)
            assert await home.status(token) == 401


@pytest.mark.req("RUNS-1")
async def test_a_field_that_will_not_do_is_a_problem_that_names_it(home, key):
    for body, param in [
        ({}, "subject"),
        ({"subject": "anna"}, "subject"),
        ({"subject": {}}, "subject.id"),
        ({"subject": {"id": 5}}, "subject.id"),
        ({"subject": {"id": ""}}, "subject.id"),
        ({"subject": {"id": "a b"}}, "subject.id"),
        ({"subject": {"id": "x" * 201}}, "subject.id"),
        ({"subject": {"id": "é"}}, "subject.id"),
        *[
            ({"subject": {"id": "anna"}, "expires_in": n}, "expires_in")
            for n in (59, 3601, 0, -1, 10**30, "900", 900.5, True, None)
        ],
    ]:
        for path in ROUTES:
            answer = await ask(home, key, body, path)
            assert answer.headers["content-type"] == "application/problem+json"
            problem = answer.json()
            assert set(problem) == {"type", "title", "status", "detail", "param"}, body
            assert (answer.status_code, problem["status"], problem["param"]) == (422, 422, param), body


@pytest.mark.req("RUNS-1")
async def test_other_refusals_are_problems_without_a_field(home, key):
    own = {"subject": {"id": "anna"}}
    token = (await ask(home, key, own)).json()["token"]
    for who, status in [("echo_key", 403), ("ada", 403), ("anna", 403), (token, 403), ("deskapp", 401), ("tr_key_x", 401)]:
        answer = await ask(home, who, own)
        assert (answer.status_code, answer.json()["status"]) == (status, status), who
        assert answer.headers["content-type"] == "application/problem+json"
        assert set(answer.json()) == {"type", "title", "status", "detail"}
    for content, media, status in [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"x", "text/plain", 415),
    ]:
        answer = await home.client.post(ROUTES[0], content=content, headers={**home.bearer(key), "Content-Type": media})
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


@pytest.mark.req("RUNS-1", "IDN-2")
async def test_it_ends_with_its_key(home, key):
    token = (await ask(home, key, {"subject": {"id": "anna"}})).json()["token"]
    caller = await home.caller(token)
    await home.did("RevokeKey", name="shop")
    assert await home.status(token) == 401
    assert await home.kernel.service(Directory).member(caller, "default") is None


async def test_it_never_outlives_its_key(house, clock):
    async with house(clock=clock) as home:
        key = (await home.did("CreateKey", name="shop", capability=["subjects"], expires="10m"))["token"]
        token = (await ask(home, key, {"subject": {"id": "anna"}, "expires_in": 3600})).json()["token"]
        clock.forward(600)
        assert await home.status(token) == 401


@pytest.mark.req("IDN-8")
async def test_a_subject_of_one_tenant_is_nobody_in_another_and_no_person_of_its_name(home, key):
    token = (await ask(home, key, {"subject": {"id": "anna"}})).json()["token"]
    assert await home.status(token, "/v1/agents?tenant=acme") == 403
    job = await home.client.post("/v1/agents/echo/jobs", json="x", headers=home.bearer("anna"))
    path = f"/v1/jobs/{job.json()['id']}"
    assert await home.status(token, path) in (403, 404)
    assert (await home.refused("ListSessions", token))[0] == 403
    assert (await home.refused("CreatePersonToken", token, id="anna"))[0] == 403
