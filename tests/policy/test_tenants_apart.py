"""Two tenants on a real server: with no credential of one is anything of the other read, changed, or told from nothing."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest
from policy_kit import origin
from servers import Server

from transom_hookspecs import Caller, Origin, PublishEvent

pytestmark = [pytest.mark.anyio, pytest.mark.req("IDN-8")]

MARK = "x7mark"
"""Stands in everything of tenant `default`."""

AGENT = f"name: {MARK}-agent\nmodel: scripted\noptions:\n  script:\n    echo: true\n"
GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS = "urn:ietf:params:oauth:token-type:access_token"
EVE = "e" * 40


async def operation(client: httpx.AsyncClient, tenant: str, which: str, /, **body: Any) -> dict[str, Any]:
    answer = await client.post(f"/v1/operations/{which}", params={"tenant": tenant}, json=body)
    assert answer.status_code == 200, (which, answer.text)
    return answer.json()


async def furnish(server: Server) -> dict[str, str]:
    """Make one of everything in tenant `default`; what each is called."""
    async with server.client("ada") as ada:
        started = await ada.post("/v1/agents/helper/jobs", json=MARK, params={"id": f"{MARK}-job", "tags": MARK})
        assert started.status_code == 201
        planned = await ada.post("/v1/agents/planner/jobs", json=MARK, params={"id": f"{MARK}-board"})
        talked = await ada.post(
            "/v1/agents/echo/jobs", json=MARK, params={"id": f"{MARK}-turn", "conversation": f"{MARK}-talk"}
        )
        assert (planned.status_code, talked.status_code) == (201, 201)
        for name, body in {
            "CreatePerson": {"id": f"{MARK}-person", "role": "member"},
            "CreateTeam": {"name": f"{MARK}-team"},
            "CreateKey": {"name": f"{MARK}-key"},
            "RegisterApp": {"name": f"{MARK}-app"},
            "SetSecret": {"name": f"{MARK}-secret", "value": f"{MARK}-value", "host": ["h.example"]},
            "SetBudget": {"name": f"{MARK}-budget", "usd": 1.0},
            "SetWall": {"name": f"{MARK}-wall", "label": [MARK], "person": [f"{MARK}-person"]},
            "GrantAgent": {"agent": f"{MARK}-agent", "person": f"{MARK}-person"},
            "SetToolPolicy": {"function": f"{MARK}.x", "ruling": "refuse"},
        }.items():
            answer = await ada.post(f"/v1/operations/{name}", json=body)
            assert answer.status_code == 200, (name, answer.text)
        with anyio.fail_after(20):
            while not (waits := (await ada.get("/v1/approvals")).json()["approvals"]):
                await anyio.sleep(0.02)
        sessions = await operation(ada, "default", "ListSessions", person="ada")
        return {"wait": waits[0]["id"], "token": waits[0]["token"], "session": sessions["sessions"][0]["id"]}


@asynccontextmanager
async def credentials(server: Server) -> AsyncIterator[dict[str, httpx.AsyncClient]]:
    """A client with each kind of credential of tenant `acme`."""
    bearer: dict[str, str] = {"a configured admin": EVE, "the demo's key": server.tokens["acme_key"]}
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, headers={"Authorization": f"Bearer {EVE}"}) as eve:
        await operation(eve, "acme", "CreatePerson", id="bob", role="admin")
        await operation(eve, "acme", "SetPassword", id="bob", password="correct horse battery staple")
        bearer["a person"] = (await operation(eve, "acme", "CreatePersonToken", id="bob"))["token"]
        for name, more in {
            "full": {"role": "admin"},
            "scoped": {"scope": ["echo"]},
            "of-apps": {"capability": ["subjects"]},
        }.items():
            bearer[f"a key, {name}"] = (await operation(eve, "acme", "CreateKey", name=name, **more))["token"]
        app = (await operation(eve, "acme", "RegisterApp", name="desk"))["token"]
    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as anyone:
        form = {"grant_type": GRANT, "subject_token": bearer["a person"], "subject_token_type": ACCESS}
        exchanged = await anyone.post("/oauth/token", data=form, headers={"Authorization": f"Bearer {app}"})
        bearer["an app, for a person"] = exchanged.json()["access_token"]
        of_apps = {"Authorization": f"Bearer {bearer['a key, of-apps']}"}
        subject = await anyone.post(
            "/v1/operations/CreateSubjectToken", params={"tenant": "acme"}, json={"subject": "s"}, headers=of_apps
        )
        bearer["a subject"] = subject.json()["token"]
        word = {"person": "bob", "password": "correct horse battery staple"}
        signed_in = await anyone.post("/v1/sessions", params={"tenant": "acme"}, json=word)
        cookie = signed_in.headers["set-cookie"].partition(";")[0]
        page = {"Cookie": cookie, "Origin": server.url, "Sec-Fetch-Site": "same-origin"}
    heads = {who: {"Authorization": f"Bearer {token}"} for who, token in bearer.items()} | {"a session": page}
    clients = {who: httpx.AsyncClient(base_url=server.url, trust_env=False, headers=head) for who, head in heads.items()}
    try:
        yield clients
    finally:
        for client in clients.values():
            await client.aclose()


def requests(there: dict[str, str]) -> list[tuple[str, str, Any]]:
    """Reading and changing each object: method, path, body. `{X}` becomes its name, or that of nothing."""
    job = ["", "/events", "/board", "/trace", "/wait"]
    paths = [("GET", f"/v1/jobs/{{{MARK}-job}}{part}", None) for part in job]
    paths += [("GET", f"/v1/jobs/{{{MARK}-{name}}}/board", None) for name in ("board", "turn")]
    paths += [("POST", f"/v1/jobs/{{{MARK}-job}}/{word}", {}) for word in ("cancel", "tags")]
    for name in ("wait", "token"):
        paths += [("POST", f"/v1/approvals/{{{there[name]}}}/{word}", {}) for word in ("approve", "deny")]
        paths += [("POST", f"/v1/approvals/{{{there[name]}}}/answer", {"answer": "x"})]
        paths += [("POST", f"/v1/approvals/{{{there[name]}}}/edit", {"arguments": {}})]
    paths += [("POST", f"/v1/agents/{{{MARK}-agent}}/jobs", "hi")]
    paths += [("POST", f"/v1/agents/echo/jobs?continue_from={{{MARK}-turn}}", "hi")]
    paths += [("GET", f"/v1/approvals?job={{{MARK}-job}}", None)]
    operations = {
        "GetWait": {"wait": f"{{{there['wait']}}}"},
        "DecideTogether": {"tree": f"{{{MARK}-job}}", "decisions": [{"wait": f"{{{there['wait']}}}", "approved": True}]},
        "DisableAgent": {"agent": f"{{{MARK}-agent}}"},
        "GrantAgent": {"agent": f"{{{MARK}-agent}}", "person": "bob"},
        "RemoveGrant": {"agent": f"{{{MARK}-agent}}", "person": f"{MARK}-person"},
        "RemoveToolPolicy": {"function": f"{{{MARK}.x}}"},
        "RemoveWall": {"name": f"{{{MARK}-wall}}"},
        "RevokeKey": {"name": f"{{{MARK}-key}}"},
        "RevokeApp": {"name": f"{{{MARK}-app}}"},
        "DeleteSecret": {"name": f"{{{MARK}-secret}}"},
        "DeleteBudget": {"name": f"{{{MARK}-budget}}"},
        "DeleteTeam": {"name": f"{{{MARK}-team}}"},
        "AddTeamMember": {"team": f"{{{MARK}-team}}", "person": "bob"},
        "UpdatePerson": {"id": f"{{{MARK}-person}}", "role": "reader"},
        "DisablePerson": {"id": f"{{{MARK}-person}}"},
        "CreatePersonToken": {"id": f"{{{MARK}-person}}"},
        "EndSession": {"id": f"{{{there['session']}}}"},
        "ListSessions": {"person": f"{{{MARK}-person}}"},
        "ExplainPermission": {"caller": "person:bob", "action": "jobs.cancel", "object": f"{{{MARK}-job}}"},
    }
    return paths + [("POST", f"/v1/operations/{name}", body) for name, body in operations.items()]


LISTS = ["/v1/jobs", "/v1/approvals", "/v1/agents"]
LISTED = [
    "ListPeople",
    "ListTeams",
    "ListKeys",
    "ListApps",
    "ListSecrets",
    "ListBudgets",
    "ListQuotas",
    "ListGrants",
    "ListAgentRules",
    "ListToolPolicy",
    "ListWalls",
    "ListTainted",
    "ListTenants",
    "ListAudit",
    "ExportAudit",
]


async def asked(client: httpx.AsyncClient, tenant: str, request: tuple[str, str, Any], *, there: bool) -> tuple[int, str]:
    """The status and body of an answer about what is there, or about nothing, with the name taken out."""
    method, path, body = request
    text = json.dumps(body)
    names = set(re.findall(r"\{([^{}\":]+)\}", path + text))
    for name in names:
        put = name if there else name[:-4] + "0000"
        path, text = path.replace(f"{{{name}}}", put), text.replace(f"{{{name}}}", put)
    content = None if body is None else text
    answer = await client.request(
        method, path, params={"tenant": tenant}, content=content, headers={"Content-Type": "application/json"}
    ) if "?" not in path else await client.request(
        method, f"{path}&tenant={tenant}", content=content, headers={"Content-Type": "application/json"}
    )  # fmt: skip
    said = answer.text
    for name in names:
        said = said.replace(name if there else name[:-4] + "0000", "NAME")
    return answer.status_code, said


async def test_nothing_of_a_tenant_is_reached_with_any_credential_of_another(tmp_path) -> None:
    bundle = tmp_path / "only" / "agents"
    bundle.mkdir(parents=True)
    (bundle / "agent.yaml").write_text(AGENT)
    settings = tmp_path / "transom.toml"
    settings.write_text(
        f'tenants = ["default", "acme"]\nbundle = ["{tmp_path / "only"}"]\n[bundles.only]\ntenants = ["default"]\n'
        '[identity.callers.eve]\nkind = "person"\nrole = "admin"\ntenant = "acme"\ntoken_env = "EVE_TOKEN"\n'
    )
    server = await Server(tmp_path / "data", TRANSOM_CONFIG=str(settings), EVE_TOKEN=EVE).start()
    try:
        there = await furnish(server)
        before = await state(server)
        async with credentials(server) as clients:
            for who, client in clients.items():
                await check_lists(who, client)
            for who, client in clients.items():
                for request in requests(there):
                    await check(who, client, request)
            taken = await clients["a key, full"].post(f"/v1/agents/echo/jobs?tenant=acme&id={MARK}-job", json="mine")
            assert taken.status_code == 201, "a name in one tenant is free in another"
        assert await state(server) == before
    finally:
        server.stop()


async def check_lists(who: str, client: httpx.AsyncClient) -> None:
    """What lists show of the own tenant has nothing of the other; nor is the other there to ask for."""
    names = [await other_tenant(client, name) for name in ("default", "nowhere")]
    assert names[0] == names[1], who
    for path in LISTS:
        assert MARK not in (await client.get(path, params={"tenant": "acme"})).text, (who, path)
    for name in LISTED:
        listed = await client.post(f"/v1/operations/{name}", params={"tenant": "acme"}, json={})
        assert listed.status_code in (200, 403), (who, name, listed.text)
        assert MARK not in listed.text, (who, name)


async def check(who: str, client: httpx.AsyncClient, request: tuple[str, str, Any]) -> None:
    """In the other tenant everything is refused; in the own one, what is the other's is not there."""
    method, path, _ = request
    refused = await asked(client, "default", request, there=True)
    assert refused[0] == 403, (who, method, path, refused)
    assert refused == await asked(client, "default", request, there=False), (who, method, path)
    assert refused == await asked(client, "default", request, there=True), (who, method, path)
    own = await asked(client, "acme", request, there=True)
    assert own == await asked(client, "acme", request, there=False), (who, method, path)
    assert own[0] in (400, 403, 404) or (own[0] == 200 and own[1] == '{"sessions":[]}'), (who, method, path, own)
    nowhere = await asked(client, "nowhere", request, there=True)
    assert (nowhere[0], nowhere[1].replace("nowhere", "default")) == refused, (who, method, path)


async def other_tenant(client: httpx.AsyncClient, name: str) -> tuple[int, str]:
    """What is said of another tenant's settings, with its name taken out."""
    answer = await client.post("/v1/operations/GetTenant", params={"tenant": "acme"}, json={"name": name})
    assert answer.status_code in (403, 404)
    return answer.status_code, answer.text.replace(name, "NAME")


async def state(server: Server) -> list[Any]:
    """What tenant `default` holds, as its admin sees it."""
    async with server.client("ada") as ada:
        job = (await ada.get(f"/v1/jobs/{MARK}-job")).json()
        names = [name for name in LISTED if name not in ("ListAudit", "ExportAudit")]
        return [job, *[await operation(ada, "default", name) for name in names]]


async def test_an_event_of_one_tenant_wakes_nobody_in_another(house) -> None:
    async def waiter(ctx, input):
        return await ctx.wait_for_event("hook")

    async with house(waiter) as home:
        await home.start("waiter")
        await home.until("job", "waiting")
        published = PublishEvent(source="hook", payload={})
        boss = Origin(tenant="acme", caller=Caller(kind="operator", id="local"), door="test")
        assert (await home.do(boss, published)).jobs == ()
        assert (await home.do(origin("omar"), published)).jobs == ("job",)
