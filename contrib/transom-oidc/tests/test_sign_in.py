"""Signing in, against a real provider process: from the first request to a session's cookie that works."""

from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

pytestmark = pytest.mark.anyio

CALLBACK = "/v1/oidc/test/callback"


async def at_the_provider(url: str, person: str) -> str:
    """Sign in and consent in the provider's own pages, as a browser; returns the URL that it sends the browser back to."""
    async with httpx.AsyncClient(trust_env=False) as browser:
        answer = await browser.get(url)
        while True:
            while answer.is_redirect:
                where = str(answer.next_request.url)
                if urlsplit(where).path == CALLBACK:
                    return where
                answer = await browser.get(where)
            assert answer.status_code == 200, answer.text
            prompt = "login" if 'name="login"' in answer.text else "consent"
            form = {"prompt": prompt, **({"login": person, "password": "x"} if prompt == "login" else {})}
            answer = await browser.post(answer.url, data=form)


async def signed_in(client: httpx.AsyncClient, person: str, **query: str) -> httpx.Response:
    """The answer that a browser gets at the end."""
    first = await client.get("/v1/oidc/test/login", params=query)
    assert first.status_code == 302, first.text
    return await client.get(await at_the_provider(first.headers["location"], person))


def session(answer: httpx.Response) -> dict[str, str]:
    (value,) = [v for v in answer.headers.get_list("set-cookie") if v.startswith("transom_session=")]
    assert "HttpOnly" in value
    assert "SameSite=Strict" in value
    return {"Cookie": value.partition(";")[0]}


@pytest.mark.req("IDN-2")
async def test_who_is_there_signs_in_and_goes_on_where_she_wanted(house, issuer) -> None:
    async with house(issuer) as (k, client):
        answer = await signed_in(client, "anna", return_to="/console?job=1&x=<y>")
        assert answer.status_code == 200, answer.text
        assert "url=/console?job=1&amp;x=" in answer.text
        assert "<y>" not in answer.text
        cookie = session(answer)
        client.cookies.clear()
        assert (await client.get("/v1/jobs", headers=cookie)).status_code == 200
        entry = [row.entry for row in await k.store.audit("default")][-1]
        assert (entry.action, entry.caller, entry.door) == ("session.create", "person:anna", "oidc")


@pytest.mark.req("IDN-2")
async def test_who_is_not_there_is_let_in_only_where_the_setting_gives_a_role(house, issuer) -> None:
    async with house(issuer) as (_, client):
        answer = await signed_in(client, "kim")
        assert answer.status_code == 401
        assert "transom_session" not in str(answer.headers)
    async with house(issuer, create_role="reader") as (k, client):
        answer = await signed_in(client, "kim")
        assert answer.status_code == 200, answer.text
        created = [row.entry for row in await k.store.audit("default") if row.entry.action == "person.create"]
        assert [(entry.object, entry.door) for entry in created] == [("kim", "oidc")]
        from transom_identity.records import Person

        kim = await k.store.get("default", Person, "kim")
        assert (kim.role, kim.name) == ("reader", "The kim")


async def test_an_address_names_a_person_only_when_it_is_verified(house, issuer) -> None:
    async with house(issuer, person="email", create_role="member", tenant="acme") as (k, client):
        answer = await signed_in(client, "Kim")
        assert answer.status_code == 200, answer.text
        from transom_identity.records import Person

        assert (await k.store.get("acme", Person, "kim@example.com")).role == "member"
        client.cookies.clear()
        assert (await signed_in(client, "mallory")).status_code == 401


@pytest.mark.req("IDN-2")
async def test_a_code_is_good_once_and_only_in_the_browser_that_began(house, issuer) -> None:
    async with house(issuer) as (_, client):
        first = await client.get("/v1/oidc/test/login")
        back = await at_the_provider(first.headers["location"], "anna")
        kept = first.headers["set-cookie"].partition(";")[0]
        client.cookies.clear()
        assert (await client.get(back)).status_code == 401, "no cookie: another browser"
        other = (await client.get("/v1/oidc/test/login")).headers["set-cookie"].partition(";")[0]
        client.cookies.clear()
        broken = (kept[:-1], kept + "x", f"{kept}; {kept}", "transom_oidc=é".encode(), "transom_oidc=.", "transom_oidc=")
        for cookie in (other, *broken):
            assert (await client.get(back, headers={"Cookie": cookie})).status_code == 401, cookie
        state = parse_qs(urlsplit(back).query)["state"][0]
        refused = [f"state={state}{more}" for more in ("", "&error=access_denied", "&code=made-up")]
        for query in (*refused, "code=x", "state=é&code=x"):
            assert (await client.get(f"{CALLBACK}?{query}", headers={"Cookie": kept})).status_code == 401, query
        assert (await client.get(back + "&code=2", headers={"Cookie": kept})).status_code == 400
        assert (await client.get(back + "&iss=", headers={"Cookie": kept})).status_code in (400, 401)
        assert (await client.get(back, headers={"Cookie": kept})).status_code == 200
        client.cookies.clear()
        assert (await client.get(back, headers={"Cookie": kept})).status_code == 401, "the code was used"


async def test_a_sign_in_that_takes_too_long_is_begun_anew(house, issuer, clock, kernel) -> None:
    async with house(issuer) as (k, client):
        first = await client.get("/v1/oidc/test/login")
        back = await at_the_provider(first.headers["location"], "anna")
        now = k.clock.now()
        k.clock = type("Later", (), {"now": staticmethod(lambda: now + 601_000)})()
        assert (await client.get(back)).status_code == 401


@pytest.mark.parametrize(
    "path", ["https://evil.example", "//evil.example", "/\\evil.example", "evil", "", "/a\\b", "/a b", "/é", "/" + "x" * 501]
)
async def test_nobody_is_sent_to_another_site(house, issuer, path) -> None:
    async with house(issuer) as (_, client):
        assert (await client.get("/v1/oidc/test/login", params={"return_to": path})).status_code == 400


async def test_a_provider_that_is_none_is_not_there(house, issuer) -> None:
    async with house(issuer) as (_, client):
        assert (await client.get("/v1/oidc/nowhere/login")).status_code == 404
        assert (await client.get("/v1/oidc/nowhere/callback?code=x&state=y")).status_code == 404


async def test_a_provider_that_does_not_answer_is_said_to(house) -> None:
    async with house("http://127.0.0.1:9") as (_, client):
        answer = await client.get("/v1/oidc/test/login")
        assert (answer.status_code, "cannot be reached" in answer.text) == (503, True)
