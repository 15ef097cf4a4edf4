"""People and teams: who they are, what the directory says of them now, and that nobody gives more than she has."""

import pytest

from transom_hookspecs import Caller, Directory, Member

pytestmark = pytest.mark.anyio


def person(id: str, via: str = "", tenant: str = "default") -> Caller:
    return Caller(kind="person", id=id, tenant=tenant, via=via)


async def member(home, caller: Caller, tenant: str = "default") -> Member | None:
    return await home.kernel.service(Directory).member(caller, tenant)


async def test_a_person_is_added_listed_and_known(home):
    await home.did("CreateTeam", name="desk")
    made = await home.did(
        "CreatePerson", id="kim@example.com", role="operator", name="Kim", team=["desk"], content=False, right=["audit.read"]
    )
    assert made == {
        "id": "kim@example.com",
        "role": "operator",
        "name": "Kim",
        "teams": ["desk"],
        "content": False,
        "rights": ["audit.read"],
        "disabled": False,
        "configured": False,
    }
    assert made in (await home.did("ListPeople"))["people"]
    assert await member(home, person("kim@example.com")) == Member(
        role="operator", teams=("desk",), content=False, rights=("audit.read",)
    )
    entry = (await home.audited())[-1]
    assert (entry.action, entry.caller, entry.object) == ("person.create", "person:ada", "kim@example.com")


async def test_what_is_no_id_is_nobody(home):
    for id in ["", " ", "a b", "person:x", "a/b", "a@app:x", "x" * 129, "-a", "a\n", "é"]:
        status, said = await home.refused("CreatePerson", id=id)
        assert (status, said.startswith("id: ")) == (400, True), id


WRONG = [
    ({"name": "x" * 201}, "name"),
    ({"name": "a\x1b[31m"}, "name"),
    ({"right": ["everything"]}, "right"),
    ({"right": ["*"]}, "right"),
    ({"right": ["--audit.read"]}, "right"),
    ({"team": ["a/b"]}, "team"),
    ({"team": [f"t{n}" for n in range(101)]}, "team"),
]


async def test_a_field_that_will_not_do_is_refused_by_name(home):
    for fields, field in WRONG:
        status, said = await home.refused("CreatePerson", id="kim", **fields)
        assert (status, said.partition(":")[0]) == (400, field), fields


async def test_an_unknown_role_or_field_is_refused(home):
    assert (await home.refused("CreatePerson", id="kim", role="root"))[0] == 400
    assert (await home.refused("CreatePerson", id="kim", rolle="admin"))[0] == 400


async def test_a_team_that_is_not_there_adds_nobody(home):
    assert (await home.refused("CreatePerson", id="kim", team=["nowhere"]))[0] == 404
    assert await member(home, person("kim")) is None
    assert (await home.refused("DisablePerson", id="kim"))[0] == 404


async def test_an_id_is_one_persons(home):
    await home.did("CreatePerson", id="kim")
    assert (await home.refused("CreatePerson", id="kim", role="admin"))[0] == 409
    assert (await member(home, person("kim"))).role == "member"


async def test_a_change_holds_from_the_next_question_on(home):
    assert (await member(home, person("anna"))).role == "member"
    await home.did("UpdatePerson", id="anna", role="reader", content=True, add_right=["audit.read", "-feeds.read"])
    assert await member(home, person("anna")) == Member(role="reader", content=True, rights=("-feeds.read", "audit.read"))
    await home.did("UpdatePerson", id="anna", name="Anna", remove_right=["audit.read", "-feeds.read"])
    assert await member(home, person("anna")) == Member(role="reader", content=True)


