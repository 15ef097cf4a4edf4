"""API keys: shown once, kept as a hash, limited as they say, and gone at once when they are revoked."""

import anyio
import pytest

from transom_hookspecs import Caller, Directory, Member

pytestmark = pytest.mark.anyio


async def member(home, name: str) -> Member | None:
    return await home.kernel.service(Directory).member(Caller(kind="key", id=name, tenant="default"), "default")


@pytest.mark.req("IDN-2", "IDN-3")
async def test_a_key_is_what_was_asked_for(home):
    made = await home.did(
        "CreateKey",
        name="ci",
        role="operator",
        scope=["helper", "echo"],
        label="built by CI",
        capability=["threads", "subjects"],
    )
    assert made["token"].startswith("tr_key_")
    caller = await home.caller(made["token"])
    assert caller == Caller(kind="key", id="ci", tenant="default", label="built by CI", scopes=("echo", "helper"))
    assert await member(home, "ci") == Member(
        role="operator", rights=("capability.subjects", "capability.threads"), scopes=("echo", "helper")
    )
    assert await home.status(made["token"]) == 200


@pytest.mark.req("IDN-3")
async def test_a_keys_label_is_on_the_job_that_it_starts(home):
    token = (await home.did("CreateKey", name="ci", label="built by CI"))["token"]
    job = await home.client.post("/v1/agents/echo/jobs", json="x", headers=home.bearer(token))
    from transom_hookspecs import Job

    assert (await home.kernel.store.get("default", Job, job.json()["id"])).caller.label == "built by CI"


@pytest.mark.req("IDN-2")
async def test_a_token_is_shown_once_and_stands_nowhere(home, tmp_path):
    token = (await home.did("CreateKey", name="ci"))["token"]
    listed = await home.did("ListKeys")
    assert "token" not in listed["keys"][0]
    assert token not in str(listed)
    assert [entry.action for entry in await home.audited()][-1] == "key.create"
    files = [file for file in (tmp_path / "data").rglob("*") if file.is_file()]
    assert not [file for file in files if token.encode() in file.read_bytes() or token[7:].encode() in file.read_bytes()]


@pytest.mark.req("IDN-2")
async def test_a_repeated_call_makes_no_second_key_and_does_not_show_it_again(home, tmp_path):
    async def create(role: str = "member"):
        headers = {**home.bearer("ada"), "Idempotency-Key": "once"}
        return await home.client.post("/v1/operations/CreateKey", json={"name": "ci", "role": role}, headers=headers)

    first, again = await create(), await create()
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json()["token"]
    assert again.json() == {**first.json(), "token": ""}
    assert await home.status(first.json()["token"]) == 200
    assert (await create("admin")).status_code == 409
    for file in (tmp_path / "data").glob("transom.db*"):
        assert first.json()["token"].encode() not in file.read_bytes()


@pytest.mark.req("IDN-2")
async def test_a_scoped_key_reaches_its_agents_alone(home):
    token = (await home.did("CreateKey", name="ci", scope=["echo"]))["token"]
    catalog = await home.client.get("/v1/agents", headers=home.bearer(token))
    assert [agent["name"] for agent in catalog.json()["agents"]] == ["echo"]
    assert (await home.client.post("/v1/agents/helper/jobs", json="x", headers=home.bearer(token))).status_code == 403
    assert (await home.client.post("/v1/agents/echo/jobs", json="x", headers=home.bearer(token))).status_code == 201


@pytest.mark.req("IDN-2")
async def test_a_revoked_key_is_refused_at_once(home):
    token = (await home.did("CreateKey", name="ci"))["token"]
    assert await home.status(token) == 200
    assert await home.did("RevokeKey", name="ci") == {"changed": True}
    assert await home.status(token) == 401
    assert await member(home, "ci") is None
    assert (await home.refused("RevokeKey", name="ci"))[0] == 404
    other = (await home.did("CreateKey", name="ci", role="reader"))["token"]
    assert (await home.status(token), await home.status(other)) == (401, 200)
    assert (await member(home, "ci")).role == "reader"


@pytest.mark.req("IDN-2")
async def test_a_key_expires_to_the_second(house, clock):
    async with house(clock=clock) as home:
        made = await home.did("CreateKey", name="ci", expires="90m")
        assert made["expires_at"]
        assert await home.status(made["token"]) == 200
        assert (await member(home, "ci")) is not None
        clock.forward(90 * 60 - 1)
        assert await home.status(made["token"]) == 200
        clock.forward(1)
        assert await home.status(made["token"]) == 401
        assert (await member(home, "ci")) is None


