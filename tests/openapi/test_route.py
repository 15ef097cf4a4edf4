"""`GET /v1/openapi.json`: whose document it is, and when it is sent at all."""

import json

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openapi_kit import agent, agents_of, house_plugin
from openapi_spec_validator import validate

import transom_openapi.library as library
from transom_openapi import OpenapiPlugin
from transom_openapi.route import matches

pytestmark = pytest.mark.anyio

PATH = "/v1/openapi.json"
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


def plugins(rights, *more):
    agents = agent("alpha", input_schema=SCHEMA), agent("beta", output_schema=SCHEMA)
    return [house_plugin(rights, *agents), agents_of("other", agent("gamma")), "openapi", *more]


def agents_in(answer) -> list[str]:
    assert answer.status_code == 200, answer.text
    document = json.loads(answer.content)
    return [path.split("/")[3] for path in document["paths"] if path.startswith("/v1/agents/")]


@pytest.mark.req("REST-3")
async def test_a_tenants_document_is_valid_and_has_all_of_its_agents(kernel, as_caller, rights):
    async with kernel(plugins=plugins(rights)) as k, as_caller(k, "anna") as client:
        answer = await client.get(PATH)
        assert agents_in(answer) == ["alpha", "beta", "gamma"]
        validate(answer.json())
        assert answer.headers["content-type"] == "application/json"
        assert int(answer.headers["content-length"]) == len(answer.content)


@pytest.mark.req("REST-3")
async def test_a_plugins_document_has_its_agents_under_an_etag_that_names_it(kernel, as_caller, rights):
    async with kernel(plugins=plugins(rights)) as k, as_caller(k, "anna") as client:
        whole, house, other = [await client.get(PATH, params=p) for p in ({}, {"plugin": "house"}, {"plugin": "other"})]
        assert (agents_in(house), agents_in(other)) == (["alpha", "beta"], ["gamma"])
        assert house.headers["etag"].startswith('"house.')
        assert other.headers["etag"].startswith('"other.')
        assert "." not in whole.headers["etag"]
        assert agents_in(await client.get(PATH, params={"plugin": ""})) == ["alpha", "beta", "gamma"]


@pytest.mark.req("REST-3")
async def test_a_plugin_that_is_not_there_or_has_nothing_for_the_caller_is_not_found(kernel, as_caller, rights):
    rights.hidden["anna"] = {"gamma"}
    async with kernel(plugins=plugins(rights)) as k, as_caller(k, "anna") as client:
        for name in ("nobody", "openapi", "other"):
            answer = await client.get(PATH, params={"plugin": name})
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
            assert name in answer.json()["message"]


@pytest.mark.req("REST-3")
async def test_a_document_that_the_client_has_is_not_sent_again(kernel, as_caller, rights):
    async with kernel(plugins=plugins(rights)) as k, as_caller(k, "anna") as client:
        for params in ({}, {"plugin": "house"}):
            etag = (await client.get(PATH, params=params)).headers["etag"]
            for value in (etag, f"W/{etag}", f'"a", {etag}', f'W/"b,c",W/{etag} , "d"', "*", " * "):
                answer = await client.get(PATH, params=params, headers={"If-None-Match": value})
                assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag), value
                assert answer.headers["cache-control"] == "private, no-cache"
            for value in ("", '"a"', etag[1:-1], f'"{etag[2:]}', '"*"', f"{etag[:-1]}x"):
                answer = await client.get(PATH, params=params, headers={"If-None-Match": value})
                assert answer.status_code == 200, value


@given(st.text(alphabet='W/", *ab.\x80'), st.text(alphabet='W/", *ab'))
def test_whatever_is_sent_as_if_none_match_is_read(before, after):
    assert matches([before, '"x"'], '"x"') or before.count('"') % 2
    assert not matches([before, after], '"x"') or "*" in (before + "," + after)
    assert matches([], '"x"') is False


@pytest.mark.req("REST-3")
async def test_a_caller_is_shown_what_it_may_see(kernel, as_caller, rights):
    rights.hidden["anna"] = {"alpha", "gamma"}
    async with kernel(plugins=plugins(rights)) as k, as_caller(k, "anna") as anna, as_caller(k, "ben") as ben:
        narrow, wide = await anna.get(PATH), await ben.get(PATH)
        assert (agents_in(narrow), agents_in(wide)) == (["beta"], ["alpha", "beta", "gamma"])
        assert "Alpha" not in narrow.text
        assert narrow.headers["etag"] != wide.headers["etag"]
        again = await anna.get(PATH, headers={"If-None-Match": wide.headers["etag"]})
        assert agents_in(again) == ["beta"]


@pytest.mark.parametrize(
    ("who", "params", "status", "code"),
    [
        ("", {}, 401, "unauthenticated"),
        ("eve", {}, 403, "permission_denied"),
        ("anna", {"tenant": "acme"}, 403, "permission_denied"),
        ("root", {"tenant": "nowhere"}, 404, "not_found"),
        ("anna", {"tenant": "no/name"}, 400, "invalid_argument"),
        ("anna", {"plug": "x"}, 400, "invalid_argument"),
        ("anna", {"plugin": ["x", "y"]}, 400, "invalid_argument"),
        ("anna", {"token": "x"}, 400, "invalid_argument"),
    ],
)
async def test_a_refusal_is_an_error_as_every_door_tells_it(kernel, as_caller, rights, who, params, status, code):
    rights.refused.add("eve")
    async with kernel(plugins=plugins(rights)) as k, as_caller(k, who) as client:
        answer = await client.get(PATH, params=params)
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert set(answer.json()) == {"code", "message", "details"}


