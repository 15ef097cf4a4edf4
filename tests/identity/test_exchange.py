"""Registered apps, and the exchange of a person's token for a short one that acts for her through the app (RFC 8693)."""

import base64

import httpx
import pytest

from transom_hookspecs import Caller, Directory

pytestmark = pytest.mark.anyio

GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"


async def exchange(
    home, subject: str = "anna", app: str = "deskapp", headers: dict | None = None, **form: str
) -> httpx.Response:
    """Exchange a token, by the app's key as a bearer token."""
    given = {
        "grant_type": GRANT,
        "subject_token": home.tokens.get(subject, subject),
        "subject_token_type": ACCESS_TOKEN,
        **form,
    }
    sent = home.bearer(app) if headers is None else headers
    return await home.client.post("/oauth/token", data={k: v for k, v in given.items() if v is not None}, headers=sent)


async def exchanged(home, **options: str) -> str:
    answer = await exchange(home, **options)
    assert answer.status_code == 200, answer.text
    return answer.json()["access_token"]


def error(answer: httpx.Response) -> tuple[int, str]:
    """The status and the code, of an answer that is shaped as RFC 6749 says and kept by nobody."""
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error", "error_description"}
    return answer.status_code, answer.json()["error"]


@pytest.mark.req("IDN-2")
async def test_a_persons_token_becomes_a_short_one_of_the_app_for_her(home):
    answer = await exchange(home)
    body = answer.json()
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    assert body == {
        "access_token": body["access_token"],
        "issued_token_type": ACCESS_TOKEN,
        "token_type": "Bearer",
        "expires_in": 900,
        "scope": "*",
    }
    assert body["access_token"].startswith("tr_at_")
    caller = await home.caller(body["access_token"])
    assert caller == Caller(kind="person", id="anna", tenant="default", via="app:deskapp")
    assert caller.principal == "person:anna@app:deskapp"
    assert (await home.kernel.service(Directory).member(caller, "default")).role == "member"
    entry = (await home.audited())[-1]
    assert (entry.action, entry.caller, entry.via) == ("token.exchange", "person:anna", "app:deskapp")


@pytest.mark.req("IDN-2")
async def test_it_lives_a_quarter_of_an_hour(house, clock):
    async with house(clock=clock) as home:
        token = await exchanged(home)
        clock.forward(899)
        assert await home.status(token) == 200
        clock.forward(1)
        assert await home.status(token) == 401


async def test_it_never_outlives_what_it_was_made_with(house, clock):
    async with house(clock=clock) as home:
        pat = (await home.did("CreatePersonToken", "anna", id="anna", expires="5m"))["token"]
        answer = await exchange(home, subject=pat)
        assert answer.json()["expires_in"] == 300
        clock.forward(300)
        assert await home.status(answer.json()["access_token"]) == 401


@pytest.mark.req("IDN-2", "AGUI-34")
async def test_the_apps_own_key_is_good_for_nothing_else(home):
    own = (await home.did("RegisterApp", name="crm"))["token"]
    assert own.startswith("tr_app_")
    assert await exchanged(home, app=own)
    for key in (own, "deskapp"):
        for path in ("/v1/agents", "/v1/jobs", "/v1/approvals", "/v1/jobs/x/events"):
            assert await home.status(key, path) == 401, path
        assert (await home.ask("GetCatalog", key)).status_code == 401
        assert (await home.client.delete("/v1/sessions", headers=home.bearer(key))).status_code == 401
        answer = await home.client.post("/subjects/tokens", json={"subject": {"id": "a"}}, headers=home.bearer(key))
        assert answer.status_code == 401


async def test_an_app_shows_its_key_in_any_one_way(home):
    own = (await home.did("RegisterApp", name="crm"))["token"]
    basic = {"Authorization": "Basic " + base64.b64encode(f"crm:{own}".encode()).decode()}
    for headers, form in [
        (home.bearer(own), {}),
        (home.bearer(own), {"client_id": "crm"}),
        (basic, {}),
        (basic, {"client_id": "crm"}),
        ({}, {"client_id": "crm", "client_secret": own}),
        ({}, {"client_secret": own}),
    ]:
        assert (await exchange(home, headers=headers, **form)).status_code == 200, (headers.keys(), form.keys())


