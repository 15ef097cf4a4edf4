"""Tenants: made by operators, set by their admins, and nothing told of those that are not one's own."""

import hashlib

import pytest

pytestmark = pytest.mark.anyio

OPS = "the-token-of-an-operator"
OPERATOR = {"callers": {"ops": {"kind": "operator", "token_sha256": hashlib.sha256(OPS.encode()).hexdigest()}}}


@pytest.fixture
async def home(house):
    async with house(identity=OPERATOR) as home:
        yield home


async def test_a_tenant_that_an_operator_makes_is_there_at_once_and_after_a_restart(house):
    async with house(identity=OPERATOR) as home:
        made = await home.did("CreateTenant", OPS, name="new-co")
        assert (made["name"], made["retention_days"], made["ai_label"], made["time_zone"]) == ("new-co", 90, "AI", "UTC")
        assert home.kernel.tenants() == ("default", "acme", "new-co")
        assert await home.did("ListPeople", OPS, tenant="new-co") == {"people": [], "cursor": ""}
        await home.did("CreatePerson", OPS, tenant="new-co", id="eve", role="admin")
        token = (await home.did("CreatePersonToken", OPS, tenant="new-co", id="eve"))["token"]
        assert (await home.caller(token)).tenant == "new-co"
        assert (await home.audited())[-1].action == "tenant.create"
    async with house(identity=OPERATOR) as home:
        assert home.kernel.tenants() == ("default", "acme", "new-co")
        assert [each["name"] for each in (await home.did("ListTenants", OPS))["tenants"]] == ["acme", "default", "new-co"]


async def test_a_name_that_is_there_or_nearly_is_taken(home):
    await home.did("CreateTenant", OPS, name="new-co")
    for name in ["default", "acme", "ACME", "new-co", "New_Co"]:
        assert (await home.refused("CreateTenant", OPS, name=name))[0] == 409, name


async def test_what_is_no_name_makes_no_tenant(home):
    for name in ["", "a b", "a/b", "-a", "x" * 64, "über", "$system", "\x00system"]:
        assert (await home.refused("CreateTenant", OPS, name=name))[0] == 400, name


async def test_nobody_of_a_tenant_makes_one(home):
    for who in ["rita", "anna", "omar", "ada", "key", "echo_key"]:
        assert (await home.refused("CreateTenant", who, name="mine"))[0] == 403, who
    assert "mine" not in home.kernel.tenants()


async def test_an_admin_sets_her_tenant_and_the_kernel_knows_at_once(house):
    changes = {
        "ai_label": "",
        "retention_days": 7,
        "audit_days": 30,
        "works_council": True,
        "public_url": "https://agents.example/app",
        "link_domain": ["example.com", "a.example.com"],
        "time_zone": "Europe/Berlin",
        "wait_seconds": 3600,
        "recheck_seconds": 0,
    }
    async with house() as home:
        shown = await home.did("UpdateTenant", name="default", **changes)
        settings = home.kernel.settings("default")
        assert (settings.ai_label, settings.retention_days, settings.works_council) == ("", 7, True)
        assert settings.link_domains == ("example.com", "a.example.com")
        assert shown == await home.did("GetTenant", name="default")
        assert (await home.did("UpdateTenant", name="default", retention_days=8))["audit_days"] == 30
        assert home.kernel.settings("acme").retention_days == 90
        entry = (await home.audited())[-1]
        assert (entry.action, entry.object, entry.details) == ("tenant.update", "default", {"retention_days": 8})
    async with house() as home:
        assert home.kernel.settings("default").retention_days == 8
        assert home.kernel.tenants() == ("default", "acme")


WRONG = [
    ("retention_days", 0),
    ("retention_days", -1),
    ("retention_days", 1_000_000),
    ("audit_days", 0),
    ("wait_seconds", 59),
    ("recheck_seconds", -1),
    ("ai_label", "x" * 41),
    ("ai_label", "A\nI"),
    ("ai_label", "\u202eIA"),
    ("public_url", "agents.example"),
    ("public_url", "javascript:alert(1)"),
    ("public_url", "https://u:p@x"),
    ("public_url", "https://x/?q=1"),
    ("public_url", "https://[::1"),
    ("public_url", "https://x/ y"),
    ("link_domain", ["https://x"]),
    ("link_domain", ["*.x"]),
    ("link_domain", ["X.example"]),
    ("link_domain", [f"h{n}.example" for n in range(101)]),
    ("time_zone", "Mars/Olympus"),
    ("time_zone", "../../etc/passwd"),
    ("time_zone", ""),
    ("time_zone", "\x00"),
]


