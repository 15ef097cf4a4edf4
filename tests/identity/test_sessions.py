"""Sessions of people in a browser: signing in and out, what a session's requests must show, and how it ends."""

import logging

import anyio
import httpx
import pytest

from transom_hookspecs import Caller, SignIn
from transom_identity.passwords import NOBODYS

pytestmark = pytest.mark.anyio

PASSWORD = "correct horse battery staple"


async def sign_in(home, person: str = "anna", password: str = PASSWORD, **options) -> httpx.Response:
    answer = await home.client.post("/v1/sessions", json={"person": person, "password": password}, **options)
    home.client.cookies.clear()
    return answer


async def cookie(home, person: str = "anna") -> dict[str, str]:
    """The header of a new session."""
    await home.did("SetPassword", id=person, password=PASSWORD)
    answer = await sign_in(home, person)
    assert answer.status_code == 200, answer.text
    return {"Cookie": answer.headers["set-cookie"].partition(";")[0]}


def own(home) -> dict[str, str]:
    """What a browser adds on a page of this server."""
    return {"Origin": str(home.client.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}


@pytest.mark.req("IDN-2")
async def test_who_knows_her_password_gets_a_cookie_that_no_script_or_other_site_can_use(home):
    await home.did("SetPassword", id="anna", password=PASSWORD)
    answer = await sign_in(home)
    assert answer.status_code == 200
    assert set(answer.json()) == {"person", "tenant", "expires_at"}
    value, *flags = answer.headers["set-cookie"].split("; ")
    assert value.startswith("transom_session=tr_ses_")
    assert flags == ["Path=/", "Max-Age=43200", "HttpOnly", "SameSite=Strict"]
    assert answer.headers["cache-control"] == "no-store"
    assert value.partition("=")[2] not in answer.text
    listed = (await home.did("ListSessions", "anna"))["sessions"]
    assert [each["kind"] for each in listed] == ["session", "token"]
    session = (await home.audited())[-1]
    assert (session.action, session.caller, session.object) == ("session.create", "person:anna", listed[0]["id"])
    caller = await home.client.get("/v1/agents", headers={"Cookie": value})
    assert caller.status_code == 200


async def test_where_tls_is_spoken_the_cookie_goes_nowhere_else(home):
    await home.did("SetPassword", id="anna", password=PASSWORD)
    await home.did("UpdateTenant", name="default", public_url=f"https://{home.client.base_url.host}")
    assert (await sign_in(home)).headers["set-cookie"].endswith("; Secure")


@pytest.mark.req("IDN-2")
async def test_a_session_lasts_twelve_hours(house, clock):
    async with house(clock=clock) as home:
        session = await cookie(home)
        clock.forward(12 * 3600 - 1)
        assert (await home.client.get("/v1/agents", headers=session)).status_code == 200
        clock.forward(1)
        assert (await home.client.get("/v1/agents", headers=session)).status_code == 401


@pytest.mark.req("IDN-2")
async def test_what_changes_something_must_come_from_an_own_page(home):
    session = await cookie(home)

    async def start(**headers: str) -> int:
        return (await home.client.post("/v1/agents/echo/jobs", json="x", headers={**session, **headers})).status_code

    assert (await home.client.get("/v1/agents", headers=session)).status_code == 200
    assert await start(**own(home)) == 201
    assert await start(Referer=own(home)["Origin"] + "/console") == 201
    for headers in [
        {},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {**own(home), "Sec-Fetch-Site": "cross-site"},
        {**own(home), "Sec-Fetch-Site": "same-site"},
        {"Referer": "https://evil.example/" + own(home)["Origin"]},
    ]:
        assert await start(**headers) == 403, headers
    assert len((await home.client.get("/v1/jobs", headers=session)).json()["jobs"]) == 2


async def test_the_public_address_is_an_own_page_too(home):
    session = await cookie(home)
    await home.did("UpdateTenant", name="default", public_url="https://agents.example")
    headers = {**session, "Origin": "https://agents.example"}
    assert (await home.client.post("/v1/agents/echo/jobs", json="x", headers=headers)).status_code == 201


@pytest.mark.req("IDN-2")
async def test_a_cookie_and_a_token_together_are_refused(home):
    session = await cookie(home)
    for who in ("anna", "ada", "key"):
        assert (await home.client.get("/v1/agents", headers={**session, **home.bearer(who)})).status_code == 401


@pytest.mark.req("IDN-2")
async def test_each_credential_is_good_only_in_its_own_way(home):
    session = await cookie(home)
    token = session["Cookie"].partition("=")[2]
    assert await home.status(token) == 401
    for who in ("anna", "key"):
        answer = await home.client.get("/v1/agents", headers={"Cookie": f"transom_session={home.tokens[who]}"})
        assert answer.status_code == 401, who


@pytest.mark.req("IDN-2")
async def test_signing_out_ends_the_session_and_clears_the_cookie(home):
    session = await cookie(home)
    assert (await home.client.delete("/v1/sessions", headers=session)).status_code == 403
    answer = await home.client.delete("/v1/sessions", headers={**session, **own(home)})
    assert answer.status_code == 200
    assert "Max-Age=0" in answer.headers["set-cookie"]
    home.client.cookies.clear()
    assert (await home.client.get("/v1/agents", headers=session)).status_code == 401
    assert (await home.client.delete("/v1/sessions", headers=home.bearer("anna"))).status_code == 400


async def test_another_sites_page_signs_nobody_in(home):
    await home.did("SetPassword", id="anna", password=PASSWORD)
    assert (await sign_in(home, headers={"Origin": "https://evil.example"})).status_code == 403
    assert (await sign_in(home, headers={"Sec-Fetch-Site": "cross-site"})).status_code == 403
    assert (await sign_in(home, headers=own(home))).status_code == 200


@pytest.mark.req("IDN-2", "IDN-8")
async def test_whoever_may_not_sign_in_is_told_the_same(home):
    """A wrong password, nobody, somebody without a password, a disabled person, another tenant, none at all."""
    await home.did("SetPassword", id="anna", password=PASSWORD)
    await home.did("SetPassword", id="omar", password=PASSWORD)
    await home.did("DisablePerson", id="omar")
    answers = [
        await sign_in(home, "anna", "a wrong password"),
        await sign_in(home, "anna", ""),
        await sign_in(home, "anna", "x" * 10_000),
        await sign_in(home, "nobody"),
        await sign_in(home, "rita"),
        await sign_in(home, "omar"),
        await sign_in(home, "an id\u0000"),
        await sign_in(home, "anna", params={"tenant": "acme"}),
        await sign_in(home, "anna", params={"tenant": "nowhere"}),
    ]
    assert {(answer.status_code, answer.text) for answer in answers} == {(401, answers[0].text)}
    assert not [answer for answer in answers if "set-cookie" in answer.headers]


async def test_a_hash_is_checked_whoever_is_named(home, monkeypatch):
    from transom_identity import passwords

    checked = []

    def verify(kept: str, password: str) -> bool:
        checked.append(kept)
        return False

    monkeypatch.setattr(passwords, "_verify", verify)
    await home.did("SetPassword", id="anna", password=PASSWORD)
    await sign_in(home, "anna")
    await sign_in(home, "nobody")
    assert (len(checked), checked[1]) == (2, NOBODYS)
    assert checked[0].split("$")[:4] == NOBODYS.split("$")[:4], "another cost would take another time"


@pytest.mark.req("IDN-2")
async def test_failures_are_throttled_whether_there_is_such_a_person_or_not(home):
    await home.did("SetPassword", id="anna", password=PASSWORD)
    for person in ("anna", "nobody"):
        answers = [await sign_in(home, person, "a wrong password") for _ in range(7)]
        assert [answer.status_code for answer in answers] == [401] * 5 + [429] * 2, person
        assert int(answers[-1].headers["retry-after"]) > 0
        assert answers[-1].json()["code"] == "resource_exhausted"
    assert (await sign_in(home, "anna")).status_code == 429
    await home.did("SetPassword", id="omar", password=PASSWORD)
    assert (await sign_in(home, "omar")).status_code == 200


async def test_a_flood_is_checked_a_few_at_a_time_and_the_rest_told_to_come_back(home, monkeypatch):
    from transom_identity import passwords

    monkeypatch.setattr(passwords, "QUEUE", 4)
    statuses = []

    async def one(n: int) -> None:
        statuses.append((await sign_in(home, f"p{n}", "a wrong password")).status_code)

    async with anyio.create_task_group() as tasks:
        for n in range(20):
            tasks.start_soon(one, n)
    assert set(statuses) == {401, 503}
    assert statuses.count(401) >= 4


async def test_passwords_are_bounded_and_hashed_and_stand_nowhere(home, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    for password in ("", "short", "x" * 11, "x" * 257):
        status, said = await home.refused("SetPassword", id="anna", password=password)
        assert (status, said.startswith("password: ")) == (400, True)
    for password in ("x" * 12, "ü" * 256, PASSWORD):
        await home.did("SetPassword", id="anna", password=password)
        assert (await sign_in(home, password=password)).status_code == 200
    await sign_in(home, password="wrong " + PASSWORD)
    for file in (tmp_path / "data").rglob("*"):
        assert not file.is_file() or PASSWORD.encode() not in file.read_bytes()
    assert PASSWORD not in caplog.text
    assert PASSWORD not in str(await home.audited())


async def test_the_same_letters_typed_otherwise_are_the_same_password(home):
    await home.did("SetPassword", id="anna", password="caf\u00e9 caf\u00e9 caf\u00e9")
    assert (await sign_in(home, password="cafe\u0301 cafe\u0301 cafe\u0301")).status_code == 200


@pytest.mark.req("IDN-2")
async def test_one_changes_ones_own_password_with_the_one_until_now(home):
    await home.did("SetPassword", "anna", id="anna", password=PASSWORD)
    status, said = await home.refused("SetPassword", "anna", id="anna", password="another long password")
    assert (status, said.startswith("current: ")) == (403, True)
    session = await cookie(home, "anna")
    await home.did("SetPassword", "anna", id="anna", password="another long password", current=PASSWORD)
    assert (await home.client.get("/v1/agents", headers=session)).status_code == 401, "her sessions ended"
    assert await home.status("anna") == 200, "her tokens did not"
    assert (await sign_in(home)).status_code == 401
    assert (await sign_in(home, password="another long password")).status_code == 200


# -- the list, and persons' tokens


@pytest.mark.req("IDN-2")
async def test_one_sees_and_ends_what_is_ones_own(home):
    session = await cookie(home)
    made = await home.did("CreatePersonToken", "anna", id="anna", label="my laptop", expires="1d")
    assert made["token"].startswith("tr_pat_")
    assert (await home.caller(made["token"])) == Caller(kind="person", id="anna", tenant="default")
    listed = (await home.did("ListSessions", made["token"]))["sessions"]
    assert {(each["kind"], each["label"]) for each in listed} == {("session", ""), ("token", "my laptop"), ("token", "")}
    assert made["token"] not in str(listed)
    for each in listed:
        if each["label"] == "my laptop" or each["kind"] == "session":
            await home.did("EndSession", "anna", id=each["id"])
    assert await home.status(made["token"]) == 401
    assert (await home.client.get("/v1/agents", headers=session)).status_code == 401
    assert await home.status("anna") == 200


@pytest.mark.req("IDN-2", "IDN-8")
async def test_what_is_anothers_is_for_who_manages_sessions(home):
    theirs = (await home.did("ListSessions", "omar"))["sessions"][0]["id"]
    assert (await home.refused("ListSessions", "anna", person="omar"))[0] == 403
    assert (await home.refused("ListSessions", "key"))[0] == 403
    refusals = {(await home.refused("EndSession", "anna", id=id))[1].replace(id, "X") for id in (theirs, "nowhere")}
    assert len(refusals) == 1, "whether there is one is not told"
    assert (await home.refused("CreatePersonToken", "anna", id="omar"))[0] == 403
    assert (await home.did("ListSessions", person="omar"))["sessions"][0]["id"] == theirs
    await home.did("EndSession", id=theirs)
    assert await home.status("omar") == 401
    assert (await home.refused("EndSession", id="nowhere"))[0] == 404
    made = await home.did("CreatePersonToken", id="omar")
    assert await home.status(made["token"]) == 200


async def test_a_token_that_will_not_do_is_not_made(home):
    for fields, status in [
        ({"id": "anna", "expires": "366d"}, 400),
        ({"id": "anna", "expires": ""}, 400),
        ({"id": "anna", "label": "a\nb"}, 400),
        ({"id": "nobody"}, 404),
    ]:
        assert (await home.refused("CreatePersonToken", **fields))[0] == status, fields
    await home.did("DisablePerson", id="anna")
    assert (await home.refused("CreatePersonToken", id="anna"))[0] == 400


# -- the service for other plugins


async def test_a_plugin_that_knows_a_person_begins_her_session(home, code_of):
    service = home.kernel.service(SignIn)
    session = await service.sign_in("default", "anna", secure=True, door="oidc")
    assert (session.person, session.cookie.endswith("; Secure")) == ("anna", True)
    headers = {"Cookie": session.cookie.partition(";")[0]}
    assert (await home.client.get("/v1/agents", headers=headers)).status_code == 200
    assert await code_of(service.sign_in("default", "kim", secure=True)) == "unauthenticated"
    await service.sign_in("default", "kim", secure=True, role="reader", name="Kim")
    assert [each["role"] for each in (await home.did("ListPeople"))["people"] if each["id"] == "kim"] == ["reader"]
    await service.sign_in("default", "anna", secure=True, role="admin")
    await home.did("DisablePerson", id="kim")
    assert await code_of(service.sign_in("default", "kim", secure=True, role="admin")) == "unauthenticated"
    assert await code_of(service.sign_in("nowhere", "kim", secure=True, role="admin")) == "unauthenticated"
    roles = {each["id"]: each["role"] for each in (await home.did("ListPeople"))["people"]}
    assert (roles["anna"], roles["kim"]) == ("member", "reader")
