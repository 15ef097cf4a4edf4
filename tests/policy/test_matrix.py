"""The matrix: every operation of the table, by every kind of caller, in the caller's tenant, another and none.

`ROWS` says of each operation which request is made and from which role on it is permitted. An operation without a row
fails the test. Requests name what is not there, so that whoever is permitted is told that, and nothing changes.
"""

from typing import NamedTuple

import anyio
import msgspec
import pytest
from kernel_kit import agents_plugin

from transom.plugins import installed
from transom_hookspecs import Caller, DecideApproval, Origin, Rule, StartJob, TransomError, Wait, function, tool

pytestmark = [pytest.mark.anyio, pytest.mark.req("IDN-1")]

NOBODY = "nobody-1"


class Row(NamedTuple):
    """From which role on (`capability`: what only some keys have); whether also for limited keys and apps; the request."""

    role: str
    data: dict = {}
    agents: bool = False


JOB, WAIT = {"id": "job"}, {"wait": "WAIT"}
ROWS = {
    "AddTeamMember": Row("admin", {"team": NOBODY, "person": NOBODY}),
    "AllowTainted": Row("admin", {"function": "t.act", "agent": NOBODY}),
    "ApproveSecretEnv": Row("operator", {"tool": NOBODY, "name": NOBODY}),
    "CancelJob": Row("operator", JOB, agents=True),
    "CreateKey": Row("admin", {"name": "a b"}),
    "CreatePerson": Row("admin", {"id": "a b"}),
    "CreatePersonToken": Row("admin", {"id": NOBODY}),
    "CreateSubjectToken": Row("capability", {"subject": "s", "expires_in": 1}),
    "CreateTeam": Row("admin", {"name": "a b"}),
    "CreateTenant": Row("process", {"name": "a b"}),
    "DecideApproval": Row("operator", WAIT | {"approved": True}, agents=True),
    "DecideTogether": Row("operator", {"tree": "job", "decisions": [WAIT | {"approved": True}]}, agents=True),
    "DeleteBudget": Row("admin", {"name": NOBODY}),
    "DeleteQuota": Row("admin", {"kind": "tenant", "name": NOBODY, "what": "jobs", "window": "day"}),
    "DeleteSecret": Row("admin", {"name": NOBODY}),
    "DeleteTeam": Row("admin", {"name": NOBODY}),
    "DisableAgent": Row("operator", {"agent": NOBODY}),
    "DisablePerson": Row("admin", {"id": NOBODY}),
    "EditWait": Row("operator", WAIT | {"arguments": {}}, agents=True),
    "EnableAgent": Row("operator", {"agent": NOBODY}),
    "EnablePerson": Row("admin", {"id": NOBODY}),
    "EndSession": Row("admin", {"id": NOBODY}),
    "ExplainPermission": Row("operator", {"caller": "person:x", "action": "jobs.read", "object": ""}),
    "ExportAudit": Row("admin"),
    "GetCatalog": Row("reader", agents=True),
    "GetJob": Row("reader", JOB, agents=True),
    "GetJobBoard": Row("reader", JOB, agents=True),
    "GetJobTrace": Row("reader", JOB, agents=True),
    "GetJobWait": Row("reader", JOB, agents=True),
    "GetOpenApi": Row("reader", agents=True),
    "GetTenant": Row("operator", {"name": "default"}),
    "GetWait": Row("reader", WAIT, agents=True),
    "GrantAgent": Row("admin", {"agent": NOBODY}),
    "ListAgentRules": Row("operator"),
    "ListApprovals": Row("reader", agents=True),
    "ListApps": Row("admin"),
    "ListAudit": Row("admin"),
    "ListBudgets": Row("operator"),
    "ListGrants": Row("operator"),
    "ListJobs": Row("reader", agents=True),
    "ListKeys": Row("admin"),
    "ListPeople": Row("operator"),
    "ListPermissions": Row("operator"),
    "ListPrices": Row("operator"),
    "ListQuotas": Row("operator"),
    "ListSecrets": Row("operator"),
    "ListSessions": Row("admin", {"person": NOBODY}),
    "ListTainted": Row("operator"),
    "ListTeams": Row("operator"),
    "ListTenants": Row("operator"),
    "ListToolPolicy": Row("operator"),
    "ListWalls": Row("operator"),
    "PublishEvent": Row("operator", {"source": "s"}),
    "RegisterApp": Row("admin", {"name": "a b"}),
    "RemoveGrant": Row("admin", {"agent": NOBODY}),
    "RemoveTainted": Row("admin", {"function": "t.act", "agent": NOBODY}),
    "RemoveTeamMember": Row("admin", {"team": NOBODY, "person": NOBODY}),
    "RemoveToolPolicy": Row("admin", {"function": "t.act"}),
    "RemoveWall": Row("admin", {"name": NOBODY}),
    "RestrictAgent": Row("admin", {"agent": NOBODY}),
    "RetireAgent": Row("operator", {"agent": NOBODY}),
    "RevokeApp": Row("admin", {"name": NOBODY}),
    "RevokeKey": Row("admin", {"name": NOBODY}),
    "RotateSecretKey": Row("operator of the process"),
    "RunRetention": Row("admin"),
    "SetBudget": Row("admin", {"name": "a b"}),
    "SetJobTags": Row("operator", JOB, agents=True),
    "SetPassword": Row("admin", {"id": NOBODY, "password": "correct horse battery"}),
    "SetPrice": Row("admin", {"model": ""}),
    "SetQuota": Row("admin", {"kind": "tenant", "name": "", "what": "jobs", "window": "day", "limit": -1}),
    "SetSecret": Row("admin", {"name": "a b", "value": "x"}),
    "SetToolPolicy": Row("admin", {"function": "", "ruling": "refuse"}),
    "SetWall": Row("admin", {"name": "a b"}),
    "StartJob": Row("member", {"agent": "asks", "timeout": 0.0}, agents=True),
    "UpdatePerson": Row("admin", {"id": NOBODY}),
    "UpdateTenant": Row("admin", {"name": "default"}),
    "UpdateTenantOrigins": Row("admin", {"name": "default"}),
    "VerifyAudit": Row("admin"),
    "WatchJob": Row("member", JOB, agents=True),
}