@pytest.mark.req("REST-9")
async def test_each_tenant_has_its_own(kernel, as_caller, rights):
    async with kernel(plugins=plugins(rights), config={"tenants": ["default", "acme"]}) as k, as_caller(k, "root") as client:
        answers = [await client.get(PATH, params=p) for p in ({}, {"tenant": ""}, {"tenant": "default"}, {"tenant": "acme"})]
        assert len({answer.headers["etag"] for answer in answers[:3]}) == 1
        assert answers[3].headers["etag"] != answers[0].headers["etag"]
        assert answers[3].json()["components"]["parameters"]["tenant"]["schema"]["default"] == "acme"


async def test_nothing_is_served_before_the_start_and_after_the_end():
    plugin = OpenapiPlugin(OpenapiPlugin.Config())
    with pytest.raises(Exception, match="starting or stopping"):
        _ = plugin.kernel


# -- what is kept -----------------------------------------------------------------------------------------------------


@pytest.fixture
def built(monkeypatch) -> list[tuple[str, str, int]]:
    """Every document that is built: tenant, plugin, how many agents."""
    made, real = [], library.document_of

    def counted(tenant, plugin, agents):
        made.append((tenant, plugin, len(agents)))
        return real(tenant, plugin, agents)

    monkeypatch.setattr(library, "document_of", counted)
    return made


@pytest.mark.req("REST-4")
async def test_a_document_is_built_once_for_all_who_see_the_same(kernel, as_caller, rights, built):
    rights.hidden |= {"anna": {"gamma"}, "ben": {"gamma"}}
    async with kernel(plugins=plugins(rights)) as k:
        async with anyio.create_task_group() as tasks:
            for who in ("anna", "ben", "carl", "dora", "carl"):

                async def get(who=who):
                    async with as_caller(k, who) as client:
                        assert (await client.get(PATH)).status_code == 200

                tasks.start_soon(get)
        assert sorted(built) == [("default", "", 2), ("default", "", 3)]


@pytest.mark.req("REST-4")
async def test_what_a_caller_sees_is_not_asked_anew_for_each_request(kernel, as_caller, rights, clock):
    async with kernel(plugins=plugins(rights), clock=clock) as k, as_caller(k, "anna") as client:
        await client.get(PATH)
        before = rights.asked
        for params in ({}, {"plugin": "house"}, {"plugin": "other"}):
            await client.get(PATH, params=params)
        assert rights.asked - before == 3, "the permission to read the catalog, once a request"
        rights.hidden["anna"] = {"alpha"}
        clock.forward(library.MAX_AGE / 1000 + 1)
        assert agents_in(await client.get(PATH)) == ["beta", "gamma"]


async def test_a_change_of_rights_is_seen_at_once_and_until_it_has_settled(kernel, as_caller, rights, clock):
    async with kernel(plugins=plugins(rights), clock=clock) as k, as_caller(k, "anna") as client:
        assert agents_in(await client.get(PATH)) == ["alpha", "beta", "gamma"]
        for topic, hidden in (("policy", "alpha"), ("people", "beta"), ("keys", "gamma")):
            clock.forward(5)
            await k.store.transact("default", lambda tx, topic=topic: tx.touch(topic))
            await anyio.wait_all_tasks_blocked()
            assert hidden in agents_in(await client.get(PATH)), "whoever judges has not read it yet"
            rights.hidden["anna"] = {hidden}
            assert hidden not in agents_in(await client.get(PATH))


@pytest.mark.req("REST-3", "REST-4")
async def test_a_change_of_the_catalog_is_seen_at_once(kernel, as_caller, rights, built):
    async with kernel(plugins=plugins(rights)) as k, as_caller(k, "anna") as client:
        before = await client.get(PATH)
        k.catalog._add(k.catalog.offer("default", "alpha").__class__(agent=agent("delta"), definition="v", plugin="other"))
        after = await client.get(PATH)
        assert agents_in(after) == ["alpha", "beta", "delta", "gamma"]
        assert after.headers["etag"] != before.headers["etag"]
        assert (await client.get(PATH)).headers["etag"] == after.headers["etag"]
        assert len(built) == 2


async def test_documents_that_are_kept_have_a_bound(kernel, as_caller, rights, built, monkeypatch):
    async with kernel(plugins=plugins(rights)) as k, as_caller(k, "anna") as client:
        size = len((await client.get(PATH)).content)
        monkeypatch.setattr(library, "MAX_BYTES", 2 * size)
        for name in ("house", "other", "house", "other"):
            await client.get(PATH, params={"plugin": name})
        assert len(built) == 3, "two fit"
        await client.get(PATH)
        assert built.count(("default", "", 3)) == 2, "the one that was not asked for longest had gone"


async def test_any_door_gives_the_document_by_the_operation(kernel, as_caller, rights):
    async with kernel(plugins=plugins(rights, "rest")) as k, as_caller(k, "anna") as client:
        answer = await client.post("/v1/operations/GetOpenApi", json={"plugin": "other"})
        shown = await client.get(PATH, params={"plugin": "other"})
        assert answer.json()["etag"] == shown.headers["etag"]