@pytest.mark.req("IDN-2")
async def test_disabling_ends_all_that_is_hers_at_once(home):
    await home.did("SetPassword", id="anna", password="a long enough password")
    pat = (await home.did("CreatePersonToken", "anna", id="anna"))["token"]
    signed_in = await home.client.post("/v1/sessions", json={"person": "anna", "password": "a long enough password"})
    cookie = signed_in.headers["set-cookie"].partition(";")[0]
    home.client.cookies.clear()  # it goes along below where a test sends it
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": pat,
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
    }
    exchanged = await home.client.post("/oauth/token", data=form, headers=home.bearer("deskapp"))
    tokens = [pat, exchanged.json()["access_token"], "anna"]
    assert [await home.status(token) for token in tokens] == [200, 200, 200]
    assert (await home.client.get("/v1/agents", headers={"Cookie": cookie})).status_code == 200

    await home.did("DisablePerson", id="anna")
    assert [await home.status(token) for token in tokens] == [401, 401, 401]
    assert (await home.client.get("/v1/agents", headers={"Cookie": cookie})).status_code == 401
    assert await member(home, person("anna")) is None
    assert await member(home, person("anna", via="app:deskapp")) is None
    again = await home.client.post("/v1/sessions", json={"person": "anna", "password": "a long enough password"})
    assert again.status_code == 401

    assert await home.did("EnablePerson", id="anna") == {"changed": True}
    assert [await home.status(token) for token in tokens] == [401, 401, 401]
    again = await home.client.post("/v1/sessions", json={"person": "anna", "password": "a long enough password"})
    assert again.status_code == 200


async def test_nobody_gives_takes_or_changes_more_than_she_has(home):
    """A member who was given people.manage apart stays below those above her."""
    await home.did("UpdatePerson", id="anna", add_right=["people.manage"])
    for operation, fields in [
        ("CreatePerson", {"id": "kim", "role": "operator"}),
        ("CreatePerson", {"id": "kim", "role": "member", "right": ["audit.read"]}),
        ("UpdatePerson", {"id": "anna", "role": "admin"}),
        ("UpdatePerson", {"id": "anna", "add_right": ["keys.manage"]}),
        ("UpdatePerson", {"id": "omar", "role": "reader"}),
        ("UpdatePerson", {"id": "omar", "name": "x"}),
        ("DisablePerson", {"id": "ada"}),
        ("SetPassword", {"id": "ada", "password": "a long enough password"}),
        ("CreatePersonToken", {"id": "ada"}),
    ]:
        assert (await home.refused(operation, "anna", **fields))[0] == 403, (operation, fields)
    await home.did("CreatePerson", "anna", id="kim", role="reader", right=["-feeds.read"])
    await home.did("DisablePerson", "anna", id="rita")


async def test_who_reads_no_content_gives_nobody_the_right_to(home):
    """An admin without it does not get at it through others: their records, tokens, passwords or keys."""
    await home.did("UpdatePerson", id="ada", content=False)
    for operation, fields in [
        ("CreatePerson", {"id": "kim", "role": "member"}),
        ("CreatePerson", {"id": "kim", "role": "reader", "content": True}),
        ("UpdatePerson", {"id": "ada", "content": True}),
        ("UpdatePerson", {"id": "rita", "role": "member"}),
        ("SetPassword", {"id": "anna", "password": "a long enough password"}),
        ("CreatePersonToken", {"id": "anna"}),
        ("CreateKey", {"name": "ci"}),
    ]:
        assert (await home.refused(operation, **fields))[0] == 403, (operation, fields)
    await home.did("CreatePerson", id="kim", role="member", content=False)
    await home.did("UpdatePerson", id="anna", role="operator")
    await home.did("CreatePersonToken", id="kim")
    await home.did("CreateKey", name="ci", content=False)


async def test_a_right_that_was_taken_away_is_not_given_back_by_who_has_it_not(home):
    await home.did("UpdatePerson", id="anna", add_right=["people.manage", "-feeds.read"])
    assert (await home.refused("UpdatePerson", "anna", id="anna", remove_right=["-feeds.read"]))[0] == 403


async def test_only_who_manages_people_changes_them(home):
    for operation, fields in [
        ("CreatePerson", {"id": "kim", "role": "reader"}),
        ("UpdatePerson", {"id": "rita", "role": "reader"}),
        ("DisablePerson", {"id": "rita"}),
        ("EnablePerson", {"id": "rita"}),
        ("SetPassword", {"id": "ada", "password": "a long enough password"}),
        ("CreateTeam", {"name": "desk"}),
        ("DeleteTeam", {"name": "desk"}),
        ("AddTeamMember", {"team": "desk", "person": "anna"}),
        ("RemoveTeamMember", {"team": "desk", "person": "anna"}),
    ]:
        for who in ["rita", "anna", "omar", "key", "echo_key"]:
            assert (await home.refused(operation, who, **fields))[0] == 403, (operation, who)