ROLES = ("reader", "member", "operator", "admin")
OF_NO_TENANT = ("process", "runtime")


def caller(kind: str, id: str, **more) -> Caller:
    return Caller(kind=kind, id=id, tenant=more.pop("tenant", "default"), **more)


CALLERS: dict[str, tuple[Caller, str, bool]] = {  # who, the role, and whether limited to what is about agents
    **{f"a {role}": (caller("person", f"p-{role}"), role, False) for role in ROLES},
    **{f"a key, {role}": (caller("key", f"k-{role}"), role, False) for role in ROLES},
    "a service, member": (caller("service", "s-member"), "member", False),
    "a key of admins for the agent": (caller("key", "k-scoped", scopes=("asks",)), "admin", True),
    "an admin through an app": (caller("person", "p-admin", via="app:deskapp"), "admin", True),
    "a member through an app": (caller("person", "p-member", via="app:deskapp"), "member", True),
    "an app by itself": (caller("service", "deskapp"), "", False),
    "a subject": (caller("subject", "somebody", via="key:k-admin"), "", False),
    "a person that is none here": (caller("person", "stranger"), "", False),
    "a person that was disabled": (caller("person", "rita"), "", False),
    "a key that is none here": (caller("key", "k-other", tenant="default"), "", False),
    "an app's person, when the app is none here": (caller("person", "p-admin", via="app:gone"), "", False),
    "an operator of the process": (Caller(kind="operator", id="local"), "process", False),
    "the runtime": (Caller(kind="system", id="clock"), "runtime", False),
}
OTHERS = {
    "an admin of another tenant": caller("person", "p-other", tenant="acme"),
    "a key of another tenant": caller("key", "acme_key", tenant="acme"),
    "an admin, by name, of another tenant": caller("person", "p-admin", tenant="acme"),
    "a person of no tenant": caller("person", "p-admin", tenant=""),
    "a person of a tenant that is none": caller("person", "p-admin", tenant="nowhere"),
}


def permitted(row: Row, role: str, limited: bool) -> bool:
    if row.role == "capability":
        return False
    if role in OF_NO_TENANT:
        return role == "process" or row.role != "operator of the process"
    if row.role not in ROLES or role not in ROLES:
        return False
    return ROLES.index(role) >= ROLES.index(row.role) and (row.agents or not limited)


async def asks(ctx, input):
    return await ctx.call("t.act")


async def act() -> str:
    return "acted"


def identity() -> dict:
    people = {c.id: {"kind": c.kind, "role": role} for c, role, _ in CALLERS.values() if role in ROLES and not c.via}
    people["p-other"] = {"kind": "person", "role": "admin", "tenant": "acme"}
    people["k-scoped"]["scopes"] = ["asks"]
    return {name: {**settings, "token_sha256": f"{i:064x}"} for i, (name, settings) in enumerate(people.items(), 1)}


async def outcome(k, operation, request, origin: Origin) -> str:
    try:
        await k.call(operation.name, request, origin)
    except TransomError as error:
        return error.code
    return "ok"


def everything() -> list[str]:
    return [found.name for found in installed() if found.distribution == "transom"]


async def test_every_operation_by_every_caller_in_every_tenant(kernel) -> None:
    tools = (tool("t", function(act, open_world=False, approval=Rule(edit=True))),)
    plugins = [agents_plugin(asks, tools=tools), *everything()]
    config = {"dev": True, "tenants": ["default", "acme"], "identity": {"callers": identity()}}
    async with kernel(plugins=plugins, jobs=False, config=config) as k:
        assert set(ROWS) == set(k.operations), "a row for each operation, and no more"
        boss = Origin(tenant="default", caller=CALLERS["an operator of the process"][0], door="test")
        await k.call("DisablePerson", k.operations["DisablePerson"].request(id="rita"), boss)
        await k.call("StartJob", StartJob(agent="asks", id="job"), boss)
        wait = await first_wait(k)
        await k.call("DecideApproval", DecideApproval(wait=wait, approved=False), boss)

        wrong = []
        for name, operation in k.operations.items():
            row = ROWS[name]
            data = msgspec.json.decode(msgspec.json.encode(row.data).replace(b"WAIT", wait.encode()))
            request = msgspec.convert(data, operation.request)
            for who, (each, role, limited) in CALLERS.items():
                for tenant in ("default", "nowhere") if role in OF_NO_TENANT else ("default", "acme", "nowhere"):
                    made = await outcome(k, operation, request, Origin(tenant=tenant, caller=each, door="test"))
                    if tenant == "nowhere" and role in OF_NO_TENANT:
                        expected = made == "not_found"
                    else:
                        expected = (made not in ("permission_denied", "internal")) == (
                            tenant == "default" and permitted(row, role, limited)
                        )
                    wrong += [] if expected else [(name, who, tenant, made)]
            for who, each in OTHERS.items():
                made = await outcome(k, operation, request, Origin(tenant="default", caller=each, door="test"))
                wrong += [] if made == "permission_denied" else [(name, who, "default", made)]
        assert not wrong


async def first_wait(k) -> str:
    with anyio.fail_after(10):
        while not (found := await k.store.select("default", Wait, "open", {"open": True})):
            await anyio.sleep(0.005)
    return found[0].id