@pytest.mark.req("IDN-2")
async def test_an_app_that_is_none_is_refused(home):
    own = (await home.did("RegisterApp", name="crm"))["token"]
    gone = (await home.did("RegisterApp", name="gone"))["token"]
    await home.did("RevokeApp", name="gone")

    def basic(text: str) -> dict[str, str]:
        return {"Authorization": "Basic " + base64.b64encode(text.encode()).decode()}

    for headers, form in [
        ({}, {}),
        ({}, {"client_id": "crm"}),
        ({}, {"client_id": "crm", "client_secret": ""}),
        ({}, {"client_id": "deskapp", "client_secret": own}),
        (home.bearer("ada"), {}),
        (home.bearer("key"), {}),
        (home.bearer(gone), {}),
        (home.bearer("tr_app_" + "A" * 43), {}),
        (home.bearer("x" * 5000), {}),
        (home.bearer(own), {"client_id": "deskapp"}),
        (basic(f"deskapp:{own}"), {}),
        (basic(f":{own}"), {}),
        (basic(own), {}),
        ({"Authorization": "Basic !"}, {}),
        ({"Authorization": "Basic " + base64.b64encode(b"\xff\xfe").decode()}, {}),
        ({"Authorization": "Digest x"}, {}),
    ]:
        answer = await exchange(home, headers=headers, **form)
        assert error(answer) == (401, "invalid_client"), (headers, form)
        assert "www-authenticate" in answer.headers


async def test_an_app_that_shows_its_key_twice_is_refused(home):
    own = (await home.did("RegisterApp", name="crm"))["token"]
    for headers, form in [
        (home.bearer(own), {"client_secret": own}),
        ([("Authorization", f"Bearer {own}"), ("Authorization", f"Bearer {own}")], {}),
        ({**home.bearer(own), "X-API-Key": "x"}, {}),
    ]:
        assert error(await exchange(home, headers=headers, **form)) == (400, "invalid_request")


@pytest.mark.req("IDN-2")
async def test_only_a_token_that_a_person_has_herself_is_exchanged(home):
    """The confused deputy: what one app got is nothing to another, nor once more to itself."""
    other = (await home.did("RegisterApp", name="crm"))["token"]
    of_desk = await exchanged(home)
    pat = (await home.did("CreatePersonToken", "anna", id="anna"))["token"]
    ended = await home.did("CreatePersonToken", "anna", id="anna")
    await home.did("EndSession", "anna", id=ended["id"])
    assert (await exchange(home, subject=pat)).status_code == 200
    for app in ("deskapp", other):
        for subject in [of_desk, "key", "echo_key", "acme_key", "deskapp", other, ended["token"], "", "x", "é", "y" * 5000]:
            assert error(await exchange(home, subject=subject, app=app)) == (400, "invalid_request"), subject


async def test_a_disabled_persons_token_is_not_exchanged(home):
    pat = (await home.did("CreatePersonToken", "anna", id="anna"))["token"]
    await home.did("DisablePerson", id="anna")
    assert error(await exchange(home, subject=pat)) == (400, "invalid_request")


async def test_what_is_asked_otherwise_is_refused_by_its_rfc_name(home):
    for form, code in [
        ({"grant_type": "client_credentials"}, "unsupported_grant_type"),
        ({"grant_type": None}, "unsupported_grant_type"),
        ({"subject_token": None}, "invalid_request"),
        ({"subject_token_type": None}, "invalid_request"),
        ({"subject_token_type": "urn:ietf:params:oauth:token-type:jwt"}, "invalid_request"),
        ({"requested_token_type": "urn:ietf:params:oauth:token-type:jwt"}, "invalid_request"),
        ({"actor_token": "x", "actor_token_type": ACCESS_TOKEN}, "invalid_request"),
        ({"audience": "https://other/admin"}, "invalid_target"),
        ({"resource": "https://other/admin"}, "invalid_target"),
        ({"audience": "other"}, "invalid_target"),
        ({"scope": "a/b"}, "invalid_scope"),
        ({"scope": ""}, "invalid_scope"),
        ({"scope": "echo  helper"}, "invalid_scope"),
    ]:
        assert error(await exchange(home, **form)) == (400, code), form


async def test_this_server_may_be_named_as_the_audience(home):
    host = str(home.client.base_url).rstrip("/")
    assert (await exchange(home, audience=host)).status_code == 200
    await home.did("UpdateTenant", name="default", public_url="https://agents.example")
    assert (await exchange(home, resource="https://agents.example/")).status_code == 200


async def test_a_body_that_is_no_form_is_refused(home):
    headers = home.bearer("deskapp")
    for content, media, status in [
        (b"{}", "application/json", 415),
        (b"a=1&a=2", "application/x-www-form-urlencoded", 400),
        (b"a=\xff", "application/x-www-form-urlencoded", 400),
        (b"a=%ff", "application/x-www-form-urlencoded", 400),
        (b"a=" + b"x" * 20_000, "application/x-www-form-urlencoded", 413),
        (b"&" * 200, "application/x-www-form-urlencoded", 400),
    ]:
        answer = await home.client.post("/oauth/token", content=content, headers={**headers, "Content-Type": media})
        assert error(answer) == (status, "invalid_request"), content[:20]