async def test_a_key_without_an_end_has_none(home):
    made = await home.did("CreateKey", name="ci")
    assert not made["expires_at"]


@pytest.mark.req("IDN-2")
async def test_the_day_of_the_last_use_is_noted(house, clock):
    async with house(clock=clock) as home:
        token = (await home.did("CreateKey", name="ci"))["token"]

        async def used_on() -> str:
            return next(key["used_on"] for key in (await home.did("ListKeys"))["keys"] if key["name"] == "ci")

        assert await used_on() == ""
        days = set()
        for _ in range(2):
            await home.status(token)
            with anyio.fail_after(5):
                while (day := await used_on()) in days or not day:
                    await anyio.sleep(0.01)
            days.add(day)
            clock.forward(86_400)
        assert [len(day) for day in days] == [10, 10]


async def test_a_field_that_will_not_do_is_refused_by_name(home):
    for fields, field in [
        ({"name": "a b"}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x" * 64}, "name"),
        ({"scope": ["a/b"]}, "scope"),
        ({"scope": ["*"]}, "scope"),
        ({"scope": [f"a{n}" for n in range(101)]}, "scope"),
        ({"expires": "soon"}, "expires"),
        ({"expires": "0d"}, "expires"),
        ({"expires": "-1d"}, "expires"),
        ({"expires": "10000d"}, "expires"),
        ({"expires": "999999999999d"}, "expires"),
        ({"expires": "1.5d"}, "expires"),
        ({"expires": "٣d"}, "expires"),
        ({"label": "a\nb"}, "label"),
        ({"capability": ["everything"]}, "capability"),
    ]:
        status, said = await home.refused("CreateKey", **{"name": "ci", **fields})
        assert (status, said.partition(":")[0]) == (400, field), fields
    assert (await home.refused("CreateKey", name="ci", role="root"))[0] == 400
    assert [key["name"] for key in (await home.did("ListKeys"))["keys"]] == ["echo_key", "key"]


async def test_a_name_is_one_keys(home):
    await home.did("CreateKey", name="ci")
    assert (await home.refused("CreateKey", name="ci"))[0] == 409


async def test_only_admins_and_admin_keys_manage_keys(home):
    for who in ("rita", "anna", "omar", "key", "echo_key"):
        for operation, fields in [("CreateKey", {"name": "mine"}), ("ListKeys", {}), ("RevokeKey", {"name": "key"})]:
            assert (await home.refused(operation, who, **fields))[0] == 403, (who, operation)
    admin = (await home.did("CreateKey", name="admins", role="admin"))["token"]
    await home.did("CreateKey", admin, name="by_a_key", role="admin")


async def test_nobody_makes_a_key_above_herself(home):
    await home.did("UpdatePerson", id="anna", add_right=["keys.manage"])
    assert (await home.refused("CreateKey", "anna", name="ci", role="operator"))[0] == 403
    assert (await home.refused("RevokeKey", "anna", name="key"))[0] == 403
    await home.did("CreateKey", "anna", name="ci", role="member")


@pytest.mark.req("IDN-8")
async def test_a_key_of_one_tenant_is_nothing_in_another(home):
    token = (await home.did("CreateKey", name="ci", role="admin"))["token"]
    for operation, fields in [("ListKeys", {}), ("RevokeKey", {"name": "acme_key"}), ("CreateKey", {"name": "x"})]:
        assert (await home.refused(operation, token, "acme", **fields))[0] == 403, operation
    assert await home.status("acme_key", "/v1/agents?tenant=acme") == 200


@pytest.mark.req("IDN-2")
async def test_every_credential_that_is_not_good_is_refused_alike(home):
    """Wrong, malformed, revoked, meant for something else: one status, one message, no hint."""
    revoked = (await home.did("CreateKey", name="ci"))["token"]
    await home.did("RevokeKey", name="ci")
    answers = [
        await home.client.get("/v1/agents", headers={"Authorization": value})
        for value in [
            f"Bearer {revoked}",
            f"Bearer {revoked}x",
            f"Bearer {revoked[:-1]}",
            "Bearer tr_key_" + "A" * 43,
            "Bearer tr_key_",
            "Bearer tr_at_" + "A" * 43,
            "Bearer ast_" + "A" * 43,
            "Bearer tr_ses_" + "A" * 43,
            f"Bearer {home.tokens['deskapp']}",
            "Bearer tr_dev_" + "A" * 43,
        ]
    ]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.text for answer in answers}) == 1