@pytest.mark.req("IDN-8")
async def test_people_of_another_tenant_are_nobodys(home):
    await home.did("CreateKey", name="theirs", role="admin")
    for operation, fields in [("ListPeople", {}), ("DisablePerson", {"id": "anna"}), ("ListTeams", {})]:
        assert (await home.refused(operation, "acme_key", "default", **fields))[0] == 403
    assert await member(home, person("anna", tenant="acme"), "acme") is None
    assert await member(home, person("anna"), "acme") is None
    assert await member(home, person("anna", tenant="acme")) is None


async def test_people_are_listed_a_page_at_a_time(home):
    for n in range(7):
        await home.did("CreatePerson", id=f"p{n}")
    ids, cursor = [], ""
    while True:
        page = await home.did("ListPeople", limit=3, cursor=cursor)
        ids += [each["id"] for each in page["people"]]
        if not (cursor := page["cursor"]):
            break
    assert ids == ["ada", "anna", "omar", "p0", "p1", "p2", "p3", "p4", "p5", "p6", "rita"]
    assert (await home.refused("ListPeople", limit=201))[0] == 400
    assert (await home.refused("ListPeople", limit=0))[0] == 400


@pytest.mark.req("IDN-9")
async def test_in_works_council_mode_lists_name_nobody_but_oneself(home):
    await home.did("CreateTeam", name="desk")
    for who in ("anna", "omar"):
        await home.did("AddTeamMember", team="desk", person=who)
    assert len((await home.did("ListPeople", "omar"))["people"]) == 4
    await home.did("UpdateTenant", name="default", works_council=True)
    assert [each["id"] for each in (await home.did("ListPeople", "omar"))["people"]] == ["omar"]
    assert (await home.did("ListPeople", "key"))["people"] == []
    assert (await home.did("ListTeams", "omar"))["teams"] == [{"name": "desk", "people": ["omar"]}]
    assert (await home.did("ListTeams", "key"))["teams"] == [{"name": "desk", "people": []}]
    assert len((await home.did("ListPeople", "ada"))["people"]) == 4


# -- teams


async def test_who_is_in_a_team_is_known_at_once(home):
    directory = home.kernel.service(Directory)
    assert not await directory.has_team("default", "desk")
    await home.did("CreateTeam", name="desk")
    assert await directory.has_team("default", "desk")
    assert not await directory.has_team("acme", "desk")
    assert (await member(home, person("anna"))).teams == ()
    assert await home.did("AddTeamMember", team="desk", person="anna") == {"changed": True}
    assert await home.did("AddTeamMember", team="desk", person="anna") == {"changed": False}
    assert (await member(home, person("anna"))).teams == ("desk",)
    assert (await home.did("ListTeams"))["teams"] == [{"name": "desk", "people": ["anna"]}]
    assert await home.did("RemoveTeamMember", team="desk", person="anna") == {"changed": True}
    assert (await member(home, person("anna"))).teams == ()


async def test_a_team_that_is_deleted_has_nobody_when_it_is_made_again(home):
    await home.did("CreateTeam", name="desk")
    await home.did("AddTeamMember", team="desk", person="anna")
    await home.did("DeleteTeam", name="desk")
    assert (await member(home, person("anna"))).teams == ()
    await home.did("CreateTeam", name="desk")
    assert (await home.did("ListTeams"))["teams"] == [{"name": "desk", "people": []}]


async def test_what_is_not_there_is_said(home):
    await home.did("CreateTeam", name="desk")
    assert (await home.refused("CreateTeam", name="desk"))[0] == 409
    assert (await home.refused("DeleteTeam", name="nowhere"))[0] == 404
    assert (await home.refused("AddTeamMember", team="nowhere", person="anna"))[0] == 404
    assert (await home.refused("AddTeamMember", team="desk", person="nobody"))[0] == 404
    assert (await home.refused("CreateTeam", name="a b"))[0] == 400