@pytest.mark.req("IDN-2")
async def test_a_token_reaches_no_more_than_app_and_request_say(home):
    own = (await home.did("RegisterApp", name="crm", scope=["echo", "helper"]))["token"]
    whole = await exchange(home, app=own)
    narrow = await exchange(home, app=own, scope="echo")
    assert (whole.json()["scope"], narrow.json()["scope"]) == ("echo helper", "echo")
    for scope in ("asker", "echo asker", "*"):
        assert error(await exchange(home, app=own, scope=scope)) == (400, "invalid_scope")
    for token, agent, status in [
        (whole, "helper", 201),
        (whole, "asker", 403),
        (narrow, "echo", 201),
        (narrow, "helper", 403),
    ]:
        answer = await home.client.post(f"/v1/agents/{agent}/jobs", json="x", headers=home.bearer(token.json()["access_token"]))
        assert answer.status_code == status, (token.json()["scope"], agent)


@pytest.mark.req("IDN-2")
async def test_the_tokens_of_an_app_end_with_it(home):
    own = (await home.did("RegisterApp", name="crm"))["token"]
    token, other = await exchanged(home, app=own), await exchanged(home)
    caller = await home.caller(token)
    assert (await home.status(token), await home.status(other)) == (200, 200)
    await home.did("RevokeApp", name="crm")
    assert (await home.status(token), await home.status(other)) == (401, 200)
    assert await home.kernel.service(Directory).member(caller, "default") is None
    assert error(await exchange(home, app=own)) == (401, "invalid_client")
    again = (await home.did("RegisterApp", name="crm"))["token"]
    assert (await home.status(token), await home.status(await exchanged(home, app=again))) == (401, 200)


@pytest.mark.req("IDN-2")
async def test_the_tokens_that_were_made_with_one_end_with_it(home):
    pat = await home.did("CreatePersonToken", "anna", id="anna")
    token, other = await exchanged(home, subject=pat["token"]), await exchanged(home)
    await home.did("EndSession", "anna", id=pat["id"])
    assert (await home.status(token), await home.status(other)) == (401, 200)


@pytest.mark.req("IDN-8")
async def test_an_app_of_one_tenant_exchanges_no_token_of_another(home):
    await home.did("CreateKey", name="admins", role="admin")
    theirs = (await home.did("RegisterApp", name="crm"))["token"]
    ops_tenant = await home.ask("RegisterApp", "acme_key", "acme", name="crm")
    assert ops_tenant.status_code == 403
    assert error(await exchange(home, subject="acme_key", app=theirs)) == (400, "invalid_request")


async def test_an_app_makes_no_token_that_outlives_its_own(home):
    """A short token of an app is no way to a long one, a password or more rights of the person."""
    token = await exchanged(home, subject="ada")
    await home.did("UpdatePerson", id="ada", name="Ada")
    through = await exchanged(home, subject="anna")
    assert (await home.refused("CreatePersonToken", through, id="anna"))[0] == 403
    assert (await home.refused("SetPassword", through, id="anna", password="a long enough password"))[0] == 403
    own = (await home.did("ListSessions", "anna"))["sessions"][0]["id"]
    assert (await home.refused("ListSessions", through))[0] == 403
    assert (await home.refused("EndSession", through, id=own))[0] == 403
    assert await home.status(token) == 200


async def test_apps_are_registered_listed_and_revoked_by_admins(home):
    for who in ("rita", "anna", "omar", "key", "echo_key"):
        for operation, fields in [("RegisterApp", {"name": "x"}), ("ListApps", {}), ("RevokeApp", {"name": "deskapp"})]:
            assert (await home.refused(operation, who, **fields))[0] == 403, (who, operation)
    assert (await home.refused("RegisterApp", name="deskapp"))[0] == 409
    assert (await home.refused("RegisterApp", name="a b"))[0] == 400
    assert (await home.refused("RevokeApp", name="nowhere"))[0] == 404
    listed = (await home.did("ListApps"))["apps"]
    assert [app["name"] for app in listed] == ["deskapp"]
    assert "token" not in listed[0]
    assert "hash" not in listed[0]


async def test_a_repeated_registration_does_not_show_the_key_again(home):
    headers = {**home.bearer("ada"), "Idempotency-Key": "once"}
    first, again = [
        (await home.client.post("/v1/operations/RegisterApp", json={"name": "crm"}, headers=headers)).json() for _ in range(2)
    ]
    assert first["token"]
    assert again == {**first, "token": ""}