async def test_a_setting_that_will_not_do_is_refused_by_name(home):
    for field, value in WRONG:
        status, said = await home.refused("UpdateTenant", name="default", **{field: value})
        assert (status, said.partition(":")[0]) == (400, field), value
    assert home.kernel.settings("default").retention_days == 90


async def test_an_unknown_setting_is_refused(home):
    status, said = await home.refused("UpdateTenant", name="default", retention=5)
    assert status == 400
    assert "retention" in said


async def test_origins_are_added_and_removed_in_one_form(home):
    given = ["https://app.example", "HTTPS://App.Example:443", "http://localhost:3000"]
    shown = await home.did("UpdateTenantOrigins", name="default", allow_origin=given)
    assert shown["allowed_origins"] == ["https://app.example", "http://localhost:3000"]
    assert home.kernel.settings("default").allowed_origins == ("https://app.example", "http://localhost:3000")
    shown = await home.did("UpdateTenantOrigins", name="default", remove_origin=["https://APP.example"])
    assert shown["allowed_origins"] == ["http://localhost:3000"]
    assert (await home.did("UpdateTenantOrigins", name="default"))["allowed_origins"] == ["http://localhost:3000"]


async def test_what_is_no_origin_is_not_allowed(home):
    for origin in ["*", "null", "", "app.example", "https://a/b", "https://*.a", "https://u@a"]:
        status, said = await home.refused("UpdateTenantOrigins", name="default", allow_origin=[origin])
        assert (status, said.startswith("allow_origin: ")) == (400, True), origin


async def test_settings_are_bounded(home):
    many = [f"https://h{n}.example" for n in range(101)]
    assert (await home.refused("UpdateTenantOrigins", name="default", allow_origin=many))[0] == 400


async def test_only_who_manages_a_tenant_changes_it(home):
    for who in ("rita", "anna", "omar", "key", "echo_key"):
        assert (await home.refused("UpdateTenant", who, name="default", retention_days=1))[0] == 403
        assert (await home.refused("UpdateTenantOrigins", who, name="default", allow_origin=["https://a"]))[0] == 403
    assert home.kernel.settings("default").retention_days == 90


@pytest.mark.req("IDN-8")
async def test_another_tenant_and_none_look_alike(home):
    for operation in ("GetTenant", "UpdateTenant", "UpdateTenantOrigins"):
        answers = {(await home.refused(operation, name=name))[1].replace(name, "T") for name in ("acme", "nowhere")}
        assert answers == {"no access to tenant 'T'"}, operation
    assert [each["name"] for each in (await home.did("ListTenants"))["tenants"]] == ["default"]


async def test_an_operator_changes_any_tenant_and_it_stands_in_that_tenants_trail(home):
    shown = await home.did("UpdateTenantOrigins", OPS, name="acme", allow_origin=["https://a.example"])
    assert (shown["name"], shown["allowed_origins"]) == ("acme", ["https://a.example"])
    assert home.kernel.settings("acme").allowed_origins == ("https://a.example",)
    assert [entry.action for entry in await home.audited("acme")] == ["tenant.cors"]
    assert "tenant.cors" not in [entry.action for entry in await home.audited()]
    assert (await home.refused("GetTenant", OPS, name="nowhere"))[0] == 404


async def test_tenants_are_listed_a_page_at_a_time(home):
    for n in range(5):
        await home.did("CreateTenant", OPS, name=f"t{n}")
    names, cursor = [], ""
    while True:
        page = await home.did("ListTenants", OPS, limit=3, cursor=cursor)
        names += [each["name"] for each in page["tenants"]]
        if not (cursor := page["cursor"]):
            break
    assert names == ["acme", "default", "t0", "t1", "t2", "t3", "t4"]


async def test_changes_at_once_are_all_kept(home):
    import anyio

    async def allow(n: int) -> None:
        await home.did("UpdateTenantOrigins", name="default", allow_origin=[f"https://h{n}.example"])

    async with anyio.create_task_group() as tasks:
        for n in range(20):
            tasks.start_soon(allow, n)
    assert len(home.kernel.settings("default").allowed_origins) == 20
